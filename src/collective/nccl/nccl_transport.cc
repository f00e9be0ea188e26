#include "collective/nccl/nccl_transport.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "collective/nccl/nccl_types.h"
#include "strata/core/error.h"
#include "tensor/stream_event.h"

namespace strata::collective::nccl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kCaller = "nccl";
/// How often the watcher looks: what it finds is known to all well within a second.
constexpr std::chrono::milliseconds kWatchInterval(20);
constexpr std::chrono::microseconds kPollInterval(20);
/// For the hosts' account of a failure.
constexpr std::chrono::seconds kTimeOfHosts(1);

cudaStream_t current_handle(c10::Device device) {
  return static_cast<cudaStream_t>(tensor::current_stream(device).native_handle());
}

}  // namespace

struct NcclTransport::Watched {
  std::string name;
  std::vector<tensor::StreamEvent> ends;  // by card
  Clock::time_point deadline;
};

/// The first reason for which one of them has ended.
class NcclTransport::CommonEnd {
 public:
  Status reason() {
    const MutexLock lock(mutex_);
    return reason_;
  }
  void set(const Status& reason) {
    const MutexLock lock(mutex_);
    if (reason_.ok()) reason_ = reason;
  }

 private:
  Mutex mutex_;
  Status reason_ STRATA_GUARDED_BY(mutex_);
};

namespace {

NcclTransport::Options with_end(NcclTransport::Options options) {
  if (!options.end) options.end = std::make_shared<NcclTransport::CommonEnd>();
  return options;
}

}  // namespace

std::string NcclTransport::new_id() {
  const Library& library = require(kCaller);
  ncclUniqueId id;
  nccl::check(library.get_unique_id(&id), "ncclGetUniqueId", kCaller);
  return {id.internal, sizeof(id.internal)};
}

NcclTransport::NcclTransport(Options options)
    : options_(with_end(std::move(options))), library_(require(kCaller)) {
  STRATA_DCHECK(options_.id.size() == NCCL_UNIQUE_ID_BYTES);
  connect();
  watcher_ = Thread("strata-nccl", [this](const std::stop_token& stop) { watch(stop); });
}

NcclTransport::~NcclTransport() {
  watcher_.request_stop();
  if (watcher_.joinable()) watcher_.join();
  const MutexLock lock(mutex_);
  if (aborted_) return;
  // What is under way after an error of the program's must not hold its end up.
  const bool in_order = under_way_.empty() && finalize();
  for (ncclComm_t each : communicators_) {
    in_order ? library_.comm_destroy(each) : library_.comm_abort(each);
  }
}

/// Whether NCCL has flushed all communicators in time.
bool NcclTransport::finalize() {
  constexpr std::chrono::seconds kLimit(5);
  const auto deadline = Clock::now() + kLimit;
  for (ncclComm_t each : communicators_) library_.comm_finalize(each);
  for (ncclComm_t each : communicators_) {
    ncclResult_t result = ncclInProgress;
    while (library_.comm_get_async_error(each, &result) == ncclSuccess &&
           result == ncclInProgress && Clock::now() < deadline) {
      std::this_thread::sleep_for(kPollInterval);
    }
    if (result != ncclSuccess) return false;
  }
  return true;
}

void NcclTransport::connect() {
  ncclUniqueId id;
  std::ranges::copy(options_.id, id.internal);
  communicators_.assign(options_.ranks.size(), nullptr);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  try {
    const auto make_all = [&] {
      for (size_t i = 0; i < communicators_.size(); ++i) {
        const c10::DeviceGuard guard(options_.devices[i]);
        check(library_.comm_init_rank_config(&communicators_[i], options_.num_ranks, id,
                                             options_.ranks[i], &config),
              "ncclCommInitRankConfig");
      }
    };
    check(call_in_group(kCaller, make_all), "ncclGroupEnd");
    wait_while_in_progress("making the communicators");
  } catch (...) {
    for (ncclComm_t each : communicators_) {
      if (each != nullptr) library_.comm_abort(each);
    }
    throw;
  }
}

ncclComm_t NcclTransport::communicator_of(int rank) const {
  const auto place = std::ranges::find(options_.ranks, rank);
  STRATA_DCHECK(place != options_.ranks.end());
  return communicators_[static_cast<size_t>(place - options_.ranks.begin())];
}

void NcclTransport::check(ncclResult_t result, const char* call) {
  if (result != ncclInProgress) nccl::check(result, call, kCaller, communicators_[0]);
}

/// A non-blocking call goes on by itself; the next may be made when it has been enqueued.
void NcclTransport::wait_while_in_progress(const std::string& what) {
  const auto deadline = Clock::now() + options_.timeout;
  for (ncclComm_t each : communicators_) {
    while (true) {
      ncclResult_t result = ncclSuccess;
      nccl::check(library_.comm_get_async_error(each, &result), "ncclCommGetAsyncError", kCaller,
                  each);
      if (result != ncclInProgress) {
        nccl::check(result, what, kCaller, each);
        break;
      }
      if (const Status status = why_to_end(); !status.ok()) {
        throw Error(status.code(), status.message());
      }
      STRATA_CHECK(Clock::now() < deadline, kDeadlineExceeded, "[nccl] ", what, " of ",
                   options_.num_ranks, " cards: has not ended after ", options_.timeout.count(),
                   " ms; are all processes running?");
      std::this_thread::sleep_for(kPollInterval);
    }
  }
}

void NcclTransport::check_alive(const std::string& name) const {
  if (!status_.ok()) {
    throw Error(status_.code(), str_cat("[nccl] ", name, ": ", status_.message()));
  }
}

void NcclTransport::enqueue(const std::string& name, const std::function<void()>& calls) {
  const MutexLock lock(mutex_);  // the watcher must not abort a communicator during a call
  check_alive(name);
  auto watched = std::make_unique<Watched>();
  watched->name = name;
  watched->deadline = Clock::now() + options_.timeout;
  try {
    check(call_in_group(kCaller, calls), "ncclGroupEnd");
    wait_while_in_progress(name);
  } catch (const Error& error) {
    const Status cause = cause_of(Status(error.code(), error.what()));
    abort(cause);
    throw Error(cause.code(), cause.message());
  }
  watched->ends.resize(options_.devices.size());
  for (size_t i = 0; i < watched->ends.size(); ++i) {
    watched->ends[i].record(tensor::current_stream(options_.devices[i]));
  }
  under_way_.push_back(std::move(watched));
}

void NcclTransport::exchange(const std::vector<CardMessage>& messages, const std::string& name) {
  enqueue(name, [&] {
    for (const CardMessage& message : messages) {
      const at::Tensor& memory = message.memory;
      const auto count = static_cast<size_t>(memory.numel());
      const ncclDataType_t type = data_type(memory.scalar_type(), kCaller);
      const cudaStream_t stream = current_handle(memory.device());
      if (message.is_send) {
        check(library_.send(memory.const_data_ptr(), count, type, message.to,
                            communicator_of(message.from), stream),
              "ncclSend");
      } else {
        check(library_.recv(memory.mutable_data_ptr(), count, type, message.from,
                            communicator_of(message.to), stream),
              "ncclRecv");
      }
    }
  });
}

bool NcclTransport::all_reduce(const std::vector<at::Tensor>& values, ReduceOp op,
                               const std::string& name) {
  enqueue(name, [&] {
    for (size_t i = 0; i < values.size(); ++i) {
      const at::Tensor& value = values[i];
      check(library_.all_reduce(value.const_data_ptr(), value.mutable_data_ptr(),
                                static_cast<size_t>(value.numel()),
                                data_type(value.scalar_type(), kCaller), reduction(op),
                                communicators_[i], current_handle(value.device())),
            "ncclAllReduce");
    }
  });
  return true;
}

bool NcclTransport::reduce_scatter(const std::vector<at::Tensor>& values,
                                   const std::vector<at::Tensor>& results, ReduceOp op,
                                   const std::string& name) {
  enqueue(name, [&] {
    for (size_t i = 0; i < values.size(); ++i) {
      const at::Tensor& result = results[i];
      check(library_.reduce_scatter(values[i].const_data_ptr(), result.mutable_data_ptr(),
                                    static_cast<size_t>(result.numel()),
                                    data_type(result.scalar_type(), kCaller), reduction(op),
                                    communicators_[i], current_handle(result.device())),
            "ncclReduceScatter");
    }
  });
  return true;
}

bool NcclTransport::all_gather(const std::vector<at::Tensor>& values,
                               const std::vector<at::Tensor>& results, const std::string& name) {
  enqueue(name, [&] {
    for (size_t i = 0; i < values.size(); ++i) {
      const at::Tensor& value = values[i];
      check(library_.all_gather(value.const_data_ptr(), results[i].mutable_data_ptr(),
                                static_cast<size_t>(value.numel()),
                                data_type(value.scalar_type(), kCaller), communicators_[i],
                                current_handle(value.device())),
            "ncclAllGather");
    }
  });
  return true;
}

std::shared_ptr<CardTransport> NcclTransport::another() {
  Options options = options_;
  options.id = options_.next_id ? options_.next_id() : new_id();
  return std::make_shared<NcclTransport>(std::move(options));
}

void NcclTransport::fail(const Status& reason) {
  const MutexLock lock(mutex_);
  abort(reason);
}

void NcclTransport::abort(const Status& reason) {
  if (std::exchange(aborted_, true)) return;
  status_ = reason;
  options_.end->set(reason);
  for (ncclComm_t each : communicators_) library_.comm_abort(each);
  under_way_.clear();
}

Status NcclTransport::status() {
  const MutexLock lock(mutex_);
  return status_;
}

/// Who is lost, by the host's account, says more than that a connection broke.
Status NcclTransport::why_to_end() const {
  if (options_.others) {
    if (Status status = options_.others(); !status.ok()) return status;
  }
  return options_.end->reason();
}

void NcclTransport::watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (const Status status = look(); !status.ok()) return fail(cause_of(status));
    MutexLock lock(mutex_);
    changed_.wait_for(lock, stop, kWatchInterval, [] { return false; });
  }
}

/// Where a process has ended, NCCL may see a broken connection before the hosts have agreed on who is lost.
Status NcclTransport::cause_of(const Status& seen) const {
  if (!options_.others || seen.code() != ErrorCode::kUnavailable) return seen;
  const auto deadline = Clock::now() + kTimeOfHosts;
  while (Clock::now() < deadline) {
    if (Status status = options_.others(); !status.ok()) return status;
    std::this_thread::sleep_for(kPollInterval);
  }
  return seen;
}

/// What has gone wrong; forgets what has ended.
Status NcclTransport::look() {
  const MutexLock lock(mutex_);
  if (aborted_) return {};
  const auto has_ended = [](const std::unique_ptr<Watched>& call) {
    return std::ranges::all_of(call->ends, [](const auto& end) { return end.query(); });
  };
  while (!under_way_.empty() && has_ended(under_way_.front())) {
    under_way_.erase(under_way_.begin());
  }
  if (Status status = why_to_end(); !status.ok()) return status;
  if (under_way_.empty()) return {};
  for (size_t i = 0; i < communicators_.size(); ++i) {
    ncclResult_t result = ncclSuccess;
    library_.comm_get_async_error(communicators_[i], &result);
    if (result == ncclSuccess || result == ncclInProgress) continue;
    return Status(ErrorCode::kUnavailable,
                  str_cat(under_way_.front()->name, ": NCCL on the card of replica ",
                          options_.ranks[i], ": ", library_.get_error_string(result), ": ",
                          library_.get_last_error(communicators_[i])));
  }
  if (Clock::now() < under_way_.front()->deadline) return {};
  return Status(ErrorCode::kDeadlineExceeded,
                str_cat(under_way_.front()->name, ": has not ended on the cards after ",
                        options_.timeout.count(), " ms"));
}

std::string NcclTransport::describe() const {
  return str_cat("NCCL ", library_.version / 10000, ".", library_.version / 100 % 100);
}

}  // namespace strata::collective::nccl
