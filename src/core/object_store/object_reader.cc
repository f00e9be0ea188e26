#include <algorithm>
#include <cstring>
#include <future>
#include <list>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "core/object_store/object_file.h"
#include "strata/core/error.h"

namespace strata::object_store {
namespace {

constexpr uint64_t kBlock = uint64_t{8} << 20;
constexpr size_t kKeptBlocks = 4;

using Block = std::shared_ptr<const std::vector<std::byte>>;

class ObjectReader final : public ReadableFile {
 public:
  ObjectReader(const Store& store, ObjectPath path, ObjectInfo info)
      : store_(store), path_(std::move(path)), info_(std::move(info)) {}

  size_t read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size()) return 0;
    out = out.first(std::min<uint64_t>(out.size(), size() - offset));
    if (out.size() >= kBlock) {  // as it is asked for, past the blocks
      fill(offset, out);
      return out.size();
    }
    for (size_t done = 0; done < out.size();) {
      const uint64_t at = offset + done;
      const Block block = block_at(at / kBlock);
      const uint64_t begin = at % kBlock;
      const size_t bytes = std::min<uint64_t>(out.size() - done, block->size() - begin);
      std::memcpy(out.data() + done, block->data() + begin, bytes);
      done += bytes;
    }
    return out.size();
  }

  uint64_t size() const override { return info_.size; }

 private:
  struct Kept {
    uint64_t index;
    std::shared_future<Block> block;
  };

  void fill(uint64_t offset, std::span<std::byte> out) const {
    const size_t got = store_.get(path_, info_.tag, offset, out);
    STRATA_CHECK(got == out.size(), kUnavailable, "[core] read: ", path_.whole, ": got ", got,
                 " of ", out.size(), " bytes at ", offset);
  }
  Block fetch(uint64_t index) const {
    const uint64_t begin = index * kBlock;
    std::vector<std::byte> bytes(std::min(kBlock, size() - begin));
    fill(begin, bytes);
    return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  }

  Block block_at(uint64_t index) const {
    std::shared_future<Block> block;
    {
      const MutexLock lock(mutex_);
      const bool is_next = index == next_;
      next_ = index + 1;
      block = begin(index, std::launch::deferred);
      if (is_next && (index + 1) * kBlock < size()) begin(index + 1, std::launch::async);
    }
    try {
      return block.get();
    } catch (...) {  // the next call tries again
      const MutexLock lock(mutex_);
      kept_.remove_if([&](const Kept& each) { return each.index == index; });
      throw;
    }
  }

  std::shared_future<Block> begin(uint64_t index, std::launch when) const STRATA_REQUIRES(mutex_) {
    const auto found = std::ranges::find(kept_, index, &Kept::index);
    if (found != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, found);
    } else {
      kept_.push_front({.index = index,
                        .block = std::async(when, [this, index] { return fetch(index); }).share()});
      if (kept_.size() > kKeptBlocks) kept_.pop_back();
    }
    return kept_.front().block;
  }

  const Store& store_;
  const ObjectPath path_;
  const ObjectInfo info_;
  mutable Mutex mutex_;
  mutable uint64_t next_ STRATA_GUARDED_BY(mutex_) = 0;  // for reads of one block after the other
  // The one used last in front. After the others: its destructor waits for a block on its way.
  mutable std::list<Kept> kept_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<ReadableFile> open_object(const Store& store, ObjectPath path, ObjectInfo info) {
  return std::make_unique<ObjectReader>(store, std::move(path), std::move(info));
}

}  // namespace strata::object_store
