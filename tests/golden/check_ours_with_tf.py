"""Reads with TensorFlow what strata wrote.

    python check_ours_with_tf.py build/release/strata_files_tool
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf


def pattern(size):
    return ((np.arange(size) * 7 + size) % 256).astype(np.uint8).tobytes()


def picture(height, width, channels):
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    return ((y * 3 + x * 2 + c * 40) % 256).astype(np.uint8)


def check(good, what):
    print("ok  " if good else "BAD ", what)
    global failed
    failed |= not good


failed = False
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.argv[1], "write", folder], check=True)
    path = lambda name: os.path.join(folder, name)
    wanted = [pattern(n) for n in (0, 1, 255, 1000, 300000)]
    for name, kind in (("none", ""), ("gzip", "GZIP"), ("zlib", "ZLIB")):
        records = [r.numpy() for r in tf.data.TFRecordDataset(path("records." + name), compression_type=kind)]
        check(records == wanted, f"TFRecords, compression {name}: {len(records)} records")

    examples = [r.numpy() for r in tf.data.TFRecordDataset(path("examples.tfrecord"))]
    parsed = [tf.train.Example.FromString(e).features.feature for e in examples]
    first = parsed[0]
    check(list(first["ints"].int64_list.value) == [1, -2, 2**62], "Example: integers")
    check(list(first["floats"].float_list.value) == [0.5, float(np.float32(-1e30))], "Example: floats")
    check(list(first["strings"].bytes_list.value) == [b"x", b"", pattern(300)], "Example: strings")
    check({k: v.WhichOneof("kind") for k, v in parsed[1].items()}
          == {"ints": "int64_list", "floats": "float_list", "strings": "bytes_list", "none": None}
          and not any(len(getattr(v, v.WhichOneof("kind")).value) for v in parsed[1].values() if v.WhichOneof("kind")),
          "Example: empty lists, and no list")
    check(not parsed[2] and examples[2] == b"\n\0", "Example: empty")
    specs = {"ints": tf.io.VarLenFeature(tf.int64), "strings": tf.io.VarLenFeature(tf.string)}
    batch = tf.io.parse_example(examples, specs)
    check(batch["ints"].values.numpy().tolist() == [1, -2, 2**62] and batch["strings"].dense_shape.numpy().tolist() == [3, 3],
          "Example: tf.io.parse_example")

    for channels in (1, 2, 3, 4):
        image = picture(21, 34, channels)
        with open(path(f"{channels}.png"), "rb") as file:
            check((tf.io.decode_png(file.read()).numpy() == image).all(), f"PNG of {channels} channels")
    for channels in (1, 3):
        image = picture(21, 34, channels)
        for name, chroma, progressive in ((f"{channels}.jpg", True, False), (f"{channels}p.jpg", False, True)):
            with open(path(name), "rb") as file:
                ours = tf.io.decode_jpeg(file.read()).numpy()
            theirs = tf.io.decode_jpeg(tf.io.encode_jpeg(image, chroma_downsampling=chroma, progressive=progressive)).numpy()
            check(ours.shape == image.shape and np.abs(ours.astype(int) - theirs).max() <= 1,
                  f"JPEG of {channels} channels, 4:{'2:0' if chroma else '4:4'}, progressive {progressive}")
sys.exit(failed)
