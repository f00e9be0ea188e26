"""Learning-rate schedules of real Keras, at chosen iterations -> keras_schedules.json."""

import golden_io  # isort: skip
import keras
import numpy as np

S = keras.optimizers.schedules
ITERATIONS = [0, 1, 2, 3, 5, 7, 9, 10, 11, 13, 20, 21, 29, 30, 31, 50, 69, 70, 71, 99, 100, 150, 151, 1000]

CASES = [
    ("ExponentialDecay", dict(initial_learning_rate=0.1, decay_steps=10, decay_rate=0.96)),
    ("ExponentialDecay", dict(initial_learning_rate=0.1, decay_steps=10, decay_rate=0.5, staircase=True)),
    ("PiecewiseConstantDecay", dict(boundaries=[10, 30], values=[1.0, 0.5, 0.1])),
    ("PiecewiseConstantDecay", dict(boundaries=[20], values=[0.2, 0.02])),
    ("PolynomialDecay", dict(initial_learning_rate=0.1, decay_steps=30)),
    ("PolynomialDecay", dict(initial_learning_rate=0.1, decay_steps=30, end_learning_rate=0.01, power=0.5)),
    ("PolynomialDecay", dict(initial_learning_rate=0.1, decay_steps=30, end_learning_rate=0.01, power=2.0, cycle=True)),
    ("InverseTimeDecay", dict(initial_learning_rate=0.1, decay_steps=10, decay_rate=0.5)),
    ("InverseTimeDecay", dict(initial_learning_rate=0.1, decay_steps=10, decay_rate=0.5, staircase=True)),
    ("CosineDecay", dict(initial_learning_rate=0.1, decay_steps=100)),
    ("CosineDecay", dict(initial_learning_rate=0.1, decay_steps=100, alpha=0.1)),
    ("CosineDecay", dict(initial_learning_rate=0.0, decay_steps=100, alpha=0.1, warmup_target=0.2, warmup_steps=20)),
    ("CosineDecay", dict(initial_learning_rate=0.05, decay_steps=70, warmup_target=0.2, warmup_steps=30)),
    ("CosineDecayRestarts", dict(initial_learning_rate=0.1, first_decay_steps=10)),
    ("CosineDecayRestarts", dict(initial_learning_rate=0.1, first_decay_steps=10, t_mul=1.0, m_mul=0.9)),
    ("CosineDecayRestarts", dict(initial_learning_rate=0.1, first_decay_steps=12, t_mul=1.5, m_mul=0.8, alpha=0.1)),
]


def value(schedule, iteration):
    # Optimizers hand the schedule their int32 iteration counter.
    return float(keras.ops.convert_to_numpy(schedule(keras.ops.convert_to_tensor(np.int32(iteration)))))


records = []
for name, options in CASES:
    schedule = getattr(S, name)(**options)
    values = np.array([value(schedule, i) for i in ITERATIONS], np.float32)
    records.append({"schedule": name, "options": options, "values": values})
golden_io.write("keras_schedules.json", {"iterations": ITERATIONS}, records)
