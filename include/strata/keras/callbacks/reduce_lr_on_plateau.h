#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/callbacks/early_stopping.h"

namespace strata::callbacks {

struct ReduceLROnPlateauOptions {
  std::string monitor = "val_loss";
  double factor = 0.1;  ///< The ratio of the new rate to the old one, below 1.
  int64_t patience = 10;
  int verbose = 0;
  Mode mode = Mode::kAuto;
  double min_delta = 1e-4;
  int64_t cooldown = 0;  ///< Epochs after a reduction in which values are ignored.
  double min_lr = 0;
};

/// Lowers the learning rate when a value has stopped improving; adds "learning_rate" to the logs.
/// Source: keras.callbacks.ReduceLROnPlateau.
class STRATA_API ReduceLROnPlateau : public Callback {
 public:
  /// @throws Error kInvalidArgument: factor of 1 or more.
  explicit ReduceLROnPlateau(const ReduceLROnPlateauOptions& options = {});

  void on_train_begin() override;
  void on_epoch_end(int64_t epoch, keras::Logs& logs) override;
  std::vector<std::pair<std::string, Tracked>> state() override;

 private:
  ReduceLROnPlateauOptions options_;
  int64_t wait_ = 0;
  int64_t cooldown_left_ = 0;
  bool has_best_ = false;
  double best_ = 0;
};

}  // namespace strata::callbacks
