#include "gpu/fake_nccl/communicator.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "gpu/fake_nccl/collectives.h"
#include "gpu/fake_nccl/counters.h"
#include "gpu/fake_nccl/point_to_point.h"
#include "gpu/fake_nccl/root.h"
#include "gpu/fake_nccl/streams.h"

namespace strata::test::fake_nccl {
namespace {

std::array<char, 64> host_name() {
  const char* const given = std::getenv("STRATA_FAKE_NCCL_HOST");
  const std::string name = given == nullptr ? "localhost" : given;
  std::array<char, 64> host{};
  std::copy_n(name.begin(), std::min(name.size(), host.size() - 1), host.begin());
  return host;
}

// The same operation at the host's addresses.
Operation on_host(Operation operation) {
  const DeviceHooks& hooks = device_hooks();
  if (operation.input != nullptr) operation.input = hooks.host_address(operation.input);
  if (operation.output != nullptr) operation.output = hooks.host_address(operation.output);
  return operation;
}

// Blocks until an abort, and throws then. @throws Failure  The deadline has passed.
[[noreturn]] void wait_for_stop(const StopSignal& stop, Deadline deadline = Deadline::max()) {
  for (;;) wait_for_socket(stop.fd(), -1, 0, stop, deadline);
}

}  // namespace

Communicator::Communicator(bool blocking, int device)
    : blocking_(blocking), device_(device), faults_(Faults::of_next_communicator()) {}

Communicator::~Communicator() { abort(); }

void Communicator::begin(const ncclUniqueId& id, int rank, int ranks) {
  const std::lock_guard lock(mutex_);
  id_ = id;
  rank_ = rank;
  ranks_ = ranks;
  thread_ = std::thread([this] { run(); });
}

void Communicator::give_up(const Failure& failure) {
  health_.fail(failure);
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

ncclResult_t Communicator::wait_connected() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return connected_ || ended_ || health_.stop.requested(); });
  if (connected_) return ncclSuccess;  // what has failed since then is asynchronous
  const ncclResult_t code = health_.failure().code;
  return code == ncclSuccess ? ncclInternalError : code;
}

ncclResult_t Communicator::async_error() {
  const Failure failure = health_.failure();
  if (failure.code != ncclSuccess) return failure.code;
  const std::lock_guard lock(mutex_);
  if (!connected_ || (finalizing_ && !finalized_)) return ncclInProgress;
  if (std::exchange(to_ask_, false)) return ncclInProgress;
  return ncclSuccess;
}

ncclResult_t Communicator::ready(std::string* why_not) {
  const Failure failure = health_.failure();
  if (failure.code != ncclSuccess) {
    *why_not = failure.text;
    return failure.code;
  }
  const std::lock_guard lock(mutex_);
  if (connected_ && !finalizing_ && !to_ask_) return ncclSuccess;
  *why_not = finalizing_
                 ? "the communicator has been finalized"
                 : "the call before has not returned ncclSuccess yet: ask ncclCommGetAsyncError";
  return ncclInvalidArgument;
}

void Communicator::enqueue(std::vector<Operation> operations) {
  auto work = std::make_unique<Work>();
  std::vector<void*> streams;
  for (const Operation& each : operations) {
    if (std::find(streams.begin(), streams.end(), each.stream) == streams.end())
      streams.push_back(each.stream);
  }
  const std::lock_guard lock(mutex_);
  for (void* stream : streams) {
    std::vector<Range> reads;
    std::vector<Range> writes;
    std::string name;
    for (const Operation& each : operations) {
      if (each.stream != stream) continue;
      name += std::string(name.empty() ? "nccl" : "+") + name_of(each.kind);
      for (const Range& range : reads_of(each, rank_, ranks_)) reads.push_back(range);
      for (const Range& range : writes_of(each, rank_, ranks_)) writes.push_back(range);
    }
    work->tokens.push_back(device_hooks().enqueue(stream, name.c_str(), reads.data(), reads.size(),
                                                  writes.data(), writes.size()));
  }
  work->operations = std::move(operations);
  queue_.push_back(std::move(work));
  to_ask_ = !blocking_;
  changed_.notify_all();
}

std::future<ncclResult_t> Communicator::split(int color, int key,
                                              std::shared_ptr<Communicator> child) {
  auto work = std::make_unique<Work>();
  work->is_split = true;
  work->color = color;
  work->key = key;
  work->child = std::move(child);
  std::future<ncclResult_t> result = work->split_result.get_future();
  const std::lock_guard lock(mutex_);
  if (ended_) {
    complete(*work, true);
    return result;
  }
  queue_.push_back(std::move(work));
  to_ask_ = !blocking_;
  changed_.notify_all();
  return result;
}

ncclResult_t Communicator::finalize() {
  std::unique_lock lock(mutex_);
  if (!std::exchange(finalizing_, true)) {
    queue_.push_back(std::make_unique<Work>());
    queue_.back()->is_end = true;
    changed_.notify_all();
  }
  if (!blocking_) return ncclInProgress;
  changed_.wait(lock, [&] { return finalized_ || health_.failed() || health_.stop.requested(); });
  return health_.failure().code;
}

void Communicator::destroy() {
  if (!health_.failed()) {
    std::unique_lock lock(mutex_);
    if (connected_ && !std::exchange(finalizing_, true)) {
      queue_.push_back(std::make_unique<Work>());
      queue_.back()->is_end = true;
      changed_.notify_all();
    }
    const auto patience = std::chrono::milliseconds(faults_.value("destroy_ms", 2000));
    changed_.wait_for(lock, patience,
                      [&] { return finalized_ || health_.failed() || !finalizing_; });
  }
  abort();
}

void Communicator::abort() {
  health_.stop.request();
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    thread = std::move(thread_);
    if (transport_ != nullptr) transport_->wake();
    if (awaited_token_ != nullptr) device_hooks().cancel(awaited_token_);
    changed_.notify_all();
  }
  if (thread.joinable()) thread.join();
  std::deque<WorkPointer> pending;
  {
    const std::lock_guard lock(mutex_);
    pending = std::move(queue_);
    queue_.clear();
  }
  for (const WorkPointer& work : pending) complete(*work, true);
}

uint64_t Communicator::bytes_sent(int peer) const {
  const std::lock_guard lock(mutex_);
  return transport_ == nullptr || peer < 0 || peer >= ranks_ ? 0 : transport_->bytes_sent(peer);
}

// The thread.

void Communicator::run() {
  ::pthread_setname_np(::pthread_self(), "nccl-comm");
  try {
    connect();
    work();
  } catch (const Failure& failure) {
    fail(failure);
  } catch (const Broken&) {
  } catch (const Stopped&) {
  }
  end_splits();
  // A communicator that has failed keeps what is pending, and its connections, until it is aborted.
  while (!health_.stop.requested()) {
    try {
      wait_for_stop(health_.stop);
    } catch (const Stopped&) {
    }
  }
  if (transport_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  if (!finalized_)
    transport_->send_last_fault({ncclRemoteError, "its communicator has been aborted"});
}

void Communicator::connect() {
  const Hello self{.rank = rank_,
                   .ranks = ranks_,
                   .process = static_cast<int32_t>(::getpid()),
                   .device = device_,
                   .failed = 0,
                   .host = host_name()};
  try {
    const auto deadline = std::chrono::steady_clock::now() +
                          std::chrono::milliseconds(faults_.value("init_ms", 120000));
    if (faults_.has("init_stall", rank_)) wait_for_stop(health_.stop, deadline);
    if (faults_.has("init_error", rank_))
      throw Failure{ncclSystemError, "init_error of STRATA_FAKE_NCCL"};
    auto transport = std::make_unique<Transport>(
        rank_, connect_ranks(id_, self, health_.stop, deadline), health_);
    const std::lock_guard lock(mutex_);
    transport_ = std::move(transport);
    connected_ = true;
    changed_.notify_all();
  } catch (const Failure& failure) {
    if (failure.code == ncclSystemError) report_absence(id_, self);
    throw;
  } catch (const Stopped&) {
    report_absence(id_, self);
    throw;
  }
}

void Communicator::work() {
  while (WorkPointer current = next()) {
    try {
      execute(*current);
    } catch (...) {
      // It is pending again: abort completes it.
      const std::lock_guard lock(mutex_);
      queue_.push_front(std::move(current));
      throw;
    }
    complete(*current, false);
  }
}

Communicator::WorkPointer Communicator::next() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (health_.stop.requested()) throw Stopped{};
    if (health_.failed()) throw Broken{};
    if (!queue_.empty()) break;
    changed_.wait(lock);
  }
  WorkPointer work = std::move(queue_.front());
  queue_.pop_front();
  return work;
}

void Communicator::execute(Work& work) {
  if (work.is_split) return run_split(work);
  if (work.is_end) {
    transport_->send_goodbye();
    const std::lock_guard lock(mutex_);
    finalized_ = true;
    changed_.notify_all();
    return;
  }
  wait_for_streams(work);
  apply_faults(work.operations.size());
  run_operations(work.operations);
}

void Communicator::wait_for_streams(const Work& work) {
  for (void* token : work.tokens) {
    {
      const std::lock_guard lock(mutex_);
      if (health_.stop.requested()) throw Stopped{};
      awaited_token_ = token;
    }
    const bool is_ready = device_hooks().wait_ready(token) != 0;
    const std::lock_guard lock(mutex_);
    awaited_token_ = nullptr;
    if (!is_ready) throw Stopped{};
  }
}

void Communicator::apply_faults(size_t calls) {
  for (size_t i = 0; i < calls; ++i) {
    ++calls_;
    if (faults_.has("stall", rank_, calls_)) wait_for_stop(health_.stop);
    if (faults_.has("error", rank_, calls_)) {
      throw Failure{ncclSystemError, "error of STRATA_FAKE_NCCL in call " + std::to_string(calls_)};
    }
  }
  const int64_t delay = faults_.value("delay_us", 0);
  if (delay == 0) return;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::microseconds(delay),
                    [&] { return health_.stop.requested(); });
}

void Communicator::run_operations(const std::vector<Operation>& operations) {
  std::vector<Operation> point_to_point;
  for (const Operation& each : operations) {
    if (is_collective(each.kind)) {
      run_collective(*transport_, on_host(each));
    } else {
      point_to_point.push_back(on_host(each));
    }
  }
  run_point_to_point(*transport_, point_to_point);
  for (const Operation& each : operations)
    Counters::of_process().operation_ended(name_of(each.kind));
}

// All ranks tell their color and key; the first rank of a color makes its identifier and sends it to the others.
void Communicator::run_split(Work& work) {
  const std::vector<Announcement> all = agree(*transport_, {.kind = Kind::kSplit,
                                                            .type = ncclInt8,
                                                            .op = 0,
                                                            .peer = 0,
                                                            .count = 0,
                                                            .color = work.color,
                                                            .key = work.key});
  std::vector<int> members;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (all[static_cast<size_t>(rank)].color == work.color) members.push_back(rank);
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return all[static_cast<size_t>(a)].key < all[static_cast<size_t>(b)].key;
  });
  Counters::of_process().operation_ended(name_of(Kind::kSplit));
  if (work.child == nullptr) return;
  ncclUniqueId id{};
  if (members.front() == rank_) {
    id = make_unique_id();
    for (const int member : members) {
      if (member != rank_) transport_->send(member, MessageKind::kCollectiveData, &id, sizeof(id));
    }
  } else {
    const Bytes data = transport_->receive_data(members.front());
    std::memcpy(&id, data.data(), std::min(data.size(), sizeof(id)));
  }
  const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
  work.child->begin(id, static_cast<int>(place), static_cast<int>(members.size()));
}

// Callers of ncclCommSplit wait for its end, and hear of the failure.
void Communicator::end_splits() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  for (const WorkPointer& work : queue_) {
    if (work->is_split) complete(*work, true);
  }
  std::erase_if(queue_, [](const WorkPointer& work) { return work->is_split; });
  changed_.notify_all();
}

void Communicator::fail(const Failure& failure) {
  health_.fail(failure);
  {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  if (transport_ == nullptr || failure.code == ncclRemoteError) return;
  try {
    transport_->send_fault(failure);
  } catch (const Stopped&) {
  }
}

void Communicator::complete(Work& work, bool failed) {
  for (void* token : work.tokens) device_hooks().complete(token, failed ? 1 : 0);
  work.tokens.clear();
  if (!work.is_split) return;
  const ncclResult_t code = health_.failure().code;
  const ncclResult_t result = !failed               ? ncclSuccess
                              : code == ncclSuccess ? ncclInternalError
                                                    : code;
  if (failed && work.child != nullptr) {
    work.child->give_up({result, "the communicator that was split has failed"});
  }
  work.split_result.set_value(result);
}

}  // namespace strata::test::fake_nccl
