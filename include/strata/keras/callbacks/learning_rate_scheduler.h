#pragma once

#include <cstdint>
#include <functional>

#include "strata/core/export.h"
#include "strata/keras/callback.h"

namespace strata::callbacks {

/// Sets the learning rate before each epoch; adds "learning_rate" to the logs. (A schedule of the
/// optimizer does so before each step.) Source: keras.callbacks.LearningRateScheduler.
class STRATA_API LearningRateScheduler : public Callback {
 public:
  /// @param schedule  Maps (epoch from 0, current rate) to the new rate.
  using Schedule = std::function<double(int64_t epoch, double learning_rate)>;
  explicit LearningRateScheduler(Schedule schedule, int verbose = 0);

  void on_epoch_begin(int64_t epoch) override;
  void on_epoch_end(int64_t epoch, keras::Logs& logs) override;

 private:
  Schedule schedule_;
  int verbose_;
};

}  // namespace strata::callbacks
