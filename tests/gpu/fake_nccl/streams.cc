#include "gpu/fake_nccl/streams.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace strata::test::fake_nccl {
namespace {

struct Token {
  void* stream;
  bool cancelled = false;
};

struct Stream {
  std::deque<Token*> queue;
  bool failed = false;
};

struct Streams {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<void*, Stream> by_pointer;
};

// Never destroyed: threads of communicators that a program has left open use it until the end.
Streams& streams() {
  static auto* const all = new Streams();
  return *all;
}

// Without emulated GPUs nothing knows devices; -1 keeps NCCL's check that ranks have distinct ones from being made.
int no_device() { return -1; }

void* same_address(const void* device) { return const_cast<void*>(device); }

void* enqueue(void* stream, const char* /*name*/, const Range* /*reads*/, size_t /*n_reads*/,
              const Range* /*writes*/, size_t /*n_writes*/) {
  Streams& all = streams();
  auto* const token = new Token{stream};
  const std::lock_guard lock(all.mutex);
  all.by_pointer[stream].queue.push_back(token);
  return token;
}

int wait_ready(void* given) {
  Streams& all = streams();
  auto* const token = static_cast<Token*>(given);
  std::unique_lock lock(all.mutex);
  const Stream& stream = all.by_pointer[token->stream];
  all.changed.wait(lock, [&] { return token->cancelled || stream.queue.front() == token; });
  return token->cancelled ? 0 : 1;
}

void cancel(void* given) {
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  static_cast<Token*>(given)->cancelled = true;
  all.changed.notify_all();
}

void complete(void* given, int failed) {
  Streams& all = streams();
  auto* const token = static_cast<Token*>(given);
  const std::lock_guard lock(all.mutex);
  Stream& stream = all.by_pointer[token->stream];
  stream.failed = stream.failed || failed != 0;
  std::erase(stream.queue, token);
  delete token;
  all.changed.notify_all();
}

constexpr DeviceHooks kPlainStreams = {sizeof(DeviceHooks), no_device, same_address, enqueue,
                                       wait_ready,          cancel,    complete};

}  // namespace

const DeviceHooks& device_hooks() {
  static const DeviceHooks* const found = [] {
    const auto function =
        reinterpret_cast<DeviceHooksFunction>(::dlsym(RTLD_DEFAULT, kDeviceHooksSymbol));
    const DeviceHooks* const hooks = function == nullptr ? nullptr : function();
    return hooks != nullptr && hooks->size == sizeof(DeviceHooks) ? hooks : &kPlainStreams;
  }();
  return *found;
}

int synchronize_plain_stream(void* pointer, int timeout_ms) {
  Streams& all = streams();
  std::unique_lock lock(all.mutex);
  Stream& stream = all.by_pointer[pointer];
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  if (!all.changed.wait_until(lock, deadline, [&] { return stream.queue.empty(); })) return 1;
  return std::exchange(stream.failed, false) ? 2 : 0;
}

}  // namespace strata::test::fake_nccl
