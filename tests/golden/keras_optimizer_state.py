"""State of real Keras's optimizers as it stands in a file -> keras_optimizer_state.json, on JAX keras_optimizer_state_jax.json.

For every optimizer with several option sets: its config as Keras writes it, what `save_own_variables` stores after
three steps (the datasets of `optimizer/vars`), the weights then, and those one step later.
"""

import golden_io  # isort: skip
import keras
import numpy as np

STEPS = 3
SHAPES = {"kernel": (3, 4), "bias": (4,), "filter": (2, 3, 2)}
O = keras.optimizers
S = O.schedules

COMMON = dict(clipnorm=0.5, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=4, gradient_accumulation_steps=2)
CASES = [
    O.SGD(),
    O.SGD(0.1, momentum=0.9, nesterov=True),
    O.SGD(S.ExponentialDecay(0.1, 2, 0.5, staircase=True), momentum=0.9, weight_decay=0.05),
    O.SGD(S.PiecewiseConstantDecay([1, 2], [0.1, 0.05, 0.01])),
    O.SGD(S.PolynomialDecay(0.1, 3, power=2.0, cycle=True)),
    O.SGD(S.InverseTimeDecay(0.1, 2, 0.5)),
    O.SGD(S.CosineDecay(0.1, 10)),
    O.SGD(S.CosineDecay(0.0, 10, alpha=0.1, warmup_target=0.1, warmup_steps=2)),
    O.SGD(S.CosineDecayRestarts(0.1, 2)),
    O.Adam(),
    O.Adam(0.02, beta_2=0.5, amsgrad=True, **COMMON),
    O.Adam(0.02, loss_scale_factor=4.0, global_clipnorm=0.3),
    O.Adam(S.CosineDecay(0.1, 10), use_ema=True),
    O.AdamW(0.02, clipvalue=0.2),
    O.Adamax(0.02),
    O.Adamax(0.02, **COMMON),
    O.Nadam(0.02),
    O.Nadam(0.02, **COMMON),
    O.Lion(0.02),
    O.Lamb(0.02),
    O.Lamb(0.02, **COMMON),
    O.Adafactor(0.02),
    O.Adafactor(0.02, **COMMON),
    O.Muon(0.02),
    O.Muon(0.02, exclude_layers=["kernel"], rms_rate=None, **COMMON),
    O.LossScaleOptimizer(O.Muon(0.02), initial_scale=8.0, dynamic_growth_steps=2),
    O.Adagrad(0.02),
    O.Adadelta(0.5),
    O.RMSprop(0.02),
    O.RMSprop(0.02, momentum=0.5),
    O.RMSprop(0.02, centered=True, epsilon=1e-3),
    O.RMSprop(0.02, momentum=0.5, centered=True, epsilon=1e-3, gradient_accumulation_steps=3),
    O.Ftrl(0.1, l1_regularization_strength=0.01, beta=0.1),
    O.LossScaleOptimizer(O.Adam(0.02, amsgrad=True), initial_scale=8.0, dynamic_growth_steps=2),
    O.LossScaleOptimizer(O.Nadam(S.ExponentialDecay(0.1, 2, 0.5)), initial_scale=8.0),
]

# As in keras_optimizers.py.
if keras.backend.backend() == "jax":
    CASES = [O.ScheduleFreeAdamW(0.02, warmup_steps=2), O.ScheduleFreeAdamW(0.02, **COMMON)]
NAME = "keras_optimizer_state_jax.json" if keras.backend.backend() == "jax" else "keras_optimizer_state.json"

rng = np.random.default_rng(99)
START = {n: np.round(rng.normal(0, 1, shape), 3).astype("float32") for n, shape in SHAPES.items()}
GRADIENTS = [{n: np.round(rng.normal(0, 0.5, shape), 3).astype("float32") for n, shape in SHAPES.items()} for _ in range(STEPS + 1)]


def run(optimizer):
    config = keras.saving.serialize_keras_object(optimizer)
    config["config"]["name"] = config["config"]["name"].rstrip("_0123456789")
    inner = config["config"].get("inner_optimizer")
    if inner:
        inner["config"]["name"] = inner["config"]["name"].rstrip("_0123456789")
    variables = [keras.Variable(v, name=n) for n, v in START.items()]
    optimizer.build(variables)
    untrained = {}
    optimizer.save_own_variables(untrained)
    result = {"config": config}
    for step in range(STEPS + 1):
        if step == STEPS:
            stored = {}
            optimizer.save_own_variables(stored)
            result["state"] = [{"dtype": str(stored[str(i)].dtype), **golden_io.plain(stored[str(i)])} for i in range(len(stored))]
            result["weights"] = [v.numpy() for v in variables]
        optimizer.apply([keras.ops.convert_to_tensor(g) for g in GRADIENTS[step].values()], variables)
    result["next_weights"] = [v.numpy() for v in variables]
    return result


records = [run(optimizer) for optimizer in CASES]
header = {"start": list(START.values()), "gradients": [list(g.values()) for g in GRADIENTS], "names": list(SHAPES)}
golden_io.write(NAME, header, records)
