"""Dense and the layers of keras.layers that only change values -> keras_layers_core.json."""

from keras_layer_cases import case, random, write  # isort: skip
import keras
import numpy as np
from keras import layers

case("dense", layers.Dense(4), (5, 3))
case("dense_relu_no_bias", layers.Dense(4, activation="relu", use_bias=False), (5, 3))
case("dense_3d", layers.Dense(4, activation="tanh"), (2, 3, 4), free=(1,))
case("dense_regularized", layers.Dense(
    3, kernel_regularizer="l2", bias_regularizer=keras.regularizers.L1(0.02), activity_regularizer=keras.regularizers.L1L2(0.01, 0.02),
    kernel_constraint="non_neg", kernel_initializer="he_normal"), (4, 3))
case("dense_float64", layers.Dense(3, dtype="float64", trainable=False), (4, 200))
case("activation", layers.Activation("softplus"), (3, 4))
case("activation_softmax", layers.Activation("softmax"), (3, 4), free=(1,))
case("relu", layers.ReLU(), (3, 4))
case("relu_all", layers.ReLU(max_value=1.0, negative_slope=0.1, threshold=0.25), (4, 6))
case("leaky_relu", layers.LeakyReLU(), (3, 4))
case("leaky_relu_slope", layers.LeakyReLU(negative_slope=0.05), (3, 4, 2, 2))
case("prelu", layers.PReLU(alpha_initializer="ones", alpha_regularizer="l2"), (3, 4))
case("prelu_shared", layers.PReLU(shared_axes=[1, 2]), (2, 3, 4, 5), free=(1, 2))
case("elu", layers.ELU(), (3, 4))
case("softmax", layers.Softmax(), (3, 4))
case("softmax_axis", layers.Softmax(axis=1), (2, 3, 4))
case("softmax_axes", layers.Softmax(axis=[1, 2]), (2, 3, 4))
mask = np.array([[1, 1, 0, 1], [1, 0, 0, 0], [1, 1, 1, 1]])
case("softmax_mask", layers.Softmax(), (3, 4), masks=[mask])
case("activity_regularization", layers.ActivityRegularization(l1=0.1, l2=0.02), (3, 4), training=True)
case("identity", layers.Identity(), (3, 4, 2), free=(1,))
case("dropout_at_inference", layers.Dropout(0.4), (3, 4))
case("dropout_shape", layers.Dropout(0.4, noise_shape=(None, 1, 3), seed=7), (2, 4, 3))
case("spatial_dropout1d", layers.SpatialDropout1D(0.2), (2, 4, 3))
case("spatial_dropout2d", layers.SpatialDropout2D(0.2, data_format="channels_first"), (2, 4, 3, 2))
case("spatial_dropout3d", layers.SpatialDropout3D(0.2), (2, 4, 3, 2, 1))
case("gaussian_dropout", layers.GaussianDropout(0.2, seed=3), (3, 4))
case("gaussian_noise", layers.GaussianNoise(0.2), (3, 4))
case("alpha_dropout", layers.AlphaDropout(0.2, noise_shape=(3, 1)), (3, 4))
write("core")
