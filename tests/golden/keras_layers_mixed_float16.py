"""Layers that compute in float16 and keep weights in float32 -> keras_layers_mixed_float16.json."""

from keras_layer_mixed import cases, write  # isort: skip

cases("mixed_float16")
write("mixed_float16", tolerance=0.01)   # 10 steps of 11 bits: attention sums what Keras rounds
