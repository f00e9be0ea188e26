"""SGD with momentum and Adam on trees of arrays: init(params) -> state, update(params, state, grads) -> both."""

import jax
import jax.numpy as jnp

import peer


def sgd_init(params):
    return jax.tree.map(jnp.zeros_like, params)


def sgd(params, momentum, grads):
    momentum = jax.tree.map(lambda m, g: peer.SGD["momentum"] * m + g, momentum, grads)
    return jax.tree.map(lambda p, m: p - peer.SGD["learning_rate"] * m, params, momentum), momentum


def adam_init(params):
    zeros = jax.tree.map(jnp.zeros_like, params)
    return zeros, jax.tree.map(jnp.zeros_like, params), jnp.zeros((), jnp.int32)


def adam(params, state, grads):
    m, v, t = state
    t = t + 1
    b1, b2 = peer.ADAM["beta_1"], peer.ADAM["beta_2"]
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, m, grads)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, v, grads)
    rate = peer.ADAM["learning_rate"] * jnp.sqrt(1 - b2**t) / (1 - b1**t)
    params = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + peer.ADAM["epsilon"]), params, m, v)
    return params, (m, v, t)
