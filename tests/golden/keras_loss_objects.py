"""Losses and metrics of real Keras as objects -> keras_loss_objects.json, keras_metric_objects.json."""

import golden_io  # isort: skip
import json
import warnings

import keras
import numpy as np
import tensorflow as tf

warnings.simplefilter("ignore")
f32 = np.float32


def few(x, digits=3):
    return np.asarray(x, f32).round(digits)


def config_of(thing):
    return json.loads(json.dumps(keras.saving.serialize_keras_object(thing)))


# Losses: inputs by name, shared by all cases.

rng = np.random.default_rng(5)
labels = np.array([0, 3, 2, 1, 3], np.int32)
one_hot = np.eye(4, dtype=f32)[labels]
probabilities = few(rng.uniform(0.05, 1, (5, 4)))
scores = few(rng.normal(0, 2, (5, 4)))
embeddings = rng.normal(0, 1, (6, 3))
embeddings = few(embeddings / np.linalg.norm(embeddings, axis=-1, keepdims=True), 4)
INPUTS = {
    "labels": labels,
    "one_hot": one_hot,
    "probabilities": probabilities,
    "scores": scores,
    "real": few(rng.normal(0, 1, (5, 4))),
    "positive": few(rng.uniform(0.1, 3, (5, 4))),
    "rates": few(rng.uniform(0.1, 3, (5, 4))),
    "signs": np.where(rng.uniform(0, 1, (5, 4)) > 0.5, 1, -1).astype(f32),
    "binary": (rng.uniform(0, 1, (5, 4)) > 0.5).astype(f32),
    "maps": few(rng.normal(0, 1, (2, 3, 4))),
    "map_labels": np.array([[1, 0, 3], [2, 1, 1]], np.int32),
    "first": few(rng.normal(0, 1, (2, 4, 3))),  # classes on axis 1
    "first_truth": rng.dirichlet(np.ones(4), (2, 3)).transpose(0, 2, 1).astype(f32),  # TensorFlow's gradient wants sums of 1
    "pair_labels": np.array([0, 1, 0, 2, 1, 0], np.int32),
    "embeddings": embeddings,
    "sequences": np.array([[1, 2, 0], [3, 0, 0], [2, 2, 1]], np.int32),
    "times": few(rng.normal(0, 1, (3, 6, 4))),
}
WEIGHTS = {5: few(rng.uniform(0, 2, 5)), 2: np.array([0.5, 2], f32), 6: few(rng.uniform(0, 2, 6)), 3: few(rng.uniform(0, 2, 3))}
WEIGHTS[5][2] = 0

LOSSES = [
    ("MeanSquaredError", "real", "scores", {}),
    ("MeanAbsoluteError", "real", "scores", {}),
    ("MeanAbsolutePercentageError", "real", "scores", {}),
    ("MeanSquaredLogarithmicError", "positive", "rates", {}),
    ("CosineSimilarity", "real", "scores", {}),
    ("CosineSimilarity", "first_truth", "first", {"axis": 1}),
    ("Huber", "real", "scores", {}),
    ("Huber", "real", "scores", {"delta": 0.3}),
    ("LogCosh", "real", "scores", {}),
    ("Hinge", "signs", "scores", {}),
    ("Hinge", "binary", "scores", {}),
    ("SquaredHinge", "signs", "scores", {}),
    ("CategoricalHinge", "one_hot", "scores", {}),
    ("KLDivergence", "one_hot", "probabilities", {}),
    ("Poisson", "positive", "rates", {}),
    ("BinaryCrossentropy", "binary", "probabilities", {}),
    ("BinaryCrossentropy", "binary", "scores", {"from_logits": True, "label_smoothing": 0.1}),
    ("BinaryFocalCrossentropy", "binary", "probabilities", {}),
    ("BinaryFocalCrossentropy", "binary", "probabilities", {"apply_class_balancing": True, "alpha": 0.4, "gamma": 1.5}),
    ("CategoricalCrossentropy", "one_hot", "probabilities", {}),
    ("CategoricalCrossentropy", "one_hot", "scores", {"from_logits": True, "label_smoothing": 0.2}),
    ("CategoricalCrossentropy", "first_truth", "first", {"from_logits": True, "axis": 1}),
    ("CategoricalFocalCrossentropy", "one_hot", "probabilities", {}),
    ("CategoricalFocalCrossentropy", "one_hot", "scores", {"from_logits": True, "gamma": 3.0, "label_smoothing": 0.1}),
    ("SparseCategoricalCrossentropy", "labels", "probabilities", {}),
    ("SparseCategoricalCrossentropy", "labels", "scores", {"from_logits": True}),
    ("SparseCategoricalCrossentropy", "labels", "scores", {"from_logits": True, "ignore_class": 3}),
    ("SparseCategoricalCrossentropy", "map_labels", "maps", {"from_logits": True, "ignore_class": 1}),
    ("CategoricalGeneralizedCrossEntropy", "labels", "probabilities", {}),
    ("CategoricalGeneralizedCrossEntropy", "labels", "probabilities", {"q": 0.8}),
    ("Dice", "binary", "probabilities", {}),
    ("Dice", "first_truth", "first", {"axis": (1, 2)}),
    ("Tversky", "binary", "probabilities", {"alpha": 0.3, "beta": 0.7}),
    ("Tversky", "binary", "probabilities", {"axis": 1}),
    ("Circle", "pair_labels", "embeddings", {"gamma": 5.0}),
    ("Circle", "pair_labels", "embeddings", {"gamma": 2.0, "margin": 0.2, "remove_diagonal": False}),
    ("CTC", "sequences", "times", {}),
]
REDUCTIONS = ("sum_over_batch_size", "sum", "none", "mean_with_sample_weight")


def loss_record(name, y_true, y_pred, options, reduction, weight):
    kwargs = dict(options)
    if reduction != "sum_over_batch_size":
        kwargs["reduction"] = reduction
    loss = getattr(keras.losses, name)(**kwargs)
    y = tf.Variable(INPUTS[y_pred])
    w = None if weight is None else WEIGHTS[len(INPUTS[y_pred])].reshape((-1, 1) if weight == "column" else (-1,))
    with tf.GradientTape() as tape:
        value = loss(tf.constant(INPUTS[y_true]), y.value(), sample_weight=w)
        total = tf.reduce_sum(value)
    record = {"class": name, "y_true": y_true, "y_pred": y_pred, "config": config_of(loss), "options": options, "value": value.numpy(),
              "gradient": tf.convert_to_tensor(tape.gradient(total, y)).numpy()}
    if w is not None:
        record["sample_weight"] = w
    return record


losses = []
for name, y_true, y_pred, options in LOSSES:
    for reduction in REDUCTIONS:
        for weight in (None, "vector"):
            # Keras broadcasts a vector along the last axis, where it does not refuse it.
            many = name == "SparseCategoricalCrossentropy" and y_true == "map_labels" or y_pred == "first"
            losses.append(loss_record(name, y_true, y_pred, options, reduction, "column" if weight and many else weight))


def masked_record(reduction, weighted):
    loss = keras.losses.MeanSquaredError(reduction=reduction)
    y = tf.Variable(INPUTS["maps"])
    truth = np.flip(INPUTS["maps"], 1).copy()
    mask = np.array([[True, True, False], [True, False, False]])
    w = np.array([[0.5, 1, 2], [3, 1, 1]], f32) if weighted else None
    with tf.GradientTape() as tape:
        given = y.value()
        keras.src.backend.set_keras_mask(given, mask=tf.constant(mask))
        value = loss(tf.constant(truth), given, sample_weight=w)
        total = tf.reduce_sum(value)
    record = {"class": "MeanSquaredError", "truth": truth, "y_pred": "maps", "config": config_of(loss), "options": {}, "value": value.numpy(),
              "gradient": tf.convert_to_tensor(tape.gradient(total, y)).numpy(), "mask": mask.astype(np.int32)}
    if weighted:
        record["sample_weight"] = w
    return record


losses += [masked_record(reduction, weighted) for reduction in REDUCTIONS for weighted in (False, True)]
names = sorted(n for n in keras.src.losses.ALL_OBJECTS_DICT if n not in ("Loss", "LossFunctionWrapper"))
golden_io.write("keras_loss_objects.json", {"inputs": INPUTS, "names": names}, losses)

# Metrics: three batches each, the last of another size.

SIZES = (6, 6, 3)


def batches(make_true, make_pred, seed):
    rng = np.random.default_rng(seed)
    return [(make_true(rng, n), make_pred(rng, n)) for n in SIZES]


def uniform(*shape):
    return lambda rng, n: few(rng.uniform(0, 1, (n, *shape)), 2)


def normal(*shape):
    return lambda rng, n: few(rng.normal(0, 1, (n, *shape)), 2)


def bits(*shape):
    return lambda rng, n: (rng.uniform(0, 1, (n, *shape)) > 0.5).astype(f32)


def sign(*shape):
    return lambda rng, n: np.where(rng.uniform(0, 1, (n, *shape)) > 0.5, 1, -1).astype(f32)


def whole(top, *shape):
    return lambda rng, n: rng.integers(0, top, (n, *shape)).astype(np.int32)


def hot(classes):
    return lambda rng, n: np.eye(classes, dtype=f32)[rng.integers(0, classes, n)]


def simplex(classes):
    return lambda rng, n: few(rng.dirichlet(np.ones(classes), n), 2) + f32(0.01)


METRICS = [
    ("Accuracy", whole(3, 2), whole(3, 2), {}),
    ("BinaryAccuracy", bits(1), uniform(1), {}),
    ("BinaryAccuracy", bits(3), uniform(3), {"threshold": 0.3}),
    ("CategoricalAccuracy", hot(4), normal(4), {}),
    ("SparseCategoricalAccuracy", whole(4), normal(4), {}),
    ("SparseCategoricalAccuracy", whole(4, 3), normal(3, 4), {}),
    ("TopKCategoricalAccuracy", hot(6), normal(6), {"k": 2}),
    ("SparseTopKCategoricalAccuracy", whole(6), normal(6), {"k": 3}),
    ("SparseTopKCategoricalAccuracy", whole(6), whole(6, 5), {"k": 2, "from_sorted_ids": True}),
    ("MeanSquaredError", normal(3), normal(3), {}),
    ("RootMeanSquaredError", normal(3), normal(3), {}),
    ("MeanAbsoluteError", normal(3), normal(3), {"name": "mine"}),
    ("MeanAbsolutePercentageError", normal(3), normal(3), {}),
    ("MeanSquaredLogarithmicError", uniform(3), uniform(3), {}),
    ("CosineSimilarity", normal(3), normal(3), {}),
    ("LogCoshError", normal(3), normal(3), {}),
    ("R2Score", normal(3), normal(3), {}),
    ("R2Score", normal(3), normal(3), {"class_aggregation": None}),
    ("R2Score", normal(3), normal(3), {"class_aggregation": "variance_weighted_average", "num_regressors": 2}),
    ("KLDivergence", simplex(3), simplex(3), {}),
    ("Poisson", uniform(3), uniform(3), {}),
    ("BinaryCrossentropy", bits(3), uniform(3), {"label_smoothing": 0.1}),
    ("BinaryCrossentropy", bits(3), normal(3), {"from_logits": True}),
    ("CategoricalCrossentropy", hot(4), simplex(4), {}),
    ("CategoricalCrossentropy", hot(4), normal(4), {"from_logits": True, "label_smoothing": 0.1}),
    ("SparseCategoricalCrossentropy", whole(4), normal(4), {"from_logits": True}),
    ("SparseCategoricalCrossentropy", whole(4), simplex(4), {"ignore_class": 1}),
    ("Hinge", sign(3), normal(3), {}),
    ("SquaredHinge", bits(3), normal(3), {}),
    ("CategoricalHinge", hot(3), normal(3), {}),
    ("PearsonCorrelation", normal(5), normal(5), {}),
    ("ConcordanceCorrelation", normal(5), normal(5), {}),
    ("TruePositives", bits(2), uniform(2), {}),
    ("TrueNegatives", bits(2), uniform(2), {"thresholds": 0.3}),
    ("FalsePositives", bits(2), uniform(2), {"thresholds": [0.2, 0.7]}),
    ("FalseNegatives", bits(2), uniform(2), {"thresholds": [0.0, 0.25, 0.5, 0.75, 1.0]}),
    ("Precision", bits(1), uniform(1), {}),
    ("Precision", bits(3), uniform(3), {"thresholds": [0.3, 0.6]}),
    ("Precision", hot(4), uniform(4), {"top_k": 2}),
    ("Precision", hot(4), uniform(4), {"class_id": 1, "thresholds": 0.2}),
    ("Recall", bits(1), uniform(1), {}),
    ("Recall", hot(4), uniform(4), {"top_k": 2, "class_id": 3}),
    ("SensitivityAtSpecificity", bits(1), uniform(1), {"specificity": 0.4}),
    ("SensitivityAtSpecificity", bits(1), uniform(1), {"specificity": 0.4, "num_thresholds": 1}),
    ("SpecificityAtSensitivity", bits(1), uniform(1), {"sensitivity": 0.6, "num_thresholds": 20}),
    ("PrecisionAtRecall", bits(1), uniform(1), {"recall": 0.5}),
    ("RecallAtPrecision", bits(3), uniform(3), {"precision": 0.5, "class_id": 2}),
    ("AUC", bits(1), uniform(1), {}),
    ("AUC", bits(), uniform(), {"num_thresholds": 5}),
    ("AUC", bits(1), normal(1), {"from_logits": True, "summation_method": "majoring"}),
    ("AUC", bits(1), uniform(1), {"summation_method": "minoring"}),
    ("AUC", bits(1), uniform(1), {"curve": "PR"}),
    ("AUC", bits(1), uniform(1), {"curve": "PR", "summation_method": "majoring"}),
    ("AUC", bits(1), uniform(1), {"curve": "PRGAIN"}),
    ("AUC", bits(1), uniform(1), {"thresholds": [0.1, 0.45, 0.9]}),
    ("AUC", bits(3), uniform(3), {"multi_label": True, "num_thresholds": 10}),
    ("AUC", bits(3), uniform(3), {"multi_label": True, "num_labels": 3, "label_weights": [1.0, 2.0, 0.5]}),
    ("AUC", bits(3), uniform(3), {"label_weights": [1.0, 2.0, 0.5]}),
    ("IoU", whole(3), whole(3), {"num_classes": 3, "target_class_ids": [0, 2]}),
    ("IoU", whole(3), normal(3), {"num_classes": 3, "target_class_ids": [1], "sparse_y_pred": False, "dtype": "float32"}),
    ("BinaryIoU", bits(2), uniform(2), {}),
    ("BinaryIoU", bits(2), uniform(2), {"target_class_ids": [1], "threshold": 0.3}),
    ("MeanIoU", whole(4, 2), whole(4, 2), {"num_classes": 4}),
    ("MeanIoU", whole(4, 2), whole(4, 2), {"num_classes": 4, "ignore_class": 1}),
    ("OneHotIoU", hot(3), normal(3), {"num_classes": 3, "target_class_ids": [0, 1]}),
    ("OneHotMeanIoU", hot(3), normal(3), {"num_classes": 3}),
    ("F1Score", hot(3), uniform(3), {}),
    ("F1Score", bits(3), uniform(3), {"average": "micro", "threshold": 0.4}),
    ("F1Score", hot(3), uniform(3), {"average": "macro"}),
    ("FBetaScore", hot(3), uniform(3), {"average": "weighted", "beta": 2.0}),
    ("FBetaScore", bits(3), uniform(3), {"beta": 0.5, "threshold": 0.5}),
]


def metric_record(case, name, make_true, make_pred, options, weighted):
    keras.utils.clear_session()
    metric = getattr(keras.metrics, name)(**options)
    rng = np.random.default_rng(100 + case)
    steps = []
    for y_true, y_pred in batches(make_true, make_pred, case):
        n = len(y_true)
        weight = None
        if weighted:
            weight = rng.integers(0, 4, n).astype(np.int32) if "IoU" in name else few(rng.uniform(0, 2, n), 2)
            if "IoU" in name and np.size(y_true if "OneHot" not in name else y_true[:, 0]) != n:
                weight = np.repeat(weight, y_true.shape[1]).reshape(y_true.shape)
        metric.update_state(y_true, y_pred, sample_weight=weight)
        step = {"y_true": y_true, "y_pred": y_pred, "result": np.asarray(metric.result(), f32)}
        if weight is not None:
            step["sample_weight"] = weight
        steps.append(step)
    return {"class": name, "name": metric.name, "config": config_of(metric), "variables": [v.name for v in metric.variables], "steps": steps}


metrics = [metric_record(i, *case, weighted) for i, case in enumerate(METRICS) for weighted in (False, True)]


def values_record(kind, shape, weight_shape):
    metric = getattr(keras.metrics, kind)()
    rng = np.random.default_rng(3)
    steps = []
    for n in SIZES:
        values = few(rng.normal(0, 1, (n, *shape)), 2)
        weight = None if weight_shape is None else few(rng.uniform(0, 2, (n, *weight_shape)), 2)
        metric.update_state(values, sample_weight=weight)
        step = {"values": values, "result": np.asarray(metric.result(), f32)}
        if weight is not None:
            step["sample_weight"] = weight
        steps.append(step)
    return {"class": kind, "config": config_of(metric), "steps": steps}


for kind in ("Mean", "Sum"):
    for shape, weight_shape in (((), None), ((), ()), ((4,), None), ((4,), ()), ((4,), (1,)), ((4,), (4,)), ((2, 3), (2,))):
        metrics.append(values_record(kind, shape, weight_shape))
names = sorted(n for n in keras.src.metrics.ALL_OBJECTS_DICT if n not in ("Metric", "metric", "MeanMetricWrapper", "mean_metric_wrapper"))
golden_io.write("keras_metric_objects.json", {"names": names}, metrics)
