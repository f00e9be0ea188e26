#!/usr/bin/env python3
"""Writes keras_examples.json: the networks of keras.io's examples (example_models.py) as JSON, what they predict in float64, and
what they predict after three steps of training. Weights are `numbers` by their index; of many outputs some are kept.
"""
import json
import os
import pathlib
import subprocess
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAX_ENABLE_X64", "1")

import keras
import numpy as np

from example_models import EXAMPLES, WORDS
from golden_io import numbers

BATCH = 3
MOST = 48   # outputs that are kept
STEPS = 3
RATES = {"edsr": 1e-7}   # its outputs are up to 255
ON_JAX = {"ct_scans_3d"}   # TensorFlow has no MaxPooling3D in float64


def fill(model):
    for i, weight in enumerate(model.weights):
        shape, name = tuple(weight.shape), weight.path.split("/")[-1]
        u = numbers(i, shape)
        if name == "gamma" or name.endswith("variance"):
            u = 1 + 0.3 * u
        elif len(shape) > 1:
            u *= np.sqrt(3 / np.prod(shape[:-1]))
        else:
            u *= 0.1
        weight.assign(u)


def inputs_of(model):
    """Words from 0 on, bools of which a row has one at least, and numbers."""
    values = []
    for i, t in enumerate(model.inputs):
        u = numbers(1000 + i, [BATCH, *(6 if size is None else size for size in t.shape[1:])])
        if t.dtype == "bool":
            u = u > -0.3
            u[..., 0] = True
        elif t.dtype == "int32":
            u = np.minimum(np.abs(u) * WORDS, WORDS - 1).astype("int32")
        values.append(u)
    return values


def alone(values):
    return values if len(values) > 1 else values[0]


def outputs_of(model, inputs):
    got = model(alone(inputs), training=False)
    return [np.asarray(y) for y in (got if isinstance(got, (list, tuple)) else [got])]


def some(values):
    flat = values.reshape(-1)
    return [float("%.12g" % v) for v in flat[:: -(-flat.size // MOST)]]


def record(make):
    keras.backend.clear_session()
    model = make()
    fill(model)
    inputs = inputs_of(model)
    before = outputs_of(model, inputs)
    targets = [numbers(2000 + i, y.shape) for i, y in enumerate(before)]
    rate = RATES.get(make.__name__, 0.02)
    model.compile(keras.optimizers.SGD(rate, momentum=0.9), ["mse"] * len(targets) if len(targets) > 1 else "mse")
    losses = [float(np.reshape(model.train_on_batch(alone(inputs), alone(targets)), -1)[0]) for _ in range(STEPS)]
    after = outputs_of(model, inputs)
    changes = [np.abs(new - old).max() for old, new in zip(before, after)]
    if not np.isfinite(changes).all() or max(changes) < 1e-6:
        raise SystemExit(f"{make.__name__}: three steps change its outputs by {changes}")
    return {"name": make.__name__, "config": json.loads(model.to_json()), "weights": [list(w.shape) for w in model.weights],
            "shapes": [list(y.shape) for y in before], "predicts": [some(y) for y in before], "learning_rate": rate, "losses": losses,
            "then_predicts": [some(y) for y in after]}


def record_on_jax(make):
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    return json.loads(subprocess.run([sys.executable, __file__, make.__name__], env=environment, stdout=subprocess.PIPE, check=True).stdout)


def main():
    keras.config.set_floatx("float64")
    if len(sys.argv) > 1:   # one that is printed
        print(json.dumps(next(record(make) for make in EXAMPLES if make.__name__ == sys.argv[1])))
        return
    out = {"keras": keras.__version__, "examples": []}
    for make in EXAMPLES:
        out["examples"].append((record_on_jax if make.__name__ in ON_JAX else record)(make))
        print(make.__name__, out["examples"][-1]["losses"], flush=True)
    for example in out["examples"]:   # what depends on the session alone
        example["config"].pop("compile_config", None)
    (pathlib.Path(__file__).parent / "keras_examples.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
