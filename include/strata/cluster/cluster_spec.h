#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/cluster/task_id.h"
#include "strata/core/export.h"
#include "strata/core/json.h"

namespace strata::cluster {

/// Which tasks there are, and where they listen: jobs, each with addresses by task index. What the
/// jobs mean is `roles.h`'s business; an address is any text here (`check_cluster` looks at it).
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
  /// The same with some indices left out: what one task needs to know. Indices from 0.
  static ClusterSpec sparse(std::map<std::string, Tasks> jobs);
  /// `{"worker": ["host1:2222", "host2:2222"], "ps": {"1": "host3:2222"}}`: lists, or objects from
  /// indices. @throws Error  kInvalidArgument: quotes the part that is neither.
  static ClusterSpec from_json(const Json& json);
  /// The inverse: lists where indices are dense, else objects.
  Json to_json() const;

  bool empty() const { return jobs_.empty(); }
  bool has_job(std::string_view job) const { return find(job) != nullptr; }
  bool has_task(const TaskId& task) const;
  std::vector<std::string> jobs() const;  ///< sorted

  /// @throws Error  kInvalidArgument, for these: no such job, no such task; names those there are.
  int num_tasks(std::string_view job) const;
  std::vector<int> task_indices(std::string_view job) const;  ///< ascending
  const std::string& task_address(std::string_view job, int index) const;
  const std::string& task_address(const TaskId& task) const;
  /// Addresses by index; `nullopt` at an index that a sparse job leaves out.
  std::vector<std::optional<std::string>> job_tasks(std::string_view job) const;

  /// As Python prints TensorFlow's: `ClusterSpec({'ps': ['c:1'], 'worker': ['a:1', 'b:1']})`.
  std::string to_string() const;
  /// Equal for equal specs, on every machine; else different but for one chance in 2^64.
  uint64_t fingerprint() const;

  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;

 private:
  const Tasks* find(std::string_view job) const;
  const Tasks& tasks_of(std::string_view job) const;

  std::map<std::string, Tasks, std::less<>> jobs_;
};

/// The first task in which two specs differ, and what each has for it; nullopt if they are equal.
struct SpecDifference {
  TaskId task;
  std::optional<std::string> left;  ///< nullopt: that spec has no such task
  std::optional<std::string> right;
};
STRATA_API std::optional<SpecDifference> first_difference(const ClusterSpec& left,
                                                          const ClusterSpec& right);

}  // namespace strata::cluster
