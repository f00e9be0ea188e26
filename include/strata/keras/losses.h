#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/class_name.h"
#include "strata/keras/loss.h"

/// Keras's loss classes: losses::Huber({.delta = 0.5}). What each computes is in
/// strata/optim/losses.h. Source: keras.losses 3.15, names and defaults.
namespace strata::losses {

/// What every loss can be told.
struct LossOptions {
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = {};                     ///< Empty: Keras's, such as "mean_squared_error".
  std::optional<at::ScalarType> dtype = {};  ///< Computed in; unset: y_pred's, at least float32.
};

struct SparseCategoricalCrossentropyOptions {
  bool from_logits = false;                  ///< y_pred are logits, not probabilities
  std::optional<int64_t> ignore_class = {};  ///< values with this label neither cost nor count
  int64_t axis = -1;                         ///< of the classes
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = {};
  std::optional<at::ScalarType> dtype = {};
};

/// BinaryCrossentropy, CategoricalCrossentropy.
struct CrossentropyLossOptions {
  bool from_logits = false;
  double label_smoothing = 0;
  int64_t axis = -1;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::string name = {};
  std::optional<at::ScalarType> dtype = {};
};

struct CategoricalFocalCrossentropyOptions {
  double alpha = 0.25;
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

/// One of Keras's classes; it adds nothing to Loss but how it is made.
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

/// Dice and Tversky of whole batches, and Circle, look at all replicas' examples: they meet in
/// `run`.
using Dice = LossClass<"Dice", DiceLossOptions>;
using Tversky = LossClass<"Tversky", TverskyLossOptions>;
using Circle = LossClass<"Circle", CircleLossOptions>;
using CTC = LossClass<"CTC">;

}  // namespace strata::losses
