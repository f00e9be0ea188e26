#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/activations.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers/option_types.h"

/// Convolutions: `[batch, spatial..., channels]` to `[batch, spatial..., filters]`, or with
/// channels first both ways. Kernels have Keras's shape, (spatial..., in, out).
///
/// Options: `padding` is "valid" or "same", `data_format` "channels_last" or "channels_first";
/// either `strides` or `dilation_rate` must be 1 in all dimensions.
/// @throws Error kInvalidArgument: options that contradict each other or the input.
/// Memory: results are `[batch, filters, spatial...]` in memory, below a view of the shape above;
/// the next convolution takes them without a copy.
/// Source: keras.layers 3.15.
namespace strata::layers {

template <size_t N>
struct ConvOptions {
  keras::Sizes<N> strides = 1;
  Padding padding = "valid";  ///< Also "causal" in Conv1D.
  DataFormat data_format = "channels_last";
  keras::Sizes<N> dilation_rate = 1;
  int64_t groups = 1;  ///< Divides the channels and `filters`.
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

///     layers::Conv2D(32, 3, {.strides = 2, .padding = "same", .activation = "relu"})
class STRATA_API Conv1D : public keras::Layer {
 public:
  Conv1D(int64_t filters, keras::Sizes<1> kernel_size, const ConvOptions<1>& options = {});
};
class STRATA_API Conv2D : public keras::Layer {
 public:
  Conv2D(int64_t filters, keras::Sizes<2> kernel_size, const ConvOptions<2>& options = {});
};
class STRATA_API Conv3D : public keras::Layer {
 public:
  Conv3D(int64_t filters, keras::Sizes<3> kernel_size, const ConvOptions<3>& options = {});
};

template <size_t N>
struct ConvTransposeOptions {
  keras::Sizes<N> strides = 1;
  Padding padding = "valid";
  /// The size added to the smallest output that the strides allow, less than them; unset: as in
  /// Keras, "same" gives input * strides.
  std::optional<keras::Sizes<N>> output_padding = {};
  DataFormat data_format = "channels_last";
  keras::Sizes<N> dilation_rate = 1;
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

/// The gradient of a convolution as a layer. The kernel is (spatial..., out, in).
class STRATA_API Conv1DTranspose : public keras::Layer {
 public:
  Conv1DTranspose(int64_t filters, keras::Sizes<1> kernel_size,
                  const ConvTransposeOptions<1>& options = {});
};
class STRATA_API Conv2DTranspose : public keras::Layer {
 public:
  Conv2DTranspose(int64_t filters, keras::Sizes<2> kernel_size,
                  const ConvTransposeOptions<2>& options = {});
};
class STRATA_API Conv3DTranspose : public keras::Layer {
 public:
  Conv3DTranspose(int64_t filters, keras::Sizes<3> kernel_size,
                  const ConvTransposeOptions<3>& options = {});
};

template <size_t N>
struct DepthwiseConvOptions {
  keras::Sizes<N> strides = 1;
  Padding padding = "valid";
  int64_t depth_multiplier = 1;
  DataFormat data_format = "channels_last";
  keras::Sizes<N> dilation_rate = 1;
  activations::Activation activation = {};
  bool use_bias = true;
  initializers::Initializer depthwise_initializer = "glorot_uniform";
  initializers::Initializer bias_initializer = "zeros";
  regularizers::Regularizer depthwise_regularizer = {};
  regularizers::Regularizer bias_regularizer = {};
  regularizers::Regularizer activity_regularizer = {};
  constraints::Constraint depthwise_constraint = {};
  constraints::Constraint bias_constraint = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// Convolves each channel by itself, with `depth_multiplier` results each. The kernel is
/// (spatial..., in, multiplier).
class STRATA_API DepthwiseConv1D : public keras::Layer {
 public:
  explicit DepthwiseConv1D(keras::Sizes<1> kernel_size,
                           const DepthwiseConvOptions<1>& options = {});
};
class STRATA_API DepthwiseConv2D : public keras::Layer {
 public:
  explicit DepthwiseConv2D(keras::Sizes<2> kernel_size,
                           const DepthwiseConvOptions<2>& options = {});
};

template <size_t N>
struct SeparableConvOptions {
  keras::Sizes<N> strides = 1;
  Padding padding = "valid";
  DataFormat data_format = "channels_last";
  keras::Sizes<N> dilation_rate = 1;
  int64_t depth_multiplier = 1;
  activations::Activation activation = {};
  bool use_bias = true;
  initializers::Initializer depthwise_initializer = "glorot_uniform";
  initializers::Initializer pointwise_initializer = "glorot_uniform";
  initializers::Initializer bias_initializer = "zeros";
  regularizers::Regularizer depthwise_regularizer = {};
  regularizers::Regularizer pointwise_regularizer = {};
  regularizers::Regularizer bias_regularizer = {};
  regularizers::Regularizer activity_regularizer = {};
  constraints::Constraint depthwise_constraint = {};
  constraints::Constraint pointwise_constraint = {};
  constraints::Constraint bias_constraint = {};
  std::string name = {};
  keras::DTypePolicy dtype = {};
};

/// A depthwise convolution, then one with a kernel of size 1 that mixes the channels.
class STRATA_API SeparableConv1D : public keras::Layer {
 public:
  SeparableConv1D(int64_t filters, keras::Sizes<1> kernel_size,
                  const SeparableConvOptions<1>& options = {});
};
class STRATA_API SeparableConv2D : public keras::Layer {
 public:
  SeparableConv2D(int64_t filters, keras::Sizes<2> kernel_size,
                  const SeparableConvOptions<2>& options = {});
};

}  // namespace strata::layers
