#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/core/json.h"

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

/// The tasks of a cluster and their addresses: jobs, each with addresses by task index. `roles.h`
/// defines what the jobs mean; an address is any text here (`check_cluster` looks at it).
///
///     ClusterSpec spec = {{"worker", {"host1:2222", "host2:2222"}}, {"ps", {"host3:2222"}}};
///
/// A value. Source: tf.train.ClusterSpec.
class STRATA_API ClusterSpec {
 public:
  using Tasks = std::map<int, std::string>;  ///< addresses by task index

  ClusterSpec() = default;
  /// @throws Error  kInvalidArgument: a job's name is not of small letters, digits and `_`.
  explicit ClusterSpec(const std::map<std::string, std::vector<std::string>>& jobs);
  ClusterSpec(std::initializer_list<std::pair<const std::string, std::vector<std::string>>> jobs);
  /// Makes a spec with some indices left out: what one task needs to know. Indices start at 0.
  static ClusterSpec sparse(std::map<std::string, Tasks> jobs);
  /// Reads `{"worker": ["host1:2222", "host2:2222"], "ps": {"1": "host3:2222"}}`: lists, or objects
  /// from indices. @throws Error  kInvalidArgument: quotes the part that is neither.
  static ClusterSpec from_json(const Json& json);
  /// Writes what `from_json` reads: lists where indices are dense, else objects.
  Json to_json() const;

  bool empty() const { return jobs_.empty(); }
  bool has_job(std::string_view job) const { return find(job) != nullptr; }
  bool has_task(const TaskId& task) const;
  std::vector<std::string> jobs() const;  ///< sorted

  /// @throws Error  kInvalidArgument, all of these: no such job, no such task; lists those that
  /// exist.
  int num_tasks(std::string_view job) const;
  std::vector<int> task_indices(std::string_view job) const;  ///< ascending
  const std::string& task_address(std::string_view job, int index) const;
  const std::string& task_address(const TaskId& task) const;
  /// Returns addresses by index; `nullopt` at an index that a sparse job leaves out.
  std::vector<std::optional<std::string>> job_tasks(std::string_view job) const;

  /// Prints as Python prints TensorFlow's: `ClusterSpec({'ps': ['c:1'], 'worker': ['a:1',
  /// 'b:1']})`.
  std::string to_string() const;
  /// Equal for equal specs, on every machine; different specs collide with a chance of 1 in 2^64.
  uint64_t fingerprint() const;

  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;

 private:
  const Tasks* find(std::string_view job) const;
  const Tasks& tasks_of(std::string_view job) const;

  std::map<std::string, Tasks, std::less<>> jobs_;
};

/// The first task in which two specs differ, and its address in each; nullopt if they are equal.
struct SpecDifference {
  TaskId task;
  std::optional<std::string> left;  ///< nullopt: that spec has no such task
  std::optional<std::string> right;
};
STRATA_API std::optional<SpecDifference> first_difference(const ClusterSpec& left,
                                                          const ClusterSpec& right);

}  // namespace strata::cluster
