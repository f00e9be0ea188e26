#include "runtime/replica_group.h"

#include <ATen/ThreadLocalState.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <system_error>
#include <thread>

#include "core/mutex.h"
#include "core/spin.h"
#include "graph/host_call.h"
#include "kernels/portable/portable_bits.h"
#include "runtime/context.h"
#include "runtime/replica_group_owner.h"
#include "runtime/variable_placement.h"
#include "strata/core/interrupt.h"
#include "strata/kernels/cpu_kernels.h"
#include "strata/runtime/replica_context.h"
#include "strata/runtime/stop_consensus.h"
#include "strata/runtime/variable.h"
#include "strata/tensor/cpu_allocator.h"
#include "tensor/random_streams.h"
#include "tensor/thread_setup.h"

namespace strata {
namespace {

/// How long an idle replica thread stays awake for the next `run`.
constexpr std::chrono::microseconds kWarmTime{300};

bool on_cpu(const LogicalDevice& device) { return device.physical.is_cpu(); }

ReplicaGroupOptions resolve(ReplicaGroupOptions options) {
  const int replicas = static_cast<int>(options.devices.size());
  STRATA_CHECK(replicas > 0, kInvalidArgument, "[", options.name,
               "] devices: got none; expected at least one, for example {\"cpu:0\"}");
  STRATA_CHECK(!options.communicator ||
                   static_cast<int>(options.communicator->replicas().size()) == replicas,
               kInvalidArgument, "[", options.name, "] devices: got ", replicas, " for the ",
               options.communicator ? options.communicator->replicas().size() : 0,
               " replicas of this process; expected one each");
  if (!options.placement) options.placement = std::make_shared<VariablePlacement>();
  ReplicaOptions& resolved = options.replicas;
  STRATA_CHECK(resolved.permits >= 0, kInvalidArgument, "[", options.name, "] permits: got ",
               resolved.permits, "; expected 0 (one per core) or more");
  STRATA_CHECK(resolved.threads_per_replica >= 0, kInvalidArgument, "[", options.name,
               "] threads_per_replica: got ", resolved.threads_per_replica,
               "; expected 0 (cores / replicas) or more");
  resolved.bits.check(str_cat("[", options.name, "] replicas"));
  if (resolved.bits == Bits::kPortable) {
    STRATA_CHECK(kernels::use_portable_kernels(), kUnimplemented, "[", options.name,
                 "] replicas: got bits='portable' in a build without the CPU kernels; expected one "
                 "with -DSTRATA_CPU_KERNELS=ON");
    for (const LogicalDevice& device : options.devices) {
      STRATA_CHECK(on_cpu(device), kInvalidArgument, "[", options.name,
                   "] replicas: got bits='portable' and device ", device.physical.str(),
                   "; expected CPUs alone");
    }
  }
  const int cores = options.cores.empty() ? num_cores() : static_cast<int>(options.cores.size());
  if (resolved.permits == 0) resolved.permits = cores;
  resolved.permits = std::min(resolved.permits, replicas);
  if (resolved.threads_per_replica == 0) {
    resolved.threads_per_replica = std::max(1, cores / replicas);
  }
  return options;
}

bool share_a_gpu(const std::vector<LogicalDevice>& devices) {
  for (size_t i = 0; i < devices.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!on_cpu(devices[i]) && devices[i].physical == devices[j].physical) return true;
    }
  }
  return false;
}

}  // namespace

/// The threads, and what they need for one run.
struct ReplicaGroup::Threads {
  explicit Threads(ReplicaGroup& owner)
      : group(owner),
        limited(owner.options_.replicas.permits < owner.num_local_replicas()),
        portable(owner.options_.replicas.bits == Bits::kPortable),
        permits(owner.options_.replicas.permits),
        rendezvous(owner.num_local_replicas(),
                   {.timeout = owner.options_.timeout, .permits = limited ? &permits : nullptr}) {
    for (int i = 0; i < owner.num_local_replicas(); ++i) contexts.emplace_back(owner, i);
    for (int i = 0; i < owner.num_local_replicas(); ++i) places.push_back(graph::new_place());
    // What the caller's thread starts inside `run` may use all of them.
    const std::vector<int>& chosen = owner.options_.cores;
    if (owner.options_.replicas.pin_threads && owner.all_cpu_ &&
        chosen.size() < tensor::allowed_cores().size()) {
      caller_cores = chosen;
    }
    make_streams(owner.options_.seed);
    try {
      for (int i = 1; i < owner.num_local_replicas(); ++i) {
        workers.emplace_back([this, i] { serve(i); });
      }
    } catch (const std::system_error& error) {
      const size_t made = workers.size();
      stop();  // or those that there are would end the process
      throw Error(ErrorCode::kResourceExhausted,
                  str_cat("[", owner.name(), "] replica threads: the system gave ", made, " of ",
                          owner.num_local_replicas() - 1, ": ", error.what(),
                          "; it lacks memory for their stacks, or ulimit -u is reached"));
    }
  }

  ~Threads() { stop(); }

  void stop() STRATA_EXCLUDES(mutex) {
    {
      MutexLock lock(mutex);
      stopping = true;
      job_number.fetch_add(1);
    }
    job_changed.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void make_streams(uint64_t seed) STRATA_REQUIRES(turn) {
    streams.clear();
    for (int i = 0; i < group.num_local_replicas(); ++i) {
      streams.push_back(std::make_unique<tensor::RandomStream>(seed, group.replica_id(i)));
    }
  }

  /// A replica's share of the group's cores; none if there is not one for each.
  std::vector<int> cores_for(int local) const {
    if (!group.options_.replicas.pin_threads || !group.all_cpu_) return {};
    const std::vector<int>& chosen = group.options_.cores;
    const std::vector<int> cores = chosen.empty() ? tensor::allowed_cores() : chosen;
    const size_t share = cores.size() / static_cast<size_t>(group.num_local_replicas());
    const auto first = cores.begin() + static_cast<std::ptrdiff_t>(share) * local;
    return {first, first + static_cast<std::ptrdiff_t>(share)};
  }

  /// The life of a replica's thread: wait for a run, take part, report.
  void serve(int local) {
    tensor::apply_thread_setup({.name = str_cat("replica/", group.replica_id(local)),
                                .cores = cores_for(local),
                                .intra_op_threads = 1,
                                .kernel_threads = group.options_.replicas.threads_per_replica});
    uint64_t seen = 0;
    while (true) {
      const auto started = [&] { return job_number.load(std::memory_order_acquire) != seen; };
      if (limited || !spin_until(started, kWarmTime)) {
        MutexLock lock(mutex);
        job_changed.wait(lock, started);  // ends with the next run or the group
      }
      seen = job_number.load(std::memory_order_acquire);
      if (stopping) return;
      {
        at::ThreadLocalStateGuard state(*caller_state);
        take_part(local);
      }
      if (running.fetch_sub(1) == 1) {
        MutexLock lock(mutex);
        all_done.notify_one();
      }
    }
  }

  /// Runs the job as one of the replicas. Errors end the round for all.
  void take_part(int local) noexcept {
    if (limited) permits.acquire();
    try {
      const detail::ContextGuard context({&group, &contexts[static_cast<size_t>(local)]});
      const graph::PlaceGuard place(places[static_cast<size_t>(local)]);
      tensor::RandomStream& stream = *streams[static_cast<size_t>(local)];
      stream.set_step(step);
      const tensor::RandomStreamGuard random(stream);
      const kernels::PortableBitsGuard bits(portable);
      const c10::DeviceGuard device(group.device(local).physical);
      for (const auto& observer : observers) observer->on_run_begin(local);
      (*body)(contexts[static_cast<size_t>(local)]);
      for (const auto& observer : observers) observer->on_run_end(local);
      rendezvous.leave(local);
    } catch (const collective::RoundAborted&) {
      // Another replica's error ends this round, and is the one that the caller hears of.
    } catch (...) {
      rendezvous.abort(Status::from_current_exception());
    }
    if (limited) permits.release();
  }

  ReplicaGroup& group;
  const bool limited;   // fewer permits than replicas
  const bool portable;  // ReplicaOptions::bits
  collective::RunSlots permits;
  collective::Rendezvous rendezvous;
  std::vector<ReplicaContext> contexts;
  std::vector<uint64_t> places;   // what functions know the replicas by
  std::vector<int> caller_cores;  // of the caller's thread inside `run`; empty: its own
  std::vector<std::unique_ptr<tensor::RandomStream>> streams;
  std::vector<std::thread> workers;

  Mutex turn;  // one run at a time
  std::atomic<bool> in_run{false};

  // Of the present run; written before job_number moves.
  const std::function<void(ReplicaContext&)>* body = nullptr;
  std::optional<at::ThreadLocalState> caller_state;
  std::vector<std::shared_ptr<RunObserver>> observers;
  uint64_t step = 0;
  bool stopping = false;

  Mutex mutex;
  ConditionVariable job_changed;
  ConditionVariable all_done;
  alignas(64) std::atomic<uint64_t> job_number{0};
  alignas(64) std::atomic<int> running{0};
};

ReductionOptions reduction_options(std::string_view where,
                                   const collective::CommunicationOptions& options) {
  options.gradient_compression.check(str_cat("[", where, "] communication_options"));
  ReductionOptions result{.bytes_per_pack = options.bytes_per_pack};
  if (options.gradient_compression == collective::GradientCompression::kBFloat16) {
    result.wire_dtype = c10::ScalarType::BFloat16;
  } else if (options.gradient_compression == collective::GradientCompression::kFloat16) {
    result.wire_dtype = c10::ScalarType::Half;
  }
  return result;
}

ReplicaGroup::ReplicaGroup(ReplicaGroupOptions options)
    : options_(resolve(std::move(options))),
      all_cpu_(std::all_of(options_.devices.begin(), options_.devices.end(), on_cpu)),
      shares_gpu_(share_a_gpu(options_.devices)) {
  if (options_.use_cpu_kernels) {
    tensor::install_cpu_allocator();
    kernels::use_cpu_kernels();
  }
  threads_ = std::make_unique<Threads>(*this);
}

ReplicaGroup::~ReplicaGroup() = default;

int ReplicaGroup::num_replicas() const {
  return options_.communicator ? options_.communicator->placement().num_replicas()
                               : num_local_replicas();
}

int ReplicaGroup::replica_id(int local) const {
  return options_.communicator ? options_.communicator->replicas()[static_cast<size_t>(local)]
                               : local;
}

Workers ReplicaGroup::workers() const {
  const collective::Communicator* const peers = communicator();
  if (peers == nullptr) return placement().workers();
  return {.count = peers->num_ranks(), .index = peers->rank()};
}

collective::Rendezvous& ReplicaGroup::rendezvous() { return threads_->rendezvous; }

uint64_t ReplicaGroup::step() const { return threads_->step; }

void ReplicaGroup::set_step(uint64_t step) { threads_->step = step; }

uint64_t ReplicaGroup::seed() const { return threads_->streams[0]->seed(); }

void ReplicaGroup::set_seed(uint64_t seed) {
  MutexLock turn(threads_->turn);
  if (seed != this->seed()) threads_->make_streams(seed);
}

void ReplicaGroup::observe(const std::shared_ptr<RunObserver>& observer) {
  const MutexLock lock(mutex_);
  observers_.push_back(observer);
  observed_ = true;
}

std::vector<std::shared_ptr<RunObserver>> ReplicaGroup::observers() {
  std::vector<std::shared_ptr<RunObserver>> present;
  if (!observed_) return present;
  const MutexLock lock(mutex_);
  std::erase_if(observers_, [&](const std::weak_ptr<RunObserver>& known) {
    auto observer = known.lock();
    if (observer) present.push_back(observer);
    return observer == nullptr;
  });
  observed_ = !observers_.empty();
  return present;
}

void ReplicaGroup::add(detail::VariableState* variable) {
  const MutexLock lock(mutex_);
  variables_.insert(variable);
}

void ReplicaGroup::remove(detail::VariableState* variable) {
  const MutexLock lock(mutex_);
  variables_.erase(variable);
}

void ReplicaGroup::reshape(std::vector<LogicalDevice> devices,
                           std::shared_ptr<collective::Communicator> communicator,
                           std::shared_ptr<collective::CardCommunicator> cards) {
  detail::require_cross_replica("reshape");
  ReplicaGroupOptions options = options_;
  options.devices = std::move(devices);
  options.communicator = std::move(communicator);
  options.cards = std::move(cards);
  options.replicas.permits = 0;
  options = resolve(std::move(options));
  const uint64_t step = this->step();
  const uint64_t seed = this->seed();
  threads_.reset();
  // Observers may have threads in calls of it.
  const std::shared_ptr<collective::Communicator> before = options_.communicator;
  options_ = std::move(options);
  options_.seed = seed;
  all_cpu_ = std::all_of(options_.devices.begin(), options_.devices.end(), on_cpu);
  shares_gpu_ = share_a_gpu(options_.devices);
  threads_ = std::make_unique<Threads>(*this);
  set_step(step);
  {
    const MutexLock lock(mutex_);
    for (detail::VariableState* variable : variables_) variable->reshape();
  }
  for (const auto& observer : observers()) observer->on_resize();
}

void ReplicaGroup::reconnect(std::shared_ptr<collective::Communicator> communicator,
                             std::shared_ptr<collective::CardCommunicator> cards, uint64_t step) {
  STRATA_DCHECK(communicator->replicas().size() == options_.devices.size());
  // Observers may have threads in calls of it.
  const std::shared_ptr<collective::Communicator> before =
      std::exchange(options_.communicator, std::move(communicator));
  options_.cards = std::move(cards);
  set_step(step);
  for (const auto& observer : observers()) observer->reconnected();
}

void ReplicaGroup::mend() const {
  if (communicator() == nullptr || !communicator()->has_failed() || threads_->in_run) return;
  const MutexLock turn(threads_->turn);
  mend_in_turn();
}

void ReplicaGroup::mend_in_turn() const {
  if (communicator() != nullptr && communicator()->has_failed() && owner_) owner_->do_mend();
}

void ReplicaGroup::refresh() const {
  if (options_.functions_only && owner_ != nullptr) owner_->do_refresh();
}

std::shared_ptr<StopConsensus> ReplicaGroup::make_stop_consensus() const {
  return owner_ ? owner_->do_make_stop_consensus() : nullptr;
}

void ReplicaGroup::run(const std::function<void(ReplicaContext&)>& body) {
  Threads& t = *threads_;
  detail::require_cross_replica("run");
  detail::require_unmixed(*this, "run");
  throw_if_interrupted();
  // Inside a run of its own, the default strategy just calls.
  if (detail::current_context().replica == &t.contexts[0]) return body(t.contexts[0]);
  MutexLock turn(t.turn);
  mend_in_turn();
  struct InRun {
    explicit InRun(std::atomic<bool>& flag) : flag(flag) { flag = true; }
    ~InRun() { flag = false; }
    std::atomic<bool>& flag;
  } const in_run(t.in_run);

  // Observers keep the group alive: it holds them only for as long as a run lasts.
  struct Forget {
    std::vector<std::shared_ptr<RunObserver>>& observers;
    ~Forget() { observers.clear(); }
  } const forget{t.observers};
  t.observers = observers();
  for (const auto& observer : t.observers) observer->before_run();
  t.body = &body;
  ++t.step;
  t.rendezvous.begin_round();
  if (!t.workers.empty()) {
    t.caller_state.emplace();
    t.running.store(static_cast<int>(t.workers.size()));
    {
      MutexLock lock(t.mutex);
      t.job_number.fetch_add(1);
    }
    t.job_changed.notify_all();
  }

  {
    const tensor::ThreadSetupGuard as_replica(
        {.cores = t.caller_cores,
         .intra_op_threads = 1,
         .kernel_threads = options_.replicas.threads_per_replica});
    t.take_part(0);
  }

  if (!t.workers.empty()) {
    const auto done = [&] { return t.running.load(std::memory_order_acquire) == 0; };
    if (t.limited || !spin_until(done, kWarmTime)) {
      MutexLock lock(t.mutex);
      t.all_done.wait(lock, done);  // replicas wait for each other only with deadlines
    }
  }
  Status status = t.rendezvous.status();
  if (status.ok() && options_.cards) status = options_.cards->status();
  // The replicas of other processes may be waiting for one of these, which will not come.
  if (!status.ok()) tell_others(status, str_cat("in run ", t.step));
  status.throw_if_error();
}

void ReplicaGroup::fail_step(const Status& status) const {
  if (threads_->in_run) return;
  const MutexLock turn(threads_->turn);
  if (communicator() != nullptr && !communicator()->has_failed()) {
    tell_others(status, str_cat("after run ", threads_->step));
  }
}

void ReplicaGroup::tell_others(const Status& status, const std::string& when) const {
  if (communicator() == nullptr) return;
  const Status known = owner_ ? owner_->do_step_failed(status, when) : status;
  communicator()->fail(known);
  if (options_.cards) options_.cards->fail(known);
}

}  // namespace strata
