#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/model.h"

namespace strata::keras {

struct SidecarEvaluatorOptions {
  /// The number of batches of an evaluation; 0: all.
  int64_t steps = 0;
  /// Ends after the checkpoint with this number, or a higher one; 0: never by itself. For a
  /// training of n epochs with a checkpoint each: n.
  int64_t max_evaluations = 0;
  std::vector<callbacks::CallbackRef> callbacks = {};
  int verbose = 2;

  /// Checkpoints are called `<name>-<number>`.
  std::string checkpoint_name = "ckpt";
  /// The limit of the wait for the next one, and the polling interval.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::chrono::milliseconds interval = std::chrono::seconds(1);
  /// Ends it between two evaluations, as SIGTERM does.
  std::stop_token stop = {};
};

/// The values of a model at one checkpoint.
struct Evaluation {
  std::string checkpoint;  ///< its path
  int64_t number;
  int64_t iterations;  ///< the optimizer's; for a file of weights its number
  Logs logs;
};

/// Evaluates a model at each new checkpoint of a training in another process: the evaluator's role
/// in a cluster.
///
///     if (cluster && cluster->task.job == cluster::kEvaluator) {
///       keras::SidecarEvaluator(model, test, "run", {.max_evaluations = 10}).start();
///     }
///
/// `checkpoint_dir` is written by a CheckpointManager, whose Checkpoint has the model as "model"
/// and its optimizer as "optimizer", or by ModelCheckpoint with a path such as
/// "run/ckpt-{epoch}.weights.h5", or by BackupAndRestore, which has none after the last epoch. The
/// newest checkpoint is taken; those that are written during an evaluation are skipped, except the
/// last. Each evaluation has the values of `evaluate` with those weights; callbacks see its test
/// calls, and TensorBoard has "evaluation_..._vs_iterations".
/// Source: tf.keras.utils.SidecarEvaluator; the deadline and the clean stop are additions.
class STRATA_API SidecarEvaluator {
 public:
  /// @param model  Built and compiled, of this process alone.
  SidecarEvaluator(Model model, data::Dataset data, std::string checkpoint_dir,
                   SidecarEvaluatorOptions options = {});

  /// Returns after the last checkpoint (`max_evaluations`), or when a stop is requested.
  /// @throws Error  kFailedPrecondition: the model is not built or not compiled; a checkpoint of
  ///     another model. Errors of follow_checkpoints, Checkpoint::read, load_weights and
  ///     `evaluate`.
  void start();

  /// The evaluations so far, in order.
  const std::vector<Evaluation>& evaluations() const { return evaluations_; }

 private:
  int64_t load(const std::string& path, int64_t number);

  Model model_;
  data::Dataset data_;
  std::string folder_;
  SidecarEvaluatorOptions options_;
  std::vector<Evaluation> evaluations_;
};

}  // namespace strata::keras
