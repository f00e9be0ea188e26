#include "strata/data/tf_record.h"

#include <array>

#include "core/crc32c.h"
#include "data/bytes.h"
#include "data/files/buffered_reader.h"
#include "data/files/files_source.h"
#include "data/files/tf_record_format.h"
#include "strata/core/log.h"

namespace strata::data {
namespace {

using detail::kRecordFooter;
using detail::kRecordHeader;

class Records final : public detail::FileElements {
 public:
  Records(const std::string& path, const TfRecordOptions& options)
      : path_(path),
        options_(options),
        bytes_(detail::open_byte_reader(path, compression_of(path, options.compression)),
               options.buffer_size) {}

  bool next(Example& out) override {
    if (!options_.skip_damaged) return read(out);
    for (;;) {
      try {
        return read(out);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kDataLoss) throw;
        if (options_.damaged) options_.damaged->fetch_add(1, std::memory_order_relaxed);
        if (!warned_)
          STRATA_LOG(kWarning) << error.what() << "; skipped, and so is what else is damaged there";
        warned_ = true;
      }
    }
  }

  bool skip_one() override {
    if (options_.skip_damaged) {  // which records count is known after reading them
      Example passed;
      return next(passed);
    }
    uint64_t length = 0;
    if (!read_header(length)) return false;
    pass_over(length);
    return true;
  }

  std::vector<int64_t> place() const override {
    return {static_cast<int64_t>(bytes_.offset()), record_, searching_ ? 1 : 0};
  }

  void go_to(std::span<const int64_t> place) override {
    detail::seek_saved_offset(bytes_, path_, place[0]);
    record_ = place[1];
    searching_ = place[2] != 0;
  }

 private:
  // A plain file whose first length has its checksum is plain, whatever its first bytes look like.
  static Compression compression_of(const std::string& path, Compression wanted) {
    if (wanted != Compression::kAuto) return wanted;
    std::array<std::byte, kRecordHeader> start{};
    const size_t got = file_system_of(path).open(path)->read(0, start);
    uint64_t length = 0;
    if (got == start.size() &&
        detail::parse_record_header(reinterpret_cast<const char*>(start.data()), length))
      return Compression::kNone;
    const int a = std::to_integer<int>(start[0]), b = std::to_integer<int>(start[1]);
    if (a == 0x1F && b == 0x8B) return Compression::kGzip;
    constexpr int kDeflate = 8;
    if (got >= 2 && (a & 0x0F) == kDeflate && a >> 4 <= 7 && (a * 256 + b) % 31 == 0)
      return Compression::kZlib;
    return Compression::kNone;
  }

  void pass_over(uint64_t length) {
    const uint64_t wanted = length + kRecordFooter;
    const uint64_t got = bytes_.skip(wanted);
    if (got < wanted) fail_truncated(length, got);
    ++record_;
  }

  [[noreturn]] void pass_too_large(uint64_t length) {
    pass_over(length);
    throw Error(ErrorCode::kResourceExhausted,
                str_cat(where(start_, record_ - 1), "got a record of ", length,
                        " bytes; expected at most ", options_.max_record_bytes,
                        "; raise TfRecordOptions::max_record_bytes if it is meant"));
  }

  bool read(Example& out) {
    uint64_t length = 0;
    if (!read_header(length)) return false;
    if (length > options_.max_record_bytes) pass_too_large(length);
    const auto size = static_cast<size_t>(length);
    at::Tensor record = detail::empty_tensor({static_cast<int64_t>(size)}, at::kByte);
    auto* data = static_cast<char*>(record.mutable_data_ptr());
    const size_t got = bytes_.read(data, size);
    std::array<char, kRecordFooter> footer{};
    const size_t got_footer = got < size ? 0 : bytes_.read(footer.data(), footer.size());
    if (got_footer < footer.size()) fail_truncated(length, got + got_footer);
    ++record_;
    const uint32_t expected = detail::little_endian<uint32_t>(footer.data());
    const uint32_t crc = mask_crc32c(crc32c(data, size));
    if (crc != expected) [[unlikely]] {
      throw Error(ErrorCode::kDataLoss,
                  str_cat(where(start_, record_ - 1), "got checksum ", crc, " of the ", size,
                          " bytes of data; expected ", expected, "; the record is damaged"));
    }
    out.fields.clear();
    out.fields.push_back(std::move(record));
    return true;
  }

  // @return false at the end of the file; else the reader is behind the header.
  bool read_header(uint64_t& length) {
    if (searching_ && !search()) return false;
    start_ = bytes_.offset();
    const std::span<const char> header = bytes_.peek(kRecordHeader);
    if (header.empty()) return false;
    if (header.size() < kRecordHeader) {
      bytes_.consume(header.size());
      throw Error(ErrorCode::kDataLoss,
                  str_cat(where(start_, record_), "got the end of the file after ", header.size(),
                          " bytes; expected the ", kRecordHeader,
                          " bytes of a record's header; the file is truncated"));
    }
    if (!detail::parse_record_header(header.data(), length)) {
      bytes_.consume(1);
      searching_ = true;
      throw Error(ErrorCode::kDataLoss,
                  str_cat(where(start_, record_),
                          "got a record's length with a wrong checksum; expected a TFRecord; ",
                          start_ == 0 ? "this is no TFRecord file, or its beginning is damaged"
                                      : "the file is damaged there"));
    }
    bytes_.consume(kRecordHeader);
    if (length > bytes_.bytes_left_bound()) {
      searching_ = true;
      throw Error(ErrorCode::kDataLoss,
                  str_cat(where(start_, record_), "got a record of ", length,
                          " bytes; expected no more than the ", bytes_.bytes_left_bound(),
                          " that can follow; the file is truncated"));
    }
    return true;
  }

  // Moves to the next header whose checksum is right. One in 2^32 places looks so by chance; the
  // checksum of the data then says so.
  bool search() {
    for (;;) {
      const std::span<const char> ahead = bytes_.peek(kRecordHeader);
      if (ahead.size() < kRecordHeader) {
        bytes_.consume(ahead.size());
        searching_ = false;
        return false;
      }
      for (size_t i = 0; i + kRecordHeader <= ahead.size(); ++i) {
        uint64_t length = 0;
        if (!detail::parse_record_header(ahead.data() + i, length)) continue;
        if (length > bytes_.bytes_left_bound() - i) continue;
        bytes_.consume(i);
        searching_ = false;
        return true;
      }
      bytes_.consume(ahead.size() - kRecordHeader + 1);
    }
  }

  [[noreturn]] void fail_truncated(uint64_t length, uint64_t got) {
    throw Error(ErrorCode::kDataLoss,
                str_cat(where(start_, record_), "got the end of the file after ", got,
                        " bytes; expected a record of ", length, " bytes and ", kRecordFooter,
                        " of checksum; the file is truncated"));
  }

  std::string where(uint64_t offset, int64_t record) const {
    return str_cat("[data] tf_records: ", path_, ", offset ", offset, ", record ", record, ": ");
  }

  std::string path_;
  const TfRecordOptions& options_;
  detail::BufferedReader bytes_;
  uint64_t start_ = 0;  // of the record that was read last
  int64_t record_ = 0;
  bool searching_ = false;
  bool warned_ = false;
};

}  // namespace

Dataset tf_records(std::vector<std::string> files, const TfRecordOptions& options) {
  STRATA_CHECK(options.buffer_size >= 1, kInvalidArgument,
               "[data] tf_records: got buffer_size 0; expected at least 1 byte");
  const auto shared = std::make_shared<const TfRecordOptions>(options);
  return detail::files_dataset(
      {.name = "tf_records",
       .place_size = 3,
       .spec = {{.shape = {-1}, .dtype = at::kByte}},
       .open =
           [shared](const std::string& path) { return std::make_unique<Records>(path, *shared); }},
      std::move(files), "tf_records");
}

}  // namespace strata::data
