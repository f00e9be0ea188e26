"""Activations, initializers, regularizers and constraints of real Keras -> keras_leaves.json.

Values are computed in float64, so that what the tests compare with has no rounding errors of its own.
"""

import golden_io  # isort: skip
import copy

import keras
import numpy as np
import tensorflow as tf
from keras import activations, constraints, initializers, regularizers

rng = np.random.default_rng(5)
f32 = np.float32


def short(array):
    array = np.asarray(array, np.float64)
    return {"shape": list(array.shape), "data": [float("%.12g" % x) for x in array.reshape(-1)]}


def forward_and_gradient(function, x):
    """`function(x)`, and the gradient of its sum weighted with fixed numbers."""
    x = tf.constant(x, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        weights = np.linspace(0.5, 1.5, int(np.prod(y.shape))).astype(f32).astype(np.float64).reshape(y.shape)
        total = tf.reduce_sum(y * weights)
    return {"x": short(x), "y": short(y), "weights": short(weights), "gradient": short(tape.gradient(total, x))}


# ---- activations: small and large values, and both sides of each kink; the kinks themselves only where they are none
NEAR = [side * step for step in (1e-1, 1e-3, 1e-5) for side in (-1, 1)]
COMMON = [-1000, -100, -50, -20, -10, -7.3, -4.1, -2.7, -1.9, -1.3, -0.7, -0.2, 0.3, 0.8, 1.2, 1.7, 2.2, 3.4, 5.2, 8.1, 15, 30, 80, 1000]


def points(kinks, smooth_at_zero, limit):
    values = COMMON + [kink + near for kink in kinks for near in NEAR] + ([0] if smooth_at_zero else [])
    return np.array(sorted(x for x in values if abs(x) <= limit), f32).astype(np.float64)


# name, options, kinks, whether 0 is no kink, largest |x|
ELEMENTWISE = [
    ("relu", {}, [0], True, 1e9),  # both have gradient 0 at 0
    ("relu", dict(negative_slope=0.25), [0], False, 1e9),
    ("relu", dict(max_value=6.0), [0, 6], False, 1e9),
    ("relu", dict(max_value=2.5), [0, 2.5], False, 1e9),
    ("relu", dict(max_value=0.0), [0], False, 1e9),
    ("relu", dict(threshold=1.5), [1.5], False, 1e9),
    ("relu", dict(threshold=-1.5), [-1.5], False, 1e9),
    ("relu", dict(threshold=-1.5, max_value=2.5), [-1.5, 0, 2.5], False, 1e9),
    ("relu", dict(negative_slope=0.25, max_value=2.5, threshold=1.5), [1.5, 2.5], False, 1e9),
    ("relu", dict(negative_slope=0.25, threshold=1.5), [1.5], False, 1e9),
    ("relu", dict(negative_slope=0.25, max_value=6.0), [0, 6], False, 1e9),
    ("leaky_relu", {}, [0], False, 1e9),
    ("leaky_relu", dict(negative_slope=0.5), [0], False, 1e9),
    ("relu6", {}, [0, 6], False, 1e9),
    ("elu", {}, [0], True, 1e9),
    ("elu", dict(alpha=0.5), [0], False, 1e9),
    ("celu", {}, [0], False, 1e9),
    ("celu", dict(alpha=0.5), [0], False, 1e9),
    ("selu", {}, [0], False, 1e9),
    ("gelu", {}, [0], True, 1e9),
    ("gelu", dict(approximate=True), [0], True, 1e9),
    ("silu", {}, [0], True, 1e9),
    ("mish", {}, [0], True, 1e9),
    ("softplus", {}, [0], True, 1e9),
    ("squareplus", {}, [0], True, 1e9),
    ("squareplus", dict(b=1), [0], True, 1e9),
    ("sparse_plus", {}, [-1, 0, 1], True, 1e9),
    ("softsign", {}, [0], True, 1e9),
    ("sigmoid", {}, [0], True, 1e9),
    ("log_sigmoid", {}, [0], True, 1e9),
    ("sparse_sigmoid", {}, [-1, 1], True, 1e9),
    ("tanh", {}, [0], True, 1e9),
    ("tanh_shrink", {}, [0], True, 1e9),
    ("soft_shrink", {}, [-0.5, 0.5], True, 1e9),
    ("soft_shrink", dict(threshold=1.5), [-1.5, 1.5], True, 1e9),
    ("hard_shrink", {}, [-0.5, 0.5], True, 1e9),
    ("hard_shrink", dict(threshold=1.5), [-1.5, 1.5], True, 1e9),
    ("hard_sigmoid", {}, [-3, 3], True, 1e9),
    ("hard_silu", {}, [-3, 3], True, 1e9),
    ("hard_tanh", {}, [-1, 1], True, 1e9),
    ("threshold", dict(threshold=1.5, default_value=-7), [1.5], True, 1e9),
    ("exponential", {}, [0], True, 80),
    ("linear", {}, [0], True, 1e9),
]
matrix = rng.normal(0, 2, (5, 6)).astype(f32).round(2)
matrix[1] = [30, -40, 29, 0, 30.5, -1000]
matrix[2] *= 0.1
cube = rng.normal(0, 1, (2, 4, 3)).astype(f32).round(2)
ALONG_AXIS = [
    (name, x, axis)
    for name in ("softmax", "log_softmax", "sparsemax", "glu")
    for x, axis in ((matrix, -1), (cube, 1), (matrix[:4], 0))
]


def activation_records():
    for name, options, kinks, smooth_at_zero, limit in ELEMENTWISE:
        function = getattr(activations, name)
        x = points(kinks, smooth_at_zero, limit)
        yield {"activation": name, "options": options, **forward_and_gradient(lambda x: function(x, **options), x)}
    for name, x, axis in ALONG_AXIS:
        function = getattr(activations, name)
        yield {"activation": name, "options": {"axis": axis}, **forward_and_gradient(lambda x: function(x, axis=axis), x.astype(np.float64))}


# ---- objects as JSON. Keys that Keras 3.6 does not know are left out where they hold their defaults.
def as_json(thing):
    saved = keras.saving.serialize_keras_object(thing)
    least = copy.deepcopy(saved)
    for key in ("input_axes", "output_axes"):
        if least["config"].get(key, 0) is None:
            del least["config"][key]
    for key in ("name", "trainable", "dtype"):
        least["config"].pop(key, None)
    for key in ("build_config", "shared_object_id"):
        least.pop(key, None)
    again = keras.saving.serialize_keras_object(keras.saving.deserialize_keras_object(copy.deepcopy(least)))
    again["config"].pop("name", None)
    assert again["config"] == {key: value for key, value in saved["config"].items() if key != "name"}, (saved, again)
    return {"saved": saved, "least": least}


def layer_records():
    """Activation layers where an activation is expected."""
    layers = [
        keras.layers.ReLU(),
        keras.layers.ReLU(max_value=6),
        keras.layers.ReLU(max_value=2.5, negative_slope=0.25, threshold=1.5),
        keras.layers.LeakyReLU(),
        keras.layers.LeakyReLU(negative_slope=0.1),
        keras.layers.ELU(alpha=0.5),
        keras.layers.Softmax(axis=0),
    ]
    x = points([0, 1.5, 2.5], False, 100).reshape(2, -1)
    for layer in layers:
        dense = keras.layers.Dense(1, activation=layer)
        held = dense.get_config()["activation"]
        objects = as_json(layer)
        assert held["config"] == keras.saving.serialize_keras_object(layer)["config"], held
        layer = layer.__class__.from_config({**layer.get_config(), "dtype": "float64"})
        yield {"layer": objects, "x": short(x), "y": short(layer(x))}
    wrapped = keras.layers.Activation("tanh")
    yield {"layer": {"saved": keras.saving.serialize_keras_object(wrapped), "least": "tanh"}, "x": short(x), "y": short(np.tanh(x))}


# ---- regularizers
REGULARIZERS = [
    ("L1", {}), ("L1", dict(l1=0.25)), ("L2", {}), ("L2", dict(l2=0.25)), ("L1L2", {}), ("L1L2", dict(l1=0.25)),
    ("L1L2", dict(l2=0.5)), ("L1L2", dict(l1=0.25, l2=0.5)), ("OrthogonalRegularizer", {}),
    ("OrthogonalRegularizer", dict(factor=0.5, mode="columns")),
]  # fmt: skip
weights = rng.normal(0, 1, (5, 4)).astype(f32).round(2)


def regularizer_records():
    for name, options in REGULARIZERS:
        rule = getattr(regularizers, name)(**options)
        x = tf.constant(weights)  # in float32: some hold a factor as such a tensor
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = rule(x) + 0 * tf.reduce_sum(x)  # L1L2() is a constant
        yield {"regularizer": name, "options": options, "json": as_json(rule), "x": short(x), "y": short(value), "gradient": short(tape.gradient(value, x))}


# ---- constraints
CONSTRAINTS = [
    ("MaxNorm", {}), ("MaxNorm", dict(max_value=0.5, axis=1)), ("MaxNorm", dict(max_value=1, axis=[0, 1])),
    ("NonNeg", {}), ("UnitNorm", {}), ("UnitNorm", dict(axis=1)), ("MinMaxNorm", {}),
    ("MinMaxNorm", dict(min_value=1.0, max_value=2.0, rate=0.25, axis=1)), ("UnitNorm", dict(axis=[0, 1])),
]  # fmt: skip


def constraint_records():
    w = weights.copy()
    w[:, 1] *= 0.1
    w[:, 2] = 0
    for name, options in CONSTRAINTS:
        rule = getattr(constraints, name)(**options)
        yield {"constraint": name, "options": options, "json": as_json(rule), "x": short(w), "y": short(rule(w.astype(np.float64)))}


# ---- initializers
CLASSES = [
    ("Zeros", {}), ("Ones", {}), ("Constant", {}), ("Constant", dict(value=-2.5)), ("Identity", {}), ("Identity", dict(gain=2.0)),
    ("RandomNormal", {}), ("RandomNormal", dict(mean=1.0, stddev=2.0, seed=3)), ("RandomUniform", {}),
    ("RandomUniform", dict(minval=1.0, maxval=3.0, seed=3)), ("TruncatedNormal", {}),
    ("TruncatedNormal", dict(mean=1.0, stddev=2.0, seed=3)), ("Orthogonal", {}), ("Orthogonal", dict(gain=2.0, seed=3)),
    ("VarianceScaling", {}), ("VarianceScaling", dict(scale=3.0, mode="fan_out", distribution="uniform", seed=3)),
    ("VarianceScaling", dict(scale=3.0, mode="fan_avg", distribution="untruncated_normal")),
    ("VarianceScaling", dict(distribution="normal", input_axes=[2], output_axes=[0, 1])),
    ("GlorotUniform", {}), ("GlorotNormal", dict(seed=3)), ("HeNormal", {}), ("HeUniform", {}), ("LecunNormal", {}),
    ("LecunUniform", {}), ("HeNormal", dict(seed=3, input_axes=[0, 1], output_axes=[-1])),
]  # fmt: skip
SHAPES = [(400, 500), (3, 3, 100, 220), (200000,), (20, 100, 100)]


def moments(values):
    values = np.asarray(values, np.float64).reshape(-1)
    centered = values - values.mean()
    variance = float((centered**2).mean())
    kurtosis = float((centered**4).mean()) / variance**2 if variance else 0.0
    return [float("%.8g" % x) for x in (values.mean(), variance, kurtosis, values.min(), values.max())]


def initializer_records():
    keras.utils.set_random_seed(11)
    for name, options in CLASSES:
        make = getattr(initializers, name)
        rule = make(**options)
        objects = as_json(rule)
        if name == "Identity" and options:  # Keras forgets the gain when it saves, but reads it
            objects["least"]["config"] = options
            assert keras.saving.deserialize_keras_object(copy.deepcopy(objects["least"])).gain == 2
        draws = []
        for shape in SHAPES:
            wants_axes = "input_axes" in options and len(shape) < 3
            if wants_axes or (name == "Identity" and len(shape) != 2) or (name == "Orthogonal" and len(shape) < 2):
                continue
            draws.append({"shape": list(shape), "moments": moments(rule(shape))})
        yield {"initializer": name, "options": options, "json": objects, "draws": draws}


def names(module, base):
    """What `get` takes, and what it gives."""
    table = module.ALL_OBJECTS_DICT
    return {name: thing.__name__ for name, thing in sorted(table.items()) if thing is not base}


header = {
    "names": {
        "activations": names(keras.src.activations, None),
        "initializers": names(keras.src.initializers, keras.initializers.Initializer),
        "regularizers": names(keras.src.regularizers, keras.regularizers.Regularizer),
        "constraints": names(keras.src.constraints, keras.constraints.Constraint),
    },
}
records = [
    *activation_records(),
    *layer_records(),
    *regularizer_records(),
    *constraint_records(),
    *initializer_records(),
]
golden_io.write("keras_leaves.json", header, records)
