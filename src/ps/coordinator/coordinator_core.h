#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/failure_detector.h"
#include "core/mutex.h"
#include "core/thread.h"
#include "ps/coordinator/call_message.h"
#include "ps/coordinator/closure_queue.h"
#include "ps/coordinator/coordinator.h"
#include "ps/coordinator/progress_thread.h"
#include "ps/failure_log.h"
#include "wire/connection.h"
#include "wire/transport.h"

namespace strata::ps::detail {

/// A Coordinator's state: the queue, and a connection a worker. Everything is under one mutex; who
/// waits, or the progress thread, reads what has come, hands out calls, and looks who has fallen
/// silent.
class CoordinatorCore : public std::enable_shared_from_this<CoordinatorCore> {
 public:
  using Clock = std::chrono::steady_clock;

  CoordinatorCore(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
                  const FunctionRegistry& registry, CoordinatorOptions options);
  /// Connects to the workers from now on.
  void start();
  /// Ends everything here; calls that have not ended are cancelled.
  void stop();

  RemoteValue<> schedule(std::string_view function, const std::vector<Value>& arguments,
                         wire::Deadline deadline);
  void join(wire::Deadline deadline);
  bool done();
  PerWorkerValues create_per_worker(std::string_view function, const std::vector<Value>& arguments);
  /// (Not checked: there are always as many.)
  int num_workers() const STRATA_NO_THREAD_SAFETY_ANALYSIS {
    return static_cast<int>(workers_.size());
  }
  int num_ready_workers() const;
  void wait_for_workers(int count, wire::Deadline deadline);
  CoordinatorCounts counts() const;
  void shutdown(wire::Deadline deadline);

  /// Waits for a call's end. @return false at the deadline.
  bool wait(const RemoteState& state, wire::Deadline deadline);

 private:
  // A result whose tensors are on their way.
  struct Arriving {
    uint64_t number = 0;
    uint64_t run_ns = 0;
    uint64_t service_time_ns = 0;
    Value value;
    std::vector<at::Tensor> tensors;
    std::vector<wire::Transfer> transfers;
  };
  struct Sending {
    at::Tensor tensor;  // outlives its transfer
    wire::Transfer transfer;
  };
  static constexpr auto kTickInterval = std::chrono::milliseconds(5);
  enum class State { kDisconnected, kHandshaking, kReady };
  struct Worker {
    int index = 0;
    cluster::TaskId task;
    wire::Address address;
    State state = State::kDisconnected;
    std::string problem;  // why it is away
    std::shared_ptr<wire::Connection> connection;
    Thread connector;

    uint64_t threads = 1;
    std::set<uint64_t> creating;  // resources
    std::deque<Sending> sending;
    std::deque<Arriving> arriving;
    std::vector<const Closure*> batch;  // begun, and not yet sent
    size_t batch_bytes = 0;
    uint64_t last_turn = 0;
    int64_t queued_ns = 0;  // what is there will take so long
    size_t queued_bytes = 0;
    int64_t overhead_ns = 50'000;  // of a call, besides the function: the way, mostly
    bool taking_back = false;
  };
  struct PerWorker {
    uint32_t function = 0;
    std::string name;
    std::optional<std::type_index> object;  // a factory's
    EncodedValues arguments;
    std::weak_ptr<const ResourceId> handle;
    std::vector<std::shared_ptr<const ResourceId>> takes;  // other ones
  };
  // Handles go wherever they go, under the mutex, too.
  struct Forgotten {
    Mutex mutex;
    std::vector<uint64_t> numbers STRATA_GUARDED_BY(mutex);
  };

  static uint64_t id_of(const Worker& worker) { return static_cast<uint64_t>(worker.index); }
  std::string name_of(const Worker& worker) const;
  void check_arguments(const FunctionRegistry::Found& function, const std::vector<Value>& arguments,
                       std::vector<std::shared_ptr<const ResourceId>>& resources) const
      STRATA_REQUIRES(mutex_);
  void check_value(const FunctionRegistry::Found& function, size_t index, const Value& value,
                   const Type& type,
                   std::vector<std::shared_ptr<const ResourceId>>& resources) const
      STRATA_REQUIRES(mutex_);
  bool wait_until(const std::function<bool()>& done, wire::Deadline deadline,
                  bool until_interrupt = true);
  void raise(wire::Deadline deadline, std::string_view call);
  bool quiet() const STRATA_REQUIRES(mutex_);
  std::string describe_running() const STRATA_REQUIRES(mutex_);
  std::string describe_away() const STRATA_REQUIRES(mutex_);

  // coordinator_links.cc
  void work();
  void work_once();
  void connect(Worker& worker, bool refused, const std::stop_token& stop);
  void begin_connecting(Worker& worker, bool refused) STRATA_REQUIRES(mutex_);
  void attach(Worker& worker, std::shared_ptr<wire::Connection> connection);
  void lose(Worker& worker, ErrorCode code, const std::string& why, bool refused = false)
      STRATA_REQUIRES(mutex_);
  void poll(Worker& worker, Clock::time_point now) STRATA_REQUIRES(mutex_);
  void handle(Worker& worker, const CallMessage& message, Clock::time_point now)
      STRATA_REQUIRES(mutex_);
  void handle_ready(Worker& worker, const CallMessage& message) STRATA_REQUIRES(mutex_);
  void handle_outcome(Worker& worker, const Outcome& outcome, Clock::time_point now)
      STRATA_REQUIRES(mutex_);
  void finish(Worker& worker, Arriving& arriving, Clock::time_point now) STRATA_REQUIRES(mutex_);
  void release(Worker& worker, const Closure& closure) STRATA_REQUIRES(mutex_);
  void measure(Worker& worker, const Closure& closure, uint64_t run_ns, uint64_t service_time_ns,
               Clock::time_point now) STRATA_REQUIRES(mutex_);
  void dispatch() STRATA_REQUIRES(mutex_);
  Worker* next_worker(Clock::time_point now) STRATA_REQUIRES(mutex_);
  bool has_room(const Worker& worker, Clock::time_point now) const STRATA_REQUIRES(mutex_);
  bool stalled(const Worker& worker, Clock::time_point now) const STRATA_REQUIRES(mutex_);
  void send_batch(Worker& worker) STRATA_REQUIRES(mutex_);
  void send(Worker& worker, const CallMessage& message, const std::vector<at::Tensor>& tensors = {})
      STRATA_REQUIRES(mutex_);
  void send_create(Worker& worker, uint64_t number, const PerWorker& resource)
      STRATA_REQUIRES(mutex_);
  void forget_unused() STRATA_REQUIRES(mutex_);
  void tick(Clock::time_point now) STRATA_REQUIRES(mutex_);
  void reclaim_prefetched(Clock::time_point now) STRATA_REQUIRES(mutex_);
  void broadcast_error() STRATA_REQUIRES(mutex_);

  const cluster::ClusterSpec spec_;
  const cluster::TaskId task_;
  const FunctionRegistry registry_;
  const CoordinatorOptions options_;
  const uint64_t incarnation_;  // of this coordinator
  const std::shared_ptr<wire::Transport> transport_;
  const std::shared_ptr<Forgotten> forgotten_ = std::make_shared<Forgotten>();

  FailureLog failures_;

  mutable Mutex mutex_;
  ClosureQueue queue_ STRATA_GUARDED_BY(mutex_);
  std::deque<Worker> workers_ STRATA_GUARDED_BY(mutex_);
  std::map<uint64_t, PerWorker> resources_ STRATA_GUARDED_BY(mutex_);
  std::vector<int64_t> run_ns_ STRATA_GUARDED_BY(mutex_);  // by function; -1: not known
  uint64_t next_number_ STRATA_GUARDED_BY(mutex_) = 1;
  uint64_t next_turn_ STRATA_GUARDED_BY(mutex_) = 1;
  uint64_t lost_ STRATA_GUARDED_BY(mutex_) = 0;
  bool changed_ STRATA_GUARDED_BY(mutex_) = false;       // a thread may wait for it
  bool error_spread_ STRATA_GUARDED_BY(mutex_) = false;  // the workers know
  bool ending_ STRATA_GUARDED_BY(mutex_) = false;        // nothing is scheduled any more
  bool ended_ STRATA_GUARDED_BY(mutex_) = false;         // who is away stays away
  Clock::time_point next_tick_ STRATA_GUARDED_BY(mutex_);
  // Of the connected workers, by their index.
  cluster::FailureDetector detector_ STRATA_GUARDED_BY(mutex_);
  Clock::time_point all_away_since_ STRATA_GUARDED_BY(mutex_);

  std::optional<ProgressThread> progress_thread_;
};

}  // namespace strata::ps::detail
