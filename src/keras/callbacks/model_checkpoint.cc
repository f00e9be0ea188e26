#include "strata/keras/callbacks/model_checkpoint.h"

#include <cstdio>

#include "keras/callbacks/monitor.h"
#include "keras/callbacks/path_pattern.h"
#include "keras/training/training_run.h"
#include "runtime/group_agreement.h"
#include "strata/core/file_system.h"
#include "strata/core/log.h"
#include "strata/keras/saving.h"

namespace strata::callbacks {

ModelCheckpoint::ModelCheckpoint(std::string path, const ModelCheckpointOptions& options)
    : path_(std::move(path)), options_(options) {
  const bool fits = options.save_weights_only
                        ? path_.ends_with(".weights.h5") || path_.ends_with(".safetensors")
                        : path_.ends_with(".keras");
  STRATA_CHECK(fits, kInvalidArgument, "[callbacks] ModelCheckpoint: got path '", path_,
               "'; expected one that ends in ",
               options.save_weights_only ? ".weights.h5 or .safetensors" : ".keras");
  STRATA_CHECK(options.save_freq >= 0, kInvalidArgument,
               "[callbacks] ModelCheckpoint: got save_freq=", options.save_freq,
               "; expected a number of batches, or 0 for every epoch");
  has_best_ = options.initial_value_threshold.has_value();
  best_ = options.initial_value_threshold.value_or(0);
}

void ModelCheckpoint::on_epoch_end(int64_t, keras::Logs& logs) {
  if (options_.save_freq == 0) save(std::nullopt, logs);
}

void ModelCheckpoint::on_train_batch_end(int64_t batch, keras::Logs& logs) {
  if (options_.save_freq == 0) return;
  batches_ += batch > last_batch_ ? batch - last_batch_ : batch + 1;  // else an epoch has begun
  last_batch_ = batch;
  if (batches_ < options_.save_freq) return;
  batches_ = 0;
  save(batch + 1, logs);
}

bool ModelCheckpoint::worth_saving(const std::string& path, const keras::Logs& logs) {
  const auto say = [&](const std::string& text) {
    if (options_.verbose > 0 && run().model()->strategy().is_chief()) {
      std::printf("\nEpoch %lld: %s\n", static_cast<long long>(epoch_ + 1), text.c_str());
    }
  };
  if (!options_.save_best_only) {
    say("saving model to " + path);
    return true;
  }
  const auto value = logs.find(options_.monitor);
  if (!value) {
    STRATA_LOG(kWarning) << "[callbacks] ModelCheckpoint: can save the best model only with '"
                         << options_.monitor << "' available; saving this one";
    return true;
  }
  char before[40] = "None";
  if (has_best_) std::snprintf(before, sizeof before, "%.5f", printed(best_));
  char now[40];
  std::snprintf(now, sizeof now, "%.5f", printed(*value));
  if (!detail::is_improvement("ModelCheckpoint", options_.monitor, options_.mode, 0, *value,
                              has_best_ ? std::optional(best_) : std::nullopt)) {
    say(options_.monitor + " did not improve from " + before);
    return false;
  }
  say(options_.monitor + " improved from " + before + " to " + now + ", saving model to " + path);
  has_best_ = true;
  best_ = *value;
  return true;
}

void ModelCheckpoint::save(std::optional<int64_t> batch, keras::Logs& logs) {
  const std::string path = detail::fill_in(path_, epoch_ + 1, batch, logs);
  if (!worth_saving(path, logs)) return;
  strata::detail::run_on_chief(run().model()->strategy().group(), "ModelCheckpoint",
                               [&] { file_system_of(path).make_folders(split_path(path).first); });
  if (options_.save_weights_only) {
    keras::save_weights(run().model(), path);
  } else {
    keras::save_model(run().model(), path);
  }
  if (options_.verbose > 0 && run().model()->strategy().is_chief()) {
    std::printf("\nEpoch %lld: finished saving model to %s\n", static_cast<long long>(epoch_ + 1),
                path.c_str());
  }
}

std::vector<std::pair<std::string, Tracked>> ModelCheckpoint::state() {
  return {
      {"batches", batches_}, {"last_batch", last_batch_}, {"has_best", has_best_}, {"best", best_}};
}

}  // namespace strata::callbacks
