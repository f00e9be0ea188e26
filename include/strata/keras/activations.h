#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/core/json.h"

/// Keras's activation functions. All keep the dtype and, except for glu, the shape; all are
/// differentiable. At a kink itself the gradient is libtorch's, which may be that of the other
/// side.
/// Threads: any.   Cost: one operator of libtorch each way, if it has one.
/// Source: keras.activations 3.15, formulas and defaults.
namespace strata::activations {

struct ReluOptions {
  double negative_slope = 0;             ///< below the threshold: negative_slope * (x - threshold)
  std::optional<double> max_value = {};  ///< the largest result; unset: no limit
  double threshold = 0;
};
STRATA_API at::Tensor relu(const at::Tensor& x, const ReluOptions& options = {});
STRATA_API at::Tensor leaky_relu(const at::Tensor& x, double negative_slope = 0.2);
STRATA_API at::Tensor relu6(const at::Tensor& x);
STRATA_API at::Tensor elu(const at::Tensor& x, double alpha = 1);
STRATA_API at::Tensor celu(const at::Tensor& x, double alpha = 1);
STRATA_API at::Tensor selu(const at::Tensor& x);
STRATA_API at::Tensor gelu(const at::Tensor& x, bool approximate = false /* with tanh */);
STRATA_API at::Tensor silu(const at::Tensor& x);  ///< swish
STRATA_API at::Tensor mish(const at::Tensor& x);
STRATA_API at::Tensor softplus(const at::Tensor& x);
STRATA_API at::Tensor squareplus(const at::Tensor& x, double b = 4);
STRATA_API at::Tensor sparse_plus(const at::Tensor& x);
STRATA_API at::Tensor softsign(const at::Tensor& x);
STRATA_API at::Tensor sigmoid(const at::Tensor& x);
STRATA_API at::Tensor log_sigmoid(const at::Tensor& x);
STRATA_API at::Tensor sparse_sigmoid(const at::Tensor& x);
STRATA_API at::Tensor tanh(const at::Tensor& x);
STRATA_API at::Tensor tanh_shrink(const at::Tensor& x);
STRATA_API at::Tensor soft_shrink(const at::Tensor& x, double threshold = 0.5);
STRATA_API at::Tensor hard_shrink(const at::Tensor& x, double threshold = 0.5);
STRATA_API at::Tensor hard_sigmoid(const at::Tensor& x);
STRATA_API at::Tensor hard_silu(const at::Tensor& x);  ///< hard_swish
STRATA_API at::Tensor hard_tanh(const at::Tensor& x);
/// Returns x above `threshold`, else `default_value`.
STRATA_API at::Tensor threshold(const at::Tensor& x, double threshold, double default_value);
STRATA_API at::Tensor exponential(const at::Tensor& x);
STRATA_API at::Tensor linear(const at::Tensor& x);  ///< x itself

STRATA_API at::Tensor softmax(const at::Tensor& x, int64_t axis = -1);
STRATA_API at::Tensor log_softmax(const at::Tensor& x, int64_t axis = -1);
/// Computes as Keras: if more than one value is above zero, its threshold is larger than the
/// paper's, and a row does not sum to 1.
STRATA_API at::Tensor sparsemax(const at::Tensor& x, int64_t axis = -1);
/// Multiplies the first half along `axis` by the sigmoid of the second.
/// @throws Error kInvalidArgument: an odd size.
STRATA_API at::Tensor glu(const at::Tensor& x, int64_t axis = -1);

/// An activation as layers take it: a name, or a user-defined function. A value; "linear" does
/// nothing and costs nothing.
class STRATA_API Activation {
 public:
  using Function = std::function<at::Tensor(const at::Tensor&)>;

  Activation() = default;  ///< linear
  /// @throws Error kInvalidArgument: no such activation; lists the known ones.
  Activation(const char* name);         // NOLINT(google-explicit-constructor)
  Activation(const std::string& name);  // NOLINT(google-explicit-constructor)
  /// A model with such a function cannot be saved in Keras's files.
  explicit Activation(Function function);

  at::Tensor operator()(const at::Tensor& x) const;

  /// Keras's name: "relu"; "silu" for "swish" too; "linear". "LeakyReLU" if a file has that layer
  /// with its options; "" for a user-defined function.
  std::string name() const;
  bool is_linear() const { return rule_ == nullptr; }

  friend STRATA_API Json to_config(const Activation& activation);
  friend STRATA_API void from_config(const Json& json, Activation& activation);

 private:
  struct Rule;
  std::shared_ptr<const Rule> rule_;
};

/// Returns its name, or the layer's object that it was read from.
/// @throws Error kUnimplemented: a user-defined function.
STRATA_API Json to_config(const Activation& activation);
/// Reads a name; null (linear); an object of the layers ReLU, LeakyReLU, ELU, Softmax or
/// Activation, whose options are kept, except for its name and dtype.
/// @throws Error kUnimplemented: another layer, function or option; names it.
STRATA_API void from_config(const Json& json, Activation& activation);

}  // namespace strata::activations
