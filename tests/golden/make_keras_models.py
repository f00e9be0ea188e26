#!/usr/bin/env python3
"""Writes keras_models_*.keras with real Keras, and keras_models.json: inputs, outputs, summaries, training.

    python3 make_keras_models.py

Every model is saved with weights that are all different. The JSON has for each: inputs and what the model predicts for them,
`summary()` with several options, and, for compiled ones, what one more step on a batch makes of the predictions, so that
the optimizer's state matters. `legacy` is an `.h5` of the whole model.
"""
import io
import json
import os
import pathlib

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["COLUMNS"] = "100"

import keras
import numpy as np
from keras import layers as L
from keras import ops

FOLDER = pathlib.Path(__file__).parent


def mlp():
    model = keras.Sequential([L.Input((4,)), L.Dense(5, activation="relu", name="hidden"), L.Dropout(0.2), L.BatchNormalization(),
                              L.Dense(3, activation="softmax", use_bias=False)], name="mlp")
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    return model


def cnn():
    model = keras.Sequential([
        L.Input((8, 8, 2)), L.Conv2D(3, 3, padding="same", strides=2), L.BatchNormalization(), L.ReLU(), L.MaxPooling2D(),
        L.DepthwiseConv2D(2, depth_multiplier=2), L.UpSampling2D(2), L.SeparableConv2D(3, 2, use_bias=False, padding="same"),
        L.Conv2DTranspose(2, 2), L.AveragePooling2D(2, 1, "same"), L.GlobalAveragePooling2D(), L.Dense(2)], name="cnn")
    model.compile(keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9), momentum=0.9), "mse")
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
    model = keras.Model([a, b], [L.Dense(1, name="first")(z), L.Dense(2, name="second", activation="tanh")(z)], name="shared")
    model.compile(keras.optimizers.RMSprop(0.01, momentum=0.9, centered=True), ["mse", "mae"], loss_weights=[1.0, 0.5])
    return model


def operations():
    x, y = keras.Input((4, 6), name="x"), keras.Input((4, 6), name="y")
    z = -(x + y) * 2.0 - 1.0
    z = z / (ops.exp(y) + 1.5) + ops.maximum(x, 0.25) * ops.minimum(y, x)
    z = ops.power(ops.absolute(z) + 0.5, 0.5)
    first, last = z[:, 0], z[:, -1, 1:5:2]
    w = ops.concatenate([first, last, ops.mean(z, axis=1), ops.sum(z, axis=(1,), keepdims=False)], axis=-1)
    w = ops.softmax(ops.gelu(w)) + ops.sigmoid(ops.relu(w)) * ops.tanh(ops.sqrt(ops.square(w) + 1.0))
    m = ops.matmul(ops.transpose(z, (0, 2, 1)), ops.reshape(z, (-1, 4, 6)))
    m = ops.max(ops.squeeze(ops.expand_dims(m, 1), 1), axis=-1, keepdims=True)
    out = L.Dense(3)(w)
    return keras.Model([x, y], [out, ops.cast(m, "float32")], name="operations")


def recurrent():
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    x = L.Embedding(7, 4, mask_zero=True)(tokens)
    x = L.Bidirectional(L.LSTM(2, return_sequences=True))(x)
    x = L.GRU(3, return_sequences=True)(x)
    x = L.TimeDistributed(L.Dense(2))(x)
    x = L.SimpleRNN(2, use_bias=False)(x)
    model = keras.Model(tokens, x, name="recurrent")
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse")   # others treat the gradient of an embedding in a way of TensorFlow's
    return model


def seq2seq():
    source, target = keras.Input((None, 3), name="source"), keras.Input((None, 2), name="target")
    _, h, c = L.LSTM(4, return_state=True, name="encoder")(source)
    y = L.LSTM(4, return_sequences=True, name="decoder")(target, initial_state=[h, c])
    return keras.Model([source, target], L.Dense(2)(y), name="seq2seq")


def cells():
    inputs = keras.Input((5, 3))
    x = L.RNN([L.LSTMCell(2), L.GRUCell(2, reset_after=False)], return_sequences=True)(inputs)
    x = L.Bidirectional(L.GRU(2, return_sequences=True, reset_after=False), merge_mode="sum")(x)
    return keras.Model(inputs, L.GRU(3, go_backwards=True, activation="relu")(x), name="cells")


def attention():
    inputs = keras.Input((4, 6))
    x = L.MultiHeadAttention(2, 3, value_dim=2)(inputs, inputs, use_causal_mask=True)
    x = L.Add()([x, inputs])
    x = L.LayerNormalization(center=False)(x)
    x = L.MultiHeadAttention(1, 2)(query=x, value=inputs)
    x = L.MultiHeadAttention(1, 2)(x, inputs, key=x)
    x = L.EinsumDense("abc,cd->abd", (None, 5), bias_axes="d")(x)
    x = L.Attention(use_scale=True)([x, x])
    model = keras.Model(inputs, L.GlobalAveragePooling1D()(x), name="attention")
    model.compile(keras.optimizers.Nadam(0.01, epsilon=1e-3), "mse")
    return model


def sequences():
    model = keras.Sequential([L.Input((10, 3)), L.Conv1D(4, 3, padding="causal", dilation_rate=2, activation="elu"), L.MaxPooling1D(2),
                              L.ZeroPadding1D(1), L.Conv1DTranspose(2, 3, strides=2), L.Cropping1D((1, 2)), L.LeakyReLU(),
                              L.GlobalMaxPooling1D(), L.RepeatVector(2), L.Permute((2, 1)), L.Reshape((-1,)), L.Flatten()], name="sequences")
    return model


def volumes():
    return keras.Sequential([L.Input((4, 4, 4, 2)), L.Conv3D(2, 2, activation="swish"), L.ZeroPadding3D(1), L.AveragePooling3D(2),
                             L.UpSampling3D(2), L.Cropping3D(1), L.Flatten(), L.Dense(2, "sigmoid")], name="volumes")


def merging():
    a, b = keras.Input((3, 4), name="a"), keras.Input((3, 4), name="b")
    merged = [layer([a, b]) for layer in (L.Add(), L.Subtract(), L.Multiply(), L.Average(), L.Maximum(), L.Minimum(), L.Dot(axes=(2, 2)))]
    return keras.Model([a, b], L.Concatenate(axis=-1)(merged), name="merging")


def preprocessing():
    normalization = L.Normalization(axis=-1)
    normalization.build((None, 6, 6, 3))
    inputs = keras.Input((6, 6, 3))
    x = L.Rescaling(1 / 255.0, offset=-0.1)(inputs)
    x = L.RandomFlip("horizontal", seed=1)(x)
    x = L.RandomRotation(0.1, seed=1)(x)
    x = normalization(x)
    x = L.Cropping2D(((0, 1), (1, 0)))(x)
    x = L.ZeroPadding2D(((1, 0), (0, 2)))(x)
    return keras.Model(inputs, L.GlobalMaxPooling2D()(x), name="preprocessing")


def frames():
    small = keras.Sequential([L.Input((4, 4, 1)), L.Conv2D(2, 3), L.Flatten()], name="small")
    inputs = keras.Input((3, 4, 4, 1))
    return keras.Model(inputs, L.LSTM(2)(L.TimeDistributed(small)(inputs)), name="frames")


def normalizations():
    inputs = keras.Input((4, 4, 6))
    x = L.GroupNormalization(3)(inputs)
    x = L.BatchNormalization(scale=False, axis=2)(x)
    x = L.LayerNormalization(axis=(2, 3))(x)
    x = L.UnitNormalization()(x)
    return keras.Model(inputs, L.GlobalAveragePooling2D()(x), name="normalizations")


def double():
    model = keras.Sequential([L.Input((4,), dtype="float64"), L.Dense(3, activation="gelu", dtype="float64"), L.Dense(2, dtype="float64")], name="double")
    return model


def options():
    model = keras.Sequential([
        L.Input((6,)),
        L.Dense(5, kernel_initializer=keras.initializers.HeNormal(seed=3), kernel_regularizer=keras.regularizers.L1L2(0.01, 0.02),
                bias_regularizer="l2", kernel_constraint=keras.constraints.MaxNorm(2.0), name="first"),
        L.Activation("hard_sigmoid"), L.GaussianNoise(0.1), L.Dense(4, bias_initializer=keras.initializers.Constant(0.5), activity_regularizer="l1"),
        L.ELU(0.5), L.Softmax(), L.Dense(3, trainable=False, kernel_constraint="non_neg")], name="options")
    model.compile(keras.optimizers.AdamW(0.005, clipnorm=1.0), keras.losses.Huber(0.5))
    return model


def residual():
    inputs = keras.Input((8, 8, 3), name="image")
    x = L.Conv2D(4, 3, padding="same", use_bias=False, name="stem")(inputs)
    for i in range(2):
        y = L.BatchNormalization(epsilon=1e-5, momentum=0.9)(x)
        y = L.Activation("relu")(y)
        y = L.Conv2D(4, 3, padding="same", use_bias=False, kernel_regularizer="l2", name=f"conv_{i}")(y)
        x = L.Add(name=f"sum_{i}")([x, y])
    model = keras.Model(inputs, L.Dense(3, name="logits")(L.GlobalAveragePooling2D()(x)), name="residual")
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True), keras.losses.CategoricalCrossentropy(from_logits=True))
    return model


def named():
    inputs = {"b": keras.Input((2,), name="b"), "a": keras.Input((3,), name="a")}
    x = L.Concatenate()([inputs["a"], inputs["b"]])
    return keras.Model(inputs, {"two": L.Dense(2, name="d2")(x), "one": L.Dense(1, name="d1")(x)}, name="named")


def masked():
    inputs = keras.Input((5, 3))
    before = L.Dense(3)(inputs)
    x = L.Masking(0.5)(inputs)
    x = L.LSTM(3, return_sequences=True, zero_output_for_mask=True)(x)
    y = L.LSTM(3)(before * x)
    return keras.Model(inputs, y, name="masked")


def branches():
    """Two equal layers, of which the operations behind a mask decide which one is numbered first."""
    inputs = keras.Input((5, 3))
    left, right = L.Dense(3, name="left")(inputs), L.Dense(3, name="right")(inputs)
    x = L.LSTM(2)(L.Masking()(left))
    y = L.GlobalAveragePooling1D()(L.Activation("tanh")(right))
    return keras.Model(inputs, [y, x], name="branches")


def attention_masks():
    """Masks without a key: a tensor, and constants, which stand in the call."""
    x, mask = keras.Input((4, 6), name="x"), keras.Input((4, 4), dtype="bool", name="mask")
    triangle = np.tril(np.ones((4, 4), bool))
    y = L.MultiHeadAttention(2, 3)(x, x, attention_mask=mask)
    y = L.GroupQueryAttention(3, 2, 1)(y, y, attention_mask=mask)
    y = L.MultiHeadAttention(2, 3)(y, x, attention_mask=triangle)
    y = L.GroupQueryAttention(3, 2, 1)(y, y, attention_mask=ops.convert_to_tensor(triangle))
    return keras.Model([x, mask], L.MultiHeadAttention(1, 2)(y, x, y, attention_mask=mask), name="attention_masks")


def kernels(optimizer, name):
    """Rules that look at whole kernels; a convolution's does not lie in memory as its shape says."""
    model = keras.Sequential([L.Input((6, 6, 2)), L.Conv2D(3, 3, activation="relu"), L.SeparableConv2D(3, 2), L.Flatten(),
                              L.Dense(4, "tanh"), L.Dense(2)], name=name)
    model.compile(optimizer, "mse")
    return model


def lamb():
    return kernels(keras.optimizers.Lamb(0.01), "lamb")


def adafactor():
    return kernels(keras.optimizers.Adafactor(0.01), "adafactor")


def functions():
    """Compiled with functions in place of objects and names."""
    model = keras.Sequential([L.Input((4,)), L.Dense(3, activation="softmax")], name="functions")
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), keras.losses.mean_squared_error, metrics=[keras.metrics.mean_absolute_error])
    return model


@keras.saving.register_keras_serializable(package="mine")
class Scale(L.Layer):
    """A class of the user's, whose name other packages may have, too."""

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


def registered():
    x = keras.Input((4, 3))
    y = ops.einsum("bij,bkj->bik", Scale(name="scale")(x), Times(3.0)(x))
    return keras.Model(x, Scale(name="again")(y), name="registered")


def mixed_bfloat16():
    inputs = keras.Input((6,))
    x = L.Dense(5, activation="gelu")(inputs)
    x = L.BatchNormalization()(L.Dense(5)(x) + x)
    return keras.Model(inputs, [L.Dense(3, dtype="float32", activation="softmax")(x), L.Dense(2)(x)], name="mixed_bfloat16")


def mixed_float16():
    """Trained under a loss scale, which Keras puts around the optimizer and does not write into compile_config."""
    model = keras.Sequential([L.Input((4,)), L.Dense(5, activation="tanh"), L.Dense(2)], name="mixed_float16")
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model


# Made, and loaded, under the policy of their name.
POLICIES = {mixed_bfloat16: 0.02, mixed_float16: 0.002}   # tolerances

MODELS = [mlp, cnn, shared, operations, recurrent, seq2seq, cells, attention, sequences, volumes, merging, preprocessing, frames, normalizations,
          double, options, residual, named, masked, branches,
          attention_masks, lamb, adafactor, functions, registered,
          mixed_bfloat16, mixed_float16]


def digits(values):
    return [float(f"{v:.9g}") if isinstance(v, float) else v for v in np.asarray(values).reshape(-1).tolist()]


def tensor(value):
    value = np.asarray(value)
    exact = value.astype("float32") if str(value.dtype) in ("float16", "bfloat16") else value
    return {"dtype": str(value.dtype), "shape": list(value.shape), "data": digits(exact)}


def in_order(value):
    """Named outputs in the order in which Keras flattens them."""
    if isinstance(value, dict):
        return [value[key] for key in sorted(value)]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def inputs_of(model, rng, batch):
    result = []
    for t in model.inputs:
        shape = [batch] + [7 if d is None else d for d in t.shape[1:]]
        if t.dtype == "int32":
            result.append(rng.integers(0, 7, size=shape).astype("int32"))
        elif t.dtype == "bool":
            result.append(rng.integers(0, 2, size=shape).astype("bool") | np.eye(shape[-1], dtype=bool))
        else:
            result.append(rng.normal(size=shape).astype(t.dtype))
    if model.name == "masked":
        result[0][0, 1:3] = 0.5
        result[0][2, 3:] = 0.5
    if model.name == "preprocessing":
        result[0] = result[0] * 100
    return result


def given(model, inputs):
    if model.name == "named":
        return {t.name: x for t, x in zip(model.inputs, inputs)}
    return inputs if len(inputs) > 1 else inputs[0]


def summaries(model):
    cases = []
    for arguments in ({}, {"line_length": 70}, {"expand_nested": True, "show_trainable": True, "line_length": 96}):
        text = io.StringIO()
        model.summary(print_fn=lambda line, **_: text.write(line), **arguments)
        cases.append({"options": arguments, "text": text.getvalue()})
    return cases


def fill(model, rng):
    for variable in model.weights:
        value = rng.normal(size=variable.shape) * 0.5
        if "variance" in variable.name:
            value = np.abs(value) + 0.5
        if variable.name == "count":
            value = np.array(1)
        variable.assign(value)
    for layer in model.layers:
        if isinstance(layer, L.Normalization):
            layer.finalize_state()


def main():
    out = {"keras": keras.__version__, "models": []}
    for make in MODELS:
        keras.backend.clear_session()
        keras.utils.set_random_seed(1)
        rng = np.random.default_rng(5)
        keras.config.set_dtype_policy(make.__name__ if make in POLICIES else "float32")
        model = make()
        inputs = inputs_of(model, rng, 3)
        model(given(model, inputs))
        fill(model, rng)
        record = {"name": make.__name__, "file": f"keras_models_{make.__name__}.keras", "class": type(model).__name__}
        if make in POLICIES:
            record |= {"policy": make.__name__, "tolerance": POLICIES[make]}
        if getattr(model, "optimizer", None) is not None:
            outputs = in_order(model(given(model, inputs)))
            targets = [rng.random(size=o.shape).astype("float32") for o in outputs]
            if make is residual:   # TensorFlow's gradient of a cross entropy wants probabilities
                targets = [t / t.sum(axis=-1, keepdims=True) for t in targets]
            for layer in model._flatten_layers():          # random layers would draw
                if isinstance(layer, (L.Dropout, L.GaussianNoise)):
                    layer.rate = layer.stddev = 0.0
            labels = targets if len(targets) > 1 else targets[0]
            for _ in range(3):
                model.train_on_batch(given(model, inputs), labels)
            for layer in model._flatten_layers():
                if isinstance(layer, L.Dropout):
                    layer.rate = 0.0
        model.save(FOLDER / record["file"])
        record["inputs"] = [tensor(x) for x in inputs]
        record["outputs"] = [tensor(y) for y in in_order(model(given(model, inputs), training=False))]
        record["summaries"] = summaries(model)
        record["layers"] = [layer.name for layer in model.layers]
        if getattr(model, "optimizer", None) is not None:
            if make in POLICIES:
                record["iterations"] = int(model.optimizer.iterations)
            record["targets"] = [tensor(t) for t in targets]
            model = keras.saving.load_model(FOLDER / record["file"])
            loss = model.train_on_batch(given(model, inputs), labels)
            record["next_loss"] = float(np.reshape(loss, -1)[0])
            record["next_outputs"] = [tensor(y) for y in in_order(model(given(model, inputs), training=False))]
        out["models"].append(record)
        if make is merging:
            model.save(FOLDER / "keras_models_legacy_merging.h5")
        if make is mlp:
            plain = keras.models.clone_model(model)
            plain.set_weights(model.get_weights())
            plain.save(FOLDER / "keras_models_legacy_mlp.h5")
            out["legacy_mlp"] = [tensor(y) for y in in_order(plain(inputs[0], training=False))]
    (FOLDER / "keras_models.json").write_text(json.dumps(out, separators=(",", ":"), ensure_ascii=False) + "\n")


main()
