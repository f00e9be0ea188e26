#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "strata/core/export.h"

namespace strata {

/// TensorFlow's name of a device, in parts; a part that is not set matches any.
/// Source: tf.DeviceSpec.
struct STRATA_API DeviceName {
  std::optional<std::string> job;   ///< "worker"
  std::optional<int> replica;       ///< always 0, as in TensorFlow
  std::optional<int> task;          ///< index in the job
  std::optional<std::string> type;  ///< in capitals: "CPU", "GPU"
  std::optional<int> index;         ///< among the devices of its type in the task

  /// Reads `/job:worker/replica:0/task:1/device:CPU:0` and every part of it alone or with others,
  /// in any order, and the short forms `cpu:1`, `GPU:0`, `/gpu:0`, `cpu`. `*` is the same as
  /// leaving a part out. Capitals do not matter in the type.
  /// @throws Error  kInvalidArgument: not such a name. Whether the device exists is not checked.
  static DeviceName parse(std::string_view text);

  /// Returns the canonical form of the parts that are set:
  /// `/job:worker/replica:0/task:1/device:CPU:0`; `/device:CPU:*` without an index; empty if
  /// nothing is set. `parse(to_string())` gives the same name again.
  std::string to_string() const;

  /// Returns type and index alone, `cpu:1`, for messages and logs; `cpu` without an index; empty
  /// without a type.
  std::string short_name() const;

  /// Returns this name with missing parts taken from `defaults`. The index is taken with its type
  /// only: `gpu` does not take the index of `cpu:3`.
  DeviceName merged_over(const DeviceName& defaults) const;

  /// True if every part set here is set to the same in `other`: `cpu` matches
  /// `/task:1/device:CPU:0`.
  bool matches(const DeviceName& other) const;

  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

}  // namespace strata
