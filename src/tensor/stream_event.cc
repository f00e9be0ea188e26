#include "tensor/stream_event.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <atomic>
#include <map>
#include <utility>

#include "core/mutex.h"

namespace strata::tensor {
namespace {

constexpr std::array<std::string_view, kNumStreamWaits> kNames = {
    "step_for_batch",   "allocator_for_step", "sum_for_gradients", "update_for_sums",
    "receive_for_sums", "sum_for_receive",    "sum_for_values",    "replica_for_values",
    "host_for_finite",  "gather_for_update",  "step_for_gather",   "run_for_last_run",
};

struct SideStreams {
  Mutex mutex;
  std::map<std::pair<c10::DeviceIndex, SideWork>, c10::Stream> streams STRATA_GUARDED_BY(mutex);
};

constexpr int kNone = -1;
std::atomic<int> left_out{kNone};

bool is_left_out(StreamWait wait) {
  return left_out.load(std::memory_order_relaxed) == static_cast<int>(wait);
}

}  // namespace

std::string_view name_of(StreamWait wait) { return kNames.at(static_cast<size_t>(wait)); }

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

c10::Stream side_stream(c10::Device device, SideWork work) {
  static SideStreams all;
  const MutexLock lock(all.mutex);
  const std::pair key(device.index(), work);
  auto stream = all.streams.find(key);
  if (stream == all.streams.end()) {
    const c10::impl::VirtualGuardImpl guard(device.type());
    stream = all.streams.emplace(key, guard.getStreamFromGlobalPool(device)).first;
  }
  return stream->second;
}

void StreamEvent::block(StreamWait wait, const c10::Stream& stream) const {
  if (!is_left_out(wait)) event_.block(stream);
}

void StreamEvent::wait_on_host(StreamWait wait) const {
  if (!is_left_out(wait)) event_.synchronize();
}

void keep_for(StreamWait wait, const at::Tensor& tensor, const c10::Stream& stream) {
  if (is_left_out(wait)) return;
  c10::impl::VirtualGuardImpl(stream.device_type())
      .recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

void leave_out(std::optional<StreamWait> wait) {
  left_out = wait ? static_cast<int>(*wait) : kNone;
}

}  // namespace strata::tensor
