#pragma once

#include <cstdint>
#include <functional>

namespace strata::tensor {

/// Threads for one operator of this library on the calling thread: ThreadSetup::kernel_threads, or
/// libtorch's intra-op threads where it was not set.
int num_kernel_threads();

/// Calls part(from, to) for parts of [begin, end), on OpenMP's threads beside this one. At most
/// `num_kernel_threads()` parts, of `grain` elements at least. Inside a part: one part.
/// @throws what the first part to fail threw, when all have ended.
void run_in_parts(int64_t begin, int64_t end, int64_t grain,
                  const std::function<void(int64_t, int64_t)>& part);

/// The same for operators that are small as a rule. It stands in for at::parallel_for, which runs
/// on one thread where it is compiled without OpenMP, and takes libtorch's number of threads.
template <typename Part>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const Part& part) {
  if (begin >= end) return;
  if (end - begin <= grain || num_kernel_threads() == 1) return part(begin, end);
  run_in_parts(begin, end, grain, part);
}

}  // namespace strata::tensor
