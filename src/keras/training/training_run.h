#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "strata/checkpoint/tracked.h"
#include "strata/keras/model.h"
#include "strata/keras/training.h"

namespace strata::summary {
class TraceRecorder;
}

namespace strata::keras {

/// A call of fit, evaluate or predict, as its callbacks see and steer it.
class TrainingRun {
 public:
  virtual ~TrainingRun() = default;

  const Model& model() const { return model_; }
  /// Number of epochs `fit` was asked for, `initial_epoch` included in the count.
  int64_t epochs() const { return epochs_; }
  /// Batches of an epoch; data::Dataset::kUnknown until the first epoch has ended, if the data do
  /// not say.
  int64_t steps() const { return steps_; }
  /// Examples in a batch over all replicas, as the data say; 0: unknown.
  int64_t batch_size() const { return batch_size_; }
  /// 0: silent, 1: a progress bar, 2: a line an epoch.
  int verbose() const { return verbose_; }
  /// Batches that this run has trained since it began, over all epochs.
  int64_t train_steps() const { return train_steps_; }

  /// Present epoch, from 0, and the batches of it that are done.
  int64_t epoch() const { return epoch_; }
  int64_t batch() const { return batch_; }

  /// Training ends after this epoch's (or, from a batch's callback, this batch's) callbacks.
  void stop_training() { stop_training_ = true; }
  bool stopping() const { return stop_training_; }

  const History& history() const { return history_; }

  /// Records what replicas and layers do from the next batch on; null: no more. It must live so
  /// long.
  void set_trace(summary::TraceRecorder* trace) { trace_ = trace; }

  /// All that it takes to go on from here: weights, optimizer, metrics, epoch and batch, the place
  /// in the input, history, the callbacks' state. For Checkpoint. Saved between two steps, and
  /// restored in on_train_begin, it makes the run end with the same bits as one that went through.
  virtual std::vector<std::pair<std::string, Tracked>> state() = 0;

 protected:
  explicit TrainingRun(Model model) : model_(std::move(model)) {}

  Model model_;
  int64_t epochs_ = 1;
  int64_t steps_ = -2;
  int64_t batch_size_ = 0;
  int verbose_ = 0;
  int64_t train_steps_ = 0;
  int64_t epoch_ = 0;
  int64_t batch_ = 0;
  bool stop_training_ = false;
  History history_;
  summary::TraceRecorder* trace_ = nullptr;
};

}  // namespace strata::keras
