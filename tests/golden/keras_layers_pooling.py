"""Pooling layers of real Keras -> keras_layers_pooling.json."""

from keras_layer_cases import case, write  # isort: skip
import numpy as np
from keras import layers

for kind in ("Max", "Average"):
    P1, P2, P3 = (getattr(layers, f"{kind}Pooling{n}D") for n in (1, 2, 3))
    name = kind.lower()
    case(f"{name}1d", P1(2), (2, 7, 3), free=(1,))
    case(f"{name}1d_same", P1(3, strides=2, padding="same"), (2, 6, 3), free=(1,))
    case(f"{name}1d_same_even", P1(4, strides=1, padding="same"), (2, 7, 3))
    case(f"{name}1d_channels_first", P1(2, data_format="channels_first"), (2, 3, 6))
    case(f"{name}2d", P2((2, 2)), (2, 6, 7, 3), free=(1, 2))
    case(f"{name}2d_overlapping", P2(3, strides=2), (2, 7, 8, 2))
    case(f"{name}2d_same", P2(3, strides=2, padding="same"), (1, 6, 7, 2), free=(1,))
    case(f"{name}2d_same_even", P2((2, 4), strides=1, padding="same"), (1, 5, 6, 2))
    case(f"{name}2d_same_mixed", P2((5, 2), strides=(3, 1), padding="same"), (1, 7, 5, 2))
    case(f"{name}2d_same_gaps", P2(1, strides=3, padding="same"), (1, 7, 5, 2))
    case(f"{name}2d_channels_first", P2(2, strides=1, padding="same", data_format="channels_first"), (1, 2, 4, 5))
    case(f"{name}3d", P3(2), (1, 4, 3, 6, 2), free=(1, 2, 3))
    case(f"{name}3d_same", P3((3, 2, 2), strides=(2, 1, 2), padding="same"), (1, 4, 3, 5, 2))

    G1, G2, G3 = (getattr(layers, f"Global{kind}Pooling{n}D") for n in (1, 2, 3))
    case(f"global_{name}1d", G1(), (2, 5, 3), free=(1,))
    case(f"global_{name}1d_channels_first", G1(data_format="channels_first", keepdims=True), (2, 5, 3))
    case(f"global_{name}2d", G2(), (2, 4, 3, 5), free=(1, 2))
    case(f"global_{name}2d_keepdims", G2(keepdims=True), (2, 4, 3, 5))
    case(f"global_{name}2d_channels_first", G2(data_format="channels_first"), (2, 3, 4, 5))
    case(f"global_{name}3d", G3(), (2, 2, 4, 3, 2), free=(1,))

    A1, A2, A3 = (getattr(layers, f"Adaptive{kind}Pooling{n}D") for n in (1, 2, 3))
    case(f"adaptive_{name}1d", A1(3), (2, 8, 2))
    case(f"adaptive_{name}1d_larger", A1(5), (2, 3, 2))
    case(f"adaptive_{name}2d", A2((3, 2)), (1, 7, 5, 2))
    case(f"adaptive_{name}2d_channels_first", A2(2, data_format="channels_first"), (1, 2, 5, 4))
    case(f"adaptive_{name}3d", A3(2), (1, 3, 5, 4, 2))

mask = np.array([[1, 1, 0, 0, 1], [1, 0, 0, 0, 0]])
case("global_average1d_mask", layers.GlobalAveragePooling1D(), (2, 5, 3), masks=[mask])
case("global_average1d_mask_keepdims", layers.GlobalAveragePooling1D(keepdims=True), (2, 5, 3), masks=[mask])
write("pooling")
