"""Metric functions of real Keras: one value an example -> keras_metrics.json."""

import golden_io  # isort: skip
import keras
import numpy as np

rng = np.random.default_rng(7)
f32 = np.float32
scores = rng.normal(0, 1, (8, 6)).astype(f32).round(3)
scores[2] = 0.25  # a tie
scores[5, 1] = scores[5, 3] = 9
labels = np.array([0, 5, 2, 1, 4, 3, 2, 0], np.int32)
one_hot = np.eye(6, dtype=f32)[labels]
binary = (rng.uniform(0, 1, (8, 3)) > 0.5).astype(f32)
predicted = rng.uniform(0, 1, (8, 3)).astype(f32).round(2)
predicted[0] = [0.5, 0.3, 0.7]
map_scores = rng.normal(0, 1, (2, 3, 4)).astype(f32).round(3)
map_labels = rng.integers(0, 4, (2, 3)).astype(np.int32)
whole = rng.integers(0, 3, (8, 3)).astype(f32)
guessed = rng.integers(0, 3, (8, 3)).astype(f32)

CASES = [
    ("accuracy", whole, guessed, dict()),
    ("binary_accuracy", binary, predicted, dict()),
    ("binary_accuracy", binary, predicted, dict(threshold=0.3)),
    ("binary_accuracy", binary[:, 0], predicted[:, :1], dict()),
    ("categorical_accuracy", one_hot, scores, dict()),
    ("sparse_categorical_accuracy", labels, scores, dict()),
    ("sparse_categorical_accuracy", labels[:, None], scores, dict()),
    ("sparse_categorical_accuracy", labels.astype(f32), scores, dict()),
    ("sparse_categorical_accuracy", map_labels, map_scores, dict()),
    ("top_k_categorical_accuracy", one_hot, scores, dict()),
    ("top_k_categorical_accuracy", one_hot, scores, dict(k=2)),
    ("sparse_top_k_categorical_accuracy", labels, scores, dict()),
    ("sparse_top_k_categorical_accuracy", labels, scores, dict(k=3)),
    ("sparse_top_k_categorical_accuracy", map_labels, map_scores, dict(k=2)),
]

records = []
for name, y_true, y_pred, options in CASES:
    function = getattr(keras.metrics, name, None)
    if function is None:
        from keras.src.metrics import accuracy_metrics

        function = getattr(accuracy_metrics, name)
    record = {"metric": name, "options": options, "y_true": y_true, "y_pred": y_pred}
    record["values"] = keras.ops.convert_to_numpy(function(y_true, y_pred, **options))
    records.append(record)
golden_io.write("keras_metrics.json", {}, records)
