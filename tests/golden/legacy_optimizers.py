"""tf.keras.optimizers.legacy of TensorFlow 2.15 (pip install tensorflow-cpu==2.15.1 "numpy<2", Python 3.11): steps on a table by
gradients of rows, and by gradients of all -> legacy_optimizers.json, in float64."""

import golden_io  # isort: skip
import numpy as np
import tensorflow as tf

L = tf.keras.optimizers.legacy
SHAPE = (6, 3)
# Rows of each step, some twice; None: all of them, as a dense gradient.
STEPS = {"rows": [[1, 4, 1], [4], [0, 1, 5, 0], [4, 2]], "dense": [None] * 4, "both": [[2, 2], None, [5, 0]]}
RULES = [
    ("SGD", dict(learning_rate=0.1)),
    ("SGD", dict(learning_rate=0.1, momentum=0.9)),
    ("SGD", dict(learning_rate=0.1, momentum=0.9, nesterov=True)),
    ("Adagrad", dict()),
    ("Adagrad", dict(learning_rate=0.1, initial_accumulator_value=0.0, epsilon=1e-2)),
    ("RMSprop", dict(learning_rate=0.01)),
    ("RMSprop", dict(learning_rate=0.01, rho=0.8, momentum=0.9)),
    ("RMSprop", dict(learning_rate=0.01, epsilon=1e-2)),
    ("RMSprop", dict(learning_rate=0.01, epsilon=1e-2, centered=True)),
    ("RMSprop", dict(learning_rate=0.01, epsilon=1e-2, centered=True, momentum=0.5)),
    ("Adadelta", dict(learning_rate=1.0, rho=0.9, epsilon=1e-4)),
    ("Adamax", dict(learning_rate=0.02, beta_1=0.8, beta_2=0.9, epsilon=1e-3)),
    ("Ftrl", dict(learning_rate=0.1)),
    ("Ftrl", dict(learning_rate=0.1, l1_regularization_strength=0.05, l2_regularization_strength=0.1)),
    ("Ftrl", dict(learning_rate=0.1, beta=0.5, initial_accumulator_value=0.3)),
]


def rounded(options):
    """As TensorFlow rounds Python's numbers on their way into tensors."""
    return {key: float(np.float32(value)) if isinstance(value, float) else value for key, value in options.items()}


tf.keras.backend.set_floatx("float64")
cases = []
for name, options in RULES:
    made = getattr(L, name)(**options)
    full = {key: value for key, value in made.get_config().items() if key not in ("name", "decay")}
    for kind, steps in STEPS.items():
        optimizer = getattr(L, name)(**rounded(full))
        table = tf.Variable(golden_io.numbers(1, SHAPE))
        record = []
        for i, rows in enumerate(steps):
            values = golden_io.numbers(10 + i, SHAPE if rows is None else (len(rows), SHAPE[1]))
            values[0, 0] = 0.0
            gradient = tf.constant(values)
            if rows is not None:
                gradient = tf.IndexedSlices(gradient, tf.constant(rows, tf.int64), tf.constant(SHAPE, tf.int64))
            optimizer.apply_gradients([(gradient, table)])
            record.append({"rows": rows, "values": values, "table": table.numpy()})
        cases.append({"optimizer": name, "options": rounded(full), "kind": kind, "table": golden_io.numbers(1, SHAPE), "steps": record})
golden_io.write("legacy_optimizers.json", {}, cases)
