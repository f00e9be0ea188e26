#include "data/hashes.h"
#include "strata/core/error.h"

namespace strata::data {

uint64_t fingerprint64(std::string_view) {
  throw Error(
      ErrorCode::kUnimplemented,
      "[data] fingerprint64: columns of hash buckets, crossed columns of texts, "
      "num_oov_buckets, and layers that hash texts need FarmHash, and this strata was built "
      "without it; install it (Debian: libfarmhash-dev) and build again");
}

}  // namespace strata::data
