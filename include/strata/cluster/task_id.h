#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "strata/core/export.h"

namespace strata::cluster {

/// A process of a cluster: its job and its index in the job.
struct STRATA_API TaskId {
  std::string job;  ///< "chief", "worker", "ps", "evaluator"
  int index = 0;

  /// Reads `/job:worker/task:1` (also with `/replica:0` in between) and `worker:1`.
  /// @throws Error  kInvalidArgument: not such a name.
  static TaskId parse(std::string_view text);

  /// `/job:worker/task:1`.
  std::string to_string() const;
  /// `worker:1`, for logs and prefixes of lines.
  std::string short_name() const;

  friend auto operator<=>(const TaskId&, const TaskId&) = default;
};

}  // namespace strata::cluster
