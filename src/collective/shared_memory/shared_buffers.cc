#include "collective/shared_memory/shared_buffers.h"

#include <functional>
#include <utility>

#include "collective/shared_memory/pages.h"
#include "strata/core/error.h"

namespace strata::collective {
wire::FileDescriptor SharedBuffer::make(int64_t bytes_a_rank, int ranks) {
  return wire::make_memory_file("strata buffer", kHeadBytes + whole_pages(bytes_a_rank) * ranks);
}

SharedBuffer::SharedBuffer(const wire::FileDescriptor& file, int64_t bytes_a_rank, int ranks)
    : mapping_(file, 0, kHeadBytes + whole_pages(bytes_a_rank) * ranks),
      stride_(whole_pages(bytes_a_rank)),
      ranks_(ranks) {
  mapping_.reserve(file);
}

std::shared_ptr<void> SharedBuffer::use(const std::shared_ptr<SharedBuffer>& buffer) {
  if (!buffer) return nullptr;
  return {buffer.get(), [buffer](void*) { buffer->released().fetch_add(1); }};
}

std::optional<int64_t> SharedBuffer::offset_of(const std::byte* data, int64_t bytes) const {
  const std::less_equal<> not_after;
  if (!not_after(mapping_.data(), data)) return std::nullopt;
  if (!not_after(data + bytes, mapping_.data() + mapping_.bytes())) return std::nullopt;
  return data - mapping_.data();
}

void SharedBuffers::add(std::shared_ptr<SharedBuffer> buffer) {
  const MutexLock lock(mutex_);
  used_[count_++] = std::move(buffer);
}

std::optional<SharedBuffers::Location> SharedBuffers::locate(const void* data, int64_t bytes) {
  const MutexLock lock(mutex_);
  std::erase_if(used_, [](const auto& entry) { return entry.second->unused(); });
  for (const auto& [number, buffer] : used_) {
    if (const auto offset = buffer->offset_of(static_cast<const std::byte*>(data), bytes)) {
      return Location{.buffer = number, .offset = *offset};
    }
  }
  return std::nullopt;
}

std::byte* SharedBuffers::at(const Location& location) {
  const MutexLock lock(mutex_);
  const auto buffer = used_.find(location.buffer);
  STRATA_CHECK(buffer != used_.end(), kInternal,
               "[collective] a rank names a buffer that was released");
  return buffer->second->at(location.offset);
}

}  // namespace strata::collective
