"""What keras_layers_mixed_<dtype>.py share: one of each kind of layer, on float32 inputs that the policy casts."""

from keras_layer_cases import case, random, write  # noqa: F401  isort: skip
import keras
import numpy as np
from keras import layers


def cases(policy):
    keras.config.set_dtype_policy(policy)
    case("dense", layers.Dense(4, activation="relu", activity_regularizer="l2", kernel_regularizer="l2"), random((5, 3)))
    case("dense_float32_inside", layers.Dense(4, dtype="float32"), random((5, 3), policy.removeprefix("mixed_")))
    case("einsum_dense", layers.EinsumDense("abc,cd->abd", output_shape=(None, 4), bias_axes="d"), random((2, 3, 5)))
    case("conv1d", layers.Conv1D(3, 3, padding="causal"), random((2, 6, 2)))
    case("conv2d", layers.Conv2D(4, 3, strides=2, padding="same"), random((2, 7, 5, 3)))
    case("conv2d_transpose", layers.Conv2DTranspose(2, 3, strides=2), random((2, 4, 3, 2)))
    case("depthwise_conv2d", layers.DepthwiseConv2D(3, depth_multiplier=2), random((2, 6, 5, 2)))
    case("separable_conv2d", layers.SeparableConv2D(3, 3, padding="same"), random((2, 5, 5, 2)))
    case("batch_normalization_training", layers.BatchNormalization(momentum=0.9), random((6, 4)), training=True)
    case("batch_normalization", layers.BatchNormalization(), random((6, 4)))
    case("layer_normalization", layers.LayerNormalization(), random((4, 6)))
    case("group_normalization", layers.GroupNormalization(2), random((2, 3, 3, 4)))
    case("unit_normalization", layers.UnitNormalization(), random((4, 5)))
    case("softmax", layers.Softmax(), random((3, 5)))
    case("activation", layers.Activation("gelu"), random((3, 5)))
    case("prelu", layers.PReLU(), random((3, 4)))
    case("max_pooling2d", layers.MaxPooling2D(), random((2, 4, 4, 3)))
    case("average_pooling2d", layers.AveragePooling2D(2, padding="same"), random((2, 5, 5, 3)))
    case("global_average_pooling2d", layers.GlobalAveragePooling2D(), random((2, 4, 4, 3)))
    mask = np.array([[1, 1, 0, 1], [1, 0, 0, 0]])
    case("global_average_pooling1d_mask", layers.GlobalAveragePooling1D(), random((2, 4, 3)), masks=[mask])
    case("embedding", layers.Embedding(7, 4), np.array([[1, 2, 6], [0, 3, 3]]))
    case("lstm", layers.LSTM(3, return_sequences=True, return_state=True), random((2, 4, 3)))
    case("lstm_mask", layers.LSTM(3), random((2, 4, 3)), masks=[mask])
    case("gru", layers.GRU(3), random((2, 4, 3)))
    case("simple_rnn", layers.SimpleRNN(3), random((2, 4, 3)))
    case("bidirectional", layers.Bidirectional(layers.LSTM(2, return_sequences=True)), random((2, 4, 3)))
    case("time_distributed", layers.TimeDistributed(layers.Dense(2)), random((2, 4, 3)))
    case("multi_head_attention", layers.MultiHeadAttention(2, 3), random((2, 4, 5)), random((2, 3, 5)), spread=True)
    case("attention", layers.Attention(use_scale=True), random((2, 4, 5)), random((2, 3, 5)))
    case("add", layers.Add(), random((3, 4)), random((3, 4)))
    case("concatenate", layers.Concatenate(), random((3, 4)), random((3, 2)))
    case("dot", layers.Dot(axes=1), random((3, 4)), random((3, 4)))
    case("reshape", layers.Reshape((2, 2)), random((3, 4)))
    case("zero_padding2d", layers.ZeroPadding2D(1), random((2, 3, 3, 1)))
    case("up_sampling2d", layers.UpSampling2D(2, interpolation="bilinear"), random((2, 3, 3, 1)))
    case("rescaling", layers.Rescaling(0.5, 0.1), random((2, 3)))
    case("normalization", layers.Normalization(mean=[0.1, 0.2, 0.3], variance=[1.0, 2.0, 0.5]), random((2, 3)), weights=False)
    case("dropout_at_inference", layers.Dropout(0.4), random((3, 4)))
