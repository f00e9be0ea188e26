"""What real MirroredStrategy prints for small cases on logical CPUs -> tf_strategies.json.

A case is {"case": name, "in": what each replica has, "out": what TensorFlow makes of it}.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import golden_io  # isort: skip
import tensorflow as tf

MAX_REPLICAS = 4
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * MAX_REPLICAS
)
# ReductionToOneDevice: with the default, strategies of two sizes in one process break each other's collectives.
STRATEGIES = {
    n: tf.distribute.MirroredStrategy(
        [f"cpu:{i}" for i in range(n)], cross_device_ops=tf.distribute.ReductionToOneDevice()
    )
    for n in (2, 3, 4)
}
f32 = tf.float32
records = []


def lists(value):
    """Nested lists of what a tensor, a slice or a PerReplica holds."""
    if isinstance(value, tf.distribute.DistributedValues):
        return [lists(each) for each in value.values]
    if isinstance(value, tf.IndexedSlices):
        return {"values": lists(value.values), "indices": lists(value.indices)}
    return value.numpy().tolist() if hasattr(value, "numpy") else value


def attempt(fn):
    """The result of fn, or the type of what it raised."""
    try:
        return lists(fn())
    except Exception as error:  # noqa: BLE001
        return {"raises": type(error).__name__}


def case(name, values, fn, dtype=f32, **more):
    """fn(strategy, PerReplica of values)."""
    strategy = STRATEGIES[len(values)]
    split = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(values[context.replica_id_in_sync_group], dtype)
    )
    with strategy.scope():
        out = attempt(lambda: fn(strategy, split))
    records.append({"case": name, "in": values, **more, "out": out})


def in_replica(fn):
    return lambda strategy, values: strategy.run(fn, (values,))


def replica():
    return tf.distribute.get_replica_context()


# Rule 3: average losses.
for values in ([[1.0, 2.0, 3.0], [4.0]], [[], [4.0]]):
    case("average_loss", values, in_replica(tf.nn.compute_average_loss))
    case("average_loss", values, in_replica(lambda v: tf.nn.compute_average_loss(v, global_batch_size=4)), global_batch_size=4)
case("average_loss_weighted", [[1.0, 2.0], [4.0, 3.0]], in_replica(lambda v: tf.nn.compute_average_loss(v, sample_weight=[1.0, 0.5])), weights=[1.0, 0.5])
case("regularization_loss", [[1.0, 2.0], [1.0, 2.0]], in_replica(tf.nn.scale_regularization_loss))


# Rule 6: one step of SGD on 1 + 2w, summed over replicas.
for n in (2, 3):
    with STRATEGIES[n].scope():
        w = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)

    def step():
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(tf.reshape(1 + 2 * w, [1]), global_batch_size=n)
        w.assign_sub(tape.gradient(loss, w))

    STRATEGIES[n].run(step)
    records.append({"case": "sgd_step", "in": n, "out": lists(w.read_value())})

# Rule 7: a mean over replicas.
with STRATEGIES[2].scope():
    mean = tf.keras.metrics.Mean()
case("mean_metric", [[1.0, 2.0, 3.0], [10.0]], lambda s, v: (s.run(lambda x: mean.update_state(x), (v,)), mean.result())[1])

# Rules 11, 12: reduce.
SUM, MEAN = tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN
FOURS = [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]
MATRICES = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]
for op in (SUM, MEAN):
    for values in (FOURS, MATRICES, [1.5, 3.0, 4.0]):
        case("reduce", values, lambda s, v: s.reduce(op, v, axis=None), op=op.value)
    for values, axis in ((FOURS, 0), (MATRICES, 1), (MATRICES, -1), ([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0]], 0), ([[5.0], []], 0)):
        case("reduce", values, lambda s, v: s.reduce(op, v, axis=axis), op=op.value, axis=axis)
case("reduce", [[], []], lambda s, v: tf.math.is_nan(s.reduce(MEAN, v, axis=0)), op="MEAN_IS_NAN", axis=0)
case("reduce", [[1.0, 2.0], [3.0]], lambda s, v: s.reduce(SUM, v, axis=None), op="SUM")
case("reduce", [1.0, 2.0], lambda s, v: s.reduce(SUM, v, axis=0), op="SUM", axis=0)
case("reduce_integers", [[0, 1], [1, 2]], lambda s, v: s.reduce(MEAN, v, axis=None), tf.int64, op="MEAN")
case("reduce_integers", [[0, 1], [1, 2]], lambda s, v: s.reduce(SUM, v, axis=None), tf.int64, op="SUM")

# Rule 13: reduce of one value for all replicas.
ONE = tf.constant([1.0, 2.0])
case("reduce_same", [[1.0, 2.0]] * 2, lambda s, v: s.reduce(SUM, ONE, axis=None), op="SUM")
case("reduce_same", [[1.0, 2.0]] * 2, lambda s, v: s.reduce(MEAN, ONE, axis=None), op="MEAN")
case("reduce_same", [[1.0, 2.0]] * 2, lambda s, v: s.reduce(SUM, ONE, axis=0), op="SUM", axis=0)
case("reduce_same", [[1.0, 2.0]] * 2, lambda s, v: s.reduce(MEAN, ONE, axis=0), op="MEAN", axis=0)

# Rule 14: gather.
for values, axis in (([[[1.0]], [[2.0], [3.0]]], 0), ([[[1.0, 2.0]], [[3.0, 4.0]]], 1), ([[1.0], []], 0), ([[[1.0]], [[2.0, 3.0]]], 0), ([1.0, 2.0], 0), ([[1.0], [2.0]], 1)):
    case("all_gather", values, in_replica(lambda v: replica().all_gather(v, axis)), axis=axis)
    case("gather", values, lambda s, v: s.gather(v, axis), axis=axis)


# Rule 15: all_reduce and its gradient.
for op in (SUM, MEAN):
    case("all_reduce", FOURS, in_replica(lambda v: replica().all_reduce(op, v)), op=op.value)

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            factor = tf.cast(replica().replica_id_in_sync_group + 1, f32)
            y = factor * replica().all_reduce(op, x * x)
        return tape.gradient(y, x)

    case("all_reduce_gradient", [3.0, 5.0], in_replica(gradient), op=op.value)

# Rule 16: merge_call.
case("merge_call", [3.0, 5.0, 7.0], in_replica(lambda v: replica().merge_call(lambda s, values: s.reduce(SUM, values, axis=None), (v,))))


# Rules 20-22: variables.
AGGREGATIONS = ("NONE", "SUM", "MEAN", "ONLY_FIRST_REPLICA")
for synchronization in ("ON_WRITE", "ON_READ"):
    for aggregation in AGGREGATIONS:
        for method in ("assign", "assign_add", "assign_sub"):

            def write(strategy, values, by_replicas):
                variable = tf.Variable(
                    1.0,
                    trainable=False,
                    synchronization=tf.VariableSynchronization[synchronization],
                    aggregation=tf.VariableAggregation[aggregation],
                )
                if by_replicas:
                    strategy.run(lambda v: getattr(variable, method)(v), (values,))
                else:
                    getattr(variable, method)(8.0)
                local = strategy.run(lambda: tf.identity(variable))
                read = attempt(variable.read_value) if synchronization == "ON_READ" else lists(variable.values[0])
                return [lists(local), read]

            kind = {"synchronization": synchronization, "aggregation": aggregation, "method": method}
            case("write_by_replicas", [3.0, 6.0], lambda s, v: write(s, v, True), **kind)
            case("write_outside", [3.0, 6.0], lambda s, v: write(s, v, False), **kind)
with STRATEGIES[2].scope():
    integer = tf.Variable(1, trainable=False, synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.SUM)
    integer.assign(7)
records.append({"case": "integer_on_read_sum", "in": 7, "out": lists(integer.read_value())})

# Rule 26: packs.
from tensorflow.python.distribute import cross_device_utils  # noqa: E402

for total, packs in ((7, 3), (3, 5), (12, 4), (5, 1)):
    packer = cross_device_utils.__dict__.get("ConcatAndSplitPacker")
    if packer is None:
        from tensorflow.python.distribute import cross_device_ops as module

        packer = module._ConcatAndSplitPacker
    packed = packer(packs).pack([[(tf.zeros([total]), None)]])
    records.append({"case": "packs", "in": [total, packs], "out": [int(tf.size(grad)) for grad, _ in packed[0]]})


# Rule 29: sparse slices.
SLICES = [([[1.0, 2.0]], [1]), ([[3.0, 4.0], [5.0, 6.0]], [1, 3])]
for op in (SUM, MEAN):
    strategy = STRATEGIES[2]
    slices = strategy.experimental_distribute_values_from_function(
        lambda c: tf.IndexedSlices(tf.constant(SLICES[c.replica_id_in_sync_group][0]), tf.constant(SLICES[c.replica_id_in_sync_group][1]), tf.constant([4, 2]))
    )
    out = strategy.reduce(op, slices, axis=None)
    out = {"values": lists(out.values), "indices": lists(out.indices)}
    records.append({"case": "slices", "in": [{"values": v, "indices": i} for v, i in SLICES], "op": op.value, "out": out})

# Rules 36, 39, 40, 42: the rows of each replica in each step. Rule 44: whole batches.
for rows, batch, n, drop in ((6, 4, 2, False), (10, 4, 2, False), (9, 4, 2, False), (5, 4, 2, False), (9, 2, 2, False), (9, 2, 2, True), (6, 2, 2, True), (12, 4, 4, False), (4, 4, 3, False), (10, 10, 4, False), (1, 4, 3, False)):
    for way in ("distribute", "distribute_from_function"):
        dataset = tf.data.Dataset.range(rows).batch(batch, drop_remainder=drop)
        strategy = STRATEGIES[n]
        if way == "distribute":
            distributed = strategy.experimental_distribute_dataset(dataset)
        else:
            distributed = strategy.distribute_datasets_from_function(lambda _: dataset)
        out = [[lists(each) for each in strategy.experimental_local_results(element)] for element in distributed]
        records.append({"case": way, "in": [rows, batch, n], "drop_remainder": drop, "out": out})
for total, n in ((8, 2), (7, 2), (9, 3)):
    context = tf.distribute.InputContext(num_replicas_in_sync=n)
    records.append({"case": "per_replica_batch_size", "in": [total, n], "out": attempt(lambda: context.get_per_replica_batch_size(total))})

golden_io.write("tf_strategies.json", {}, records)
