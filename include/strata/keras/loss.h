#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "strata/core/export.h"
#include "strata/core/json.h"
#include "strata/optim/losses.h"

namespace strata::keras {

/// A Keras class name as a template argument: one template implements all classes that differ by
/// name alone.
template <size_t N>
struct ClassName {
  constexpr ClassName(const char (&text)[N]) {  // NOLINT(google-explicit-constructor)
    std::copy_n(text, N, characters);
  }
  constexpr std::string_view view() const { return {characters, N - 1}; }

  char characters[N] = {};
};

}  // namespace strata::keras

/// Losses as objects, for Model::compile and custom loops. The classes are in losses.h.
/// Source: keras.losses 3.15.
namespace strata::losses {

/// A batch's loss before it is divided. The sums of `sum` and of the denominators over the replicas
/// give the loss of one device on the whole batch, for any division of it.
struct STRATA_API LossTerms {
  at::Tensor sum;  ///< A scalar, differentiable in y_pred.
  /// The number of values. 0 if the reduction does not divide (kSum, kNone) or there are none.
  double count = 0;
  /// The denominator, if it depends on values (kMeanWithSampleWeight, masks): a scalar that
  /// replaces `count`. Else undefined.
  at::Tensor weight_sum = {};
  double num_values = 0;  ///< Number of values, whether or not the reduction divides by it.
};

/// A loss: a rule that computes a value for each example, and the reduction of the values. A value
/// type; cheap to copy; none by default.
class STRATA_API Loss {
 public:
  using Function = std::function<at::Tensor(const at::Tensor& y_true, const at::Tensor& y_pred)>;

  Loss() = default;  ///< none
  /// Takes Keras's names: "mse", "mean_squared_error", "MeanSquaredError"; "crossentropy" and "ce"
  /// choose by the shapes: binary for predictions of width 1, sparse for targets of lower rank or
  /// width 1, else categorical.
  /// @throws Error kInvalidArgument: no such loss; lists the known ones.
  Loss(const char* name);         // NOLINT(google-explicit-constructor)
  Loss(const std::string& name);  // NOLINT(google-explicit-constructor)
  /// Takes a user-defined function that returns `[batch, ...]`. A model with it cannot be saved in
  /// Keras's files with its compile_config.
  explicit Loss(Function function, std::string name = "loss",
                Reduction reduction = Reduction::kSumOverBatchSize);

  explicit operator bool() const { return rule_ != nullptr; }

  const std::string& name() const;
  Reduction reduction() const;
  /// True if the sum is divided, by the count or the sum of weights.
  bool divides() const;

  /// Returns the rule's values, `[batch, ...]`, differentiable in `y_pred`, without weights.
  /// Predictions in 16 bits are cast to float32.
  at::Tensor per_sample(const at::Tensor& y_true, const at::Tensor& y_pred) const;

  /// @param sample_weight  Undefined, or `[batch]`, `[batch, 1]`, or the shape of the values.
  /// @param mask  Undefined, or the values that count, `[batch, ...]`: the mask of a layer such as
  ///              Embedding(mask_zero). Masked values cost nothing and do not count.
  ///              SparseCategoricalCrossentropy's ignore_class and Circle add masks of their own.
  /// @throws Error kInvalidArgument: shapes that do not match. kFailedPrecondition: no loss.
  LossTerms terms(const at::Tensor& y_true, const at::Tensor& y_pred,
                  const at::Tensor& sample_weight = {}, const at::Tensor& mask = {}) const;

  /// Returns the value of Keras's object on one device: the terms, divided; with Reduction::kNone
  /// the weighted values. 0 if the denominator is 0.
  at::Tensor operator()(const at::Tensor& y_true, const at::Tensor& y_pred,
                        const at::Tensor& sample_weight = {}, const at::Tensor& mask = {}) const;

  /// Makes the classes of losses.h.
  struct Rule;
  explicit Loss(std::shared_ptr<const Rule> rule) : rule_(std::move(rule)) {}
  friend STRATA_API Json to_config(const Loss& loss);

 private:
  const Rule& rule() const;

  std::shared_ptr<const Rule> rule_;
};

/// Returns its form in a compile_config: the name that it was made from, or the object; null for
/// none.
/// @throws Error kUnimplemented: a user-defined function.
STRATA_API Json to_config(const Loss& loss);
STRATA_API void from_config(const Json& json, Loss& loss);

/// Returns "sum_over_batch_size", "sum", "none", "mean_with_sample_weight"; "mean" is read as the
/// first.
STRATA_API Json to_config(Reduction reduction);
STRATA_API void from_config(const Json& json, Reduction& reduction);

}  // namespace strata::losses
