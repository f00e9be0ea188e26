"""SpectralNormalization of real Keras -> keras_layers_spectral_normalization.json."""

from keras_layer_cases import case, write  # isort: skip
from keras import layers

S = layers.SpectralNormalization
case("dense", S(layers.Dense(4, name="inner")), (3, 5), training=True)
case("dense_at_inference", S(layers.Dense(4)), (3, 5))
case("iterations", S(layers.Dense(4, kernel_regularizer="l2"), power_iterations=3), (3, 5), training=True)
case("conv", S(layers.Conv2D(3, 2, padding="same")), (2, 4, 5, 2), training=True, free=(1, 2))
case("zeros", S(layers.Dense(4, kernel_initializer="zeros")), (3, 5), training=True, weights=False)
write("spectral_normalization")
