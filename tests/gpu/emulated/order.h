#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// What happens before what on the emulated GPUs. Each stream, and the host, has a vector clock:
/// how much of every other's work is known to be done when its next work begins. Work on a stream
/// begins after what was enqueued there before, what its stream was told to wait for, and what the
/// host had waited for when it enqueued it; and nothing else. Every block of memory remembers who
/// wrote and read its bytes last, so that an access behind which nothing orders another one is an
/// error, at the first run, whichever of the two would have come first on a card.
///
/// All threads of the host are one timeline: that one thread waits before another enqueues is for
/// the thread sanitizer to prove.
///
/// Operators run when they are enqueued. Collectives of the fake NCCL move their data on its own
/// threads (`Pending`); work behind them runs when they are done.
namespace strata::test::emulated_gpu {

/// How much of each timeline's work is done, by its index.
using Clock = std::vector<uint64_t>;

/// Bytes of a device's memory or of pinned memory, by the addresses that the host may read.
struct Bytes {
  const char* begin = nullptr;
  size_t size = 0;
};

/// A piece of work on a stream, as errors name it.
struct Operation {
  std::string name;
  std::string stream;
  std::vector<void*> frames;  ///< Where it was enqueued.
};

/// What was enqueued: the `count`-th of its timeline.
struct Work {
  size_t timeline = 0;
  uint64_t count = 0;
  std::shared_ptr<const Operation> operation;
};

/// A point in a stream's work.
struct Event {
  Clock clock;
  double seconds = 0;  ///< In modelled time.
  size_t timeline = 0;
};

/// Enqueues work. Returns when it may run: what comes before it and moves its data later is done.
/// @throws c10::Error  An access that nothing orders behind an earlier one; names both.
Work enqueue(const c10::Stream& stream, std::string_view name, const std::vector<Bytes>& reads,
             const std::vector<Bytes>& writes);
/// Results that `work` has made, known when it has run.
void also_writes(const Work& work, const Bytes& bytes);

Event record_event(const c10::Stream& stream);
void wait_event(const c10::Stream& stream, const Event& event);
/// How much its stream has to do when the event comes: with nothing, a host that waits for it lets
/// the card run dry.
int64_t work_behind(const Event& event);
/// The host knows that it is done.
void host_waits_for(const Event& event);
void host_waits_for(const c10::Stream& stream);
void host_waits_for_all(c10::DeviceIndex device);
/// Whether it is done. It orders nothing: which thread saw it, and when, is chance.
bool query(const Event& event);

/// Work whose data move later, on other threads.
/// @{
struct Pending;
std::shared_ptr<Pending> enqueue_pending(const c10::Stream& stream, std::string_view name,
                                         const std::vector<Bytes>& reads,
                                         const std::vector<Bytes>& writes);
/// Blocks the caller until what comes before it is done, or `stop` is true.
void wait_until_ready(const Pending& pending, const std::atomic<bool>& stop);
void complete(Pending& pending);
/// @}

/// Memory is handed out on `stream` and holds nothing: its accesses of before are forgotten.
/// @throws c10::Error  Memory of this stream was freed while work that nothing orders before this
///                     point may use it, so that these bytes could have been it.
void hand_out(const c10::Stream& stream, const Bytes& bytes);
/// Memory of `stream` is free.
/// @param recorded_on  Streams that the allocator waits for before it hands the bytes out again.
void take_back(const c10::Stream& stream, const Bytes& bytes,
               const std::vector<c10::Stream>& recorded_on);
/// Whether data still move here.
bool in_motion(const Bytes& bytes);

/// Pinned memory is handed out: copies from and to it are done.
void hand_out_pinned(const Bytes& bytes);

/// Pinned memory. A copy from it reads it until the copy is done, a copy to it has written it then
/// and not earlier: `arrive` is called when the host has waited for it.
/// @{
void reads_pinned(const Work& work, const Bytes& bytes);
void writes_pinned(const Work& work, const Bytes& bytes, std::function<void()> arrive);
/// An error (order_errors) where the host has not waited for what a copy writes there.
void take_back_pinned(const Bytes& bytes);
/// @throws c10::Error  The host has written what a copy reads that it has not waited for.
void check_pinned();
/// @}

/// Every error of order so far, also those that a program has swallowed.
std::vector<std::string> order_errors();
void forget_order_errors();

/// Modelled time: the seconds that a piece of work takes on its stream. The default is 0.
/// @{
struct Cost {
  std::string_view name;
  std::string_view stream;
  size_t bytes_read = 0;
  size_t bytes_written = 0;
};
void set_costs(std::function<double(const Cost&)> seconds);
struct Span {
  std::string name;
  std::string stream;
  double begin = 0;
  double end = 0;
};
/// What has run since `set_costs`, and takes time.
std::vector<Span> spans();
/// When the last work that was enqueued will be done.
double now();
/// @}

std::string name_of(const c10::Stream& stream);
/// Who calls, without frames of libtorch and of these files.
std::string calling_place();

}  // namespace strata::test::emulated_gpu
