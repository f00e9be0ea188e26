#include "kernels/kernel_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>
#include <exception>

#include "core/mutex.h"

namespace strata::kernels {
namespace {

thread_local int threads_of_this_thread = 0;

/// libtorch's OpenMP, which comes without headers: compiled with -fopenmp this library would bring
/// another one beside it.
struct OpenMp {
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
  int (*thread)() = nullptr;
  int (*threads)() = nullptr;

  template <typename Function>
  static void find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  }
  static const OpenMp& get() {
    static const OpenMp found = [] {
      OpenMp openmp;
      find("GOMP_parallel", openmp.parallel);
      find("omp_get_thread_num", openmp.thread);
      find("omp_get_num_threads", openmp.threads);
      return openmp;
    }();
    return found;
  }
  bool there() const { return parallel != nullptr && thread != nullptr && threads != nullptr; }
};

struct Region {
  int64_t begin;
  int64_t end;
  const std::function<void(int64_t, int64_t)>& part;
  Mutex mutex;
  std::exception_ptr failure STRATA_GUARDED_BY(mutex);

  /// What this thread of the team does.
  void run() {
    const int64_t threads = OpenMp::get().threads();  // there may be fewer than asked for
    const int64_t size = (end - begin + threads - 1) / threads;
    const int64_t from = begin + size * OpenMp::get().thread();
    if (from >= end) return;
    try {
      part(from, std::min(end, from + size));
    } catch (...) {
      const MutexLock lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }

  /// Not checked: the team has ended.
  void rethrow() const STRATA_NO_THREAD_SAFETY_ANALYSIS {
    if (failure) std::rethrow_exception(failure);
  }
};

}  // namespace

void set_kernel_threads(int count) { threads_of_this_thread = count; }
int kernel_threads() { return threads_of_this_thread; }
int num_kernel_threads() {
  return threads_of_this_thread > 0 ? threads_of_this_thread : at::get_num_threads();
}

void run_in_parts(int64_t begin, int64_t end, int64_t grain,
                  const std::function<void(int64_t, int64_t)>& part) {
  const int64_t most = (end - begin) / std::max<int64_t>(grain, 1);
  const auto threads = static_cast<unsigned>(std::min<int64_t>(num_kernel_threads(), most));
  if (threads < 2 || at::in_parallel_region() || !OpenMp::get().there()) return part(begin, end);
  Region region{.begin = begin, .end = end, .part = part, .mutex = {}, .failure = {}};
  const auto run = [](void* data) { static_cast<Region*>(data)->run(); };
  OpenMp::get().parallel(run, &region, threads, 0);
  region.rethrow();
}

}  // namespace strata::kernels
