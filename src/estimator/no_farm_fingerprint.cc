#include "strata/core/error.h"
#include "strata/estimator/feature_column.h"

namespace strata::feature_column {

uint64_t fingerprint64(std::string_view) {
  throw Error(ErrorCode::kUnimplemented,
              "[feature_column] fingerprint64: columns of hash buckets, crossed columns of texts "
              "and num_oov_buckets "
              "hash, and this strata was built without FarmHash; install it (Debian: "
              "libfarmhash-dev) and build again");
}

}  // namespace strata::feature_column
