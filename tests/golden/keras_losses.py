"""Losses of real Keras: values, gradients, sample weights and reductions -> keras_losses.json."""

import golden_io  # isort: skip
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(99)
f32 = np.float32
logits = rng.normal(0, 2, (6, 5)).astype(f32).round(3)
logits[3] = [60, -40, 0, 10, 59.5]
probabilities = rng.uniform(0, 1, (6, 5)).astype(f32).round(3)
probabilities /= probabilities.sum(-1, keepdims=True)
probabilities[4] = [0, 1, 0, 0, 0]
unnormalized = rng.uniform(0, 3, (4, 5)).astype(f32).round(3)
labels = np.array([0, 4, 2, 1, 0, 3], np.int32)
one_hot = np.eye(5, dtype=f32)[labels]
soft = rng.dirichlet(np.ones(5), 6).astype(f32)
binary = (rng.uniform(0, 1, (6, 3)) > 0.5).astype(f32)
binary_logits = rng.normal(0, 3, (6, 3)).astype(f32).round(3)
binary_logits[2] = [80, -80, 0]
binary_probabilities = rng.uniform(0, 1, (6, 3)).astype(f32).round(3)
binary_probabilities[1] = [0, 1, 0.5]
real = rng.normal(0, 1, (6, 4)).astype(f32).round(3)
predicted = (real + rng.normal(0, 1.2, (6, 4))).astype(f32).round(3)
predicted[2] = real[2]
positive = rng.uniform(0.1, 3, (6, 4)).astype(f32).round(3)
rates = rng.uniform(0.1, 3, (6, 4)).astype(f32).round(3)
signs = np.where(rng.uniform(0, 1, (6, 4)) > 0.5, 1, -1).astype(f32)
zero_row = real.copy()
zero_row[1] = 0
map_logits = rng.normal(0, 1, (2, 3, 4)).astype(f32).round(3)
map_labels = rng.integers(0, 4, (2, 3)).astype(np.int32)

CASES = [
    ("sparse_categorical_crossentropy", labels, logits, dict(from_logits=True)),
    ("sparse_categorical_crossentropy", labels, probabilities, dict()),
    ("sparse_categorical_crossentropy", labels[:4], unnormalized, dict()),
    ("sparse_categorical_crossentropy", labels[:, None], logits, dict(from_logits=True)),
    ("sparse_categorical_crossentropy", labels, logits, dict(from_logits=True, ignore_class=0)),
    ("sparse_categorical_crossentropy", labels, probabilities, dict(ignore_class=4)),
    ("sparse_categorical_crossentropy", map_labels, map_logits, dict(from_logits=True)),
    ("categorical_crossentropy", one_hot, logits, dict(from_logits=True)),
    ("categorical_crossentropy", soft, logits, dict(from_logits=True)),
    ("categorical_crossentropy", one_hot, logits, dict(from_logits=True, label_smoothing=0.1)),
    ("categorical_crossentropy", one_hot, probabilities, dict()),
    ("categorical_crossentropy", one_hot[:4], unnormalized, dict()),
    ("categorical_crossentropy", soft, probabilities, dict(label_smoothing=0.2)),
    ("binary_crossentropy", binary, binary_logits, dict(from_logits=True)),
    ("binary_crossentropy", binary, binary_probabilities, dict()),
    ("binary_crossentropy", binary, binary_logits, dict(from_logits=True, label_smoothing=0.1)),
    ("binary_crossentropy", binary, binary_probabilities, dict(label_smoothing=0.1)),
    ("categorical_focal_crossentropy", one_hot, logits[:3].repeat(2, 0), dict(from_logits=True)),
    ("categorical_focal_crossentropy", one_hot, probabilities, dict(alpha=0.5, gamma=1.5, label_smoothing=0.1)),
    ("binary_focal_crossentropy", binary, binary_logits[:2].repeat(3, 0), dict(from_logits=True)),
    ("binary_focal_crossentropy", binary, binary_probabilities, dict(apply_class_balancing=True, alpha=0.4, gamma=1.5)),
    ("mean_squared_error", real, predicted, dict()),
    ("mean_squared_error", real[:, 0], predicted[:, :1], dict()),
    ("mean_absolute_error", real, predicted, dict()),
    ("mean_absolute_percentage_error", real, predicted, dict()),
    ("mean_squared_logarithmic_error", positive, rates, dict()),
    ("huber", real, predicted, dict()),
    ("huber", real, predicted, dict(delta=0.3)),
    ("log_cosh", real, predicted, dict()),
    ("log_cosh", real, predicted * 30, dict()),
    ("kl_divergence", soft, probabilities, dict()),
    ("poisson", positive, rates, dict()),
    ("hinge", signs, predicted, dict()),
    ("hinge", (signs + 1) / 2, predicted, dict()),
    ("squared_hinge", signs, predicted, dict()),
    ("squared_hinge", (signs + 1) / 2, predicted, dict()),
    ("categorical_hinge", one_hot, logits[:3].repeat(2, 0), dict()),
    ("cosine_similarity", real, predicted, dict()),
    ("cosine_similarity", zero_row, predicted, dict()),
]


def run(name, y_true, y_pred, options):
    y = tf.Variable(y_pred)
    with tf.GradientTape() as tape:
        values = getattr(keras.losses, name)(tf.constant(y_true), y.value(), **options)
        total = tf.reduce_sum(values)
    return {
        "loss": name, "options": options, "y_true": y_true, "y_pred": y_pred,
        "values": values, "gradient": tf.convert_to_tensor(tape.gradient(total, y)),
    }


records = [run(*case) for case in CASES]

weights = np.array([1, 0.5, 2, 0, 1, 3], f32)
for reduction in ("sum_over_batch_size", "sum", "none", "mean_with_sample_weight"):
    for weight in (None, weights, weights[:, None]):
        loss = keras.losses.MeanSquaredError(reduction=reduction)
        record = {"loss": "mean_squared_error", "reduction": reduction, "y_true": real, "y_pred": predicted,
                  "values": loss(real, predicted, sample_weight=weight)}
        if weight is not None:
            record["sample_weight"] = weight
        records.append(record)
golden_io.write("keras_losses.json", {}, records)
