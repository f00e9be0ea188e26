"""What the generators of keras_layers_<family>.json share: runs a layer of real Keras and records all of it.

    from keras_layer_cases import case, write
    case("same_stride_2", keras.layers.Conv2D(4, 3, strides=2, padding="same"), (2, 7, 5, 3))
    write("convolutional")

The C++ side is tests/keras/layer_golden_test.cc, which finds every keras_layers_*.json by itself.
"""

import json
import os

import golden_io  # isort: skip
import keras
import numpy as np
import tensorflow as tf
from keras.src import backend

records = []
rng = np.random.default_rng(20)


def numbers(value, digits=7):
    """An array as {"shape", "dtype", "data"}."""
    value = np.asarray(value)
    half = value.dtype.name in ("bfloat16", "float16")
    flat = (value.astype("float32") if half else value).reshape(-1).tolist()
    if value.dtype.name in ("float64",):
        digits = 15
    if half:   # exact: 8 and 11 bits
        digits = 5
    if half or value.dtype.kind == "f":
        flat = [float(f"%.{digits}g" % x) for x in flat]
    return {"shape": list(value.shape), "dtype": value.dtype.name, "data": flat}


def random(shape, dtype="float32", spread=1.0):
    value = rng.normal(0, spread, shape).round(3)
    return tf.cast(value, dtype).numpy() if dtype in ("bfloat16", "float16") else value.astype(dtype)


def set_weights(layer):
    """Random values in place of the initial ones; what is a variance stays positive."""
    for weight in layer.weights:
        if weight.dtype.startswith("int"):
            continue
        value = random(weight.shape, spread=0.5)
        weight.assign(np.abs(value) + 0.5 if "variance" in weight.name else value)


def as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def named(value, tensors, used):
    """A call's option with {"tensor": index} replaced by the tensor; notes the index in `used`."""
    if isinstance(value, dict):
        used.add(value["tensor"])
        return tensors[value["tensor"]]
    return [named(v, tensors, used) for v in value] if isinstance(value, list) else value


def symbolic(layer, inputs, shapes, call, spread):
    xs = [keras.Input(batch_shape=s, dtype=x.dtype.name) for s, x in zip(shapes, inputs)]
    used = set()
    kwargs = {k: named(v, xs, used) for k, v in (call or {}).items()}
    args = [x for i, x in enumerate(xs) if i not in used]
    y = layer(*args, **kwargs) if spread or len(args) == 1 else layer(args, **kwargs)
    return [list(t.shape) for t in as_list(y)]


def case(name, layer, *inputs, training=False, call=None, masks=None, spread=False, free=(), weights=True,
         gradients=True, batch=True):
    """
    inputs:   arrays, or shapes of random float numbers in the layer's dtype.
    call:     further options of the call by Keras's names; a tensor among the inputs stands as {"tensor": index}.
    masks:    one (or None) for each input.
    spread:   several inputs are several arguments (MultiHeadAttention), not one list (Add).
    free:     axes (besides the batch) whose sizes are None in a second look at the output's shape.
    weights:  False keeps the initial ones.
    batch:    False: a batch of no rows is not tried.
    """
    inputs = [random(x, layer.compute_dtype) if isinstance(x, tuple) else np.asarray(x) for x in inputs]
    shapes = [[None] + list(x.shape[1:]) for x in inputs]
    output_shapes = symbolic(layer, inputs, shapes, call, spread)
    if weights:
        set_weights(layer)
    record = {
        "name": name,
        "layer": keras.saving.serialize_keras_object(layer),
        "inputs": [numbers(x) for x in inputs],
        "call": call,
        "training": training,
        "weights": [numbers(w) for w in layer.weights],
        "weight_names": [w.name for w in layer.weights],
        "output_shapes": output_shapes,
    }
    if masks is not None:
        record["masks"] = [None if m is None else np.asarray(m).astype(int).tolist() for m in masks]
    if not batch:
        record["no_empty_batch"] = True

    tensors = [tf.convert_to_tensor(x) for x in inputs]
    for tensor, mask in zip(tensors, masks or []):
        if mask is not None:
            backend.set_keras_mask(tensor, tf.convert_to_tensor(mask, dtype="bool"))
    used = set()
    kwargs = {k: named(v, tensors, used) for k, v in (call or {}).items()}
    args = [x for i, x in enumerate(tensors) if i not in used]
    if layer._call_has_training_arg:
        kwargs["training"] = training
    with tf.GradientTape(persistent=True) as tape:
        floats = [x for x in tensors if x.dtype.is_floating]
        for x in floats:
            tape.watch(x)
        outputs = as_list(layer(*args, **kwargs) if spread or len(args) == 1 else layer(args, **kwargs))
        cotangents = [random(y.shape, y.dtype.name) for y in outputs]
        total = tf.add_n([tf.reduce_sum(y * c) for y, c in zip(outputs, cotangents)])
        losses = layer.losses
        if losses:
            total += tf.add_n([tf.cast(l, total.dtype) for l in losses])
    record["outputs"] = [numbers(y) for y in outputs]
    output_masks = [backend.get_keras_mask(y) for y in outputs]
    if any(m is not None for m in output_masks):
        record["output_masks"] = [None if m is None else np.asarray(m).astype(int).tolist() for m in output_masks]
    if losses:
        record["loss"] = float(tf.add_n([tf.cast(l, tf.float64) for l in losses]))
    if gradients:
        record["output_gradients"] = [numbers(c) for c in cotangents]
        record["input_gradients"] = [
            numbers(tf.convert_to_tensor(tape.gradient(total, x, unconnected_gradients="zero"))) if x.dtype.is_floating
            else None for x in tensors]
        record["weight_gradients"] = [
            numbers(tf.convert_to_tensor(tape.gradient(total, w.value, unconnected_gradients="zero"))) if w.trainable
            else None for w in layer.weights]
    if training and any(not w.trainable for w in layer.weights):
        record["weights_after"] = [numbers(w) for w in layer.weights]
    if free:
        freed = [[None if i in free else n for i, n in enumerate(s)] for s in shapes]
        again = layer.__class__.from_config(layer.get_config())  # one built for these sizes may not take others
        record["free_shapes"] = {"inputs": freed, "outputs": symbolic(again, inputs, freed, call, spread)}
    json.dumps(record)  # at once, so that the traceback names the case
    records.append(record)


def write(family, tolerance=None):
    """tolerance: in place of 1e-5, where Keras itself rounds to 16 bits in places."""
    name = f"keras_layers_{family}.json"
    path = os.path.join(golden_io.HERE, name)
    header = {"keras": keras.__version__, "tensorflow": tf.__version__} | ({} if tolerance is None else {"tolerance": tolerance})
    with open(path, "w", encoding="utf-8") as out:
        out.write(json.dumps(header)[:-1] + ', "cases": [\n')
        out.write(",\n".join(json.dumps(r, separators=(",", ":")) for r in records))
        out.write("\n]}\n")
    print(f"{name}: {len(records)} cases, {os.path.getsize(path)} bytes")
