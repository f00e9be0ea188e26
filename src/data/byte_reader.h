#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace strata::data::detail {

/// A file's bytes in order, decompressed if need be.
class ByteReader {
 public:
  virtual ~ByteReader() = default;

  /// Reads `size` bytes to `out`. @return how many there were: fewer only at the end.
  /// @throws Error kDataLoss: the file cannot be read, or its compression is damaged.
  virtual size_t read(void* out, size_t size) = 0;

  /// The file cannot hold more bytes than this, decompressed. Guards allocations against damaged
  /// sizes.
  virtual uint64_t size_bound() const = 0;
};

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FilePtr = std::unique_ptr<std::FILE, FileCloser>;

/// Reads from `file`, which stands at its beginning and is `file_size` long.
/// gzip.cc; no_gzip.cc where there is no zlib. @throws Error kUnimplemented there.
std::unique_ptr<ByteReader> open_gzip(FilePtr file, uint64_t file_size, const std::string& path);

/// Opens `path`; gzip is recognised by its first two bytes.
/// @throws Error kNotFound, kPermissionDenied, kInvalidArgument (a folder).
std::unique_ptr<ByteReader> open_byte_reader(const std::string& path);

}  // namespace strata::data::detail
