#include "gpu/emulated/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "gpu/emulated/device.h"
#include "strata/core/error.h"

namespace strata::test::emulated_gpu {
namespace {

constexpr size_t kWindow = size_t{8} << 30;  // address space, not memory
constexpr size_t kGrain = 512;               // as CUDA aligns
constexpr int kPoison = 0xff;

char* reserve(int protection) {
  void* window =
      mmap(nullptr, kWindow, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  STRATA_CHECK(window != MAP_FAILED, kResourceExhausted, "[emulated_gpu] mmap of ", kWindow,
               " bytes: ", std::strerror(errno));
  return static_cast<char*>(window);
}

size_t round_up(size_t bytes) { return (bytes + kGrain - 1) / kGrain * kGrain; }

/// What libtorch's allocator asks a card for, for a block of `length`.
size_t segment_for(size_t length) {
  constexpr size_t kMiB = size_t{1} << 20;
  if (length <= kMiB) return 2 * kMiB;
  if (length < 10 * kMiB) return 20 * kMiB;
  return (length + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
}

/// Free ranges, offset to length; neighbours are one.
class FreeRanges {
 public:
  /// From the smallest that has room.
  bool take(size_t length, size_t* offset) {
    auto range = ranges_.end();
    for (auto each = ranges_.begin(); each != ranges_.end(); ++each) {
      if (each->second < length) continue;
      if (range == ranges_.end() || each->second < range->second) range = each;
    }
    if (range == ranges_.end()) return false;
    *offset = range->first;
    const size_t rest = range->second - length;
    ranges_.erase(range);
    if (rest > 0) ranges_[*offset + length] = rest;
    return true;
  }

  void give(size_t offset, size_t length) {
    auto after = ranges_.upper_bound(offset);
    if (after != ranges_.end() && offset + length == after->first) {
      length += after->second;
      after = ranges_.erase(after);
    }
    if (after != ranges_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == offset) {
        before->second += length;
        return;
      }
    }
    ranges_[offset] = length;
  }

 private:
  std::map<size_t, size_t> ranges_;
};

using StreamKey = std::pair<c10::DeviceIndex, c10::StreamId>;

StreamKey key_of(const c10::Stream& stream) { return {stream.device_index(), stream.id()}; }

}  // namespace

struct Memory::Ranges {
  struct Used {
    size_t length;
    c10::Stream stream;
    std::vector<c10::Stream> recorded_on = {};
  };
  struct Parked {  // free as soon as no data move here
    size_t offset;
    size_t length;
    StreamKey stream;
  };

  Bytes bytes(size_t offset, size_t length) const { return {host + offset, length}; }

  void free_parked() {
    std::erase_if(parked, [&](const Parked& each) {
      const Bytes range = bytes(each.offset, each.length);
      if (in_motion(range)) return false;
      std::memset(host + each.offset, kPoison, each.length);
      free[each.stream].give(each.offset, each.length);
      return true;
    });
  }

  std::mutex mutex;
  char* device = reserve(PROT_NONE);
  char* host = reserve(PROT_READ | PROT_WRITE);
  std::map<StreamKey, FreeRanges> free;
  size_t fresh = 0;  // the first byte that was never handed out
  std::map<size_t, Used> used;
  std::vector<Parked> parked;
  size_t bytes_in_use = 0;
};

Memory::Memory() : ranges_(new Ranges) {}

Memory& Memory::instance() {
  static auto* memory = new Memory();
  return *memory;
}

c10::DataPtr Memory::allocate(size_t bytes) {
  const c10::Stream stream = current_stream(current_device());
  if (bytes == 0) return {nullptr, stream.device()};
  const size_t length = round_up(bytes);
  size_t offset = 0;
  {
    const std::lock_guard lock(ranges_->mutex);
    ranges_->free_parked();
    FreeRanges& free = ranges_->free[key_of(stream)];
    if (!free.take(length, &offset)) {
      const size_t segment = segment_for(length);
      offset = ranges_->fresh;
      STRATA_CHECK(kWindow - offset >= segment, kResourceExhausted,
                   "[emulated_gpu] out of memory: got ", bytes, " bytes");
      ranges_->fresh += segment;
      if (segment > length) free.give(offset + length, segment - length);
    }
    ranges_->used.emplace(offset, Ranges::Used{.length = length, .stream = stream});
    ranges_->bytes_in_use += length;
  }
  std::memset(ranges_->host + offset, kPoison, length);
  hand_out(stream, ranges_->bytes(offset, length));
  void* address = ranges_->device + offset;
  return {address, address, raw_deleter(), stream.device()};
}

c10::DeleterFnPtr Memory::raw_deleter() const {
  return [](void* address) {
    if (address == nullptr) return;
    Ranges& ranges = *instance().ranges_;
    const std::lock_guard lock(ranges.mutex);
    const auto offset = static_cast<size_t>(static_cast<char*>(address) - ranges.device);
    const auto block = ranges.used.extract(offset);
    const Ranges::Used& used = block.mapped();
    ranges.bytes_in_use -= used.length;
    take_back(used.stream, ranges.bytes(offset, used.length), used.recorded_on);
    ranges.parked.push_back({offset, used.length, key_of(used.stream)});
    ranges.free_parked();
  };
}

void Memory::copy_data(void* to, const void* from, size_t bytes) const {
  std::memmove(host_address(to), host_address(from), bytes);
}

void Memory::record_stream(const void* device, const c10::Stream& stream) {
  const auto offset = static_cast<size_t>(static_cast<const char*>(device) - ranges_->device);
  const std::lock_guard lock(ranges_->mutex);
  const auto block = ranges_->used.find(offset);
  if (block != ranges_->used.end()) block->second.recorded_on.push_back(stream);
}

void* Memory::host_address(const void* device) const {
  if (device == nullptr) return nullptr;
  return ranges_->host + (static_cast<const char*>(device) - ranges_->device);
}

void* Memory::device_address(const void* host) const {
  const auto* byte = static_cast<const char*>(host);
  if (byte < ranges_->host || byte >= ranges_->host + kWindow) return nullptr;
  return ranges_->device + (byte - ranges_->host);
}

size_t Memory::bytes_in_use() const {
  const std::lock_guard lock(ranges_->mutex);
  return ranges_->bytes_in_use;
}

size_t Memory::bytes_reserved() const {
  const std::lock_guard lock(ranges_->mutex);
  return ranges_->fresh;
}

struct PinnedMemory::Blocks {
  struct Block {
    size_t length;
    bool used = true;
  };

  std::mutex mutex;
  std::map<const char*, Block> all;
  int64_t reserved = 0;
};

PinnedMemory::PinnedMemory() : blocks_(new Blocks) {}

PinnedMemory& PinnedMemory::instance() {
  static auto* memory = new PinnedMemory();
  return *memory;
}

bool PinnedMemory::is_pinned(const void* address) const {
  const auto* byte = static_cast<const char*>(address);
  const std::lock_guard lock(blocks_->mutex);
  auto block = blocks_->all.upper_bound(byte);
  if (block == blocks_->all.begin()) return false;
  --block;
  return block->second.used && byte < block->first + block->second.length;
}

c10::DataPtr PinnedMemory::allocate(size_t bytes) {
  const c10::Device cpu(c10::kCPU);
  if (bytes == 0) return {nullptr, cpu};
  const size_t length = round_up(bytes);
  char* address = nullptr;
  {
    const std::lock_guard lock(blocks_->mutex);
    for (auto& [begin, block] : blocks_->all) {
      if (block.used || block.length != length) continue;
      if (in_motion({begin, length})) continue;
      block.used = true;  // the allocator has asked the events of its uses
      address = const_cast<char*>(begin);
      break;
    }
    if (address == nullptr) {
      address = static_cast<char*>(std::aligned_alloc(kGrain, length));
      blocks_->all[address] = {.length = length};
      ++blocks_->reserved;
    }
  }
  hand_out_pinned({address, length});
  std::memset(address, kPoison, length);
  return {address, address, raw_deleter(), cpu};
}

c10::DeleterFnPtr PinnedMemory::raw_deleter() const {
  return [](void* address) {
    Blocks& blocks = *instance().blocks_;
    const std::lock_guard lock(blocks.mutex);
    Blocks::Block& block = blocks.all.at(static_cast<const char*>(address));
    take_back_pinned({static_cast<const char*>(address), block.length});
    block.used = false;
  };
}

void PinnedMemory::copy_data(void* to, const void* from, size_t bytes) const {
  std::memmove(to, from, bytes);
}

int64_t PinnedMemory::blocks_reserved() const {
  const std::lock_guard lock(blocks_->mutex);
  return blocks_->reserved;
}

}  // namespace strata::test::emulated_gpu
