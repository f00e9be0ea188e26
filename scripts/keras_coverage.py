#!/usr/bin/env python3
"""Writes docs/keras_coverage.md: which public names of Keras strata has, and why not the others.

    scripts/keras_coverage.py            # writes the page from tests/golden/keras_names.json and the public headers
    scripts/keras_coverage.py --check    # fails if the page is not what would be written
    scripts/keras_coverage.py --names    # writes tests/golden/keras_names.json (wants `pip install "keras==3.15.*" jax`)

A name is there if a public header declares it: a class, an alias, or a function.
"""

import argparse
import glob
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAMES = os.path.join(ROOT, "tests/golden/keras_names.json")
PAGE = os.path.join(ROOT, "docs/keras_coverage.md")

# Keras's module: headers that declare its names.
MODULES = {
    "layers": ["keras/layers/*.h", "keras/layer.h"],
    "ops": ["keras/ops.h", "keras/ops/*.h"],
    "ops.image": ["keras/ops/image.h"],
    "losses": ["keras/loss.h", "keras/losses.h", "optim/losses.h"],
    "metrics": ["keras/metric.h", "keras/*_metrics.h", "optim/metrics.h"],
    "optimizers": ["optim/*.h"],
    "optimizers.schedules": ["optim/schedule.h"],
    "callbacks": ["keras/callback.h", "keras/training.h", "keras/callbacks/*.h"],
    "initializers": ["keras/initializers.h", "keras/stft_initializer.h"],
    "regularizers": ["keras/regularizers.h"],
    "constraints": ["keras/constraints.h"],
    "activations": ["keras/activations.h"],
    "random": ["keras/random.h"],
    "applications": ["keras/applications.h"],
    "models": ["keras/model.h", "keras/sequential.h", "keras/saving.h"],
    "saving": ["keras/saving.h", "keras/layer_registry.h", "keras/model.h"],
    "utils": ["keras/*.h", "keras/callbacks/*.h"],
}

# Names that C++ or strata's own conventions spell otherwise.
SPELLED = {
    "ops.switch": "switch_",
    "callbacks.ProgbarLogger": "ProgressBar",
    "utils.Progbar": "ProgressBar",
    "utils.register_keras_serializable": "register_layer",
    "saving.register_keras_serializable": "register_layer",
    "saving.serialize_keras_object": "to_config",
    "saving.deserialize_keras_object": "layer_from_config",
    "utils.serialize_keras_object": "to_config",
    "utils.deserialize_keras_object": "layer_from_config",
    "models.model_from_json": "model_from_config",
    "layers.InputLayer": "Input",
    "activations.swish": "silu",
    "activations.hard_swish": "hard_silu",
    "optimizers.schedules.LearningRateSchedule": "Schedule",
}
# Members of other classes, and macros, do not count.
NEVER = r"\.(get|serialize|deserialize|is_tensor)$"
# Keras's own second names.
ALIASES = [
    (r"^Convolution(\dD)(Transpose)?$", r"Conv\1\2"),
    (r"^SeparableConvolution(\dD)$", r"SeparableConv\1"),
    (r"^AvgPool(\dD)$", r"AveragePooling\1"),
    (r"^MaxPool(\dD)$", r"MaxPooling\1"),
    (r"^GlobalAvgPool(\dD)$", r"GlobalAveragePooling\1"),
    (r"^GlobalMaxPool(\dD)$", r"GlobalMaxPooling\1"),
    (r"^IdentityInitializer$", "Identity"),
    (r"^OrthogonalInitializer$", "Orthogonal"),
    (r"^STFTInitializer$", "STFT"),
]

PYTHON = "Python's own: C++ has its language or standard library for it"
BACKEND = "wraps another backend's functions or files"
BY_NAME = "objects are made from names and JSON by their constructors and `from_config`"
CLASS_INSTEAD = "a second name of the class in lower case; the class, or its name as text, is here"
YET = "not built yet"

# Why a name is not there. Patterns of "module.name"; the first that fits.
WHY = [
    (r"\.(get|serialize|deserialize)$", BY_NAME),
    (r"^layers\.(JaxLayer|FlaxLayer|TFSMLayer|TorchModuleWrapper)$", BACKEND),
    (r"^layers\.(Wrapper|Pipeline)$", "a base class: derive from `LayerImpl` and `track` the layers inside"),
    (r"^layers\.(add|average|concatenate|dot|maximum|minimum|multiply|subtract)$", "the function of a layer: call the layer of that name"),
    (r"^layers\.InputSpec$", "`keras::InputSpec` is for layers of your own (`set_input_spec`)"),
    (r"^layers\.MaxNumBoundingBoxes$", "bounding boxes as labels are dictionaries of Python"),
    (r"^ops\.(vectorize|custom_gradient)$", PYTHON + " (`torch::autograd::Function`)"),
    (r"^ops\.jvp$", "forward-mode derivatives are libtorch's (`torch::autograd::forward_ad`)"),
    (r"^ops\.(convert_to_numpy|is_tensor)$", PYTHON),
    (r"^callbacks\.OrbaxCheckpoint$", BACKEND),
    (r"^callbacks\.CallbackList$", "`fit` calls its list of callbacks itself"),
    (r"^optimizers\.OptimizerMap$", "goes with MultiOptimizer"),
    (r"^(initializers|regularizers|constraints)\.[a-z]", CLASS_INSTEAD),
    (r"^metrics\.[a-z]", "the function of a loss or metric class: `losses` has the losses', the class the metrics'"),
    (r"^random\.SeedGenerator$", "replicas draw from keyed streams of their strategy's seed"),
    (r"^utils\.(FeatureSpace|PyDataset|Sequence|Config|get_file|custom_object_scope|CustomObjectScope|get_custom_objects|"
     r"get_registered_name|get_registered_object|get_source_inputs|is_keras_tensor|standardize_dtype|pack_x_y_sample_weight|"
     r"unpack_x_y_sample_weight|.*_logging.*)$", PYTHON),
    (r"^utils\.(array_to_img|img_to_array|load_img|save_img|.*_from_directory|timeseries_dataset_from_array|split_dataset|"
     r"pad_sequences|to_categorical|normalize)$", "`data` reads, writes and batches (docs/data.md), `ops` has `one_hot` and `normalize`"),
    (r"^saving\.(CustomObjectScope|custom_object_scope|get_.*|KerasFileEditor)$", PYTHON + "; `strata inspect` shows files"),
    (r"^saving\.(load_weights|save_weights)$", "members of `Model`"),
    (r"^models\.clone_model$", "make the model again: `model_from_config(model_to_config(model))`"),
]


def declared(patterns):
    """Names that the headers declare, without comments."""
    names = set()
    for pattern in patterns:
        for path in glob.glob(os.path.join(ROOT, "include/strata", pattern)):
            with open(path, encoding="utf-8") as header:
                text = re.sub(r"//[^\n]*", "", header.read())
            names |= set(re.findall(r"\bSTRATA_\w+\((\w+)\);", text))  # a macro that declares a class
            names |= set(re.findall(r"\b(?:class|struct)\s+(?:STRATA_API\s+)?(\w+)", text))
            names |= set(re.findall(r"\busing\s+(\w+)\s*=", text))
            names |= set(re.findall(r"\b(\w+)\s*\(", text))
    return names


def second_name(name):
    for pattern, first in ALIASES:
        if re.match(pattern, name):
            return re.sub(pattern, first, name)
    return None


def row(module, name, there):
    """(yes, remark)"""
    if re.search(NEVER, f"{module}.{name}") is None and name in there:
        return True, ""
    spelled = SPELLED.get(f"{module}.{name}")
    if spelled is not None and spelled in there:
        return True, f"`{spelled}`"
    first = second_name(name)
    if first is not None and first in there:
        return True, "Keras's second name of another that is here"
    for pattern, why in WHY:
        if re.search(pattern, f"{module}.{name}"):
            return False, why
    return False, YET


def page():
    with open(NAMES, encoding="utf-8") as file:
        stored = json.load(file)
    lines = ["# What of Keras is here", "",
             f"Every public name of Keras {stored['keras']} in the modules below, and whether strata has it; written by", 
             "`scripts/keras_coverage.py` from Keras's names and strata's public headers. A name is in the namespace of its module:",
             "`keras.layers.Dense` is `strata::layers::Dense`, `keras.ops.take` is `strata::keras::ops::take`.", ""]
    sections, summary = [], []
    for module, names in stored["names"].items():
        there = declared(MODULES[module])
        rows = [(name, *row(module, name, there)) for name in names]
        yes = sum(1 for r in rows if r[1])
        summary.append(f"| `keras.{module}` | {yes} | {len(rows) - yes} |")
        sections += [f"## keras.{module}", ""]
        plain = [name for name, here, remark in rows if here and not remark]
        if plain:
            sections += ["Here: " + ", ".join(f"`{name}`" for name in plain) + ".", ""]
        others = [(name, here, remark) for name, here, remark in rows if not here or remark]
        if others:
            grouped = {}
            for name, here, remark in others:
                grouped.setdefault((here, remark), []).append(name)
            sections += ["| name | here | |", "| --- | --- | --- |"]
            for (here, remark), group in grouped.items():
                sections.append(f"| {', '.join(f'`{n}`' for n in group)} | {'yes' if here else 'no'} | {remark} |")
            sections.append("")
    lines += ["| module | here | not |", "| --- | --- | --- |"] + summary + [""] + sections
    return "\n".join(lines).rstrip() + "\n"


def write_names():
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import importlib
    import inspect

    import keras

    names = {}
    for module in MODULES:
        found = importlib.import_module(f"keras.{module}")
        names[module] = [n for n in sorted(dir(found)) if not n.startswith("_") and not inspect.ismodule(getattr(found, n))]
    with open(NAMES, "w", encoding="utf-8") as out:
        json.dump({"keras": keras.__version__, "names": names}, out, indent=1)
        out.write("\n")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("--names", action="store_true")
    options = arguments.parse_args()
    if options.names:
        write_names()
    text = page()
    if not options.check:
        with open(PAGE, "w", encoding="utf-8") as out:
            out.write(text)
        return 0
    with open(PAGE, encoding="utf-8") as file:
        if file.read() == text:
            return 0
    print("docs/keras_coverage.md is not what scripts/keras_coverage.py writes; run it", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
