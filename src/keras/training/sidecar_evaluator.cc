#include "strata/keras/sidecar_evaluator.h"

#include <algorithm>

#include "checkpoint/describe.h"
#include "core/join.h"
#include "strata/checkpoint/checkpoint.h"
#include "strata/checkpoint/checkpoint_manager.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::keras {

SidecarEvaluator::SidecarEvaluator(Model model, data::Dataset data, std::string checkpoint_dir,
                                   SidecarEvaluatorOptions options)
    : model_(std::move(model)),
      data_(std::move(data)),
      folder_(std::move(checkpoint_dir)),
      options_(std::move(options)) {}

/// @return the training's iterations.
int64_t SidecarEvaluator::load(const std::string& path, int64_t number) {
  if (!is_checkpoint(path)) {
    model_.load_weights(path);
    return number;
  }
  int64_t iterations = number;
  Checkpoint checkpoint(
      {{"model", model_}, {"optimizer", Checkpoint::Objects{{"iterations", iterations}}}},
      {.random_state = false});
  RestoreStatus status = checkpoint.read(path);
  status.expect_partial();
  std::vector<std::string> missing = status.unmatched();
  std::erase(missing, "optimizer/iterations");
  STRATA_CHECK(missing.empty(), kFailedPrecondition, "[sidecar_evaluator] ", path, " lacks ",
               join(missing), "; expected the weights of Model '", model_.name(),
               "': save them with Checkpoint({{\"model\", model}, {\"optimizer\", "
               "model.optimizer()}})");
  return iterations;
}

void SidecarEvaluator::start() {
  STRATA_CHECK(model_->built(), kFailedPrecondition, "[sidecar_evaluator] Model '", model_.name(),
               "' is not built, so it has no weights yet; give it an Input");
  optimizers::Optimizer& optimizer = model_.optimizer();
  const auto evaluate = [&](const FollowedCheckpoint& checkpoint) {
    const int64_t iterations = load(checkpoint.path, checkpoint.number);
    optimizer.set_iterations(iterations);
    STRATA_LOG(kInfo) << "[sidecar_evaluator] evaluating " << checkpoint.path;
    Logs logs = model_.evaluate(
        data_,
        {.callbacks = options_.callbacks, .verbose = options_.verbose, .steps = options_.steps});
    const auto text = [](const auto& each) { return str_cat(each.first, "=", each.second); };
    STRATA_LOG(kInfo) << "[sidecar_evaluator] " << checkpoint.path << ": "
                      << join(logs.values(), text, " ");
    evaluations_.push_back({.checkpoint = checkpoint.path,
                            .number = checkpoint.number,
                            .iterations = iterations,
                            .logs = std::move(logs)});
    return options_.max_evaluations == 0 || checkpoint.number < options_.max_evaluations;
  };
  (void)follow_checkpoints(folder_, evaluate,
                           {.checkpoint_name = options_.checkpoint_name,
                            .file_endings = {".weights.h5", ".safetensors", ".keras"},
                            .timeout = options_.timeout,
                            .interval = options_.interval,
                            .stop = options_.stop});
}

}  // namespace strata::keras
