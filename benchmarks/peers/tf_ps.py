"""tf-ps: TensorFlow's ParameterServerStrategy, for suite ps (README.md). --role ps and worker are TensorFlow's servers,
which answer lines at once; the chief coordinates, and answers with what the worker's steps took.

--mode loop: a closure is a tf.function with a loop of all steps, so that scheduling does not count; call: a closure a
step, as TensorFlow's guide writes it. Calls say it in the operation: push_pull:loop. The better one counts."""

import argparse
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import peer  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--role", required=True, choices=("chief", "worker", "ps"))
parser.add_argument("--task", type=int, required=True)
parser.add_argument("--workers", required=True)
parser.add_argument("--servers", required=True)
parser.add_argument("--mnist", default="")
parser.add_argument("--mode", default="loop")
parser.add_argument("--cpus", default="")
args = parser.parse_args()
if args.cpus:
    os.sched_setaffinity(0, {int(cpu) for cpu in args.cpus.split(",")})

import tensorflow as tf  # noqa: E402

ROWS, WIDTH, ROWS_A_CALL = 2000000, 16, 65536

workers, servers = args.workers.split(","), args.servers.split(",")
cluster = tf.train.ClusterSpec({"worker": workers, "ps": servers})

if args.role != "chief":
    # One thread computes; a few more that wait for other tasks, lest they block one another.
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2 + len(servers))
    server = tf.distribute.Server(cluster, args.role, args.task, protocol="grpc", config=config)
    print("ready tensorflow", flush=True)
    for line in sys.stdin:
        print(f"ok {time.process_time():.9g}" if line.split() == ["cpu"] else "ok 0", flush=True)
    os._exit(0)

tf.config.threading.set_intra_op_parallelism_threads(1)
strategy = tf.distribute.ParameterServerStrategy(
    tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


def variable(name, value):
    """On the next server in turn."""
    with strategy.scope():
        return tf.Variable(value, trainable=False, name=name)


def on_worker(make):
    """An iterator whose every element is what `make()` returns: tensors that stay in the worker's memory."""
    dataset = coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.from_tensors(make()).repeat())
    return iter(dataset)


def repeated(step, state):
    """step(i, inputs) -> tensors like `state`, made on the worker. Returns run(count, inputs)."""

    @tf.function
    def run(count, iterator):
        inputs = next(iterator)
        loop = tf.while_loop(
            lambda i, _: i < count,
            lambda i, _: (i + 1, step(i, inputs)),
            (tf.constant(0), state()),
            parallel_iterations=1,
        )
        return tf.add_n([tf.reshape(part, [-1])[0] for part in loop[1]])

    return run


def push(part, gradient, learning_rate):
    tf.raw_ops.ResourceApplyGradientDescent(var=part.handle, alpha=learning_rate, delta=gradient)


def dense(operation, size):
    """Returns a loop and its inputs."""
    elements = size // 4
    ends = [elements * i // len(servers) for i in range(len(servers) + 1)]
    lengths = [end - begin for begin, end in zip(ends, ends[1:])]
    parts = [variable(f"dense-{size}-{i}", tf.zeros([n])) for i, n in enumerate(lengths)]

    def step(_, gradients):
        if operation == "push_pull":
            for part, gradient in zip(parts, gradients):
                push(part, gradient, 1e-9)
        return tuple(tf.identity(part.read_value()) for part in parts)

    inputs = on_worker(lambda: tuple(tf.ones([n]) for n in lengths))
    return repeated(step, lambda: tuple(tf.zeros([n]) for n in lengths)), inputs


def rows():
    lengths = [-(-(ROWS - i) // len(servers)) for i in range(len(servers))]
    tables, squares = [], []  # all tables first: servers take turns, and each needs one of both
    for i, n in enumerate(lengths):
        tables.append(variable(f"rows-{i}", lambda n=n: tf.random.uniform([n, WIDTH], -0.1, 0.1)))
    for i, n in enumerate(lengths):
        squares.append(variable(f"squares-{i}", lambda n=n: tf.fill([n, WIDTH], 0.1)))

    def update(i, ids, gradients):
        tf.raw_ops.ResourceSparseApplyAdagradV2(
            var=tables[i].handle, accum=squares[i].handle, lr=1e-3, epsilon=1e-7, grad=gradients, indices=ids
        )

    def step(turn, inputs):
        ids = inputs[0][turn % 8]
        if len(servers) == 1:
            values = tf.identity(tf.gather(tables[0], ids))
            update(0, ids, values)
            return (values,)
        server = tf.cast(ids % len(servers), tf.int32)
        local = tf.dynamic_partition(ids // len(servers), server, len(servers))
        places = tf.dynamic_partition(tf.range(ROWS_A_CALL), server, len(servers))
        pulled = [tf.identity(tf.gather(table, mine)) for table, mine in zip(tables, local)]
        values = tf.ensure_shape(tf.dynamic_stitch(places, pulled), [ROWS_A_CALL, WIDTH])
        for i, gradients in enumerate(tf.dynamic_partition(values, server, len(servers))):
            update(i, local[i], gradients)
        return (values,)

    inputs = on_worker(lambda: (tf.random.uniform([8, ROWS_A_CALL], maxval=ROWS, dtype=tf.int64),))
    return repeated(step, lambda: (tf.zeros([ROWS_A_CALL, WIDTH]),)), inputs


def microseconds(run, inputs, mode, repeats):
    one = tf.constant(1)
    if mode == "loop":
        count = tf.constant(repeats)
        coordinator.schedule(run, args=(one, inputs)).fetch()
        start = time.perf_counter()
        coordinator.schedule(run, args=(count, inputs)).fetch()
    else:
        coordinator.schedule(run, args=(one, inputs)).fetch()
        start = time.perf_counter()
        for _ in range(repeats):
            coordinator.schedule(run, args=(one, inputs))
        coordinator.join()
    return 1e6 * (time.perf_counter() - start) / repeats


def serve_calls():
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a framework prints must not mix with the protocol
    loops = {}
    print(f"ready tensorflow {tf.__version__}", file=out)
    for line in sys.stdin:
        words = line.split()
        if words == ["cpu"]:
            print(f"ok {time.process_time():.9g}", file=out)
            continue
        operation, mode = words[0].split(":")
        key = (operation, words[1])
        if key not in loops:
            loops[key] = rows() if operation == "rows" else dense(operation, int(words[1]))
        print(f"ok {microseconds(*loops[key], mode, int(words[2])):.9g}", file=out)
    os._exit(0)


def serve_mnist():
    import tf_keras as keras

    xs, ys = peer.read_pool(args.mnist, peer.BATCH["mlp-loop"])
    sizes = peer.MLP_SIZES["mlp-loop"]
    with strategy.scope():
        net = keras.Sequential(
            [keras.layers.Input((sizes[0],))]
            + [keras.layers.Dense(n, activation="relu") for n in sizes[1:-1]]
            + [keras.layers.Dense(sizes[-1])]
        )
        # Keras's legacy optimizers update on the servers with one fused operation a variable; its later ones would
        # carry their slots over the network.
        opt = keras.optimizers.legacy.Adam(**peer.ADAM)
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def dataset():
        return tf.data.Dataset.from_tensor_slices((xs, ys)).repeat().prefetch(2)

    batches = iter(coordinator.create_per_worker_dataset(dataset))

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(entropy(y, net(x, training=True)))
        grads = tape.gradient(loss, net.trainable_variables)
        opt.apply_gradients(zip(grads, net.trainable_variables))
        return loss

    @tf.function
    def many(count, iterator):
        loss = tf.constant(0.0)
        for _ in tf.range(count):
            x, y = next(iterator)
            loss = strategy.run(replica_step, args=(x, y))
        return loss

    def steps(count):
        each, closures = (count, 1) if args.mode == "loop" else (1, count)
        each = tf.constant(each)
        for _ in range(closures * len(workers)):
            loss = coordinator.schedule(many, args=(each, batches))
        coordinator.join()
        return loss.fetch()

    peer.serve(f"tensorflow {tf.__version__}", steps)


serve_mnist() if args.mnist else serve_calls()
