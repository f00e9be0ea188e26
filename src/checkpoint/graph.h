#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/replica_group.h"
#include "strata/checkpoint/tracked.h"

namespace strata::checkpoint {

using Objects = std::vector<std::pair<std::string, Tracked>>;

struct GraphTensor {
  std::string name = {};     ///< "model/fc1.weight"
  std::string same_as = {};  ///< The name under which the same tensor is, if it does.
  TensorState state;
};

struct GraphValue {
  std::string name = {};
  ValueState state;
};

/// Everything that the objects hold at a moment, by name.
struct Graph {
  std::vector<GraphTensor> tensors = {};
  std::vector<GraphValue> values = {};
  std::vector<std::shared_ptr<Trackable>> objects = {};  ///< Each once.
  std::vector<std::shared_ptr<ReplicaGroup>> groups =
      {};                      ///< Of the variables, each once, in order.
  bool continues_run = false;  ///< Some object says so.
  /// In whose processes the objects live.
  std::shared_ptr<ReplicaGroup> workers = {};
};

/// Names that start with this are the checkpoint's own.
inline constexpr char kOwnPrefix = '_';

/// Settles all objects and lists their state, and the checkpoint's own: random streams of the
/// variables' replicas, libtorch's random state (if wanted), the save counter.
/// @param otherwise  The replicas of objects that say nothing of any.
/// @throws Error kInvalidArgument: names that are empty, twice, with '/', or begin with '_'.
Graph walk(const Objects& objects, bool random_state, int64_t& save_counter,
           const std::shared_ptr<ReplicaGroup>& otherwise);

}  // namespace strata::checkpoint
