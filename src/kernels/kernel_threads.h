#pragma once

#include <cstdint>
#include <functional>

namespace strata::kernels {

/// How many threads an operator of this library may use on the calling thread; 0 (the default):
/// libtorch's intra-op threads.
void set_kernel_threads(int count);
/// What was set.
int kernel_threads();
/// How many threads that is.
int num_kernel_threads();

/// Calls part(from, to) for parts of [begin, end), on OpenMP's threads beside this one. At most
/// `num_kernel_threads()` parts, of `grain` elements at least. Inside a part: one part.
/// @throws what the first part to fail threw, when all have ended.
void run_in_parts(int64_t begin, int64_t end, int64_t grain,
                  const std::function<void(int64_t, int64_t)>& part);

/// What `grain` is as a rule: parts of less, some 10 us, take longer to hand out than to run.
inline constexpr int64_t kPartMultiplications = 1 << 20;
inline constexpr int64_t kPartElements = 1 << 15;

/// The same for operators that are small as a rule. It replaces at::parallel_for, which runs
/// on one thread where it is compiled without OpenMP, and takes libtorch's number of threads.
template <typename Part>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const Part& part) {
  if (begin >= end) return;
  if (end - begin <= grain || num_kernel_threads() == 1) return part(begin, end);
  run_in_parts(begin, end, grain, part);
}

}  // namespace strata::kernels
