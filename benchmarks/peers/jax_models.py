"""The models of suite step's cases dense, transformer, lstm and resnet20 in JAX. `make` returns parameters, the
statistics that a step moves on (of batch normalization), and forward(params, statistics, x) -> logits, statistics."""

import jax
import jax.numpy as jnp

import peer


class Weights:
    """Initial values, one key after the other."""

    def __init__(self):
        self.key = jax.random.PRNGKey(1)

    def next(self):
        self.key, key = jax.random.split(self.key)
        return key

    def glorot(self, *shape):
        receptive = 1
        for n in shape[:-2]:
            receptive *= n
        limit = (6.0 / (receptive * (shape[-2] + shape[-1]))) ** 0.5
        return jax.random.uniform(self.next(), shape, jnp.float32, -limit, limit)

    def small(self, *shape):
        return jax.random.uniform(self.next(), shape, jnp.float32, -0.05, 0.05)

    def linear(self, inputs, outputs):
        return {"w": self.glorot(inputs, outputs), "b": jnp.zeros(outputs)}

    def scale(self, n):
        return {"scale": jnp.ones(n), "shift": jnp.zeros(n)}


def linear(p, x):
    return x @ p["w"].astype(x.dtype) + p["b"].astype(x.dtype)


def layer_norm(p, x):
    wide = x.astype(jnp.float32)
    mean = wide.mean(-1, keepdims=True)
    variance = jnp.square(wide - mean).mean(-1, keepdims=True)
    return ((wide - mean) * jax.lax.rsqrt(variance + peer.EPSILON) * p["scale"] + p["shift"]).astype(x.dtype)


def dense(sizes, dtype):
    weights = Weights()
    params = [weights.linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])]

    def forward(params, statistics, x):
        x = x.astype(dtype)
        for p in params[:-1]:
            x = jax.nn.relu(linear(p, x))
        return linear(params[-1], x).astype(jnp.float32), statistics

    return params, (), forward


def transformer(tokens, dtype, *, width, heads, depth):
    weights = Weights()

    def block():
        return {
            "qkv": weights.linear(width, 3 * width),
            "out": weights.linear(width, width),
            "wide": weights.linear(width, 4 * width),
            "narrow": weights.linear(4 * width, width),
            "norm1": weights.scale(width),
            "norm2": weights.scale(width),
        }

    params = {
        "words": weights.small(peer.WORDS, width),
        "positions": weights.small(tokens, width),
        "blocks": [block() for _ in range(depth)],
        "head": weights.linear(width, peer.WORDS),
    }

    def forward(params, statistics, words):
        x = (params["words"][words] + params["positions"]).astype(dtype)
        for p in params["blocks"]:
            q, k, v = jnp.split(linear(p["qkv"], x).reshape(*x.shape[:2], 3 * heads, -1), 3, axis=2)
            y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
            x = layer_norm(p["norm1"], x + linear(p["out"], y.reshape(x.shape)))
            y = linear(p["narrow"], jax.nn.gelu(linear(p["wide"], x), approximate=False))
            x = layer_norm(p["norm2"], x + y)
        return linear(params["head"], x).astype(jnp.float32), statistics

    return params, (), forward


def lstm(*, embedding, units, classes):
    weights = Weights()
    params = {
        "words": weights.small(peer.WORDS, embedding),
        "input": weights.linear(embedding, 4 * units),
        "recurrent": weights.glorot(units, 4 * units),
        "head": weights.linear(units, classes),
    }

    def forward(params, statistics, words):
        x = linear(params["input"], params["words"][words].swapaxes(0, 1))  # all steps in one product

        def step(state, x):
            h, c = state
            i, f, g, o = jnp.split(x + h @ params["recurrent"], 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zeros = jnp.zeros((words.shape[0], units))
        (h, _), _ = jax.lax.scan(step, (zeros, zeros), x)
        return linear(params["head"], h), statistics

    return params, (), forward


def resnet20():
    weights = Weights()
    plan = [(3, 16, 3, 1)]  # inputs, outputs, kernel, stride of each convolution
    blocks, inputs = [], 16
    for stage, outputs in enumerate((16, 32, 64)):
        for block in range(3):
            stride = 2 if stage > 0 and block == 0 else 1
            blocks.append((len(plan), inputs != outputs))
            plan += [(inputs, outputs, 3, stride), (outputs, outputs, 3, 1)]
            if inputs != outputs:
                plan.append((inputs, outputs, 1, stride))
            inputs = outputs
    params = {
        "convolutions": [{"w": weights.glorot(k, k, a, b), **weights.scale(b)} for a, b, k, _ in plan],
        "head": weights.linear(64, 10),
    }
    statistics = [(jnp.zeros(b), jnp.ones(b)) for _, b, _, _ in plan]

    def forward(params, statistics, x):
        moved = list(statistics)

        def convolution(at, x):
            p, stride = params["convolutions"][at], plan[at][3]
            layout = ("NHWC", "HWIO", "NHWC")
            x = jax.lax.conv_general_dilated(x, p["w"], (stride, stride), "SAME", dimension_numbers=layout)
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
            old = statistics[at]
            moved[at] = (0.9 * old[0] + 0.1 * mean, 0.9 * old[1] + 0.1 * variance)
            return (x - mean) * (jax.lax.rsqrt(variance + peer.EPSILON) * p["scale"]) + p["shift"]

        x = jax.nn.relu(convolution(0, x))
        for at, projects in blocks:
            y = convolution(at + 1, jax.nn.relu(convolution(at, x)))
            x = jax.nn.relu(y + (convolution(at + 2, x) if projects else x))
        return linear(params["head"], x.mean((1, 2))), moved

    return params, statistics, forward


def make(case, tokens, dtype):
    """@param tokens  Of a row of words. @param dtype  Of arithmetic; weights are float32."""
    if case == "transformer":
        return transformer(tokens, dtype, **peer.TRANSFORMER)
    if case == "lstm":
        return lstm(**peer.LSTM)
    if case == "resnet20":
        return resnet20()
    return dense(peer.MLP_SIZES[case], dtype)
