#!/usr/bin/env python3
"""Writes tf_image_distortion.json with TensorFlow: distorted bounding boxes by seed, colours, bicubic sizes, windows of JPEGs.

    python3 tf_image_distortion.py
"""
import hashlib
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
out = {"tensorflow": tf.__version__}

# ---- boxes: the operator's generator is Philox with key `seed` and counter (0, seed2) ----
rng = np.random.default_rng(5)
boxes = []
for case in range(120):
    height, width = (int(n) for n in rng.integers(1, 600, 2))
    objects = []
    for _ in range(int(rng.integers(0, 3))):
        top, bottom = sorted(rng.uniform(0, 1, 2))
        left, right = sorted(rng.uniform(0, 1, 2))
        objects.append([float(np.float32(n)) for n in (top, left, bottom, right)])
    options = [{}, {"min_object_covered": 0.5}, {"min_object_covered": 0.0, "area": [0.3, 0.4]},
               {"aspect_ratio": [0.2, 5.0]}, {"area": [0.9, 1.0], "aspect_ratio": [1.0, 1.0], "max_attempts": 3}][case % 5]
    seed, seed2 = (int(n) for n in rng.integers(1, 2**31, 2))
    begin, size, _ = tf.raw_ops.SampleDistortedBoundingBoxV2(
        image_size=tf.constant([height, width, 3], tf.int32),
        bounding_boxes=tf.constant(np.array(objects, np.float32).reshape(1, -1, 4)),
        min_object_covered=options.get("min_object_covered", 0.1), seed=seed, seed2=seed2,
        aspect_ratio_range=options.get("aspect_ratio", [0.75, 1.33]), area_range=options.get("area", [0.05, 1.0]),
        max_attempts=options.get("max_attempts", 100), use_image_if_no_bounding_boxes=True)
    window = [int(begin[0]), int(begin[1]), int(size[0]), int(size[1])]
    window = [n if n >= 0 else (height, width)[i - 2] for i, n in enumerate(window)]  # -1: all of it
    boxes.append({"size": [height, width], "objects": objects, "options": options, "seed": [seed, seed2], "window": window})
out["boxes"] = boxes

# ---- colours ----
floats = rng.uniform(0, 1, (5, 7, 3)).astype(np.float32)
floats[0, 0] = 0
floats[0, 1] = 0.25  # grey: no hue
bytes_ = rng.integers(0, 256, (5, 7, 3)).astype(np.uint8)
colours = []
for image in (floats, bytes_):
    for name, amounts in (("brightness", (-0.1, 0.25)), ("contrast", (0.4, 1.7)), ("saturation", (0.0, 0.5, 1.6)),
                          ("hue", (-0.2, 0.13, 0.9))):
        for amount in amounts:
            result = getattr(tf.image, "adjust_" + name)(image, amount).numpy()
            colours.append({"dtype": image.dtype.name, "what": name, "amount": amount,
                            "result": [round(float(n), 7) for n in result.ravel()]})
out["colours"] = {"floats": [float(n) for n in floats.ravel()], "bytes": [int(n) for n in bytes_.ravel()],
                  "shape": list(floats.shape), "cases": colours}

# ---- bicubic ----
source = rng.integers(0, 256, (9, 7, 3)).astype(np.uint8)
cases = []
for height, width in ((9, 7), (18, 21), (4, 3), (13, 5), (1, 1)):
    for antialias in (False, True):
        result = tf.image.resize(source, (height, width), method="bicubic", antialias=antialias).numpy()
        cases.append({"size": [height, width], "antialias": antialias, "result": [round(float(n), 3) for n in result.ravel()]})
out["bicubic"] = {"source": [int(n) for n in source.ravel()], "shape": list(source.shape), "cases": cases}

# ---- windows of JPEGs ----
windows = []
for name in ("rgb_420.jpg", "rgb_444.jpg", "chroma_422.jpg", "progressive.jpg", "grey.jpg", "restarts.jpg", "wide.jpg"):
    data = open(os.path.join(HERE, "files", name), "rb").read()
    height, width, _ = tf.io.decode_jpeg(data).shape
    for _ in range(6):
        top, left = int(rng.integers(0, height)), int(rng.integers(0, width))
        tall, wide = int(rng.integers(1, height - top + 1)), int(rng.integers(1, width - left + 1))
        pixels = tf.io.decode_and_crop_jpeg(data, [top, left, tall, wide]).numpy()
        windows.append({"file": name, "window": [top, left, tall, wide], "sha256": hashlib.sha256(pixels.tobytes()).hexdigest(),
                        "as_whole": bool(np.array_equal(pixels, tf.io.decode_jpeg(data).numpy()[top:top + tall, left:left + wide]))})
out["windows"] = windows
with open(os.path.join(HERE, "tf_image_distortion.json"), "w") as file:
    json.dump(out, file, separators=(",", ":"))
    file.write("\n")
print(len(boxes), "boxes,", len(colours), "colours,", len(cases), "sizes,", len(windows), "windows,",
      sum(each["as_whole"] for each in windows), "of them as in the whole image")
