"""Writes keras_operations.json: what real Keras computes for the operations of keras.ops, as models of one call.

    KERAS_BACKEND=jax JAX_ENABLE_X64=1 python keras_operations.py

Each case is a functional model (its JSON is Keras's own), inputs in float64, outputs, and gradients of a weighted sum of the
outputs. What numbers in a case depend on no order of summation agree to 1e-6. Needs `pip install "keras==3.15.*" jax`.
The C++ side is tests/keras/operations_golden_test.cc.
"""

import json
import math
import os

os.environ["KERAS_BACKEND"] = "jax"  # whatever the others run on
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")  # each case is compiled once

import jax
import jax.numpy as jnp
import keras
import numpy as np
from keras import ops

HERE = os.path.dirname(os.path.abspath(__file__))
records = []
rng = np.random.default_rng(31)


def number(x):
    if isinstance(x, (bool, np.bool_)):
        return bool(x)
    if isinstance(x, (int, np.integer)):
        return int(x)
    if math.isnan(x):
        return "nan"
    return float(("%.15g" if abs(x) < 1e300 else "%.17g") % x) if math.isfinite(x) else ("inf" if x > 0 else "-inf")


def numbers(value):
    value = np.asarray(value)
    return {"shape": list(value.shape), "dtype": value.dtype.name, "data": [number(x) for x in value.reshape(-1).tolist()]}


def r(*shape, low=None, high=None):
    """Random float64: normal, or from low to high."""
    return (rng.normal(0, 1, shape) if low is None else rng.uniform(low, high, shape)).round(3)


def i(*shape, low=0, high=10, dtype="int32"):
    return rng.integers(low, high, shape).astype(dtype)


def b(*shape):
    return rng.integers(0, 2, shape).astype(bool)


def spd(*shape):
    """Symmetric positive-definite matrices."""
    a = r(*shape)
    return (a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])).round(6)


def case(name, function, *inputs, gradient=True, tolerance=None, fixed=False, free_shape=False, direct=None, jit=True, constant=()):
    """
    fixed:       inputs have known sizes; else the first one is None, where Keras takes that.
    free_shape:  Keras's own shapes are not compared (it says less, or something else than it computes).
    constant:    inputs for which no gradient is compared.
    direct:      what computes in place of the model, where Keras 3.15.1 fails to call its own node on JAX.
    """
    inputs = [np.asarray(x) for x in inputs]

    def symbolic(batch):
        names = [f"x{k}" for k in range(len(inputs))]
        xs = [keras.Input(batch_shape=((None,) + x.shape[1:] if batch and x.ndim else x.shape), dtype=x.dtype.name, name=n)
              for n, x in zip(names, inputs)]
        ys = function(*xs)
        return keras.Model(xs, list(jax.tree_util.tree_leaves(ys, is_leaf=lambda t: isinstance(t, keras.KerasTensor))), name="case")

    keras.backend.clear_session()
    model = None
    if not fixed:
        try:
            model = symbolic(True)
        except Exception:
            keras.backend.clear_session()
    model = model or symbolic(False)
    config = json.loads(model.to_json())
    arrays = [jnp.asarray(x) for x in inputs]
    call = lambda *xs: jax.tree_util.tree_leaves(direct(*xs) if direct else model(list(xs)))
    outputs = jax.jit(call)(*arrays) if jit else call(*arrays)
    # jax writes scalars; complex numbers stay out.
    assert not any(np.iscomplexobj(y) for y in outputs), name
    record = {"name": name, "model": config["config"], "inputs": [numbers(x) for x in inputs],
              "outputs": [numbers(y) for y in outputs]}
    if not free_shape:
        record["shapes"] = [list(y.shape) for y in model.outputs]
    if tolerance:
        record["tolerance"] = tolerance
    floats = [k for k, x in enumerate(inputs) if x.dtype.kind == "f" and k not in constant]
    smooth = [k for k, y in enumerate(outputs) if np.asarray(y).dtype.kind == "f"]
    if gradient and floats and smooth:
        cotangents = [rng.normal(0, 1, np.shape(y)).round(3) if k in smooth else None for k, y in enumerate(outputs)]

        def total(parts):
            xs = list(arrays)
            for k, x in zip(floats, parts):
                xs[k] = x
            ys = call(*xs)
            return sum(jnp.sum(ys[k] * cotangents[k]) for k in smooth)

        found = jax.jit(jax.grad(total))([arrays[k] for k in floats])
        record["cotangents"] = [None if c is None else numbers(c) for c in cotangents]
        record["gradients"] = [None] * len(inputs)
        for k, g in zip(floats, found):
            record["gradients"][k] = numbers(g)
    json.dumps(record, allow_nan=False)
    records.append(record)
    if len(records) % 40 == 0:
        jax.clear_caches()


def all_cases():
    x, y = r(3, 4), r(3, 4)
    positive, unit = r(3, 4, low=0.2, high=2), r(3, 4, low=-0.9, high=0.9)

    # --- elementwise ---
    for name, data in [
        ("absolute", x), ("abs", x), ("angle", x), ("arccos", unit), ("arccosh", positive + 1), ("arcsin", unit), ("arcsinh", x),
        ("arctan", x), ("arctanh", unit), ("cbrt", x), ("ceil", x), ("conj", x), ("conjugate", x), ("copy", x), ("cos", x), ("cosh", x),
        ("deg2rad", x), ("exp", x), ("exp2", x), ("expm1", x), ("fabs", x), ("floor", x), ("i0", x), ("log", positive), ("log10", positive),
        ("log1p", positive), ("log2", positive), ("negative", x), ("rad2deg", x), ("real", x), ("imag", x), ("reciprocal", positive),
        ("sign", x), ("sin", x), ("sinc", x), ("sinh", x), ("sqrt", positive), ("square", x), ("tan", x), ("tanh", x), ("trunc", x),
        ("erf", x), ("erfc", x), ("erfinv", unit), ("rsqrt", positive),
        ("relu", x), ("relu6", 5 * x), ("sigmoid", x), ("silu", x), ("swish", x), ("softplus", x), ("softsign", x), ("log_sigmoid", x),
        ("hard_sigmoid", 3 * x), ("hard_silu", 3 * x), ("hard_swish", 3 * x), ("hard_tanh", x), ("selu", x), ("elu", x), ("celu", x),
        ("gelu", x), ("leaky_relu", x), ("hard_shrink", x), ("soft_shrink", x), ("sparse_plus", x), ("sparse_sigmoid", x),
        ("sparsemax", x), ("squareplus", x), ("tanh_shrink", x), ("softmax", x), ("log_softmax", x), ("glu", x), ("stop_gradient", x),
    ]:
        case(name, getattr(ops, name), data)
    special = np.array([[1.5, -0.0, np.nan], [np.inf, -np.inf, 2.0]])
    for name in ["isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "signbit"]:
        case(name, getattr(ops, name), special)
    case("nan_to_num", ops.nan_to_num, special)
    case("nan_to_num_values", lambda t: ops.nan_to_num(t, nan=1.0, posinf=2.0, neginf=-3.0), special)
    case("gelu_exact", lambda t: ops.gelu(t, approximate=False), x)
    case("celu_alpha", lambda t: ops.celu(t, alpha=0.5), x)
    case("elu_alpha", lambda t: ops.elu(t, alpha=0.5), x)
    case("leaky_relu_slope", lambda t: ops.leaky_relu(t, negative_slope=0.1), x)
    case("threshold", lambda t: ops.threshold(t, 0.3, -1.0), x)
    case("softmax_axes", lambda t: ops.softmax(t, axis=(0, 1)), x)
    case("sparsemax_axis", lambda t: ops.sparsemax(t, axis=0), x)
    case("glu_axis", lambda t: ops.glu(t, axis=0), r(4, 3))
    case("round", lambda t: ops.round(t, 1), x)
    case("clip", lambda t: ops.clip(t, -0.5, 0.5), x)
    case("squareplus_b", lambda t: ops.squareplus(t, b=2), x)
    ints = i(3, 4, low=-5, high=6)
    for name in ["absolute", "negative", "sign", "square", "bitwise_not", "bitwise_invert", "copy", "sqrt", "exp", "sin", "cosh"]:
        case(name + "_int", getattr(ops, name), ints if name != "sqrt" else abs(ints))
    for name in ["add", "subtract", "multiply", "divide", "true_divide", "maximum", "minimum", "arctan2", "fmax", "fmin", "hypot",
                 "logaddexp", "logaddexp2", "heaviside", "equal", "not_equal", "greater", "greater_equal", "less", "less_equal",
                 "divide_no_nan", "isclose", "nextafter"]:
        case(name, getattr(ops, name), x, y, gradient=name != "nextafter")
    case("broadcast_add", ops.add, r(3, 1, 2), r(4, 1), fixed=True)
    case("number_add", lambda t: ops.add(t, 2.5), x)
    case("number_first", lambda t: ops.power(2.0, t), x)
    case("power", ops.power, positive, y)
    case("floor_divide", ops.floor_divide, 5 * x, positive, gradient=False)
    case("mod", ops.mod, 5 * x, positive)
    case("fmod", ops.fmod, 5 * x, positive)
    case("divide_no_nan_zero", ops.divide_no_nan, x, np.where(b(3, 4), positive, 0.0))
    case("ldexp", ops.ldexp, x, ints)
    case("allclose", ops.allclose, x, x + 1e-9)
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm"]:
        case(name, getattr(ops, name), i(3, 4, high=30), i(3, 4, high=30))
    for name in ["bitwise_left_shift", "left_shift", "bitwise_right_shift", "right_shift"]:
        case(name, getattr(ops, name), i(3, 4, high=100), i(3, 4, high=4))
    for name in ["logical_and", "logical_or", "logical_xor"]:
        case(name, getattr(ops, name), b(3, 4), b(3, 4))
    case("logical_not", ops.logical_not, b(3, 4))
    case("cast", lambda t: ops.cast(t, "float32"), x)
    case("cast_int", lambda t: ops.cast(t, "int32"), 5 * x)
    case("saturate_cast", lambda t: ops.saturate_cast(t, "uint8"), 300 * x)
    case("convert_to_tensor", lambda t: ops.convert_to_tensor(t, dtype="float32"), x)
    case("array", lambda t: ops.array(t, dtype="float32"), x)
    case("complex", lambda t: ops.real(ops.view_as_complex(t)) + ops.imag(ops.view_as_complex(t)), r(3, 2))
    case("view_as_real", lambda t: ops.view_as_real(ops.view_as_complex(t)), r(3, 2))
    case("polar", lambda t, u: ops.view_as_real(ops.polar(t, u)), positive, x)
    case("view", lambda t: ops.view(t, dtype="int64"), x, gradient=False)

    # --- reductions and statistics ---
    cube = r(2, 3, 4)
    for name in ["mean", "sum", "max", "min", "amax", "amin", "prod", "std", "var", "median", "ptp", "logsumexp"]:
        function = getattr(ops, name)
        case(name, function, cube)
        case(name + "_axis", lambda t: function(t, axis=1), cube)
        case(name + "_axes", lambda t: function(t, axis=(0, 2), keepdims=True), cube)
    holes = np.where(rng.uniform(size=(3, 4)) < 0.3, np.nan, r(3, 4))
    holes[0, 0] = 0.25
    for name in ["nanmean", "nansum", "nanmax", "nanmin", "nanprod", "nanstd", "nanvar", "nanmedian"]:
        function = getattr(ops, name)
        case(name, function, holes, gradient=name in ("nanmean", "nansum"))
        case(name + "_axis", lambda t: function(t, axis=1, keepdims=True), holes, gradient=False)
    for name in ["nanargmax", "nanargmin"]:
        function = getattr(ops, name)
        case(name, function, holes)
        case(name + "_axis", lambda t: function(t, axis=1), holes)
    for name in ["nancumsum", "nancumprod"]:
        function = getattr(ops, name)
        case(name, function, holes, gradient=False)
        case(name + "_axis", lambda t: function(t, axis=1), holes, gradient=False)
    for name in ["any", "all"]:
        function = getattr(ops, name)
        case(name, function, b(3, 4))
        case(name + "_axis", lambda t: function(t, axis=1, keepdims=True), b(3, 4))
    for name in ["argmax", "argmin"]:
        function = getattr(ops, name)
        case(name, function, x)
        case(name + "_axis", lambda t: function(t, axis=1, keepdims=True), x)
    for name in ["cumsum", "cumprod"]:
        function = getattr(ops, name)
        case(name, function, x)
        case(name + "_axis", lambda t: function(t, axis=1), x)
    case("cumsum_dtype", lambda t: ops.cumsum(t, axis=0, dtype="int32"), ints, fixed=True)
    case("max_initial", lambda t: ops.max(t, axis=1, initial=0.5), x)
    case("min_initial", lambda t: ops.min(t, axis=1, initial=-0.5), x)
    case("sum_int", ops.sum, ints)
    case("mean_int", ops.mean, ints)
    case("prod_dtype", lambda t: ops.prod(t, axis=1, dtype="float32"), ints)
    case("average", ops.average, x)
    case("average_weights", lambda t, w: ops.average(t, axis=1, weights=w), x, positive)
    case("average_row_weights", lambda t, w: ops.average(t, axis=1, weights=w), x, r(4, low=0.2, high=2), fixed=True)
    case("count_nonzero", lambda t: ops.count_nonzero(t, axis=1), i(3, 4, high=2))
    for method in ["linear", "lower", "higher", "midpoint", "nearest"]:
        quantile = lambda t: ops.quantile(t, 0.3, axis=1, method=method)
        case("quantile_" + method, quantile, r(3, 6), gradient=method == "linear", direct=quantile)
    case("quantile_list", lambda t: ops.quantile(t, [0.1, 0.8], axis=(0, 2), keepdims=True), cube, fixed=True)
    case("percentile", lambda t: ops.percentile(t, 30.0, axis=1), r(3, 6))
    case("nanquantile", lambda t: ops.nanquantile(t, 0.3, axis=1), holes, gradient=False)
    case("nanpercentile", lambda t: ops.nanpercentile(t, 60.0), holes, gradient=False)
    case("moments", lambda t: ops.moments(t, axes=[0, 2]), cube)
    case("moments_keepdims", lambda t: ops.moments(t, axes=[1], keepdims=True), cube)
    case("trapezoid", lambda t: ops.trapezoid(t, dx=0.5), x)
    case("diff", lambda t: ops.diff(t, n=2, axis=1), x)
    case("bincount", lambda t: ops.bincount(t, minlength=8), i(3, 6, high=7), free_shape=True, jit=False, direct=lambda t: ops.bincount(t, minlength=8))
    for name, options in [("histogram", {"range": (-2.0, 2.0)}), ("histogram_own_range", {})]:
        histogram = lambda t: ops.histogram(t, bins=4, **options)
        case(name, histogram, r(20), gradient=False, fixed=True, direct=histogram, jit=False)
    case("corrcoef", ops.corrcoef, x, fixed=True, free_shape=True)
    for mode in ["valid", "same", "full"]:
        case("correlate_" + mode, lambda t, u: ops.correlate(t, u, mode=mode), r(6), r(3), fixed=True, free_shape=True)

    # --- shapes ---
    case("append", lambda t, u: ops.append(t, u, axis=1), x, r(3, 2))
    case("append_flat", ops.append, x, r(3, 2), fixed=True)
    case("array_split", lambda t: ops.array_split(t, 3, axis=1), x)
    case("split", lambda t: ops.split(t, 2, axis=1), x)
    case("split_indices", lambda t: ops.split(t, [1, 3], axis=-1), x)
    case("hsplit", lambda t: ops.hsplit(t, 2), x)
    case("vsplit", lambda t: ops.vsplit(t, 3), x, fixed=True)
    case("dsplit", lambda t: ops.dsplit(t, 2), cube)
    case("unstack", lambda t: ops.unstack(t, axis=1), x)
    case("broadcast_to", lambda t: ops.broadcast_to(t, (2, 3, 4)), x, fixed=True)
    case("concatenate", lambda t, u: ops.concatenate([t, u], axis=-1), x, y)
    case("stack", lambda t, u: ops.stack([t, u], axis=1), x, y)
    case("hstack", lambda t, u: ops.hstack([t, u]), x, y)
    case("vstack", lambda t, u: ops.vstack([t, u]), x, y, fixed=True)
    case("dstack", lambda t, u: ops.dstack([t, u]), x, y)
    case("diag", lambda t: ops.diag(t, k=1), r(4), fixed=True)
    case("diag_of_matrix", ops.diag, r(4, 4), fixed=True)
    case("diagflat", lambda t: ops.diagflat(t, k=-1), r(2, 2), fixed=True)
    case("diagonal", lambda t: ops.diagonal(t, offset=1, axis1=1, axis2=2), cube)
    case("trace", lambda t: ops.trace(t, axis1=1, axis2=2), cube)
    case("expand_dims", lambda t: ops.expand_dims(t, 1), x)
    case("flip", lambda t: ops.flip(t, axis=1), x)
    case("fliplr", ops.fliplr, x)
    case("flipud", ops.flipud, x)
    case("get_item", lambda t: t[:, 1:3], x)
    case("meshgrid", lambda t, u: ops.meshgrid(t, u), r(3), r(2), fixed=True)
    case("meshgrid_ij", lambda t, u: ops.meshgrid(t, u, indexing="ij"), r(3), r(2), fixed=True)
    case("moveaxis", lambda t: ops.moveaxis(t, 1, 2), cube)
    case("swapaxes", lambda t: ops.swapaxes(t, 1, 2), cube)
    case("transpose", lambda t: ops.transpose(t, (0, 2, 1)), cube)
    case("pad", lambda t: ops.pad(t, ((0, 0), (1, 2))), x)
    case("pad_value", lambda t: ops.pad(t, ((0, 0), (1, 2)), constant_values=3.0), x)
    case("pad_number", lambda t: ops.pad(t, 1), x, fixed=True)
    for mode in ["reflect", "symmetric", "edge", "wrap"]:
        case("pad_" + mode, lambda t: ops.pad(t, ((0, 0), (2, 3)), mode=mode), x)
    case("ravel", ops.ravel, x, fixed=True)
    case("repeat", lambda t: ops.repeat(t, 2, axis=1), x)
    case("repeat_list", lambda t: ops.repeat(t, [1, 2, 0, 1], axis=1), x, direct=lambda t: jnp.repeat(t, np.array([1, 2, 0, 1]), axis=1))
    case("reshape", lambda t: ops.reshape(t, (-1, 2, 2)), x)
    case("roll", lambda t: ops.roll(t, 1, axis=1), x)
    case("roll_flat", lambda t: ops.roll(t, 2), x)
    case("rot90", lambda t: ops.rot90(t), x, fixed=True)
    case("rot90_axes", lambda t: ops.rot90(t, k=3, axes=(1, 2)), cube)
    case("squeeze", lambda t: ops.squeeze(t, axis=1), r(3, 1, 2))
    case("tile", lambda t: ops.tile(t, (1, 2)), x)
    case("tril", lambda t: ops.tril(t, k=-1), cube)
    case("triu", lambda t: ops.triu(t, k=1), cube)
    case("zeros_like", lambda t: ops.zeros_like(t, dtype="int32"), x)
    case("ones_like", ops.ones_like, x)
    case("full_like", lambda t: ops.full_like(t, 2.5), x, gradient=False)
    for name, rearrange in [("rearrange", lambda t: ops.rearrange(t, "b (h w) c -> b h w c", h=2)),
                            ("rearrange_join", lambda t: ops.rearrange(t, "b h c -> c (b h)"))]:
        case(name, rearrange, r(3, 4, 2), free_shape=True, fixed=True, direct=rearrange, jit=False, gradient=False)
    case("vander", lambda t: ops.vander(t, N=3), r(4), fixed=True)
    case("vander_rising", lambda t: ops.vander(t, N=3, increasing=True), r(4), fixed=True)

    # --- indices and order ---
    case("take", lambda t, k: ops.take(t, k, axis=1), x, i(2, 3, low=-4, high=4), fixed=True)
    case("take_list", lambda t: ops.take(t, [0, 2], axis=1), x, free_shape=True)
    case("take_along_axis", lambda t, k: ops.take_along_axis(t, k, axis=1), x, i(3, 2, low=-4, high=4))
    case("where", ops.where, b(3, 4), x, y)
    case("where_number", lambda c, t: ops.where(c, t, 0.0), b(3, 4), x)
    case("select", lambda c, d, t, u: ops.select([c, d], [t, u], 7.0), b(3, 4), b(3, 4), x, y)
    case("scatter", lambda k, v: ops.scatter(k, v, (5, 2)), np.array([[1], [3], [1]], "int32"), r(3, 2), fixed=True)
    case("scatter_update", ops.scatter_update, x, np.array([[0, 1], [2, 3]], "int32"), r(2), fixed=True)
    for reduction in ["add", "max", "min", "mul"]:
        case("scatter_update_" + reduction, lambda t, k, v: ops.scatter_update(t, k, v, reduction=reduction), positive,
             np.array([[0], [2]], "int32"), r(2, 4, low=0.2, high=2), fixed=True, gradient=reduction != "mul")
    case("slice", lambda t: ops.slice(t, (1, 1), (2, 3)), x, fixed=True)
    case("slice_update", lambda t, u: ops.slice_update(t, (1, 2), u), x, r(2, 2), fixed=True)
    for name in ["segment_sum", "segment_max", "segment_min", "segment_prod"]:
        function = getattr(ops, name)
        case(name, lambda t, k: function(t, k, num_segments=3), r(5, 2), np.array([0, 2, 0, 1, 2], "int32"), fixed=True, gradient=name != "segment_prod")
    case("unravel_index", lambda t: ops.unravel_index(t, (3, 4)), i(5, low=-12, high=12), fixed=True)
    case("one_hot", lambda t: ops.one_hot(t, 5), i(3, 2, high=5))
    case("one_hot_axis", lambda t: ops.one_hot(t, 5, axis=1, dtype="int32"), i(3, 2, high=5))
    case("multi_hot", lambda t: ops.multi_hot(t, 5), i(3, 2, high=5))
    case("sort", ops.sort, x)
    case("sort_axis", lambda t: ops.sort(t, axis=0), x)
    case("argsort", ops.argsort, i(3, 6, high=3))
    case("argpartition", lambda t: ops.argpartition(t, 2), x)
    case("top_k", lambda t: ops.top_k(t, 2), x)
    case("top_k_ties", lambda t: ops.top_k(t, 3), i(3, 6, high=3))
    case("in_top_k", lambda t, p: ops.in_top_k(t, p, k=2), i(3, high=4), x)
    case("searchsorted", ops.searchsorted, np.sort(r(6)), r(4), fixed=True)
    case("searchsorted_right", lambda t, u: ops.searchsorted(t, u, side="right"), np.array([1, 2, 2, 3.0]), np.array([2.0, 0.5]), fixed=True)
    case("digitize", lambda t: ops.digitize(t, np.array([-1.0, 0.0, 1.0])), x)
    case("isin", lambda t, u: ops.isin(t, u), i(3, 4, high=6), np.array([1, 4], "int32"), fixed=True)
    case("isin_invert", lambda t, u: ops.isin(t, u, invert=True), i(3, 4, high=6), np.array([1, 4], "int32"), fixed=True)

    # --- linear algebra ---
    square, other = r(2, 3, 3), r(2, 3, 2)
    case("matmul", ops.matmul, cube, r(2, 4, 2))
    case("dot", ops.dot, x, r(4, 2), fixed=True)
    case("dot_vectors", ops.dot, r(4), r(4), fixed=True)
    case("dot_many", ops.dot, r(2, 3, 4), r(2, 4, 3), fixed=True)
    case("inner", ops.inner, x, r(2, 4), fixed=True)
    case("outer", ops.outer, r(3), r(2), fixed=True)
    case("vdot", ops.vdot, x, y, fixed=True)
    case("kron", ops.kron, r(2, 2), r(2, 3), fixed=True)
    case("tensordot", lambda t, u: ops.tensordot(t, u, axes=1), cube, r(4, 2), fixed=True)
    case("tensordot_axes", lambda t, u: ops.tensordot(t, u, axes=[[1, 2], [0, 1]]), cube, r(3, 4, 2), fixed=True)
    case("einsum", lambda t, u: ops.einsum("bij,bjk->bik", t, u), cube, r(2, 4, 2), fixed=True)
    case("cross", ops.cross, r(4, 3), r(4, 3), fixed=True)
    case("cross_planes", ops.cross, r(4, 2), r(4, 2), fixed=True, free_shape=True)
    case("cdist", ops.cdist, r(2, 3, 2), r(2, 4, 2))
    case("cholesky", ops.cholesky, spd(2, 3, 3), gradient=False)
    case("cholesky_upper", lambda t: ops.cholesky(t, upper=True), spd(2, 3, 3), gradient=False)
    case("cholesky_inverse", ops.cholesky_inverse, np.linalg.cholesky(spd(3, 3)), fixed=True, gradient=False)
    case("det", ops.det, square)
    case("inv", ops.inv, square)
    case("logdet", ops.logdet, spd(2, 3, 3))
    case("slogdet", ops.slogdet, square, free_shape=True)
    case("solve", ops.solve, square, other)
    case("solve_triangular", lambda t, u: ops.solve_triangular(t, u, lower=True), np.tril(square) + 3 * np.eye(3), other)
    case("lstsq", ops.lstsq, r(5, 3), r(5, 2), fixed=True)
    case("pinv", ops.pinv, r(4, 3), fixed=True)
    case("matrix_rank", ops.matrix_rank, np.outer(r(3), r(3)), fixed=True, free_shape=True)
    case("eigh_values", lambda t: ops.eigh(t)[0], spd(2, 3, 3))
    case("svd_values", lambda t: ops.svd(t, compute_uv=False), r(4, 3), fixed=True)
    case("svd", lambda t: [ops.absolute(p) for p in ops.svd(t, full_matrices=False)], r(4, 3), fixed=True, gradient=False)
    case("qr", lambda t: [ops.absolute(p) for p in ops.qr(t)], r(4, 3), fixed=True, gradient=False)
    case("lu_factor", ops.lu_factor, square, gradient=False, free_shape=True)
    for name, options in [("norm", {}), ("norm_axis", {"axis": 1}), ("norm_1", {"ord": 1, "axis": 1}), ("norm_fro", {"ord": "fro"}),
                          ("norm_nuc", {"ord": "nuc"}), ("norm_2", {"ord": 2}), ("norm_3", {"ord": 3, "axis": 1, "keepdims": True})]:
        norm = lambda t: ops.norm(t, **options)
        case(name, norm, x, fixed=True, direct=norm)

    # --- signals ---
    case("fft", lambda t, u: ops.fft((t, u)), x, y)
    case("fft2", lambda t, u: ops.fft2((t, u)), cube, r(2, 3, 4))
    case("ifft2", lambda t, u: ops.ifft2((t, u)), cube, r(2, 3, 4))
    case("rfft", ops.rfft, r(3, 6))
    case("rfft_length", lambda t: ops.rfft(t, fft_length=4), r(3, 6))
    case("irfft", lambda t, u: ops.irfft((t, u)), r(3, 4), r(3, 4))
    case("stft", lambda t: ops.stft(t, 4, 2, 4), r(2, 12))
    case("stft_hamming", lambda t: ops.stft(t, 4, 3, 6, window="hamming", center=False), r(2, 12))
    case("stft_plain", lambda t: ops.stft(t, 4, 2, 4, window=None), r(2, 12))
    case("istft", lambda t, u: ops.istft((t, u), 4, 2, 4), r(2, 7, 3), r(2, 7, 3), free_shape=True)
    case("istft_length", lambda t, u: ops.istft((t, u), 4, 2, 6, length=9, window="hamming"), r(2, 7, 4), r(2, 7, 4), free_shape=True)
    case("extract_sequences", lambda t: ops.extract_sequences(t, 4, 2), r(2, 9))

    # --- networks ---
    image, last = r(2, 6, 5, 2), "channels_last"  # some nodes of Keras 3.15.1 fail without the second
    for padding in ["valid", "same"]:
        case("conv_1d_" + padding, lambda t, k: ops.conv(t, k, strides=2, padding=padding), r(2, 7, 2), r(3, 2, 4), fixed=True)
        case("conv_2d_" + padding, lambda t, k: ops.conv(t, k, padding=padding, dilation_rate=2), image, r(2, 2, 2, 3), fixed=True)
        case("conv_transpose_" + padding, lambda t, k: ops.conv_transpose(t, k, strides=2, padding=padding, data_format=last), image, r(3, 3, 4, 2), fixed=True, direct=lambda t, k: ops.conv_transpose(t, k, strides=2, padding=padding, data_format=last))
        case("depthwise_conv_" + padding, lambda t, k: ops.depthwise_conv(t, k, padding=padding), image, r(3, 3, 2, 2), fixed=True)
        case("separable_conv_" + padding, lambda t, k, p: ops.separable_conv(t, k, p, padding=padding), image, r(3, 3, 2, 2), r(1, 1, 4, 3), fixed=True)
        case("max_pool_" + padding, lambda t: ops.max_pool(t, (2, 2), strides=(2, 2), padding=padding, data_format=last), image, direct=lambda t: ops.max_pool(t, (2, 2), strides=(2, 2), padding=padding, data_format=last))
        case("average_pool_" + padding, lambda t: ops.average_pool(t, (2, 3), strides=(2, 1), padding=padding, data_format=last), image, direct=lambda t: ops.average_pool(t, (2, 3), strides=(2, 1), padding=padding, data_format=last))
    case("conv_3d", lambda t, k: ops.conv(t, k), r(1, 3, 4, 3, 2), r(2, 2, 2, 2, 3), fixed=True)
    case("max_pool_1d", lambda t: ops.max_pool(t, (2,), strides=(2,), data_format=last), r(2, 6, 3), direct=lambda t: ops.max_pool(t, (2,), strides=(2,), data_format=last))
    case("average_pool_3d", lambda t: ops.average_pool(t, (2, 2, 2), strides=(2, 2, 2), data_format=last), r(1, 4, 4, 4, 2), direct=lambda t: ops.average_pool(t, (2, 2, 2), strides=(2, 2, 2), data_format=last))
    case("adaptive_average_pool", lambda t: ops.adaptive_average_pool(t, (3, 2)), image, free_shape=True)
    case("adaptive_max_pool", lambda t: ops.adaptive_max_pool(t, (3, 2)), image, free_shape=True)
    case("depth_to_space", lambda t: ops.depth_to_space(t, 2), r(2, 2, 3, 8))
    case("space_to_depth", lambda t: ops.space_to_depth(t, 2), r(2, 4, 6, 2))
    case("depth_to_space_first", lambda t: ops.depth_to_space(t, 2, data_format="channels_first"), r(2, 8, 2, 3))
    case("space_to_depth_first", lambda t: ops.space_to_depth(t, 2, data_format="channels_first"), r(2, 2, 4, 6))
    case("unfold", lambda t: ops.unfold(t, 2, stride=2, padding=1), r(2, 3, 4, 6), fixed=True)
    case("fold", lambda t: ops.fold(t, (4, 6), 2, stride=2), r(2, 12, 6), fixed=True)
    probabilities = r(3, 4, low=0.1, high=0.9)
    labels = np.eye(4)[[1, 0, 3]]
    for logits in [False, True]:
        data = x if logits else probabilities
        suffix = "_logits" if logits else ""
        case("binary_crossentropy" + suffix, lambda t, p: ops.binary_crossentropy(t, p, from_logits=logits), b(3, 4).astype("float64"), data)
        case("categorical_crossentropy" + suffix, lambda t, p: ops.categorical_crossentropy(t, p, from_logits=logits), labels, data)
        case("sparse_categorical_crossentropy" + suffix, lambda t, p: ops.sparse_categorical_crossentropy(t, p, from_logits=logits),
             np.array([1, 0, 3], "int32"), data)
    case("batch_normalization", lambda t, m, v, o, s: ops.batch_normalization(t, m, v, axis=-1, offset=o, scale=s), image, r(2), r(2, low=0.2, high=2),
         r(2), r(2), fixed=True)
    case("batch_normalization_plain", lambda t, m, v: ops.batch_normalization(t, m, v, axis=1), x, r(4), r(4, low=0.2, high=2), fixed=True)
    case("layer_normalization", lambda t, g, o: ops.layer_normalization(t, g, o), x, r(4), r(4), fixed=True)
    case("layer_normalization_axes", lambda t: ops.layer_normalization(t, axis=(1, 2), epsilon=1e-3), cube, fixed=True)
    case("rms_normalization", lambda t, s: ops.rms_normalization(t, s, epsilon=1e-3), x, r(4), fixed=True)
    case("normalize", ops.normalize, x)
    case("normalize_order", lambda t: ops.normalize(t, axis=0, order=3), x)
    case("psnr", lambda t, u: ops.psnr(t, u, 2.0), x, y)
    case("dot_product_attention", ops.dot_product_attention, r(2, 3, 2, 4), r(2, 5, 2, 4), r(2, 5, 2, 4), fixed=True, tolerance=2e-6)
    case("dot_product_attention_mask", lambda q, k, v, m: ops.dot_product_attention(q, k, v, mask=m, scale=0.3),
         r(2, 3, 2, 4), r(2, 5, 2, 4), r(2, 5, 2, 4), np.concatenate([np.ones((2, 1, 3, 1), bool), b(2, 1, 3, 4)], -1), fixed=True, tolerance=2e-6)
    case("dot_product_attention_causal", lambda q, k, v, t: ops.dot_product_attention(q, k, v, bias=t, is_causal=True),
         r(2, 4, 2, 4), r(2, 4, 2, 4), r(2, 4, 2, 4), r(2, 2, 4, 4), fixed=True, tolerance=2e-6)
    case("ctc_loss", lambda t, p, n, m: ops.ctc_loss(t, p, n, m), i(2, 3, low=1, high=5), r(2, 8, 5), np.array([3, 2], "int32"),
         np.array([8, 7], "int32"), fixed=True, tolerance=1e-5)
    case("ctc_decode", lambda t, n: ops.ctc_decode(t, n), r(2, 8, 4), np.array([8, 6], "int32"), fixed=True, gradient=False, free_shape=True)
    case("ctc_decode_beams", lambda t, n: ops.ctc_decode(t, n, strategy="beam_search", beam_width=6, top_paths=2), r(2, 6, 4),
         np.array([6, 5], "int32"), fixed=True, gradient=False, free_shape=True)

    # --- images ---
    pixels = r(2, 6, 5, 3, low=0.05, high=1)
    case("rgb_to_grayscale", ops.image.rgb_to_grayscale, pixels)
    case("rgb_to_hsv", ops.image.rgb_to_hsv, pixels)
    case("hsv_to_rgb", ops.image.hsv_to_rgb, pixels)
    for interpolation in ["nearest", "bilinear", "bicubic", "lanczos3", "lanczos5"]:
        case("resize_" + interpolation, lambda t: ops.image.resize(t, (4, 8), interpolation=interpolation), pixels)
    case("resize_antialias", lambda t: ops.image.resize(t, (3, 3), antialias=True), pixels)
    case("resize_crop", lambda t: ops.image.resize(t, (3, 6), crop_to_aspect_ratio=True), pixels, fixed=True)
    case("resize_pad", lambda t: ops.image.resize(t, (3, 6), pad_to_aspect_ratio=True, fill_value=0.5), pixels, fixed=True)
    move = np.array([[1.1, 0.1, -0.3, -0.2, 0.9, 0.4, 0, 0], [0.8, 0, 0.3, 0.1, 1.2, -0.6, 0, 0]])
    for mode in ["constant", "nearest", "wrap", "mirror", "reflect"]:
        case("affine_transform_" + mode, lambda t, m: ops.image.affine_transform(t, m, fill_mode=mode, fill_value=0.3), pixels, move, fixed=True, constant=(1,))
    case("affine_transform_nearest", lambda t, m: ops.image.affine_transform(t, m, interpolation="nearest"), pixels, move, fixed=True, constant=(1,))
    start = np.tile(np.array([[0.0, 0.0], [0.0, 4.0], [5.0, 0.0], [5.0, 4.0]]), (2, 1, 1))
    case("perspective_transform", ops.image.perspective_transform, pixels, start, start + r(2, 4, 2, low=-0.5, high=0.5), fixed=True,
         tolerance=1e-4, gradient=False)
    case("map_coordinates", lambda t, c: ops.image.map_coordinates(t, c, order=1, fill_mode="reflect"), x, r(2, 3, 2, low=-1, high=4), fixed=True)
    case("map_coordinates_nearest", lambda t, c: ops.image.map_coordinates(t, c, order=0), x, r(2, 3, 2, low=-1, high=4), fixed=True)
    case("gaussian_blur", lambda t: ops.image.gaussian_blur(t, (3, 5), (1.0, 0.7), data_format="channels_last"), pixels)
    case("sobel_edges", lambda t: ops.image.sobel_edges(t, data_format="channels_last"), pixels)
    case("scale_and_translate", lambda t, s, d: ops.image.scale_and_translate(t, (2, 4, 7, 3), s, d, (1, 2), "linear"), pixels,
         np.array([0.7, 1.4]), np.array([0.2, -0.3]), fixed=True)
    case("scale_and_translate_cubic", lambda t, s, d: ops.image.scale_and_translate(t, (2, 4, 7, 3), s, d, (1, 2), "cubic", antialias=False), pixels,
         np.array([0.7, 1.4]), np.array([0.2, -0.3]), fixed=True)
    case("ssim", lambda t, u: ops.image.ssim(t, u, filter_size=3), pixels, r(2, 6, 5, 3, low=0.05, high=1), fixed=True, tolerance=1e-4)
    case("crop_images", lambda t: ops.image.crop_images(t, top_cropping=1, left_cropping=1, target_height=3, target_width=2), pixels, fixed=True)
    case("pad_images", lambda t: ops.image.pad_images(t, top_padding=1, left_padding=2, target_height=9, target_width=8), pixels, fixed=True)
    case("extract_patches", lambda t: ops.image.extract_patches(t, (2, 3), strides=(2, 1), padding="same"), pixels)
    case("extract_patches_3d", lambda t: ops.image.extract_patches_3d(t, 2), r(1, 4, 4, 2, 2))

    # --- several in a row, with names that Keras gives ---
    case("chain", lambda t, u: ops.sum(ops.take(ops.einsum("ij,kj->ik", t, u), [0, 2], axis=1) * ops.sin(t)[:, :2], axis=1), x, y, fixed=True)


all_cases()
path = os.path.join(HERE, "keras_operations.json")
with open(path, "w", encoding="utf-8") as out:
    out.write(json.dumps({"keras": keras.__version__, "jax": jax.__version__})[:-1] + ', "cases": [\n')
    out.write(",\n".join(json.dumps(record, separators=(",", ":"), allow_nan=False) for record in records))
    out.write("\n]}\n")
print(f"keras_operations.json: {len(records)} cases, {os.path.getsize(path)} bytes")
