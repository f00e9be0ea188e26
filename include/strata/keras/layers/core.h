#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/activations.h"
#include "strata/keras/layer.h"

/// Keras's layers with Keras's defaults. Source: keras.layers 3.15.
namespace strata::layers {

struct DenseOptions {
  activations::Activation activation = {};
  bool use_bias = true;
  initializers::Initializer kernel_initializer = "glorot_uniform";
  initializers::Initializer bias_initializer = "zeros";
  regularizers::Regularizer kernel_regularizer = {};
  regularizers::Regularizer bias_regularizer = {};
  regularizers::Regularizer activity_regularizer = {};
  constraints::Constraint kernel_constraint = {};
  constraints::Constraint bias_constraint = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Computes activation(x kernel + bias): `[batch, ..., in]` to `[batch, ..., units]`.
class STRATA_API Dense : public keras::Layer {
 public:
  explicit Dense(int64_t units, const DenseOptions& options = {});
  Dense(int64_t units, activations::Activation activation);
};

struct IdentityOptions {
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// Returns its input.
class STRATA_API Identity : public keras::Layer {
 public:
  explicit Identity(const IdentityOptions& options = {});
};

struct LambdaOptions {
  /// The output's shape for an example, if running the function on zeros would not find it.
  std::optional<keras::Shape> output_shape = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};
/// A user-defined function as a layer. It runs on every replica at once, so it must not change
/// anything outside. A model with one cannot be saved in Keras's files: kUnimplemented.
///
///     layers::Lambda([](const at::Tensor& x) { return x.square(); })
class STRATA_API Lambda : public keras::Layer {
 public:
  using Function = std::function<at::Tensor(const at::Tensor& x)>;
  using CallFunction = std::function<at::Tensor(const at::Tensor& x, const keras::Call& call)>;

  explicit Lambda(Function function, const LambdaOptions& options = {});
  explicit Lambda(CallFunction function, const LambdaOptions& options = {});
};

}  // namespace strata::layers
