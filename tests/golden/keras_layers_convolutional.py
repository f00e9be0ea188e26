"""Convolution layers of real Keras -> keras_layers_convolutional.json."""

from keras_layer_cases import case, write  # isort: skip
import keras
from keras import layers

C1, C2, C3 = layers.Conv1D, layers.Conv2D, layers.Conv3D
case("1d", C1(3, 3), (2, 7, 4), free=(1,))
case("1d_same_stride", C1(3, 4, strides=3, padding="same", activation="relu"), (2, 8, 2), free=(1,))
case("1d_causal", C1(3, 3, padding="causal", dilation_rate=2), (2, 8, 2), free=(1,))
case("1d_causal_stride", C1(2, 2, padding="causal", strides=2), (2, 7, 2))
case("1d_channels_first", C1(3, 2, data_format="channels_first", use_bias=False), (2, 4, 6))
case("1d_groups", C1(4, 3, groups=2, padding="same"), (2, 5, 6))
case("2d", C2(3, 3), (2, 6, 5, 2), free=(1, 2))
case("2d_one_channel", C2(4, 3, activation="relu"), (2, 7, 7, 1))
case("2d_1x1", C2(5, 1), (2, 4, 3, 3))
case("2d_one_to_one", C2(1, 3, padding="same"), (2, 4, 3, 1))
case("2d_uneven", C2(3, (2, 3), strides=(3, 2)), (1, 7, 8, 2), free=(1, 2))
case("2d_same", C2(3, 3, padding="same", use_bias=False), (2, 5, 4, 2), free=(2,))
case("2d_same_even_kernel", C2(3, (4, 2), padding="same"), (2, 5, 4, 2))
case("2d_same_stride_even", C2(3, 3, strides=2, padding="same"), (1, 8, 6, 2), free=(1, 2))
case("2d_same_stride_odd", C2(3, 3, strides=2, padding="same"), (1, 7, 5, 2))
case("2d_same_mixed", C2(2, (5, 2), strides=(3, 1), padding="same"), (1, 7, 6, 2))
case("2d_dilated", C2(2, 3, dilation_rate=2), (1, 7, 8, 2), free=(1,))
case("2d_dilated_same", C2(2, (3, 2), dilation_rate=(2, 3), padding="same"), (1, 7, 6, 2))
case("2d_groups", C2(6, 3, groups=3, padding="same"), (2, 4, 5, 6))
case("2d_winograd_size", C2(16, 3, padding="same", use_bias=True), (1, 9, 8, 16))
# Not with outputs as wide as they have channels: Keras 3.15.1 on TensorFlow then adds the bias along the width.
case("2d_channels_first", C2(3, 3, data_format="channels_first", padding="valid"), (2, 2, 5, 6), free=(2, 3))
case("2d_regularized", C2(2, 2, kernel_regularizer="l2", bias_regularizer="l1", activity_regularizer="l2",
                          kernel_constraint="max_norm", bias_initializer="ones", activation="tanh"), (2, 4, 4, 2))
case("2d_float64_frozen", C2(2, 2, dtype="float64", trainable=False), (1, 3, 3, 2))
case("3d", C3(2, 2), (1, 4, 3, 5, 2), free=(1, 2, 3))
case("3d_same_stride", C3(2, (3, 2, 1), strides=(2, 1, 2), padding="same"), (1, 4, 3, 5, 2))
case("3d_dilated", C3(2, 2, dilation_rate=2), (1, 4, 3, 5, 2))

D1, D2 = layers.DepthwiseConv1D, layers.DepthwiseConv2D
case("depthwise1d", D1(3, depth_multiplier=2), (2, 7, 3), free=(1,))
case("depthwise1d_same", D1(2, strides=2, padding="same"), (2, 7, 3))
case("depthwise1d_dilated", D1(3, dilation_rate=2, use_bias=False), (2, 7, 3))
case("depthwise1d_channels_first", D1(3, data_format="channels_first"), (2, 3, 7))
case("depthwise2d", D2(3), (2, 6, 5, 3), free=(1, 2))
case("depthwise2d_multiplier", D2((2, 3), depth_multiplier=3, padding="same", activation="relu"), (2, 4, 5, 2))
case("depthwise2d_same_stride", D2(3, strides=2, padding="same", depthwise_regularizer="l2",
                                   activity_regularizer="l1"), (1, 6, 7, 3))
case("depthwise2d_dilated", D2(2, dilation_rate=2, depth_multiplier=2), (1, 6, 5, 2))
case("depthwise2d_channels_first", D2(3, data_format="channels_first", padding="same", strides=2), (2, 3, 5, 4))

S1, S2 = layers.SeparableConv1D, layers.SeparableConv2D
case("separable1d", S1(4, 3), (2, 7, 3), free=(1,))
case("separable1d_same", S1(2, 2, strides=2, padding="same", depth_multiplier=2), (2, 7, 3))
case("separable2d", S2(4, 3), (2, 6, 5, 3), free=(1, 2))
case("separable2d_multiplier", S2(3, (2, 3), depth_multiplier=2, padding="same", activation="relu",
                                  pointwise_regularizer="l2"), (2, 4, 5, 2))
case("separable2d_same_stride", S2(3, 3, strides=2, padding="same", use_bias=False), (1, 6, 7, 3))
case("separable2d_channels_first", S2(3, 3, data_format="channels_first"), (1, 2, 5, 4))
case("separable2d_dilated", S2(2, 2, dilation_rate=2), (1, 5, 5, 2))
write("convolutional")
