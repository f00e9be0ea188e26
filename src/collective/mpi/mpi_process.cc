#include "collective/mpi/mpi_process.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include "strata/core/error.h"

namespace strata::collective {
namespace {

using namespace std::chrono_literals;

// MPI_Finalize waits for the other processes, which may still be busy with their end, or, after a
// failure, may not come.
constexpr std::chrono::seconds kPatience = 30min;
constexpr std::chrono::seconds kPatienceAfterFailure = 2s;

std::optional<int> number_of(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::atoi(text);
}

bool query(int (*ask)(int*)) {
  int answer = 0;
  ask(&answer);
  return answer != 0;
}

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  detail::throw_error(
      ErrorCode::kUnavailable,
      str_cat(call, " failed: ", std::string_view(text, static_cast<size_t>(length)), " (code ",
              code, ")"));
}

struct MpiProcess::Job {
  std::function<void()> body;
  bool done = false;  // guarded by the process's mutex
  Status outcome;     // guarded by the process's mutex
};

MpiProcess& MpiProcess::get() {
  static auto* const process = new MpiProcess();  // its thread may hang in MPI
  return *process;
}

MpiProcess::MpiProcess() : thread_("mpi", [this] { serve(); }) {}

std::optional<MpiPlace> MpiProcess::announced() {
  static constexpr struct {
    const char *rank, *size;
  } kNames[] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"},
      {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"},
  };
  for (const auto& names : kNames) {
    const auto rank = number_of(names.rank);
    const auto size = number_of(names.size);
    if (rank) return MpiPlace{.rank = *rank, .size = size.value_or(0)};
  }
  return std::nullopt;
}

bool MpiProcess::initialized() { return query(MPI_Initialized); }

std::string MpiProcess::fault() {
  {
    const MutexLock lock(mutex_);
    if (stuck_) return "its MPI has not come back from an earlier call";
  }
  if (query(MPI_Finalized)) return "it has called MPI_Finalize";
  if (!initialized()) {
    return announced() ? "" : "it was not started by mpirun, mpiexec or srun --mpi";
  }
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level >= MPI_THREAD_SERIALIZED) return {};
  return "its MPI is initialised for one thread alone; ask MPI_Init_thread for "
         "MPI_THREAD_SERIALIZED or more";
}

void MpiProcess::initialize() {
  if (initialized()) return;
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
  STRATA_CHECK(level >= MPI_THREAD_SERIALIZED, kUnavailable,
               "MPI_Init_thread: this MPI is for one thread alone");
  // The world's handler ends the process.
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  owner_ = ::getpid();
  std::atexit(finalize_at_exit);
}

void MpiProcess::serve() {
  MutexLock lock(mutex_);
  while (true) {
    changed_.wait(
        lock, [&]() STRATA_REQUIRES(mutex_) { return !jobs_.empty(); });  // ends with the process
    const std::shared_ptr<Job> job = std::move(jobs_.front());
    jobs_.erase(jobs_.begin());
    lock.unlock();
    Status outcome;
    try {
      const std::lock_guard call(calls_);
      job->body();
    } catch (...) {
      outcome = Status::from_current_exception();
    }
    lock.lock();
    job->outcome = outcome;
    job->done = true;
    changed_.notify_all();
  }
}

std::shared_ptr<MpiProcess::Job> MpiProcess::begin(std::function<void()> body) {
  auto job = std::make_shared<Job>(Job{.body = std::move(body), .done = false, .outcome = {}});
  const MutexLock lock(mutex_);
  jobs_.push_back(job);
  changed_.notify_all();
  return job;
}

void MpiProcess::run(std::function<void()> body, const std::function<void()>& check) {
  const auto job = begin(std::move(body));
  MutexLock lock(mutex_);
  while (!changed_.wait_for(lock, 10ms, [&] { return job->done; })) {
    lock.unlock();
    try {
      check();
    } catch (...) {
      const MutexLock relock(mutex_);
      stuck_ = !job->done;
      throw;
    }
    lock.lock();
  }
  job->outcome.throw_if_error();
}

void MpiProcess::abandon(std::shared_ptr<void> memory) {
  const MutexLock lock(mutex_);
  abandoned_.push_back(std::move(memory));
}

void MpiProcess::finalize_at_exit() {
  MpiProcess& self = get();
  if (::getpid() != self.owner_) return;  // a child made by fork
  std::chrono::seconds patience = kPatience;
  {
    const MutexLock lock(self.mutex_);
    if (self.stuck_ || query(MPI_Finalized)) return;
    if (!self.abandoned_.empty()) patience = kPatienceAfterFailure;
  }
  const auto job = self.begin([] { MPI_Finalize(); });
  MutexLock lock(self.mutex_);
  self.changed_.wait_for(lock, patience, [&] { return job->done; });
}

}  // namespace strata::collective
