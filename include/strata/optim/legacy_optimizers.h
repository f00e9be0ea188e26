#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/optim/optimizers.h"

/// TensorFlow's optimizers before Keras 3, where they differ: of a gradient of rows they update those
/// rows alone (touched_rows_only), and epsilon of Adagrad, and of RMSprop without momentum, is outside
/// the root. Such an RMSprop lets the means of all rows decay. tf.estimator trains with them. Adam is
/// `optimizers::Adam`.
/// Source: tf.keras.optimizers.legacy of TensorFlow 2.15.
namespace strata::optimizers::legacy {

struct AdagradOptions {
  using Rule = tensor::LegacyAdagradRule;
  schedules::Schedule learning_rate = 1e-3;
  STRATA_ADAGRAD_OPTIONS(STRATA_OPTION)
  double weight_decay = 0;
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

struct RMSpropOptions {
  using Rule = tensor::LegacyRMSpropRule;
  schedules::Schedule learning_rate = 1e-3;
  STRATA_RMSPROP_OPTIONS(STRATA_OPTION)
  double weight_decay = 0;
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

/// Whether a step leaves rows without a gradient alone, and their slots.
template <typename Options>
bool leaves_rows_alone(const Options&) {
  return true;
}
inline bool leaves_rows_alone(const RMSpropOptions& options) { return options.momentum > 0; }

/// An optimizer whose touched_rows_only is as TensorFlow's optimizer was, whatever the options say.
template <typename Options>
class RowOptimizer : public ConfiguredOptimizer<Options> {
 public:
  explicit RowOptimizer(const Options& options = {})
      : ConfiguredOptimizer<Options>(with_rows(options)) {}
  /// Makes an optimizer and builds it with these variables.
  RowOptimizer(std::vector<Variable> variables, const Options& options) : RowOptimizer(options) {
    this->build(std::move(variables));
  }

 private:
  static Options with_rows(Options options) {
    options.touched_rows_only = leaves_rows_alone(options);
    return options;
  }
};

class STRATA_API SGD : public RowOptimizer<SGDOptions> {
 public:
  using RowOptimizer::RowOptimizer;
};

class STRATA_API Adagrad : public RowOptimizer<AdagradOptions> {
 public:
  using RowOptimizer::RowOptimizer;
  static std::string_view class_name() { return "Adagrad"; }
};

class STRATA_API RMSprop : public RowOptimizer<RMSpropOptions> {
 public:
  using RowOptimizer::RowOptimizer;
  static std::string_view class_name() { return "RMSprop"; }
};

class STRATA_API Adadelta : public RowOptimizer<AdadeltaOptions> {
 public:
  using RowOptimizer::RowOptimizer;
};

class STRATA_API Adamax : public RowOptimizer<AdamaxOptions> {
 public:
  using RowOptimizer::RowOptimizer;
};

class STRATA_API Ftrl : public RowOptimizer<FtrlOptions> {
 public:
  using RowOptimizer::RowOptimizer;
};

}  // namespace strata::optimizers::legacy
