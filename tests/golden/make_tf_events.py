"""Writes events/ with TensorFlow: an event file with a record of every kind, and what is in it.

Needs tensorboard beside TensorFlow: tf.summary is tensorboard's. The times are ours: TensorFlow's file is read record
by record, the times are replaced, and it is framed anew, so that a second run changes nothing.
"""

import glob
import json
import os
import shutil
import struct
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from tensorboard.compat.proto import event_pb2
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from tensorboard.plugins.hparams import api as hp
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.plugins.hparams import summary as hp_summary

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "events")
rng = np.random.default_rng(5)


def png(height, width):
    y, x, c = np.mgrid[0:height, 0:width, 0:3]
    return ((y * 40 + x * 30 + c * 60) % 256).astype(np.uint8)


normal = rng.normal(size=200).astype(np.float32)
histograms = {  # name: numbers, buckets
    "normal": (normal, 30),
    "doubles": (rng.normal(size=50) * 1e-7, 7),
    "few": (np.float64([1, 2, 2.5, 9]), 4),
    "edges": (np.float64([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) / 10, 10),
    "constant": (np.full(6, 2.5, np.float32), 30),
    "one": (np.float64([-3]), 5),
    "empty": (np.float64([]), 3),
    "no_buckets": (np.float64([1, 2]), 0),
    "one_bucket": (np.float64([1, 2, 4]), 1),
    "large": (np.float64([-1e300, 1e300, 3]), 6),
    "integers": (rng.integers(-50, 50, 300).astype(np.float64), 30),
}
images = [png(5, 4), png(5, 4)[::-1]]

with tempfile.TemporaryDirectory() as folder:
    writer = tf.summary.create_file_writer(folder)
    with writer.as_default():
        for step, x in enumerate([0.5, 0.1, float("nan"), float("inf"), -2e-40, 1e30]):
            tf.summary.scalar("loss", x, step=step)
        tf.summary.scalar("far", 1, step=2**40)
        for step, (name, (numbers, buckets)) in enumerate(histograms.items()):
            tf.summary.histogram("h/" + name, numbers, step=step, buckets=buckets)
        tf.summary.image("picture", np.stack(images), step=5)
        tf.summary.text("words", "a **bold** \u00e4", step=6)
        tf.summary.text("column", ["one", "", "three"], step=7)
        hp.hparams({"lr": 0.1, "optimizer": "adam", "augment": True, "layers": 3, "off": False}, trial_id="trial 1",
                   start_time_secs=1234.5)
        tf.summary.experimental.write_raw_pb(
            hp_summary.session_end_pb(api_pb2.STATUS_SUCCESS, end_time_secs=2345.5).SerializeToString(), step=0)
        model = tf.summary.experimental.summary_scope  # as keras.callbacks.TensorBoard writes a model
        metadata = tf.compat.v1.SummaryMetadata()
        metadata.plugin_data.plugin_name = "graph_keras_model"
        metadata.plugin_data.content = b"1"
        with model("keras") as (tag, _):
            tf.summary.write(tag=tag, tensor='{"class_name": "Sequential"}', step=0, metadata=metadata)

        @tf.function
        def f(x):
            return tf.nn.relu(x) + 1

        tf.summary.graph(f.get_concrete_function(tf.TensorSpec([2], tf.float32)).graph)
        # Kinds of numbers that only a reader meets.
        for dtype in (tf.float16, tf.bfloat16, tf.int32, tf.int64, tf.uint8, tf.bool):
            tf.summary.write(tag="numbers/" + dtype.name, tensor=tf.cast([[0, 1, 3]], dtype), step=8)
    writer.close()
    (path,) = glob.glob(os.path.join(folder, "*"))
    data = open(path, "rb").read()

records, at = [], 0
while at < len(data):
    (length,) = struct.unpack_from("<Q", data, at)
    records.append(data[at + 12:at + 12 + length])
    at += 16 + length

shutil.rmtree(FOLDER, ignore_errors=True)
os.makedirs(FOLDER)
expected = {"tensorflow": tf.__version__, "events": [],
            "histograms": [{"name": name, "numbers": numbers.tolist(), "buckets": buckets, "float32": numbers.dtype == np.float32}
                           for name, (numbers, buckets) in histograms.items()],
            "images": []}


def number(x):
    x = float(x)
    return x if np.isfinite(x) else repr(x)


with open(os.path.join(FOLDER, "events.out.tfevents.0000001000.tensorflow.1.0.v2"), "wb") as out:
    for index, record in enumerate(records):
        event = event_pb2.Event.FromString(record)
        assert event.SerializeToString(deterministic=True) == record
        for value in event.summary.value:  # a map has no order of its own
            plugin = value.metadata.plugin_data
            if plugin.plugin_name == "hparams":
                plugin.content = plugin_data_pb2.HParamsPluginData.FromString(plugin.content).SerializeToString(deterministic=True)
        event.wall_time = 1000 if index == 0 else 1000.25 + index
        record = event.SerializeToString(deterministic=True)
        header = struct.pack("<Q", len(record))
        out.write(header + struct.pack("<I", masked_crc32c(header)) + record + struct.pack("<I", masked_crc32c(record)))
        kept = {"wall_time": event.wall_time, "step": event.step, "file_version": event.file_version,
                "graph_bytes": len(event.graph_def), "values": []}
        for value in event.summary.value:
            array = tf.make_ndarray(value.tensor)
            text = array.dtype == object or array.dtype.kind in "SU"
            kept["values"].append({
                "tag": value.tag, "plugin": value.metadata.plugin_data.plugin_name,
                "content": value.metadata.plugin_data.content.decode("latin-1"),
                "dtype": "string" if text else array.dtype.name, "shape": list(array.shape),
                "numbers": [] if text else [number(x) for x in array.ravel()],
                "strings": [x.decode("latin-1") for x in array.ravel()] if text else []})
            if value.tag == "picture":
                expected["images"] = [x.decode("latin-1") for x in array.ravel()[2:]]
        expected["events"].append(kept)

with open(os.path.join(FOLDER, "expected.json"), "w") as out:
    json.dump(expected, out, indent=1)
    out.write("\n")
print(len(records), "records")
