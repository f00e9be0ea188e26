#include "strata/keras/callbacks/learning_rate_scheduler.h"

#include <cstdio>

#include "keras/training/training_run.h"

namespace strata::callbacks {

LearningRateScheduler::LearningRateScheduler(Schedule schedule, int verbose)
    : schedule_(std::move(schedule)), verbose_(verbose) {
  STRATA_CHECK(schedule_ != nullptr, kInvalidArgument,
               "[callbacks] LearningRateScheduler: got no function");
}

void LearningRateScheduler::on_epoch_begin(int64_t epoch) {
  optimizers::Optimizer& optimizer = run().model().optimizer();
  const double rate = schedule_(epoch, optimizer.learning_rate());
  optimizer.set_learning_rate(rate);
  if (verbose_ > 0 && run().model()->strategy().is_chief()) {
    std::printf("\nEpoch %lld: LearningRateScheduler setting learning rate to %.9g.\n",
                static_cast<long long>(epoch + 1), rate);
  }
}

void LearningRateScheduler::on_epoch_end(int64_t, keras::Logs& logs) {
  logs.set("learning_rate", run().model().optimizer().learning_rate());
}

}  // namespace strata::callbacks
