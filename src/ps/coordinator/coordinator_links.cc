// The coordinator's connections to its workers: connecting, receiving, sending.
#include <algorithm>
#include <random>
#include <utility>

#include "core/seconds.h"
#include "core/wait_notice.h"
#include "ps/coordinator/coordinator_core.h"
#include "strata/core/log.h"
#include "strata/kernels/cpu_kernels.h"

namespace strata::ps::detail {
namespace {

// Shorter than until a connection's own notice: the one here knows of all tries.
constexpr auto kConnectFor = std::chrono::seconds(4);
// Before the next try at one that has refused.
constexpr auto kPauseAfterRefusal = std::chrono::milliseconds(250);
constexpr auto kLongestPause = std::chrono::milliseconds(4000);
// Of calls in one message; some more with the last.
constexpr size_t kBatchBytes = size_t{256} << 10;
// Nothing is sent behind calls that have so many bytes: they are in the worker's memory.
constexpr size_t kAheadBytes = size_t{32} << 20;
// Of a function that has not run yet: nothing is sent behind it.
constexpr int64_t kUnknown = 3'600'000'000'000;
// Calls behind one that takes so long are taken back for others.
constexpr auto kStuckAfter = std::chrono::milliseconds(5);
constexpr int64_t kSmoothing = 8;

int64_t smooth(int64_t old, int64_t now) { return old + (now - old) / kSmoothing; }

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}
std::span<std::byte> writable_bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

}  // namespace

/// Nothing that a peer causes ends the thread that calls it.
void CoordinatorCore::work() {
  try {
    work_once();
  } catch (...) {
    failures_.log("the coordinator", Status::from_current_exception());
  }
}

void CoordinatorCore::work_once() {
  bool wake = false;
  {
    const MutexLock lock(mutex_);
    const Clock::time_point now = Clock::now();
    for (Worker& worker : workers_) {
      if (worker.connection != nullptr) poll(worker, now);
    }
    if (queue_.has_error()) broadcast_error();
    dispatch();
    if (now >= next_tick_) tick(now);
    wake = std::exchange(changed_, false);
  }
  if (wake) transport_->wake();
}

// ---- who is there ----

// On a thread of the worker's own: until it is there.
void CoordinatorCore::connect(Worker& worker, bool refused, const std::stop_token& stop) {
  const wire::Hello hello = {.job = options_.server.job,
                             .task = task_.to_string(),
                             .generation = incarnation_,
                             .purpose = std::string(kCoordinatorPurpose)};
  std::string said;
  // Longer each time: a worker that serves another coordinator would get a handshake every few
  // milliseconds otherwise.
  std::chrono::milliseconds next_pause = kPauseAfterRefusal;
  std::minstd_rand random(static_cast<uint32_t>(incarnation_) +
                          static_cast<uint32_t>(worker.index));
  const auto pause = [&] {
    const auto some = std::chrono::milliseconds(
        static_cast<int64_t>(random() % static_cast<uint64_t>(next_pause.count() / 2 + 1)));
    (void)transport_->wait_until([] { return false; }, wire::Deadline::after(next_pause + some),
                                 stop);
    next_pause = std::min(next_pause * 2, kLongestPause);
  };
  strata::detail::WaitNotice notice(
      [&] {
        const MutexLock lock(mutex_);
        return str_cat("[ps] ", task_.to_string(), " waits for ", name_of(worker), ": ",
                       worker.problem);
      },
      Clock::now(), Clock::time_point::max());
  if (refused) pause();
  while (!stop.stop_requested()) {
    notice.look(Clock::now());
    try {
      const auto until = wire::Deadline::sooner(wire::Deadline::after(kConnectFor),
                                                wire::Deadline::at(notice.next()));
      attach(worker, transport_->connect(worker.address, hello, until,
                                         {.peer = worker.task.to_string()}, stop));
      return;
    } catch (const Error& error) {
      if (stop.stop_requested()) return;
      const MutexLock lock(mutex_);
      worker.problem = error.what();
      if (error.code() != ErrorCode::kDeadlineExceeded && said != error.what()) {
        said = error.what();
        STRATA_LOG(kWarning) << "[ps] " << name_of(worker) << " is unreachable: " << said;
        // That does not pass by itself.
        if (error.code() == ErrorCode::kUnauthenticated) {
          queue_.fail(Status(error.code(), said));
          changed_ = true;
        }
      }
    }
    pause();
  }
}

void CoordinatorCore::begin_connecting(Worker& worker, bool refused) {
  // The thread before has attached what is lost by now, and is at its end.
  worker.connector = Thread("strata-connect", [this, &worker, refused](std::stop_token stop) {
    for (bool again = refused; !stop.stop_requested(); again = true) {
      try {
        return connect(worker, again, stop);
      } catch (...) {
        failures_.log("connecting", Status::from_current_exception());
      }
    }
  });
}

void CoordinatorCore::attach(Worker& worker, std::shared_ptr<wire::Connection> connection) {
  {
    const MutexLock lock(mutex_);
    if (ended_) return;
    detector_.add(id_of(worker), Clock::now());
    worker.connection = std::move(connection);
    worker.state = State::kHandshaking;
    worker.problem = "it has not answered yet, or still ends what it did before";
    worker.queued_ns = 0;
    worker.queued_bytes = 0;
    worker.taking_back = false;
    const std::string kernels = kernels::kernel_table_name();
    send(worker, {.kind = CallKind::kOpen,
                  .number = registry_.fingerprint(),
                  .text = kernels,
                  .lines = registry_.signatures()});
  }
  transport_->wake();
}

void CoordinatorCore::lose(Worker& worker, ErrorCode code, const std::string& why, bool refused) {
  const bool was_ready = worker.state == State::kReady;
  worker.connection->fail(Status(code, str_cat("[ps] ", why)));
  worker.arriving.clear();
  worker.sending.clear();
  worker.creating.clear();
  worker.batch.clear();
  worker.batch_bytes = 0;
  worker.connection.reset();
  detector_.remove(id_of(worker));
  worker.state = State::kDisconnected;
  worker.problem = why;
  const size_t back = queue_.lost(worker.index);
  changed_ = true;
  if (ended_) return;
  if (was_ready) {
    ++lost_;
    STRATA_LOG(kWarning) << "[ps] " << name_of(worker) << " is lost: " << why << "; " << back
                         << " calls wait again";
  }
  begin_connecting(worker, refused);
}

void CoordinatorCore::tick(Clock::time_point now) {
  next_tick_ = now + kTickInterval;
  (void)detector_.tick(now);
  const bool heartbeat = detector_.heartbeat_due(now);
  if (heartbeat) detector_.heartbeat_sent(now);
  for (Worker& worker : workers_) {
    if (worker.connection == nullptr) continue;
    detector_.received(id_of(worker), worker.connection->counts().bytes_received, now);
    if (detector_.is_lost(id_of(worker), now)) {
      lose(worker, ErrorCode::kUnavailable,
           str_cat("it was silent for more than ",
                   strata::detail::in_seconds(detector_.timing().silence_limit), " s"));
    } else if (heartbeat) {
      send(worker, {.kind = CallKind::kPing});
    }
  }
  forget_unused();
  reclaim_prefetched(now);
  const bool any_ready = std::ranges::any_of(
      workers_, [](const Worker& worker) { return worker.state == State::kReady; });
  if (any_ready || (queue_.empty() && queue_.idle())) {
    all_away_since_ = std::max(all_away_since_, now);
  } else if (now - all_away_since_ >= options_.worker_timeout) {
    all_away_since_ = now;
    queue_.fail(
        {ErrorCode::kUnavailable,
         str_cat("[ps] no worker was connected for ",
                 strata::detail::in_seconds(options_.worker_timeout),
                 " s (CoordinatorOptions::worker_timeout) while calls waited: ", describe_away())});
    changed_ = true;
  }
}

void CoordinatorCore::broadcast_error() {
  if (std::exchange(error_spread_, true)) return;
  changed_ = true;
  for (Worker& worker : workers_) {
    if (worker.state == State::kReady && !queue_.at(worker.index).empty()) {
      send(worker, {.kind = CallKind::kCancel});
    }
  }
}

// ---- what comes ----

void CoordinatorCore::poll(Worker& worker, Clock::time_point now) {
  try {
    while (auto text = worker.connection->try_receive_message(kCallChannel)) {
      detector_.heard(id_of(worker), now);
      handle(worker, decode_call_message(*text), now);
      if (worker.connection == nullptr) return;
    }
    while (!worker.arriving.empty()) {
      Arriving& first = worker.arriving.front();
      const bool there =
          std::ranges::all_of(first.transfers, [](const auto& each) { return each.done(); });
      if (!there) break;
      for (const auto& each : first.transfers) each.status().throw_if_error();
      finish(worker, first, now);
      worker.arriving.pop_front();
    }
    while (!worker.sending.empty() && worker.sending.front().transfer.done()) {
      worker.sending.front().transfer.status().throw_if_error();
      worker.sending.pop_front();
    }
  } catch (const std::exception& error) {
    lose(worker, ErrorCode::kUnavailable, error.what());
  }
}

void CoordinatorCore::handle(Worker& worker, const CallMessage& message, Clock::time_point now) {
  switch (message.kind) {
    case CallKind::kReady:
      return handle_ready(worker, message);
    case CallKind::kRefuse: {
      const Status refusal(
          message.code, str_cat("[ps] ", name_of(worker), " does not take part: ", message.text));
      lose(worker, message.code, refusal.message(), true);
      queue_.fail(refusal);
      return;
    }
    case CallKind::kOutcomes:
      for (const Outcome& outcome : message.outcomes) handle_outcome(worker, outcome, now);
      return;
    case CallKind::kCreated:
      for (const Outcome& outcome : message.outcomes) {
        if (worker.creating.erase(outcome.number) == 0) continue;
        changed_ = true;
        // No error of the queue's: calls that take the value fail with it, and no other call.
        if (outcome.code != ErrorCode::kOk) {
          STRATA_LOG(kWarning) << "[ps] a per-worker value was not made: " << outcome.text;
        }
      }
      return;
    case CallKind::kRequeued:
      worker.taking_back = false;
      for (const uint64_t number : message.numbers) {
        if (const Closure* closure = queue_.find(worker.index, number)) release(worker, *closure);
        queue_.requeued(worker.index, number);
      }
      changed_ = true;
      return;
    case CallKind::kPong:
      return;
    default:
      throw Error(ErrorCode::kDataLoss,
                  str_cat("it sent a message of kind ", static_cast<uint32_t>(message.kind),
                          ", which coordinators do not get"));
  }
}

void CoordinatorCore::handle_ready(Worker& worker, const CallMessage& message) {
  worker.state = State::kReady;
  worker.problem.clear();
  worker.threads = std::clamp<uint64_t>(message.number, 1, 1024);
  STRATA_LOG(kInfo) << "[ps] " << name_of(worker) << " is connected";
  for (const auto& [number, resource] : resources_) {
    if (!resource.handle.expired()) send_create(worker, number, resource);
  }
  changed_ = true;
}

void CoordinatorCore::handle_outcome(Worker& worker, const Outcome& outcome,
                                     Clock::time_point now) {
  if (outcome.code != ErrorCode::kOk) {
    if (const Closure* closure = queue_.find(worker.index, outcome.number)) {
      measure(worker, *closure, outcome.run_ns, outcome.service_time_ns, now);
    }
    queue_.failed(worker.index, outcome.number, Status(outcome.code, std::string(outcome.text)));
    changed_ = true;
    return;
  }
  Arriving arriving = {.number = outcome.number,
                       .run_ns = outcome.run_ns,
                       .service_time_ns = outcome.service_time_ns,
                       .value = {},
                       .tensors = {},
                       .transfers = {}};
  std::vector<Value> values = decode_values(outcome.values, arriving.tensors);
  if (!values.empty()) arriving.value = std::move(values.front());
  if (arriving.tensors.empty()) return finish(worker, arriving, now);
  for (const at::Tensor& tensor : arriving.tensors) {
    arriving.transfers.push_back(worker.connection->receive(
        {.channel = kTensorChannel, .id = 0, .fingerprint = 0}, writable_bytes_of(tensor)));
  }
  worker.arriving.push_back(std::move(arriving));
}

void CoordinatorCore::finish(Worker& worker, Arriving& arriving, Clock::time_point now) {
  const Closure* closure = queue_.find(worker.index, arriving.number);
  if (closure == nullptr) return;
  measure(worker, *closure, arriving.run_ns, arriving.service_time_ns, now);
  queue_.finished(worker.index, arriving.number, std::move(arriving.value));
  changed_ = true;
}

// It is no longer there.
void CoordinatorCore::release(Worker& worker, const Closure& closure) {
  worker.queued_ns -= closure.estimate_ns;
  worker.queued_bytes -= closure.arguments.bytes();
}

// What the next calls will take, by the last ones.
void CoordinatorCore::measure(Worker& worker, const Closure& closure, uint64_t run_ns,
                              uint64_t service_time_ns, Clock::time_point now) {
  release(worker, closure);
  int64_t& known = run_ns_[closure.function];
  const auto run = static_cast<int64_t>(std::min<uint64_t>(run_ns, kUnknown));
  known = known < 0 ? run : smooth(known, run);
  const auto here = static_cast<int64_t>(std::min<uint64_t>(service_time_ns, kUnknown));
  const int64_t whole = std::chrono::nanoseconds(now - closure.sent).count();
  worker.overhead_ns = smooth(worker.overhead_ns, std::max<int64_t>(whole - here, 0));
}

// ---- sending ----

// Whether one more may go to the worker. As many as run there, always; more only to hide the way
// there and back, so that none waits behind a long one while another worker has nothing to do.
bool CoordinatorCore::has_room(const Worker& worker, Clock::time_point now) const {
  const ClosureQueue::InFlight& there = queue_.at(worker.index);
  if (there.size() < worker.threads) return true;
  return there.size() < static_cast<size_t>(options_.max_in_flight) &&
         worker.queued_bytes < kAheadBytes &&
         worker.queued_ns < 2 * worker.overhead_ns * static_cast<int64_t>(worker.threads) &&
         !stalled(worker, now);
}

// Whether its oldest call takes much longer than was thought.
bool CoordinatorCore::stalled(const Worker& worker, Clock::time_point now) const {
  const auto usual = std::chrono::nanoseconds(3 * worker.overhead_ns);
  const Clock::time_point sent = queue_.at(worker.index).begin()->second->sent;
  return sent != Clock::time_point() &&
         now - sent > std::max<std::chrono::nanoseconds>(kStuckAfter, usual);
}

CoordinatorCore::Worker* CoordinatorCore::next_worker(Clock::time_point now) {
  Worker* best = nullptr;
  size_t best_there = 0;
  for (Worker& worker : workers_) {
    if (worker.state != State::kReady || worker.taking_back || !has_room(worker, now)) continue;
    const size_t there = queue_.at(worker.index).size();
    const bool better = best == nullptr || there < best_there ||
                        (there == best_there && worker.last_turn < best->last_turn);
    if (!better) continue;
    best = &worker;
    best_there = there;
  }
  return best;
}

void CoordinatorCore::dispatch() {
  if (queue_.empty() || queue_.has_error()) return;
  bool any = false;
  const Clock::time_point now = Clock::now();
  while (!queue_.empty()) {
    Worker* const worker = next_worker(now);
    if (worker == nullptr) break;
    any = true;
    Closure& closure = queue_.begin(worker->index);
    const int64_t known = run_ns_[closure.function];
    closure.sent = {};
    closure.estimate_ns = known < 0 ? kUnknown : known;
    worker->queued_ns += closure.estimate_ns;
    worker->queued_bytes += closure.arguments.bytes();
    worker->last_turn = next_turn_++;
    worker->batch.push_back(&closure);
    worker->batch_bytes += closure.arguments.text.size();
    if (worker->batch_bytes >= kBatchBytes) send_batch(*worker);
  }
  if (!any) return;
  changed_ = true;  // the queue has room
  for (Worker& worker : workers_) {
    if (!worker.batch.empty()) send_batch(worker);
  }
}

void CoordinatorCore::send_batch(Worker& worker) {
  const std::vector<const Closure*> batch = std::exchange(worker.batch, {});
  worker.batch_bytes = 0;
  try {
    CallMessage message = {.kind = CallKind::kRun};
    std::vector<at::Tensor> tensors;
    const Clock::time_point now = Clock::now();
    for (const Closure* each : batch) {
      const_cast<Closure*>(each)->sent = now;
      message.calls.push_back({.number = each->number,
                               .function = each->function,
                               .discard = each->result.use_count() == 1,
                               .values = each->arguments.text});
      tensors.insert(tensors.end(), each->arguments.tensors.begin(), each->arguments.tensors.end());
    }
    send(worker, message, tensors);
  } catch (...) {  // memory: they are not there; they wait again when the worker is lost
    worker.connection->fail(Status::from_current_exception());
  }
}

// Never throws: that a connection is broken, `poll` will see.
void CoordinatorCore::send(Worker& worker, const CallMessage& message,
                           const std::vector<at::Tensor>& tensors) {
  try {
    worker.connection->send_message(kCallChannel, encode(message));
    for (const at::Tensor& tensor : tensors) {
      Sending& sending = worker.sending.emplace_back();
      sending.tensor = tensor;
      sending.transfer = worker.connection->send(
          {.channel = kTensorChannel, .id = 0, .fingerprint = 0}, bytes_of(tensor));
    }
  } catch (...) {
    worker.connection->fail(Status::from_current_exception());
  }
}

void CoordinatorCore::send_create(Worker& worker, uint64_t number, const PerWorker& resource) {
  worker.creating.insert(number);
  send(worker,
       {.kind = CallKind::kCreate,
        .calls = {{.number = number,
                   .function = resource.function,
                   .discard = false,
                   .values = resource.arguments.text}}},
       resource.arguments.tensors);
}

void CoordinatorCore::forget_unused() {
  CallMessage message = {.kind = CallKind::kRelease};
  {
    const MutexLock lock(forgotten_->mutex);
    message.numbers.swap(forgotten_->numbers);
  }
  if (message.numbers.empty()) return;
  for (Worker& worker : workers_) {
    if (worker.state == State::kReady) send(worker, message);
  }
  // What they held of others may go now, which the next look finds.
  for (const uint64_t number : message.numbers) resources_.erase(number);
}

// A worker has nothing to do, and calls wait behind a long one at another.
void CoordinatorCore::reclaim_prefetched(Clock::time_point now) {
  if (!queue_.empty() || queue_.has_error()) return;
  const bool any_ready_free =
      std::ranges::any_of(workers_, [&](const Worker& worker) STRATA_REQUIRES(mutex_) {
        return worker.state == State::kReady && queue_.at(worker.index).size() < worker.threads;
      });
  if (!any_ready_free) return;
  for (Worker& worker : workers_) {
    const auto& there = queue_.at(worker.index);
    if (worker.state != State::kReady || worker.taking_back || there.size() <= worker.threads) {
      continue;
    }
    if (!stalled(worker, now)) continue;
    CallMessage message = {.kind = CallKind::kTakeBack};
    for (auto it = std::next(there.begin(), static_cast<ptrdiff_t>(worker.threads));
         it != there.end(); ++it) {
      message.numbers.push_back(it->first);
    }
    worker.taking_back = true;
    send(worker, message);
  }
}

}  // namespace strata::ps::detail
