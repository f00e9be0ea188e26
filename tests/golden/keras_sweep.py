"""Writes keras_sweep.json: random small models of real Keras, and losses with random weights and masks, in float64.

    python keras_sweep.py [SEED COUNT FILE]   # other ones, into a file of their own: STRATA_SWEEP=FILE strata_keras_sweep_test

A model has its JSON, weights, inputs, targets, what it predicts, the values of three steps of training, and what it predicts then.
A loss has its value and gradient. The C++ side is tests/keras/sweep_golden_test.cc.
"""
import json
import os
import pathlib
import sys

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf
from keras import layers, losses, ops, optimizers, regularizers

STEPS = 3
rng = None


def pick(*values):
    return values[rng.integers(len(values))]


def chance(p):
    return bool(rng.random() < p)


def some(**options):
    """About half of the options, each from its choices."""
    return {name: pick(*choices) for name, choices in options.items() if chance(0.5)}


def r(*shape):
    return rng.normal(size=shape)


ACTIVATIONS = ("relu", "tanh", "sigmoid", "softmax", "elu", "gelu", "silu", "softplus", "hard_sigmoid", "leaky_relu", "mish", "sparsemax")


def weight_options(kernel="kernel"):
    options = some(use_bias=(True, False), bias_regularizer=("l2", None), bias_constraint=("non_neg", "max_norm"))
    regularizer = regularizers.L1L2(0.01, 0.02)
    return options | {f"{kernel}_{key}": value for key, value in some(regularizer=("l1", regularizer), constraint=("max_norm", "unit_norm", "min_max_norm")).items()}


def masked(x):
    """Rows with steps of zeros, which Masking hides."""
    for row in x:
        row[rng.choice(len(row), rng.integers(0, len(row)), replace=False)] = 0
    return x


# Each returns a function of symbolic tensors and the inputs.


def convolution():
    rank = pick(1, 2, 3)
    name = pick("Conv", "DepthwiseConv", "SeparableConv") if rank < 3 else "Conv"
    options = {"padding": pick("valid", "same")} | some(activation=ACTIVATIONS)
    options |= weight_options("kernel" if name == "Conv" else "depthwise")
    options |= {"strides": 2} if chance(0.3) else some(dilation_rate=(1, 2))
    arguments = [2] if name == "DepthwiseConv" else [4, 2]
    if name == "Conv" and chance(0.3) and rank < 3:
        options["groups"] = 2
    return getattr(layers, f"{name}{rank}D")(*arguments, **options), [r(2, *[5] * rank, 2)]


def transposed():
    rank = pick(1, 2)
    options = {"padding": pick("valid", "same")} | some(strides=(2, 3), activation=ACTIVATIONS) | weight_options()
    return getattr(layers, f"Conv{rank}DTranspose")(3, 3, **options), [r(2, *[4] * rank, 2)]


def conv_lstm():
    options = some(activation=ACTIVATIONS, recurrent_activation=("sigmoid", "softmax", "hard_sigmoid"), return_sequences=(True, False),
                   go_backwards=(True, False), padding=("valid", "same")) | weight_options()
    return layers.ConvLSTM2D(pick(1, 2), 2, **options), [r(2, 3, 4, 4, 2)]


def normalization():
    shape = (3, *rng.choice([2, 3, 4], pick(1, 2, 3)).tolist())
    axes = sorted(rng.choice(range(1, len(shape)), rng.integers(1, len(shape)), replace=False).tolist())
    kind = pick("Batch", "Layer", "RMS", "Group", "Unit")
    if kind == "Batch":
        return layers.BatchNormalization(axis=axes[0], **some(momentum=(0.5, 0.9), center=(False,), scale=(False,))), [r(*shape)]
    if kind == "Group":
        return layers.GroupNormalization(pick(1, -1), axis=-1, epsilon=0.01), [r(*shape)]
    if kind == "RMS":   # Keras multiplies by the scale along the last axes, whichever `axis` says
        return layers.RMSNormalization(axis=pick(-1, 1, [1, 2])), [r(2, 3, 3)]
    if kind == "Unit":
        return layers.UnitNormalization(axis=axes), [r(*shape)]
    return layers.LayerNormalization(axis=axes, **some(center=(False,), scale=(False,), epsilon=(0.1,))), [r(*shape)]


def recurrent():
    name = pick("LSTM", "GRU", "SimpleRNN")
    options = some(activation=ACTIVATIONS, return_sequences=(True, False), go_backwards=(True, False), zero_output_for_mask=(True,)) | weight_options()
    options |= some(reset_after=(True, False)) if name == "GRU" else {}
    layer = getattr(layers, name)(3, return_state=chance(0.2), **options)
    if not layer.return_state and chance(0.4):
        layer = layers.Bidirectional(layer, merge_mode=pick("concat", "sum", "mul", "ave"))
    x = r(3, 4, 2)
    if chance(0.5):
        return lambda t: layer(layers.Masking()(t)), [masked(x)]
    return layer, [x]


def each_step():
    inner = pick(lambda: layers.BatchNormalization(), lambda: keras.Sequential([layers.Dense(3), layers.BatchNormalization()]), lambda: layers.Dense(2))
    layer, x = layers.TimeDistributed(inner()), r(3, 4, 2)
    if chance(0.7):
        return lambda t: layer(layers.Masking()(t)), [masked(x)]
    return layer, [x]


def attention():
    name = pick("MultiHeadAttention", "GroupQueryAttention", "Attention", "AdditiveAttention")
    call = some(use_causal_mask=(True,))
    xs = [r(2, 4, 3), r(2, 5, 3)]
    if name.startswith("A") and name != "AdditiveAttention":
        layer = layers.Attention(use_scale=chance(0.5), score_mode=pick("dot", "concat"))
        return lambda q, v: layer([q, v], **call), xs
    if name == "AdditiveAttention":
        layer = layers.AdditiveAttention()
        return lambda q, v: layer([q, v], **call), xs
    layer = layers.MultiHeadAttention(2, 3) if name[0] == "M" else layers.GroupQueryAttention(2, 4, 2)
    return lambda q, v: layer(q, v, **call), xs


def merging():
    name = pick("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Dot")
    layer = layers.Dot(axes=-1, normalize=chance(0.5)) if name == "Dot" else getattr(layers, name)()
    return lambda *xs: layer(list(xs)), [r(3, 2, 4), r(3, 2, 4)]


def without_weights():
    """Alone, these are models that train nothing."""
    layer = pick(layers.ZeroPadding2D(pick(1, (1, 2))), layers.UpSampling2D(2, interpolation=pick("nearest", "bilinear")), layers.MaxPooling2D(2),
                 layers.AveragePooling2D(2, padding="same"), layers.Cropping2D(1), layers.Permute((3, 1, 2)), layers.Reshape((-1, 2)),
                 layers.GlobalAveragePooling2D(keepdims=chance(0.5)), layers.Softmax(axis=pick(1, (1, 2), -1)), layers.Flatten())
    return layer, [r(2, 4, 4, 2)]


def operation():
    axis, keepdims = pick(None, 1, -1, (1, 2), [2]), chance(0.5)
    name = pick("sum", "mean", "max", "min", "prod", "std", "var", "logsumexp", "softmax", "log_softmax", "split")
    if name == "split":   # outputs of one name
        return lambda t: ops.split(t, 2, axis=1), [r(2, 4, 3)]
    if name.endswith("softmax"):
        axis = pick(None, 1, -1) if name[0] == "l" else axis
        return lambda t: getattr(ops, name)(t, axis=axis), [r(2, 4, 3)]
    return lambda t: getattr(ops, name)(t, axis=1 if axis is None else axis, keepdims=keepdims), [r(2, 4, 3)]


FAMILIES = (convolution, transposed, conv_lstm, normalization, recurrent, each_step, attention, merging, without_weights, operation)


def numbers(value):
    value = np.asarray(value)
    return {"shape": list(value.shape), "dtype": value.dtype.name, "data": [float("%.14g" % x) for x in value.reshape(-1).tolist()]}


def as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def alone(values):
    return values if len(values) > 1 else values[0]


def fill(model):
    for weight in model.weights:
        u, name = rng.uniform(-1, 1, weight.shape), weight.path.split("/")[-1]
        if name in ("gamma", "scale") or name.endswith("variance"):
            u = 1 + 0.3 * u
        elif len(weight.shape) > 1:
            u *= np.sqrt(3 / np.prod(weight.shape[:-1]))
        else:
            u *= 0.3
        weight.assign(u)


def optimizer():
    """Keras on TensorFlow rounds Adam's betas to float32, which a small rate keeps below 1e-6."""
    return pick(lambda: optimizers.SGD(0.02, momentum=0.9, **some(nesterov=(True,), clipnorm=(0.5,), weight_decay=(0.01,))),
                lambda: optimizers.Adam(0.001, epsilon=1e-3, **some(amsgrad=(True,), global_clipnorm=(0.5,), use_ema=(True,))),
                lambda: optimizers.RMSprop(0.01, epsilon=1e-3, **some(centered=(True,), momentum=(0.5,), clipvalue=(0.1,))),
                lambda: optimizers.Adagrad(optimizers.schedules.ExponentialDecay(0.05, 2, 0.7)))()


def model_case(family):
    keras.backend.clear_session()
    function, xs = family()
    inputs = [keras.Input(x.shape[1:]) for x in xs]
    before = inputs if family in (recurrent, each_step, without_weights) else [layers.Dense(x.shape[-1])(t) for t, x in zip(inputs, xs)]
    model = keras.Model(alone(inputs), alone(as_list(function(*before))), name="swept")
    fill(model)
    predict = lambda: [np.asarray(y) for y in as_list(model(alone(xs), training=False))]
    predicts = predict()
    ys = [r(*y.shape) for y in predicts]
    loss = [pick("mse", "mae", "huber", "log_cosh") for _ in ys]
    case = {"family": family.__name__, "config": json.loads(model.to_json()), "weights": [numbers(w) for w in model.weights], "inputs": [numbers(x) for x in xs],
            "targets": [numbers(y) for y in ys], "predicts": [numbers(y) for y in predicts], "losses": loss}
    model.compile(optimizer(), alone(loss), jit_compile=False)
    case["optimizer"] = keras.saving.serialize_keras_object(model.optimizer)
    case["steps"] = [{k: float(v) for k, v in model.train_on_batch(alone(xs), alone(ys), return_dict=True).items()} for _ in range(STEPS)]
    case["then_predicts"] = [numbers(y) for y in predict()]
    case["config"].pop("compile_config", None)
    json.dumps(case, allow_nan=False)
    return case


def loss_case():
    shape = pick((5, 3), (5, 2, 4))
    reduction = pick("sum_over_batch_size", "sum", "none", "mean_with_sample_weight")
    logits, smoothing = chance(0.5), pick(0.0, 0.1)
    y = np.eye(shape[-1])[rng.integers(0, shape[-1], shape[:-1])]
    p = r(*shape) if logits else rng.uniform(0.05, 1, shape)
    crossentropy = dict(from_logits=logits, label_smoothing=smoothing, reduction=reduction)
    kind = pick("focal", "categorical", "binary", "sparse", "mse", "hinge", "dice")
    if kind == "focal":
        loss = losses.CategoricalFocalCrossentropy(alpha=pick(0.3, rng.uniform(0.1, 1, shape[-1]).round(2).tolist()), gamma=pick(1.0, 2.0), **crossentropy)
    elif kind == "sparse":
        loss, y = losses.SparseCategoricalCrossentropy(logits, ignore_class=pick(None, 0), reduction=reduction), y.argmax(-1)
    elif kind in ("categorical", "binary"):
        loss = {"categorical": losses.CategoricalCrossentropy, "binary": losses.BinaryCrossentropy}[kind](**crossentropy)
    else:
        loss = {"mse": losses.MeanSquaredError, "hinge": losses.Hinge, "dice": lambda reduction: losses.Dice(reduction, axis=-1)}[kind](reduction=reduction)
    values = shape[:-1]
    weight = pick(None, np.zeros, np.random.Generator.random)
    if weight is not None:
        size = pick(values, values + (1,), values[:1])
        weight = np.zeros(size) if weight is np.zeros else rng.random(size) * (rng.random(size) > 0.3)
    mask = pick(None, rng.random(values) > 0.4, np.zeros(values, bool)) if kind != "sparse" else None
    prediction = tf.convert_to_tensor(p)
    with tf.GradientTape() as tape:
        tape.watch(prediction)
        if mask is not None:
            keras.src.backend.set_keras_mask(prediction, tf.convert_to_tensor(mask))
        value = loss(tf.convert_to_tensor(y), prediction, sample_weight=None if weight is None else tf.convert_to_tensor(weight))
    gradient = tape.gradient(value, prediction, unconnected_gradients="zero")
    case = {"config": keras.saving.serialize_keras_object(loss), "y_true": numbers(y), "y_pred": numbers(p), "value": numbers(value), "gradient": numbers(gradient)}
    case |= {} if weight is None else {"sample_weight": numbers(weight)}
    return case | ({} if mask is None else {"mask": numbers(mask)})


def tried(make, *arguments):
    """None for what Keras itself refuses."""
    try:
        return make(*arguments)
    except Exception as problem:  # random options need not go together
        print(make.__name__, *(a.__name__ for a in arguments), str(problem)[:100].replace("\n", " "), flush=True)
        return None


def main():
    global rng
    seed, count, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    keras.config.set_floatx("float64")
    tf.config.run_functions_eagerly(True)
    out = {"keras": keras.__version__, "tensorflow": tf.__version__, "models": [], "losses": []}
    for i in range(count):
        for place, family in enumerate(FAMILIES):
            rng = np.random.default_rng([seed, i, place])
            out["models"].append(tried(model_case, family))
        rng = np.random.default_rng([seed, i])
        out["losses"] += [tried(loss_case) for _ in range(10)]
    for kind in ("models", "losses"):
        out[kind] = [case for case in out[kind] if case]
    pathlib.Path(path).write_text(json.dumps(out, separators=(",", ":")) + "\n")
    print(len(out["models"]), "models,", len(out["losses"]), "losses")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.argv += ["1", "6", str(pathlib.Path(__file__).parent / "keras_sweep.json")]
    main()
