#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

#include "strata/core/export.h"
#include "strata/core/json.h"

/// Penalties on weights or on what a layer gives, added to the loss.
/// Source: keras.regularizers 3.15.
namespace strata::regularizers {

/// None by default. A value.
class STRATA_API Regularizer {
 public:
  using Function = std::function<at::Tensor(const at::Tensor&)>;

  Regularizer() = default;  ///< none
  /// "l1", "l2", "l1_l2", "orthogonal_regularizer", with Keras's defaults.
  Regularizer(const char* name);         // NOLINT(google-explicit-constructor)
  Regularizer(const std::string& name);  // NOLINT(google-explicit-constructor)
  explicit Regularizer(Function function);

  explicit operator bool() const { return rule_ != nullptr; }
  /// A scalar, differentiable in `x`.
  at::Tensor operator()(const at::Tensor& x) const;

  Regularizer(std::string class_name, Json config, Function function);
  friend STRATA_API Json to_config(const Regularizer& regularizer);

 private:
  struct Rule;
  std::shared_ptr<const Rule> rule_;
};

/// Null for none.
STRATA_API Json to_config(const Regularizer& regularizer);
STRATA_API void from_config(const Json& json, Regularizer& regularizer);

}  // namespace strata::regularizers
