"""Writes keras_layers_recurrent.json (LSTM, GRU, SimpleRNN, RNN over cells) and keras_layers_recurrent_wrappers.json
(Bidirectional, TimeDistributed)."""

import keras
import numpy as np
from keras import layers
from keras_layer_cases import case, records, write

L2 = keras.regularizers.L2(0.01)
TAIL = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]])
HEAD = np.array([[0, 1, 1, 1], [0, 0, 0, 1], [1, 1, 1, 1]])
HOLES = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0]])
X = (3, 4, 2)

for cls in (layers.LSTM, layers.GRU, layers.SimpleRNN):
    states = 2 if cls is layers.LSTM else 1
    initial = {"initial_state": [{"tensor": i + 1} for i in range(states)]}
    case("last", cls(5), X, free=(1,))
    case("sequence", cls(5, return_sequences=True), X, free=(1,))
    case("states", cls(5, return_sequences=True, return_state=True), X, free=(1,))
    case("last_states", cls(3, return_state=True), X)
    case("backwards", cls(3, return_sequences=True, go_backwards=True), X)
    case("no_bias", cls(3, use_bias=False), X)
    case("unroll", cls(3, unroll=True), X)
    case("initial", cls(3, return_sequences=True, return_state=True), X, *[(3, 3)] * states, call=initial)
    case("initial_masked", cls(3, return_sequences=True), X, *[(3, 3)] * states, call=initial,
         masks=[TAIL] + [None] * states)
    case("dropout_inference", cls(3, dropout=0.3, recurrent_dropout=0.2), X)
    case("regularized", cls(3, kernel_regularizer=L2, recurrent_regularizer="l1", bias_regularizer=L2,
                            kernel_constraint="max_norm"), X)
    case("float64", cls(3, return_sequences=True, dtype="float64"), X)
    case("float64_last", cls(3, dtype="float64"), X)
    for name, mask in (("tail", TAIL), ("head", HEAD), ("holes", HOLES)):
        case(f"mask_{name}", cls(3), X, masks=[mask])
        case(f"mask_{name}_sequence", cls(3, return_sequences=True, return_state=True), X, masks=[mask])
    case("mask_backwards", cls(3, return_sequences=True, go_backwards=True), X, masks=[HOLES])
    case("mask_zero_output", cls(3, return_sequences=True, zero_output_for_mask=True), X, masks=[HOLES])
    case("mask_unroll", cls(3, return_sequences=True, unroll=True), X, masks=[HOLES])

case("relu", layers.LSTM(3, activation="relu", recurrent_activation="hard_sigmoid"), X)
case("no_forget_bias", layers.LSTM(3, unit_forget_bias=False), X)
case("initial_weights", layers.LSTM(3, recurrent_initializer="zeros", kernel_initializer="ones"), X, weights=False)
case("activity", layers.LSTM(3, activity_regularizer=L2, return_sequences=True), X)
case("relu", layers.GRU(3, activation="relu", recurrent_activation="hard_sigmoid"), X)
case("reset_before", layers.GRU(3, reset_after=False, return_sequences=True), X)
case("reset_before_no_bias", layers.GRU(3, reset_after=False, use_bias=False), X)
case("activity", layers.GRU(3, activity_regularizer=L2, return_state=True), X)
case("relu", layers.SimpleRNN(3, activation="relu"), X)

case("one_cell", layers.RNN(layers.GRUCell(3), return_state=True), X, free=(1,))
case("stacked", layers.RNN([layers.LSTMCell(3), layers.GRUCell(2)], return_sequences=True), X, free=(1,))
case("stacked_masked", layers.RNN([layers.SimpleRNNCell(3), layers.GRUCell(2)], return_sequences=True), X, masks=[HOLES])
case("stacked_same", layers.RNN([layers.GRUCell(3), layers.GRUCell(3)]), X)
case("zero_output", layers.RNN(layers.LSTMCell(2), zero_output_for_mask=True), X, masks=[HOLES])

write("recurrent")
records.clear()

for cls in (layers.LSTM, layers.GRU, layers.SimpleRNN):
    for mode in ("concat", "sum", "mul", "ave", None):
        case(f"{mode}", layers.Bidirectional(cls(3, return_sequences=True), merge_mode=mode), X, free=(1,))
    case("last", layers.Bidirectional(cls(3)), X)
    case("states", layers.Bidirectional(cls(3, return_state=True)), X)
    case("masked", layers.Bidirectional(cls(3)), X, masks=[HOLES])
    case("masked_sequence", layers.Bidirectional(cls(3, return_sequences=True)), X, masks=[TAIL])
    case("holes_sequence", layers.Bidirectional(cls(3, return_sequences=True)), X, masks=[HOLES])
    case("float64", layers.Bidirectional(cls(2, return_sequences=True), dtype="float64"), X)
case("two_layers", layers.Bidirectional(layers.LSTM(3), backward_layer=layers.GRU(3, go_backwards=True)), X)
case("initial", layers.Bidirectional(layers.LSTM(2, return_state=True)), X, *[(3, 2)] * 4,
     call={"initial_state": [{"tensor": i + 1} for i in range(4)]})

case("dense", layers.TimeDistributed(layers.Dense(5)), X, free=(1,))
case("masked", layers.TimeDistributed(layers.Dense(5)), X, masks=[TAIL])
case("normalization", layers.TimeDistributed(layers.BatchNormalization()), (3, 4, 5), training=True)
case("normalization_inference", layers.TimeDistributed(layers.BatchNormalization()), (3, 4, 5))
case("embedding_of_each", layers.TimeDistributed(layers.LSTM(3)), (3, 2, 4, 2))
case("float64", layers.TimeDistributed(layers.Dense(2, dtype="float64"), dtype="float64"), X)

write("recurrent_wrappers")
