#include "collective/shared_memory/shared_memory_communicator.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "collective/algorithms/local_subtrees.h"
#include "collective/call_failure.h"
#include "collective/call_fingerprint.h"
#include "collective/shared_memory/in_place_call.h"
#include "collective/shared_memory/shared_setup.h"
#include "collective/shared_memory/staged_call.h"
#include "core/mutex.h"
#include "core/timed_mutex.h"
#include "strata/wire/deadline.h"

namespace strata::collective {
namespace {

constexpr uint64_t kBufferKey = uint64_t{1} << 32;  // ids are below
constexpr int64_t kPreparedBytes = 4096;

/// The calls of one id. Those of several threads go one after the other.
struct LocalChannel {
  explicit LocalChannel(SharedMemoryChannel shared) : channel(std::move(shared)) {}

  TimedMutex mutex;
  SharedMemoryChannel channel STRATA_GUARDED_BY(mutex);
};

/// Keeps `use` as long as it lives.
at::Tensor tensor_in(const std::shared_ptr<void>& use, std::byte* data, int64_t elements,
                     at::ScalarType dtype) {
  const auto options = at::TensorOptions().dtype(dtype);
  if (data == nullptr) return at::empty({elements}, options);
  return at::from_blob(
      data, {elements}, [use](void*) {}, options);
}

}  // namespace

struct SharedMemoryCommunicator::Impl {
  int rank;
  int ranks;
  const Placement& placement;
  std::shared_ptr<Communicator> bootstrap;
  Options options;
  SharedSetup setup;
  bool oversubscribed;  // more ranks than cores
  LocalSubtrees subtrees;
  SharedBuffers buffers;
  Mutex buffer_calls;  // one at a time, on every rank in the same order

  std::atomic<bool> has_failed{false};
  Mutex mutex;
  Status failure STRATA_GUARDED_BY(mutex);
  std::unordered_map<uint64_t, std::unique_ptr<LocalChannel>> channels STRATA_GUARDED_BY(mutex);

  Impl(const Placement& of, std::shared_ptr<Communicator> with, const Options& with_options)
      : rank(with->rank()),
        ranks(with->num_ranks()),
        placement(of),
        bootstrap(std::move(with)),
        options(with_options),
        setup(set_up_shared_memory(*bootstrap, options)),
        oversubscribed(ranks > (options.cores > 0
                                    ? options.cores
                                    : static_cast<int>(std::thread::hardware_concurrency()))),
        subtrees(of) {}

  SharedHeader& header() const { return *reinterpret_cast<SharedHeader*>(setup.header.data()); }
  std::string rank_name(int of) const {
    return str_cat("rank ", of, " (", setup.names[static_cast<size_t>(of)], ")");
  }

  void run(const CollectiveCall& call, const CallOptions& options, uint64_t key);
  void run_on(SharedMemoryChannel& channel, const CollectiveCall& call, uint64_t fingerprint,
              const SharedWait& wait);
  void check_agreement(const SharedMemoryChannel& channel, uint32_t first,
                       uint64_t fingerprint) const;
  LocalChannel& channel(uint64_t key);
  Status why_stopped(int awaited) const;
  std::optional<Status> check(int awaited, bool slept, const CallOptions& options,
                              const wire::Deadline& deadline);
  /// Ends the communicator with what happened. @return that.
  Status fail_all(const Status& status, const std::string& call, const CallOptions& options);
  Status fail(const Status& reason);
  Status known_failure();
  wire::FileDescriptor share(wire::FileDescriptor file, const CallOptions& options);
  std::shared_ptr<SharedBuffer> make_buffer(int64_t elements, at::ScalarType dtype, bool common)
      STRATA_EXCLUDES(buffer_calls);
};

LocalChannel& SharedMemoryCommunicator::Impl::channel(uint64_t key) {
  const MutexLock lock(mutex);
  std::unique_ptr<LocalChannel>& own = channels[key];
  if (!own) {
    own = std::make_unique<LocalChannel>(
        SharedMemoryChannel(setup.file, header().channel_of(key), rank, ranks));
  }
  return *own;
}

Status SharedMemoryCommunicator::Impl::known_failure() {
  const MutexLock lock(mutex);
  return failure;
}

Status SharedMemoryCommunicator::Impl::why_stopped(int awaited) const {
  Status reason = options.reason ? options.reason() : Status();
  if (!reason.ok()) return reason;
  return Status(ErrorCode::kUnavailable,
                str_cat("a rank is lost, while this one waits for ", rank_name(awaited)));
}

std::optional<Status> SharedMemoryCommunicator::Impl::check(int awaited, bool slept,
                                                            const CallOptions& call,
                                                            const wire::Deadline& deadline) {
  if (auto failed = header().failed()) return failed;
  if (header().left[static_cast<size_t>(awaited)].load() != 0) {
    return Status(ErrorCode::kUnavailable, rank_name(awaited) + " has ended");
  }
  if (options.failed.stop_requested()) return why_stopped(awaited);
  if (call.stop.stop_requested()) {
    return Status(ErrorCode::kCancelled, "stopped while waiting for " + rank_name(awaited));
  }
  if (deadline.passed()) {
    return Status(ErrorCode::kDeadlineExceeded,
                  str_cat(rank_name(awaited), " has not come within ",
                          call.timeout.value_or(options.timeout).count(), " ms"));
  }
  if (!slept) return std::nullopt;
  Status status = bootstrap->status();
  if (status.ok()) return std::nullopt;
  return Status(status.code(),
                str_cat("while waiting for ", rank_name(awaited), ": ", status.message()));
}

void SharedMemoryCommunicator::Impl::run(const CollectiveCall& call,
                                         const CallOptions& call_options, uint64_t key) {
  STRATA_CHECK(!has_failed.load(std::memory_order_acquire), kFailedPrecondition, "[collective] ",
               collective_name(call.collective), ": an earlier call of this communicator failed (",
               known_failure().message(), "); it makes no more, and its owner makes another");
  const uint64_t packed = fingerprint_of(call, "shared", call_options.name).pack();
  const auto deadline = wire::Deadline::after(call_options.timeout.value_or(options.timeout));
  const auto check_wait = [&](int awaited, bool slept) {
    return check(awaited, slept, call_options, deadline);
  };
  try {
    LocalChannel& local = channel(key);
    STRATA_CHECK(local.mutex.try_lock_until(deadline.time()), kDeadlineExceeded,
                 "another thread is in a call of this id");
    const TimedMutexLock lock(local.mutex, std::adopt_lock);
    run_on(local.channel, call, packed,
           {.check = check_wait,
            .oversubscribed = oversubscribed,
            .name = [this](int awaited) { return rank_name(awaited); },
            .deadline = deadline.time()});
  } catch (...) {
    fail_all(Status::from_current_exception(), describe_call(packed), call_options)
        .throw_if_error();
  }
}

void SharedMemoryCommunicator::Impl::run_on(SharedMemoryChannel& channel,
                                            const CollectiveCall& call, uint64_t fingerprint,
                                            const SharedWait& wait) {
  StagedCall staged(channel, subtrees, call);
  InPlaceCall in_place(channel, buffers, placement.rank_of_replica, call);
  const uint32_t first = channel.step();
  const uint32_t located = in_place.begin();
  if (located == 0) staged.begin();
  channel.publish_header({.call = fingerprint, .note = located});
  channel.publish();
  channel.await(first, wait);
  if (call.bytes() <= kPreparedBytes) channel.prepare(call.bytes());
  check_agreement(channel, first, fingerprint);
  if (in_place.possible(first)) return in_place.run(first, wait);
  staged.run(wait, /*begun=*/!in_place.somewhere(first));
}

void SharedMemoryCommunicator::Impl::check_agreement(const SharedMemoryChannel& channel,
                                                     uint32_t first, uint64_t fingerprint) const {
  for (int other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    const uint64_t remote = channel.header_of(other, first).call;
    STRATA_CHECK(remote == fingerprint, kFailedPrecondition,
                 "ranks make different calls: ", rank_name(other), " (", describe_call(remote),
                 "), ", rank_name(rank), " (", describe_call(fingerprint), ")");
  }
}

Status SharedMemoryCommunicator::Impl::fail_all(const Status& status, const std::string& call,
                                                const CallOptions& call_options) {
  const Status described = failed_call(status, call, call_options, rank, ranks);
  const bool lost = status.code() == ErrorCode::kUnavailable && options.root_cause;
  return fail(lost ? options.root_cause(described) : described);
}

Status SharedMemoryCommunicator::Impl::fail(const Status& reason) {
  header().fail(reason);  // sleepers see it within a slice
  const MutexLock lock(mutex);
  if (failure.ok()) failure = reason;
  has_failed.store(true, std::memory_order_release);
  return reason;
}

SharedMemoryCommunicator::SharedMemoryCommunicator(std::shared_ptr<Communicator> bootstrap,
                                                   const Options& options)
    : Communicator(bootstrap->rank(), bootstrap->placement()),
      impl_(std::make_unique<Impl>(placement(), std::move(bootstrap), options)) {}

SharedMemoryCommunicator::~SharedMemoryCommunicator() {
  impl_->header().left[static_cast<size_t>(rank())].store(1);
}

std::string SharedMemoryCommunicator::describe() const {
  return str_cat("shared memory, rank ", rank(), " of ", num_ranks());
}

void SharedMemoryCommunicator::do_call(const CollectiveCall& call, const CallOptions& options) {
  impl_->run(call, options, options.id);
}

void SharedMemoryCommunicator::do_fail(const Status& reason) { impl_->fail(reason); }

Status SharedMemoryCommunicator::do_status() {
  const Status own = impl_->known_failure();
  return own.ok() ? impl_->header().failed().value_or(Status()) : own;
}

wire::FileDescriptor SharedMemoryCommunicator::Impl::share(wire::FileDescriptor file,
                                                           const CallOptions& call_options) {
  const auto deadline = wire::Deadline::after(options.timeout);
  return setup.descriptors.share(std::move(file), [&] {
    if (auto end = check(0, true, call_options, deadline)) end->throw_if_error();
  });
}

/// Null: nothing was asked for.
std::shared_ptr<SharedBuffer> SharedMemoryCommunicator::Impl::make_buffer(int64_t elements,
                                                                          at::ScalarType dtype,
                                                                          bool common) {
  const CallOptions call = {.name = "buffer"};
  const MutexLock lock(buffer_calls);
  // All ask for the same.
  const std::array own = {elements, static_cast<int64_t>(dtype), static_cast<int64_t>(common)};
  std::vector<int64_t> all(own.size() * static_cast<size_t>(ranks));
  const auto wish = [](const int64_t* asked) {
    return str_cat(asked[0], " ", static_cast<at::ScalarType>(asked[1]),
                   asked[2] != 0 ? " in common" : " each");
  };
  const auto of = [&](int other) { return all.data() + own.size() * static_cast<size_t>(other); };
  std::ranges::copy(own, of(rank));
  run({.collective = Collective::kAllGather,
       .dtype = at::kLong,
       .elements = static_cast<int64_t>(all.size()),
       .element_bytes = sizeof(int64_t),
       .result = reinterpret_cast<std::byte*>(all.data())},
      call, kBufferKey);
  try {
    for (int other = 0; other < ranks; ++other) {
      const int64_t* const remote = of(other);
      STRATA_CHECK(std::equal(own.begin(), own.end(), remote), kFailedPrecondition,
                   "ranks ask for different buffers: ", rank_name(other), " for ", wish(remote),
                   ", ", rank_name(rank), " for ", wish(own.data()),
                   "; make the same calls in order");
    }
    if (elements == 0) return nullptr;
    int64_t bytes = elements * static_cast<int64_t>(c10::elementSize(dtype));
    if (common) bytes = (bytes + ranks - 1) / ranks;  // one rank's memory follows the other's
    wire::FileDescriptor file;
    if (rank == 0) file = SharedBuffer::make(bytes, ranks);
    file = share(std::move(file), call);
    const auto buffer = std::make_shared<SharedBuffer>(file, bytes, ranks);
    buffers.add(buffer);
    return buffer;
  } catch (...) {
    fail_all(Status::from_current_exception(), "buffer", call).throw_if_error();
    throw;
  }
}

at::Tensor SharedMemoryCommunicator::do_buffer(int64_t elements, at::ScalarType dtype) {
  return do_buffers(elements, dtype)[static_cast<size_t>(rank())];
}

std::vector<at::Tensor> SharedMemoryCommunicator::do_buffers(int64_t elements,
                                                             at::ScalarType dtype) {
  const auto buffer = impl_->make_buffer(elements, dtype, /*common=*/false);
  const auto use = SharedBuffer::use(buffer);
  std::vector<at::Tensor> tensors;
  for (int r = 0; r < num_ranks(); ++r) {
    tensors.push_back(tensor_in(use, buffer ? buffer->of(r) : nullptr, elements, dtype));
  }
  return tensors;
}

at::Tensor SharedMemoryCommunicator::do_common_buffer(int64_t elements, at::ScalarType dtype) {
  const auto buffer = impl_->make_buffer(elements, dtype, /*common=*/true);
  return tensor_in(SharedBuffer::use(buffer), buffer ? buffer->of(0) : nullptr, elements, dtype);
}

}  // namespace strata::collective
