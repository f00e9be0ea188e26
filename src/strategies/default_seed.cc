#include "strategies/default_seed.h"

#include <ATen/Context.h>

#include <mutex>

namespace strata::detail {

uint64_t default_seed() {
  at::Generator generator = at::globalContext().defaultGenerator(c10::Device(c10::kCPU));
  const std::lock_guard lock(generator.mutex());  // as libtorch requires
  return generator.current_seed();
}

}  // namespace strata::detail
