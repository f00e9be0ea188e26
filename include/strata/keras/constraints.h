#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

#include "strata/core/export.h"
#include "strata/core/json.h"

/// What weights are brought back to after each step.
/// Source: keras.constraints 3.15.
namespace strata::constraints {

/// None by default. A value.
class STRATA_API Constraint {
 public:
  using Function = std::function<at::Tensor(const at::Tensor&)>;

  Constraint() = default;  ///< none
  /// "max_norm", "non_neg", "unit_norm", "min_max_norm", with Keras's defaults.
  Constraint(const char* name);         // NOLINT(google-explicit-constructor)
  Constraint(const std::string& name);  // NOLINT(google-explicit-constructor)
  explicit Constraint(Function function);

  explicit operator bool() const { return rule_ != nullptr; }
  /// The value nearest to `x` that is allowed, of its shape.
  at::Tensor operator()(const at::Tensor& x) const;

  Constraint(std::string class_name, Json config, Function function);
  friend STRATA_API Json to_config(const Constraint& constraint);

 private:
  struct Rule;
  std::shared_ptr<const Rule> rule_;
};

/// Null for none.
STRATA_API Json to_config(const Constraint& constraint);
STRATA_API void from_config(const Json& json, Constraint& constraint);

}  // namespace strata::constraints
