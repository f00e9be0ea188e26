#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/keras/activations.h"
#include "strata/keras/constraints.h"
#include "strata/keras/initializers.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/option_types.h"
#include "strata/keras/regularizers.h"

/// LSTMs whose products are convolutions. Source: keras.layers 3.15; Shi et al. 2015.
namespace strata::layers {

template <size_t N>
struct ConvLSTMOptions {
  keras::Sizes<N> strides = 1;  ///< Of the inputs' convolution; that of the states has 1.
  Padding padding = "valid";    ///< Likewise; the states' has "same".
  DataFormat data_format = "channels_last";
  keras::Sizes<N> dilation_rate = 1;
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
  bool return_state = false;  ///< Outputs are then {output, h, c}: `call` gives them all.
  bool go_backwards = false;  ///< Starts at the last step; outputs are in that order.
  bool stateful = false;
  bool unroll = false;  ///< Has no effect.
  /// Returns zeros at masked steps instead of the previous output.
  bool zero_output_for_mask = false;
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// `[batch, time, length, channels]` to `[batch, length', filters]`, or with `return_sequences`
/// `[batch, time, length', filters]`. The option of a call `initial_state` names h and c among the
/// inputs, as those of LSTM do.
/// @throws Error kInvalidArgument, when built: sizes of images that are not known.
class STRATA_API ConvLSTM1D : public keras::Layer {
 public:
  ConvLSTM1D(int64_t filters, keras::Sizes<1> kernel_size, const ConvLSTMOptions<1>& options = {});
  /// Of a stateful layer: its next call starts with zeros. @throws Error kFailedPrecondition: it is
  /// not stateful.
  void reset_states() const;
};
/// The same for images `[batch, time, height, width, channels]`.
class STRATA_API ConvLSTM2D : public keras::Layer {
 public:
  ConvLSTM2D(int64_t filters, keras::Sizes<2> kernel_size, const ConvLSTMOptions<2>& options = {});
  void reset_states() const;
};
/// The same for volumes `[batch, time, depth, height, width, channels]`.
class STRATA_API ConvLSTM3D : public keras::Layer {
 public:
  ConvLSTM3D(int64_t filters, keras::Sizes<3> kernel_size, const ConvLSTMOptions<3>& options = {});
  void reset_states() const;
};

}  // namespace strata::layers
