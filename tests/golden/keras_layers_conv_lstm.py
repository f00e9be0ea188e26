"""ConvLSTM1D, 2D and 3D of real Keras -> keras_layers_conv_lstm.json."""

from keras_layer_cases import case, write  # isort: skip
import numpy as np
from keras import layers

C1, C2, C3 = layers.ConvLSTM1D, layers.ConvLSTM2D, layers.ConvLSTM3D
case("one", C1(3, 2), (2, 3, 5, 2))
case("two", C2(3, 2), (2, 3, 4, 5, 2))
case("three", C3(2, 2), (2, 2, 3, 3, 4, 2))
case("sequences", C2(2, (2, 3), return_sequences=True), (2, 3, 4, 5, 2), free=(1,))
case("state", C1(2, 3, return_sequences=True, return_state=True, padding="same"), (2, 3, 5, 2))
case("strides", C2(2, 3, strides=(2, 1), padding="same"), (2, 3, 5, 4, 2))
case("dilation", C1(2, 2, dilation_rate=2), (2, 3, 6, 2))
case("backwards", C1(2, 2, go_backwards=True, return_sequences=True), (2, 3, 5, 2))
case("activations", C1(2, 2, activation="relu", recurrent_activation="hard_sigmoid", use_bias=False), (2, 3, 5, 2))
case("bias", C1(2, 2, unit_forget_bias=False, bias_initializer="ones", kernel_regularizer="l2", activity_regularizer="l1"),
     (2, 3, 5, 2), weights=False)
case("masked", C1(2, 2, return_sequences=True), (2, 3, 5, 2), masks=[np.array([[1, 0, 1], [0, 1, 0]], bool)])
case("masked_last", C1(2, 2), (2, 3, 5, 2), masks=[np.array([[1, 0, 1], [0, 1, 0]], bool)])
case("dropout_at_inference", C1(2, 2, dropout=0.3, recurrent_dropout=0.2, seed=4), (2, 3, 5, 2))
case("initial_state", C1(2, 2), (2, 3, 5, 2), (2, 4, 2), (2, 4, 2), call={"initial_state": [{"tensor": 1}, {"tensor": 2}]})
write("conv_lstm")
