#include <array>

#include "data/files/byte_writer.h"
#include "data/files/tf_record_format.h"
#include "strata/core/error.h"
#include "strata/data/tf_record.h"

namespace strata::data {

struct TfRecordWriter::Impl {
  std::unique_ptr<detail::ByteWriter> bytes;
};

TfRecordWriter::TfRecordWriter(const std::string& path, const TfRecordWriterOptions& options) {
  STRATA_CHECK(options.compression != Compression::kAuto, kInvalidArgument,
               "[data] TfRecordWriter: got compression kAuto; expected kNone, kGzip or kZlib");
  STRATA_CHECK(options.level >= -1 && options.level <= 9, kInvalidArgument,
               "[data] TfRecordWriter: got level ", options.level,
               "; expected 0 to 9, or -1 for zlib's own");
  impl_ = std::make_unique<Impl>();
  impl_->bytes = detail::create_byte_writer(path, options.compression, options.level);
}

TfRecordWriter::~TfRecordWriter() {
  if (!impl_ || !impl_->bytes) return;
  try {
    close();
  } catch (...) {  // NOLINT(bugprone-empty-catch): documented; `close` reports
  }
}

TfRecordWriter::TfRecordWriter(TfRecordWriter&&) noexcept = default;
TfRecordWriter& TfRecordWriter::operator=(TfRecordWriter&& other) noexcept {
  impl_.swap(other.impl_);  // `other`'s destructor closes the old file
  return *this;
}

void TfRecordWriter::write(std::string_view record) {
  STRATA_CHECK(impl_ && impl_->bytes, kFailedPrecondition,
               "[data] TfRecordWriter::write: got a record after close; expected none");
  std::array<char, detail::kRecordHeader> header{};
  detail::put_little_endian<uint64_t>(record.size(), header.data());
  detail::put_little_endian<uint32_t>(mask_crc32c(crc32c(header.data(), 8)), header.data() + 8);
  std::array<char, detail::kRecordFooter> footer{};
  detail::put_little_endian<uint32_t>(mask_crc32c(crc32c(record.data(), record.size())),
                                      footer.data());
  impl_->bytes->write(header);
  impl_->bytes->write(record);
  impl_->bytes->write(footer);
}

void TfRecordWriter::close() {
  STRATA_CHECK(impl_ && impl_->bytes, kFailedPrecondition,
               "[data] TfRecordWriter::close: got a second call; expected one");
  const auto bytes = std::move(impl_->bytes);
  bytes->close();
}

}  // namespace strata::data
