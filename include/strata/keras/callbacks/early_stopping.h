#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/callback.h"

namespace strata::callbacks {

/// The direction in which a monitored value improves.
enum class Mode {
  kAuto,  ///< By the metric: accuracy up, loss down.
  kMin,
  kMax,
};

struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  double min_delta = 0;  ///< Less than this is no improvement.
  int64_t patience = 0;  ///< Epochs without improvement that are tolerated.
  int verbose = 0;
  Mode mode = Mode::kAuto;
  /// The value that an improvement must beat to restart the wait.
  std::optional<double> baseline = {};
  bool restore_best_weights = false;  ///< Restores the best epoch's weights at the end.
  int64_t start_from_epoch = 0;
};

/// Ends training when a value has stopped improving. Source: keras.callbacks.EarlyStopping.
class STRATA_API EarlyStopping : public Callback {
 public:
  explicit EarlyStopping(const EarlyStoppingOptions& options = {});

  void on_train_begin() override;
  void on_epoch_end(int64_t epoch, keras::Logs& logs) override;
  void on_train_end(keras::Logs& logs) override;
  std::vector<std::pair<std::string, Tracked>> state() override;

  /// The epoch in which it stopped training, else 0.
  int64_t stopped_epoch() const { return stopped_epoch_; }
  int64_t best_epoch() const { return best_epoch_; }
  std::optional<double> best() const { return has_best_ ? std::optional(best_) : std::nullopt; }

 private:
  void keep_weights();

  EarlyStoppingOptions options_;
  int64_t wait_ = 0;
  int64_t stopped_epoch_ = 0;
  int64_t best_epoch_ = 0;
  bool has_best_ = false;
  double best_ = 0;
  bool has_weights_ = false;
  std::vector<at::Tensor> best_weights_;
};

}  // namespace strata::callbacks
