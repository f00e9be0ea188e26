#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/json.h"
#include "strata/keras/loss.h"

namespace strata::losses {

/// What a rule makes of a batch.
struct LossValues {
  at::Tensor values;     ///< [batch, ...]
  at::Tensor mask = {};  ///< which of them count; undefined: all
};

struct Loss::Rule {
  std::string name;
  Reduction reduction = Reduction::kSumOverBatchSize;
  std::optional<at::ScalarType> dtype = {};
  std::function<LossValues(const at::Tensor& y_true, const at::Tensor& y_pred)> call;
  Json config = {};  ///< null: it cannot be saved

  /// `call` in the dtype that the loss computes in.
  LossValues values(const at::Tensor& y_true, const at::Tensor& y_pred) const;
};

namespace detail {

/// The loss of `name`. @throws Error kInvalidArgument.
Loss loss_of_name(const std::string& name);
/// @throws Error kDataLoss: not a loss. kUnimplemented: a class or option that we do not have.
Loss loss_of_config(const Json& json);

}  // namespace detail

/// Which of Keras's accuracies and crossentropies fits: what "accuracy" and "ce" choose by.
enum class LabelKindOfShapes { kBinary, kSparse, kCategorical };
/// @param y_true, y_pred  With the axis of the batch; -1 where a size is unknown.
LabelKindOfShapes label_kind(at::IntArrayRef y_true, at::IntArrayRef y_pred);

}  // namespace strata::losses
