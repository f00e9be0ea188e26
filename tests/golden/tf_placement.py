"""Where TensorFlow puts variables on parameter servers -> tf_placement.json.

A case is {"kind": ..., inputs, "out": ...}; {"raises": type} stands for an error. "differs" says where strata does
something else on purpose, and why; the test then checks that it does.

The greedy strategy was in tf.contrib, which TensorFlow 2 left behind, and tf_cnn_benchmarks' setter is in no package:
their rules are written out below (numpy's argmin, as theirs); all else is TensorFlow's.
"""

import contextlib
import os
import socket

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import golden_io  # isort: skip
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
partitioners = tf.distribute.experimental.partitioners
records = []


class Greedy:
    """Rule 65."""

    def __init__(self, num_tasks, load):
        self.loads = np.zeros(num_tasks)
        self.load = load

    def __call__(self, op):
        task = int(np.argmin(self.loads))
        self.loads[task] += self.load(op)
        return task


def shape_of(op):
    return tf.TensorShape(op.get_attr("shape"))


def bytes_of(op):
    return shape_of(op).num_elements() * op.get_attr("dtype").size


STRATEGIES = {
    "greedy": lambda n: Greedy(n, bytes_of),
    "elements": lambda n: Greedy(n, lambda op: shape_of(op).num_elements()),
    "uniform": lambda n: Greedy(n, lambda op: 1),
}


def variable(shape, device="", dtype="float32"):
    return {"shape": list(shape), "dtype": dtype, "device": device}


def asking_for(device):
    return v1.device(device) if device else contextlib.nullcontext()


def setter(variables, computed=("", "/gpu:0"), strategy=None, differs=None, **options):
    """Rules 64 to 66: the devices of variables, and of other operations that ask for `computed`."""
    inputs = dict(options)
    if strategy:
        tasks = options["ps_tasks"] if "ps_tasks" in options else len(options["cluster"]["ps"])
        options["ps_strategy"] = STRATEGIES[strategy](tasks)
    if "cluster" in options:
        options["cluster"] = tf.train.ClusterSpec(options["cluster"])
    out = {"variables": [], "computed": []}
    with tf.Graph().as_default(), v1.device(v1.train.replica_device_setter(**options)):
        for each in variables:
            with asking_for(each["device"]):
                handle = tf.raw_ops.VarHandleOp(shape=each["shape"], dtype=each["dtype"])
            out["variables"].append(handle.device)
        for device in computed:
            with asking_for(device):
                out["computed"].append(tf.constant(1.0).device)
    records.append({"kind": "setter", "options": {**inputs, "strategy": strategy}, "variables": variables,
                    "computed": list(computed), "out": out, **({"differs": differs} if differs else {})})


def setters():
    spec = {"ps": ["ps0:1", "ps1:1"], "worker": ["w0:1", "w1:1", "w2:1"]}
    reference = [variable(s) for s in ([2, 2], [2, 1], [2, 2], [1, 3])]
    mixed = [variable([4]), variable([4], "/gpu:0"), variable([4], "/job:worker/task:1"), variable([4], "/job:ps"),
             variable([4], "/job:ps/task:0"), variable([4], "/cpu:1"), variable([4], "/job:ps/gpu:2"), variable([4])]
    for strategy in (None, "greedy", "elements", "uniform"):
        setter(reference, strategy=strategy, cluster=spec)
        setter(mixed, strategy=strategy, cluster=spec)
        setter(mixed, strategy=strategy, ps_tasks=3)
        setter(mixed, strategy=strategy, ps_tasks=3, merge_devices=False)
        setter([variable([])] + reference, strategy=strategy, ps_tasks=2)
        # The CSCS slides' network.
        setter([variable(s) for s in ([784, 100], [100], [100, 10], [10])], strategy=strategy, ps_tasks=3)
        setter([variable([10], "", d) for d in ("float64", "float32", "float16", "int64", "int8", "bfloat16")] * 2,
               strategy=strategy, ps_tasks=3)
    for worker_device in ("/job:worker/task:2", "/job:worker/task:1/gpu:1", "/job:worker/cpu:0", ""):
        for ps_device in ("/job:ps", "/job:ps/cpu:0", "/cpu:0", "", "/job:servers", "/job:ps/task:1"):
            setter(mixed, computed=("", "/gpu:0", "/job:ps/task:1", "/cpu:1"), worker_device=worker_device,
                   ps_device=ps_device, ps_tasks=2)
            setter(mixed, worker_device=worker_device, ps_device=ps_device, cluster={**spec, "servers": ["s:1"]})
    setter(mixed, ps_tasks=0)
    setter(mixed, cluster={"worker": ["w0:1"]})
    setter([variable([4], "/gpu:*")], computed=("/gpu:*",), ps_device="/job:ps/cpu:3", worker_device="/job:worker/cpu:3",
           ps_tasks=1, differs="an index goes with its type: any GPU is not GPU 3 because the default is CPU 3")
    # Random networks.
    rng = np.random.default_rng(5)
    for tasks in (2, 3, 7):
        shapes = [[int(n) for n in rng.integers(1, 20, size=rng.integers(0, 4))] for _ in range(30)]
        for strategy in (None, "greedy", "elements"):
            setter([variable(s, "", str(rng.choice(["float32", "float64", "int8"]))) for s in shapes], strategy=strategy,
                   ps_tasks=tasks)


VARIABLES = [variable(shape, "", dtype) for dtype in ("float32", "float64", "float16", "int8")
             for shape in ([1], [2], [3], [4, 3], [5, 7], [10], [13], [13, 2, 2], [100, 64], [65536], [65537], [65536, 1],
                           [1, 65536], [65537, 4], [1000000, 16])]


def partition(name, variables=VARIABLES, differs=None, **args):
    """Rule 68: parts along axis 0."""

    def parts(each):
        out = partitioner(tf.TensorShape(each["shape"]), tf.as_dtype(each["dtype"]))
        assert all(n == 1 for n in out[1:])
        return out[0]

    try:
        partitioner = getattr(partitioners, name + "Partitioner")(**args)
        out = [parts(each) for each in variables]
    except ValueError as error:
        out = {"raises": type(error).__name__}
    records.append({"kind": "partition", "partitioner": name, "args": args, "variables": variables, "out": out,
                    **({"differs": differs} if differs else {})})


def partitions():
    for n in (1, 2, 3, 4, 5, 100):
        partition("FixedShards", num_shards=n)
    partition("MinSize")
    for size in (1, 6, 20, 1000, 256 << 10):
        for most in (1, 2, 5, 1000):
            partition("MinSize", min_shard_bytes=size, max_shards=most)
        partition("MaxSize", max_shard_bytes=size)
        for most in (1, 3, 10):
            partition("MaxSize", max_shard_bytes=size, max_shards=most)
    one = [variable([4])]
    for bad in (0, -1):
        partition("FixedShards", one, num_shards=bad,
                  differs="refused when it is made, not when the first variable is created")
        partition("MinSize", one, min_shard_bytes=bad)
        partition("MinSize", one, max_shards=bad)
        partition("MaxSize", one, max_shard_bytes=bad)
    partition("MaxSize", one, max_shard_bytes=4, max_shards=-1)
    partition("MaxSize", one, max_shard_bytes=4, max_shards=0, differs="TensorFlow takes 0 for no limit")


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % probe.getsockname()[1]


def strategies():
    """Rule 67: the parts that ParameterServerStrategy makes, on three servers of this process."""
    spec = tf.train.ClusterSpec({"ps": [free_address() for _ in range(3)], "worker": [free_address()]})
    servers = [tf.distribute.Server(spec, job, i) for job, n in (("ps", 3), ("worker", 1)) for i in range(n)]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
    shapes = ([13], [10, 2], [], [1, 5], [2], [4, 3], [7, 1, 2], [1], [5])
    for name, args in ((None, {}), ("FixedShards", {"num_shards": 5}), ("FixedShards", {"num_shards": 4}),
                       ("FixedShards", {"num_shards": 2}), ("MinSize", {"min_shard_bytes": 6, "max_shards": 3}),
                       ("MaxSize", {"max_shard_bytes": 20}),
                       ("MaxSize", {"max_shard_bytes": 8, "max_shards": 4})):
        partitioner = getattr(partitioners, name + "Partitioner")(**args) if name else None
        strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
        variables = []
        with strategy.scope():
            for i, shape in enumerate(shapes):
                made = tf.Variable(np.zeros(shape, np.float32), name=f"v{i}")
                parts = made.variables if hasattr(made, "variables") else [made]
                variables.append([{"name": p.name.split(":")[0], "shape": p.shape.as_list(),
                                   "task": tf.DeviceSpec.from_string(p.device).task} for p in parts])
        records.append({"kind": "strategy", "partitioner": name, "args": args, "servers": 3, "shapes": shapes,
                        "out": variables})
    del servers


def inception():
    model = tf.keras.applications.InceptionV3(weights=None)
    records.append({"kind": "inception_v3", "shapes": [list(w.shape) for w in model.weights]})


setters()
partitions()
inception()
strategies()
golden_io.write("tf_placement.json", {}, records)
