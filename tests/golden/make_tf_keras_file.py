#!/usr/bin/env python3
"""Writes keras_files_tf_keras.keras with tf-keras, the Keras 2 of TensorFlow before 2.16.

    pip install --no-deps "tf-keras==2.21.*"
    python3 make_tf_keras_file.py
"""
import pathlib

import tf_keras as keras

model = keras.Sequential([keras.layers.InputLayer((4,)), keras.layers.Dense(3, name="hidden"),
                          keras.layers.BatchNormalization(), keras.layers.Dense(2, use_bias=False)], name="old")
model.compile("adam", "mse")
model.optimizer.build(model.trainable_variables)
model.save(pathlib.Path(__file__).parent / "keras_files_tf_keras.keras")
