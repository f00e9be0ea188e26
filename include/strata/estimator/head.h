#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "strata/core/export.h"
#include "strata/core/one_of.h"
#include "strata/estimator/estimator_spec.h"
#include "strata/estimator/feature_column.h"
#include "strata/estimator/features.h"
#include "strata/estimator/input.h"
#include "strata/estimator/model_context.h"

namespace strata::estimator {

/// How the losses of rows become one: their sum, or the sum divided by their number (rows with the
/// weight 0 count).
struct LossReductionWords {
  enum Word { kSumOverBatchSize, kSum, kAuto };
  static constexpr const char* kOption = "loss_reduction";
  static constexpr const char* kWords[] = {"sum_over_batch_size", "sum", "auto"};
};
using LossReduction = OneOf<LossReductionWords>;

/// Where the weights of rows are: nowhere, a feature's name, or a numeric column.
using WeightColumn = std::variant<std::monostate, std::string, feature_column::FeatureColumn>;

namespace detail {
class HeadImpl;
}

/// What a model's last layer is for: the loss, the predictions and the metrics of logits. A handle
/// of a value that does not change. Threads: any. Source: tf.estimator.Head.
class STRATA_API Head {
 public:
  explicit Head(std::shared_ptr<const detail::HeadImpl> impl) : impl_(std::move(impl)) {}

  const std::string& name() const;
  int64_t logits_dimension() const;
  const LossReduction& loss_reduction() const;

  /// @param logits  `[rows, ..., logits_dimension]`
  Features predictions(const at::Tensor& logits) const;

  /// The loss of training, a scalar.
  /// @throws Error  kInvalidArgument: no labels, labels of another shape or outside of their range.
  at::Tensor loss(const at::Tensor& logits, const Labels& labels, const Features& features) const;

  /// Metrics of an evaluation; a head with a name writes it behind each ("accuracy/NAME").
  std::vector<EvalMetric> metrics(const at::Tensor& logits, const Labels& labels,
                                  const Features& features, ModelContext& context) const;

  /// Makes a train_op of the loss.
  using TrainOp = std::function<std::function<void()>(const at::Tensor& loss)>;

  /// What a model_fn returns. @param train_op  Called when training alone.
  EstimatorSpec create_estimator_spec(const Features& features, Mode mode, const at::Tensor& logits,
                                      const Labels& labels, ModelContext& context,
                                      const TrainOp& train_op) const;

  const std::shared_ptr<const detail::HeadImpl>& impl() const { return impl_; }

 private:
  std::shared_ptr<const detail::HeadImpl> impl_;
};

struct BinaryClassHeadOptions {
  WeightColumn weight_column = {};
  std::vector<double> thresholds = {};             ///< In (0, 1), for more metrics.
  std::vector<std::string> label_vocabulary = {};  ///< Labels are texts: two words.
  LossReduction loss_reduction = "sum_over_batch_size";
  std::string name = {};
};
/// Labels 0 to 1, `[rows]` or `[rows, 1]`; logits `[rows, 1]`. Predictions: logits, logistic,
/// probabilities, class_ids, classes, all_class_ids, all_classes. Source:
/// tf.estimator.BinaryClassHead.
STRATA_API Head binary_class_head(const BinaryClassHeadOptions& options = {});

struct MultiClassHeadOptions {
  WeightColumn weight_column = {};
  std::vector<std::string> label_vocabulary = {};  ///< Labels are texts: n_classes words.
  LossReduction loss_reduction = "sum_over_batch_size";
  std::string name = {};
};
/// Labels are class numbers, `[rows]` or `[rows, 1]`; three classes or more.
/// Source: tf.estimator.MultiClassHead.
STRATA_API Head multi_class_head(int64_t n_classes, const MultiClassHeadOptions& options = {});

struct MultiLabelHeadOptions {
  WeightColumn weight_column = {};
  std::vector<double> thresholds = {};
  std::vector<std::string> label_vocabulary = {};
  LossReduction loss_reduction = "sum_over_batch_size";
  std::vector<int64_t> classes_for_class_based_metrics = {};
  std::string name = {};
};
/// Each row has any of the classes: labels 0 and 1 `[rows, n_classes]`, or sparse class numbers or
/// words `[rows, most]`. Source: tf.estimator.MultiLabelHead.
STRATA_API Head multi_label_head(int64_t n_classes, const MultiLabelHeadOptions& options = {});

struct RegressionHeadOptions {
  int64_t label_dimension = 1;
  WeightColumn weight_column = {};
  LossReduction loss_reduction = "sum_over_batch_size";
  /// Makes predictions of logits; empty: they are predictions.
  std::function<at::Tensor(const at::Tensor& logits)> inverse_link_fn = {};
  std::string name = {};
};
/// Squared errors; labels `[rows, label_dimension]`. Source: tf.estimator.RegressionHead.
STRATA_API Head regression_head(const RegressionHeadOptions& options = {});

struct PoissonRegressionHeadOptions {
  int64_t label_dimension = 1;
  WeightColumn weight_column = {};
  LossReduction loss_reduction = "sum_over_batch_size";
  bool compute_full_loss = true;  ///< With Stirling's term.
  std::string name = {};
};
/// Counts, whose logarithms the logits are. Source: tf.estimator.PoissonRegressionHead.
STRATA_API Head poisson_regression_head(const PoissonRegressionHeadOptions& options = {});

struct LogisticRegressionHeadOptions {
  WeightColumn weight_column = {};
  LossReduction loss_reduction = "sum_over_batch_size";
  std::string name = {};
};
/// Labels from 0 to 1, of which the sigmoid is the prediction. Source:
/// tf.estimator.LogisticRegressionHead.
STRATA_API Head logistic_regression_head(const LogisticRegressionHeadOptions& options = {});

/// Several heads over one model: labels by the heads' names; logits are the heads', side by side in
/// their order. The loss is the sum of weight times loss. Predictions are "NAME/key".
/// @throws Error kInvalidArgument: no heads, heads without a name or with one name, other loss
///   reductions. Source: tf.estimator.MultiHead.
STRATA_API Head multi_head(std::vector<Head> heads, std::vector<double> head_weights = {});

}  // namespace strata::estimator
