#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "strata/core/export.h"

namespace strata {

class ReplicaGroup;

/// A value of a checkpoint beside its tensors. Positions of iterators are strings.
using CheckpointValue = std::variant<bool, int64_t, double, std::string>;

/// One tensor of an object's state: how to read it for saving, how to write it on restoring.
struct STRATA_API TensorState {
  std::string name = {};  ///< Within the object; empty: the object is this tensor.
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes = {};
  bool any_size = false;  ///< A restored tensor may have another shape (a history that grew).
  /// Equal for two entries that are one tensor (tied weights): it is saved once. Null: never.
  const void* identity = nullptr;

  /// Returns the common value of all replicas. It may be a view of live storage.
  std::function<at::Tensor()> read = {};
  std::function<void(const at::Tensor&)> write = {};

  /// Returns the replicas' own values if they differ, else nothing; and writes them back, given as
  /// many as there are replicas.
  std::function<std::vector<at::Tensor>()> read_replicas = {};
  std::function<void(const std::vector<at::Tensor>&)> write_replicas = {};
  int replicas = 1;
  /// The replicas whose random streams are saved beside the tensor.
  std::shared_ptr<ReplicaGroup> group = {};
  /// The user's name of it ("dense_1/kernel"), for errors: `name` may be a number.
  std::string label = {};
};

/// One value that is not a tensor.
struct STRATA_API ValueState {
  std::string name = {};
  std::function<CheckpointValue()> read = {};
  /// @throws Error kInvalidArgument: not a value that it can take.
  std::function<void(const CheckpointValue&)> write = {};
};

class Trackable;

/// An object's whole state at a moment.
struct STRATA_API ObjectState {
  std::vector<TensorState> tensors = {};
  std::vector<ValueState> values = {};
  std::vector<std::pair<std::string, std::shared_ptr<Trackable>>> children = {};
  /// A run is continued by it, not only its result used: an optimizer, a place in the input. It is
  /// restored where the kernels are those that saved it (docs/kernels.md).
  bool continues_run = false;
};

/// An object that a checkpoint can save and restore. Derive from it for state of your own; strata's
/// own objects need only a name (tracked.h). Source: tf.train.Checkpoint's Trackable.
class STRATA_API Trackable {
 public:
  virtual ~Trackable();

  /// Called at each save and each restore, outside `run`, on the thread that saves or restores. It
  /// may list more than it did before (variables made later): RestoreStatus::restore_created.
  virtual ObjectState state() = 0;

  /// Called before a save or a restore: writes pending changes into the state.
  virtual void settle() {}
  /// Called when a restore has written its values.
  virtual void after_restore() {}
};

namespace detail {

/// Returns the value as T; integers convert to doubles.
/// @throws Error kInvalidArgument: another type.
template <typename T>
T checkpoint_value(const CheckpointValue& value);
extern template STRATA_API bool checkpoint_value<bool>(const CheckpointValue&);
extern template STRATA_API int64_t checkpoint_value<int64_t>(const CheckpointValue&);
extern template STRATA_API double checkpoint_value<double>(const CheckpointValue&);
extern template STRATA_API std::string checkpoint_value<std::string>(const CheckpointValue&);

}  // namespace detail
}  // namespace strata
