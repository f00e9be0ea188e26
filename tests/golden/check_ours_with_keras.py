"""Loads with real Keras the models that strata wrote, and has strata load Keras's applications and the networks of keras.io's examples.

    python check_ours_with_keras.py build/release/strata_models_tool [--applications] [--examples]

Predictions must agree within 1e-5 (applications: 1e-4), relative to the largest output. With PYTHONPATH at another Keras
(3.6) that one is asked.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import h5py
import keras
import numpy as np
from keras.src.legacy.saving import legacy_h5_format
from safetensors.numpy import load_file, save_file



@keras.saving.register_keras_serializable(package="mine")
class Scale(keras.layers.Layer):
    """As in make_keras_models.py: what strata registers by "mine>Scale"."""

    def build(self, shape):
        self.scale = self.add_weight(name="scale", shape=(shape[-1],), initializer="ones")

    def call(self, x):
        return x * self.scale


@keras.saving.register_keras_serializable(package="mine")
class Times(keras.Operation):
    def __init__(self, factor, **options):
        super().__init__(**options)
        self.factor = factor

    def call(self, x):
        return x * self.factor

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)

    def get_config(self):
        return {"name": self.name, "factor": self.factor}


failed = False
is_old = tuple(map(int, keras.__version__.split(".")[:2])) < (3, 15)   # its Nadam keeps other variables



def check(good, what):
    global failed
    print("ok  " if good else "BAD ", what, flush=True)
    failed |= not good


def in_order(value):
    if isinstance(value, dict):
        return [np.asarray(value[key]) for key in sorted(value)]
    return [np.asarray(v, "float32" if str(v.dtype) in ("<dtype: 'float16'>", "<dtype: 'bfloat16'>") else None) for v in (value if isinstance(value, (list, tuple)) else [value])]


def numbered(path):
    named = load_file(path)
    return [named[key] for key in sorted(named, key=lambda key: int(key[1:]))]


def predict(model, inputs):
    if isinstance(model._inputs_struct if hasattr(model, "_inputs_struct") else None, dict):
        inputs = dict(zip(sorted(model._inputs_struct), inputs))
    elif len(inputs) == 1:
        inputs = inputs[0]
    return in_order(model(inputs, training=False))


def difference(got, wanted):
    if [g.shape for g in got] != [w.shape for w in wanted]:
        return float("inf")
    return max(float(np.abs(g - w).max() / max(1.0, np.abs(w).max())) for g, w in zip(got, wanted))


def check_folder(folder, tolerance):
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".keras"):
            continue
        stem = os.path.join(folder, file[:-6])
        try:
            model = keras.saving.load_model(stem + ".keras", compile=not (is_old and "attention" in file))
            allowed = max(tolerance, HALF.get(file.removeprefix("again_").removesuffix(".keras"), 0))
            error = difference(predict(model, numbered(stem + ".inputs.safetensors")), numbered(stem + ".outputs.safetensors"))
            check(error <= allowed, f"{file}: differs by {error:.2g}")
        except Exception as problem:  # the text is the result
            check(False, f"{file}: {type(problem).__name__}: {str(problem)[:600]}")


golden = pathlib.Path(__file__).parent
MODELS = json.loads((golden / "keras_models.json").read_text())["models"]
HALF = {record["name"]: record["tolerance"] for record in MODELS if "tolerance" in record}   # they compute in 16 bits


def training(tool, folder):
    """One step by strata, one by Keras, from the same state; then each goes on from the other's file."""
    for record in MODELS:
        if "targets" not in record:
            continue
        tolerance = record.get("tolerance", 1e-5)
        arrays = lambda key: [np.array(a["data"], dtype=a["dtype"]).reshape(a["shape"]) for a in record[key]]
        x, y = arrays("inputs"), arrays("targets")
        batch = os.path.join(folder, "batch.safetensors")
        save_file({**{f"x{i}": a for i, a in enumerate(x)}, **{f"y{i}": a for i, a in enumerate(y)}}, batch)
        one = lambda values: values if len(values) > 1 else values[0]
        path = lambda name: os.path.join(folder, record["name"] + name)
        start = str(golden / record["file"])
        subprocess.run([tool, "step", start, batch, path("_ours.keras")], check=True)
        subprocess.run([tool, "step", path("_ours.keras"), batch, path("_ours2.keras")], check=True)
        keras.backend.clear_session()
        keras.config.set_dtype_policy(record.get("policy", "float32"))
        theirs = keras.saving.load_model(start)
        theirs.train_on_batch(one(x), one(y))
        ours = keras.saving.load_model(path("_ours.keras"))
        state = lambda model: [np.asarray(v, dtype="float64") for v in model.weights + model.optimizer.variables]
        names = [v.path for v in theirs.weights + theirs.optimizer.variables]
        worst = max((float(np.abs(a - b).max() / max(1.0, np.abs(b).max())), n) for a, b, n in zip(state(ours), state(theirs), names))
        check(worst[0] <= tolerance, f"{record['name']}: weights and slots after a step: {worst[0]:.2g} ({worst[1]})")
        ours.train_on_batch(one(x), one(y))
        second = keras.saving.load_model(path("_ours2.keras"))
        check(difference(predict(ours, x), predict(second, x)) <= tolerance, f"{record['name']}: the next step by Keras and by strata")


SIZES = {"ResNet50": 64, "ResNet50V2": 64, "VGG16": 32, "DenseNet121": 64, "InceptionV3": 96, "InceptionResNetV2": 96, "Xception": 96,
         "MobileNet": 64, "MobileNetV2": 64, "MobileNetV3Small": 64, "EfficientNetB0": 64, "EfficientNetV2B0": 64, "ConvNeXtTiny": 64,
         "NASNetMobile": 64}   # as in models_tool.cc


def applications(tool, folder):
    """Keras's own, with weights that are all different: models, weights, and weights in the format of ImageNet's files."""
    rng = np.random.default_rng(3)
    for name, size in SIZES.items():
        keras.backend.clear_session()
        model = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=10, classifier_activation=None)
        for variable in model.weights:
            if variable.name == "count":
                continue
            value = rng.normal(size=variable.shape) / np.sqrt(max(1, np.prod(variable.shape[:-1])))
            if "variance" in variable.name or "gamma" in variable.name:
                value = np.abs(value) * 0.3 + 0.9
            variable.assign(value)
        stem = os.path.join(folder, "keras_" + name)
        inputs, outputs = stem + ".inputs.safetensors", stem + ".got.safetensors"
        save_file({"x0": rng.normal(size=(2, size, size, 3)).astype("float32")}, inputs)
        wanted = predict(model, numbered(inputs))
        model.save(stem + ".keras")
        model.save_weights(stem + ".weights.h5")
        with h5py.File(stem + ".h5", "w") as file:
            legacy_h5_format.save_weights_to_hdf5_group(file, model)
        for ending in (".keras", ".weights.h5", ".h5"):
            command = ["predict"] if ending == ".keras" else ["predict_application", name]
            subprocess.run([tool, *command, stem + ending, inputs, outputs], check=True)
            error = difference(numbered(outputs), wanted)
            check(error <= 1e-4, f"keras.applications.{name}{ending} in strata: differs by {error:.2g}")
            os.remove(stem + ending)


def examples(tool, folder):
    """The networks of keras.io's examples: Keras's files in strata, and a step by strata in Keras."""
    import example_models
    from golden_io import numbers
    from keras_examples import RATES, alone, fill, inputs_of

    for make in example_models.EXAMPLES:
        keras.backend.clear_session()
        model = make()
        fill(model)
        inputs = [x.astype("float32") if x.dtype == "float64" else x for x in inputs_of(model)]
        targets = [numbers(2000 + i, y.shape).astype("float32") for i, y in enumerate(predict(model, inputs))]
        model.compile(keras.optimizers.SGD(RATES.get(make.__name__, 0.02), momentum=0.9), ["mse"] * len(targets) if len(targets) > 1 else "mse")
        model.train_on_batch(alone(inputs), alone(targets))
        path = lambda ending: os.path.join(folder, make.__name__ + ending)
        model.save(path(".keras"))
        batch = {**{f"x{i}": x for i, x in enumerate(inputs)}, **{f"y{i}": y for i, y in enumerate(targets)}}
        save_file(batch, path(".batch"))
        try:
            subprocess.run([tool, "predict", path(".keras"), path(".batch"), path(".got")], check=True)
            error = difference(numbered(path(".got")), predict(model, inputs))
            subprocess.run([tool, "step", path(".keras"), path(".batch"), path("_ours.keras")], check=True)
            model.train_on_batch(alone(inputs), alone(targets))
            ours = keras.saving.load_model(path("_ours.keras"))
            after = difference(predict(ours, inputs), predict(model, inputs))
            check(max(error, after) <= 1e-5, f"{make.__name__}: in strata differs by {error:.2g}, after a step by strata in Keras by {after:.2g}")
        except Exception as problem:  # the text is the result
            check(False, f"{make.__name__}: {type(problem).__name__}: {str(problem)[:600]}")


tool = sys.argv[1]
print("Keras", keras.__version__)
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([tool, "write", folder], check=True, stdout=subprocess.DEVNULL)
    check_folder(folder, 1e-5)
    if not is_old:   # it cannot load what 3.15 wrote
        training(tool, folder)
if "--examples" in sys.argv:
    with tempfile.TemporaryDirectory() as folder:
        examples(tool, folder)
if "--applications" in sys.argv:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([tool, "applications", folder], check=True, stdout=subprocess.DEVNULL)
        check_folder(folder, 1e-4)
    with tempfile.TemporaryDirectory() as folder:
        applications(tool, folder)
sys.exit(failed)
