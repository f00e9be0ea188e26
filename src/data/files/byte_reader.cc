#include "data/files/byte_reader.h"

#include <algorithm>
#include <array>
#include <vector>

#include "strata/core/error.h"

namespace strata::data::detail {
namespace {

class PlainReader final : public ByteReader {
 public:
  explicit PlainReader(std::unique_ptr<ReadableFile> file)
      : file_(std::move(file)), file_size_(file_->size()) {}

  size_t read(void* out, size_t size) override {
    const size_t got = read_at(*file_, offset_, {static_cast<std::byte*>(out), size});
    offset_ += got;
    return got;
  }
  uint64_t skip(uint64_t size) override {
    const uint64_t skipped = std::min(size, file_size_ - std::min(offset_, file_size_));
    offset_ += skipped;
    return skipped;
  }
  uint64_t size_bound() const override { return file_size_; }

 private:
  std::unique_ptr<ReadableFile> file_;
  uint64_t file_size_;
  uint64_t offset_ = 0;
};

bool starts_as_gzip(const ReadableFile& file) {
  std::array<std::byte, 2> start{};
  const size_t got = file.read(0, start);
  return got == start.size() && start[0] == std::byte{0x1F} && start[1] == std::byte{0x8B};
}

}  // namespace

uint64_t ByteReader::skip(uint64_t size) {
  std::vector<char> passed(static_cast<size_t>(std::min<uint64_t>(size, 1 << 16)));
  uint64_t skipped = 0;
  while (skipped < size) {
    const size_t step = static_cast<size_t>(std::min<uint64_t>(size - skipped, passed.size()));
    const size_t got = read(passed.data(), step);
    skipped += got;
    if (got < step) break;
  }
  return skipped;
}

size_t read_at(const ReadableFile& file, uint64_t offset, std::span<std::byte> out) {
  try {
    return file.read(offset, out);
  } catch (const Error& error) {
    throw Error(error.code(), str_cat(error.what(), " (reading at offset ", offset, ")"));
  }
}

std::unique_ptr<ByteReader> open_byte_reader(const std::string& path, Compression compression) {
  std::unique_ptr<ReadableFile> file = file_system_of(path).open(path);
  if (compression == Compression::kAuto)
    compression = starts_as_gzip(*file) ? Compression::kGzip : Compression::kNone;
  if (compression == Compression::kNone) return std::make_unique<PlainReader>(std::move(file));
  return open_gzip(std::move(file), compression, path);
}

}  // namespace strata::data::detail
