"""tf-1 and tf-mirrored-2 of the models of suite step: Keras 3 on TensorFlow.
--replicas 2: MirroredStrategy on two logical CPUs. --mode fit: Keras's fit; call: a custom loop, a tf.function call
a step, as TensorFlow's guide writes it. --xla 1: fit compiled by XLA; --bf16 1: policy mixed_bfloat16."""

import math
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

import peer  # noqa: E402
from epoch_clock import epoch_clock  # noqa: E402

args = peer.arguments(("--replicas", 1), ("--mode", "fit"), ("--xla", 0), ("--bf16", 0), cases=peer.MODELS)
os.environ["OMP_NUM_THREADS"] = str(args.replicas)

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

import keras_models  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(args.replicas)
tf.config.threading.set_inter_op_parallelism_threads(args.replicas)
if args.replicas > 1:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * args.replicas)
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(args.replicas)])
else:
    strategy = tf.distribute.get_strategy()
keras.utils.set_random_seed(1)
if args.bf16:
    keras.config.set_dtype_policy("mixed_bfloat16")

xs, ys = peer.read_rows(args.case, args.data)
pool, batch = xs.shape[:2]
global_batch = batch * args.replicas
tokens = xs.shape[2]

with strategy.scope():
    net = keras_models.make(args.case, tokens)
    if args.case == "resnet20":
        optimizer = keras.optimizers.SGD(**peer.SGD)
    else:
        optimizer = keras.optimizers.Adam(**peer.ADAM)
peer.say_size(sum(math.prod(w.shape) for w in net.trainable_variables))

if args.mode == "fit":
    with strategy.scope():
        net.compile(
            optimizer=optimizer,
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=args.xla == 1,
        )
    flat = (xs.reshape((-1,) + xs.shape[2:]), ys.reshape((-1,) + ys.shape[2:]))
    data = tf.data.Dataset.from_tensor_slices(flat).batch(global_batch, drop_remainder=True)
    data = data.cache().repeat().prefetch(2)

    def steps(count):
        clock = epoch_clock(keras)
        history = net.fit(data, steps_per_epoch=count, epochs=1, verbose=0, callbacks=[clock])
        return history.history["loss"][-1], clock.seconds

else:
    with strategy.scope():
        optimizer.build(net.trainable_variables)
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
    x_pool, y_pool = tf.constant(xs), tf.constant(ys)
    rows = global_batch * (ys[0, 0].size if ys.ndim > 2 else 1)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(entropy(y, net(x, training=True))) / rows
        grads = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(grads, net.trainable_variables))
        return loss

    # Batches as distributed values, made once: the loop costs no input pipeline.
    def distributed(values, i):
        return strategy.experimental_distribute_values_from_function(
            lambda c: values[(i + c.replica_id_in_sync_group) % pool]
        )

    batches = [(distributed(x_pool, i), distributed(y_pool, i)) for i in range(0, pool, args.replicas)]

    @tf.function
    def one(x, y):
        return strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None)

    at = 0

    def steps(count):
        global at
        for _ in range(count):
            loss = one(*batches[at])
            at = (at + 1) % len(batches)
        return loss.numpy()


peer.serve(f"keras {keras.__version__}, tensorflow {tf.__version__}", steps)
