#include "strata/keras/callbacks/early_stopping.h"

#include <ATen/core/grad_mode.h>

#include <cstdio>

#include "keras/callbacks/monitor.h"
#include "keras/training/training_run.h"

namespace strata::callbacks {

EarlyStopping::EarlyStopping(const EarlyStoppingOptions& options) : options_(options) {}

void EarlyStopping::on_train_begin() {
  wait_ = stopped_epoch_ = best_epoch_ = 0;
  has_best_ = has_weights_ = false;
  best_weights_.clear();
  // All of its state is there from the start, so that a checkpoint can fill it.
  if (options_.restore_best_weights) keep_weights();
}

void EarlyStopping::keep_weights() {
  const at::NoGradGuard no_grad;
  const auto weights = run().model()->weights();
  best_weights_.resize(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    best_weights_[i] = weights[i].variable.value().detach().clone();
  }
}

void EarlyStopping::on_epoch_end(int64_t epoch, keras::Logs& logs) {
  const auto value = detail::monitored("EarlyStopping", options_.monitor, logs);
  if (!value || epoch < options_.start_from_epoch) return;
  const auto better_than = [&](std::optional<double> best) {
    return detail::is_improvement("EarlyStopping", options_.monitor, options_.mode,
                                  options_.min_delta, *value, best);
  };
  const bool better = better_than(best());
  if (options_.restore_best_weights && (better || !has_weights_)) {
    keep_weights();
    has_weights_ = true;
    best_epoch_ = epoch;
  }
  ++wait_;
  if (better) {
    has_best_ = true;
    best_ = *value;
    best_epoch_ = epoch;
    if (!options_.baseline || better_than(options_.baseline)) wait_ = 0;
    return;
  }
  if (wait_ >= options_.patience && epoch > 0) {
    stopped_epoch_ = epoch;
    run().stop_training();
  }
}

void EarlyStopping::on_train_end(keras::Logs&) {
  if (stopped_epoch_ > 0 && options_.verbose > 0 && run().model()->strategy().is_chief()) {
    std::printf("Epoch %lld: early stopping\n", static_cast<long long>(stopped_epoch_ + 1));
  }
  if (!options_.restore_best_weights || !has_weights_) return;
  if (options_.verbose > 0 && run().model()->strategy().is_chief()) {
    std::printf("Restoring model weights from the end of the best epoch: %lld.\n",
                static_cast<long long>(best_epoch_ + 1));
  }
  const auto weights = run().model()->weights();
  for (size_t i = 0; i < weights.size(); ++i) {
    Variable variable = weights[i].variable;
    variable.assign(best_weights_[i]);
  }
}

std::vector<std::pair<std::string, Tracked>> EarlyStopping::state() {
  std::vector<std::pair<std::string, Tracked>> state = {{"wait", wait_},
                                                        {"stopped_epoch", stopped_epoch_},
                                                        {"best_epoch", best_epoch_},
                                                        {"has_best", has_best_},
                                                        {"best", best_},
                                                        {"has_weights", has_weights_}};
  for (size_t i = 0; i < best_weights_.size(); ++i) {
    state.emplace_back(str_cat("weight_", i), best_weights_[i]);
  }
  return state;
}

}  // namespace strata::callbacks
