#include "strata/keras/callbacks/tensor_board.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clamp.h>

#include <chrono>
#include <optional>
#include <span>

#include "keras/training/training_run.h"
#include "strata/core/file_system.h"
#include "strata/core/log.h"
#include "strata/data/image_codec.h"
#include "strata/keras/saving.h"
#include "strata/summary/summary_writer.h"
#include "strata/summary/trace_recorder.h"

namespace strata::callbacks {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A weight as pictures `[n, height, width, 1]` of bytes; undefined for shapes that are none.
/// Values from 0 to 1 become 0 to 255, as tf.summary.image has it.
at::Tensor pictures(at::Tensor weight) {
  weight = weight.squeeze();
  if (weight.dim() == 1) {
    weight = weight.reshape({1, weight.size(0), 1, 1});
  } else if (weight.dim() == 2) {
    if (weight.size(0) > weight.size(1)) weight = weight.t();
    weight = weight.reshape({1, weight.size(0), weight.size(1), 1});
  } else if (weight.dim() == 3) {  // one for each of the last axis
    weight = weight.permute({2, 0, 1}).unsqueeze(-1);
  }
  if (weight.dim() != 4 || (weight.size(3) != 1 && weight.size(3) != 3 && weight.size(3) != 4)) {
    return {};
  }
  return at::clamp(weight.to(at::kFloat) * 255.5, 0, 255).to(at::kByte).contiguous();
}

}  // namespace

/// The two runs in the folder. Files are made when there is something to write.
class TensorBoard::Files {
 public:
  explicit Files(std::string folder) : folder_(std::move(folder)) {}

  summary::SummaryWriter& train() { return open(train_, "train"); }
  summary::SummaryWriter& validation() { return open(validation_, "validation"); }
  std::string train_folder() const { return join_path(folder_, "train"); }

  void flush() {
    if (train_) train_->flush();
    if (validation_) validation_->flush();
  }
  void close() {
    for (auto* writer : {&train_, &validation_}) {
      if (*writer) (*writer)->close();
      writer->reset();
    }
  }

 private:
  summary::SummaryWriter& open(std::optional<summary::SummaryWriter>& writer, const char* run) {
    if (!writer) writer.emplace(summary::create_file_writer(join_path(folder_, run)));
    return *writer;
  }

  std::string folder_;
  std::optional<summary::SummaryWriter> train_;
  std::optional<summary::SummaryWriter> validation_;
};

TensorBoard::TensorBoard(std::string log_dir, const TensorBoardOptions& options)
    : options_(options), files_(std::make_unique<Files>(std::move(log_dir))) {
  STRATA_CHECK(
      options.histogram_freq >= 0 && options.update_freq >= 0 && options.profile_batch >= 0 &&
          (options.profile_until == 0 || options.profile_until >= options.profile_batch),
      kInvalidArgument, "[callbacks] TensorBoard: got histogram_freq=", options.histogram_freq,
      ", update_freq=", options.update_freq, ", profile_batch=", options.profile_batch,
      ", profile_until=", options.profile_until,
      "; expected 0 or more, and an end behind the beginning");
  if (options_.profile_until == 0) options_.profile_until = options_.profile_batch;
}
TensorBoard::~TensorBoard() = default;
TensorBoard::TensorBoard(TensorBoard&&) noexcept = default;

bool TensorBoard::writes() const { return run().model()->strategy().is_chief(); }

void TensorBoard::on_train_begin() {
  if (!options_.write_graph || !writes()) return;
  try {
    files_->train().keras_model(keras::model_to_config(run().model()).dump());
  } catch (const Error& error) {  // a model of a user-defined class has no such description
    STRATA_VLOG(2) << "[callbacks] TensorBoard: no graph: " << error.what();
  }
}

void TensorBoard::on_train_end(keras::Logs&) {
  if (recorder_) end_trace();
  files_->close();
}

void TensorBoard::on_epoch_begin(int64_t) {
  steps_at_epoch_begin_ = run().train_steps();
  epoch_began_ = now();
}

void TensorBoard::on_epoch_end(int64_t epoch, keras::Logs& logs) {
  if (options_.histogram_freq > 0 && epoch % options_.histogram_freq == 0) write_weights(epoch);
  if (!writes()) return;
  for (const auto& [name, value] : logs.values()) {
    if (name.starts_with("val_")) {
      files_->validation().scalar("epoch_" + name.substr(4), value, epoch);
    } else {
      files_->train().scalar("epoch_" + name, value, epoch);
    }
  }
  const optimizers::Optimizer& optimizer = run().model().optimizer();
  if (!logs.find("learning_rate")) {
    files_->train().scalar("epoch_learning_rate", optimizer.learning_rate(), epoch);
  }
  if (options_.write_steps_per_second) {
    const auto steps = static_cast<double>(run().train_steps() - steps_at_epoch_begin_);
    files_->train().scalar("epoch_steps_per_second", steps / (now() - epoch_began_), epoch);
  }
  files_->flush();
}

/// All workers read, since moving statistics are read together; the chief writes.
void TensorBoard::write_weights(int64_t epoch) {
  const at::NoGradGuard no_grad;
  for (const keras::Weight& weight : run().model()->weights()) {
    const at::Tensor value = weight.variable.value().detach().cpu();
    if (!writes()) continue;
    const at::Tensor flat = value.to(at::kFloat).contiguous();
    const std::string& name = weight.variable.name();
    files_->train().histogram(
        name + "/histogram",
        std::span<const float>(flat.const_data_ptr<float>(), static_cast<size_t>(flat.numel())),
        epoch);
    if (!options_.write_images) continue;
    const at::Tensor images = pictures(value);
    if (!images.defined()) continue;
    std::vector<std::string> pngs;
    for (int64_t i = 0; i < images.size(0); ++i) pngs.push_back(data::encode_png(images[i]));
    files_->train().image(name + "/image", pngs, images.size(2), images.size(1), epoch);
  }
}

void TensorBoard::on_train_batch_begin(int64_t) {
  const int64_t batch = run().train_steps() + 1;
  if (options_.profile_batch > 0 && writes() && !recorder_ && batch >= options_.profile_batch &&
      batch <= options_.profile_until) {
    recorder_ = std::make_unique<summary::TraceRecorder>();
    run().set_trace(recorder_.get());
  }
}

void TensorBoard::on_train_batch_end(int64_t, keras::Logs& logs) {
  const int64_t batch = run().train_steps();
  if (recorder_ && batch >= options_.profile_until) end_trace();
  if (options_.update_freq > 0 && writes() && batch % options_.update_freq == 0) {
    for (const auto& [name, value] : logs.values()) {
      files_->train().scalar("batch_" + name, value, batch);
    }
  }
}

void TensorBoard::end_trace() {
  run().set_trace(nullptr);
  files_->train().flush();
  summary::write_profile(files_->train_folder(), recorder_->take());
  recorder_.reset();
}

void TensorBoard::on_test_end(keras::Logs& logs) {
  if (!writes()) return;
  const int64_t iterations = run().model().optimizer().iterations();
  for (const auto& [name, value] : logs.values()) {
    files_->validation().scalar("evaluation_" + name + "_vs_iterations", value, iterations);
  }
}

}  // namespace strata::callbacks
