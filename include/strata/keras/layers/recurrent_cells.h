#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/activations.h"
#include "strata/keras/layer.h"
#include "strata/keras/layer_impl.h"

/// Cells: one step of a recurrent layer. As a layer a cell takes {x, states...} and returns
/// {output, states...}, each `[batch, size]`.
namespace strata::layers {

/// The implementation of a cell. For a cell of your own override `call` (as above) and
/// `state_sizes`.
class STRATA_API RNNCellImpl : public keras::LayerImpl {
 public:
  using LayerImpl::LayerImpl;

  virtual std::vector<int64_t> state_sizes() const = 0;
  virtual int64_t output_size() const { return state_sizes().at(0); }

  /// The cell during one batch of sequences: parts of a step that do not depend on the states can
  /// be computed for all steps at once.
  class STRATA_API Run {
   public:
    virtual ~Run() = default;
    /// @param x  `[..., batch, features]`.
    virtual at::Tensor project(const at::Tensor& x) { return x; }
    /// @param projected  One step of `project`'s result. @return the output; replaces `states`.
    virtual at::Tensor advance(const at::Tensor& projected, keras::Tensors& states) = 0;
  };
  /// By default runs `call`, step by step.
  virtual std::unique_ptr<Run> start(const keras::Call& call);

 protected:
  std::vector<keras::Shape> compute_output_shapes(const std::vector<keras::Shape>& inputs,
                                                  const Json& options) const override;
};

struct LSTMCellOptions {
  activations::Activation activation = "tanh";
  activations::Activation recurrent_activation = "sigmoid";
  bool use_bias = true;
  initializers::Initializer kernel_initializer = "glorot_uniform";
  initializers::Initializer recurrent_initializer = "orthogonal";
  initializers::Initializer bias_initializer = "zeros";
  bool unit_forget_bias = true;  ///< The forget gate's bias starts at 1.
  regularizers::Regularizer kernel_regularizer = {};
  regularizers::Regularizer recurrent_regularizer = {};
  regularizers::Regularizer bias_regularizer = {};
  constraints::Constraint kernel_constraint = {};
  constraints::Constraint recurrent_constraint = {};
  constraints::Constraint bias_constraint = {};
  double dropout = 0;            ///< The rate for the input; one mask for all steps.
  double recurrent_dropout = 0;  ///< The rate for the state; one mask for all steps.
  /// Saved in files only; masks are drawn from the replica's generator.
  std::optional<int64_t> seed = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// The states are h and c, the gates i, f, c, o.
class STRATA_API LSTMCell : public keras::Layer {
 public:
  explicit LSTMCell(int64_t units, const LSTMCellOptions& options = {});
};

struct GRUCellOptions {
  activations::Activation activation = "tanh";
  activations::Activation recurrent_activation = "sigmoid";
  bool use_bias = true;
  initializers::Initializer kernel_initializer = "glorot_uniform";
  initializers::Initializer recurrent_initializer = "orthogonal";
  initializers::Initializer bias_initializer = "zeros";
  regularizers::Regularizer kernel_regularizer = {};
  regularizers::Regularizer recurrent_regularizer = {};
  regularizers::Regularizer bias_regularizer = {};
  constraints::Constraint kernel_constraint = {};
  constraints::Constraint recurrent_constraint = {};
  constraints::Constraint bias_constraint = {};
  double dropout = 0;
  double recurrent_dropout = 0;
  bool reset_after = true;  ///< Applies the reset gate after the matrix product.
  std::optional<int64_t> seed = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// The state is h, the gates are z, r, h.
class STRATA_API GRUCell : public keras::Layer {
 public:
  explicit GRUCell(int64_t units, const GRUCellOptions& options = {});
};

struct SimpleRNNCellOptions {
  activations::Activation activation = "tanh";
  bool use_bias = true;
  initializers::Initializer kernel_initializer = "glorot_uniform";
  initializers::Initializer recurrent_initializer = "orthogonal";
  initializers::Initializer bias_initializer = "zeros";
  regularizers::Regularizer kernel_regularizer = {};
  regularizers::Regularizer recurrent_regularizer = {};
  regularizers::Regularizer bias_regularizer = {};
  constraints::Constraint kernel_constraint = {};
  constraints::Constraint recurrent_constraint = {};
  constraints::Constraint bias_constraint = {};
  double dropout = 0;
  double recurrent_dropout = 0;
  std::optional<int64_t> seed = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Computes activation(x kernel + h recurrent_kernel + bias).
class STRATA_API SimpleRNNCell : public keras::Layer {
 public:
  explicit SimpleRNNCell(int64_t units, const SimpleRNNCellOptions& options = {});
};

struct StackedRNNCellsOptions {
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Stacked cells as one cell. The states are those of the first, then of the second, ...
class STRATA_API StackedRNNCells : public keras::Layer {
 public:
  explicit StackedRNNCells(const std::vector<keras::Layer>& cells,
                           const StackedRNNCellsOptions& options = {});
};

}  // namespace strata::layers
