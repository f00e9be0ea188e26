#include "ps/coordinator/coordinator_core.h"

#include <algorithm>
#include <random>
#include <utility>

#include "cluster/failure_detector.h"
#include "cluster/make_transport.h"
#include "core/join.h"
#include "core/seconds.h"
#include "strata/cluster/roles.h"
#include "strata/core/interrupt.h"
#include "strata/core/log.h"

namespace strata::ps::detail {
namespace {

constexpr auto kWaitForLate = std::chrono::seconds(1);

uint64_t draw_incarnation() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

CoordinatorOptions checked(CoordinatorOptions options) {
  cluster::check_liveness(options.server.liveness, "[ps] Coordinator");
  STRATA_CHECK(options.queue_size >= 1, kInvalidArgument,
               "[ps] Coordinator: got a queue_size of 0; expected 1 at least");
  STRATA_CHECK(options.max_in_flight >= 1, kInvalidArgument, "[ps] Coordinator: got max_in_flight ",
               options.max_in_flight, "; expected 1 at least");
  return options;
}

}  // namespace

CoordinatorCore::CoordinatorCore(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
                                 const FunctionRegistry& registry, CoordinatorOptions options)
    : spec_(spec),
      task_(task),
      registry_(registry),
      options_(checked(std::move(options))),
      incarnation_(draw_incarnation()),
      transport_(cluster::make_transport(options_.server)),
      queue_(options_.queue_size),
      next_tick_(Clock::now() + kTickInterval),
      detector_(cluster::control_timing(options_.server.liveness), next_tick_ - kTickInterval),
      all_away_since_(next_tick_ - kTickInterval) {
  STRATA_CHECK(task.job != cluster::kWorker, kInvalidArgument, "[ps] Coordinator: got the task ",
               task.to_string(), ", which is a worker; make the coordinator the chief");
  STRATA_CHECK(spec.has_job(cluster::kWorker), kInvalidArgument,
               "[ps] Coordinator: got a cluster without workers: ", spec.to_string());
  for (const int index : spec.task_indices(cluster::kWorker)) {
    Worker& worker = workers_.emplace_back();
    worker.index = static_cast<int>(workers_.size()) - 1;
    worker.task = {std::string(cluster::kWorker), index};
    worker.address = wire::Address::parse(spec.task_address(worker.task));
    STRATA_CHECK(worker.address.port != 0, kInvalidArgument, "[ps] Coordinator: got port 0 for ",
                 worker.task.to_string(), ", which no other task can reach; give it a port");
    worker.problem = "it has never connected";
  }
  run_ns_.assign(registry_.signatures().size(), -1);
}

void CoordinatorCore::start() {
  progress_thread_.emplace("strata-coord", *transport_, [this] { work(); });
  const MutexLock lock(mutex_);
  for (Worker& worker : workers_) begin_connecting(worker, false);
}

void CoordinatorCore::stop() {
  std::vector<Thread> connectors;
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    ended_ = true;
    for (Worker& worker : workers_) {
      if (worker.connection != nullptr) {
        worker.connection->fail({ErrorCode::kUnavailable, "[ps] the coordinator has disconnected"});
      }
      worker.arriving.clear();
      worker.sending.clear();
      worker.connection.reset();
      worker.state = State::kDisconnected;
      (void)queue_.lost(worker.index);
      connectors.push_back(std::move(worker.connector));
      connectors.back().request_stop();
    }
    queue_.cancel();
  }
  connectors.clear();
  transport_->wake();
  if (progress_thread_) progress_thread_->stop();
}

std::string CoordinatorCore::name_of(const Worker& worker) const {
  return str_cat(worker.task.to_string(), " at ", worker.address.to_string());
}

void CoordinatorCore::check_value(const FunctionRegistry::Found& function, size_t index,
                                  const Value& value, const Type& type,
                                  std::vector<std::shared_ptr<const ResourceId>>& resources) const {
  const auto wrong = [&](const std::string& got) {
    throw Error(ErrorCode::kInvalidArgument, str_cat("[ps] ", function.name, ": argument ", index,
                                                     ": got ", got, "; expected ", type.text));
  };
  if (value.kind() == Value::Kind::kList) {
    for (const Value& each : value.list()) {
      STRATA_CHECK(each.kind() != Value::Kind::kResource, kInvalidArgument, "[ps] ", function.name,
                   ": argument ", index,
                   ": got a per-worker value within a list; make it an argument of its own");
    }
  }
  if (value.kind() != Value::Kind::kResource) {
    if (!fits(value, type)) wrong(describe(value));
    return;
  }
  const auto found = resources_.find(value.resource().number);
  auto handle = found == resources_.end() ? nullptr : found->second.handle.lock();
  STRATA_CHECK(handle != nullptr, kInvalidArgument, "[ps] ", function.name, ": argument ", index,
               ": got a per-worker value that this coordinator does not have; keep what "
               "create_per_worker returns");
  if (type.resource != found->second.object) {
    wrong(str_cat("the per-worker value \"", found->second.name, "\", ",
                  found->second.object ? "a resource<" + type_name(*found->second.object) + ">"
                                       : "which is no object"));
  }
  resources.push_back(std::move(handle));
}

void CoordinatorCore::check_arguments(
    const FunctionRegistry::Found& function, const std::vector<Value>& arguments,
    std::vector<std::shared_ptr<const ResourceId>>& resources) const {
  const std::vector<Type>& types = function.entry.parameters;
  STRATA_CHECK(arguments.size() == types.size(), kInvalidArgument, "[ps] ", function.name, ": got ",
               arguments.size(), " arguments; expected ", types.size(), ": (",
               strata::join(types, &Type::text), ")");
  for (size_t i = 0; i < types.size(); ++i) {
    check_value(function, i, arguments[i], types[i], resources);
  }
}

// `done` is called with the mutex held. @throws Error  kCancelled: Ctrl-C (see InterruptGuard).
bool CoordinatorCore::wait_until(const std::function<bool()>& done, wire::Deadline deadline,
                                 bool until_interrupt) {
  const bool ended = progress_thread_->wait(
      [&] {
        if (until_interrupt && interrupted()) return true;
        const MutexLock lock(mutex_);
        return done();
      },
      deadline);
  if (until_interrupt) throw_if_interrupted();
  return ended;
}

bool CoordinatorCore::wait(const RemoteState& state, wire::Deadline deadline) {
  if (state.done()) return true;
  (void)progress_thread_->wait([&] { return state.done() || interrupted(); }, deadline);
  if (!state.done()) throw_if_interrupted();
  return state.done();
}

// Whether nothing runs.
bool CoordinatorCore::quiet() const {
  return queue_.idle() && std::ranges::all_of(workers_, [](const Worker& worker) {
           return worker.creating.empty();
         });
}

// Throws the error that is to be raised, if there is one, as soon as nothing runs any more.
void CoordinatorCore::raise(wire::Deadline deadline, std::string_view call) {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (!queue_.has_error()) return;
      broadcast_error();
      if (quiet()) {
        const Status error = queue_.take_error();
        error_spread_ = false;
        error.throw_if_error();
      }
    }
    if (!wait_until([&]() STRATA_REQUIRES(mutex_) { return !queue_.has_error() || quiet(); },
                    deadline)) {
      const MutexLock lock(mutex_);
      throw Error(ErrorCode::kDeadlineExceeded,
                  str_cat("[ps] ", call,
                          ": there is an error to raise, and the deadline passed "
                          "before what runs had ended: ",
                          describe_running()));
    }
  }
}

std::string CoordinatorCore::describe_running() const {
  std::vector<std::string> parts;
  for (const Worker& worker : workers_) {
    const auto& there = queue_.at(worker.index);
    if (there.empty()) continue;
    const Closure& oldest = *there.begin()->second;
    parts.push_back(str_cat(there.size(), " at ", worker.task.to_string(), ", the oldest ",
                            registry_.at(oldest.function)->name, " for ",
                            strata::detail::in_seconds(Clock::now() - oldest.sent), " s"));
  }
  if (parts.empty()) parts.push_back("nothing runs; " + describe_away());
  return strata::join(parts, {}, "; ");
}

std::string CoordinatorCore::describe_away() const {
  std::vector<std::string> parts;
  for (const Worker& worker : workers_) {
    if (worker.state == State::kReady) continue;
    parts.push_back(str_cat(name_of(worker), ": ", worker.problem));
  }
  return parts.empty() ? "all workers are connected" : strata::join(parts, {}, "; ");
}

RemoteValue<> CoordinatorCore::schedule(std::string_view function,
                                        const std::vector<Value>& arguments,
                                        wire::Deadline deadline) {
  const FunctionRegistry::Found found = registry_.find(function);
  STRATA_CHECK(!found.entry.object, kInvalidArgument, "[ps] schedule: got \"", found.name,
               "\", which makes per-worker objects; give it to create_per_worker");
  auto closure = std::make_unique<Closure>();
  closure->function = found.index;
  closure->arguments = encode_values(arguments);
  closure->result = std::make_shared<RemoteState>();
  RemoteValue<> result(RemoteHandle(closure->result, weak_from_this()));
  bool checked = false;
  while (true) {
    {
      const MutexLock lock(mutex_);
      STRATA_CHECK(!ending_, kFailedPrecondition, "[ps] schedule: got \"", found.name,
                   "\" after shutdown");
      if (!std::exchange(checked, true)) check_arguments(found, arguments, closure->resources);
      if (!queue_.has_error() && !queue_.full()) {
        closure->number = next_number_++;
        queue_.put(std::move(closure));
        dispatch();
        return result;
      }
    }
    raise(deadline, "schedule");
    const auto may_go_on = [&]() STRATA_REQUIRES(mutex_) {
      return queue_.has_error() || !queue_.full() || ending_;
    };
    STRATA_CHECK(wait_until(may_go_on, deadline), kDeadlineExceeded,
                 "[ps] schedule: the deadline passed while the queue was full (",
                 options_.queue_size, " calls)");
  }
}

void CoordinatorCore::join(wire::Deadline deadline) {
  const auto settled = [&]() STRATA_REQUIRES(mutex_) {
    return queue_.has_error() || (queue_.empty() && quiet());
  };
  const bool in_time = wait_until(settled, deadline);
  raise(deadline, "join");
  if (in_time) return;
  const MutexLock lock(mutex_);
  throw Error(ErrorCode::kDeadlineExceeded,
              str_cat("[ps] join: the deadline passed while ",
                      queue_.counts().scheduled - queue_.counts().finished -
                          queue_.counts().failed - queue_.counts().cancelled,
                      " calls had not ended: ", describe_running()));
}

bool CoordinatorCore::done() {
  work();
  raise(wire::Deadline::after(Coordinator::kNoLimit), "done");
  const MutexLock lock(mutex_);
  return queue_.empty() && quiet();
}

PerWorkerValues CoordinatorCore::create_per_worker(std::string_view function,
                                                   const std::vector<Value>& arguments) {
  const FunctionRegistry::Found found = registry_.find(function);
  PerWorker resource = {.function = found.index,
                        .name = found.name,
                        .object = found.entry.object,
                        .arguments = encode_values(arguments),
                        .handle = {},
                        .takes = {}};
  const MutexLock lock(mutex_);
  STRATA_CHECK(!ending_, kFailedPrecondition, "[ps] create_per_worker: got \"", found.name,
               "\" after shutdown");
  check_arguments(found, arguments, resource.takes);
  const uint64_t number = next_number_++;
  const std::shared_ptr<const ResourceId> handle(
      new ResourceId{number}, [forgotten = forgotten_](const ResourceId* id) {
        {
          const MutexLock forgotten_lock(forgotten->mutex);
          forgotten->numbers.push_back(id->number);
        }
        delete id;
      });
  resource.handle = handle;
  const PerWorker& kept = resources_.emplace(number, std::move(resource)).first->second;
  for (Worker& worker : workers_) {
    if (worker.state == State::kReady) send_create(worker, number, kept);
  }
  return PerWorkerValues(handle);
}

int CoordinatorCore::num_ready_workers() const {
  const MutexLock lock(mutex_);
  return static_cast<int>(std::ranges::count(workers_, State::kReady, &Worker::state));
}

void CoordinatorCore::wait_for_workers(int count, wire::Deadline deadline) {
  STRATA_CHECK(count <= num_workers(), kInvalidArgument, "[ps] wait_for_workers: got ", count,
               "; expected at most ", num_workers(), ", as many as the cluster has");
  const auto there = [&]() STRATA_REQUIRES(mutex_) {
    return std::ranges::count(workers_, State::kReady, &Worker::state) >= count;
  };
  (void)wait_until([&]() STRATA_REQUIRES(mutex_) { return queue_.has_error() || there(); },
                   deadline);
  if (num_ready_workers() >= count) return;
  raise(deadline, "wait_for_workers");  // they may never come
  const MutexLock lock(mutex_);
  throw Error(ErrorCode::kDeadlineExceeded,
              str_cat("[ps] wait_for_workers: the deadline passed before ", count,
                      " workers were there: ", describe_away()));
}

CoordinatorCounts CoordinatorCore::counts() const {
  const MutexLock lock(mutex_);
  CoordinatorCounts counts = queue_.counts();
  counts.lost = lost_;
  return counts;
}

void CoordinatorCore::shutdown(wire::Deadline deadline) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(ending_, true)) return;
    if (!queue_.idle() || !queue_.empty()) {
      queue_.fail({ErrorCode::kCancelled, "[ps] the coordinator ends"});
      broadcast_error();
    }
  }
  if (!wait_until([&]() STRATA_REQUIRES(mutex_) { return quiet(); }, deadline, false)) {
    const MutexLock lock(mutex_);
    STRATA_LOG(kWarning) << "[ps] shutdown: does not wait longer: " << describe_running();
  }
  // Those that are just coming are to hear it, too.
  const auto all_there = [&]() STRATA_REQUIRES(mutex_) {
    return std::ranges::none_of(workers_,
                                [](const Worker& worker) { return worker.connection == nullptr; });
  };
  (void)wait_until(all_there, wire::Deadline::sooner(deadline, wire::Deadline::after(kWaitForLate)),
                   false);
  std::vector<std::shared_ptr<wire::Connection>> connections;
  {
    const MutexLock lock(mutex_);
    ended_ = true;
    for (Worker& worker : workers_) {
      if (worker.connection == nullptr) {
        STRATA_LOG(kWarning) << "[ps] shutdown: " << name_of(worker)
                             << " is not reachable: " << worker.problem;
        continue;
      }
      send(worker, {.kind = CallKind::kEnd});
      connections.push_back(worker.connection);
    }
  }
  for (const auto& connection : connections) {
    connection->close(deadline);
  }
  stop();
}

}  // namespace strata::ps::detail
