"""Optimizers of real Keras, six steps on two variables -> keras_optimizers.json; with KERAS_BACKEND=jax JAX_ENABLE_X64=1
those that are right on JAX alone -> keras_optimizers_jax.json.

Every case runs in float32 and in float64 (keras.config.set_floatx): the first shows that we compute what Keras
computes, the second that the formula is the same and not just near. Keras rounds Python numbers to float32 on their
way into float64 tensors, so the float64 cases name every option, rounded like that.
"""

import golden_io  # isort: skip
import keras
import numpy as np

STEPS = 6
SHAPES = {"kernel": (3, 4), "bias": (4,)}
O = keras.optimizers
SCHEDULE = ("ExponentialDecay", dict(initial_learning_rate=0.05, decay_steps=2, decay_rate=0.5, staircase=True))

RULES = [
    ("SGD", dict()),
    ("SGD", dict(learning_rate=0.1)),
    ("SGD", dict(learning_rate=0.1, momentum=0.9)),
    ("SGD", dict(learning_rate=0.1, momentum=0.9, nesterov=True)),
    ("Adam", dict()),
    ("Adam", dict(learning_rate=0.02, beta_1=0.8, beta_2=0.95, epsilon=1e-3)),
    ("Adam", dict(learning_rate=0.02, beta_2=0.5, amsgrad=True)),
    ("AdamW", dict()),
    ("AdamW", dict(learning_rate=0.02, weight_decay=0.1, amsgrad=True)),
    ("Adagrad", dict()),
    ("Adagrad", dict(learning_rate=0.1, initial_accumulator_value=0.0, epsilon=1e-2)),
    ("RMSprop", dict()),
    ("RMSprop", dict(learning_rate=0.01, rho=0.8, momentum=0.9)),
    ("RMSprop", dict(learning_rate=0.01, epsilon=1e-3, centered=True)),
    ("RMSprop", dict(learning_rate=0.01, epsilon=1e-3, centered=True, momentum=0.5)),
    ("Adadelta", dict()),
    ("Adadelta", dict(learning_rate=1.0, rho=0.9, epsilon=1e-4)),
    ("Ftrl", dict()),
    ("Ftrl", dict(learning_rate=0.1, l1_regularization_strength=0.05, l2_regularization_strength=0.1)),
    ("Ftrl", dict(learning_rate=0.1, l2_shrinkage_regularization_strength=0.1, beta=0.5, initial_accumulator_value=0.3)),
    ("Ftrl", dict(learning_rate=0.1, learning_rate_power=-0.7, l1_regularization_strength=0.01)),
    ("Ftrl", dict(learning_rate=0.1, learning_rate_power=0.0)),
    ("Adamax", dict()),
    ("Adamax", dict(learning_rate=0.02, beta_1=0.8, beta_2=0.9, epsilon=1e-3)),
    ("Nadam", dict()),
    ("Nadam", dict(learning_rate=0.02, beta_1=0.8, beta_2=0.95, epsilon=1e-3)),
    ("Lion", dict()),
    ("Lion", dict(learning_rate=0.02, beta_1=0.8, beta_2=0.95, weight_decay=0.1)),
    ("Lamb", dict()),
    ("Lamb", dict(learning_rate=0.02, beta_1=0.8, beta_2=0.95, epsilon=1e-3, weight_decay=0.1)),
    ("Muon", dict()),
    ("Muon", dict(learning_rate=0.02, adam_beta_1=0.8, adam_beta_2=0.95, epsilon=1e-3, adam_weight_decay=0.1, weight_decay=0.05, adam_lr_ratio=0.5, momentum=0.8, ns_steps=3, nesterov=False)),
    ("Muon", dict(learning_rate=0.02, muon_a=2.0, muon_b=-1.5, muon_c=0.5, rms_rate=0.5, clipnorm=0.5)),
    ("Muon", dict(learning_rate=0.02, exclude_layers=["ker.*"], gradient_accumulation_steps=2)),
    ("Muon", dict(learning_rate=0.02, rms_rate=None, exclude_layers=["other"], use_ema=True, ema_momentum=0.8)),
    ("Adafactor", dict()),
    ("Adafactor", dict(learning_rate=0.5, beta_2_decay=-0.6, epsilon_2=0.1, clip_threshold=0.5, weight_decay=0.1)),
]
# On TensorFlow Keras's own reads its old momentum when that is new already: these are JAX's numbers.
ON_JAX = [
    ("ScheduleFreeAdamW", dict()),
    ("ScheduleFreeAdamW", dict(learning_rate=0.05, beta_1=0.8, beta_2=0.95, epsilon=1e-3, warmup_steps=4, weight_decay=0.1)),
    ("ScheduleFreeAdamW", dict(learning_rate=0.05, gradient_accumulation_steps=2, global_clipnorm=0.3)),
]
# Every modifier with a rule that scales with the gradient and one that does not.
MODIFIERS = [
    dict(weight_decay=0.05),
    dict(clipnorm=0.5),
    dict(clipvalue=0.1),
    dict(global_clipnorm=0.7),
    dict(global_clipnorm=1000.0),
    dict(clipnorm=0.5, weight_decay=0.05),
    dict(learning_rate=SCHEDULE),
    dict(learning_rate=SCHEDULE, weight_decay=0.05),
]
MODIFIED = [
    ("SGD", dict(learning_rate=0.1, momentum=0.9)),
    ("Adam", dict(learning_rate=0.02)),
    ("Adagrad", dict(learning_rate=0.1)),
    ("RMSprop", dict(learning_rate=0.01)),
    ("Adadelta", dict(learning_rate=1.0)),
    ("Ftrl", dict(learning_rate=0.1)),
]
# What happens around the rule, over several steps.
AROUND = [
    dict(use_ema=True, ema_momentum=0.8),
    dict(use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=2),
    dict(gradient_accumulation_steps=2),
    dict(gradient_accumulation_steps=3, learning_rate=SCHEDULE),
    dict(gradient_accumulation_steps=2, clipnorm=0.3, weight_decay=0.05),
    dict(gradient_accumulation_steps=2, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=2),
    dict(loss_scale_factor=3.0),
    dict(loss_scale_factor=8.0, gradient_accumulation_steps=2, global_clipnorm=0.05),
]
SURROUNDED = [
    ("SGD", dict(learning_rate=0.1, momentum=0.9)),
    ("Adam", dict(learning_rate=0.02)),
    ("Nadam", dict(learning_rate=0.02)),
]
SURROUNDED_ONCE = [
    (name, dict(learning_rate=0.02, use_ema=True, ema_momentum=0.8, gradient_accumulation_steps=2, clipvalue=0.3))
    for name in ("Adamax", "Lion", "Lamb", "Adafactor", "RMSprop")
]
# The loss scale with gradients that are infinite in some steps.
LOSS_SCALES = [
    ("Adam", dict(learning_rate=0.02), dict(initial_scale=4.0, dynamic_growth_steps=2), [2]),
    ("SGD", dict(learning_rate=0.1, gradient_accumulation_steps=2), dict(initial_scale=8.0, dynamic_growth_steps=1), [0, 3]),
]
CASES = RULES + [(name, {**options, **more}) for name, options in SURROUNDED for more in AROUND] + SURROUNDED_ONCE + [(name, {**options, **more}) for name, options in MODIFIED for more in MODIFIERS]

rng = np.random.default_rng(1234)
START = {name: np.round(rng.normal(0, 1, shape), 3) for name, shape in SHAPES.items()}
GRADIENTS = []
for step in range(STEPS):
    gradients = {name: np.round(rng.normal(0, 0.5, shape), 3) for name, shape in SHAPES.items()}
    gradients["kernel"][step % 3, :2] = 0.0
    GRADIENTS.append(gradients)


def build(name, options):
    options = dict(options)
    if isinstance(options.get("learning_rate"), tuple):
        schedule, arguments = options["learning_rate"]
        options["learning_rate"] = getattr(O.schedules, schedule)(**arguments)
    return getattr(O, name)(**options)


def rounded(name, options):
    config = {**build(name, options).get_config(), **options}
    config.pop("name")
    if not config["use_ema"]:
        config.pop("ema_momentum")
        config.pop("use_ema")
    single = lambda value: float(np.float32(value)) if type(value) is float else value
    rate = config["learning_rate"]
    if isinstance(rate, tuple):
        config["learning_rate"] = (rate[0], {k: single(v) for k, v in rate[1].items()})
    return {k: single(v) for k, v in config.items() if v is not None or k in options}


def run(name, options, dtype, loss_scale=None, infinite=()):
    keras.config.set_floatx(dtype)
    if dtype == "float64":
        options = rounded(name, options)
    inner = optimizer = build(name, options)
    if loss_scale:
        optimizer = O.LossScaleOptimizer(inner, **loss_scale)
    variables = {n: keras.Variable(v.astype(dtype), name=n, dtype=dtype) for n, v in START.items()}
    optimizer.build(list(variables.values()))
    weights = []
    for step in range(STEPS):
        values = [GRADIENTS[step][n].astype(dtype) for n in variables]
        if step in infinite:
            values[0] = np.full_like(values[0], np.inf)
        gradients = [keras.ops.convert_to_tensor(value) for value in values]
        optimizer.apply(gradients, list(variables.values()))
        weights.append({n: v.numpy().reshape(-1) for n, v in variables.items()})
    slots = {}
    for variable in optimizer.variables:
        for n in variables:
            if variable.name.startswith(n + "_"):
                slots.setdefault(variable.name[len(n) + 1 :], {})[n] = variable.numpy().reshape(-1)
    if name == "Adafactor":  # these have the variable's own name
        for n, row, column in zip(variables, inner._r, inner._c):
            slots.setdefault("row", {})[n] = row.numpy().reshape(-1)
            slots.setdefault("column", {})[n] = column.numpy().reshape(-1)
    numbers = {}
    if name == "Nadam":
        numbers["u_product"] = float(inner._u_product.numpy())
    if loss_scale:
        numbers["step_counter"] = int(optimizer.step_counter.numpy())
        numbers["dynamic_scale"] = float(optimizer.dynamic_scale.numpy())
    if dtype == "float64":
        weights = weights[-1:]
    scaled = {"loss_scale": loss_scale, "infinite": list(infinite)} if loss_scale else {}
    return {
        **scaled,
        "numbers": numbers,
        "optimizer": name,
        "options": {k: ({"schedule": v[0], "options": v[1]} if isinstance(v, tuple) else v) for k, v in options.items()},
        "dtype": dtype,
        "weights": [{n: w.tolist() if dtype == "float64" else [float("%.9g" % x) for x in w] for n, w in s.items()} for s in weights],
        "slots": {s: {n: w.tolist() if dtype == "float64" else [float("%.9g" % x) for x in w] for n, w in v.items()} for s, v in slots.items()},
    }


on_jax = keras.backend.backend() == "jax"
records = [run(name, options, dtype) for name, options in (ON_JAX if on_jax else CASES) for dtype in ("float32", "float64")]
if not on_jax:
    records += [run(*case[:2], dtype, *case[2:]) for case in LOSS_SCALES for dtype in ("float32", "float64")]
header = {
    "steps": STEPS,
    "start": {n: v.reshape(-1).tolist() for n, v in START.items()},
    "gradients": [{n: v.reshape(-1).tolist() for n, v in g.items()} for g in GRADIENTS],
}
golden_io.write("keras_optimizers_jax.json" if on_jax else "keras_optimizers.json", header, records)
