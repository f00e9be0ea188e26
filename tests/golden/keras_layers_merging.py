"""Writes keras_layers_merging.json: merging layers, Embedding, Masking, EinsumDense."""

import keras
import numpy as np
from keras import layers
from keras_layer_cases import case, write

A = np.array([[0, 1, 1, 0], [1, 1, 0, 1], [1, 0, 0, 0]])
B = np.array([[1, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]])

for cls in (layers.Add, layers.Multiply, layers.Average, layers.Maximum, layers.Minimum, layers.Subtract):
    case("two", cls(), (3, 4, 2), (3, 4, 2), free=(1,))
    case("spread", cls(), (3, 4, 2), (3, 1, 2))
    case("other_rank", cls(), (3, 4, 2), (3, 2))
    case("masked", cls(), (3, 4, 2), (3, 4, 2), masks=[A, B])
    case("half_masked", cls(), (3, 4, 2), (3, 4, 2), masks=[A, None])
    case("second_masked", cls(), (3, 4, 2), (3, 4, 2), masks=[None, B])
    case("float64", cls(dtype="float64"), (3, 2), (3, 2))
for cls in (layers.Add, layers.Multiply, layers.Average, layers.Maximum, layers.Minimum):
    case("three", cls(), (3, 4), (3, 4), (3, 4))
    case("three_masked", cls(), (3, 4, 2), (3, 4, 2), (3, 4, 2), masks=[A, B, A])

case("last", layers.Concatenate(), (3, 4, 2), (3, 4, 3), free=(1,))
case("time", layers.Concatenate(axis=1), (3, 4, 2), (3, 2, 2), (3, 1, 2))
case("masked", layers.Concatenate(), (3, 4, 2), (3, 4, 3), masks=[A, B])
case("masked_time", layers.Concatenate(axis=1), (3, 4, 2), (3, 4, 2), masks=[A, B])
case("half_masked_time", layers.Concatenate(axis=1), (3, 4, 2), (3, 4, 2), masks=[A, None])
case("float64", layers.Concatenate(dtype="float64"), (3, 2), (3, 1))

case("rows", layers.Dot(axes=1), (3, 4), (3, 4))
case("rows_last", layers.Dot(axes=-1), (3, 4), (3, 4))
case("matrices", layers.Dot(axes=(2, 1)), (3, 4, 2), (3, 2, 5))
case("matrices_last", layers.Dot(axes=-1), (3, 4, 2), (3, 5, 2), free=(1,))
case("matrix_and_row", layers.Dot(axes=(1, 1)), (3, 4, 2), (3, 4))
case("large", layers.Dot(axes=(3, 1)), (2, 2, 3, 4), (2, 4, 3, 2))
case("cosine", layers.Dot(axes=1, normalize=True), (3, 4), (3, 4))
case("float64", layers.Dot(axes=1, dtype="float64"), (3, 4), (3, 4))

TOKENS = np.array([[0, 3, 1, 0], [4, 4, 4, 2]])
case("tokens", layers.Embedding(5, 3), TOKENS, free=(1,))
case("mask_zero", layers.Embedding(5, 3, mask_zero=True), TOKENS)
case("one_token", layers.Embedding(5, 2), np.array([1, 0, 1]))
case("regularized", layers.Embedding(5, 3, embeddings_regularizer="l2"), TOKENS)
case("float_tokens", layers.Embedding(5, 3), TOKENS.astype("float32"))
case("float64", layers.Embedding(5, 3, dtype="float64", embeddings_constraint="non_neg"), TOKENS)

X = np.random.default_rng(1).normal(size=(3, 4, 2)).round(3).astype("float32")
X[0, 1] = 0
X[2, :3] = 0
X[1, 1, 0] = 0
case("zeros", layers.Masking(), X, free=(1,))
case("ones", layers.Masking(mask_value=1.0), np.where(X == 0, 1, X).astype("float32"))

case("matrix", layers.EinsumDense("ab,bc->ac", 4, bias_axes="c"), (3, 2))
case("no_bias", layers.EinsumDense("ab,bc->ac", 4, activation="tanh"), (3, 2))
case("sequence", layers.EinsumDense("abc,cd->abd", (None, 4), bias_axes="d"), (3, 2, 5), free=(1,))
case("heads", layers.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="de"), (3, 2, 5), free=(1,))
case("join", layers.EinsumDense("abcd,cde->abe", (None, 4), bias_axes="e"), (3, 2, 5, 2), free=(1,))
case("elided", layers.EinsumDense("...x,xy->...y", 4, bias_axes="y"), (3, 2, 5), free=(1,))
case("elided_right", layers.EinsumDense("ab...,bc->ac...", 4, bias_axes="c"), (3, 2, 5))
case("bias_first", layers.EinsumDense("abc,cd->abd", (2, 4), bias_axes="b"), (3, 2, 5))
case("regularized", layers.EinsumDense("ab,bc->ac", 4, bias_axes="c", kernel_regularizer="l2"), (3, 2))
case("float64", layers.EinsumDense("ab,bc->ac", 4, bias_axes="c", dtype="float64"), (3, 2))

write("merging")
