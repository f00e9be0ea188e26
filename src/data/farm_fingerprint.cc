#include <farmhash.h>

#include "data/hashes.h"

namespace strata::data {

uint64_t fingerprint64(std::string_view bytes) {
  return ::util::Fingerprint64(bytes.data(), bytes.size());
}

}  // namespace strata::data
