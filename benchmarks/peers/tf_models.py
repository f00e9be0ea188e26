"""tf-1 of suite models: keras.applications.ResNet50 on TensorFlow, one core.
--mode loop: a tf.function call a step, tf-keras (whose BatchNormalization is TensorFlow's fused one); jit: the same
compiled by XLA; fit: Keras 3's fit."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["OMP_NUM_THREADS"] = "1"

import peer  # noqa: E402

args = peer.arguments(("--mode", "loop"), cases=("resnet50",))

import tensorflow as tf  # noqa: E402

if args.mode in ("loop", "jit"):
    import tf_keras as keras  # noqa: E402
else:
    import keras  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
keras.utils.set_random_seed(1)

xs, ys = peer.read_pool(args.data)
batch = xs.shape[1]
side = round((xs.shape[2] / 3) ** 0.5)
xs = xs.reshape(len(xs), batch, side, side, 3)
net = keras.applications.ResNet50(weights=None, input_shape=(side, side, 3), classifier_activation=None)
optimizer = keras.optimizers.SGD(**peer.SGD)
entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

if args.mode == "fit":
    net.compile(optimizer=optimizer, loss=entropy, jit_compile=False)
    flat = (xs.reshape((-1,) + xs.shape[2:]), ys.reshape(-1))
    data = tf.data.Dataset.from_tensor_slices(flat).batch(batch, drop_remainder=True).cache().repeat().prefetch(2)

    def steps(count):
        return net.fit(data, steps_per_epoch=count, epochs=1, verbose=0).history["loss"][-1]

else:
    optimizer.build(net.trainable_variables)
    batches = [(tf.constant(x), tf.constant(y)) for x, y in zip(xs, ys)]
    at = 0

    @tf.function(jit_compile=args.mode == "jit")
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = entropy(y, net(x, training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
        return loss

    def steps(count):
        global at
        for _ in range(count):
            loss = step(*batches[at])
            at = (at + 1) % len(batches)
        return loss


peer.serve(f"tensorflow {tf.__version__}, keras {keras.__version__}, {args.mode}", steps)
