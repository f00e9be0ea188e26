"""tf.data's side of suite data (README.md)."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import data_peer

args = data_peer.arguments()

import tensorflow as tf  # after the process is pinned: it sizes its thread pools by that

BATCH = data_peer.BATCH[args.case]


def decode(path, key):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.resize(image, (data_peer.SIZE, data_peer.SIZE))
    return tf.image.stateless_random_flip_left_right(image, seed=tf.stack([key, 1]))


def decode_distorted(path, key):
    contents = tf.io.read_file(path)
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(contents), tf.zeros((1, 0, 4)), seed=tf.stack([key, 2]), min_object_covered=0.1,
        aspect_ratio_range=(0.75, 1.33), area_range=(0.05, 1.0), max_attempts=100, use_image_if_no_bounding_boxes=True)
    window = tf.stack([begin[0], begin[1], size[0], size[1]])
    image = tf.io.decode_and_crop_jpeg(contents, window, channels=3)
    image = tf.image.resize(image, (data_peer.SIZE, data_peer.SIZE))
    return tf.image.stateless_random_flip_left_right(image, seed=tf.stack([key, 1]))


def parse_batch(records):
    features = tf.io.parse_example(
        records, {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)})
    return tf.reshape(tf.io.decode_raw(features["image"], tf.uint8), (-1, 28, 28)), features["label"]


def dataset():
    if args.case == "shuffle-batch":
        x, y = data_peer.read_mnist(args.data)
        return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).repeat().batch(BATCH)
    if args.case in ("jpeg", "distorted-jpeg"):
        files = tf.data.Dataset.from_tensor_slices(data_peer.jpeg_files(args.data)).repeat()
        keyed = tf.data.Dataset.zip((files, tf.data.Dataset.counter(dtype=tf.int64)))
        return keyed.map(decode if args.case == "jpeg" else decode_distorted, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH)
    records = tf.data.TFRecordDataset(os.path.join(args.data, "records")).repeat()
    if args.case == "tfrecord":
        return records.batch(BATCH)
    return records.batch(BATCH).map(parse_batch, num_parallel_calls=tf.data.AUTOTUNE)


batches = iter(dataset().prefetch(2))
data_peer.serve_batches(f"tensorflow {tf.__version__}", batches,
                        lambda batch: int((batch[0] if isinstance(batch, tuple) else batch).shape[0]))
