#include <farmhash.h>

#include "strata/estimator/feature_column.h"

namespace strata::feature_column {

uint64_t fingerprint64(std::string_view bytes) {
  return ::util::Fingerprint64(bytes.data(), bytes.size());
}

}  // namespace strata::feature_column
