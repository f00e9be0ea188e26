"""Preprocessing layers of real Keras -> keras_layers_preprocessing.json.

The random ones get factors that leave nothing to chance: from a number to the same number.
"""

from keras_layer_cases import case, random, write  # isort: skip
import numpy as np
from keras import layers

rng = np.random.default_rng(5)
pixels = rng.integers(0, 256, (2, 5, 6, 3), dtype=np.uint8)
case("rescaling", layers.Rescaling(1.0 / 255), pixels)
case("rescaling_offset", layers.Rescaling(1 / 127.5, offset=-1), (2, 3, 4, 3), free=(1,))
case("rescaling_channels", layers.Rescaling([0.5, 2.0, 1.5], offset=[0.0, 1.0, -1.0]), (2, 3, 4, 3))
case("normalization_given", layers.Normalization(mean=[1.0, 2.0, 3.0], variance=[4.0, 0.5, 2.0]), (4, 3))
case("normalization_one", layers.Normalization(axis=None, mean=0.5, variance=4.0), (2, 3, 4))
case("normalization_invert", layers.Normalization(mean=[1.0, 2.0], variance=[4.0, 0.5], invert=True), (2, 3, 2),
     free=(1,))
case("normalization_first_axis", layers.Normalization(axis=1, mean=[1.0, 2.0, 3.0], variance=[4.0, 0.5, 2.0]),
     (2, 3, 2))
adapted = layers.Normalization()
adapted.adapt(random((50, 3), spread=3))
case("normalization_adapted", adapted, (4, 3), weights=False)
adapted = layers.Normalization(axis=(1, 3))
adapted.adapt(random((5, 2, 4, 3), spread=3))
case("normalization_adapted_axes", adapted, (2, 2, 4, 3), weights=False)
adapted = layers.Normalization(axis=None)
adapted.adapt(random((5, 2, 4), spread=3))
case("normalization_adapted_whole", adapted, (2, 2, 4), weights=False)

R = layers.Resizing
case("resizing", R(4, 7), (1, 6, 5, 2), free=(1, 2))
case("resizing_nearest", R(4, 7, interpolation="nearest"), (1, 6, 5, 2))
# TensorFlow rounds a bicubic's offsets to 1/1024, so only such sizes compare.
case("resizing_bicubic", R(3, 10, interpolation="bicubic"), (1, 6, 5, 2))
case("resizing_lanczos3", R(9, 5, interpolation="lanczos3"), (1, 6, 8, 2))
case("resizing_antialias", R(4, 3, antialias=True), (1, 9, 8, 2))
case("resizing_antialias_bicubic", R(4, 9, antialias=True, interpolation="bicubic"), (1, 9, 8, 2))
case("resizing_crop", R(4, 4, crop_to_aspect_ratio=True), (1, 6, 9, 2))
case("resizing_pad", R(4, 4, pad_to_aspect_ratio=True, fill_value=0.5), (1, 6, 9, 2))
case("resizing_channels_first", R(4, 4, data_format="channels_first"), (1, 2, 6, 9))
case("crop", layers.CenterCrop(3, 2), (1, 6, 5, 2), free=(1, 2))
case("crop_smaller", layers.CenterCrop(5, 4), (1, 3, 6, 2))
case("crop_channels_first", layers.CenterCrop(3, 3, data_format="channels_first"), (1, 2, 4, 5))
case("crop_bytes", layers.CenterCrop(3, 3), pixels)

case("flip_at_inference", layers.RandomFlip("vertical", seed=1), (1, 3, 4, 2))
images = (2, 5, 6, 2)
# Without gradients: TensorFlow's are those of another interpolation, backwards.
affine = {"training": True, "gradients": False}
for fill_mode in ("reflect", "wrap", "constant", "nearest"):
    case(f"rotation_{fill_mode}", layers.RandomRotation((0.11, 0.11), fill_mode=fill_mode, fill_value=0.3), images,
         **affine)
    case(f"translation_{fill_mode}", layers.RandomTranslation((0.31, 0.31), (-0.42, -0.42), fill_mode=fill_mode),
         images, **affine)
    case(f"zoom_{fill_mode}", layers.RandomZoom((0.37, 0.37), (-0.21, -0.21), fill_mode=fill_mode, fill_value=1.0),
         images, **affine)
case("rotation_nearest_pixel", layers.RandomRotation((-0.23, -0.23), interpolation="nearest"), images, **affine)
case("rotation_channels_first", layers.RandomRotation((0.3, 0.3), data_format="channels_first"), (2, 2, 5, 6),
     **affine)
case("rotation_at_inference", layers.RandomRotation(0.3, seed=4), images)
case("translation_at_inference", layers.RandomTranslation(0.3, [-0.1, 0.2]), images)
case("zoom_far", layers.RandomZoom((0.9, 0.9)), images, **affine)
case("zoom_at_inference", layers.RandomZoom(0.3), images)
case("contrast", layers.RandomContrast((0.0, 0.0), value_range=(-0.9, 1.1)), images, training=True)
case("contrast_at_inference", layers.RandomContrast(0.4), images)
case("brightness", layers.RandomBrightness((0.2, 0.2), value_range=(-1.0, 1.5)), images, training=True)
case("brightness_at_inference", layers.RandomBrightness(0.4, seed=2), images)
write("preprocessing")
