#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "strata/core/export.h"
#include "strata/estimator/estimator.h"
#include "strata/estimator/feature_column.h"
#include "strata/estimator/head.h"
#include "strata/keras/activations.h"
#include "strata/optim/optimizer.h"

/// Estimators with a model of their own: linear, a network, both, or nothing but a bias. Variables
/// have TensorFlow's names: `linear/linear_model/<column>/weights`, `dnn/hiddenlayer_0/kernel`,
/// `baseline/bias`.
namespace strata::estimator {

using feature_column::FeatureColumn;

/// An optimizer by tf.estimator's name (Adagrad, Adam, Ftrl, RMSProp, SGD, at the rate that each
/// class documents), or a function that makes one: each call of `train` makes it anew, and restores
/// its slots. Unset: the class's default.
using OptimizerChoice =
    std::variant<std::monostate, std::string, std::function<optimizers::AnyOptimizer()>>;

struct LinearClassifierOptions {
  std::vector<FeatureColumn> feature_columns;
  int64_t n_classes = 2;
  WeightColumn weight_column = {};
  std::vector<std::string> label_vocabulary = {};
  /// Unset: Ftrl at min(0.2, 1 / sqrt(columns)). By name: 0.2.
  OptimizerChoice optimizer = {};
  LossReduction loss_reduction = "sum_over_batch_size";
  feature_column::Combiner sparse_combiner = "sum";
  std::string model_dir = {};
  RunConfig config = RunConfig();
  WarmStartSettings warm_start_from = {};
};
/// Two classes: binary_class_head; more: multi_class_head. @throws Error kInvalidArgument:
/// n_classes below 2; options that do not match. Source: tf.estimator.LinearClassifier.
class STRATA_API LinearClassifier : public Estimator {
 public:
  explicit LinearClassifier(const LinearClassifierOptions& options);
};

struct LinearRegressorOptions {
  std::vector<FeatureColumn> feature_columns;
  int64_t label_dimension = 1;
  WeightColumn weight_column = {};
  OptimizerChoice optimizer = {};  ///< As LinearClassifierOptions.
  LossReduction loss_reduction = "sum_over_batch_size";
  feature_column::Combiner sparse_combiner = "sum";
  std::string model_dir = {};
  RunConfig config = RunConfig();
  WarmStartSettings warm_start_from = {};
};
class STRATA_API LinearRegressor : public Estimator {
 public:
  explicit LinearRegressor(const LinearRegressorOptions& options);
};

struct LinearEstimatorOptions {
  std::vector<FeatureColumn> feature_columns;
  OptimizerChoice optimizer = {};  ///< As LinearClassifierOptions.
  feature_column::Combiner sparse_combiner = "sum";
  std::string model_dir = {};
  RunConfig config = RunConfig();
  WarmStartSettings warm_start_from = {};
};
class STRATA_API LinearEstimator : public Estimator {
 public:
  LinearEstimator(const Head& head, const LinearEstimatorOptions& options);
};

struct DNNClassifierOptions {
  std::vector<int64_t> hidden_units;
  std::vector<FeatureColumn> feature_columns;
  int64_t n_classes = 2;
  WeightColumn weight_column = {};
  std::vector<std::string> label_vocabulary = {};
  /// Unset: Adagrad. By name: Keras's rate, 0.001, of SGD 0.01.
  OptimizerChoice optimizer = {};
  activations::Activation activation_fn = "relu";
  double dropout = 0;       ///< The fraction of a hidden layer's values that training drops.
  bool batch_norm = false;  ///< After the activation and dropout.
  LossReduction loss_reduction = "sum_over_batch_size";
  std::string model_dir = {};
  RunConfig config = RunConfig();
  WarmStartSettings warm_start_from = {};
};
/// The columns' values (input_layer) in dense layers. Source: tf.estimator.DNNClassifier.
class STRATA_API DNNClassifier : public Estimator {
 public:
  explicit DNNClassifier(const DNNClassifierOptions& options);
};

struct DNNRegressorOptions {
  std::vector<int64_t> hidden_units;
  std::vector<FeatureColumn> feature_columns;
  int64_t label_dimension = 1;
  WeightColumn weight_column = {};
  OptimizerChoice optimizer = {};  ///< As DNNClassifierOptions.
  activations::Activation activation_fn = "relu";
  double dropout = 0;
  bool batch_norm = false;
  LossReduction loss_reduction = "sum_over_batch_size";
  std::string model_dir = {};
  RunConfig config = RunConfig();
  WarmStartSettings warm_start_from = {};
};
class STRATA_API DNNRegressor : public Estimator {
 public:
  explicit DNNRegressor(const DNNRegressorOptions& options);
};

struct DNNEstimatorOptions {
  std::vector<int64_t> hidden_units;
  std::vector<FeatureColumn> feature_columns;
  OptimizerChoice optimizer = {};  ///< As DNNClassifierOptions.
  activations::Activation activation_fn = "relu";
  double dropout = 0;
  bool batch_norm = false;
  std::string model_dir = {};
  RunConfig config = RunConfig();
  WarmStartSettings warm_start_from = {};
};
class STRATA_API DNNEstimator : public Estimator {
 public:
  DNNEstimator(const Head& head, const DNNEstimatorOptions& options);
};

struct DNNLinearCombinedClassifierOptions {
  std::vector<FeatureColumn> linear_feature_columns = {};
  /// Unset: Ftrl. By name: min(0.005, 1 / sqrt(linear columns)).
  OptimizerChoice linear_optimizer = {};
  std::vector<FeatureColumn> dnn_feature_columns = {};
  OptimizerChoice dnn_optimizer = {};  ///< Unset: Adagrad. By name: 0.001.
  std::vector<int64_t> dnn_hidden_units = {};
  activations::Activation dnn_activation_fn = "relu";
  double dnn_dropout = 0;
  bool batch_norm = false;
  int64_t n_classes = 2;
  WeightColumn weight_column = {};
  std::vector<std::string> label_vocabulary = {};
  LossReduction loss_reduction = "sum_over_batch_size";
  feature_column::Combiner linear_sparse_combiner = "sum";
  std::string model_dir = {};
  RunConfig config = RunConfig();
  WarmStartSettings warm_start_from = {};
};
/// The sum of a linear model and a network, each with its optimizer: "wide and deep".
/// @throws Error kInvalidArgument: columns of neither kind; dnn columns without dnn_hidden_units.
/// Source: tf.estimator.DNNLinearCombinedClassifier.
class STRATA_API DNNLinearCombinedClassifier : public Estimator {
 public:
  explicit DNNLinearCombinedClassifier(const DNNLinearCombinedClassifierOptions& options);
};

struct DNNLinearCombinedRegressorOptions {
  std::vector<FeatureColumn> linear_feature_columns = {};
  OptimizerChoice linear_optimizer = {};  ///< As DNNLinearCombinedClassifierOptions.
  std::vector<FeatureColumn> dnn_feature_columns = {};
  OptimizerChoice dnn_optimizer = {};
  std::vector<int64_t> dnn_hidden_units = {};
  activations::Activation dnn_activation_fn = "relu";
  double dnn_dropout = 0;
  bool batch_norm = false;
  int64_t label_dimension = 1;
  WeightColumn weight_column = {};
  LossReduction loss_reduction = "sum_over_batch_size";
  feature_column::Combiner linear_sparse_combiner = "sum";
  std::string model_dir = {};
  RunConfig config = RunConfig();
  WarmStartSettings warm_start_from = {};
};
class STRATA_API DNNLinearCombinedRegressor : public Estimator {
 public:
  explicit DNNLinearCombinedRegressor(const DNNLinearCombinedRegressorOptions& options);
};

struct DNNLinearCombinedEstimatorOptions {
  std::vector<FeatureColumn> linear_feature_columns = {};
  OptimizerChoice linear_optimizer = {};  ///< As DNNLinearCombinedClassifierOptions.
  std::vector<FeatureColumn> dnn_feature_columns = {};
  OptimizerChoice dnn_optimizer = {};
  std::vector<int64_t> dnn_hidden_units = {};
  activations::Activation dnn_activation_fn = "relu";
  double dnn_dropout = 0;
  bool batch_norm = false;
  feature_column::Combiner linear_sparse_combiner = "sum";
  std::string model_dir = {};
  RunConfig config = RunConfig();
  WarmStartSettings warm_start_from = {};
};
class STRATA_API DNNLinearCombinedEstimator : public Estimator {
 public:
  DNNLinearCombinedEstimator(const Head& head, const DNNLinearCombinedEstimatorOptions& options);
};

struct BaselineClassifierOptions {
  int64_t n_classes = 2;
  WeightColumn weight_column = {};
  std::vector<std::string> label_vocabulary = {};
  OptimizerChoice optimizer = {};  ///< Unset: Ftrl. By name: 0.3.
  LossReduction loss_reduction = "sum_over_batch_size";
  std::string model_dir = {};
  RunConfig config = RunConfig();
};
/// The same logits for each row: what a model has to be better than. Source:
/// tf.estimator.BaselineClassifier.
class STRATA_API BaselineClassifier : public Estimator {
 public:
  explicit BaselineClassifier(const BaselineClassifierOptions& options = {});
};

struct BaselineRegressorOptions {
  int64_t label_dimension = 1;
  WeightColumn weight_column = {};
  OptimizerChoice optimizer = {};  ///< As BaselineClassifierOptions.
  LossReduction loss_reduction = "sum_over_batch_size";
  std::string model_dir = {};
  RunConfig config = RunConfig();
};
class STRATA_API BaselineRegressor : public Estimator {
 public:
  explicit BaselineRegressor(const BaselineRegressorOptions& options = {});
};

struct BaselineEstimatorOptions {
  OptimizerChoice optimizer = {};  ///< As BaselineClassifierOptions.
  std::string model_dir = {};
  RunConfig config = RunConfig();
};
class STRATA_API BaselineEstimator : public Estimator {
 public:
  explicit BaselineEstimator(const Head& head, const BaselineEstimatorOptions& options = {});
};

}  // namespace strata::estimator
