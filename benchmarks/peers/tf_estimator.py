"""tf-1 of suite estimator: TensorFlow 2.15's Estimator, the models of benchmarks/suites/estimator_worker.cc. A call of train runs the
steps that the harness asks for, by a hook."""

import os
import shutil
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import peer  # noqa: E402

args = peer.arguments(cases=("mnist", "wide-deep"))
os.environ["OMP_NUM_THREADS"] = "1"

import tensorflow as tf  # noqa: E402

tf.get_logger().setLevel("ERROR")
HASHED_ROWS = 10_000_000
TABLE_BATCH = 128
WARM_UP = 3
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # what a framework prints must not mix with the protocol


class ServeHook(tf.estimator.SessionRunHook):
    left = WARM_UP
    start = None

    def before_run(self, run_context):
        # The loss is in this collection as any hook finds it.
        return tf.estimator.SessionRunArgs(tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[:1] if self.left == 1 else [])

    def after_run(self, run_context, run_values):
        self.left -= 1
        if self.left > 0:
            return
        if self.start is None:
            print(f"ready tensorflow {tf.__version__}", file=answers)
        else:
            loss = float(run_values.results[0].sum()) if run_values.results else 0.0
            print(f"ok {time.perf_counter() - self.start:.9f} {loss:.6f}", file=answers)
        words = sys.stdin.readline().split()
        if len(words) != 2 or words[0] != "run":
            answers.flush()
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)
        self.left = int(words[1])
        self.start = time.perf_counter()


def mnist_model(features, labels, mode):
    x = tf.compat.v1.layers.dense(features, 256, tf.nn.relu)
    x = tf.compat.v1.layers.dense(x, 256, tf.nn.relu)
    logits = tf.compat.v1.layers.dense(x, 10)
    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = tf.compat.v1.train.AdamOptimizer(1e-3).minimize(loss, tf.compat.v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def mnist_input():
    x, y = peer.read_pool(args.data)
    rows = tf.data.Dataset.from_tensor_slices((x.reshape(-1, x.shape[-1]), y.reshape(-1)))
    return rows.batch(x.shape[1], drop_remainder=True).cache().repeat().prefetch(2)


def table_input():
    names = ("age", "hours", "education", "occupation", "user")
    rows = tf.data.experimental.CsvDataset(args.data, [tf.float32, tf.float32, tf.string, tf.string, tf.string, tf.int64], header=True)
    rows = rows.map(lambda *row: (dict(zip(names, row)), row[-1]))
    return rows.batch(TABLE_BATCH, drop_remainder=True).cache().repeat().prefetch(2)


folder = tempfile.mkdtemp(prefix="strata_bench_tf_estimator_")
config = tf.estimator.RunConfig(
    folder,
    tf_random_seed=1,
    save_checkpoints_steps=None,
    save_checkpoints_secs=None,
    session_config=tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1),
)
if args.case == "mnist":
    model, input_fn = tf.estimator.Estimator(mnist_model, config=config), mnist_input
else:
    fc = tf.feature_column
    user = fc.categorical_column_with_hash_bucket("user", HASHED_ROWS)
    education = fc.categorical_column_with_hash_bucket("education", 100)
    model = tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=[user, fc.crossed_column(["education", "occupation", "user"], HASHED_ROWS)],
        dnn_feature_columns=[fc.numeric_column("age"), fc.numeric_column("hours"), fc.indicator_column(education), fc.embedding_column(user, 8)],
        dnn_hidden_units=[100, 50],
        config=config,
    )
    input_fn = table_input
model.train(input_fn, hooks=[ServeHook()])
