#!/usr/bin/env python3
"""Writes keras_applications.json: layers, parameters and shapes of networks of keras.applications with some options.

    python3 make_keras_applications.py
"""
import json
import os
import pathlib

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras

CASES = [
    ("ResNet50", {"input_shape": [64, 64, 3], "classes": 10}),
    ("ResNet50", {"include_top": False, "pooling": "max"}),
    ("InceptionV3", {"input_shape": [96, 96, 3], "classes": 10}),
    ("InceptionV3", {"include_top": False, "pooling": "avg"}),
    ("MobileNetV2", {"input_shape": [65, 64, 3], "classes": 10, "classifier_activation": "linear"}),
    ("MobileNetV2", {"include_top": False, "alpha": 1.4}),
    ("MobileNetV2", {"include_top": False, "alpha": 0.35, "input_shape": [96, 96, 1], "name": "small"}),
    ("VGG16", {"input_shape": [32, 32, 3], "classes": 10}),
    ("VGG16", {"include_top": False}),
]

out = {"keras": keras.__version__, "cases": []}
for name, options in CASES:
    keras.backend.clear_session()
    arguments = dict(options)
    if "input_shape" in arguments:
        arguments["input_shape"] = tuple(arguments["input_shape"])
    model = getattr(keras.applications, name)(weights=None, **arguments)
    out["cases"].append({
        "network": name, "options": options, "name": model.name, "parameters": model.count_params(), "output": list(model.output_shape),
        "layers": [f"{layer.name} {type(layer).__name__}" for layer in model.layers],
        "shapes": [list(w.shape) for w in model.weights]})
path = pathlib.Path(__file__).parent / "keras_applications.json"
path.write_text(json.dumps(out, separators=(",", ":")) + "\n")
