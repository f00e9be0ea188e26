#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace strata::tensor {

/// Every place at which strata orders work on a GPU: where a stream, the host or the allocator waits
/// for a stream. What libtorch's own operators order (copies between cards, `item`) is not here.
/// docs/gpu.md draws them.
enum class StreamWait : uint8_t {
  kStepForBatch,      ///< A replica's stream for the copy of its batch.
  kAllocatorForStep,  ///< A batch's memory, the copy stream's, for the step that reads it.
  kSumForGradients,   ///< A communication stream for gradients of a bucket, or other values.
  kUpdateForSums,     ///< A replica's stream for the sums of the gradients.
  kReceiveForSums,    ///< Copies from other cards for what had their memory before.
  kSumForReceive,     ///< Sums on a card for the copies from others.
  kSumForValues,      ///< A stream of sums for what a replica brings to be added or gathered.
  kReplicaForValues,  ///< A replica's stream for what has become of it.
  kHostForFinite,  ///< The host, in a step, for whether the gradients of the one before were finite.
  kGatherForUpdate,  ///< A communication stream for the parts of parameters that its card has updated.
  kStepForGather,  ///< A replica's stream for what the other cards have updated.
  kRunForLastRun,  ///< A run of a function's graph for the one before, on another stream.
};
inline constexpr int kNumStreamWaits = 12;

/// "step_for_batch".
std::string_view name_of(StreamWait wait);

/// The calling thread's current stream of a device.
c10::Stream current_stream(c10::Device device);
/// Work beside the replicas' streams.
enum class SideWork : uint8_t {
  kInput,          ///< Copies of batches to the device.
  kCommunication,  ///< Sums of gradients over replicas, and what a card sends for them.
  kReceive,        ///< What it receives.
  kValues,         ///< The same of other values, for which replicas wait in the middle of a step.
  kReceiveValues,
};
/// The process's one stream for it on a GPU: memory belongs to streams, so each new one would ask the
/// card for more. Threads: any.
c10::Stream side_stream(c10::Device device, SideWork work);

/// A point in the work of a GPU's stream, for which others wait. Reused, it is the last one that
/// was recorded. Threads: one at a time.
class StreamEvent {
 public:
  StreamEvent() : event_(c10::kCUDA) {}

  void record(const c10::Stream& stream) { event_.record(stream); }
  /// What is enqueued on `stream` from now on begins behind the event. The host goes on.
  void block(StreamWait wait, const c10::Stream& stream) const;
  /// The calling thread goes on behind the event.
  void wait_on_host(StreamWait wait) const;
  bool query() const { return event_.query(); }

 private:
  c10::Event event_;
};

/// The memory of `tensor`, which belongs to another stream, is not handed out again before `stream`
/// has done what is enqueued there when the tensor is freed.
void keep_for(StreamWait wait, const at::Tensor& tensor, const c10::Stream& stream);

/// For tests that show that a wait is needed: it does not take place. None: all do.
void leave_out(std::optional<StreamWait> wait);

}  // namespace strata::tensor
