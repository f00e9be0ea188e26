#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/graph.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors_format.h"
#include "runtime/replica_group.h"
#include "tensor/arena.h"

namespace strata::checkpoint {

/// One safetensors file to be.
struct SnapshotShard {
  std::string header = {};
  uint64_t data_bytes = 0;
  /// The bytes behind the header, in order.
  std::vector<std::span<const std::byte>> data = {};
};

/// The state of a moment, ready to be written.
struct Snapshot {
  Manifest manifest;  ///< Complete but for the shards' checksums.
  std::vector<SnapshotShard> shards = {};
  std::vector<at::Tensor> owners = {};  ///< Of what `data` points to.
  bool in_a_hurry = false;              ///< A caller waits for it to be written.
  std::function<void()> throttle = {};  ///< Called between blocks, unless in a hurry.
};

/// Memory for copies, kept from one save to the next: its pages are then in place.
class Staging {
 public:
  /// @return at least `bytes` bytes, with undefined contents.
  std::byte* reserve(uint64_t bytes);
  uint64_t capacity() const { return capacity_; }

 private:
  tensor::Arena arena_;
  uint64_t capacity_ = 0;
};

struct SnapshotOptions {
  int64_t shard_bytes = 0;
  bool per_replica = true;
  std::string shard_prefix = {};  ///< Of the shards' names.
  /// Else only what all processes read together is read, and the snapshot stays empty.
  bool writes = true;
};

/// Reads the state of `graph`; every process calls it. With `staging` tensors are copied there, by
/// all cores; without one the snapshot holds the live tensors themselves.
/// @throws Error kInvalidArgument, kUnimplemented: a tensor that the format cannot hold; names it.
Snapshot take_snapshot(const Graph& graph, const SnapshotOptions& options, Staging* staging);

/// What a group's replicas run, as manifests keep it; empty where they are on GPUs.
std::string kernels_of(const ReplicaGroup& group);

}  // namespace strata::checkpoint
