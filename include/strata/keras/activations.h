#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>

#include "strata/core/export.h"
#include "strata/core/json.h"

/// Keras's activation functions. All keep shape and dtype and are differentiable.
/// Source: keras.activations 3.15, formulas and defaults.
namespace strata::activations {

STRATA_API at::Tensor relu(const at::Tensor& x, double negative_slope = 0,
                           double max_value = -1 /* none */, double threshold = 0);
STRATA_API at::Tensor softmax(const at::Tensor& x, int64_t axis = -1);

/// An activation as layers take it: by name, or a function of yours. A value; "linear" does
/// nothing and costs nothing.
class STRATA_API Activation {
 public:
  using Function = std::function<at::Tensor(const at::Tensor&)>;

  Activation() = default;  ///< linear
  /// @throws Error kInvalidArgument: no such activation; lists those there are.
  Activation(const char* name);         // NOLINT(google-explicit-constructor)
  Activation(const std::string& name);  // NOLINT(google-explicit-constructor)
  /// A model with such a function cannot be saved as a file of Keras's.
  explicit Activation(Function function);

  at::Tensor operator()(const at::Tensor& x) const;

  /// "relu"; "linear"; "" for a function of yours.
  const std::string& name() const { return name_; }
  bool is_linear() const { return name_ == "linear"; }

 private:
  std::string name_ = "linear";
  std::shared_ptr<const Function> function_;
};

/// Its name. @throws Error kUnimplemented: a function of yours.
STRATA_API Json to_config(const Activation& activation);
/// A name, null (linear), or an activation layer's object (ReLU with its options).
STRATA_API void from_config(const Json& json, Activation& activation);

}  // namespace strata::activations
