#include "data/files/byte_reader.h"
#include "data/files/byte_writer.h"
#include "strata/core/error.h"

namespace strata::data::detail {
namespace {

[[noreturn]] void fail(const std::string& path, Compression compression) {
  throw Error(ErrorCode::kUnimplemented,
              str_cat("[data] open: ", path, " is ",
                      compression == Compression::kZlib ? "packed by zlib" : "gzipped",
                      ", and this strata was built without zlib; install it (Debian: zlib1g-dev) "
                      "and build again, or gunzip the file"));
}

}  // namespace

std::unique_ptr<ByteReader> open_gzip(std::unique_ptr<ReadableFile>, Compression compression,
                                      const std::string& path) {
  fail(path, compression);
}

std::unique_ptr<ByteWriter> create_gzip(std::unique_ptr<WritableFile>, Compression compression, int,
                                        const std::string& path) {
  fail(path, compression);
}

}  // namespace strata::data::detail
