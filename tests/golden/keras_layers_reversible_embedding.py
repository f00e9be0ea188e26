"""ReversibleEmbedding of real Keras -> keras_layers_reversible_embedding.json."""

from keras_layer_cases import case, write  # isort: skip
import numpy as np
from keras import layers

E = layers.ReversibleEmbedding
tokens = np.array([[1, 5, 0], [0, 2, 5]], "int32")
case("forward", E(6, 3), tokens)
case("forward_mask", E(6, 3, mask_zero=True), tokens)
case("forward_untied", E(6, 3, tie_weights=False), tokens)
back = {"call": {"reverse": True}}
case("back", E(6, 3), (2, 4, 3), **back)
case("back_mask", E(6, 3, mask_zero=True), (2, 3), **back)
case("back_untied", E(6, 3, tie_weights=False, embeddings_regularizer="l2"), (2, 4, 3), **back)
case("back_capped", E(6, 3, logit_soft_cap=0.5), (2, 4, 3), **back)
case("back_dtype", E(6, 3, reverse_dtype="float32"), (2, 4, 3), **back)
write("reversible_embedding")
