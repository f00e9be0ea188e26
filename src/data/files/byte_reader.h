#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "strata/core/file_system.h"
#include "strata/data/options.h"

namespace strata::data::detail {

/// A file's bytes in order, decompressed if need be.
class ByteReader {
 public:
  virtual ~ByteReader() = default;

  /// Reads `size` bytes to `out`. @return how many there were: fewer only at the end.
  /// @throws Error kUnavailable: the medium failed. kDataLoss: the compression is damaged.
  virtual size_t read(void* out, size_t size) = 0;

  /// Passes over `size` bytes; a jump where nothing is compressed. @return how many there were.
  virtual uint64_t skip(uint64_t size);

  /// The file cannot hold more bytes than this, decompressed. Guards allocations against damaged
  /// sizes.
  virtual uint64_t size_bound() const = 0;
};

/// file.read(offset, out), whose errors name the offset, too.
size_t read_at(const ReadableFile& file, uint64_t offset, std::span<std::byte> out);

/// Reads from the beginning of `file`, which is packed as `compression` says: kGzip or kZlib.
/// gzip.cc; no_gzip.cc where there is no zlib. @throws Error kUnimplemented there.
std::unique_ptr<ByteReader> open_gzip(std::unique_ptr<ReadableFile> file, Compression compression,
                                      const std::string& path);

/// Opens `path` through its file system. kAuto knows gzip by its first two bytes.
/// @throws Error as FileSystem::open.
std::unique_ptr<ByteReader> open_byte_reader(const std::string& path,
                                             Compression compression = Compression::kAuto);

}  // namespace strata::data::detail
