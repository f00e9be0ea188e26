#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/loss.h"

/// Keras's loss classes: losses::Huber({.delta = 0.5}). strata/optim/losses.h documents their
/// formulas. Source: keras.losses 3.15, names and defaults.
namespace strata::losses {

/// Options of every loss.
struct LossOptions {
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = {};  ///< Empty: Keras's, such as "mean_squared_error".
  /// The dtype of the computation; unset: y_pred's, at least float32.
  std::optional<at::ScalarType> dtype = {};
};

struct SparseCategoricalCrossentropyOptions {
  bool from_logits = false;                  ///< y_pred are logits, not probabilities
  std::optional<int64_t> ignore_class = {};  ///< values with this label are excluded
  int64_t axis = -1;                         ///< the classes' axis
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = {};
  std::optional<at::ScalarType> dtype = {};
};

/// The options of BinaryCrossentropy and CategoricalCrossentropy.
struct CrossentropyLossOptions {
  bool from_logits = false;
  double label_smoothing = 0;
  int64_t axis = -1;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = {};
  std::optional<at::ScalarType> dtype = {};
};

/// A number or a list, as Keras writes it.
STRATA_API Json to_config(const ClassFactors& factors);
STRATA_API void from_config(const Json& json, ClassFactors& factors);

struct CategoricalFocalCrossentropyOptions {
  ClassFactors alpha = 0.25;
  double gamma = 2;
  bool from_logits = false;
  double label_smoothing = 0;
  int64_t axis = -1;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = {};
  std::optional<at::ScalarType> dtype = {};
};

struct BinaryFocalCrossentropyOptions {
  bool apply_class_balancing = false;
  double alpha = 0.25;
  double gamma = 2;
  bool from_logits = false;
  double label_smoothing = 0;
  int64_t axis = -1;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = {};
  std::optional<at::ScalarType> dtype = {};
};

struct HuberOptions {
  double delta = 1;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = {};
  std::optional<at::ScalarType> dtype = {};
};

struct CosineSimilarityOptions {
  int64_t axis = -1;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = {};
  std::optional<at::ScalarType> dtype = {};
};

struct DiceLossOptions {
  std::vector<int64_t> axis = {};  ///< summed over; empty: the whole batch, of all replicas
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = {};
  std::optional<at::ScalarType> dtype = {};
};

struct TverskyLossOptions {
  double alpha = 0.5;
  double beta = 0.5;
  std::vector<int64_t> axis = {};  ///< as Dice
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = {};
  std::optional<at::ScalarType> dtype = {};
};

struct CircleLossOptions {
  double gamma = 80;
  double margin = 0.4;
  bool remove_diagonal = true;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = {};
  std::optional<at::ScalarType> dtype = {};
};

struct CategoricalGeneralizedCrossEntropyOptions {
  double q = 0.5;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = {};
  std::optional<at::ScalarType> dtype = {};
};

namespace detail {
template <typename Options>
Loss make_loss(std::string_view class_name, const Options& options);
}  // namespace detail

/// One of Keras's classes; it adds only a constructor to Loss.
template <keras::ClassName kName, typename Options = LossOptions>
class LossClass : public Loss {
 public:
  explicit LossClass(const Options& options = {})
      : Loss(detail::make_loss(kName.view(), options)) {}
};

using MeanSquaredError = LossClass<"MeanSquaredError">;
using MeanAbsoluteError = LossClass<"MeanAbsoluteError">;
using MeanAbsolutePercentageError = LossClass<"MeanAbsolutePercentageError">;
using MeanSquaredLogarithmicError = LossClass<"MeanSquaredLogarithmicError">;
using CosineSimilarity = LossClass<"CosineSimilarity", CosineSimilarityOptions>;
using Huber = LossClass<"Huber", HuberOptions>;
using LogCosh = LossClass<"LogCosh">;

using BinaryCrossentropy = LossClass<"BinaryCrossentropy", CrossentropyLossOptions>;
using CategoricalCrossentropy = LossClass<"CategoricalCrossentropy", CrossentropyLossOptions>;
using SparseCategoricalCrossentropy =
    LossClass<"SparseCategoricalCrossentropy", SparseCategoricalCrossentropyOptions>;
using BinaryFocalCrossentropy =
    LossClass<"BinaryFocalCrossentropy", BinaryFocalCrossentropyOptions>;
using CategoricalFocalCrossentropy =
    LossClass<"CategoricalFocalCrossentropy", CategoricalFocalCrossentropyOptions>;
using CategoricalGeneralizedCrossEntropy =
    LossClass<"CategoricalGeneralizedCrossEntropy", CategoricalGeneralizedCrossEntropyOptions>;
using KLDivergence = LossClass<"KLDivergence">;
using Poisson = LossClass<"Poisson">;

using Hinge = LossClass<"Hinge">;
using SquaredHinge = LossClass<"SquaredHinge">;
using CategoricalHinge = LossClass<"CategoricalHinge">;

/// Dice and Tversky of whole batches, and Circle, use all replicas' examples: in `run` they are
/// barriers.
using Dice = LossClass<"Dice", DiceLossOptions>;
using Tversky = LossClass<"Tversky", TverskyLossOptions>;
using Circle = LossClass<"Circle", CircleLossOptions>;
using CTC = LossClass<"CTC">;

}  // namespace strata::losses
