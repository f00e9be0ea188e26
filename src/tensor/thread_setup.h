#pragma once

#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::tensor {

/// A value of ThreadSetup::kernel_threads.
inline constexpr int kLibtorchThreads = -1;

/// The settings of a replica thread. Their scope in libtorch 2.11 to 2.15 with GNU OpenMP and MKL
/// (the tests check it):
///
/// - Flushing denormals (MXCSR): the thread. OpenMP workers have their own; they are set with the
///   thread that they work for, and keep it.
/// - OpenMP's thread count, which at::get_num_threads() reads and oneDNN follows: the thread.
/// - MKL's "local" thread count: the thread.
/// - The count that at::set_num_threads() also records: the process. Every thread that makes its
///   first parallel call later takes it.
/// - Core affinity: the thread. Threads that it starts later inherit it, also its OpenMP workers.
///
/// So at::set_num_threads(1) in a replica thread would leave later threads of the program with one
/// thread; `intra_op_threads` here changes the calling thread's counts alone.
struct ThreadSetup {
  /// At most 15 bytes are kept. Empty: unchanged.
  std::string name = {};
  /// Cores to pin it to, as the kernel numbers them. Empty: unchanged.
  std::vector<int> cores = {};
  /// Threads for one operator of libtorch's, this one included. 0: unchanged. Their division
  /// decides bits in the last place (sums, but also where the scalar ends of vectorised loops are),
  /// so replicas have one.
  int intra_op_threads = 0;
  /// Threads for one operator of this library, whose bits do not depend on their number. 0:
  /// unchanged; kLibtorchThreads: as many as libtorch's, the initial value.
  int kernel_threads = 0;
  /// Reads and writes denormal floats as zero; they cost 2-3x on an MLP after some hundred Adam
  /// steps.
  bool flush_denormals = true;
};

/// Sets the calling thread up. Cost: 20 ns; pinning adds 0.8 us.
/// @throws Error  kInvalidArgument: a core that this process may not use, or a negative count.
STRATA_API void apply_thread_setup(const ThreadSetup& setup);

/// Cores that the calling thread may run on.
STRATA_API std::vector<int> allowed_cores();

/// True if the calling thread flushes denormals.
STRATA_API bool denormals_flushed();

/// The calling thread reads and writes denormal floats as zero while this lives, as replicas do: for
/// threads of the library that compute for them. Cost: 10 ns.
class STRATA_API FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  const bool before_;
};

/// Sets the calling thread up and restores everything at its end: for the caller's thread, which
/// runs replica 0 and belongs to the program. Threads: destroy it on the thread that made it.
class STRATA_API ThreadSetupGuard {
 public:
  explicit ThreadSetupGuard(const ThreadSetup& setup);
  ~ThreadSetupGuard();
  ThreadSetupGuard(const ThreadSetupGuard&) = delete;
  ThreadSetupGuard& operator=(const ThreadSetupGuard&) = delete;

 private:
  ThreadSetup previous_;
};

}  // namespace strata::tensor
