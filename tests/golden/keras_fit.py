"""Histories of real Keras's fit, for tests/keras/fit_golden_test.cc.

Each case is a Sequential model with its first weights, data, what it is compiled with, and what fit, evaluate and
predict gave on one device.
"""

import json
import os

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
from keras import layers, losses, metrics, optimizers, regularizers

ROWS, VALIDATION_ROWS, BATCH, EPOCHS = 37, 11, 8, 4  # 5 batches an epoch, the last of 5 rows; 20 steps


def numbers(array):
    array = np.asarray(array)
    if array.dtype.kind in "iub":
        return {"shape": list(array.shape), "dtype": "int64", "data": array.astype(int).ravel().tolist()}
    data = [float(f"{value:.8g}") for value in array.astype(np.float64).ravel()]
    return {"shape": list(array.shape), "dtype": "float32", "data": data}


def run(name, model, x, y, compile_options, *, weight=None, class_weight=None, steps_per_execution=1):
    rng = np.random.default_rng(7)
    model.set_weights([rng.normal(0, 0.4, w.shape).astype(w.dtype) if w.ndim > 1 else w for w in model.get_weights()])
    case = {
        "name": name,
        "layers": [keras.saving.serialize_keras_object(layer) for layer in model.layers],
        "input_shape": list(x.shape[1:]),
        "weights": [numbers(w) for layer in model.layers for w in layer.get_weights()],
        "x": numbers(x),
        "y": numbers(y),
        "batch": BATCH,
        "epochs": EPOCHS,
        "rows": ROWS,
    }
    if weight is not None:
        case["sample_weight"] = numbers(weight)
    if class_weight is not None:
        case["class_weight"] = {str(k): v for k, v in class_weight.items()}
    model.compile(**compile_options, steps_per_execution=steps_per_execution)
    serialize = keras.saving.serialize_keras_object
    case["optimizer"] = serialize(model.optimizer)
    case["loss"] = compile_options["loss"] if isinstance(compile_options["loss"], str) else serialize(compile_options["loss"])
    for key in ("metrics", "weighted_metrics"):
        case[key] = [m if isinstance(m, str) else serialize(m) for m in compile_options.get(key, [])]
    train = slice(0, ROWS)
    rest = slice(ROWS, None)
    validation = (x[rest], y[rest]) if weight is None else (x[rest], y[rest], weight[rest])
    history = model.fit(
        x[train],
        y[train],
        sample_weight=None if weight is None else weight[train],
        class_weight=class_weight,
        batch_size=BATCH,
        epochs=EPOCHS,
        shuffle=False,
        validation_data=validation,
        validation_batch_size=BATCH,
        verbose=0,
    )
    # Of a metric with a value a class the mean, which Keras's progress bar shows.
    case["history"] = {k: [float(np.mean(v)) for v in values] for k, values in history.history.items()}
    case["final_weights"] = [numbers(w) for layer in model.layers for w in layer.get_weights()]
    case["predictions"] = numbers(model.predict(x[rest], verbose=0))
    return case


def main():
    rng = np.random.default_rng(3)
    rows = ROWS + VALIDATION_ROWS
    x = rng.normal(size=(rows, 6)).astype("float32")
    labels = (x[:, :3] + 0.3 * rng.normal(size=(rows, 3))).argmax(-1)
    one_hot = np.eye(3, dtype="float32")[labels]
    target = (x @ rng.normal(size=(6, 2)) + 0.1 * rng.normal(size=(rows, 2))).astype("float32")
    binary = (labels > 0).astype("float32")[:, None]
    weight = rng.uniform(0.1, 2, rows).astype("float32")

    def mlp(units, activation=None, **options):
        return keras.Sequential(
            [keras.Input((x.shape[1],)), layers.Dense(7, "tanh", **options), layers.Dense(units, activation)]
        )

    sparse = losses.SparseCategoricalCrossentropy(from_logits=True)
    cases = [
        run("sparse logits, adam", mlp(3), x, labels, dict(optimizer=optimizers.Adam(0.02), loss=sparse, metrics=["accuracy"])),
        run("names", mlp(3, "softmax"), x, one_hot, dict(optimizer="rmsprop", loss="categorical_crossentropy", metrics=["accuracy", "mse"])),
        run("binary, sgd momentum", mlp(1, "sigmoid"), x, binary,
            dict(optimizer=optimizers.SGD(0.1, momentum=0.9, nesterov=True), loss="binary_crossentropy",
                 metrics=["accuracy", metrics.AUC(num_thresholds=50), metrics.Precision(), metrics.Recall()])),
        run("sample weights", mlp(3), x, labels,
            dict(optimizer=optimizers.Adam(0.02), loss=sparse, metrics=["accuracy"], weighted_metrics=["accuracy"]), weight=weight),
        run("class weights", mlp(3), x, labels,
            dict(optimizer=optimizers.Adam(0.02), loss=sparse, metrics=["accuracy"], weighted_metrics=["accuracy"]),
            class_weight={0: 0.5, 1: 2.0, 2: 1.5}),
        run("regularizers", mlp(2, kernel_regularizer=regularizers.L2(0.05), bias_regularizer="l1",
                                activity_regularizer=regularizers.L1(0.02)), x, target,
            dict(optimizer=optimizers.Adam(0.02), loss="mse", metrics=["mae", metrics.RootMeanSquaredError()])),
        run("constraints", mlp(2, kernel_constraint="unit_norm", bias_constraint="non_neg"), x, target,
            dict(optimizer=optimizers.SGD(0.05), loss=losses.Huber())),
        run("loss divided by weights", mlp(2), x, target,
            dict(optimizer=optimizers.SGD(0.05), loss=losses.MeanSquaredError(reduction="mean_with_sample_weight")), weight=weight),
        run("loss summed", mlp(2), x, target, dict(optimizer=optimizers.SGD(0.005), loss=losses.MeanSquaredError(reduction="sum"))),
        run("schedule and clipping", mlp(2), x, target,
            dict(optimizer=optimizers.AdamW(optimizers.schedules.ExponentialDecay(0.05, 5, 0.7), weight_decay=0.01, global_clipnorm=0.5), loss="mae")),
        run("several steps an execution", mlp(3), x, labels,
            dict(optimizer=optimizers.Adam(0.02), loss=sparse, metrics=["accuracy"]), steps_per_execution=3),
    ]
    frozen = mlp(2)
    frozen.layers[0].trainable = False
    cases.append(run("frozen layer", frozen, x, target, dict(optimizer=optimizers.Adam(0.02), loss="mse")))

    words = rng.integers(0, 9, (rows, 5))
    words[:, 0] = np.maximum(words[:, 0], 1)
    sequence = keras.Sequential(
        [keras.Input((5,)), layers.Embedding(9, 4, mask_zero=True), layers.LSTM(5, return_sequences=True), layers.Dense(2)]
    )
    # SGD: Keras's Adam is wrong where a word comes twice in a batch (docs/tf_map.md).
    cases.append(run("masked sequence", sequence, words.astype("float32"), np.stack([words % 2, words % 3], -1).astype("float32"),
                     dict(optimizer=optimizers.SGD(0.2), loss="mse", weighted_metrics=["mae"])))
    pictures = rng.normal(size=(rows, 6, 6, 2)).astype("float32")
    convolutions = keras.Sequential(
        [keras.Input((6, 6, 2)), layers.Conv2D(4, 3, activation="relu", padding="same"), layers.MaxPooling2D(),
         layers.LayerNormalization(), layers.Flatten(), layers.Dense(3)]
    )
    cases.append(run("convolutions", convolutions, pictures, labels, dict(optimizer=optimizers.Adam(0.01), loss=sparse, metrics=["accuracy"])))

    # Mixed precision. `policy` is the process's while the model is made, so that layers and model have it.
    def mixed(policy, name, make, x, y, options, tolerance):
        keras.config.set_dtype_policy(policy)
        model = make()
        case = run(name, model, x, y, options)
        keras.config.set_dtype_policy("float32")
        case |= {"policy": policy, "tolerance": tolerance, "iterations": int(model.optimizer.iterations)}
        if isinstance(model.optimizer, optimizers.LossScaleOptimizer):
            case["scale"] = {"dynamic_scale": float(model.optimizer.dynamic_scale), "step_counter": int(model.optimizer.step_counter)}
        cases.append(case)

    def small():
        return keras.Sequential(
            [keras.Input((6, 6, 2)), layers.Conv2D(4, 3, activation="relu", padding="same"), layers.MaxPooling2D(),
             layers.LayerNormalization(), layers.Flatten(), layers.Dense(3, dtype="float32")])

    mixed("mixed_bfloat16", "mixed bfloat16", lambda: mlp(3, kernel_regularizer=regularizers.L2(0.01)), x, labels,
          dict(optimizer=optimizers.Adam(0.02), loss=sparse, metrics=["accuracy"]), 0.02)
    mixed("mixed_bfloat16", "mixed bfloat16 convolutions", small, pictures, labels, dict(optimizer=optimizers.SGD(0.02), loss=sparse), 0.02)
    mixed("mixed_float16", "mixed float16", lambda: mlp(2), x, target / 4, dict(optimizer=optimizers.Adam(0.02), loss="mse", metrics=["mae"]), 0.005)
    mixed("mixed_float16", "loss scale that is too large", lambda: mlp(2), x, target,
          dict(optimizer=optimizers.LossScaleOptimizer(optimizers.SGD(0.05), initial_scale=2.0**20, dynamic_growth_steps=4), loss="mse"), 0.005)

    every = losses.MeanSquaredError(reduction="none")
    cases.append(run("loss of each example", mlp(2), x, target, dict(optimizer=optimizers.SGD(0.005), loss=every)))
    cases.append(run("loss of each example, weighted", mlp(2), x, target, dict(optimizer=optimizers.SGD(0.005), loss=every), weight=weight))
    cases.append(run("a value a class", mlp(3, "softmax"), x, one_hot,
                     dict(optimizer=optimizers.SGD(0.1), loss="categorical_crossentropy",
                          metrics=[metrics.F1Score(), metrics.FBetaScore(beta=0.5), metrics.F1Score(average="macro", name="macro")])))

    # Rules that look at whole kernels: rows, columns, norms.
    def kernels():
        return keras.Sequential(
            [keras.Input((6, 6, 2)), layers.Conv2D(4, 3, activation="relu"), layers.SeparableConv2D(3, 2, activation="relu"),
             layers.Flatten(), layers.Dense(5, "tanh"), layers.Dense(3)])

    for name, optimizer in (("lamb", optimizers.Lamb(0.02)), ("adafactor", optimizers.Adafactor(0.02)),
                            ("lamb, clipped", optimizers.Lamb(0.02, global_clipnorm=0.5, weight_decay=0.01))):
        cases.append(run(name, kernels(), pictures, labels, dict(optimizer=optimizer, loss=sparse, metrics=["accuracy"])))

    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "keras_fit.json"), "w") as file:
        json.dump({"keras": keras.__version__, "cases": cases}, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
