"""Writes keras_layers_multi_head_attention.json, keras_layers_group_query_attention.json and keras_layers_attention.json
(Attention, AdditiveAttention)."""

import keras
import numpy as np
from keras import layers
from keras_layer_cases import case, records, write

rng = np.random.default_rng(3)
Q, V = (3, 4, 6), (3, 5, 6)
Q_MASK = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 1, 0, 1]])
V_MASK = np.array([[1, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0, 1, 1, 1, 1]])
NONE_MASK = np.array([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [0, 1, 1, 1, 1]])
SEEN = (rng.random((3, 4, 5)) < 0.6)
SEEN[1, 2] = False  # a row that sees nothing
SEEN_HEADS = (rng.random((3, 2, 4, 5)) < 0.6)


def mha(**options):
    return layers.MultiHeadAttention(2, 3, **options)


def gqa(**options):
    return layers.GroupQueryAttention(3, 4, 2, **options)


def both_have(make):
    case("self", make(), Q, (3, 4, 6), spread=True, free=(1,))
    case("cross", make(), Q, V, spread=True)
    case("key", make(), Q, V, V, call={"key": {"tensor": 2}}, spread=True)
    case("no_bias", make(use_bias=False), Q, V, spread=True)
    case("causal", make(), Q, (3, 4, 6), call={"use_causal_mask": True}, spread=True)
    case("causal_longer_value", make(), Q, V, call={"use_causal_mask": True}, spread=True)
    case("attention_mask", make(), Q, V, SEEN, call={"attention_mask": {"tensor": 2}}, spread=True)
    case("attention_mask_causal", make(), Q, V, SEEN, call={"attention_mask": {"tensor": 2}, "use_causal_mask": True},
         spread=True)
    case("scores", make(), Q, (3, 4, 6), call={"return_attention_scores": True}, spread=True)
    case("scores_causal", make(), Q, (3, 4, 6), call={"return_attention_scores": True, "use_causal_mask": True},
         spread=True)
    records[-1].pop("output_masks")  # that scores have a mask, Keras's Softmax layer lets slip
    case("dropout_inference", make(dropout=0.3), Q, V, SEEN, call={"attention_mask": {"tensor": 2}}, spread=True)
    case("query_mask", make(), Q, V, masks=[Q_MASK, None], spread=True)
    case("value_mask", make(), Q, V, masks=[None, V_MASK], spread=True)
    case("both_masks", make(), Q, V, masks=[Q_MASK, V_MASK], spread=True)
    case("nothing_to_see", make(), Q, V, masks=[None, NONE_MASK], spread=True)
    case("nothing_to_see_dropout", make(dropout=0.3), Q, V, masks=[None, NONE_MASK], spread=True)
    case("masks_causal", make(), Q, V, masks=[Q_MASK, V_MASK], call={"use_causal_mask": True}, spread=True)
    case("key_mask", make(), Q, V, V, masks=[None, None, V_MASK], call={"key": {"tensor": 2}}, spread=True)
    case("window", make(sliding_window=2), Q, (3, 4, 6), spread=True)
    case("gate", make(use_gate=True), Q, V, spread=True)
    case("regularized", make(kernel_regularizer="l2", bias_regularizer="l1", dtype="float64"), Q, V, spread=True)
    case("float64", make(dtype="float64"), Q, V, spread=True)
    case("float64_masks", make(dtype="float64"), Q, V, masks=[Q_MASK, V_MASK], spread=True)
    case("activity", make(activity_regularizer="l2", dtype="float64"), Q, V, spread=True)


both_have(gqa)
write("group_query_attention")
records.clear()

both_have(mha)
case("value_dim", mha(value_dim=4), Q, V, spread=True)
case("output_shape", mha(output_shape=7), Q, V, spread=True, free=(1,))
case("output_shape_two", mha(output_shape=(2, 3)), Q, V, spread=True)
case("other_widths", mha(), Q, (3, 5, 2), (3, 5, 4), call={"key": {"tensor": 2}}, spread=True)
case("mask_of_heads", mha(), Q, V, SEEN_HEADS, call={"attention_mask": {"tensor": 2}}, spread=True)
case("images", mha(), (2, 3, 2, 4), (2, 3, 2, 4), spread=True)
case("one_axis_of_two", mha(attention_axes=2), (2, 3, 2, 4), (2, 3, 5, 4), spread=True)
case("axes", mha(attention_axes=[1, 2]), (2, 3, 2, 4), (2, 2, 2, 4), spread=True)
write("multi_head_attention")
records.clear()

for cls in (layers.Attention, layers.AdditiveAttention):
    case("two", cls(), Q, V, free=(1,))
    case("three", cls(), Q, (3, 5, 2), V)
    case("scale", cls(use_scale=True), Q, V)
    case("no_scale", cls(use_scale=False), Q, V)
    case("causal", cls(), Q, V, call={"use_causal_mask": True})
    case("scores", cls(), Q, V, call={"return_attention_scores": True})
    case("masks", cls(), Q, V, masks=[Q_MASK, V_MASK])
    case("value_mask_causal", cls(), Q, V, masks=[None, NONE_MASK], call={"use_causal_mask": True})
    case("dropout_inference", cls(dropout=0.5), Q, V)
    case("float64", cls(dtype="float64"), Q, V, masks=[Q_MASK, V_MASK])
case("concat", layers.Attention(score_mode="concat"), Q, V)
case("concat_scale", layers.Attention(score_mode="concat", use_scale=True), Q, V)

write("attention")
