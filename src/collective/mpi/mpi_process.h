#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "core/thread.h"
#include "core/timed_mutex.h"

namespace strata::collective {

/// @throws Error  kUnavailable: `code` is an error of MPI's.
void check_mpi(int code, const char* call);

/// A process in an MPI job.
struct MpiPlace {
  int rank = 0;
  int size = 0;  ///< 0: unknown
};

/// This process, as MPI knows it. Threads: any.
class MpiProcess {
 public:
  /// Lives until the process ends.
  static MpiProcess& get();

  /// What mpirun, mpiexec or srun have said; nullopt: they did not start this process.
  static std::optional<MpiPlace> announced();

  /// Why it cannot be used; empty: it can, if `initialize` succeeds.
  std::string fault();
  bool initialized();
  /// Unless that is done already. Blocks.
  void initialize();

  /// Runs what blocks, on the thread that initialises MPI. @param check  Called meanwhile, may
  /// throw: then MPI is given up, and `body` may still be running.
  void run(std::function<void()> body, const std::function<void()>& check);

  /// To be held during each call of MPI; none of those may block.
  TimedMutex& calls() STRATA_RETURN_CAPABILITY(calls_) { return calls_; }

  /// A call has failed: MPI may use `memory` as long as the process lives, and the others may not
  /// come to MPI_Finalize.
  void abandon(std::shared_ptr<void> memory);

 private:
  struct Job;

  MpiProcess();
  void serve() STRATA_EXCLUDES(calls_);
  std::shared_ptr<Job> begin(std::function<void()> body);
  static void finalize_at_exit();

  TimedMutex calls_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::shared_ptr<Job>> jobs_ STRATA_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<void>> abandoned_ STRATA_GUARDED_BY(mutex_);
  bool stuck_ STRATA_GUARDED_BY(mutex_) = false;
  int owner_ = 0;  // the process that has initialised MPI
  Thread thread_;
};

}  // namespace strata::collective
