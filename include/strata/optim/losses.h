#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "strata/core/export.h"

/// Losses for custom loops: one value for each example, not averaged (use compute_average_loss or
/// `reduce` below).
///
/// `y_pred` is `[batch, ..., n]`, floating; `y_true` has its shape unless documented otherwise, and
/// any dtype. The result is `[batch, ...]`: the last axis is reduced. If one of the two has a last
/// axis of length 1 that the other lacks, it is added or removed as in Keras; other broadcasting is
/// refused, since it is mostly a mistake. Batches of 0 rows give `[0]`. All are differentiable in
/// `y_pred`.
///
/// @throws Error kInvalidArgument: shapes do not fit.
/// Source: keras.losses 3.15, formulas and defaults; probabilities are clipped to [1e-7, 1 - 1e-7].
namespace strata::losses {

struct SparseCrossentropyOptions {
  bool from_logits = false;                  ///< y_pred are logits, not probabilities
  std::optional<int64_t> ignore_class = {};  ///< examples with this label cost 0
};

/// `y_true` has class numbers, `[batch, ...]` or `[batch, ..., 1]`. With logits on the CPU the loss
/// is one fused pass each way, with no second derivative (it raises kUnimplemented); otherwise ATen
/// operators.
/// @throws Error kInvalidArgument: a label outside [0, n) (on a GPU libtorch's own assertion
/// instead).
STRATA_API at::Tensor sparse_categorical_crossentropy(
    const at::Tensor& y_true, const at::Tensor& y_pred,
    const SparseCrossentropyOptions& options = {});

struct CrossentropyOptions {
  bool from_logits = false;
  double label_smoothing =
      0;  ///< in [0, 1]: y_true moves that far towards the uniform distribution
};

/// `y_true` is one-hot or a distribution.
STRATA_API at::Tensor categorical_crossentropy(const at::Tensor& y_true, const at::Tensor& y_pred,
                                               const CrossentropyOptions& options = {});
/// `y_true` has values from 0 to 1.
STRATA_API at::Tensor binary_crossentropy(const at::Tensor& y_true, const at::Tensor& y_pred,
                                          const CrossentropyOptions& options = {});

/// What multiplies the loss of the classes: one number for all of them, or one for each.
struct ClassFactors {
  std::vector<double> values;
  bool is_list;  ///< How Keras's config has it.

  ClassFactors(double all) : values{all}, is_list(false) {}                           // NOLINT
  ClassFactors(std::vector<double> each) : values(std::move(each)), is_list(true) {}  // NOLINT
  friend bool operator==(const ClassFactors&, const ClassFactors&) = default;
};

struct FocalOptions {
  ClassFactors alpha = 0.25;  ///< For the binary loss one number.
  double gamma = 2;
  bool from_logits = false;
  double label_smoothing = 0;
  bool apply_class_balancing = false;  ///< binary only: alpha weighs the classes
};

STRATA_API at::Tensor categorical_focal_crossentropy(const at::Tensor& y_true,
                                                     const at::Tensor& y_pred,
                                                     const FocalOptions& options = {});
STRATA_API at::Tensor binary_focal_crossentropy(const at::Tensor& y_true, const at::Tensor& y_pred,
                                                const FocalOptions& options = {});

STRATA_API at::Tensor mean_squared_error(const at::Tensor& y_true, const at::Tensor& y_pred);
STRATA_API at::Tensor mean_absolute_error(const at::Tensor& y_true, const at::Tensor& y_pred);
STRATA_API at::Tensor mean_absolute_percentage_error(const at::Tensor& y_true,
                                                     const at::Tensor& y_pred);
STRATA_API at::Tensor mean_squared_logarithmic_error(const at::Tensor& y_true,
                                                     const at::Tensor& y_pred);
/// The loss is quadratic up to an error of `delta`, and linear beyond.
STRATA_API at::Tensor huber(const at::Tensor& y_true, const at::Tensor& y_pred, double delta = 1);
STRATA_API at::Tensor log_cosh(const at::Tensor& y_true, const at::Tensor& y_pred);

/// The sum is over the last axis, both clipped to [1e-7, 1].
STRATA_API at::Tensor kl_divergence(const at::Tensor& y_true, const at::Tensor& y_pred);
STRATA_API at::Tensor poisson(const at::Tensor& y_true, const at::Tensor& y_pred);

/// `y_true` has -1 and 1; if the whole batch has only 0 and 1, 0 means -1.
STRATA_API at::Tensor hinge(const at::Tensor& y_true, const at::Tensor& y_pred);
STRATA_API at::Tensor squared_hinge(const at::Tensor& y_true, const at::Tensor& y_pred);
/// `y_true` is one-hot.
STRATA_API at::Tensor categorical_hinge(const at::Tensor& y_true, const at::Tensor& y_pred);

/// The negative cosine, so that smaller is more similar; 0 where one of the two is a zero vector.
STRATA_API at::Tensor cosine_similarity(const at::Tensor& y_true, const at::Tensor& y_pred);

/// The loss is 1 - 2 |y_true y_pred| / (|y_true| + |y_pred|) with sums over `axis`. If `axis` is
/// empty, the sums are over everything, batch included: the result is one number, in `run` over all
/// replicas' batches, so that all must call it. Shapes must be equal.
STRATA_API at::Tensor dice(const at::Tensor& y_true, const at::Tensor& y_pred,
                           const std::vector<int64_t>& axis = {});

struct TverskyOptions {
  double alpha = 0.5;              ///< weight of y_true without y_pred
  double beta = 0.5;               ///< weight of y_pred without y_true
  std::vector<int64_t> axis = {};  ///< as in dice
};
STRATA_API at::Tensor tversky(const at::Tensor& y_true, const at::Tensor& y_pred,
                              const TverskyOptions& options = {});

struct CircleOptions {
  double gamma = 80;
  double margin = 0.4;
  bool remove_diagonal = true;  ///< an example is no pair with itself
};
/// `y_true` has class numbers `[batch]` or `[batch, 1]`; `y_pred` normalized embeddings `[batch,
/// n]`. Every example is compared with the whole batch, in `run` with that of all replicas, so that
/// all must call it.
STRATA_API at::Tensor circle(const at::Tensor& y_true, const at::Tensor& y_pred,
                             const CircleOptions& options = {});

/// `y_true` has class numbers `[batch, length]`, padded with 0; `y_pred` logits `[batch, time,
/// classes]`, class 0 is the blank. The result has one value for each example.
STRATA_API at::Tensor ctc(const at::Tensor& y_true, const at::Tensor& y_pred);

/// The loss is (1 - p^q) / q for the probability p of the right class. `y_true` has class numbers,
/// as in sparse_categorical_crossentropy. @param q  in (0, 1)
STRATA_API at::Tensor categorical_generalized_cross_entropy(const at::Tensor& y_true,
                                                            const at::Tensor& y_pred,
                                                            double q = 0.5);

enum class Reduction {
  kSumOverBatchSize,      ///< sum(weight * value) / number of values
  kSum,                   ///< sum(weight * value)
  kNone,                  ///< weight * value
  kMeanWithSampleWeight,  ///< sum(weight * value) / sum(weight)
};

/// Reduces the values of one device's batch as keras.losses.Loss does. Under a strategy use
/// compute_average_loss instead: this divides by the local count. Without values the result is 0.
/// @param sample_weight  undefined, or `[batch]` or `[batch, 1]` or the shape of `values`.
STRATA_API at::Tensor reduce(const at::Tensor& values, const at::Tensor& sample_weight = {},
                             Reduction reduction = Reduction::kSumOverBatchSize);

}  // namespace strata::losses

namespace strata {

struct AverageLossOptions {
  /// Weights of the loss's terms; broadcastable to the loss.
  at::Tensor sample_weight = {};
  /// Default: local length times the number of replicas.
  std::optional<int64_t> global_batch_size = {};
};

/// Returns this replica's share of the mean loss: sum(per_example * sample_weight) / global batch
/// size. The sum of the shares over all replicas, and the sum of their gradients, are those of one
/// device on the whole batch, if `global_batch_size` is the replicas' total; the default is right
/// only for equal parts. (MinimizeOptions::weight counts by itself instead.)
///
/// @param per_example  `[local batch, ...]`; 0 rows give 0.
/// @throws Error  kInvalidArgument: a scalar, or a negative global_batch_size.
///                kFailedPrecondition: cross-replica context.
/// Source: tf.nn.compute_average_loss.
STRATA_API at::Tensor compute_average_loss(const at::Tensor& per_example,
                                           const AverageLossOptions& options = {});
inline at::Tensor compute_average_loss(const at::Tensor& per_example, int64_t global_batch_size) {
  return compute_average_loss(per_example,
                              {.sample_weight = {}, .global_batch_size = global_batch_size});
}

/// Returns sum(loss) / number of replicas: every replica has the same regularization loss, which
/// must count once.
/// @throws Error  kFailedPrecondition: cross-replica context.
/// Source: tf.nn.scale_regularization_loss.
STRATA_API at::Tensor scale_regularization_loss(const at::Tensor& loss);

}  // namespace strata
