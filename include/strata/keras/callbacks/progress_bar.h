#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/callback.h"

namespace strata::callbacks {

struct ProgressBarOptions {
  std::FILE* file = nullptr;  ///< Null: stdout.
  int width = 20;
  std::chrono::milliseconds interval{50};  ///< The time between two repaints.
};

/// Keras's progress bar, with images/s. On a terminal (verbose 1) it is a bar that is repainted,
/// with the remaining time; with verbose 2, or if the output is no terminal, a line for each epoch.
/// `fit`, `evaluate` and `predict` add one unless `verbose` is 0.
/// Source: keras.callbacks.ProgbarLogger.
class STRATA_API ProgressBar : public Callback {
 public:
  explicit ProgressBar(const ProgressBarOptions& options = {});
  /// Ends the line of an interrupted bar.
  ~ProgressBar() override;

  void on_train_begin() override { in_fit_ = true; }
  void on_train_end(keras::Logs&) override { in_fit_ = false; }
  void on_epoch_begin(int64_t epoch) override;
  void on_epoch_resumed(int64_t epoch) override { on_epoch_begin(epoch); }
  void on_train_batch_end(int64_t batch, keras::Logs& logs) override { update(batch + 1, &logs); }
  void on_epoch_end(int64_t epoch, keras::Logs& logs) override;

  void on_test_begin() override;
  void on_test_batch_end(int64_t batch, keras::Logs& logs) override;
  void on_test_end(keras::Logs& logs) override;

  void on_predict_begin() override { start(); }
  void on_predict_batch_end(int64_t batch) override { update(batch + 1, nullptr); }
  void on_predict_end() override { finish(nullptr); }

 private:
  using Time = std::chrono::steady_clock::time_point;

  void start();
  void update(int64_t done, keras::Logs* logs);
  void finish(keras::Logs* logs);
  void paint(int64_t done, int64_t of, keras::Logs* logs, bool last);

  ProgressBarOptions options_;
  bool in_fit_ = false;
  int64_t done_ = 0;
  int64_t first_ = 0;  // batches that were done before this process
  Time started_;
  std::optional<Time> after_first_;
  Time painted_;
  size_t painted_width_ = 0;
  bool line_open_ = false;
};

}  // namespace strata::callbacks
