"""Writes keras_layers_color_augmentation.json and keras_layers_categories.json: layers through which no gradient is asked for.

    KERAS_BACKEND=jax python keras_layers_without_gradients.py

The random ones have factors that leave nothing to chance, so their results are compared, too. The format is that of
keras_layer_cases.py; needs `pip install "keras==3.15.*" jax`. The C++ side is tests/keras/layer_golden_test.cc.
"""

import json
import os

os.environ["KERAS_BACKEND"] = "jax"  # whatever the others run on

import jax
import keras
import numpy as np
from keras import layers as L

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(22)


def numbers(value):
    value = np.asarray(value)
    flat = value.reshape(-1).tolist()
    if value.dtype.kind == "f":
        flat = [float("%.9g" % x) for x in flat]
    return {"shape": list(value.shape), "dtype": value.dtype.name, "data": flat}


def case(name, layer, x, training=True, batch=True):
    x = np.asarray(x)
    config = keras.saving.serialize_keras_object(layer)
    record = {
        "name": name,
        "layer": config,
        "inputs": [numbers(x)],
        "call": None,
        "training": bool(training),
        "weights": [],
        "weight_names": [],
    }
    y = layer(keras.Input(batch_shape=(None,) + x.shape[1:], dtype=x.dtype.name))
    record["output_shapes"] = [list(y.shape)]
    # Discretization says int32, and gives what NumPy counts in.
    value = np.asarray(layer(x) if training is None else layer(x, training=training))
    record["outputs"] = [numbers(value.astype(y.dtype) if value.dtype.kind == "i" else value)]
    if not batch:
        record["no_empty_batch"] = True
    json.dumps(record, allow_nan=False)
    return record


def write(family, records):
    name = f"keras_layers_{family}.json"
    with open(os.path.join(HERE, name), "w", encoding="utf-8") as out:
        out.write(json.dumps({"keras": keras.__version__, "jax": jax.__version__})[:-1] + ', "cases": [\n')
        out.write(",\n".join(json.dumps(r, separators=(",", ":")) for r in records))
        out.write("\n]}\n")
    print(f"{name}: {len(records)} cases")


pixels = rng.uniform(1, 254, (2, 4, 5, 3)).round(2).astype("float32")
unit = rng.uniform(0.05, 0.95, (2, 4, 5, 3)).round(4).astype("float32")
first = dict(data_format="channels_first")
turned = np.ascontiguousarray(unit.transpose(0, 3, 1, 2))
small = dict(value_range=(0, 1))
write("color_augmentation", [
    case("all", L.RandomGrayscale(1.0), pixels),
    case("none", L.RandomGrayscale(0.0), pixels),
    case("first", L.RandomGrayscale(1.0, **first), turned),
    case("always", L.RandomInvert((1.0, 1.0)), pixels),
    case("unit", L.RandomInvert((1.0, 1.0), **small), unit),
    case("three_bits", L.RandomPosterization((3, 3)), pixels),
    case("unit", L.RandomPosterization((5, 5), **small), unit),
    case("more", L.RandomSaturation((0.7, 0.7), **small), unit),
    case("less", L.RandomSaturation((0.2, 0.2), **small), unit),
    case("opposite", L.RandomHue((1.0, 1.0), **small), unit),
    case("pixels", L.RandomHue((1.0, 1.0)), pixels),
    case("half", L.RandomColorDegeneration((0.5, 0.5)), pixels),
    case("first", L.RandomColorDegeneration((0.3, 0.3), **small, **first), turned),
    case("sharper", L.RandomSharpness((0.8, 0.8)), pixels),
    case("smoother", L.RandomSharpness((0.1, 0.1), **small), unit),
    case("inverts", L.Solarization(), pixels),
    case("unit", L.Solarization(0.0, 0.0, value_range=(0, 1)), unit),
    case("stretches", L.AutoContrast(), pixels),
    case("at_inference", L.AutoContrast(value_range=(0, 1)), unit, training=None),
    case("flat", L.AutoContrast(), np.full((1, 2, 2, 3), 7.0, "float32")),
    case("everything", L.RandomErasing((1.0, 1.0), scale=(1.0, 1.0), fill_value=9.0), pixels),
    case("never", L.RandomErasing((0.0, 0.0), fill_value=9.0), pixels),
])

tall = rng.uniform(0, 255, (2, 9, 7, 3)).round(1).astype("float32")
small_tall = np.ascontiguousarray((tall / 255).round(4).transpose(0, 3, 1, 2))
CLAHE = L.ContrastLimitedAdaptiveHistogramEqualization
write("histogram_equalization", [
    case("pixels", L.Equalization(), tall),
    case("few_bins", L.Equalization(bins=8), tall),
    case("unit", L.Equalization(value_range=(0, 1), **first), small_tall),
    case("flat", L.Equalization(), np.full((1, 2, 2, 3), 7.0, "float32")),
    case("at_inference", L.Equalization(), tall, training=False),
    case("eight", CLAHE(), tall),
    case("two", CLAHE(tile_grid_size=(2, 3), clip_limit=2.0), tall),
    case("unlimited", CLAHE(tile_grid_size=(3, 2), clip_limit=0.0), tall),
    case("unit", CLAHE(value_range=(0, 1), tile_grid_size=(2, 2), **first), small_tall),
    case("at_inference", CLAHE(tile_grid_size=(2, 2)), tall, training=False),
])

write("augmentation_policies", [
    case("nothing", L.RandomColorJitter(), pixels),
    case("colors", L.RandomColorJitter(value_range=(0, 1), saturation_factor=(0.7, 0.7)), unit),
    case("bright", L.RandomColorJitter(brightness_factor=(0.2, 0.2)), pixels),
    case("both", L.RandomColorJitter(value_range=(0, 1), brightness_factor=(-0.1, -0.1), contrast_factor=(0.0, 0.0),
                                     saturation_factor=(0.3, 0.3)), unit),
    case("no_ops", L.RandAugment(num_ops=0), pixels),
    case("at_inference", L.RandAugment(factor=0.7, value_range=(0, 1)), unit, training=False),
    case("no_depth", L.AugMix(chain_depth=0), pixels),
    case("at_inference", L.AugMix(all_ops=False, alpha=0.5, num_chains=2), pixels, training=False),
])

tokens = np.array([[1, 2, 2], [0, 3, 1]], "int32")
ranges = np.array([[-1.5, 0.0, 0.4], [1.0, 3.5, 2.0]], "float32")
write("categories", [
    case("multi_hot", L.CategoryEncoding(4), tokens, training=None),
    case("one_hot", L.CategoryEncoding(4, output_mode="one_hot"), tokens, training=None),
    case("one_hot_column", L.CategoryEncoding(4, output_mode="one_hot"), tokens[:, :1], training=None),
    case("count", L.CategoryEncoding(4, output_mode="count"), tokens, training=None),
    case("int", L.Discretization([0.0, 1.0, 2.0]), ranges, training=None),
    case("one_hot", L.Discretization([0.0, 1.0, 2.0], output_mode="one_hot"), ranges, training=None),
    case("multi_hot", L.Discretization([0.0, 1.0, 2.0], output_mode="multi_hot"), ranges, training=None),
    case("count", L.Discretization([0.0, 1.0, 2.0], output_mode="count"), ranges, training=None),
])

# What `adapt` makes of numbers (without TensorFlow it is called in two steps).
for bins, epsilon, data in [(4, 0.01, np.arange(100)), (3, 0.1, np.arange(50) ** 2)]:
    layer = L.Discretization(num_bins=bins, epsilon=epsilon)
    layer.update_state(data)
    layer.finalize_state()
    print(f"num_bins={bins}, epsilon={epsilon}: {layer.bin_boundaries}")
