"""tf-1, tf-mirrored-2 and tf-mw-2: TensorFlow.
--replicas 1: no strategy; 2: MirroredStrategy on two logical CPUs. --workers 2: one of two processes under
MultiWorkerMirroredStrategy, a replica each, as TF_CONFIG says. --mode loop: custom loop, K steps
inside one tf.function call; --mode call: a tf.function call a step, as TensorFlow's guide writes it;
--mode fit: tf-keras fit; --execution: its steps_per_execution. The better mode counts."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import peer  # noqa: E402
from epoch_clock import epoch_clock  # noqa: E402

args = peer.arguments(("--replicas", 1), ("--workers", 1), ("--mode", "loop"), ("--execution", 1))
os.environ["OMP_NUM_THREADS"] = str(args.replicas)

import tensorflow as tf  # noqa: E402
import tf_keras as keras  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(args.replicas)
tf.config.threading.set_inter_op_parallelism_threads(args.replicas)
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * args.replicas)
if args.workers > 1:  # before anything else runs
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
elif args.replicas > 1:
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(args.replicas)])
else:
    strategy = tf.distribute.get_strategy()
tf.random.set_seed(1)

images = args.case == "cnn-loop"
xs, ys = peer.read_pool(args.data, peer.BATCH[args.case])
if images:
    xs = xs.reshape(-1, peer.BATCH[args.case], 28, 28, 1)
pool = len(xs)
replicas = args.replicas * args.workers
global_batch = peer.BATCH[args.case] * replicas


def model():
    layers = keras.layers
    if images:
        return keras.Sequential(
            [
                layers.Input((28, 28, 1)),
                layers.Conv2D(32, 3, activation="relu"),
                layers.Conv2D(64, 3, activation="relu"),
                layers.MaxPooling2D(2),
                layers.Flatten(),
                layers.Dense(128, activation="relu"),
                layers.Dense(10),
            ]
        )
    sizes = peer.MLP_SIZES[args.case]
    return keras.Sequential(
        [layers.Input((sizes[0],))]
        + [layers.Dense(n, activation="relu") for n in sizes[1:-1]]
        + [layers.Dense(sizes[-1])]
    )


def optimizer():
    return keras.optimizers.SGD(**peer.SGD) if images else keras.optimizers.Adam(**peer.ADAM)


if args.mode == "fit":

    with strategy.scope():
        net = model()
        net.compile(
            optimizer=optimizer(),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            steps_per_execution=args.execution,
        )
    flat_x = xs.reshape((-1,) + xs.shape[2:])
    flat_y = ys.reshape(-1)
    data = tf.data.Dataset.from_tensor_slices((flat_x, flat_y)).batch(global_batch, drop_remainder=True)
    data = data.cache().repeat().prefetch(8)

    def steps(count):
        whole = -(-count // args.execution) * args.execution
        clock = epoch_clock(keras)
        history = net.fit(data, steps_per_epoch=whole, epochs=1, verbose=0, callbacks=[clock])
        return history.history["loss"][-1], clock.seconds * count / whole

else:
    with strategy.scope():
        net = model()
        opt = optimizer()
        opt.build(net.trainable_variables)
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    x_pool, y_pool = tf.constant(xs), tf.constant(ys)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(entropy(y, net(x, training=True)), global_batch_size=global_batch)
        grads = tape.gradient(loss, net.trainable_variables)
        opt.apply_gradients(zip(grads, net.trainable_variables))
        return loss

    if args.mode == "call":
        # Batches as distributed values, made once: the loop costs no input pipeline.
        batches = [
            (
                strategy.experimental_distribute_values_from_function(
                    lambda c, i=i: x_pool[(i + c.replica_id_in_sync_group) % pool]
                ),
                strategy.experimental_distribute_values_from_function(
                    lambda c, i=i: y_pool[(i + c.replica_id_in_sync_group) % pool]
                ),
            )
            for i in range(0, pool, replicas)
        ]

        @tf.function
        def one(x, y):
            return strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None)

    elif replicas == 1:

        @tf.function
        def many(start, count):
            loss = tf.constant(0.0)
            for i in tf.range(count):
                at = (start + i) % pool
                loss = replica_step(x_pool[at], y_pool[at])
            return loss

    else:

        @tf.function
        def many(start, count):
            loss = tf.constant(0.0)
            for i in tf.range(count):

                def per_replica(i=i):
                    context = tf.distribute.get_replica_context()
                    at = (start + i * replicas + context.replica_id_in_sync_group) % pool
                    return replica_step(x_pool[at], y_pool[at])

                loss = strategy.reduce("SUM", strategy.run(per_replica), axis=None)
            return loss

    at = 0

    def steps(count):
        global at
        if args.mode == "call":
            for _ in range(count):
                loss = one(*batches[at])
                at = (at + 1) % len(batches)
            return loss.numpy()
        loss = many(tf.constant(at), tf.constant(count))
        at = (at + count * replicas) % pool
        return loss.numpy()


peer.serve(f"tensorflow {tf.__version__}", steps)
