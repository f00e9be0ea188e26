#pragma once

#include <cstdint>
#include <functional>

#include "strata/core/export.h"
#include "strata/keras/callback.h"

namespace strata::callbacks {

struct LambdaCallbackOptions {
  std::function<void(int64_t epoch)> on_epoch_begin = {};
  std::function<void(int64_t epoch, keras::Logs& logs)> on_epoch_end = {};
  std::function<void(int64_t batch)> on_train_batch_begin = {};
  std::function<void(int64_t batch, keras::Logs& logs)> on_train_batch_end = {};
  std::function<void()> on_train_begin = {};
  std::function<void(keras::Logs& logs)> on_train_end = {};
};

/// A callback of functions. Source: keras.callbacks.LambdaCallback.
class STRATA_API LambdaCallback : public Callback {
 public:
  explicit LambdaCallback(LambdaCallbackOptions options) : options_(std::move(options)) {}

  void on_epoch_begin(int64_t epoch) override {
    if (options_.on_epoch_begin) options_.on_epoch_begin(epoch);
  }
  void on_epoch_end(int64_t epoch, keras::Logs& logs) override {
    if (options_.on_epoch_end) options_.on_epoch_end(epoch, logs);
  }
  void on_train_batch_begin(int64_t batch) override {
    if (options_.on_train_batch_begin) options_.on_train_batch_begin(batch);
  }
  void on_train_batch_end(int64_t batch, keras::Logs& logs) override {
    if (options_.on_train_batch_end) options_.on_train_batch_end(batch, logs);
  }
  void on_train_begin() override {
    if (options_.on_train_begin) options_.on_train_begin();
  }
  void on_train_end(keras::Logs& logs) override {
    if (options_.on_train_end) options_.on_train_end(logs);
  }

 private:
  LambdaCallbackOptions options_;
};

}  // namespace strata::callbacks
