"""Writes tf_data.json: what tf.data gives for small datasets, where its rules are subtle."""

import tensorflow as tf

import golden_io

D = tf.data.Dataset


def lists(dataset):
    return [[x.tolist() for x in element] if isinstance(element, tuple) else element.tolist()
            for element in dataset.as_numpy_iterator()]


def ragged(lengths):
    """Element i: lengths[i] times the value i + 1."""
    def make():
        for i, n in enumerate(lengths):
            yield [i + 1] * n
    return D.from_generator(make, output_signature=tf.TensorSpec([None], tf.int64))


def cases():
    for n in (0, 1, 7, 10):
        for size, shift, stride in ((1, 0, 1), (3, 0, 1), (3, 1, 1), (3, 2, 1), (3, 5, 1), (2, 1, 3), (3, 2, 2), (4, 7, 2)):
            for drop in (False, True):
                windows = D.range(n).window(size, shift or None, stride, drop)
                yield {"case": "window", "n": n, "size": size, "shift": shift, "stride": stride, "drop": drop,
                       "cardinality": int(windows.cardinality()),
                       "out": [lists(w) for w in windows]}

    for counts in ([3, 2, 4, 1, 0, 5], [6, 6, 6, 6, 6], [0, 0, 3], [], [1] * 9, [2, 0, 0, 7, 1, 3, 3]):
        for cycle, block in ((1, 1), (2, 1), (2, 4), (3, 2), (4, 1), (8, 3)):
            source = D.from_tensor_slices((tf.range(len(counts), dtype=tf.int64), tf.constant(counts, tf.int64)))
            fn = lambda i, n: D.range(100 * i, 100 * i + n)
            out = lists(source.interleave(fn, cycle_length=cycle, block_length=block))
            parallel = lists(source.interleave(fn, cycle_length=cycle, block_length=block, num_parallel_calls=min(2, cycle), deterministic=True))
            assert out == parallel
            yield {"case": "interleave", "counts": counts, "cycle": cycle, "block": block, "out": out}

    for lengths in ([1, 3, 2, 0, 4], [2, 2, 2], [5], []):
        for batch in (1, 2, 3):
            for shape in (None, [-1], [5], [6]):
                for drop in (False, True):
                    out = ragged(lengths).padded_batch(
                        batch, padded_shapes=None if shape is None else [None if s < 0 else s for s in shape],
                        padding_values=tf.constant(-7, tf.int64), drop_remainder=drop)
                    yield {"case": "padded_batch", "lengths": lengths, "batch": batch, "shape": shape or [], "drop": drop,
                           "out": lists(out)}

    lengths = [1, 5, 3, 7, 2, 9, 4, 4, 6, 1, 12, 3, 5, 8, 2, 6]
    for boundaries, sizes in (([4, 8], [3, 2, 2]), ([3], [2, 4]), ([2, 5, 7], [1, 2, 3, 4])):
        for boundary in (False, True):
            for drop in (False, True):
                kept = [n for n in lengths if not boundary or n < boundaries[-1]]
                out = ragged(kept).bucket_by_sequence_length(
                    lambda x: tf.size(x), boundaries, sizes, padding_values=tf.constant(0, tf.int64),
                    pad_to_bucket_boundary=boundary, drop_remainder=drop)
                yield {"case": "bucket", "lengths": kept, "boundaries": boundaries, "sizes": sizes, "boundary": boundary,
                       "drop": drop, "out": lists(out)}

    for n, mod, size in ((10, 3, 2), (10, 3, 5), (7, 1, 3), (0, 2, 2), (12, 5, 1)):
        out = D.range(n).group_by_window(lambda x: mod - 1 - x % mod, lambda key, window: window.batch(2), window_size=size)
        yield {"case": "group_by_window", "n": n, "mod": mod, "size": size, "out": lists(out)}

    for sizes in ([3, 3, 3], [1, 4, 2], [0, 2, 5]):
        for choices in ([0, 1, 2] * 3, [2, 2, 1, 0, 0, 1, 1, 1, 2], [1] * 6):
            for stop in (False, True):
                datasets = [D.range(100 * i, 100 * i + n) for i, n in enumerate(sizes)]
                out = D.choose_from_datasets(datasets, D.from_tensor_slices(tf.constant(choices, tf.int64)), stop)
                yield {"case": "choose", "sizes": sizes, "choices": choices, "stop": stop, "out": lists(out)}

    for n, batch in ((5, 4), (12, 4), (10, 3), (7, 7), (0, 2)):
        for size in (1, 2, 3, 5, 6):
            for drop in (False, True):
                out = D.range(n).batch(batch).rebatch(size, drop_remainder=drop)
                yield {"case": "rebatch", "n": n, "batch": batch, "size": size, "drop": drop, "out": lists(out)}
    for n, batch, sizes in ((8, 4, [1, 1, 1, 1, 0]), (6, 4, [1, 1, 1, 1, 0]), (8, 4, [0, 8, 0]), (4, 4, [2, 0, 0]), (4, 2, [4, 0, 0]),
                            (5, 2, [0, 3])):
        for drop in (False, True):
            out = D.range(n).batch(batch).rebatch(sizes, drop_remainder=drop)
            yield {"case": "rebatch in turns", "n": n, "batch": batch, "sizes": sizes, "drop": drop, "out": lists(out)}

    base = D.range(10)
    endless = D.range(3).repeat()
    filtered = base.filter(lambda x: x > 3)
    for name, dataset in (
        ("range", base), ("empty", D.range(0)), ("endless", endless), ("filter", filtered),
        ("concatenate", base.concatenate(D.range(5))), ("concatenate_endless", base.concatenate(endless)),
        ("concatenate_filter", base.concatenate(filtered)),
        ("flat_map", base.flat_map(lambda x: D.range(2))),
        ("interleave", base.interleave(lambda x: D.range(2), cycle_length=2)),
        ("enumerate", base.enumerate()), ("take_while", base.take_while(lambda x: x < 5)),
        ("padded_batch", base.padded_batch(3)), ("padded_batch_drop", base.padded_batch(3, drop_remainder=True)),
        ("cache", base.cache()), ("prefetch", base.prefetch(2)), ("ignore_errors", base.ignore_errors()),
    ):
        yield {"case": "cardinality", "name": name, "out": int(dataset.cardinality())}


golden_io.write("tf_data.json", {"from": "tf.data"}, list(cases()))
