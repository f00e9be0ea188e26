#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "wire/shared_memory.h"
#include "wire/tcp/file_descriptor.h"

namespace strata::ps {

/// Memory of a worker that servers of its host map: they read gradients where they are and write
/// values where they are wanted, and nothing travels.
/// Threads: any.
class WorkerMemory {
 public:
  struct Place {
    uint64_t segment = 0;
    uint64_t offset = 0;
  };

  /// `bytes` zeros, at a page's start. nullptr: the system has no such memory.
  std::shared_ptr<std::byte> take(size_t bytes);

  /// Where these bytes are, if a block holds them.
  std::optional<Place> find(std::span<const std::byte> bytes) const;
  /// What a server needs to map a segment. @pre It is there.
  std::string introduce(uint64_t segment) const;
  /// Segments that have ended since the last call.
  std::vector<uint64_t> take_gone();

  /// Puts other memory, with the same content, in the place of the segments': a server that does
  /// not answer any more, and may still write, does not write here. Tensors keep their addresses.
  /// No process else may use the segments meanwhile.
  void withdraw(const std::vector<uint64_t>& segments);

 private:
  struct Segment {
    uint64_t id = 0;
    std::string key = {};
    wire::FileDescriptor file = {};
    wire::SharedMapping mapping = {};
  };
  struct Segments {
    mutable Mutex mutex;
    std::map<const std::byte*, Segment> by_address STRATA_GUARDED_BY(mutex);
    std::vector<uint64_t> gone STRATA_GUARDED_BY(mutex);
    uint64_t last_id STRATA_GUARDED_BY(mutex) = 0;
  };

  static void open(Segment& segment, size_t bytes);

  const std::shared_ptr<Segments> segments_ = std::make_shared<Segments>();
};

}  // namespace strata::ps
