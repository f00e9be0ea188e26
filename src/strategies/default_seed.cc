#include "strategies/default_seed.h"

#include <ATen/Context.h>

namespace strata::detail {

uint64_t default_seed() {
  return at::globalContext().defaultGenerator(c10::Device(c10::kCPU)).current_seed();
}

}  // namespace strata::detail
