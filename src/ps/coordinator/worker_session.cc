#include "ps/coordinator/worker_session.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/log_limiter.h"
#include "kernels/kernel_agreement.h"
#include "strata/core/log.h"
#include "strata/kernels/cpu_kernels.h"

namespace strata::ps {
namespace {

// Outcomes wait for each other while functions take next to no time, and no longer than that.
constexpr auto kGatherFor = std::chrono::microseconds(50);
constexpr size_t kGatherAtMost = 64;
constexpr size_t kGatherBytes = size_t{256} << 10;
constexpr size_t kMaxErrorText = size_t{16} << 10;

constexpr wire::Tag kTensorTag = {.channel = kTensorChannel, .id = 0, .fingerprint = 0};

uint64_t nanoseconds(WorkerSession::Clock::duration time) {
  return static_cast<uint64_t>(std::max<int64_t>(0, std::chrono::nanoseconds(time).count()));
}

}  // namespace

WorkerSession::WorkerSession(std::shared_ptr<wire::Connection> connection,
                             const FunctionRegistry& registry)
    : connection_(std::move(connection)), registry_(registry) {}

bool WorkerSession::poll(Clock::time_point now) {
  bool received = false;
  while (!said_end_) {
    const auto text = connection_->try_receive_message(kCallChannel);
    if (!text) break;
    received = true;
    handle(decode_call_message(*text), now);
  }
  while (!sending_.empty() && sending_.front().transfer.done()) {
    sending_.front().transfer.status().throw_if_error();
    sending_.pop_front();
  }
  return received;
}

void WorkerSession::handle(const CallMessage& message, Clock::time_point now) {
  switch (message.kind) {
    case CallKind::kOpen:
      asked_ = message;
      asked_kernels_ = message.text;
      return;
    case CallKind::kRun:
      for (const Call& call : message.calls) add(call, false, now);
      return;
    case CallKind::kCreate:
      for (const Call& call : message.calls) add(call, true, now);
      return;
    case CallKind::kRelease:
      for (const uint64_t number : message.numbers) {
        const auto found = resources_.find(number);
        if (found == resources_.end()) {
          forgotten_.insert(number);
        } else {
          retired_.push_back(std::move(found->second));
          resources_.erase(found);
        }
      }
      return;
    case CallKind::kTakeBack:
      return take_back(message.numbers);
    case CallKind::kCancel:
      return cancel();
    case CallKind::kPing:
      return send({.kind = CallKind::kPong});
    case CallKind::kEnd:
      said_end_ = true;
      return;
    default:
      throw Error(ErrorCode::kDataLoss,
                  str_cat("[ps] ", connection_->name(), " sent a message of kind ",
                          static_cast<uint32_t>(message.kind), ", which workers do not get"));
  }
}

void WorkerSession::open_if_asked(int threads) {
  if (!asked_) return;
  const CallMessage asked = *std::exchange(asked_, std::nullopt);
  std::string why;
  if (asked.number != registry_.fingerprint()) {
    why = str_cat(
        "got a coordinator with other registered functions than this worker has; run one "
        "program, which registers the same, as all tasks (",
        registry_difference(registry_.signatures(), asked.lines), ")");
  } else {
    try {
      kernels::require_same_kernels("got a coordinator with", asked_kernels_,
                                    kernels::kernel_table_name(), kernels::mismatch_allowed());
    } catch (const Error& error) {
      why = error.what();
    }
  }
  if (why.empty()) {
    open_ = true;
    return send({.kind = CallKind::kReady, .number = static_cast<uint64_t>(threads)});
  }
  static strata::detail::LogLimiter limiter;  // a coordinator may ask as often as it likes
  if (const auto more = limiter.admit()) {
    STRATA_LOG(kWarning) << "[ps] " << connection_->name() << ": " << why << *more;
  }
  send({.kind = CallKind::kRefuse, .code = ErrorCode::kFailedPrecondition, .text = why});
}

void WorkerSession::add(const Call& call, bool creates, Clock::time_point now) {
  STRATA_CHECK(open_, kDataLoss, "[ps] ", connection_->name(), " sent a call before its time");
  auto task = std::make_shared<Task>();
  task->number = call.number;
  task->function = call.function;
  task->creates = creates;
  task->discard = call.discard;
  task->came = now;
  task->values = decode_values(call.values, task->tensors);
  // In the order of the texts, which is that of the sends.
  for (const at::Tensor& tensor : task->tensors) {
    task->transfers.push_back(connection_->receive(
        kTensorTag, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()}));
  }
  waiting_.push_back(std::move(task));
}

void WorkerSession::take_back(const std::vector<uint64_t>& numbers) {
  CallMessage answer = {.kind = CallKind::kRequeued};
  std::erase_if(waiting_, [&](const std::shared_ptr<Task>& task) {
    if (task->creates || std::ranges::find(numbers, task->number) == numbers.end()) return false;
    answer.numbers.push_back(task->number);
    return true;
  });
  send(answer);
}

void WorkerSession::cancel() {
  CallMessage answer = {.kind = CallKind::kRequeued};
  std::erase_if(waiting_, [&](const std::shared_ptr<Task>& task) {
    if (task->creates) return false;
    answer.numbers.push_back(task->number);
    return true;
  });
  for (const auto& [number, task] : running_) {
    if (!task->creates) task->stop.request_stop();
  }
  send(answer);
}

// Strictly in their order; what each worker has one of is there before those that may take it.
bool WorkerSession::next_is_ready() const {
  if (waiting_.empty() || creating_ > 0) return false;
  return std::ranges::all_of(waiting_.front()->transfers,
                             [](const wire::Transfer& each) { return each.done(); });
}

bool WorkerSession::has_task() const { return next_is_ready(); }

std::shared_ptr<WorkerSession::Task> WorkerSession::take() {
  if (!next_is_ready()) return nullptr;
  std::shared_ptr<Task> task = std::move(waiting_.front());
  waiting_.pop_front();
  for (const wire::Transfer& each : task->transfers) {
    if (!each.status().ok()) return nullptr;  // the connection has failed
  }
  for (const Value& value : task->values) {
    if (value.kind() != Value::Kind::kResource) continue;
    const auto found = resources_.find(value.resource().number);
    if (found != resources_.end()) task->resources.insert(*found);
  }
  if (task->creates) ++creating_;
  running_.emplace(task->number, task);
  return task;
}

void WorkerSession::end(const Task& task, Done done, bool more) {
  running_.erase(task.number);
  UnsentOutcome kept = {.outcome = {.number = task.number, .run_ns = nanoseconds(done.run)},
                        .text = {},
                        .values = {},
                        .came = task.came};
  if (task.creates) {
    --creating_;
    done.made->status = done.status;
    if (forgotten_.erase(task.number) == 0) {
      resources_[task.number] = std::move(done.made);
    } else {
      retired_.push_back(std::move(done.made));
    }
  } else if (done.status.ok() && !task.discard) {
    try {
      kept.values = encode_values({&done.value, 1});
    } catch (...) {
      const Status failed = Status::from_current_exception();
      done.status = Status(failed.code(), str_cat("[ps] ", registry_.at(task.function)->name,
                                                  ": its result: ", failed.message()));
    }
  }
  kept.outcome.code = done.status.code();
  kept.text = done.status.message().substr(0, kMaxErrorText);
  if (task.creates) {
    kept.outcome.text = kept.text;
    return send({.kind = CallKind::kCreated, .outcomes = {kept.outcome}});
  }
  if (outcomes_.empty()) first_outcome_ = Clock::now();
  const bool large = kept.values.text.size() > kGatherBytes / kGatherAtMost;
  outcomes_.push_back(std::move(kept));
  if (more && !large && outcomes_.size() < kGatherAtMost &&
      Clock::now() - first_outcome_ < kGatherFor) {
    return;
  }
  flush();
}

void WorkerSession::flush() {
  if (outcomes_.empty()) return;
  const std::vector<UnsentOutcome> kept = std::exchange(outcomes_, {});
  CallMessage message = {.kind = CallKind::kOutcomes};
  std::vector<at::Tensor> tensors;
  const Clock::time_point now = Clock::now();
  for (const UnsentOutcome& each : kept) {
    Outcome& outcome = message.outcomes.emplace_back(each.outcome);
    outcome.text = each.text;
    outcome.values = each.values.text;
    outcome.service_time_ns = nanoseconds(now - each.came);
    tensors.insert(tensors.end(), each.values.tensors.begin(), each.values.tensors.end());
  }
  send(message, tensors);
}

void WorkerSession::drop(const Status& status) {
  for (const auto& [number, task] : running_) task->stop.request_stop();
  waiting_.clear();
  for (auto& [number, resource] : resources_) retired_.push_back(std::move(resource));
  resources_.clear();
  outcomes_.clear();
  connection_->fail(status);
  sending_.clear();
}

// Never throws: that the connection is broken, `poll` will see.
void WorkerSession::send(const CallMessage& message, const std::vector<at::Tensor>& tensors) {
  try {
    connection_->send_message(kCallChannel, encode(message));
    for (const at::Tensor& tensor : tensors) {
      Sending& sending = sending_.emplace_back();  // before: a transfer must not outlive its bytes
      sending.tensor = tensor;
      sending.transfer = connection_->send(
          kTensorTag, {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
    }
  } catch (...) {
    connection_->fail(Status::from_current_exception());
  }
}

}  // namespace strata::ps
