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

struct EinsumDenseOptions {
  activations::Activation activation = {};
  std::optional<std::string> bias_axes = {};  ///< Letters of the output; unset: no bias.
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

/// Computes activation(einsum(equation, x, kernel) + bias). Equations: "ab,bc->ac",
/// "...ab,bc->...ac", "ab...,bc->ac...".
/// @param output_shape  Without the batch; kNone: the input's size.
class STRATA_API EinsumDense : public keras::Layer {
 public:
  EinsumDense(const std::string& equation, const keras::Shape& output_shape,
              const EinsumDenseOptions& options = {});
};

struct EmbeddingOptions {
  initializers::Initializer embeddings_initializer = "uniform";
  regularizers::Regularizer embeddings_regularizer = {};
  regularizers::Regularizer activity_regularizer = {};
  constraints::Constraint embeddings_constraint = {};
  bool mask_zero = false;  ///< Token 0 is padding: the output's mask excludes it.
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Maps tokens `[batch, ...]` in [0, input_dim) to rows of a table, `[batch, ..., output_dim]`. The
/// table's gradient is sparse: the cost of a step depends on the tokens in a batch, not on the
/// table.
/// @throws Error kOutOfRange, when called: a token outside the table (on the CPU).
class STRATA_API Embedding : public keras::Layer {
 public:
  Embedding(int64_t input_dim, int64_t output_dim, const EmbeddingOptions& options = {});
};

struct MaskingOptions {
  double mask_value = 0;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Masks the steps of `[batch, time, ...]` in which every value is `mask_value`, and zeroes them.
class STRATA_API Masking : public keras::Layer {
 public:
  explicit Masking(const MaskingOptions& options = {});
};

}  // namespace strata::layers
