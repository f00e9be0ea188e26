#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "data/files/byte_writer.h"
#include "strata/core/error.h"

namespace strata::data::detail {
namespace {

class GzipWriter final : public ByteWriter {
 public:
  GzipWriter(std::unique_ptr<WritableFile> file, Compression compression, int level)
      : file_(std::move(file)) {
    constexpr int kGzip = 16;
    constexpr int kMemory = 8;  // zlib's own default
    const int bits = MAX_WBITS + (compression == Compression::kGzip ? kGzip : 0);
    STRATA_CHECK(deflateInit2(&zlib_, level, Z_DEFLATED, bits, kMemory, Z_DEFAULT_STRATEGY) == Z_OK,
                 kResourceExhausted,
                 "[data] gzip: zlib cannot start: ", zlib_.msg ? zlib_.msg : "out of memory");
  }
  ~GzipWriter() override { deflateEnd(&zlib_); }

  void write(std::span<const char> bytes) override {
    while (!bytes.empty()) {
      const size_t step = std::min<size_t>(bytes.size(), std::numeric_limits<uInt>::max() / 2);
      zlib_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      zlib_.avail_in = static_cast<uInt>(step);
      while (zlib_.avail_in > 0) deflate_some(Z_NO_FLUSH);
      bytes = bytes.subspan(step);
    }
  }

  void close() override {
    while (deflate_some(Z_FINISH) != Z_STREAM_END) {
    }
    file_->close();
  }

 private:
  int deflate_some(int flush) {
    zlib_.next_out = output_.data();
    zlib_.avail_out = static_cast<uInt>(output_.size());
    const int status = deflate(&zlib_, flush);
    STRATA_DCHECK(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR);
    file_->append(std::as_bytes(std::span(output_.data(), output_.size() - zlib_.avail_out)));
    return status;
  }

  std::unique_ptr<WritableFile> file_;
  z_stream zlib_{};
  std::array<unsigned char, 1 << 16> output_;
};

}  // namespace

std::unique_ptr<ByteWriter> create_gzip(std::unique_ptr<WritableFile> file, Compression compression,
                                        int level, const std::string&) {
  return std::make_unique<GzipWriter>(std::move(file), compression, level);
}

}  // namespace strata::data::detail
