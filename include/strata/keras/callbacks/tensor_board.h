#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/callback.h"

namespace strata::summary {
class SummaryWriter;
class TraceRecorder;
}  // namespace strata::summary

namespace strata::callbacks {

struct TensorBoardOptions {
  /// The number of epochs between two histograms of the weights; 0: none.
  int64_t histogram_freq = 0;
  /// Writes the model's graph, for the page Graphs.
  bool write_graph = true;
  /// Writes weights as images, too.
  bool write_images = false;
  /// The number of batches between two points of loss and metrics; 0: after each epoch only.
  int64_t update_freq = 0;
  bool write_steps_per_second = false;
  /// The batches that are traced for the page Profile, counted from 1 over the whole run:
  /// `profile_batch` to `profile_until`; 0: none.
  int64_t profile_batch = 0;
  int64_t profile_until = 0;  ///< 0: only profile_batch.
};

/// Writes event files for TensorBoard: loss and metrics of `train/` and `validation/`, the learning
/// rate, histograms and images of the weights, the graph, a profile of some steps. Tags are
/// Keras's. A resumed run continues in the same folder, in files of its own. With several workers
/// the chief writes; each of them needs the callback.
/// Source: keras.callbacks.TensorBoard.
class STRATA_API TensorBoard : public Callback {
 public:
  explicit TensorBoard(std::string log_dir = "logs", const TensorBoardOptions& options = {});
  ~TensorBoard() override;
  TensorBoard(TensorBoard&&) noexcept;

  void on_train_begin() override;
  void on_train_end(keras::Logs& logs) override;
  void on_epoch_begin(int64_t epoch) override;
  void on_epoch_resumed(int64_t epoch) override { on_epoch_begin(epoch); }
  void on_epoch_end(int64_t epoch, keras::Logs& logs) override;
  void on_train_batch_begin(int64_t batch) override;
  void on_train_batch_end(int64_t batch, keras::Logs& logs) override;
  void on_test_end(keras::Logs& logs) override;

 private:
  class Files;

  bool writes() const;
  void write_weights(int64_t epoch);
  void end_trace();

  TensorBoardOptions options_;
  std::unique_ptr<Files> files_;
  std::unique_ptr<summary::TraceRecorder> recorder_;
  int64_t steps_at_epoch_begin_ = 0;
  double epoch_began_ = 0;
};

}  // namespace strata::callbacks
