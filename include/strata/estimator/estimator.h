#pragma once

#include <ATen/core/Tensor.h>

#include <any>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/estimator/input.h"
#include "strata/estimator/model_context.h"
#include "strata/estimator/run_config.h"
#include "strata/keras/initializers.h"

namespace strata::estimator {

/// How the rows of a table are moved to a new vocabulary: each word takes the row that it had. Rows
/// of words that are new, and of buckets for others, come from `backup_initializer`.
/// Source: tf.estimator.VocabInfo.
struct VocabInfo {
  std::string new_vocab;                       ///< A file with a word a line.
  std::optional<int64_t> new_vocab_size = {};  ///< The first lines; unset: all.
  int64_t num_oov_buckets = 0;                 ///< Behind the new vocabulary.
  std::string old_vocab;
  std::optional<int64_t> old_vocab_size = {};
  std::optional<initializers::Initializer> backup_initializer = {};  ///< Unset: zeros.
  int64_t axis = 0;  ///< The words' dimension: 0 or 1.
};

/// Which variables begin with values of another model's checkpoint. Source:
/// tf.estimator.WarmStartSettings.
struct WarmStartSettings {
  /// A checkpoint, or a folder of them (a model_dir), of which the newest is taken. Empty: none.
  std::string checkpoint = {};
  /// Regular expressions, which match at the beginning of a name. `.*` alone: all trainable
  /// variables.
  std::vector<std::string> variables = {".*"};
  /// Whether the expressions look at all names: those of optimizers' slots and of other variables,
  /// and global_step.
  bool all_names = false;
  /// Names in the checkpoint, by names here, where they differ.
  std::map<std::string, std::string> previous_names = {};
  /// Of variables by their names here; these are chosen, whatever the expressions say.
  std::map<std::string, VocabInfo> vocabularies = {};
};

struct EstimatorOptions {
  std::string model_dir =
      {};  ///< Empty: the config's; else a new temporary folder, with a warning.
  RunConfig config = RunConfig();
  std::any params = {};  ///< ModelContext::params.
  WarmStartSettings warm_start_from = {};
};

struct TrainOptions {
  Hooks hooks = {};
  std::optional<int64_t> steps = {};      ///< Of this call.
  std::optional<int64_t> max_steps = {};  ///< The global step to end at; at most one of the two.
  Listeners saving_listeners = {};
};

struct EvaluateOptions {
  std::optional<int64_t> steps = {};  ///< Batches at most, of each replica; unset: all.
  Hooks hooks = {};
  std::string checkpoint_path = {};  ///< Empty: the newest.
  std::string name = {};             ///< For several evaluations: events are in `eval_<name>`.
};

struct PredictOptions {
  std::vector<std::string> predict_keys = {};  ///< Empty: all.
  Hooks hooks = {};
  std::string checkpoint_path = {};
  bool yield_single_examples = true;  ///< False: whole batches.
};

/// The metrics of an evaluation by name, with `loss`.
struct Evaluation {
  std::map<std::string, double> metrics;
  int64_t global_step = 0;
  double at(const std::string& name) const;  ///< @throws Error kNotFound: lists the names.
};

/// Predictions, one row (without the batch's dimension) or one batch after the other, computed when
/// they are asked for:
///
///     for (const Features& row : estimator.predict(input_fn)) ...
///
/// Threads: one.
class STRATA_API Predictions {
 public:
  class Impl;
  explicit Predictions(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  /// Unset at the end.
  std::optional<Features> next();

  class Iterator {
   public:
    using value_type = Features;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(Predictions& all) : all_(&all), current_(all.next()) {}
    const Features& operator*() const { return *current_; }
    const Features* operator->() const { return &*current_; }
    Iterator& operator++() {
      current_ = all_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& it, std::default_sentinel_t) { return !it.current_; }

   private:
    Predictions* all_;
    std::optional<Features> current_;
  };
  Iterator begin() { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  std::shared_ptr<Impl> impl_;
};

/// A model_fn with a folder: trains it, evaluates it and predicts with it. Each call makes the
/// model anew and restores the newest checkpoint; all state between calls is in model_dir.
/// docs/estimator.md has the rules, and what is unlike TensorFlow. A handle; copies are the same.
/// Threads: one at a time.
/// Source: tf.estimator.Estimator.
class STRATA_API Estimator {
 public:
  /// @throws Error  kInvalidArgument: model_dir is given twice, differently.
  explicit Estimator(ModelFn model_fn, EstimatorOptions options = {});

  /// Trains until the input ends, a hook stops, or the steps are done. If model_dir has `max_steps`
  /// already, nothing happens at all.
  /// @throws Error  kInvalidArgument: steps and max_steps, or one below 1; an input without
  /// batches; what model_fn gives lacks train_op or loss. kFailedPrecondition: a ps or an
  /// evaluator. NanLossDuringTrainingError.
  Estimator& train(const InputFn& input_fn, const TrainOptions& options = {});

  /// Evaluates a checkpoint, or, without any, the initial weights. `loss` is the mean over batches;
  /// each counts the same. Writes events into eval_dir(name).
  Evaluation evaluate(const InputFn& input_fn, const EvaluateOptions& options = {});

  /// Predicts on one replica. Looks at the arguments and makes the model when the first element is
  /// asked for. Labels of the input are dropped.
  Predictions predict(const InputFn& input_fn, const PredictOptions& options = {}) const;

  /// Of a checkpoint, sorted, with `global_step` and optimizers' slots
  /// ("optimizer/<variable>/<slot>").
  /// @throws Error kNotFound: "Could not find trained model in model_dir: ...".
  std::vector<std::string> variable_names() const;
  at::Tensor variable_value(const std::string& name) const;
  std::optional<std::string> latest_checkpoint() const;
  std::string eval_dir(const std::string& name = {}) const;

  const std::string& model_dir() const;
  const RunConfig& config() const;
  const std::any& params() const;
  const ModelFn& model_fn() const;

  class Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

/// Metrics beside those of a model_fn. @param predictions  Of the model_fn's spec.
using MetricFn =
    std::function<std::vector<EvalMetric>(const Features& features, const Labels& labels,
                                          const Features& predictions, ModelContext& context)>;

/// Makes an estimator with the same folder and model, and more metrics in `evaluate`.
/// Source: tf.estimator.add_metrics.
STRATA_API Estimator add_metrics(const Estimator& estimator, MetricFn metric_fn);

}  // namespace strata::estimator
