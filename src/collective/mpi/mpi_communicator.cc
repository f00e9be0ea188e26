#include "collective/mpi/mpi_communicator.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "collective/call_failure.h"
#include "collective/call_fingerprint.h"
#include "collective/call_tensors.h"
#include "collective/collective_call.h"
#include "collective/mpi/mpi_channel.h"
#include "collective/mpi/mpi_collectives.h"
#include "collective/mpi/mpi_setup.h"
#include "core/mutex.h"
#include "strata/wire/deadline.h"

namespace strata::collective {
namespace {

using namespace std::chrono_literals;

/// Numbers that MPI adds itself. Not 16-bit floats, which are added in float, nor shorter integers,
/// whose sums saturate in some MPIs.
std::optional<MPI_Datatype> number(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return MPI_FLOAT;
    case at::kDouble:
      return MPI_DOUBLE;
    case at::kInt:
      return MPI_INT32_T;
    case at::kLong:
      return MPI_INT64_T;
    default:
      return std::nullopt;
  }
}

bool is_oversubscribed(const Placement& placement, int rank, int cores) {
  const std::vector<int>& hosts = placement.host_of_rank;
  const auto beside = std::ranges::count(hosts, hosts[static_cast<size_t>(rank)]);
  // mpirun may have bound this rank to one core.
  return beside > (cores > 0 ? cores : ::sysconf(_SC_NPROCESSORS_ONLN));
}

/// What MPI works on, beside tensors, as long as calls are under way.
struct Memory {
  Memory(const Placement& placement, MpiGroup made) : group(std::move(made)), subtrees(placement) {}

  MpiGroup group;
  const LocalSubtrees subtrees;
  MpiScratch scratch;                                        // of the call whose turn it is
  std::map<uint32_t, std::unique_ptr<MpiChannel>> channels;  // guarded by State::mutex
};

/// Larger calls than those that a barrier is enough for travel by MPI's collectives, which must
/// begin in one order on all ranks: rank 0 gives each its turn when all have come to it.
struct State {
  const int rank;
  const int ranks;
  const std::shared_ptr<Communicator> bootstrap;
  const MpiOptions options;
  const bool oversubscribed;
  const std::shared_ptr<Memory> memory;

  std::atomic<int64_t> turn{1};   // of the call that travels
  std::atomic<int64_t> given{0};  // turns, by rank 0

  std::atomic<bool> has_failed{false};
  Mutex mutex;
  Status failure STRATA_GUARDED_BY(mutex);

  State(const Placement& placement, std::shared_ptr<Communicator> with,
        const MpiOptions& with_options)
      : rank(with->rank()),
        ranks(with->num_ranks()),
        bootstrap(std::move(with)),
        options(with_options),
        oversubscribed(is_oversubscribed(placement, rank, options.cores)),
        memory(std::make_shared<Memory>(placement, set_up_mpi(*bootstrap, options))) {}
  ~State() {
    // Where another rank has failed, MPI may never be done with this one's messages.
    if (status().ok()) {
      free_mpi(memory->group);
    } else {
      MpiProcess::get().abandon(memory);
    }
  }

  std::string rank_name(int of) const {
    return str_cat("rank ", of, " (", memory->group.names[static_cast<size_t>(of)], ")");
  }

  /// @param tensors  The call's.
  void run(const CollectiveCall& call, const CallOptions& options);
  void run_on(MpiChannel& channel, const CollectiveCall& call, uint64_t fingerprint,
              const MpiWait& wait) STRATA_REQUIRES(channel.calls());
  void travel(const CollectiveCall& call, MpiWait wait);
  MpiChannel& channel(uint32_t id);
  void check_agreement(MpiChannel& channel, uint64_t fingerprint) const
      STRATA_REQUIRES(channel.calls());
  std::optional<Status> check(int awaited, bool thoroughly, const CallOptions& call,
                              const wire::Deadline& deadline) const;
  /// Ends the communicator with what happened. @return that.
  Status fail_all(const Status& status, const std::string& call, const CallOptions& options);
  Status fail(const Status& reason);
  Status status();
};

MpiChannel& State::channel(uint32_t id) {
  STRATA_CHECK(id < static_cast<uint32_t>(memory->group.largest_tag) / 2, kInvalidArgument,
               "[collective] got id ", id, "; expected one below half of MPI's largest tag, ",
               memory->group.largest_tag);
  const MutexLock lock(mutex);
  std::unique_ptr<MpiChannel>& channel = memory->channels[id];
  if (!channel) {
    channel = std::make_unique<MpiChannel>(memory->group, memory->subtrees, rank,
                                           static_cast<int>(2 * id), options.small_bytes);
  }
  return *channel;
}

Status State::status() {
  {
    const MutexLock lock(mutex);
    if (!failure.ok()) return failure;
  }
  return bootstrap->status();
}

std::optional<Status> State::check(int awaited, bool thoroughly, const CallOptions& call,
                                   const wire::Deadline& deadline) const {
  const auto whom = [&] { return awaited == rank ? "the others" : rank_name(awaited); };
  if (options.failed.stop_requested()) {
    Status reason = options.reason ? options.reason() : Status();
    if (!reason.ok()) return reason;
    return Status(ErrorCode::kUnavailable, "a rank is lost, while this one waits for " + whom());
  }
  if (call.stop.stop_requested()) {
    return Status(ErrorCode::kCancelled, "stopped while waiting for " + whom());
  }
  if (deadline.passed()) {
    return Status(ErrorCode::kDeadlineExceeded,
                  str_cat(whom(), " has not come within ",
                          call.timeout.value_or(options.timeout).count(), " ms"));
  }
  if (!thoroughly) return std::nullopt;
  const Status status = bootstrap->status();
  if (status.ok()) return std::nullopt;
  return Status(status.code(), str_cat("while waiting for ", whom(), ": ", status.message()));
}

void State::run(const CollectiveCall& call, const CallOptions& call_options) {
  if (has_failed.load(std::memory_order_acquire)) {
    detail::throw_error(
        ErrorCode::kFailedPrecondition,
        str_cat("[collective] ", collective_name(call.collective),
                ": an earlier call of this communicator failed (", status().message(),
                "); it makes no more, and its owner makes another"));
  }
  MpiChannel& channel = this->channel(call_options.id);
  const uint64_t fingerprint =
      fingerprint_of(call, options.order == Order::kAny ? "mpi, any order" : "mpi",
                     call_options.name)
          .pack();
  const auto deadline = wire::Deadline::after(call_options.timeout.value_or(options.timeout));
  const MpiWait wait = {
      .check = [&](int awaited,
                   bool thoroughly) { return check(awaited, thoroughly, call_options, deadline); },
      .oversubscribed = oversubscribed,
      .name = [this](int awaited) { return awaited == rank ? "the others" : rank_name(awaited); },
      .deadline = deadline.time()};
  try {
    STRATA_CHECK(channel.calls().try_lock_until(deadline.time()), kDeadlineExceeded,
                 "another thread is in a call of this id");
    const TimedMutexLock lock(channel.calls(), std::adopt_lock);
    run_on(channel, call, fingerprint, wait);
  } catch (...) {
    const Status seen = Status::from_current_exception();
    // MPI may go on with the memory of a call that has failed.
    MpiProcess::get().abandon(call.tensors != nullptr ? call.tensors->keep() : nullptr);
    fail_all(seen, describe_call(fingerprint), call_options).throw_if_error();
  }
}

void State::run_on(MpiChannel& channel, const CollectiveCall& call, uint64_t fingerprint,
                   const MpiWait& wait) {
  channel.barrier(call, fingerprint, wait);
  check_agreement(channel, fingerprint);
  if (channel.is_small(call)) return channel.take(call);
  int64_t local = rank == 0 ? ++given : 0;
  channel.tell(local, wait);
  wait.until([&] { return turn.load(std::memory_order_acquire) == local; }, [&] { return rank; });
  travel(call, wait);
  turn.store(local + 1, std::memory_order_release);
}

void State::check_agreement(MpiChannel& channel, uint64_t fingerprint) const {
  for (int other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    const uint64_t remote = channel.fingerprint(other);
    STRATA_CHECK(remote == fingerprint, kFailedPrecondition,
                 "ranks make different calls: ", rank_name(other), " (", describe_call(remote),
                 "), ", rank_name(rank), " (", describe_call(fingerprint), ")");
  }
}

void State::travel(const CollectiveCall& call, MpiWait wait) {
  // A slower one is taken for stuck: it continues, with pauses.
  constexpr int64_t kBytesPerMicrosecond = 100;
  wait.busy += 10ms + std::chrono::microseconds(call.bytes() / kBytesPerMicrosecond);
  const MpiCollectives collectives{.group = memory->group.data,
                                   .rank = rank,
                                   .ranks = ranks,
                                   .subtrees = &memory->subtrees,
                                   .piece_bytes = options.piece_bytes,
                                   .wait = wait,
                                   .scratch = &memory->scratch};
  switch (call.collective) {
    case Collective::kAllReduce: {
      const bool adds = call.op == ReduceOp::kSum || call.op == ReduceOp::kMean;
      const auto mpi_number = number(call.dtype);
      if (options.order == Order::kAny && adds && mpi_number) {
        return collectives.add(call, *mpi_number);
      }
      return collectives.reduce(call);
    }
    case Collective::kReduceScatter:
      return collectives.reduce(call);
    case Collective::kAllGather:
      return collectives.all_gather(call);
    case Collective::kBroadcast:
      return collectives.broadcast(call);
    case Collective::kBarrier:
      return;  // the barrier was all
  }
}

Status State::fail_all(const Status& status, const std::string& call,
                       const CallOptions& call_options) {
  const Status described = failed_call(status, call, call_options, rank, ranks);
  const bool lost = status.code() == ErrorCode::kUnavailable && options.root_cause;
  return fail(lost ? options.root_cause(described) : described);
}

Status State::fail(const Status& reason) {
  {
    const MutexLock lock(mutex);
    if (failure.ok()) failure = reason;
    has_failed.store(true, std::memory_order_release);
  }
  bootstrap->fail(reason);  // the others wait for this rank
  return reason;
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(std::shared_ptr<Communicator> bootstrap, const MpiOptions& options)
      : Communicator(bootstrap->rank(), bootstrap->placement()),
        state_(placement(), std::move(bootstrap), options) {}

  std::string describe() const override {
    return str_cat("MPI, rank ", rank(), " of ", num_ranks());
  }

 private:
  void do_call(const CollectiveCall& call, const CallOptions& options) override {
    state_.run(call, options);
  }
  void do_fail(const Status& reason) override { state_.fail(reason); }
  Status do_status() override { return state_.status(); }

  State state_;
};

}  // namespace

bool has_mpi_communicator() { return true; }

std::shared_ptr<Communicator> make_mpi_communicator(std::shared_ptr<Communicator> bootstrap,
                                                    const MpiOptions& options) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;  // MPI counts in int
  STRATA_CHECK(options.small_bytes >= 0 && options.small_bytes <= kMostBytes &&
                   options.piece_bytes > 0 && options.piece_bytes <= kMostBytes,
               kInvalidArgument, "[collective] MPI: got small_bytes ", options.small_bytes,
               " and piece_bytes ", options.piece_bytes, "; expected up to ", kMostBytes);
  return std::make_shared<MpiCommunicator>(std::move(bootstrap), options);
}

}  // namespace strata::collective
