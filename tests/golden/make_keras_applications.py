#!/usr/bin/env python3
"""Writes keras_applications.json: networks of keras.applications with some options, and what some of them predict; and
keras_applications_weights_alone.h5, weights in the format of ImageNet's files.

    python3 make_keras_applications.py
    python3 make_keras_applications.py --layer CASE LAYER   # prints what the digest of a layer is of; both count from 0

A case has the model's name, its parameters, the shapes of its weights as one digest, and a digest of each layer: of its class, options
and inputs as Keras's JSON has them, in the form of `canonical`. Weights and images for predictions are `numbers`, by their index.
"""
import json
import os
import pathlib
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import h5py
import keras
import numpy as np
from keras.src.legacy.saving import legacy_h5_format

from golden_io import numbers

SMALL = {"input_shape": [32, 32, 3], "classes": 10}
LOGITS = {**SMALL, "classifier_activation": "linear"}
PREDICTED = {
    "ResNet50": [64, 64, 3], "ResNet50V2": [64, 64, 3], "VGG16": [32, 32, 3], "VGG19": [32, 33, 3], "DenseNet121": [40, 33, 3],
    "InceptionV3": [75, 80, 3], "InceptionResNetV2": [75, 80, 3], "Xception": [72, 75, 3], "MobileNet": [64, 65, 3],
    "MobileNetV2": [65, 64, 3], "MobileNetV3Small": [64, 65, 3], "MobileNetV3Large": [65, 64, 3], "EfficientNetB0": [65, 64, 3],
    "EfficientNetV2B0": [65, 64, 3], "EfficientNetV2S": [64, 64, 3], "ConvNeXtTiny": [64, 70, 3], "NASNetMobile": [66, 64, 3],
}
PIXELS = ("MobileNetV3", "EfficientNet", "ConvNeXt")   # these scale their inputs themselves
OTHERS = ["ResNet101", "ResNet152", "ResNet101V2", "ResNet152V2", "DenseNet169", "DenseNet201",
          *(f"EfficientNetB{i}" for i in range(1, 8)), *(f"EfficientNetV2{x}" for x in ("B1", "B2", "B3", "M", "L")),
          *(f"ConvNeXt{x}" for x in ("Small", "Base", "Large", "XLarge")), "NASNetLarge"]
NO_TOP = {"include_top": False}
PREDICTING = [(name, {**LOGITS, "input_shape": shape}) for name, shape in PREDICTED.items()]
OTHER_CASES = [(name, {**NO_TOP, "input_shape": [331, 331, 3]} if name == "NASNetLarge" else NO_TOP) for name in OTHERS]
WITH_OPTIONS = [
    ("ResNet50", {**NO_TOP, "pooling": "max"}),
    ("ResNet50V2", SMALL),
    ("VGG16", NO_TOP),
    ("VGG19", {**NO_TOP, "pooling": "avg"}),
    ("DenseNet121", {**NO_TOP, "pooling": "avg"}),
    ("InceptionV3", {**NO_TOP, "pooling": "avg"}),
    ("InceptionResNetV2", {**NO_TOP, "pooling": "max"}),
    ("Xception", {**NO_TOP, "pooling": "max"}),
    ("MobileNet", {**NO_TOP, "alpha": 0.5, "depth_multiplier": 2, "pooling": "avg"}),
    ("MobileNet", {"alpha": 1.3, "dropout": 0.2, "classes": 3}),
    ("MobileNetV2", {**NO_TOP, "alpha": 1.4}),
    ("MobileNetV2", {**NO_TOP, "alpha": 0.35, "input_shape": [96, 96, 1], "name": "small"}),
    ("MobileNetV3Small", {"alpha": 1.25, "dropout_rate": 0.0}),
    ("MobileNetV3Small", {**NO_TOP, "minimalistic": True, "pooling": "max"}),
    ("MobileNetV3Large", {**LOGITS, "minimalistic": True, "include_preprocessing": False, "alpha": 0.75}),
    ("EfficientNetB0", {**NO_TOP, "pooling": "avg", "name": "mine"}),
    ("EfficientNetV2B0", {**SMALL, "include_preprocessing": False}),
    ("EfficientNetV2B0", {"input_shape": [48, 48, 1], "classes": 5}),
    ("EfficientNetV2B0", {**NO_TOP, "pooling": "max"}),
    ("ConvNeXtTiny", {**NO_TOP, "pooling": "avg", "name": "mine"}),
    ("ConvNeXtTiny", {**SMALL, "include_preprocessing": False}),
    ("NASNetMobile", NO_TOP),
    ("NASNetMobile", {**NO_TOP, "pooling": "avg", "input_shape": [50, 47, 3]}),
]
KINDS = {"predicting": PREDICTING, "other": OTHER_CASES, "with options": WITH_OPTIONS}
CASES = [(kind, name, options) for kind, cases in KINDS.items() for name, options in cases]


def says(key, value):
    """False for what is as good as absent: null, false, and what only newer versions write."""
    return value is not None and value is not False and key not in ("renorm_momentum", "compile_config")


def canonical(value):
    """A value of JSON: members that say something, in order; numbers as C's %.12g has them."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{canonical(value[key])}" for key in sorted(value) if says(key, value[key])) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return value if isinstance(value, str) else "%.12g" % value


def digest(text):
    """FNV-1a of 32 bits."""
    hashed = 2166136261
    for byte in text.encode():
        hashed = (hashed ^ byte) * 16777619 & 0xFFFFFFFF
    return f"{hashed:08x}"


def fill(model):
    for i, weight in enumerate(model.weights):
        shape, name = tuple(weight.shape), weight.path.split("/")[-1]
        if name == "count":
            continue
        u = numbers(i, shape)
        if "kernel" in name:
            window = shape[:2] if name == "depthwise_kernel" else shape[:-1]
            u *= np.sqrt(6 / np.prod(window))
        elif name == "gamma" or name.startswith("variable") or name.endswith("variance"):
            u = 1 + 0.3 * u
        else:
            u *= 0.1
        weight.assign(u.astype("float32"))


def make(name, options):
    keras.backend.clear_session()
    arguments = dict(options)
    if "input_shape" in arguments:
        arguments["input_shape"] = tuple(arguments["input_shape"])
    if arguments.get("classifier_activation") == "linear":
        arguments["classifier_activation"] = None
    return getattr(keras.applications, name)(weights=None, **arguments)


def layers(model):
    entries = json.loads(model.to_json())["config"]["layers"]
    for entry in entries:
        entry.pop("build_config", None)
    return [canonical(entry) for entry in entries]


def weights_alone(path):
    """A small model, whose default names are those of a session that had others before; returns what it predicts."""
    keras.backend.clear_session()
    keras.layers.Conv2D(1, 1), keras.layers.BatchNormalization(), keras.layers.Dense(1)
    x = keras.Input((6, 6, 2))
    y = keras.layers.BatchNormalization()(keras.layers.Conv2D(3, 3)(x))
    y = keras.Sequential([keras.layers.BatchNormalization(), keras.layers.Conv2D(4, 2)])(y)
    model = keras.Model(x, keras.layers.Dense(2)(keras.layers.Flatten()(y)))
    fill(model)
    with h5py.File(path, "w") as file:
        legacy_h5_format.save_weights_to_hdf5_group(file, model)
    y = model(numbers(99, [1, 6, 6, 2]).astype("float32"), training=False)
    return [float("%.7g" % value) for value in keras.ops.convert_to_numpy(y)[0]]


def without_random_numbers():
    """Zeros in place of first values, which take most of the time."""
    random = keras.src.initializers.random_initializers.random
    for function in ("normal", "uniform", "truncated_normal"):
        setattr(random, function, lambda shape, *_, dtype=None, **__: keras.ops.zeros(shape, dtype))


without_random_numbers()
if "--layer" in sys.argv:
    case, layer = map(int, sys.argv[sys.argv.index("--layer") + 1:][:2])
    print(layers(make(*CASES[case][1:]))[layer])
    sys.exit()

out = {"keras": keras.__version__, "cases": []}
for kind, name, options in CASES:
    model = make(name, options)
    case = {"network": name, "kind": kind, "options": options, "name": model.name, "parameters": model.count_params(),
            "output": list(model.output_shape), "weights": digest("".join(str(list(w.shape)) for w in model.weights)),
            "layers": "".join(map(digest, layers(model)))}
    if kind == "predicting":
        fill(model)
        image = numbers(len(model.weights), [1, *options["input_shape"]]).astype("float32")
        if name.startswith(PIXELS):
            image = (image + 1) * np.float32(127.5)
        y = keras.ops.convert_to_numpy(model(image, training=False))[0]
        case["predicts"] = [float("%.7g" % value) for value in y]
    out["cases"].append(case)
    print(name, options, case["parameters"], flush=True)
images = np.arange(24, dtype="float32").reshape(1, 2, 4, 3) * 10
out["images"] = images.flatten().tolist()
out["preprocessed"] = {}
for module in sorted(vars(keras.applications)):
    preprocess = getattr(getattr(keras.applications, module), "preprocess_input", None)
    if preprocess is not None and module != "imagenet_utils":
        out["preprocessed"][module] = [float("%.7g" % value) for value in np.asarray(preprocess(images.copy())).flatten()]
folder = pathlib.Path(__file__).parent
out["weights_alone"] = weights_alone(folder / "keras_applications_weights_alone.h5")
(folder / "keras_applications.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")
