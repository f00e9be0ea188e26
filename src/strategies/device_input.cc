#include "strategies/device_input.h"

#include <ATen/ThreadLocalState.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "data/single_thread.h"
#include "tensor/device_copy.h"

namespace strata::detail {
namespace {

using tensor::StreamWait;

/// Streams that read a device's batch: a replica's thread has the device's default one.
std::vector<c10::Stream> readers_of(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  std::vector<c10::Stream> all = {guard.getDefaultStream(device)};
  const c10::Stream current = guard.getStream(device);
  if (current != all[0]) all.push_back(current);
  return all;
}

}  // namespace

void move_to(const LogicalDevice& device, data::Example& part) {
  if (device.physical.is_cpu()) return;
  for (at::Tensor& field : part.fields) field = tensor::to_device(field, device.physical);
}

DeviceInput::DeviceInput(std::vector<LogicalDevice> devices, Source source, int64_t ahead)
    : devices_(std::move(devices)),
      source_(std::move(source)),
      ahead_(static_cast<size_t>(ahead)),
      place_(source_.place()) {
  for (const LogicalDevice& device : devices_) {
    streams_.push_back(device.physical.is_cpu() ? std::nullopt
                                                : std::optional(tensor::side_stream(
                                                      device.physical, tensor::SideWork::kInput)));
  }
  thread_ =
      Thread("strata-input", [this, state = at::ThreadLocalState()](const std::stop_token& stop) {
        const at::ThreadLocalStateGuard guard(state);
        data::detail::use_single_thread();
        run(stop);
      });
}

DeviceInput::~DeviceInput() = default;

void DeviceInput::run(const std::stop_token& stop) {
  bool more = true;
  while (more) {
    {
      MutexLock lock(mutex_);
      const auto has_room = [&]() STRATA_REQUIRES(mutex_) { return queue_.size() < ahead_; };
      if (!room_.wait(lock, stop, has_room)) return;
    }
    Item item = make();
    more = !item.parts.empty() || item.error != nullptr;
    {
      const MutexLock lock(mutex_);
      queue_.push_back(std::move(item));
    }
    filled_.notify_one();
  }
}

DeviceInput::Item DeviceInput::make() {
  Item item;
  try {
    item.parts = source_.next();
    item.copied.resize(item.parts.size());
    for (size_t r = 0; r < item.parts.size(); ++r) move(item, r);
  } catch (...) {
    item.error = std::current_exception();
  }
  item.place = source_.place();
  return item;
}

void DeviceInput::move(Item& item, size_t replica) const {
  if (!streams_[replica]) return;
  const c10::StreamGuard guard(*streams_[replica]);
  move_to(devices_[replica], item.parts[replica]);
  item.copied[replica].emplace();
  item.copied[replica]->record(*streams_[replica]);
}

DeviceInput::Parts DeviceInput::next() {
  if (ended_) return {};
  Item item;
  {
    MutexLock lock(mutex_);
    filled_.wait(lock, [&]() STRATA_REQUIRES(mutex_) { return !queue_.empty(); });
    item = std::move(queue_.front());
    queue_.pop_front();
  }
  room_.notify_one();
  place_ = std::move(item.place);
  if (item.error) std::rethrow_exception(item.error);
  ended_ = item.parts.empty();
  for (size_t r = 0; r < item.parts.size(); ++r) {
    if (!item.copied[r]) continue;
    for (const c10::Stream& reader : readers_of(devices_[r].physical)) {
      item.copied[r]->block(StreamWait::kStepForBatch, reader);
      for (const at::Tensor& field : item.parts[r].fields) {
        keep_for(StreamWait::kAllocatorForStep, field, reader);
      }
    }
  }
  return std::move(item.parts);
}

}  // namespace strata::detail
