#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "core/mutex.h"
#include "wire/shared_memory.h"

namespace strata::collective {

/// One call of `buffer`: memory for every rank, that all of them map.
class SharedBuffer {
 public:
  static wire::FileDescriptor make(int64_t bytes_a_rank, int ranks);
  /// @throws Error  kResourceExhausted: there is not so much memory.
  SharedBuffer(const wire::FileDescriptor& file, int64_t bytes_a_rank, int ranks);

  std::byte* of(int rank) const { return mapping_.data() + kHeadBytes + stride_ * rank; }
  /// Where `data` lies from the beginning, if all `bytes` are in here.
  std::optional<int64_t> offset_of(const std::byte* data, int64_t bytes) const;
  std::byte* at(int64_t offset) const { return mapping_.data() + offset; }

  /// For this rank's tensors to hold, all of them; null for null.
  static std::shared_ptr<void> use(const std::shared_ptr<SharedBuffer>& buffer);
  /// All ranks' tensors are destroyed.
  bool unused() const { return released().load() == static_cast<uint32_t>(ranks_); }

 private:
  static constexpr int64_t kHeadBytes = 4096;

  std::atomic<uint32_t>& released() const {
    return *reinterpret_cast<std::atomic<uint32_t>*>(mapping_.data());
  }

  wire::SharedMapping mapping_;
  int64_t stride_;
  int ranks_;
};

/// Those of a communicator. A rank keeps each mapped until every rank's tensor is destroyed: calls
/// of the others may need to see it. Threads: any.
class SharedBuffers {
 public:
  struct Location {
    int64_t buffer = 0;
    int64_t offset = 0;
  };

  void add(std::shared_ptr<SharedBuffer> buffer);
  /// Where memory of this rank lies, if it is in a buffer.
  std::optional<Location> locate(const void* data, int64_t bytes);
  /// What another rank has located, in this process. It stays mapped while that rank's tensor is
  /// there.
  std::byte* at(const Location& location);

 private:
  Mutex mutex_;
  int64_t count_ STRATA_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, std::shared_ptr<SharedBuffer>> used_ STRATA_GUARDED_BY(mutex_);  // by number
};

}  // namespace strata::collective
