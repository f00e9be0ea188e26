"""Layers of texts and categories of real Keras -> keras_texts.json: configs, vocabularies that were learned, and what the layers give.

Texts are lists, nested as the tensors are. The C++ side is tests/keras/text_layers_test.cc; models as files are keras_texts_*.keras.
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import golden_io  # isort: skip
import keras
import numpy as np
import tensorflow as tf
from keras import layers as L

records = []


def nested(value):
    value = np.asarray(value)
    if value.dtype == object:
        return np.vectorize(lambda b: b.decode("utf-8"), otypes=[object])(value).tolist() if value.size else value.tolist()
    return golden_io.plain(value.astype("float32") if value.dtype.kind == "f" else value)


def case(name, layer, *inputs, adapt=None, batches=None):
    """adapt: what `adapt` is given at once; batches: a list of them for a dataset."""
    record = {"name": name, "untrained": keras.saving.serialize_keras_object(layer)}
    if adapt is not None:
        record["adapt"] = adapt
        layer.adapt(tf.constant(adapt))
    if batches is not None:
        record["batches"] = batches
        layer.adapt(tf.data.Dataset.from_generator(lambda: (tf.constant(b) for b in batches),
                                                   output_signature=tf.TensorSpec(None, tf.constant(batches[0]).dtype)))
    record["layer"] = keras.saving.serialize_keras_object(layer)
    if hasattr(layer, "get_vocabulary"):
        record["vocabulary"] = [str(v) if isinstance(v, str) else int(v) for v in layer.get_vocabulary()]
        record["own_vocabulary"] = [str(v) if isinstance(v, str) else int(v) for v in layer.get_vocabulary(False)]
        record["vocabulary_size"] = layer.vocabulary_size()
    record["inputs"] = list(inputs)
    given = [tf.constant(x) if len(np.shape(x)) == 0 or np.size(x) else tf.zeros(np.shape(x), tf.string) for x in inputs]
    record["output"] = nested(layer(given[0]) if len(given) == 1 else layer(given))
    records.append(record)


words = ["b", "zebra", "a", "", "ä", "c", "[UNK]", "b"]
table = [["b", "zebra", "a"], ["", "c", "b"]]
vocabulary = ["a", "b", "c"]

# --- StringLookup ---
S = L.StringLookup
case("lookup", S(vocabulary=vocabulary), words)
case("lookup_table", S(vocabulary=vocabulary), table)
case("lookup_one", S(vocabulary=vocabulary), "c")
case("lookup_mask", S(vocabulary=vocabulary, mask_token=""), words)
case("lookup_specials_given", S(vocabulary=["", "[UNK]"] + vocabulary, mask_token=""), words)
case("lookup_no_oov", S(vocabulary=vocabulary, num_oov_indices=0), ["c", "a"])
case("lookup_oov_hashed", S(vocabulary=vocabulary, num_oov_indices=5), words)
case("lookup_oov_salted", S(vocabulary=vocabulary, num_oov_indices=5, salt=[133, -137]), words)
case("lookup_oov_token", S(vocabulary=vocabulary, oov_token="?"), ["?", "a"])
for mode in ("one_hot", "multi_hot", "count"):
    for mask in (None, "a"):
        case(f"lookup_{mode}_{mask}", S(vocabulary=["b", "c"] + ([] if mask else ["a"]), mask_token=mask, output_mode=mode), table)
    case(f"lookup_{mode}_padded", S(vocabulary=vocabulary, max_tokens=7, pad_to_max_tokens=True, output_mode=mode), table)
case("lookup_one_hot_column", S(vocabulary=vocabulary, output_mode="one_hot"), [["a"], ["q"]])
case("lookup_one_hot_row", S(vocabulary=vocabulary, output_mode="one_hot"), ["a", "q"])
case("lookup_count_row", S(vocabulary=vocabulary, output_mode="count"), ["a", "q", "q"])
case("lookup_tf_idf", S(vocabulary=vocabulary, idf_weights=[0.25, 0.75, 0.6], output_mode="tf_idf"), table)
case("lookup_tf_idf_specials", S(vocabulary=["[UNK]"] + vocabulary, idf_weights=[0.9, 0.25, 0.75, 0.6], output_mode="tf_idf"), table)
case("lookup_tf_idf_padded", S(vocabulary=vocabulary, idf_weights=[0.25, 0.75, 0.6], max_tokens=6, pad_to_max_tokens=True,
                               output_mode="tf_idf"), table)
case("lookup_inverse", S(vocabulary=vocabulary, invert=True), [[1, 3], [0, 9]])
case("lookup_inverse_mask", S(vocabulary=vocabulary, invert=True, mask_token="-", oov_token="??"), [0, 1, 2, 4, 7])
learned = [["a", "c", "d"], ["d", "z", "z"], ["é", "d", "Z"]]
case("lookup_adapted", S(), words, adapt=learned)
case("lookup_adapted_row", S(mask_token=""), words, adapt=["b", "", "b", "[UNK]", "c", "ä"])
case("lookup_adapted_cut", S(max_tokens=4), words, adapt=learned)
case("lookup_adapted_batches", S(num_oov_indices=2), words, batches=[learned, [["d", "q", "a"]], [["x", "y", "a"], ["q", "q", "q"]]])
case("lookup_adapted_tf_idf", S(output_mode="tf_idf"), learned, adapt=learned)
case("lookup_adapted_tf_idf_batches", S(output_mode="tf_idf", max_tokens=9, pad_to_max_tokens=True), learned,
     batches=[learned, ["a", "a", "q"]])
case("lookup_adapted_multi_hot", S(output_mode="multi_hot", mask_token="z"), learned, adapt=learned)

# --- IntegerLookup ---
I = L.IntegerLookup
integers = [[12, 1138, -42, 7], [36, 12, 10**12, -1]]
known = [12, 36, 1138, -42]
case("integers", I(vocabulary=known), integers)
case("integers_mask", I(vocabulary=known, mask_token=7), integers)
case("integers_no_oov", I(vocabulary=known, num_oov_indices=0), [36, 12])
case("integers_floormod", I(vocabulary=known, num_oov_indices=3), [[7, -7, -1, 10**12, 12]])
case("integers_farmhash", I(vocabulary=known, num_oov_indices=3, oov_method="farmhash"), [[7, -7, -1, 10**12, 12]])
case("integers_siphash", I(vocabulary=known, num_oov_indices=3, oov_method="farmhash", salt=9), [[7, -7, -1, 10**12, 12]])
case("integers_inverse", I(vocabulary=known, invert=True), [[1, 3], [0, 9]])
for mode in ("one_hot", "multi_hot", "count"):
    case(f"integers_{mode}", I(vocabulary=known, output_mode=mode), integers)
case("integers_tf_idf", I(vocabulary=known, idf_weights=[0.25, 0.75, 0.6, 0.4], output_mode="tf_idf"), integers)
case("integers_adapted", I(), integers, adapt=[[5, 5, 3], [9, 3, -4]])
case("integers_adapted_tf_idf", I(output_mode="tf_idf", max_tokens=4), [[5, 3, 8]], adapt=[[5, 5, 3], [9, 3, -4]])

# --- Hashing ---
H = L.Hashing
case("hash", H(3), [["A"], ["B"], ["C"], ["D"], ["E"]])
case("hash_long", H(1000003), ["", "a", "a longer text than eight bytes", "exactly8", "été"])
case("hash_mask", H(3, mask_value=""), [["A"], ["B"], [""], ["C"], ["D"]])
case("hash_salt", H(1000003, salt=[133, 137]), ["", "a", "a longer text than eight bytes", "exactly8", "été", "seven77"])
case("hash_salt_one", H(3, salt=133), [["A"], ["B"], ["C"], ["D"], ["E"]])
case("hash_salt_negative", H(1000003, salt=[-1, 2**62]), ["a"])
case("hash_integers", H(1000003), [[0, 1], [-7, 10**15]])
case("hash_integers_mask", H(5, mask_value=-7), [[0, 1], [-7, 10**15]])
case("hash_one_bin", H(1, mask_value=0), [[0, 1]])
for mode in ("one_hot", "multi_hot", "count"):
    case(f"hash_{mode}", H(4, output_mode=mode), [["A", "B", "A"], ["C", "D", "E"]])
case("hash_one_hot_column", H(4, output_mode="one_hot"), [["A"], ["B"]])
case("hash_int32", H(30, dtype="int32"), ["A", "B"])

# --- HashedCrossing ---
C = L.HashedCrossing
case("crossing", C(5), ["A", "B", "A", "B", "A"], [101, 101, 101, 102, 102])
case("crossing_column", C(1000003), [["A"], ["B"], ["été"]], [[101], [-1], [7]])
case("crossing_one", C(1000003), "A", 101)
case("crossing_three", C(1000003), ["A", "B"], [5, 6], ["x", "y"])
case("crossing_integers", C(1000003), [1, 2, 3], [3, 2, 1])
case("crossing_one_hot", C(5, output_mode="one_hot"), ["A", "B", "A", "B", "A"], [101, 101, 101, 102, 102])
case("crossing_one_hot_column", C(5, output_mode="one_hot"), [["A"], ["B"]], [[101], [102]])

# --- TextVectorization ---
V = L.TextVectorization
texts = ["The quick, brown FOX!", "  jumps\tover\nthe (lazy) dog; dog ", "", "ÀÉ Été don't"]
terms = ["the", "dog", "quick", "fox", "dont", "Été", "ÀÉ"]
case("texts", V(vocabulary=terms), texts)
case("texts_column", V(vocabulary=terms), [[t] for t in texts])
case("texts_one", V(vocabulary=terms), texts[0])
case("texts_cut", V(vocabulary=terms, output_sequence_length=3), texts)
case("texts_padded", V(vocabulary=terms, output_sequence_length=9), texts)
case("texts_lower", V(vocabulary=["fox!", "dog;", "été"], standardize="lower"), texts)
case("texts_strip", V(vocabulary=["FOX", "The", "dont"], standardize="strip_punctuation"), texts)
case("texts_as_they_are", V(vocabulary=["FOX!", "The", "don't"], standardize=None), texts)
case("texts_punctuation", V(vocabulary=["ab"]), ["a!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~'b", "a§b"])
case("texts_characters", V(vocabulary=["a", "é", "世", " "], split="character", standardize=None), ["a é世b", "", "a\U0001f600a"])
case("texts_whole", V(vocabulary=["the quick brown fox"], split=None), texts)
case("texts_whole_table", V(vocabulary=["a", "b"], split=None, output_sequence_length=3), [["A", "b!"], ["c", "A"]])
case("texts_ngrams", V(vocabulary=["the quick", "fox", "dog dog"], ngrams=2), texts)
case("texts_ngrams_listed", V(vocabulary=["the quick brown", "fox", "lazy dog dog"], ngrams=(3, 1)), texts)
for mode in ("multi_hot", "count"):
    case(f"texts_{mode}", V(vocabulary=terms, output_mode=mode), texts)
    case(f"texts_{mode}_padded", V(vocabulary=terms, output_mode=mode, max_tokens=11, pad_to_max_tokens=True), texts)
case("texts_tf_idf", V(vocabulary=terms, output_mode="tf_idf", idf_weights=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]), texts)
case("texts_adapted", V(), texts, adapt=texts)
case("texts_adapted_cut", V(max_tokens=5, ngrams=2), texts, adapt=texts)
case("texts_adapted_tf_idf", V(output_mode="tf_idf"), texts, adapt=texts)
case("texts_adapted_tf_idf_batches", V(output_mode="tf_idf", max_tokens=30, pad_to_max_tokens=True), texts, batches=[texts[:2], texts[2:]])
case("texts_adapted_characters", V(split="character", max_tokens=9), texts, adapt=texts)

golden_io.write("keras_texts.json", {}, records)


# --- models as files ---
def save(name, model, *inputs):
    model.save(os.path.join(golden_io.HERE, f"keras_texts_{name}.keras"))
    given = [tf.constant(x) for x in inputs]
    return {"name": name, "inputs": list(inputs), "output": golden_io.plain(np.asarray(model(given[0] if len(given) == 1 else given)))}


keras.utils.set_random_seed(3)
text = keras.Input((), dtype="string", name="text")
layer = V(output_sequence_length=5, name="vectorize")
layer.adapt(texts)
x = L.Embedding(layer.vocabulary_size(), 3, name="table")(layer(text))
ids = keras.Model(text, L.Dense(2, name="out")(L.Flatten()(x)))
text2 = keras.Input((1,), dtype="string")
layer = V(output_mode="tf_idf")
layer.adapt(texts)
rows = keras.Model(text2, L.Dense(2)(layer(text2)))
word, number = keras.Input((1,), dtype="string", name="word"), keras.Input((1,), dtype="int64", name="number")
lookup = S(output_mode="one_hot")
lookup.adapt(learned)
whole = I(vocabulary=known, output_mode="one_hot")
y = L.Concatenate()([lookup(word), whole(number), C(4, output_mode="one_hot")([word, number]), H(3, output_mode="one_hot")(word)])
wide = keras.Model([word, number], L.Dense(2)(y))
golden_io.write("keras_texts_models.json", {}, [
    save("ids", ids, texts),
    save("rows", rows, [[t] for t in texts]),
    save("wide", wide, [["d"], ["q"], ["z"]], [[12], [36], [5]]),
])
