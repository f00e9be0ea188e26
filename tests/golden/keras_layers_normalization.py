"""Writes keras_layers_normalization.json: BatchNormalization, LayerNormalization and the others."""

import keras
import numpy as np
from keras import layers
from keras_layer_cases import case, write

L2 = keras.regularizers.L2(0.01)

for training in (False, True):
    mode = "training" if training else "inference"
    case(f"rows_{mode}", layers.BatchNormalization(), (5, 3), training=training)
    case(f"images_{mode}", layers.BatchNormalization(), (3, 4, 5, 2), training=training, free=(1, 2))
    case(f"channels_first_{mode}", layers.BatchNormalization(axis=1), (3, 2, 4, 3), training=training)
    case(f"sequences_{mode}", layers.BatchNormalization(momentum=0.9, epsilon=1e-5), (4, 5, 3), training=training)
    case(f"volumes_{mode}", layers.BatchNormalization(axis=-1), (2, 2, 3, 2, 3), training=training)
    case(f"middle_axis_{mode}", layers.BatchNormalization(axis=2), (3, 4, 2, 3), training=training)
    case(f"without_scale_{mode}", layers.BatchNormalization(scale=False), (4, 3), training=training)
    case(f"without_center_{mode}", layers.BatchNormalization(center=False), (4, 3), training=training)
    case(f"bare_{mode}", layers.BatchNormalization(center=False, scale=False), (4, 3), training=training)
    case(f"float64_{mode}", layers.BatchNormalization(dtype="float64"), (4, 2, 3), training=training)
case("one_row", layers.BatchNormalization(), (1, 3), training=True)
case("regularized", layers.BatchNormalization(gamma_regularizer=L2, beta_regularizer="l1"), (4, 3), training=True)
frozen = layers.BatchNormalization()
frozen.trainable = False
case("frozen", frozen, (4, 3), training=True)
MASK = np.array([[0, 1, 1, 0], [1, 1, 0, 1], [1, 0, 0, 0]])
case("masked", layers.BatchNormalization(), (3, 4, 2), training=True, masks=[MASK])
case("masked_inference", layers.BatchNormalization(), (3, 4, 2), masks=[MASK])
case("masked_float64", layers.BatchNormalization(dtype="float64"), (3, 4, 2), training=True, masks=[MASK])
case("masked_all", layers.BatchNormalization(), (3, 4, 2), training=True, masks=[MASK * 0])

case("rows", layers.LayerNormalization(), (4, 5), free=())
case("images", layers.LayerNormalization(), (2, 3, 4, 5), free=(1, 2))
case("axes", layers.LayerNormalization(axis=[1, 2]), (2, 3, 4))
case("axes_unsorted", layers.LayerNormalization(axis=(3, 1)), (2, 3, 2, 4))
case("first_axis", layers.LayerNormalization(axis=1, epsilon=1e-5), (2, 3, 4))
case("no_scale", layers.LayerNormalization(scale=False), (2, 4))
case("no_center", layers.LayerNormalization(center=False, gamma_regularizer=L2), (2, 4))
case("float64", layers.LayerNormalization(dtype="float64"), (2, 3, 4))
case("masked", layers.LayerNormalization(), (3, 4, 2), masks=[MASK])

case("two_groups", layers.GroupNormalization(groups=2), (3, 4, 6), free=(1,))
case("images", layers.GroupNormalization(groups=3, epsilon=1e-5), (2, 3, 2, 6))
case("rows", layers.GroupNormalization(groups=2), (3, 6))
case("instance", layers.GroupNormalization(groups=-1), (2, 5, 3))
case("one_group", layers.GroupNormalization(groups=1, scale=False), (2, 5, 3))
case("channels_first", layers.GroupNormalization(groups=2, axis=1, center=False), (2, 4, 3, 3))
case("middle_axis", layers.GroupNormalization(groups=2, axis=-2), (2, 3, 4, 3))
case("float64", layers.GroupNormalization(groups=2, dtype="float64"), (2, 3, 4))
case("masked", layers.GroupNormalization(groups=1), (3, 4, 2), masks=[MASK])

case("rows", layers.RMSNormalization(), (3, 4))
case("sequences", layers.RMSNormalization(epsilon=1e-3), (2, 3, 4), free=(1,))
case("axes", layers.RMSNormalization(axis=[-2, -1]), (2, 3, 4))
case("float64", layers.RMSNormalization(dtype="float64"), (2, 3, 4))

case("rows", layers.UnitNormalization(), (3, 4))
case("axes", layers.UnitNormalization(axis=[1, 2]), (2, 3, 4), free=(1,))
case("zeros", layers.UnitNormalization(), np.array([[0.0, 0.0], [3.0, 4.0]], "float32"), gradients=False)
case("masked", layers.UnitNormalization(), (3, 4, 2), masks=[MASK])

write("normalization")
