#include "data/files/byte_writer.h"

#include <vector>

namespace strata::data::detail {
namespace {

// Few large writes instead of many small ones.
class PlainWriter final : public ByteWriter {
 public:
  explicit PlainWriter(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {
    buffer_.reserve(kBufferSize);
  }

  void write(std::span<const char> bytes) override {
    if (buffer_.size() + bytes.size() > kBufferSize) flush();
    if (bytes.size() >= kBufferSize) {
      file_->append(std::as_bytes(bytes));
    } else {
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    }
  }

  void close() override {
    flush();
    file_->close();
  }

 private:
  static constexpr size_t kBufferSize = 256 * 1024;

  void flush() {
    file_->append(std::as_bytes(std::span(buffer_)));
    buffer_.clear();
  }

  std::unique_ptr<WritableFile> file_;
  std::vector<char> buffer_;
};

}  // namespace

std::unique_ptr<ByteWriter> create_byte_writer(const std::string& path, Compression compression,
                                               int level) {
  std::unique_ptr<WritableFile> file = file_system_of(path).create(path);
  if (compression == Compression::kNone) return std::make_unique<PlainWriter>(std::move(file));
  return create_gzip(std::move(file), compression, level, path);
}

}  // namespace strata::data::detail
