"""Layers that compute in bfloat16 and keep weights in float32 -> keras_layers_mixed_bfloat16.json."""

from keras_layer_mixed import cases, write  # isort: skip

cases("mixed_bfloat16")
write("mixed_bfloat16", tolerance=0.04)   # 5 steps of 8 bits
