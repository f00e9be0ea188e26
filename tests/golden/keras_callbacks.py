"""What Keras's callbacks decide for given sequences of logs, for tests/keras/callbacks_golden_test.cc."""

import os
import tempfile

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
from golden_io import write
from keras import callbacks


def sequences():
    rng = np.random.default_rng(5)
    falling = np.exp(-0.3 * np.arange(14)) + 0.1
    yield "falling", falling
    yield "flat after 4", np.concatenate([falling[:4], np.full(10, falling[3])])
    yield "noisy", falling + rng.normal(0, 0.12, 14)
    yield "rising", 1 - falling
    yield "steps", np.repeat([0.9, 0.7, 0.7, 0.69, 0.3, 0.35, 0.31], 2)


def model():
    net = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    net.compile(optimizer=keras.optimizers.SGD(0.5), loss="mse")
    return net


def run(callback, values, monitor):
    """The epoch at which it stops training (-1: never), and the learning rate behind every epoch."""
    net = model()
    callback.set_model(net)
    net.stop_training = False
    callback.on_train_begin()
    rates = []
    for epoch, value in enumerate(values):
        callback.on_epoch_begin(epoch)
        callback.on_epoch_end(epoch, {monitor: float(value), "loss": float(value)})
        rates.append(float(net.optimizer.learning_rate))
        if net.stop_training:
            return epoch, rates
    return -1, rates


def main():
    records = []
    for name, values in sequences():
        for monitor, mode in (("val_loss", "auto"), ("val_loss", "max"), ("val_accuracy", "max")):
            for options in (
                dict(),
                dict(patience=1),
                dict(patience=3, min_delta=0.05),
                dict(patience=2, baseline=0.5),
                dict(patience=2, start_from_epoch=5),
            ):
                callback = callbacks.EarlyStopping(monitor=monitor, mode=mode, **options)
                stopped, _ = run(callback, values, monitor)
                best = None if callback.best is None else float(callback.best)
                records.append({"callback": "EarlyStopping", "sequence": name, "values": values, "monitor": monitor, "mode": mode,
                                "options": options, "stopped": stopped, "best": best, "best_epoch": int(callback.best_epoch)})
            for options in (
                dict(patience=1),
                dict(patience=2, factor=0.5, min_delta=0.05),
                dict(patience=1, cooldown=2, factor=0.3),
                dict(patience=1, factor=0.2, min_lr=0.05),
            ):
                _, rates = run(callbacks.ReduceLROnPlateau(monitor=monitor, mode=mode, **options), values, monitor)
                records.append({"callback": "ReduceLROnPlateau", "sequence": name, "values": values, "monitor": monitor, "mode": mode,
                                "options": options, "rates": rates})
    _, rates = run(callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9 if epoch > 2 else rate), np.ones(8), "loss")
    records.append({"callback": "LearningRateScheduler", "rates": rates})
    with tempfile.TemporaryDirectory() as folder:
        for validation in (False, True):
            path = os.path.join(folder, "log.csv")
            log = callbacks.CSVLogger(path)
            log.set_model(model())
            log.on_train_begin()
            rows = []
            for epoch in range(3):
                logs = {"loss": 1.0 / (epoch + 1), "accuracy": float(epoch)}
                if validation:
                    logs["val_loss"] = 0.1 * epoch
                rows.append(dict(logs))
                log.on_epoch_end(epoch, logs)
            log.on_train_end()
            with open(path, newline="") as file:
                records.append({"callback": "CSVLogger", "logs": rows, "text": file.read()})
    write("keras_callbacks.json", {}, records)


if __name__ == "__main__":
    main()
