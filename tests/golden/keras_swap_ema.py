"""What SwapEMAWeights shows to evaluation, prediction and other callbacks -> keras_swap_ema.json.

A line is fitted in three epochs. Each record has the loss of validation behind every epoch, the weights that a callback
behind SwapEMAWeights sees at the end of every epoch, the prediction of 1 afterwards, and the weights and averages at last.
"""

import golden_io  # isort: skip
import keras
import numpy as np

keras.config.set_floatx("float64")
X = np.linspace(-1, 1, 12).reshape(12, 1)
Y = 3 * X + 0.5 + 0.1 * np.sin(7 * X)
EPOCHS, BATCH = 3, 4


class Watch(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append([float(w.numpy().reshape(-1)[0]) for w in self.model.trainable_variables])


def run(swap_on_epoch, validates):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.set_weights([np.array([[0.25]]), np.array([0.125])])
    model.compile(keras.optimizers.SGD(0.25, momentum=0.5, use_ema=True, ema_momentum=0.75), "mse")
    swap, watch = keras.callbacks.SwapEMAWeights(swap_on_epoch=swap_on_epoch), Watch()
    validation = {"validation_data": (X[:4], Y[:4])} if validates else {}
    history = model.fit(X, Y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, callbacks=[swap, watch], verbose=0, **validation)
    predicted = model.predict(np.ones((1, 1)), callbacks=[keras.callbacks.SwapEMAWeights()], verbose=0)
    flat = lambda variables: [float(v.numpy().reshape(-1)[0]) for v in variables]
    return {
        "swap_on_epoch": swap_on_epoch,
        "val_loss": history.history.get("val_loss", []),
        "seen": watch.seen,
        "predicted": float(predicted[0, 0]),
        "weights": flat(model.trainable_variables),
        "averages": flat(model.optimizer._model_variables_moving_average),
    }


header = {"x": X.reshape(-1).tolist(), "y": Y.reshape(-1).tolist(), "epochs": EPOCHS, "batch": BATCH}
golden_io.write("keras_swap_ema.json", header, [run(s, v) for s in (False, True) for v in (True, False)])
