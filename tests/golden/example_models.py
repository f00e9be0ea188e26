"""The networks of keras.io's code examples, small: what keras_examples.py and check_ours_with_keras.py compute with real Keras.

Each function is named after its example and makes its network with the layers and operations that the example uses. What an
example writes as a layer of its own is written with operations here, numbers that it draws are an input, and dropout has a rate of 0.
"""
import math

import keras
import numpy as np
from keras import layers as L
from keras import ops

DROPPED = 0.0
WORDS = 11   # ids of words, users, ... are below


def dense_stack(x, units, activation="relu"):
    for n in units:
        x = L.Dropout(DROPPED)(L.Dense(n, activation=activation)(x))
    return x


def positions_of(x):
    """0, 1, ... along axis 1 of [batch, steps, ...]."""
    return ops.cumsum(ops.ones_like(x[:, :, 0] if len(x.shape) > 2 else x), axis=1) - 1


def with_positions(x, steps, width):
    """Adds a vector that is learnt to each of `steps` places."""
    return x + L.Embedding(steps, width)(ops.cast(positions_of(x), "int32"))


def words(steps, name=None):
    return keras.Input((steps,), dtype="int32", name=name)


def embedded(tokens, width, mask_zero=False):
    x = L.Embedding(WORDS, width, mask_zero=mask_zero)(tokens)
    return x + L.Embedding(tokens.shape[1], width)(positions_of(tokens))


def transformer_block(x, heads, hidden, causal=False, activation="relu"):
    attended = L.MultiHeadAttention(heads, x.shape[-1] // heads, dropout=DROPPED)(x, x, use_causal_mask=causal)
    x = L.LayerNormalization(epsilon=1e-6)(x + L.Dropout(DROPPED)(attended))
    narrow = L.Dense(x.shape[-1])(L.Dense(hidden, activation=activation)(x))
    return L.LayerNormalization(epsilon=1e-6)(x + narrow)


def patches_of(images, size):
    patches = ops.image.extract_patches(images, size)
    return L.Reshape((patches.shape[1] * patches.shape[2], patches.shape[3]))(patches)


# Vision

def mnist_convnet():
    return keras.Sequential([L.Input((12, 12, 1)), L.Conv2D(4, 3, activation="relu"), L.MaxPooling2D(2), L.Conv2D(6, 3, activation="relu"),
                             L.MaxPooling2D(2), L.Flatten(), L.Dropout(DROPPED), L.Dense(5, activation="softmax")])


def image_classification_from_scratch():
    inputs = keras.Input((16, 16, 3))
    x = L.Rescaling(1.0 / 255)(inputs)
    x = previous = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(4, 3, strides=2, padding="same")(x)))
    for size in (6, 8):
        x = L.BatchNormalization()(L.SeparableConv2D(size, 3, padding="same")(L.Activation("relu")(x)))
        x = L.BatchNormalization()(L.SeparableConv2D(size, 3, padding="same")(L.Activation("relu")(x)))
        x = L.MaxPooling2D(3, strides=2, padding="same")(x)
        x = previous = L.add([x, L.Conv2D(size, 1, strides=2, padding="same")(previous)])
    x = L.Activation("relu")(L.BatchNormalization()(L.SeparableConv2D(8, 3, padding="same")(x)))
    return keras.Model(inputs, L.Dense(2)(L.Dropout(DROPPED)(L.GlobalAveragePooling2D()(x))))


def image_classification_with_vision_transformer():
    inputs = keras.Input((8, 8, 3))
    x = with_positions(L.Dense(8)(patches_of(inputs, 4)), 4, 8)
    for _ in range(2):
        y = L.LayerNormalization(epsilon=1e-6)(x)
        x = L.Add()([L.MultiHeadAttention(2, 4, dropout=DROPPED)(y, y), x])
        x = L.Add()([dense_stack(L.LayerNormalization(epsilon=1e-6)(x), [16, 8], "gelu"), x])
    x = L.Dropout(DROPPED)(L.Flatten()(L.LayerNormalization(epsilon=1e-6)(x)))
    return keras.Model(inputs, L.Dense(4)(dense_stack(x, [12], "gelu")))


def mlp_image_classification():
    inputs = keras.Input((8, 8, 3))
    x = with_positions(L.Dense(6)(patches_of(inputs, 4)), 4, 6)
    for _ in range(2):
        mixed = L.Permute((2, 1))(L.LayerNormalization(epsilon=1e-6)(x))
        x = x + L.Permute((2, 1))(dense_stack(mixed, [5, 4], "gelu"))
        x = x + dense_stack(L.LayerNormalization(epsilon=1e-6)(x), [8, 6], "gelu")
    return keras.Model(inputs, L.Dense(3)(L.GlobalAveragePooling1D()(x)))


def fnet_image_classification():
    inputs = keras.Input((8, 8, 3))
    x = L.Dense(6)(patches_of(inputs, 4))
    y = ops.fft2((x, ops.zeros_like(x)))[0]
    x = L.LayerNormalization(epsilon=1e-6)(x + y)
    x = L.LayerNormalization(epsilon=1e-6)(x + dense_stack(x, [12, 6], "gelu"))
    return keras.Model(inputs, L.Dense(3)(L.GlobalAveragePooling1D()(x)))


def gmlp_image_classification():
    inputs = keras.Input((8, 8, 3))
    x = L.Dense(6)(patches_of(inputs, 4))
    u, v = ops.split(L.Dense(12, activation="gelu")(L.LayerNormalization(epsilon=1e-6)(x)), 2, axis=2)
    v = ops.transpose(L.Dense(4, bias_initializer="ones")(ops.transpose(L.LayerNormalization(epsilon=1e-6)(v), (0, 2, 1))), (0, 2, 1))
    return keras.Model(inputs, L.Dense(3)(L.GlobalAveragePooling1D()(x + L.Dense(6)(u * v))))


def compact_convolutional_transformers():
    inputs = keras.Input((12, 12, 3))
    x = L.ZeroPadding2D(1)(L.Conv2D(4, 3, padding="valid", use_bias=False, activation="relu")(inputs))
    x = L.Reshape((-1, 8))(L.MaxPooling2D(3, 2, "same")(L.Conv2D(8, 3, 1, use_bias=False, activation="relu")(x)))
    x = with_positions(x, 25, 8)
    x = transformer_block(x, 2, 8, activation="gelu")
    weights = ops.softmax(L.Dense(1)(x), axis=1)   # sequence pooling
    pooled = L.Flatten()(ops.matmul(ops.transpose(weights, (0, 2, 1)), x))
    return keras.Model(inputs, L.Dense(3)(pooled))


def convmixer():
    inputs = keras.Input((8, 8, 3))
    x = L.BatchNormalization()(L.Activation("gelu")(L.Conv2D(6, 2, strides=2)(L.Rescaling(1.0 / 255)(inputs))))
    for _ in range(2):
        y = L.BatchNormalization()(L.Activation("gelu")(L.DepthwiseConv2D(3, padding="same")(x)))
        x = L.BatchNormalization()(L.Activation("gelu")(L.Conv2D(6, 1)(L.Add()([y, x]))))
    return keras.Model(inputs, L.Dense(3, activation="softmax")(L.GlobalAvgPool2D()(x)))


def swin_transformers():
    """One block whose windows of 2 x 2 are shifted by one."""
    inputs = keras.Input((4, 4, 8))
    x = ops.roll(L.LayerNormalization(epsilon=1e-5)(inputs), shift=(-1, -1), axis=(1, 2))
    windows = ops.reshape(ops.transpose(ops.reshape(x, (-1, 2, 2, 2, 2, 8)), (0, 1, 3, 2, 4, 5)), (-1, 4, 8))
    qkv = ops.transpose(ops.reshape(L.Dense(24)(windows), (-1, 4, 3, 2, 4)), (2, 0, 3, 1, 4))
    scores = ops.softmax(ops.matmul(qkv[0] * 0.5, ops.transpose(qkv[1], (0, 1, 3, 2))), axis=-1)
    y = L.Dense(8)(ops.reshape(ops.transpose(ops.matmul(scores, qkv[2]), (0, 2, 1, 3)), (-1, 4, 8)))
    y = ops.reshape(ops.transpose(ops.reshape(y, (-1, 2, 2, 2, 2, 8)), (0, 1, 3, 2, 4, 5)), (-1, 4, 4, 8))
    x = inputs + ops.roll(y, shift=(1, 1), axis=(1, 2))
    x = x + dense_stack(L.LayerNormalization(epsilon=1e-5)(x), [16, 8], "gelu")
    return keras.Model(inputs, L.Dense(3, activation="softmax")(L.GlobalAveragePooling2D()(x)))


def eanet():
    """External attention: normalized over both axes."""
    inputs = keras.Input((8, 8, 3))
    x = with_positions(L.Dense(8)(patches_of(inputs, 4)), 4, 8)
    y = ops.transpose(ops.reshape(L.Dense(8)(L.LayerNormalization()(x)), (-1, 4, 2, 4)), (0, 2, 1, 3))
    scores = ops.softmax(L.Dense(6)(y), axis=2)
    scores = scores / (1e-9 + ops.sum(scores, axis=-1, keepdims=True))
    y = ops.reshape(ops.transpose(L.Dense(4)(scores), (0, 2, 1, 3)), (-1, 4, 8))
    x = x + L.Dropout(DROPPED)(L.Dense(8)(y))
    return keras.Model(inputs, L.Dense(3, activation="softmax")(L.GlobalAveragePooling1D()(x)))


def involution():
    """A kernel that each place makes itself."""
    inputs = keras.Input((6, 6, 4))
    kernel = L.Conv2D(9, 1)(L.ReLU()(L.BatchNormalization()(L.Conv2D(2, 1)(L.AveragePooling2D(1)(inputs)))))
    kernel = ops.expand_dims(ops.reshape(kernel, (-1, 6, 6, 9)), -1)
    patches = ops.reshape(ops.image.extract_patches(inputs, (3, 3), strides=1, padding="same"), (-1, 6, 6, 9, 4))
    x = L.ReLU()(ops.sum(kernel * patches, axis=3))
    return keras.Model(inputs, L.Dense(3)(L.Flatten()(x)))


def oxford_pets_image_segmentation():
    inputs = keras.Input((16, 16, 3))
    x = previous = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(4, 3, strides=2, padding="same")(inputs)))
    for filters in (6, 8):
        x = L.BatchNormalization()(L.SeparableConv2D(filters, 3, padding="same")(L.Activation("relu")(x)))
        x = L.MaxPooling2D(3, strides=2, padding="same")(x)
        x = previous = L.add([x, L.Conv2D(filters, 1, strides=2, padding="same")(previous)])
    for filters in (8, 6, 4):
        x = L.BatchNormalization()(L.Conv2DTranspose(filters, 3, padding="same")(L.Activation("relu")(x)))
        x = L.UpSampling2D(2)(x)
        x = previous = L.add([x, L.Conv2D(filters, 1, padding="same")(L.UpSampling2D(2)(previous))])
    return keras.Model(inputs, L.Conv2D(3, 3, activation="softmax", padding="same")(x))


def unet():
    """Ronneberger's, with what goes down joined to what comes up."""
    inputs = keras.Input((16, 16, 1))
    x, skips = inputs, []
    for filters in (3, 4):
        x = L.Conv2D(filters, 3, activation="relu", padding="same")(x)
        skips.append(x)
        x = L.Dropout(DROPPED)(L.MaxPool2D(2)(x))
    x = L.Conv2D(6, 3, activation="relu", padding="same")(x)
    for filters in (4, 3):
        x = L.concatenate([L.Conv2DTranspose(filters, 3, 2, padding="same")(x), skips.pop()])
        x = L.Conv2D(filters, 3, activation="relu", padding="same")(x)
    return keras.Model(inputs, L.Conv2D(2, 1, padding="same", activation="softmax")(x))


def deeplabv3_plus():
    inputs = keras.Input((16, 16, 3))

    def block(x, rate=1, size=3):
        return ops.relu(L.BatchNormalization()(L.Conv2D(4, size, dilation_rate=rate, padding="same", use_bias=False)(x)))

    low = block(L.MaxPooling2D(2)(inputs))
    x = block(L.MaxPooling2D(2)(low))
    pooled = L.UpSampling2D(4, interpolation="bilinear")(block(L.AveragePooling2D(4)(x), size=1))
    x = block(L.Concatenate()([pooled, block(x, size=1), block(x, 2), block(x, 3)]), size=1)
    x = L.Concatenate()([L.UpSampling2D(2, interpolation="bilinear")(x), block(low, size=1)])
    x = L.UpSampling2D(2, interpolation="bilinear")(block(x))
    return keras.Model(inputs, L.Conv2D(3, 1, padding="same")(x))


def super_resolution_sub_pixel():
    inputs = keras.Input((None, None, 1))
    options = {"activation": "relu", "kernel_initializer": "orthogonal", "padding": "same"}
    x = L.Conv2D(4, 3, **options)(L.Conv2D(6, 5, **options)(inputs))
    return keras.Model(inputs, ops.depth_to_space(L.Conv2D(9, 3, **options)(x), 3))


def edsr():
    inputs = keras.Input((6, 6, 3))
    x = first = L.Conv2D(4, 3, padding="same")(L.Rescaling(1.0 / 255)(inputs))
    for _ in range(2):
        x = L.Add()([x, L.Conv2D(4, 3, padding="same")(L.Conv2D(4, 3, padding="same", activation="relu")(x))])
    x = L.Add()([L.Conv2D(4, 3, padding="same")(x), first])
    x = ops.depth_to_space(L.Conv2D(16, 3, padding="same")(x), 2)
    return keras.Model(inputs, L.Rescaling(255.0)(L.Conv2D(3, 3, padding="same")(x)))


def zero_dce():
    inputs = keras.Input((6, 6, 3))
    convolution = lambda x: L.Conv2D(4, 3, activation="relu", padding="same")(x)
    a = convolution(inputs)
    b = convolution(a)
    c = convolution(L.Concatenate()([b, a]))
    curves = L.Conv2D(6, 3, activation="tanh", padding="same")(L.Concatenate()([c, a]))
    x = inputs
    for i in range(2):
        curve = curves[:, :, :, 3 * i : 3 * i + 3]
        x = x + curve * (ops.square(x) - x)
    return keras.Model(inputs, x)


def autoencoder():
    inputs = keras.Input((8, 8, 1))
    x = L.MaxPooling2D(2, padding="same")(L.Conv2D(4, 3, activation="relu", padding="same")(inputs))
    x = L.MaxPooling2D(2, padding="same")(L.Conv2D(4, 3, activation="relu", padding="same")(x))
    x = L.Conv2DTranspose(4, 3, strides=2, activation="relu", padding="same")(x)
    x = L.Conv2DTranspose(4, 3, strides=2, activation="relu", padding="same")(x)
    return keras.Model(inputs, L.Conv2D(1, 3, activation="sigmoid", padding="same")(x))


def captcha_ocr():
    inputs = keras.Input((12, 8, 1))
    x = L.MaxPooling2D(2)(L.Conv2D(3, 3, activation="relu", kernel_initializer="he_normal", padding="same")(inputs))
    x = L.MaxPooling2D(2)(L.Conv2D(4, 3, activation="relu", kernel_initializer="he_normal", padding="same")(x))
    x = L.Dropout(DROPPED)(L.Dense(6, activation="relu")(L.Reshape((3, 8))(x)))
    x = L.Bidirectional(L.LSTM(4, return_sequences=True, dropout=DROPPED))(x)
    x = L.Bidirectional(L.LSTM(3, return_sequences=True, dropout=DROPPED))(x)
    return keras.Model(inputs, L.Dense(WORDS, activation="softmax")(x))


def ct_scans_3d():
    inputs = keras.Input((10, 10, 8, 1))
    x = L.BatchNormalization()(L.MaxPooling3D(2)(L.Conv3D(3, 3, activation="relu")(inputs)))
    x = L.Conv3D(4, 2, activation="relu")(x)
    x = L.Dropout(DROPPED)(L.Dense(4, activation="relu")(L.GlobalAveragePooling3D()(x)))
    return keras.Model(inputs, L.Dense(1, activation="sigmoid")(x))


def pointnet():
    inputs = keras.Input((10, 3))

    def convolution(x, filters):
        return L.Activation("relu")(L.BatchNormalization(momentum=0.0)(L.Conv1D(filters, 1, padding="valid")(x)))

    def transform(x, features):
        y = L.GlobalMaxPooling1D()(convolution(x, 6))
        y = L.Activation("relu")(L.BatchNormalization(momentum=0.0)(L.Dense(5)(y)))
        y = L.Dense(features * features, kernel_initializer="zeros", activity_regularizer=keras.regularizers.L2(0.001))(y)
        return L.Dot(axes=(2, 1))([x, L.Reshape((features, features))(y)])

    x = transform(convolution(transform(inputs, 3), 4), 4)
    x = L.GlobalMaxPooling1D()(convolution(x, 6))
    return keras.Model(inputs, L.Dense(3, activation="softmax")(L.Dropout(DROPPED)(x)))


def siamese_contrastive():
    def tower():
        inputs = keras.Input((10, 10, 1))
        x = L.AveragePooling2D(2)(L.Conv2D(3, 3, activation="tanh")(L.BatchNormalization()(inputs)))
        return keras.Model(inputs, L.Dense(4, activation="tanh")(L.BatchNormalization()(L.Flatten()(x))), name="tower")

    a, b, shared = keras.Input((10, 10, 1), name="a"), keras.Input((10, 10, 1), name="b"), tower()
    square = ops.sum(ops.square(shared(a) - shared(b)), axis=1, keepdims=True)
    distance = ops.sqrt(ops.maximum(square, keras.config.epsilon()))
    return keras.Model([a, b], L.Dense(1, activation="sigmoid")(L.BatchNormalization()(distance)))


def siamese_network():
    """Distances of an anchor to a positive and a negative."""
    inputs = keras.Input((6, 6, 3))
    x = L.Flatten()(L.Conv2D(4, 3, strides=2, activation="relu")(inputs))
    shared = keras.Model(inputs, L.Dense(3)(L.BatchNormalization()(L.Dense(6, activation="relu")(x))), name="embedding")
    three = [keras.Input((6, 6, 3), name=name) for name in ("anchor", "positive", "negative")]
    anchor, positive, negative = map(shared, three)
    distance = lambda other: ops.sum(ops.square(anchor - other), -1)
    return keras.Model(three, ops.stack([distance(positive), distance(negative)], axis=-1))


def metric_learning():
    inputs = keras.Input((8, 8, 3))
    x = L.GlobalAveragePooling2D()(L.Conv2D(4, 3, strides=2, activation="relu")(inputs))
    return keras.Model(inputs, L.UnitNormalization()(L.Dense(5)(x)))


def perceiver_image_classification():
    inputs = keras.Input((8, 8, 3))
    data = with_positions(L.Dense(6)(patches_of(inputs, 4)), 4, 6)
    latent = L.Embedding(3, 6)(ops.cast(positions_of(data)[:, :3], "int32"))
    query = L.LayerNormalization(epsilon=1e-6)(latent)
    attended = L.Attention(use_scale=True, dropout=DROPPED)([L.Dense(6)(query), L.Dense(6)(data), L.Dense(6)(data)])
    latent = L.Add()([attended, latent])
    latent = L.Add()([dense_stack(L.LayerNormalization(epsilon=1e-6)(latent), [12, 6], "gelu"), latent])
    latent = transformer_block(latent, 2, 12, activation="gelu")
    return keras.Model(inputs, L.Dense(3)(L.GlobalAveragePooling1D()(latent)))


def mobilevit():
    inputs = keras.Input((8, 8, 4))
    local = L.Conv2D(6, 1, padding="same", activation="swish")(L.Conv2D(4, 3, padding="same", activation="swish")(inputs))
    x = ops.transpose(ops.reshape(local, (-1, 4, 2, 4, 2, 6)), (0, 2, 4, 1, 3, 5))
    x = transformer_block(L.Reshape((4, 16 * 6))(ops.reshape(x, (-1, 4, 16, 6))), 2, 8, activation="swish")
    x = ops.transpose(ops.reshape(x, (-1, 2, 2, 4, 4, 6)), (0, 3, 1, 4, 2, 5))
    folded = L.Conv2D(4, 1, padding="same", activation="swish")(ops.reshape(x, (-1, 8, 8, 6)))
    x = L.Conv2D(4, 3, padding="same", strides=2, activation="swish")(L.Concatenate(axis=-1)([inputs, folded]))
    return keras.Model(inputs, L.Dense(3, activation="softmax")(L.GlobalAvgPool2D()(x)))


def retinanet():
    """A feature pyramid, and heads that all levels share."""
    inputs = keras.Input((16, 16, 3))
    c3 = L.Conv2D(4, 3, strides=2, padding="same", activation="relu")(inputs)
    c4 = L.Conv2D(6, 3, strides=2, padding="same", activation="relu")(c3)
    p4 = L.Conv2D(4, 1)(c4)
    p3 = L.Conv2D(4, 3, padding="same")(L.Conv2D(4, 1)(c3) + L.UpSampling2D(2)(p4))
    p5 = L.Conv2D(4, 3, 2, "same")(c4)
    bias = keras.initializers.Constant(-math.log(99))
    head = keras.Sequential([L.Input((None, None, 4)), L.Conv2D(4, 3, padding="same"), L.ReLU(),
                             L.Conv2D(6, 3, padding="same", bias_initializer=bias)], name="head")
    return keras.Model(inputs, L.Concatenate(axis=1)([L.Reshape((-1, 3))(head(p)) for p in (p3, p4, p5)]))


def keypoint_detection():
    inputs = keras.Input((12, 12, 3))
    x = L.Conv2D(6, 3, strides=2, activation="relu")(inputs)
    x = L.SeparableConv2D(4, 3, activation="relu")(L.Dropout(DROPPED)(x))
    return keras.Model(inputs, L.SeparableConv2D(8, 3, activation="sigmoid")(x))


def video_classification():
    """Features of frames, with a mask of those that are there."""
    features, mask = keras.Input((5, 4), name="features"), keras.Input((5,), dtype="bool", name="mask")
    x = L.GRU(6, return_sequences=True)(features, mask=mask)
    x = L.Dropout(DROPPED)(L.GRU(3)(x))
    return keras.Model([features, mask], L.Dense(3, activation="softmax")(L.Dense(4, activation="relu")(x)))


def vivit():
    videos = keras.Input((4, 8, 8, 1))
    tubelets = L.Reshape((-1, 8))(L.Conv3D(8, (2, 4, 4), strides=(2, 4, 4), padding="valid")(videos))
    x = with_positions(tubelets, 8, 8)
    y = L.LayerNormalization(epsilon=1e-6)(x)
    x = L.Add()([L.MultiHeadAttention(2, 4, dropout=DROPPED)(y, y), x])
    y = L.LayerNormalization(epsilon=1e-6)(x)
    x = L.Add()([keras.Sequential([L.Dense(16, activation="gelu"), L.Dense(8, activation="gelu")])(y), x])
    return keras.Model(videos, L.Dense(3, activation="softmax")(L.GlobalAvgPool1D()(L.LayerNormalization(epsilon=1e-6)(x))))


def knowledge_distillation():
    def network(filters, name):
        return keras.Sequential([L.Input((8, 8, 1)), L.Conv2D(filters, 3, strides=2, padding="same"), L.LeakyReLU(negative_slope=0.2),
                                 L.MaxPooling2D(2, strides=1, padding="same"), L.Flatten(), L.Dense(3)], name=name)

    inputs = keras.Input((8, 8, 1))
    teacher, student = network(6, "teacher"), network(3, "student")
    teacher.trainable = False
    soft = lambda logits: ops.softmax(logits / 3.0, axis=1)
    return keras.Model(inputs, [student(inputs), soft(student(inputs)), soft(teacher(inputs))])


# Natural language

def bidirectional_lstm_imdb():
    tokens = words(6)
    x = L.Bidirectional(L.LSTM(4, return_sequences=True))(L.Embedding(WORDS, 5)(tokens))
    return keras.Model(tokens, L.Dense(1, activation="sigmoid")(L.Bidirectional(L.LSTM(3))(x)))


def text_classification_from_scratch():
    tokens = words(20)
    x = L.Dropout(DROPPED)(L.Embedding(WORDS, 5)(tokens))
    x = L.Conv1D(6, 5, padding="valid", activation="relu", strides=2)(x)
    x = L.GlobalMaxPooling1D()(L.Conv1D(6, 3, padding="valid", activation="relu")(x))
    return keras.Model(tokens, L.Dense(1, activation="sigmoid", name="predictions")(dense_stack(x, [5])))


def text_classification_with_transformer():
    tokens = words(6)
    x = L.GlobalAveragePooling1D()(transformer_block(embedded(tokens, 8), 2, 8))
    return keras.Model(tokens, L.Dense(2, activation="softmax")(dense_stack(L.Dropout(DROPPED)(x), [5])))


def lstm_seq2seq():
    source, target = keras.Input((None, 5), name="source"), keras.Input((None, 4), name="target")
    _, h, c = L.LSTM(6, return_state=True)(source)
    y, _, _ = L.LSTM(6, return_sequences=True, return_state=True)(target, initial_state=[h, c])
    return keras.Model([source, target], L.Dense(4, activation="softmax")(y))


def neural_machine_translation_with_transformer():
    source, target = words(5, "source"), words(6, "target")
    x = transformer_block(embedded(source, 8, mask_zero=True), 2, 8)
    y = embedded(target, 8, mask_zero=True)
    y = L.LayerNormalization()(y + L.MultiHeadAttention(2, 8)(query=y, value=y, key=y, use_causal_mask=True))
    y = L.LayerNormalization()(y + L.MultiHeadAttention(2, 8)(query=y, value=x, key=x))
    y = L.LayerNormalization()(y + keras.Sequential([L.Dense(8, activation="relu"), L.Dense(8)])(y))
    return keras.Model([source, target], L.Dense(WORDS, activation="softmax")(L.Dropout(DROPPED)(y)))


def masked_language_modeling():
    tokens, segments = words(6, "tokens"), words(6, "segments")
    x = embedded(tokens, 8) + L.Embedding(WORDS, 8)(segments)
    x = L.Dropout(DROPPED)(L.LayerNormalization(epsilon=1e-12)(x))
    for _ in range(2):
        x = transformer_block(x, 2, 12, activation="gelu")
    pooled = L.Dense(4, activation="tanh")(x[:, 0])
    return keras.Model([tokens, segments], [L.Dense(WORDS, name="mlm", activation="softmax")(x), L.Dense(2, name="next")(pooled)])


def text_generation_with_miniature_gpt():
    tokens = words(6)
    x = transformer_block(embedded(tokens, 8), 2, 8, causal=True)
    return keras.Model(tokens, [L.Dense(WORDS)(x), x])


def addition_rnn():
    return keras.Sequential([L.Input((7, 5)), L.LSTM(6), L.RepeatVector(3), L.LSTM(6, return_sequences=True), L.Dense(5, activation="softmax")])


def ner_transformers():
    tokens = words(6)
    x = L.Dropout(DROPPED)(transformer_block(embedded(tokens, 8, mask_zero=True), 2, 12))
    return keras.Model(tokens, L.Dense(4, activation="softmax")(L.Dropout(DROPPED)(L.Dense(6, activation="relu")(x))))


def text_extraction_with_bert():
    tokens, segments, attention = words(6, "ids"), words(6, "types"), keras.Input((6,), dtype="int32", name="attention")
    x = embedded(tokens, 8) + L.Embedding(WORDS, 8)(segments)
    mask = ops.expand_dims(ops.not_equal(attention, 0), 1)
    x = L.LayerNormalization()(x + L.MultiHeadAttention(2, 4)(x, x, attention_mask=mask))
    ends = [L.Activation("softmax")(L.Flatten()(L.Dense(1, use_bias=False)(x))) for _ in range(2)]
    return keras.Model([tokens, segments, attention], ends)


def semantic_similarity_with_bert():
    x = keras.Input((5, 6))
    y = L.Bidirectional(L.LSTM(4, return_sequences=True))(x)
    both = L.concatenate([L.GlobalAveragePooling1D()(y), L.GlobalMaxPooling1D()(y)])
    return keras.Model(x, L.Dense(3, activation="softmax")(L.Dropout(DROPPED)(both)))


def pretrained_word_embeddings():
    tokens = words(24)
    x = L.Embedding(WORDS, 4, trainable=False)(tokens)
    x = L.MaxPooling1D(2)(L.Conv1D(5, 3, activation="relu")(x))
    x = L.GlobalMaxPooling1D()(L.Conv1D(5, 3, activation="relu")(x))
    return keras.Model(tokens, L.Dense(3, activation="softmax")(dense_stack(x, [6])))


# Structured data

def structured_data_classification():
    age, sex = keras.Input((1,), name="age"), keras.Input((1,), dtype="int32", name="sex")
    x = L.concatenate([L.Rescaling(0.1)(age), L.CategoryEncoding(WORDS, output_mode="one_hot")(sex)])
    return keras.Model([age, sex], L.Dense(1, activation="sigmoid")(dense_stack(x, [6])))


def collaborative_filtering():
    both = words(2)
    user, movie = both[:, 0], both[:, 1]
    embed = lambda ids, width: L.Embedding(WORDS, width, embeddings_regularizer=keras.regularizers.L2(1e-6))(ids)
    product = ops.sum(embed(user, 4) * embed(movie, 4), axis=-1, keepdims=True)
    return keras.Model(both, ops.sigmoid(product + embed(user, 1) + embed(movie, 1)))


def wide_deep_cross_networks():
    numbers, category = keras.Input((4,), name="numbers"), words(1, "category")
    wide = L.BatchNormalization()(L.concatenate([numbers, L.CategoryEncoding(WORDS, output_mode="one_hot")(category)]))
    x0 = L.concatenate([numbers, L.Flatten()(L.Embedding(WORDS, 3)(category))])
    cross = x0
    for _ in range(2):
        cross = x0 * L.Dense(7)(cross) + cross
    deep = x0
    for n in (6, 5):
        deep = L.Dropout(DROPPED)(L.ReLU()(L.BatchNormalization()(L.Dense(n)(deep))))
    return keras.Model([numbers, category], L.Dense(2, activation="softmax")(L.concatenate([wide, L.BatchNormalization()(cross), deep])))


def tabtransformer():
    numbers, categories = keras.Input((3,), name="numbers"), words(4, "categories")
    x = embedded(categories, 8)
    for _ in range(2):
        attended = L.MultiHeadAttention(2, 8, dropout=DROPPED)(x, x)
        x = L.LayerNormalization(epsilon=1e-6)(L.Add()([attended, x]))
        x = L.LayerNormalization(epsilon=1e-6)(L.Add()([dense_stack(x, [8], "gelu"), x]))
    features = L.concatenate([L.Flatten()(x), L.LayerNormalization(epsilon=1e-6)(numbers)])
    for n in (8, 5):
        features = L.Dropout(DROPPED)(L.Dense(n, activation="selu")(L.BatchNormalization()(features)))
    return keras.Model([numbers, categories], L.Dense(1, activation="sigmoid")(features))


def deep_neural_decision_forests():
    """One tree of depth 2."""
    inputs = keras.Input((6,))
    decisions = ops.expand_dims(L.Dense(4, activation="sigmoid", name="decision")(L.BatchNormalization()(inputs)), 2)
    decisions = L.concatenate([decisions, 1 - decisions], axis=2)
    mu = ops.reshape(ops.ones_like(decisions[:, 0, 0]), (-1, 1, 1))
    for level, (begin, end) in enumerate(((1, 2), (2, 4))):
        mu = ops.tile(ops.reshape(mu, (-1, 2**level, 1)), (1, 1, 2)) * decisions[:, begin:end, :]
    return keras.Model(inputs, L.Dense(3, use_bias=False)(ops.reshape(mu, (-1, 4))))


def classification_with_grn_and_vsn():
    inputs = keras.Input((4,))

    def residual(x, units):
        y = L.Dropout(DROPPED)(L.Dense(units)(L.Dense(units, activation="elu")(x)))
        gated = L.Dense(units)(y) * L.Dense(units, activation="sigmoid")(y)
        return L.LayerNormalization()((x if x.shape[-1] == units else L.Dense(units)(x)) + gated)

    features = [L.Dense(5)(inputs[:, i : i + 1]) for i in range(4)]
    weights = ops.expand_dims(L.Dense(4, activation="softmax")(residual(L.concatenate(features), 5)), -1)
    chosen = ops.stack([residual(f, 5) for f in features], axis=1)
    x = ops.squeeze(ops.matmul(ops.transpose(weights, (0, 2, 1)), chosen), axis=1)
    return keras.Model(inputs, L.Dense(1, activation="sigmoid")(x))


def movielens_recommendations_transformers():
    movies, ratings, user = words(4, "movies"), keras.Input((4,), name="ratings"), words(1, "user")
    x = embedded(movies, 8) * ops.expand_dims(ratings, -1)
    y = L.LayerNormalization()(L.Add()([x, L.Dropout(DROPPED)(L.MultiHeadAttention(2, 8, dropout=DROPPED)(x, x))]))
    y = L.LayerNormalization()(L.Add()([y, L.Dense(8)(L.LeakyReLU()(y))]))
    features = L.concatenate([L.Flatten()(y), L.Flatten()(L.Embedding(WORDS, 3)(user))])
    for n in (6, 4):
        features = L.Dropout(DROPPED)(L.LeakyReLU()(L.BatchNormalization()(L.Dense(n)(features))))
    return keras.Model([movies, ratings, user], L.Dense(1)(features))


def two_towers():
    user, item = words(1, "user"), words(1, "item")
    tower = lambda ids: L.UnitNormalization()(L.Dense(4)(L.Dense(5, activation="relu")(L.Flatten()(L.Embedding(WORDS, 6)(ids)))))
    return keras.Model([user, item], L.Dot(axes=1)([tower(user), tower(item)]))


# Series of numbers

def timeseries_classification_from_scratch():
    x = inputs = keras.Input((12, 1))
    for _ in range(3):
        x = L.ReLU()(L.BatchNormalization()(L.Conv1D(4, 3, padding="same")(x)))
    return keras.Model(inputs, L.Dense(2, activation="softmax")(L.GlobalAveragePooling1D()(x)))


def timeseries_classification_transformer():
    x = inputs = keras.Input((8, 1))
    for _ in range(2):
        y = L.MultiHeadAttention(key_dim=4, num_heads=2, dropout=DROPPED)(x, x)
        y = L.LayerNormalization(epsilon=1e-6)(L.Dropout(DROPPED)(y))
        residual = y + x
        y = L.Dropout(DROPPED)(L.Conv1D(3, 1, activation="relu")(residual))
        x = L.LayerNormalization(epsilon=1e-6)(L.Conv1D(1, 1)(y)) + residual
    x = L.GlobalAveragePooling1D(data_format="channels_last")(x)
    return keras.Model(inputs, L.Dense(2, activation="softmax")(dense_stack(x, [5])))


def timeseries_anomaly_detection():
    options = {"padding": "same", "strides": 2, "activation": "relu"}
    return keras.Sequential([L.Input((16, 1)), L.Conv1D(5, 7, **options), L.Dropout(DROPPED), L.Conv1D(3, 7, **options),
                             L.Conv1DTranspose(3, 7, **options), L.Dropout(DROPPED), L.Conv1DTranspose(5, 7, **options),
                             L.Conv1DTranspose(1, 7, padding="same")])


def timeseries_weather_forecasting():
    inputs = keras.Input((6, 4))
    return keras.Model(inputs, L.Dense(1)(L.LSTM(5)(inputs)))


def timeseries_traffic_forecasting():
    """A graph convolution of each step's routes, then an LSTM for each route."""
    inputs, adjacency = keras.Input((5, 4, 1), name="speeds"), keras.Input((4, 4), name="adjacency")
    x = ops.transpose(inputs, (0, 2, 1, 3))
    nodes = L.Dense(3, use_bias=False)(x)
    neighbours = L.Dense(3, use_bias=False)(ops.einsum("bij,bjtf->bitf", adjacency, x))
    x = ops.relu(L.concatenate([nodes, neighbours]))
    x = L.Dense(2)(L.LSTM(4, activation="relu")(ops.reshape(x, (-1, 5, 6))))
    return keras.Model([inputs, adjacency], ops.transpose(ops.reshape(x, (-1, 4, 2)), (0, 2, 1)))


def eeg_signal_classification():
    x = inputs = keras.Input((16, 1))
    for filters in (4, 6):
        x = L.BatchNormalization()(L.Conv1D(filters, 3, strides=2, padding="same", activation="relu")(x))
    x = L.Dropout(DROPPED)(L.Flatten()(x))
    for n in (8, 5):
        regularized = L.Dense(n, activation="relu", kernel_regularizer=keras.regularizers.L2())
        x = L.LeakyReLU()(regularized(x))
    return keras.Model(inputs, L.Dense(3, activation="softmax")(x))


# Generative

def vae():
    images, noise = keras.Input((8, 8, 1), name="images"), keras.Input((2,), name="noise")
    x = L.Conv2D(4, 3, activation="relu", strides=2, padding="same")(images)
    x = L.Dense(5, activation="relu")(L.Flatten()(L.Conv2D(6, 3, activation="relu", strides=2, padding="same")(x)))
    mean, log_variance = L.Dense(2, name="z_mean")(x), L.Dense(2, name="z_log_var")(x)
    z = mean + ops.exp(0.5 * log_variance) * noise
    decoder = keras.Sequential([L.Input((2,)), L.Dense(2 * 2 * 4, activation="relu"), L.Reshape((2, 2, 4)),
                                L.Conv2DTranspose(4, 3, activation="relu", strides=2, padding="same"),
                                L.Conv2DTranspose(1, 3, activation="sigmoid", strides=2, padding="same")], name="decoder")
    divergence = -0.5 * ops.sum(1 + log_variance - ops.square(mean) - ops.exp(log_variance), axis=1)
    return keras.Model([images, noise], [decoder(z), divergence])


def vq_vae():
    inputs = keras.Input((8, 8, 1))
    x = L.Conv2D(3, 1, padding="same")(L.Conv2D(4, 3, activation="relu", strides=2, padding="same")(inputs))
    codes = L.Embedding(5, 3, name="codes")
    table = codes(ops.cast(positions_of(ops.reshape(x, (-1, 16, 3)))[:1, :5], "int32"))[0]
    flat = ops.reshape(x, (-1, 3))
    distances = ops.sum(flat**2, axis=1, keepdims=True) + ops.sum(table**2, axis=1) - 2 * ops.matmul(flat, ops.transpose(table))
    quantized = codes(ops.reshape(ops.argmin(distances, axis=1), (-1, 4, 4)))
    straight = x + ops.stop_gradient(quantized - x)
    return keras.Model(inputs, [L.Conv2DTranspose(1, 3, strides=2, padding="same")(straight), quantized])


def dcgan_overriding_train_step():
    discriminator = keras.Sequential([L.Input((8, 8, 1)), L.Conv2D(4, 4, strides=2, padding="same"), L.LeakyReLU(negative_slope=0.2),
                                      L.Flatten(), L.Dropout(DROPPED), L.Dense(1, activation="sigmoid")], name="discriminator")
    generator = keras.Sequential([L.Input((4,)), L.Dense(2 * 2 * 4), L.Reshape((2, 2, 4)), L.Conv2DTranspose(4, 4, strides=2, padding="same"),
                                  L.LeakyReLU(negative_slope=0.2), L.Conv2DTranspose(3, 4, strides=2, padding="same"),
                                  L.Conv2D(1, 5, padding="same", activation="sigmoid")], name="generator")
    noise, images = keras.Input((4,), name="noise"), keras.Input((8, 8, 1), name="images")
    return keras.Model([noise, images], [discriminator(generator(noise)), discriminator(images)])


def conditional_gan():
    noise, label = keras.Input((4,), name="noise"), keras.Input((3,), name="label")
    generator = keras.Sequential([L.Input((7,)), L.Dense(2 * 2 * 7), L.LeakyReLU(negative_slope=0.2), L.Reshape((2, 2, 7)),
                                  L.Conv2DTranspose(4, 4, strides=2, padding="same"), L.LeakyReLU(negative_slope=0.2),
                                  L.Conv2D(1, 3, padding="same", activation="sigmoid")], name="generator")
    image = generator(L.concatenate([noise, label]))
    planes = ops.repeat(ops.repeat(ops.reshape(label, (-1, 1, 1, 3)), 4, axis=1), 4, axis=2)
    discriminator = keras.Sequential([L.Input((4, 4, 4)), L.Conv2D(4, 3, strides=2, padding="same"), L.LeakyReLU(negative_slope=0.2),
                                      L.GlobalMaxPooling2D(), L.Dense(1)], name="discriminator")
    return keras.Model([noise, label], discriminator(L.concatenate([image, planes])))


def wgan_gp():
    """The critic."""
    inputs = keras.Input((10, 10, 1))
    x = L.ZeroPadding2D(2)(inputs)
    for filters, dropout in ((4, False), (6, True)):
        x = L.LeakyReLU(0.2)(L.Conv2D(filters, 5, strides=2, padding="same")(x))
        x = L.Dropout(DROPPED)(x) if dropout else x
    return keras.Model(inputs, L.Dense(1)(L.Dropout(DROPPED)(L.Flatten()(x))))


def cyclegan():
    """The generator: reflected borders, groups of one channel."""
    inputs = keras.Input((8, 8, 3))
    reflect = lambda x, n: ops.pad(x, ((0, 0), (n, n), (n, n), (0, 0)), mode="reflect")
    normalize = lambda x: L.GroupNormalization(groups=1)(x)
    x = L.Activation("relu")(normalize(L.Conv2D(4, 7, use_bias=False)(reflect(inputs, 3))))
    x = L.Activation("relu")(normalize(L.Conv2D(6, 3, strides=2, padding="same", use_bias=False)(x)))
    y = L.Activation("relu")(normalize(L.Conv2D(6, 3, use_bias=False)(reflect(x, 1))))
    x = L.add([x, normalize(L.Conv2D(6, 3, use_bias=False)(reflect(y, 1)))])
    x = L.Activation("relu")(normalize(L.Conv2DTranspose(4, 3, strides=2, padding="same", use_bias=False)(x)))
    return keras.Model(inputs, L.Activation("tanh")(L.Conv2D(3, 7)(reflect(x, 3))))


def ddim():
    """A U-Net that knows the noise's variance by sines and cosines."""
    images, variances = keras.Input((8, 8, 3), name="images"), keras.Input((1, 1, 1), name="variances")
    angles = [2.0 * math.pi * f * variances for f in (1.0, 4.0)]
    sines = ops.concatenate([ops.sin(a) for a in angles] + [ops.cos(a) for a in angles], axis=3)
    x = L.Concatenate()([L.Conv2D(4, 1)(images), L.UpSampling2D(8, interpolation="nearest")(sines)])

    def residual(x, width):
        shortcut = x if x.shape[3] == width else L.Conv2D(width, 1)(x)
        y = L.Conv2D(width, 3, padding="same", activation="swish")(L.BatchNormalization(center=False, scale=False)(x))
        return L.Add()([L.Conv2D(width, 3, padding="same")(y), shortcut])

    skip = x = residual(x, 4)
    x = residual(L.AveragePooling2D(2)(x), 6)
    x = residual(L.Concatenate()([L.UpSampling2D(2, interpolation="bilinear")(x), skip]), 4)
    return keras.Model([images, variances], L.Conv2D(3, 1, kernel_initializer="zeros")(x))


def real_nvp():
    """Coupling layers, and the logarithm of their determinant."""
    x = inputs = keras.Input((2,))
    log_det = 0.0
    for i in range(3):
        mask = np.array([[i % 2, 1 - i % 2]], "float64")
        kept = ops.multiply(x, mask)
        s = L.Dense(2, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.01))(L.Dense(4, activation="relu")(kept))
        s, t = ops.multiply(s, 1 - mask), L.Dense(2)(L.Dense(4, activation="relu")(kept))
        x = ops.multiply(x * ops.exp(s) + t, 1 - mask) + kept
        log_det = log_det + ops.sum(s, axis=1)
    return keras.Model(inputs, [x, log_det])


# Sounds, graphs, games

def speaker_recognition_using_cnn():
    x = inputs = keras.Input((16, 1))
    for filters, count in ((3, 2), (4, 3)):
        shortcut = L.Conv1D(filters, 1, padding="same")(x)
        for _ in range(count - 1):
            x = L.Activation("relu")(L.Conv1D(filters, 3, padding="same")(x))
        x = L.Activation("relu")(L.Add()([L.Conv1D(filters, 3, padding="same")(x), shortcut]))
        x = L.MaxPool1D(pool_size=2, strides=2)(x)
    x = L.Flatten()(L.AveragePooling1D(pool_size=3, strides=3)(x))
    return keras.Model(inputs, L.Dense(3, activation="softmax")(L.Dense(5, activation="relu")(x)))


def ctc_asr():
    inputs = keras.Input((12, 8))
    x = L.Reshape((-1, 8, 1))(inputs)
    x = L.ReLU()(L.BatchNormalization()(L.Conv2D(3, (5, 3), strides=(2, 2), padding="same", use_bias=False)(x)))
    x = L.ReLU()(L.BatchNormalization()(L.Conv2D(3, (3, 3), strides=(1, 2), padding="same", use_bias=False)(x)))
    x = L.Reshape((-1, 6))(x)
    for _ in range(2):
        recurrent = L.GRU(4, activation="tanh", recurrent_activation="sigmoid", use_bias=True, return_sequences=True, reset_after=True)
        x = L.Dropout(DROPPED)(L.Bidirectional(recurrent, merge_mode="concat")(x))
    x = L.Dropout(DROPPED)(L.ReLU()(L.Dense(8)(x)))
    return keras.Model(inputs, L.Dense(6, activation="softmax")(x))


def transformer_asr():
    sound, text = keras.Input((16, 4), name="sound"), words(5, "text")
    x = sound
    for _ in range(2):
        x = L.Conv1D(8, 3, strides=2, padding="same", activation="relu")(x)
    x = transformer_block(x, 2, 8)
    y = embedded(text, 8)
    y = L.LayerNormalization(epsilon=1e-6)(y + L.Dropout(DROPPED)(L.MultiHeadAttention(2, 8)(y, y, use_causal_mask=True)))
    y = L.LayerNormalization(epsilon=1e-6)(L.MultiHeadAttention(2, 8)(y, x) + y)
    y = L.LayerNormalization(epsilon=1e-6)(y + L.Dense(8)(L.Dense(8, activation="relu")(y)))
    return keras.Model([sound, text], L.Dense(WORDS)(y))


def gat_node_classification():
    """Attention over neighbours: an adjacency instead of a list of edges."""
    nodes, adjacency = keras.Input((5, 4), name="nodes"), keras.Input((5, 5), dtype="bool", name="adjacency")
    x = L.Dense(6, use_bias=False)(nodes)
    scores = ops.leaky_relu(L.Dense(1)(x) + ops.transpose(L.Dense(1)(x), (0, 2, 1)), 0.2)
    scores = ops.where(adjacency, ops.exp(ops.clip(scores, -2, 2)), 0.0)
    weights = scores / (ops.sum(scores, axis=-1, keepdims=True) + 1e-9)
    return keras.Model([nodes, adjacency], L.Dense(3)(ops.relu(ops.matmul(weights, x))))


def message_passing():
    """A graph's nodes, which a GRU cell updates by sums of messages; then attention over them."""
    nodes, adjacency = keras.Input((5, 4), name="nodes"), keras.Input((5, 5), name="adjacency")
    x, cell = nodes, L.GRU(4, name="update")
    for _ in range(2):
        messages = ops.matmul(adjacency, L.Dense(4)(x))
        x = ops.reshape(cell(ops.reshape(messages, (-1, 1, 4)), initial_state=ops.reshape(x, (-1, 4))), (-1, 5, 4))
    return keras.Model([nodes, adjacency], L.Dense(1, activation="sigmoid")(L.GlobalAveragePooling1D()(transformer_block(x, 2, 6))))


def actor_critic_cartpole():
    inputs = keras.Input((4,))
    common = L.Dense(8, activation="relu")(inputs)
    return keras.Model(inputs, [L.Dense(2, activation="softmax")(common), L.Dense(1)(common)])


def deep_q_network_breakout():
    frames = keras.Input((4, 20, 20))
    x = ops.transpose(frames, (0, 2, 3, 1))
    for filters, size, stride in ((4, 8, 4), (5, 2, 2)):
        x = L.Conv2D(filters, size, strides=stride, activation="relu")(x)
    return keras.Model(frames, L.Dense(4, activation="linear")(L.Dense(6, activation="relu")(L.Flatten()(x))))


def ddpg_pendulum():
    state, action = keras.Input((3,), name="state"), keras.Input((1,), name="action")
    y = L.Dense(5, activation="relu")(L.Dense(4, activation="relu")(state))
    merged = L.Concatenate()([y, L.Dense(5, activation="relu")(action)])
    return keras.Model([state, action], L.Dense(1)(dense_stack(merged, [6, 6])))


EXAMPLES = [
    mnist_convnet, image_classification_from_scratch, image_classification_with_vision_transformer, mlp_image_classification,
    fnet_image_classification, gmlp_image_classification, compact_convolutional_transformers, convmixer, swin_transformers, eanet,
    involution, oxford_pets_image_segmentation, unet, deeplabv3_plus, super_resolution_sub_pixel, edsr, zero_dce, autoencoder,
    captcha_ocr, ct_scans_3d, pointnet, siamese_contrastive, siamese_network, metric_learning, perceiver_image_classification, mobilevit,
    retinanet, keypoint_detection, video_classification, vivit, knowledge_distillation, bidirectional_lstm_imdb,
    text_classification_from_scratch, text_classification_with_transformer, lstm_seq2seq, neural_machine_translation_with_transformer,
    masked_language_modeling, text_generation_with_miniature_gpt, addition_rnn, ner_transformers, text_extraction_with_bert,
    semantic_similarity_with_bert, pretrained_word_embeddings, structured_data_classification, collaborative_filtering,
    wide_deep_cross_networks, tabtransformer, deep_neural_decision_forests, classification_with_grn_and_vsn,
    movielens_recommendations_transformers, two_towers, timeseries_classification_from_scratch, timeseries_classification_transformer,
    timeseries_anomaly_detection, timeseries_weather_forecasting, timeseries_traffic_forecasting, eeg_signal_classification, vae, vq_vae,
    dcgan_overriding_train_step, conditional_gan, wgan_gp, cyclegan, ddim, real_nvp, speaker_recognition_using_cnn, ctc_asr,
    transformer_asr, gat_node_classification, message_passing, actor_critic_cartpole, deep_q_network_breakout, ddpg_pendulum,
]
