#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/callbacks/early_stopping.h"

namespace strata::callbacks {

struct ModelCheckpointOptions {
  std::string monitor = "val_loss";
  int verbose = 0;
  bool save_best_only = false;
  bool save_weights_only = false;
  Mode mode = Mode::kAuto;
  /// The number of batches between two files, counted over epochs; 0: one after each epoch.
  int64_t save_freq = 0;
  /// The value that the first best must beat.
  std::optional<double> initial_value_threshold = {};
};

/// Saves the model, or its weights, during training. The path may contain `{epoch}`, `{batch}`
/// (both from 1) and names of logs, with Python's formats: "runs/{epoch:02d}-{val_loss:.3f}.keras".
/// Source: keras.callbacks.ModelCheckpoint.
class STRATA_API ModelCheckpoint : public Callback {
 public:
  /// @param path  Ends in ".keras"; with save_weights_only in ".weights.h5" or ".safetensors".
  /// @throws Error kInvalidArgument: another ending.
  explicit ModelCheckpoint(std::string path, const ModelCheckpointOptions& options = {});

  void on_epoch_begin(int64_t epoch) override { epoch_ = epoch; }
  void on_epoch_resumed(int64_t epoch) override { epoch_ = epoch; }
  void on_epoch_end(int64_t epoch, keras::Logs& logs) override;
  void on_train_batch_end(int64_t batch, keras::Logs& logs) override;
  std::vector<std::pair<std::string, Tracked>> state() override;

 private:
  void save(std::optional<int64_t> batch, keras::Logs& logs);
  bool worth_saving(const std::string& path, const keras::Logs& logs);

  std::string path_;
  ModelCheckpointOptions options_;
  int64_t epoch_ = 0;
  int64_t batches_ = 0;  // since the last save
  int64_t last_batch_ = -1;
  bool has_best_ = false;
  double best_ = 0;
};

}  // namespace strata::callbacks
