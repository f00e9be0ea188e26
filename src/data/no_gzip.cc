#include "data/byte_reader.h"
#include "strata/core/error.h"

namespace strata::data::detail {

std::unique_ptr<ByteReader> open_gzip(FilePtr, uint64_t, const std::string& path) {
  throw Error(ErrorCode::kUnimplemented,
              str_cat("[data] open: ", path,
                      " is gzipped, and this strata was built without zlib; install it (Debian: "
                      "zlib1g-dev) and build again, or gunzip the file"));
}

}  // namespace strata::data::detail
