#pragma once

#include <memory>
#include <span>
#include <string>

#include "strata/core/file_system.h"
#include "strata/data/options.h"

namespace strata::data::detail {

/// Bytes into a file, compressed if need be.
class ByteWriter {
 public:
  virtual ~ByteWriter() = default;
  virtual void write(std::span<const char> bytes) = 0;

  /// Writes what is left and closes the file.
  virtual void close() = 0;
};

/// gzip_writer.cc; no_gzip.cc where there is no zlib. @throws Error kUnimplemented there.
std::unique_ptr<ByteWriter> create_gzip(std::unique_ptr<WritableFile> file, Compression compression,
                                        int level, const std::string& path);

/// Makes `path`. @throws Error as FileSystem::create.
std::unique_ptr<ByteWriter> create_byte_writer(const std::string& path, Compression compression,
                                               int level);

}  // namespace strata::data::detail
