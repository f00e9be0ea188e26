#include "tensor/thread_setup.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "core/join.h"
#include "core/thread.h"
#include "kernels/kernel_threads.h"
#include "strata/core/error.h"

namespace strata::tensor {
namespace {

/// libtorch brings OpenMP and MKL along without headers; a build without MKL lacks its function.
template <typename Function>
Function* find_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

void set_flush_denormals(void* flush) {
  at::globalContext().setFlushDenormal(*static_cast<bool*>(flush));
}

void flush_denormals_in_team(bool flush) {
  set_flush_denormals(&flush);
  // OpenMP keeps a team of workers for each thread that opens parallel regions: this runs on each.
  // Once is enough, and they keep it: a parallel region at both ends of every run would cost more
  // than it.
  static thread_local int team_flushed = 1;
  const int count = kernels::num_kernel_threads();
  if (!flush || count <= team_flushed) return;
  using Parallel = void(void (*)(void*), void*, unsigned, unsigned);
  static auto* const parallel = find_function<Parallel>("GOMP_parallel");
  if (parallel != nullptr) parallel(&set_flush_denormals, &flush, static_cast<unsigned>(count), 0);
  team_flushed = count;
}

void pin(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  bool valid = true;
  for (const int core : cores) {
    valid = valid && core >= 0 && core < CPU_SETSIZE;
    if (valid) CPU_SET(core, &set);
  }
  STRATA_CHECK(valid && pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0,
               kInvalidArgument, "[thread_setup] apply_thread_setup: got cores ", join(cores),
               "; expected some that this process may use, now ", join(allowed_cores()));
}

/// @return false: a libtorch with its own thread pool, which has one count for all.
bool set_openmp_threads(int count) {
  static auto* const set_openmp = find_function<void(int)>("omp_set_num_threads");
  if (set_openmp == nullptr) return false;
  // OpenMP may be set to give fewer (OMP_THREAD_LIMIT), and oneDNN, which does not look, then
  // waits for ever or leaves work undone.
  static auto* const limit = find_function<int()>("omp_get_thread_limit");
  set_openmp(limit != nullptr ? std::min(count, limit()) : count);
  return true;
}

/// The calling thread's counts, and no other thread's.
void set_intra_op_threads(int count) {
  static auto* const set_mkl = find_function<int(int)>("MKL_Set_Num_Threads_Local");
  at::get_num_threads();  // libtorch's own first-call initialisation must come before this one
  if (!set_openmp_threads(count)) {
    at::set_num_threads(count);
  } else if (set_mkl != nullptr) {
    set_mkl(count);
  }
}

}  // namespace

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (pthread_getaffinity_np(pthread_self(), sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

bool denormals_flushed() {
  volatile float smallest = std::numeric_limits<float>::min();
  volatile float half = smallest * 0.5F;
  return half == 0.0F;
}

FlushDenormals::FlushDenormals() : before_(denormals_flushed()) {
  if (!before_) at::globalContext().setFlushDenormal(true);
}

FlushDenormals::~FlushDenormals() {
  if (!before_) at::globalContext().setFlushDenormal(false);
}

void apply_thread_setup(const ThreadSetup& setup) {
  STRATA_CHECK(setup.intra_op_threads >= 0, kInvalidArgument,
               "[thread_setup] apply_thread_setup: got ", setup.intra_op_threads,
               " intra-op threads; expected at least 1, or 0 for no change");
  STRATA_CHECK(setup.kernel_threads >= kLibtorchThreads, kInvalidArgument,
               "[thread_setup] apply_thread_setup: got ", setup.kernel_threads,
               " kernel threads; expected at least 1, 0 for no change, or kLibtorchThreads");
  if (!setup.name.empty()) set_thread_name(setup.name);
  if (!setup.cores.empty()) pin(setup.cores);
  if (setup.intra_op_threads > 0) set_intra_op_threads(setup.intra_op_threads);
  if (setup.kernel_threads != 0) kernels::set_kernel_threads(std::max(0, setup.kernel_threads));
  flush_denormals_in_team(setup.flush_denormals);
}

ThreadSetupGuard::ThreadSetupGuard(const ThreadSetup& setup)
    : previous_{.name = setup.name.empty() ? std::string() : thread_name(),
                .cores = setup.cores.empty() ? std::vector<int>() : allowed_cores(),
                .intra_op_threads = setup.intra_op_threads == 0 ? 0 : at::get_num_threads(),
                .kernel_threads =
                    kernels::kernel_threads() == 0 ? kLibtorchThreads : kernels::kernel_threads(),
                .flush_denormals = denormals_flushed()} {
  apply_thread_setup(setup);
}

ThreadSetupGuard::~ThreadSetupGuard() {
  try {
    apply_thread_setup(previous_);
  } catch (const Error&) {
    // The cores were taken from the process meanwhile; the thread stays where it is.
  }
}

}  // namespace strata::tensor
