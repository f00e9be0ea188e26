"""What `strata study --tensorflow PYTHON` starts: one configuration of a study, trained by TensorFlow. A process of a cluster
(TF_CONFIG) with --strategy multi_worker. Worker 0 writes {"images_per_second": of all replicas, "version": ...} to --result."""

import argparse
import json
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("--network", required=True)
parser.add_argument("--strategy", required=True, choices=("one_device", "mirrored", "multi_worker"))
parser.add_argument("--device", required=True, choices=("cpu", "gpu"))
parser.add_argument("--dtype", required=True)
parser.add_argument("--learning-rate", required=True, type=float)
for number in ("--replicas", "--batch", "--image-size", "--classes", "--threads", "--warmup", "--steps"):
    parser.add_argument(number, required=True, type=int)
parser.add_argument("--result", required=True, help="a file")
args = parser.parse_args()

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["TF_USE_LEGACY_KERAS"] = "1"
worker = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("index", 0)
in_process = args.replicas
if args.strategy == "multi_worker":
    in_process = 1
else:
    os.environ.pop("TF_CONFIG", None)
threads = args.threads * in_process
if threads > 0:
    os.environ["OMP_NUM_THREADS"] = str(threads)

import tensorflow as tf  # noqa: E402
import tf_keras as keras  # noqa: E402

NETWORKS = {
    "resnet50": keras.applications.ResNet50,
    "inception3": keras.applications.InceptionV3,
    "vgg16": keras.applications.VGG16,
    "mobilenet_v2": keras.applications.MobileNetV2,
}


def make_strategy():
    if args.device == "cpu":
        if threads > 0:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(in_process)
        logical = [tf.config.LogicalDeviceConfiguration()] * in_process
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], logical)
    if args.strategy == "multi_worker":
        return tf.distribute.MultiWorkerMirroredStrategy()
    names = [f"{args.device.upper()}:{i}" for i in range(args.replicas)]
    if args.strategy == "mirrored":
        return tf.distribute.MirroredStrategy(names)
    return tf.distribute.OneDeviceStrategy(names[0])


strategy = make_strategy()
if strategy.num_replicas_in_sync != args.replicas:
    raise SystemExit(f"TensorFlow has {strategy.num_replicas_in_sync} replicas; expected {args.replicas}")
if args.dtype != "float32":
    keras.mixed_precision.set_global_policy(f"mixed_{args.dtype}")
tf.random.set_seed(1)
side = args.image_size
with strategy.scope():
    net = NETWORKS[args.network](
        weights=None, input_shape=(side, side, 3), classes=args.classes, classifier_activation=None
    )
    optimizer = keras.optimizers.SGD(args.learning_rate)
    optimizer.build(net.trainable_variables)
entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
# Made once, so that a step costs no input.
images = strategy.experimental_distribute_values_from_function(
    lambda _: tf.random.uniform((args.batch, side, side, 3))
)
labels = strategy.experimental_distribute_values_from_function(
    lambda _: tf.random.uniform((args.batch,), 0, args.classes, tf.int64)
)


def replica_step(x, y):
    with tf.GradientTape() as tape:
        losses = entropy(y, tf.cast(net(x, training=True), tf.float32))
        loss = tf.nn.compute_average_loss(losses, global_batch_size=args.batch * args.replicas)
    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables))
    return loss


@tf.function
def step():
    return strategy.reduce("SUM", strategy.run(replica_step, args=(images, labels)), axis=None)


for _ in range(max(args.warmup, 1)):
    loss = step()
loss.numpy()
begin = time.perf_counter()
for _ in range(args.steps):
    loss = step()
loss.numpy()
seconds = time.perf_counter() - begin
if worker == 0:
    with open(args.result, "w") as file:
        rate = args.batch * args.replicas * args.steps / seconds
        json.dump({"images_per_second": rate, "version": tf.__version__}, file)
