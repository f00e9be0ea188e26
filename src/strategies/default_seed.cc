#include "strategies/default_seed.h"

#include <ATen/Context.h>

#include <mutex>

namespace strata::detail {

uint64_t default_seed() {
  at::Generator generator = at::globalContext().defaultGenerator(c10::Device(c10::kCPU));
  const std::lock_guard lock(generator.mutex());  // as libtorch asks of whoever uses one
  return generator.current_seed();
}

}  // namespace strata::detail
