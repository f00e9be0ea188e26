"""Transposed convolutions of real Keras -> keras_layers_conv_transpose.json."""

from keras_layer_cases import case, write  # isort: skip
from keras import layers

T1, T2, T3 = layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose
case("1d", T1(3, 3), (2, 5, 4), free=(1,))
case("1d_same_stride", T1(3, 3, strides=2, padding="same", activation="relu"), (2, 5, 4), free=(1,))
case("1d_short_kernel", T1(2, 1, strides=3), (2, 4, 2))
case("1d_short_kernel_same", T1(2, 2, strides=3, padding="same"), (2, 4, 2))
case("1d_channels_first", T1(3, 4, strides=2, data_format="channels_first", use_bias=False), (2, 4, 5))
case("2d", T2(3, 3), (2, 4, 3, 2), free=(1, 2))
case("2d_same", T2(3, 3, padding="same"), (2, 4, 3, 2))
case("2d_stride", T2(2, (2, 3), strides=2), (2, 4, 3, 2))
case("2d_same_stride", T2(2, 3, strides=2, padding="same"), (2, 4, 3, 2), free=(1, 2))
case("2d_same_stride_even", T2(2, 4, strides=2, padding="same", use_bias=False), (2, 4, 3, 2))
case("2d_same_uneven", T2(2, (5, 2), strides=(3, 2), padding="same"), (1, 3, 4, 2))
case("2d_short_kernel", T2(2, (1, 2), strides=3), (1, 3, 4, 2))
case("2d_output_padding", T2(2, 3, strides=3, output_padding=1), (1, 3, 4, 2), free=(1,))
case("2d_output_padding_same", T2(2, 3, strides=2, padding="same", output_padding=(1, 1)), (1, 3, 4, 2))
case("2d_channels_first", T2(2, 3, strides=2, data_format="channels_first"), (1, 3, 4, 2))
case("2d_regularized", T2(2, 2, kernel_regularizer="l2", activity_regularizer="l2", bias_constraint="non_neg"),
     (2, 3, 3, 2))
case("3d", T3(2, 2), (1, 2, 3, 2, 2), free=(1, 2, 3))
case("3d_same_stride", T3(2, 3, strides=2, padding="same"), (1, 2, 3, 2, 2))
write("conv_transpose")
