#include "strata/keras/callbacks/reduce_lr_on_plateau.h"

#include <algorithm>
#include <cstdio>

#include "keras/callbacks/monitor.h"
#include "keras/training/training_run.h"

namespace strata::callbacks {

ReduceLROnPlateau::ReduceLROnPlateau(const ReduceLROnPlateauOptions& options) : options_(options) {
  STRATA_CHECK(options.factor < 1, kInvalidArgument,
               "[callbacks] ReduceLROnPlateau: got factor=", options.factor,
               "; expected less than 1");
}

void ReduceLROnPlateau::on_train_begin() {
  wait_ = cooldown_left_ = 0;
  has_best_ = false;
}

void ReduceLROnPlateau::on_epoch_end(int64_t epoch, keras::Logs& logs) {
  optimizers::Optimizer& optimizer = run().model().optimizer();
  const double rate = optimizer.learning_rate();
  logs.set("learning_rate", rate);
  const auto value = detail::monitored("ReduceLROnPlateau", options_.monitor, logs);
  if (!value) return;
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    wait_ = 0;
  }
  if (detail::is_improvement("ReduceLROnPlateau", options_.monitor, options_.mode,
                             options_.min_delta, *value,
                             has_best_ ? std::optional(best_) : std::nullopt)) {
    has_best_ = true;
    best_ = *value;
    wait_ = 0;
    return;
  }
  if (cooldown_left_ > 0 || ++wait_ < options_.patience || rate <= options_.min_lr) return;
  const double lower = std::max(rate * options_.factor, options_.min_lr);
  optimizer.set_learning_rate(lower);
  if (options_.verbose > 0 && run().model()->strategy().is_chief()) {
    std::printf("\nEpoch %lld: ReduceLROnPlateau reducing learning rate to %.9g.\n",
                static_cast<long long>(epoch + 1), lower);
  }
  cooldown_left_ = options_.cooldown;
  wait_ = 0;
}

std::vector<std::pair<std::string, Tracked>> ReduceLROnPlateau::state() {
  return {{"wait", wait_}, {"cooldown", cooldown_left_}, {"has_best", has_best_}, {"best", best_}};
}

}  // namespace strata::callbacks
