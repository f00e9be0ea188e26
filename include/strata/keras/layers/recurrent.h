#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/recurrent_cells.h"

namespace strata::layers {

class RNNImpl;

/// Options of one call of a recurrent layer.
template <typename Tensor>
struct RecurrentCall {
  /// Initial states, `[batch, size]` each: h and c of an LSTM, h of the others; of a Bidirectional
  /// first the forward layer's. Empty: zeros, or a stateful layer's last states. As in Keras, a
  /// call with initial states ignores the input's mask.
  std::vector<Tensor> initial_state = {};
};

/// A layer that runs over `[batch, time, ...]` step by step and returns its last output, or with
/// `return_sequences` those of all steps. At masked steps the states are kept and the output is
/// repeated.
class STRATA_API Recurrent : public keras::Layer {
 public:
  using Layer::Layer;
  using Layer::operator();
  keras::SymbolicTensor operator()(const keras::SymbolicTensor& x,
                                   const RecurrentCall<keras::SymbolicTensor>& options) const;
  at::Tensor operator()(const at::Tensor& x, const RecurrentCall<at::Tensor>& options) const;

  /// For a layer with `return_state`, returns {output, states...}.
  std::vector<keras::SymbolicTensor> with_states(
      const keras::SymbolicTensor& x,
      const RecurrentCall<keras::SymbolicTensor>& options = {}) const;
  keras::Tensors with_states(const at::Tensor& x,
                             const RecurrentCall<at::Tensor>& options = {}) const;

  /// Sets a stateful layer's states to 0. @throws Error kFailedPrecondition: it is not stateful.
  void reset_states() const;
};

/// `stateful` layers need a batch of known size, and one replica: with more, an example's next part
/// could be on another replica. @throws Error kUnimplemented: made under several.
struct LSTMOptions {
  activations::Activation activation = "tanh";
  activations::Activation recurrent_activation = "sigmoid";
  bool use_bias = true;
  initializers::Initializer kernel_initializer = "glorot_uniform";
  initializers::Initializer recurrent_initializer = "orthogonal";
  initializers::Initializer bias_initializer = "zeros";
  bool unit_forget_bias = true;
  regularizers::Regularizer kernel_regularizer = {};
  regularizers::Regularizer recurrent_regularizer = {};
  regularizers::Regularizer bias_regularizer = {};
  regularizers::Regularizer activity_regularizer = {};
  constraints::Constraint kernel_constraint = {};
  constraints::Constraint recurrent_constraint = {};
  constraints::Constraint bias_constraint = {};
  double dropout = 0;
  double recurrent_dropout = 0;
  std::optional<int64_t> seed = {};
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;  ///< Starts at the last step; outputs are in that order.
  bool stateful = false;
  bool unroll = false;  ///< Has no effect.
  /// Returns zeros at masked steps instead of the previous output.
  bool zero_output_for_mask = false;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

class STRATA_API LSTM : public Recurrent {
 public:
  explicit LSTM(int64_t units, const LSTMOptions& options = {});
};

struct GRUOptions {
  activations::Activation activation = "tanh";
  activations::Activation recurrent_activation = "sigmoid";
  bool use_bias = true;
  initializers::Initializer kernel_initializer = "glorot_uniform";
  initializers::Initializer recurrent_initializer = "orthogonal";
  initializers::Initializer bias_initializer = "zeros";
  regularizers::Regularizer kernel_regularizer = {};
  regularizers::Regularizer recurrent_regularizer = {};
  regularizers::Regularizer bias_regularizer = {};
  regularizers::Regularizer activity_regularizer = {};
  constraints::Constraint kernel_constraint = {};
  constraints::Constraint recurrent_constraint = {};
  constraints::Constraint bias_constraint = {};
  double dropout = 0;
  double recurrent_dropout = 0;
  bool reset_after = true;
  std::optional<int64_t> seed = {};
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool stateful = false;
  bool unroll = false;
  bool zero_output_for_mask = false;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

class STRATA_API GRU : public Recurrent {
 public:
  explicit GRU(int64_t units, const GRUOptions& options = {});
};

struct SimpleRNNOptions {
  activations::Activation activation = "tanh";
  bool use_bias = true;
  initializers::Initializer kernel_initializer = "glorot_uniform";
  initializers::Initializer recurrent_initializer = "orthogonal";
  initializers::Initializer bias_initializer = "zeros";
  regularizers::Regularizer kernel_regularizer = {};
  regularizers::Regularizer recurrent_regularizer = {};
  regularizers::Regularizer bias_regularizer = {};
  regularizers::Regularizer activity_regularizer = {};
  constraints::Constraint kernel_constraint = {};
  constraints::Constraint recurrent_constraint = {};
  constraints::Constraint bias_constraint = {};
  double dropout = 0;
  double recurrent_dropout = 0;
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool stateful = false;
  bool unroll = false;
  bool zero_output_for_mask = false;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

class STRATA_API SimpleRNN : public Recurrent {
 public:
  explicit SimpleRNN(int64_t units, const SimpleRNNOptions& options = {});
};

struct RNNOptions {
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool stateful = false;
  bool unroll = false;
  bool zero_output_for_mask = false;
  regularizers::Regularizer activity_regularizer = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// A recurrent layer of any cell, or of several stacked ones.
class STRATA_API RNN : public Recurrent {
 public:
  explicit RNN(const keras::Layer& cell, const RNNOptions& options = {});
  explicit RNN(const std::vector<keras::Layer>& cells, const RNNOptions& options = {});
};

}  // namespace strata::layers
