"""The models of suite step's cases dense, transformer, lstm and resnet20 in Keras 3."""

import keras
from keras import layers

import peer


class Positions(layers.Layer):
    """Adds a vector that is learnt to each position."""

    def build(self, shape):
        self.positions = self.add_weight(shape=shape[1:], initializer="uniform", name="positions")

    def call(self, x):
        return x + keras.ops.cast(self.positions, x.dtype)


def transformer(tokens, *, width, heads, depth):
    words = keras.Input((tokens,), dtype="int64")
    x = Positions()(layers.Embedding(peer.WORDS, width)(words))
    for _ in range(depth):
        attended = layers.MultiHeadAttention(heads, width // heads)(x, x, use_causal_mask=True)
        x = layers.LayerNormalization(epsilon=peer.EPSILON)(layers.Add()([x, attended]))
        narrow = layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(x))
        x = layers.LayerNormalization(epsilon=peer.EPSILON)(layers.Add()([x, narrow]))
    return keras.Model(words, layers.Dense(peer.WORDS)(x))


def lstm(tokens, *, embedding, units, classes):
    words = keras.Input((tokens,), dtype="int64")
    x = layers.LSTM(units)(layers.Embedding(peer.WORDS, embedding)(words))
    return keras.Model(words, layers.Dense(classes)(x))


def convolution(x, filters, kernel, stride):
    x = layers.Conv2D(filters, kernel, stride, padding="same", use_bias=False)(x)
    return layers.BatchNormalization(momentum=0.9, epsilon=peer.EPSILON)(x)


def resnet20():
    images = keras.Input((32, 32, 3))
    x, inputs = layers.Activation("relu")(convolution(images, 16, 3, 1)), 16
    for stage, outputs in enumerate((16, 32, 64)):
        for block in range(3):
            stride = 2 if stage > 0 and block == 0 else 1
            shortcut = x if inputs == outputs else convolution(x, outputs, 1, stride)
            x = layers.Activation("relu")(convolution(x, outputs, 3, stride))
            x = layers.Activation("relu")(layers.Add()([convolution(x, outputs, 3, 1), shortcut]))
            inputs = outputs
    return keras.Model(images, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def make(case, tokens):
    """In the dtype policy that is set; the logits are float32. @param tokens  Of a row of words."""
    if case == "transformer":
        net = transformer(tokens, **peer.TRANSFORMER)
    elif case == "lstm":
        net = lstm(tokens, **peer.LSTM)
    elif case == "resnet20":
        net = resnet20()
    else:
        sizes = peer.MLP_SIZES[case]
        hidden = [layers.Dense(n, activation="relu") for n in sizes[1:-1]]
        net = keras.Sequential([keras.Input((sizes[0],)), *hidden, layers.Dense(sizes[-1])])
    if keras.config.dtype_policy().compute_dtype == "float32":
        return net
    return keras.Model(net.inputs, layers.Activation("linear", dtype="float32")(net.outputs[0]))
