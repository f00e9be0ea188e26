#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "strata/cluster/cluster_spec.h"
#include "strata/cluster/resolvers.h"
#include "strata/core/export.h"

namespace strata {
class Strategy;
}

namespace strata::estimator {

/// Options of RunConfig. Source: the arguments of tf.estimator.RunConfig.
struct RunConfigOptions {
  // Where, and from which numbers.
  std::string model_dir = {};  ///< Empty: TF_CONFIG's; else Estimator makes a temporary folder.
  /// Seeds the initial weights of each call. Unset: libtorch's generator draws them.
  std::optional<uint64_t> tf_random_seed = {};

  // How often, in steps or seconds.
  int64_t save_summary_steps = 100;  ///< 0: never.
  /// At most one of the two. Neither: every 600 s. 0: no checkpoints are saved.
  std::optional<int64_t> save_checkpoints_steps = {};
  std::optional<double> save_checkpoints_secs = {};
  int64_t keep_checkpoint_max = 5;  ///< 0: all.
  double keep_checkpoint_every_n_hours = 10000;
  std::optional<int64_t> log_step_count_steps = 100;  ///< Unset: never.

  // On which devices. They must live as long as the estimator. Null: one replica, on the CPU.
  Strategy* train_distribute = nullptr;
  Strategy* eval_distribute = nullptr;

  /// Where an interrupted call of train continues: with the batch behind the last one of the
  /// checkpoint (true), or at the beginning of the input, as in TensorFlow. A call that ended is
  /// always followed by one that begins there.
  bool resume_input = true;

  // For tests.
  std::optional<cluster::Environment> environment = {};  ///< Unset: the process's.
  std::function<double()> now = {};  ///< Seconds that never go back; empty: the system's clock.
};

/// What training needs to know of the run, and which task of a cluster this process is (TF_CONFIG,
/// read when it is made). A value.
/// Source: tf.estimator.RunConfig; docs/estimator.md lists what is missing.
class STRATA_API RunConfig {
 public:
  /// @throws Error  kInvalidArgument: an option out of its range, both intervals of checkpoints,
  /// another model_dir than TF_CONFIG's, a TF_CONFIG that does not describe a cluster and a task of
  /// it.
  explicit RunConfig(RunConfigOptions options = {});

  /// As given, with TF_CONFIG's model_dir. For a config with changes: copy, change, make a new one.
  const RunConfigOptions& options() const { return options_; }
  const std::string& model_dir() const { return options_.model_dir; }
  /// 0: not by steps.
  int64_t save_checkpoints_steps() const;
  /// 0: not by time.
  double save_checkpoints_secs() const;
  bool saves_checkpoints() const {
    return save_checkpoints_steps() > 0 || save_checkpoints_secs() > 0;
  }
  double now() const;

  /// Empty in one process, and in an evaluator.
  const cluster::ClusterSpec& cluster_spec() const { return cluster_; }
  const std::string& task_type() const { return task_.job; }  ///< "worker" in one process
  int task_id() const { return task_.index; }
  /// The chief 0, then the other jobs' tasks in the order of the jobs' names, ps last. Unset in an
  /// evaluator.
  std::optional<int> global_id_in_cluster() const;
  bool is_chief() const;
  /// Whether TF_CONFIG describes no cluster.
  bool is_alone() const { return cluster_.empty() && is_chief(); }
  int num_ps_replicas() const;
  int num_worker_replicas() const;  ///< with the chief; 0 in an evaluator

 private:
  RunConfigOptions options_;
  cluster::ClusterSpec cluster_;
  cluster::TaskId task_{.job = "worker", .index = 0};
};

}  // namespace strata::estimator
