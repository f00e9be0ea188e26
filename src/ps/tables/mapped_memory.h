#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/mutex.h"
#include "wire/shared_memory.h"

namespace strata::ps {

/// Behind the bytes of a segment of a worker's memory is a key, by which a server knows that it
/// has mapped the right one.
inline constexpr size_t kMemoryKeyBytes = 64;

/// Segments of one worker's memory (worker_memory.h) that a server has mapped. Threads: any.
class MappedMemory {
 public:
  /// @param introduction  As the worker's memory has it.
  /// @return whether it can be mapped here: same host, same user, same processes to be seen.
  bool map(uint64_t segment, const std::string& introduction);
  void forget(uint64_t segment) {
    const MutexLock lock(mutex_);
    segments_.erase(segment);
  }

  /// Holds the segment.
  /// @throws Error  kInvalidArgument: not so many bytes there; names both.
  std::shared_ptr<std::byte> at(uint64_t segment, uint64_t offset, size_t bytes) const;

 private:
  mutable Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<wire::SharedMapping>> segments_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata::ps
