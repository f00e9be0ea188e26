"""keras-2: Keras 3's fit on TensorFlow, MirroredStrategy on two logical CPUs, with what a user has around it:
a metric, a progress bar (into /dev/null), a callback. --execution: its steps_per_execution."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

import peer  # noqa: E402
from epoch_clock import epoch_clock  # noqa: E402

args = peer.arguments(("--replicas", 2), ("--execution", 50))
os.environ["OMP_NUM_THREADS"] = str(args.replicas)

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(args.replicas)
tf.config.threading.set_inter_op_parallelism_threads(args.replicas)
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * args.replicas)
keras.utils.set_random_seed(1)

images = args.case == "cnn-loop"
xs, ys = peer.read_pool(args.data, peer.BATCH[args.case])
if images:
    xs = xs.reshape(-1, peer.BATCH[args.case], 28, 28, 1)
strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(args.replicas)])

with strategy.scope():
    if images:
        net = keras.Sequential(
            [
                keras.Input((28, 28, 1)),
                layers.Conv2D(32, 3, activation="relu"),
                layers.Conv2D(64, 3, activation="relu"),
                layers.MaxPooling2D(2),
                layers.Flatten(),
                layers.Dense(128, activation="relu"),
                layers.Dense(10),
            ]
        )
        optimizer = keras.optimizers.SGD(**peer.SGD)
    else:
        sizes = peer.MLP_SIZES[args.case]
        hidden = [layers.Dense(n, activation="relu") for n in sizes[1:-1]]
        net = keras.Sequential([keras.Input((sizes[0],)), *hidden, layers.Dense(sizes[-1])])
        optimizer = keras.optimizers.Adam(**peer.ADAM)
    net.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy()],
        steps_per_execution=args.execution,
    )
flat = (xs.reshape((-1,) + xs.shape[2:]), ys.reshape(-1))
data = tf.data.Dataset.from_tensor_slices(flat).batch(peer.BATCH[args.case] * args.replicas, drop_remainder=True)
data = data.cache().repeat().prefetch(8)


def steps(count):
    whole = -(-count // args.execution) * args.execution
    clock = epoch_clock(keras)
    with open(os.devnull, "w") as nowhere:
        terminal, sys.stdout = sys.stdout, nowhere
        history = net.fit(data, steps_per_epoch=whole, epochs=1, callbacks=[clock, keras.callbacks.TerminateOnNaN()])
        sys.stdout = terminal
    return history.history["loss"][-1], clock.seconds * count / whole


peer.serve(f"keras {keras.__version__}, tensorflow {tf.__version__}", steps)
