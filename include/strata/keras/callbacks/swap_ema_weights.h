#pragma once

#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/callback.h"

namespace strata::callbacks {

/// Evaluates and predicts with the moving averages of the weights, which an optimizer made with
/// `.use_ema = true` keeps: weights and averages change places before, and back afterwards. Before
/// the first step there are no averages, and nothing changes. All workers make the same calls.
/// Source: keras.callbacks.SwapEMAWeights.
class STRATA_API SwapEMAWeights : public Callback {
 public:
  /// @param swap_on_epoch  Also from the end of an epoch to the beginning of the next: callbacks
  ///   behind this one, such as ModelCheckpoint, see the averages. Put it behind callbacks that end
  ///   training, such as EarlyStopping.
  explicit SwapEMAWeights(bool swap_on_epoch = false) : swap_on_epoch_(swap_on_epoch) {}

  /// @throws Error, as the others: kInvalidArgument: the optimizer keeps no averages.
  void on_epoch_begin(int64_t epoch) override;
  void on_epoch_end(int64_t epoch, keras::Logs& logs) override;
  void on_test_begin() override { show_averages(true); }
  void on_test_end(keras::Logs&) override { show_averages(false); }
  void on_predict_begin() override { show_averages(true); }
  void on_predict_end() override { show_averages(false); }
  std::vector<std::pair<std::string, Tracked>> state() override;

 private:
  void show_averages(bool shown);

  bool swap_on_epoch_;
  bool shown_ = false;  // the model has the averages, and the optimizer the weights
};

}  // namespace strata::callbacks
