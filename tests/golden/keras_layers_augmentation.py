"""More augmentation layers of real Keras -> keras_layers_augmentation.json, with factors that leave nothing to chance."""

from keras_layer_cases import case, write  # isort: skip
from keras import layers

images = (2, 5, 6, 2)
off = {"gradients": False}
case("shear_at_inference", layers.RandomShear(0.3, (0.1, 0.2), seed=3), images)
case("perspective_at_inference", layers.RandomPerspective(0.5, scale=0.3, seed=3), images)
case("elastic_at_inference", layers.RandomElasticTransform((0.2, 0.9), scale=(0.1, 0.5), fill_mode="wrap"), images)
case("elastic_none", layers.RandomElasticTransform(1.0, scale=0.0, value_range=(-9, 9)), images, training=True, **off)
blur = layers.RandomGaussianBlur
case("blur", blur((1.0, 1.0), sigma=(0.7, 0.7), value_range=(-9, 9)), images, training=True, **off)
# With two sizes TensorFlow backend's kernel is a wrong one: it is reshaped, not transposed.
case("blur_larger", blur((1.0, 1.0), kernel_size=(5, 5), sigma=(1.0, 1.0), value_range=(-0.5, 0.8)), images, training=True, **off)
case("blur_channels_first", blur((1.0, 1.0), kernel_size=3, sigma=(0.4, 0.4), value_range=(-9, 9), data_format="channels_first"),
     (2, 2, 5, 6), training=True, **off)
case("blur_at_inference", blur(0.4, kernel_size=3, sigma=0.6, seed=5), images)
case("mix_up_at_inference", layers.MixUp(alpha=0.4, seed=2), images)
case("cut_mix_at_inference", layers.CutMix(factor=0.4, seed=2), images)
write("augmentation")
