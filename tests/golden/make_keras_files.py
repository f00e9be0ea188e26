#!/usr/bin/env python3
"""Writes keras_files_*.{keras,h5} with real Keras, and keras_files.json, which says what is in them.

    python3 make_keras_files.py

For each model the JSON has, from the live Keras object: every object that Keras saves (path of its group, own name,
class), its variables (name, shape, trainable, sum of values), the order of the trainable variables, and the optimizer's variables by
name. `orders` has random functional graphs with the order in which Keras lists their layers; `optimizers` has the
variables of every optimizer with several option sets.
"""
import copy
import json
import os
import pathlib
import random
import zipfile

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import h5py
import keras
import ml_dtypes
import numpy as np
from keras import layers as L
from keras.src.saving import saving_lib

FOLDER = pathlib.Path(__file__).parent


class Recorder(saving_lib.NpzIOStore):
    """Stands in for Keras's store of weights: notes which object is saved where."""

    def __init__(self):
        self.records = []

    def __bool__(self):
        return True

    def make(self, path, metadata=None):
        self.records.append({"path": path, "name": (metadata or {}).get("name"), "vars": []})
        return self

    def __setitem__(self, key, value):
        self.records[-1]["vars"].append([key, list(np.shape(value))])


def saved_objects(model):
    """Path, name, class and variables of everything that Keras saves, in its order."""
    recorder, classes = Recorder(), {}
    original = saving_lib._save_state

    def save_state(saveable, weights_store, assets_store, inner_path, visited_saveables):
        if id(saveable) not in visited_saveables:
            classes[inner_path] = saveable
        return original(saveable, weights_store, assets_store, inner_path, visited_saveables)

    saving_lib._save_state = save_state
    try:
        save_state(model, recorder, None, "", set())
    finally:
        saving_lib._save_state = original
    trainable = {id(v): i for i, v in enumerate(model.trainable_variables)}
    result = []
    for record in recorder.records:
        path = record["path"]
        if path == "optimizer" or record["name"] is None:
            continue
        saveable = classes[path]
        own = saveable._trainable_variables + saveable._non_trainable_variables
        values = [] if path == "" else [v for v in own][: len(record["vars"])]
        result.append({
            "path": path, "name": record["name"], "class": type(saveable).__name__,
            "vars": [{"name": v.name, "shape": shape, "trainable": trainable.get(id(v), -1),
                      "sum": float(np.asarray(v.value, dtype=np.float64).sum())}
                     for v, (key, shape) in zip(values, record["vars"])],
        })
        assert len(values) == len(record["vars"]), (path, record["vars"], [v.name for v in own])
    return result


def optimizer_variables(optimizer):
    return [[v.name, list(v.shape)] for v in optimizer.variables]


def fill(model):
    """Weights and optimizer state as after a few steps: numbers that are all different, without training."""
    rng = np.random.default_rng(3)
    inputs = [np.zeros([2 if d is None else d for d in t.shape], t.dtype) for t in model.inputs]
    model(inputs if len(inputs) > 1 else inputs[0])   # builds layers that are activations
    for variable in model.weights:
        variable.assign(rng.normal(size=variable.shape))
    if getattr(model, "optimizer", None) is not None:
        model.optimizer.build(model.trainable_variables)
        for variable in model.optimizer.variables:
            if variable.name not in ("iteration", "learning_rate"):
                variable.assign(rng.normal(size=variable.shape))
        model.optimizer._iterations.assign(7)


def mlp():
    model = keras.Sequential([L.Input((4,)), L.Dense(5, activation="relu", name="hidden"), L.Dropout(0.2),
                              L.Dense(3, activation="softmax", use_bias=False)], name="mlp")
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    return model


def shared():
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    dense = L.Dense(4, name="both")
    inner_in = keras.Input((4,), name="inner_in")
    inner = keras.Model(inner_in, L.LayerNormalization()(L.Dense(4)(inner_in)), name="inner")
    stack = keras.Sequential([L.Input((4,)), L.Dense(2), L.PReLU()], name="stack")
    x, y = dense(a), inner(dense(b))
    frozen = L.Dense(4, name="frozen", trainable=False)
    z = L.Concatenate()([stack(x + frozen(y)), stack(inner(x))])
    model = keras.Model([a, b], [L.Dense(1, name="first")(z), L.Dense(2, name="second", activation=L.PReLU())(z)], name="shared")
    model.compile(keras.optimizers.RMSprop(0.01, momentum=0.9, centered=True), ["mse", "mse"])
    return model


def cnn():
    model = keras.Sequential([
        L.Input((8, 8, 2)), L.Conv2D(3, 3, padding="same"), L.BatchNormalization(), L.ReLU(), L.MaxPooling2D(),
        L.DepthwiseConv2D(3, depth_multiplier=2), L.BatchNormalization(scale=False), L.SeparableConv2D(3, 1, use_bias=False),
        L.Conv2DTranspose(2, 2), L.GroupNormalization(2), L.GlobalAveragePooling2D(), L.Dense(2)], name="cnn")
    model.compile(keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9), momentum=0.9), "mse")
    return model


def recurrent():
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    x = L.Embedding(7, 4, mask_zero=True)(tokens)
    x = L.Bidirectional(L.LSTM(2, return_sequences=True, dropout=0.1))(x)
    x = L.GRU(3, return_sequences=True)(x)
    x = L.TimeDistributed(L.Dense(2))(x)
    x = L.RNN([L.LSTMCell(2), L.GRUCell(2, reset_after=False)], return_sequences=True)(x)
    x = L.SimpleRNN(2, use_bias=False)(x)
    model = keras.Model(tokens, x, name="recurrent")
    model.compile(keras.optimizers.Adam(amsgrad=True), "mse")
    return model


def attention():
    inputs = keras.Input((4, 6))
    x = L.MultiHeadAttention(2, 3, value_dim=2, dropout=0.1)(inputs, inputs)
    x = L.Add()([x, inputs])
    x = L.LayerNormalization(center=False)(x)
    x = L.EinsumDense("abc,cd->abd", (None, 5), bias_axes="d")(x)
    x = L.GroupQueryAttention(3, 4, 2, use_bias=False)(x, x)
    x = L.Attention(use_scale=True)([x, x])
    x = L.Conv1D(2, 2)(x)
    model = keras.Model(inputs, L.UnitNormalization()(x), name="attention")
    model.compile(keras.optimizers.Nadam(), "mse")
    return model


def mixed():
    model = keras.Sequential([L.Input((4,)), L.Dense(3, dtype="mixed_bfloat16"), L.Dense(2, dtype="bfloat16"),
                              L.Dense(2, dtype="float16"), L.Dense(2, dtype="float64")], name="mixed")
    return model


MODELS = [mlp, shared, cnn, recurrent, attention, mixed]


def random_graph(rng, index):
    """Dense layers of one width, called in random order, some several times, some in nested models."""
    width = 2
    inputs = [keras.Input((width,), name=f"in{i}") for i in range(rng.randint(1, 3))]
    tensors, layers = list(inputs), []
    for i in range(rng.randint(3, 14)):
        kind = rng.random()
        if kind < 0.2 and layers:
            layer = rng.choice(layers)
        elif kind < 0.3:
            inner = keras.Input((width,))
            middle = L.Dense(width, name=f"m{i}a")(inner)
            layer = keras.Model(inner, L.Add(name=f"m{i}b")([middle, inner]), name=f"model{i}")
            layers.append(layer)
        elif kind < 0.55:
            layer = None
        else:
            layer = (L.Dense(width, name=f"dense{i}") if rng.random() < 0.7 else L.ReLU(name=f"relu{i}"))
            layers.append(layer)
        if layer is None:
            merged = [rng.choice(tensors) for _ in range(rng.randint(2, 3))]
            tensors.append(merged[0] * merged[1] if rng.random() < 0.4 else L.Add(name=f"add{i}")(merged))
        else:
            tensors.append(layer(rng.choice(tensors)))
    made = tensors[len(inputs):]
    outputs = rng.sample(made, rng.randint(1, min(3, len(made))))
    return keras.Model(inputs, outputs, name=f"graph{index}")


def masked_graph(rng, index):
    """Sequences through layers that make masks, hand them on, end them or take them as an argument."""
    width, steps = 2, 3
    inputs = [keras.Input((steps, width), name=f"in{i}") for i in range(rng.randint(1, 2))]
    tensors, layers = list(inputs), []
    if rng.random() < 0.5:
        inputs.append(keras.Input((steps,), dtype=rng.choice(["int32", "float32", "float64"]), name="tokens"))
        tensors.append(L.Embedding(5, width, mask_zero=rng.random() < 0.8, name="embedding")(inputs[-1]))

    def nested(i):
        inner = keras.Input((steps, width))
        return keras.Model(inner, L.Dense(width, name=f"m{i}a")(inner), name=f"nested{i}")

    makers = [
        lambda i: L.Dense(width, name=f"dense{i}"), lambda i: L.Masking(name=f"masking{i}"), lambda i: L.Masking(name=f"masking{i}"),
        lambda i: L.LSTM(width, return_sequences=True, name=f"lstm{i}"), lambda i: L.GRU(width, return_sequences=True, name=f"gru{i}"),
        lambda i: L.Bidirectional(L.SimpleRNN(1, return_sequences=True), name=f"both{i}"),
        lambda i: L.TimeDistributed(L.Dense(width), name=f"each{i}"), lambda i: L.LayerNormalization(name=f"norm{i}"),
        lambda i: L.BatchNormalization(name=f"batch{i}"), lambda i: L.Softmax(name=f"softmax{i}"),
        lambda i: L.Conv1D(width, 1, name=f"conv{i}"), nested, lambda i: keras.Sequential([L.Dense(width)], name=f"stack{i}"),
        lambda i: L.Dense(width, dtype="float64", name=f"double{i}"), lambda i: L.SpatialDropout1D(0.1, name=f"drop{i}"),
    ]
    for i in range(rng.randint(4, 14)):
        kind, pick = rng.random(), lambda: rng.choice(tensors)
        if kind < 0.1:
            y = L.Add(name=f"add{i}")([pick() for _ in range(rng.randint(2, 3))])
        elif kind < 0.18:
            y = L.Dense(width, name=f"after{i}")(L.Concatenate(name=f"join{i}")([pick(), pick()]))
        elif kind < 0.24:
            y = L.Attention(name=f"attention{i}")([pick(), pick()])
        elif kind < 0.3:
            y = L.MultiHeadAttention(1, width, name=f"heads{i}")(pick(), pick())
        elif kind < 0.34:
            y = L.MultiHeadAttention(1, width, name=f"named{i}")(query=pick(), value=pick())
        elif kind < 0.38:
            y, h, c = L.LSTM(width, return_sequences=True, return_state=True, name=f"encode{i}")(pick())
            y = L.LSTM(width, return_sequences=True, name=f"decode{i}")(y, initial_state=[h, c])
        elif kind < 0.48:
            y = rng.choice([L.LSTM, L.GRU])(width, return_sequences=True, name=f"held{i}")(L.Masking(name=f"skip{i}")(pick()))
        elif kind < 0.58 and layers:
            y = rng.choice(layers)(pick())
        else:
            layers.append(rng.choice(makers)(i))
            y = layers[-1](pick())
        tensors.append(y)
    used = {id(t) for y in tensors for t in y._keras_history.operation._inbound_nodes[y._keras_history.node_index].input_tensors}
    ends = [y for y in tensors[len(inputs):] if id(y) not in used]
    outputs = []
    for i, y in enumerate(rng.sample(ends, len(ends))):
        kind = rng.random()
        outputs.append(y if kind < 0.4 else L.GlobalAveragePooling1D(name=f"mean{i}")(y) if kind < 0.7 else L.LSTM(width, name=f"last{i}")(y))
    return keras.Model(inputs, outputs, name=f"masked{index}")


def slim(config):
    """Of a functional config only what the order depends on."""
    layers = []
    for entry in config["layers"]:
        kept = {"module": entry["module"], "class_name": entry["class_name"], "name": entry["name"], "config": {"name": entry["name"]}}
        if "layers" in entry["config"] and "input_layers" in entry["config"]:
            kept["config"] = slim(entry["config"])
        kept["config"] |= slim_options(entry["config"])
        kept["inbound_nodes"] = [{"args": slim_args(node["args"]), "kwargs": slim_args(node["kwargs"])} for node in entry["inbound_nodes"]]
        layers.append(kept)
    random.Random(len(layers)).shuffle(layers)   # the file's order must not matter
    return {"name": config["name"], "layers": layers, "input_layers": config["input_layers"], "output_layers": config["output_layers"]}


def slim_options(config):
    options = {key: True for key in ("mask_zero", "return_sequences") if config.get(key)}
    if isinstance(config.get("layer"), dict):
        options["layer"] = {"config": slim_options(config["layer"]["config"])}
    dtype = config.get("dtype")
    dtype = dtype["config"]["name"] if isinstance(dtype, dict) else dtype
    return options if dtype in (None, "float32") else options | {"dtype": dtype}


def slim_args(value):
    if isinstance(value, dict) and value.get("class_name") == "__keras_tensor__":
        dtype = value["config"]["dtype"]
        return {"class_name": "__keras_tensor__", "config": {"keras_history": value["config"]["keras_history"]} | ({} if dtype == "float32" else {"dtype": dtype})}
    if isinstance(value, dict):
        return {key: slim_args(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [slim_args(item) for item in value]
    return value


def without_masks(model, keep=True):
    """The model as a writer describes it that knows nothing of the operations that make masks; or one that has no masks."""
    layers = []
    for entry in copy.deepcopy(model["config"]["layers"]):
        if entry["module"].startswith("keras.src.ops"):
            continue
        for node in entry["inbound_nodes"]:
            for option in ("mask", "training"):   # with `training` given Keras adds no mask to the call
                node["kwargs"].pop(option, None)
        if not keep and entry["class_name"] == "Masking":
            entry["class_name"] = "Rescaling"
            entry["config"] = {"name": entry["name"], "scale": 1.0, "offset": 0.0}
        elif not keep and entry["class_name"] == "Embedding":
            entry["config"]["mask_zero"] = False
        layers.append(entry)
    return model | {"config": model["config"] | {"layers": layers}}


def orders():
    rng = random.Random(7)
    result = []

    def add(serialized):
        reloaded = keras.saving.deserialize_keras_object(copy.deepcopy(serialized))
        result.append({"config": slim(serialized["config"]), "layers": [layer.name for layer in reloaded.layers]})
        return result[-1]["layers"]

    for index in range(60):
        try:
            model = random_graph(rng, index)
        except ValueError:   # an input that nothing uses, and the like
            continue
        assert add(keras.saving.serialize_keras_object(model)) == [l.name for l in model.layers]
    index, changed = 0, 0
    while changed < 20:
        index += 1
        try:
            model = masked_graph(rng, index)
        except ValueError:
            continue
        serialized, names = keras.saving.serialize_keras_object(model), [l.name for l in model.layers]
        matters = keras.saving.deserialize_keras_object(without_masks(serialized, keep=False)).layers
        matters = [layer.name for layer in matters] != names
        changed += matters
        if matters or index % 10 == 0:
            assert add(serialized) == names
            add(without_masks(serialized))
    return result


def optimizer_cases():
    cases = []
    options = {
        "SGD": [{}, {"momentum": 0.9}], "Adam": [{}, {"amsgrad": True}, {"use_ema": True}, {"gradient_accumulation_steps": 2},
                {"use_ema": True, "gradient_accumulation_steps": 2, "amsgrad": True}, {"learning_rate": "schedule"}],
        "AdamW": [{}], "Adamax": [{}], "Nadam": [{}], "Adagrad": [{}], "Adadelta": [{}], "Ftrl": [{}], "Lion": [{}], "Lamb": [{}],
        "RMSprop": [{}, {"momentum": 0.5}, {"centered": True}, {"momentum": 0.5, "centered": True}],
        "Adafactor": [{}], "Muon": [{}], "ScheduleFreeAdamW": [{}], "LossScaleOptimizer": [{}, {"amsgrad": True}],
    }
    for name, sets in options.items():
        for given in sets:
            arguments = dict(given)
            if arguments.get("learning_rate") == "schedule":
                arguments["learning_rate"] = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
            if name == "LossScaleOptimizer":
                optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(**arguments))
            else:
                optimizer = getattr(keras.optimizers, name)(**arguments)
            variables = [keras.Variable(np.zeros(shape, "float32"), name=f"v{i}", trainable=True)
                         for i, shape in enumerate([(3, 4), (4,), (2, 3, 5)])]
            optimizer.build(variables)
            cases.append({"config": keras.saving.serialize_keras_object(optimizer),
                          "variables": optimizer_variables(optimizer)})
    return cases


def write_config(name):
    """The config beside the archive, for tests that have no zip: long, so as it is."""
    with zipfile.ZipFile(FOLDER / f"{name}.keras") as archive:
        (FOLDER / f"{name}.keras.config.json").write_bytes(archive.read("config.json"))


def odd_files():
    """HDF5 files that Keras does not write: other dtypes and storage, and what must be refused."""
    def vars_of(name):
        file = h5py.File(FOLDER / f"keras_files_{name}.weights.h5", "w")
        return file, file.create_group("layers/dense/vars")

    values = np.arange(24).reshape(2, 3, 4)
    file, group = vars_of("dtypes")
    with file:
        dtypes = ["<f8", "<f4", "<f2", ">f8", ">f4", ">f2", "<i8", "<i4", "<i2", "i1", "u1", "<u2", "<u4", "<u8", ">i8", ">u2"]
        for i, dtype in enumerate(dtypes):
            group.create_dataset(str(i), data=values.astype(dtype))
        n = len(dtypes)
        group.create_dataset(str(n), data=values % 3 == 0)
        group.create_dataset(str(n + 1), data=values.astype(ml_dtypes.bfloat16)).attrs["dtype"] = "bfloat16"
        group.create_dataset(str(n + 2), data=values.astype("<f4"), chunks=(1, 3, 2), compression="gzip", shuffle=True)
        group.create_dataset(str(n + 3), data=np.float32(5))
        group.create_dataset(str(n + 4), data=np.zeros((0, 3), "<f4"))
        group.create_dataset("idf_weights", data=values[0].astype("<f4"))
    file, group = vars_of("layouts")
    with file:
        numbers = lambda *shape: np.arange(np.prod(shape), dtype="<f4").reshape(shape)
        group.create_dataset("0", data=numbers(5, 7), chunks=(2, 3), compression="gzip", shuffle=True, fletcher32=True)
        group.create_dataset("1", data=numbers(200), chunks=(1,))   # a tree of two levels
        group.create_dataset("2", data=numbers(3, 5).astype(">f8"), chunks=(2, 2), shuffle=True)
        group.create_dataset("3", data=numbers(3, 4, 5), chunks=(2, 3, 4), fletcher32=True)
        group.create_dataset("4", shape=(4, 4), dtype="<f4")        # never written: zeros
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)                          # in the header
        space = h5py.h5s.create_simple((6,))
        h5py.Dataset(h5py.h5d.create(group.id, b"5", h5py.h5t.IEEE_F32LE, space, plist))[...] = numbers(6)
        ordered = file.create_group("layers/ordered/vars", track_order=True)  # headers of the newer kind
        ordered.attrs["name"] = "ordered"
        for i in range(3):
            ordered.create_dataset(str(i), data=numbers(i + 1))
    file, group = vars_of("soft_link")
    with file:
        group["0"] = h5py.SoftLink("/elsewhere")
    file, group = vars_of("external_link")
    with file:
        group["0"] = h5py.ExternalLink("/etc/passwd", "/x")
    file, group = vars_of("external_data")
    with file:
        group.create_dataset("0", shape=(4,), dtype="u1", external=[("/etc/passwd", 0, 4)])
    file, group = vars_of("virtual")
    with file:
        layout = h5py.VirtualLayout((4,), "u1")
        layout[:] = h5py.VirtualSource("/etc/passwd", "x", (4,), "u1")
        group.create_virtual_dataset("0", layout)
    file, group = vars_of("cycle")
    with file:
        file["layers/dense/again"] = file["layers"]
    file, group = vars_of("bomb")
    with file:
        group.create_dataset("0", shape=(1 << 20, 1 << 20), dtype="<f4", chunks=(1024, 1024), compression="gzip")
    file, group = vars_of("gap")
    with file:
        group["0"] = np.zeros(2, "f4")
        group["2"] = np.zeros(2, "f4")
    file, group = vars_of("strings")
    with file:
        group["0"] = np.array([b"abc", b"d"])
    file, group = vars_of("filter")
    with file:
        group.create_dataset("0", data=np.zeros((8, 8), "f4"), chunks=(4, 4), compression="lzf")
    newer_files()


def newer_files():
    """What h5py writes only when told to: the reader says that it does not know it."""
    def vars_of(name, **options):
        file = h5py.File(FOLDER / f"keras_files_{name}.weights.h5", "w", **options)
        return file, file.create_group("layers/dense/vars")

    file, group = vars_of("newer_chunks", libver="latest")
    with file:
        group.create_dataset("0", data=np.zeros((8, 8), "f4"), chunks=(4, 4))
    file, group = vars_of("dense_links", libver="latest")
    with file:
        for i in range(9):
            group.create_dataset(str(i), data=np.zeros(1, "f4"))
    file, group = vars_of("dense_attributes", libver="latest")
    with file:
        for i in range(9):
            group.attrs[f"a{i}"] = i
    file, group = vars_of("committed_type")
    with file:
        file["type"] = np.dtype("f4")
        group.create_dataset("0", shape=(2,), dtype=file["type"])
    file, group = vars_of("user_block", userblock_size=512)
    with file:
        group["0"] = np.zeros(2, "f4")


def main():
    odd_files()
    keras.utils.set_random_seed(1)
    models = []
    for make in MODELS:
        keras.backend.clear_session()
        model = make()
        name = f"keras_files_{make.__name__}"
        fill(model)
        model.save(FOLDER / f"{name}.keras")
        record = {"file": f"{name}.keras", "class": type(model).__name__, "parameters": model.count_params(),
                  "objects": saved_objects(model)}
        if getattr(model, "optimizer", None) is not None:
            record["optimizer"] = optimizer_variables(model.optimizer)
            record["iterations"] = int(model.optimizer.iterations)
        models.append(record)
        write_config(name)
        if make is mlp:
            model.save_weights(FOLDER / "keras_files_mlp.weights.h5")
            model.save(FOLDER / "keras_files_mlp.h5")
    out = {"keras": keras.__version__, "models": models, "orders": orders(), "optimizers": optimizer_cases()}
    (FOLDER / "keras_files.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")


main()
