#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/checkpoint/tracked.h"
#include "strata/core/export.h"

namespace strata::keras {

/// The values of a step or an epoch for callbacks, by name. A step's values are computed on first
/// use only, since that needs all replicas' sums.
class STRATA_API Logs {
 public:
  using Values = std::vector<std::pair<std::string, double>>;

  Logs() = default;
  explicit Logs(Values values) : values_(std::move(values)) {}
  explicit Logs(std::function<Values()> compute) : compute_(std::move(compute)) {}

  /// Returns nothing if there is no such value.
  std::optional<double> find(const std::string& name) const;
  /// @throws Error kNotFound: lists the known names.
  double at(const std::string& name) const;
  /// Adds or replaces a value; later callbacks see it.
  void set(const std::string& name, double value);
  /// All values sorted by name, as in Keras.
  const Values& values() const;

 private:
  mutable std::function<Values()> compute_;
  mutable Values values_;
};

class TrainingRun;
}  // namespace strata::keras

/// Hooks around the steps of fit, evaluate and predict. Source: keras.callbacks 3.15.
namespace strata::callbacks {

/// Derive from it for callbacks of your own. All calls are made on the thread that called `fit`,
/// outside `run`, in the order of the callbacks' list.
///
/// With `steps_per_execution` = k a batch's calls are made once for k batches, numbered by the
/// first (begin) and the last (end) of them.
class STRATA_API Callback {
 public:
  virtual ~Callback() = default;

  virtual void on_train_begin() {}
  /// Called after every callback's on_train_begin: the time to restore an interrupted run.
  virtual void on_restore() {}
  virtual void on_train_end(keras::Logs&) {}
  virtual void on_epoch_begin(int64_t /*epoch*/) {}
  /// Called instead of on_epoch_begin if a restored run continues within an epoch.
  virtual void on_epoch_resumed(int64_t /*epoch*/) {}
  /// Epochs count from 0. The logs have the values of training and, prefixed with "val_", of
  /// validation.
  virtual void on_epoch_end(int64_t /*epoch*/, keras::Logs&) {}
  virtual void on_train_batch_begin(int64_t /*batch*/) {}
  /// The logs have means over the epoch so far.
  virtual void on_train_batch_end(int64_t /*batch*/, keras::Logs&) {}

  /// Called between two steps, and between two epochs, after all other calls: a run can continue
  /// from TrainingRun::state() of this moment.
  virtual void on_resume_point() {}

  virtual void on_test_begin() {}
  virtual void on_test_end(keras::Logs&) {}
  virtual void on_test_batch_begin(int64_t /*batch*/) {}
  virtual void on_test_batch_end(int64_t /*batch*/, keras::Logs&) {}

  virtual void on_predict_begin() {}
  virtual void on_predict_end() {}
  virtual void on_predict_batch_begin(int64_t /*batch*/) {}
  virtual void on_predict_batch_end(int64_t /*batch*/) {}

  /// The state that a resumed run needs to continue as if it had not been interrupted, by name:
  /// `{{"wait", wait_}, {"best", best_}}`.
  virtual std::vector<std::pair<std::string, Tracked>> state() { return {}; }

  /// The current run, from before on_train_begin (or on_test_begin ...) until its end.
  keras::TrainingRun& run() const;
  void set_run(keras::TrainingRun* run) { run_ = run; }

 private:
  keras::TrainingRun* run_ = nullptr;
};

/// A callback as `fit` takes it: `callbacks::EarlyStopping({.patience = 2})`, or shared, for use
/// afterwards.
class STRATA_API CallbackRef {
 public:
  template <typename T>
  requires std::derived_from<std::remove_cvref_t<T>, Callback> CallbackRef(T&& callback)  // NOLINT
      : callback_(std::make_shared<std::remove_cvref_t<T>>(std::forward<T>(callback))) {}
  template <std::derived_from<Callback> T>
  CallbackRef(std::shared_ptr<T> callback)  // NOLINT(google-explicit-constructor)
      : callback_(std::move(callback)) {}

  Callback& operator*() const { return *callback_; }
  Callback* operator->() const { return callback_.get(); }
  const std::shared_ptr<Callback>& shared() const { return callback_; }

 private:
  std::shared_ptr<Callback> callback_;
};

}  // namespace strata::callbacks
