#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/dataset.h"
#include "strata/keras/callback.h"
#include "strata/keras/loss.h"
#include "strata/keras/metric.h"
#include "strata/optim/optimizer.h"

namespace strata {
class Strategy;
}

/// Options of compile, fit, evaluate and predict. Source: keras.Model 3.15.
namespace strata::keras {

/// One value for all outputs, one for each in order, or by the names of the outputs' layers.
template <typename T>
class PerOutput {
 public:
  PerOutput() = default;
  // No PerOutput is convertible to a T.
  template <std::convertible_to<T> U>
  PerOutput(U&& all) : values_{T(std::forward<U>(all))} {}  // NOLINT
  PerOutput(std::initializer_list<T> each) : values_(each), one_for_each_(true) {}
  PerOutput(std::vector<T> each) : values_(std::move(each)), one_for_each_(true) {}  // NOLINT
  PerOutput(std::map<std::string, T> by_name) : by_name_(std::move(by_name)) {}      // NOLINT

  bool empty() const { return values_.empty() && by_name_.empty(); }
  const std::vector<T>& values() const { return values_; }
  bool one_for_each() const { return one_for_each_; }
  const std::map<std::string, T>& by_name() const { return by_name_; }

 private:
  std::vector<T> values_;
  bool one_for_each_ = false;
  std::map<std::string, T> by_name_;
};

using MetricList = std::vector<metrics::Metric>;

/// Metrics of the only output, `{"accuracy", metrics::AUC()}`, or a list for each.
class PerOutputMetrics {
 public:
  PerOutputMetrics() = default;
  PerOutputMetrics(std::initializer_list<metrics::Metric> metrics) : each_{MetricList(metrics)} {}
  PerOutputMetrics(MetricList metrics) : each_{std::move(metrics)} {}         // NOLINT
  PerOutputMetrics(std::vector<MetricList> each) : each_(std::move(each)) {}  // NOLINT
  PerOutputMetrics(std::map<std::string, MetricList> by_name)                 // NOLINT
      : by_name_(std::move(by_name)) {}

  const std::vector<MetricList>& each() const { return each_; }
  const std::map<std::string, MetricList>& by_name() const { return by_name_; }

 private:
  std::vector<MetricList> each_;
  std::map<std::string, MetricList> by_name_;
};

struct CompileOptions {
  optimizers::AnyOptimizer optimizer = "rmsprop";
  /// Unset: the loss has the terms of `add_loss` and regularizers only.
  PerOutput<losses::Loss> loss = {};
  /// The weight of each output's loss in the sum; empty: 1.
  PerOutput<double> loss_weights = {};
  /// `{"accuracy"}`; for several outputs a list of lists, or by name.
  PerOutputMetrics metrics = {};
  /// The same, with sample and class weights applied.
  PerOutputMetrics weighted_metrics = {};
  /// The number of steps between two calls of the batch callbacks, in one `run`: of `fit`, `evaluate`
  /// and `predict`. Their batches are the first and the last of those steps.
  int64_t steps_per_execution = 1;
  /// The strategy, if the model was not made in its scope. It must be set before the model is
  /// built.
  Strategy* distribute = nullptr;
  /// For a model made under the dtype policy "mixed_float16": wraps the optimizer in a
  /// LossScaleOptimizer, unless it is one.
  bool auto_scale_loss = true;
  /// Steps are compiled (FunctionOptions::jit_compile), on one replica. Where there is no compiler, or it has
  /// no rule for something in a step, a line in the log says so, and true has no effect. Saved in files.
  bool jit_compile = false;
  /// Every step runs as it is written. By default steps that are called often are recorded as graphs and
  /// replayed, with the same bits, where each replica has the variables on the CPU; what cannot be
  /// recorded runs as written, and a line in the log says why (docs/function.md).
  bool run_eagerly = false;
};

/// On a terminal a bar; else a line for each epoch.
inline constexpr int kVerboseAuto = -1;

/// Designated initializers must name the fields in this order: epochs, validation_data,
/// validation_split, class_weight, sample_weight, callbacks, verbose, initial_epoch,
/// steps_per_epoch, validation_steps, validation_freq, batch_size, shuffle, prefetch. Alternatively
/// set fields: `keras::FitOptions o; o.epochs = 3;`.
struct FitOptions {
  int64_t epochs = 1;
  /// Batches, with elements like the training data's.
  std::optional<data::Dataset> validation_data = {};
  /// The fraction of the examples, the last ones, that is not trained on. For tensors only.
  double validation_split = 0;
  /// Weights by class, for labels that are class numbers or one-hot.
  std::map<int64_t, double> class_weight = {};
  /// `[examples]`. For tensors only; a dataset's elements have it as their last field.
  at::Tensor sample_weight = {};
  std::vector<callbacks::CallbackRef> callbacks = {};
  int verbose = kVerboseAuto;
  int64_t initial_epoch = 0;
  /// The number of batches in an epoch; 0: one pass. The data then continue from epoch to epoch; if
  /// they end within one, it ends with a warning, and the next starts them again.
  int64_t steps_per_epoch = 0;
  int64_t validation_steps = 0;  ///< 0: all.
  int64_t validation_freq = 1;   ///< Validates after every n-th epoch.
  /// The examples of a batch over all replicas, and whether each epoch has an order of its own. For
  /// tensors only: datasets are batched and shuffled already.
  int64_t batch_size = 32;
  bool shuffle = true;
  /// The number of batches that a thread prefetches; kAutotune: see Dataset::prefetch.
  int64_t prefetch = data::kAutotune;
};

struct EvaluateOptions {
  std::vector<callbacks::CallbackRef> callbacks = {};
  int verbose = kVerboseAuto;
  int64_t steps = 0;              ///< 0: all.
  int64_t batch_size = 32;        ///< For tensors.
  at::Tensor sample_weight = {};  ///< For tensors.
};

struct PredictOptions {
  std::vector<callbacks::CallbackRef> callbacks = {};
  int verbose = kVerboseAuto;
  int64_t steps = 0;        ///< 0: all.
  int64_t batch_size = 32;  ///< For tensors.
};

/// The result of `fit`: each value at the epochs' ends. Source: keras.callbacks.History.
struct STRATA_API History {
  std::vector<int64_t> epoch;  ///< From 0.
  std::map<std::string, std::vector<double>> history;

  /// @throws Error kNotFound: lists the known names.
  const std::vector<double>& operator[](const std::string& name) const;
};

}  // namespace strata::keras
