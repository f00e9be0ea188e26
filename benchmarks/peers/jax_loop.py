"""jax-1: JAX on one core. --mode step: one jitted step a call, dispatched ahead from Python;
--mode scan: K steps inside one jitted call. The better one counts."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import peer  # noqa: E402

args = peer.arguments(("--mode", "step"))

import functools  # noqa: E402

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import jax_updates  # noqa: E402

images = args.case == "cnn-loop"
xs, ys = peer.read_pool(args.data, peer.BATCH[args.case])
if images:
    xs = xs.reshape(-1, peer.BATCH[args.case], 28, 28, 1)
pool = len(xs)
xs, ys = jnp.asarray(xs), jnp.asarray(ys.astype("int32"))


def glorot(key, shape):
    receptive = 1
    for n in shape[:-2]:
        receptive *= n
    limit = (6.0 / (receptive * (shape[-2] + shape[-1]))) ** 0.5
    return jax.random.uniform(key, shape, jnp.float32, -limit, limit)


if images:
    shapes = [(3, 3, 1, 32), (3, 3, 32, 64), (12 * 12 * 64, 128), (128, 10)]
else:
    sizes = peer.MLP_SIZES[args.case]
    shapes = list(zip(sizes[:-1], sizes[1:]))
keys = jax.random.split(jax.random.PRNGKey(1), len(shapes))
params = [(glorot(k, s), jnp.zeros(s[-1])) for k, s in zip(keys, shapes)]


def conv(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def forward(params, x):
    if not images:
        for w, b in params[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = params[-1]
        return x @ w + b
    for w, b in params[:2]:
        x = jax.nn.relu(conv(x, w) + b)
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(x.shape[0], -1)
    (w3, b3), (w4, b4) = params[2:]
    return jax.nn.relu(x @ w3 + b3) @ w4 + b4


def loss_of(params, x, y):
    logits = jax.nn.log_softmax(forward(params, x))
    return -jnp.mean(jnp.take_along_axis(logits, y[:, None], axis=1))


if images:
    update, state = jax_updates.sgd, jax_updates.sgd_init(params)
else:
    update, state = jax_updates.adam, jax_updates.adam_init(params)


def one_step(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    params, state = update(params, state, grads)
    return params, state, loss


@functools.partial(jax.jit, donate_argnums=(0, 1))
def step(params, state, x, y):
    return one_step(params, state, x, y)


@functools.partial(jax.jit, donate_argnums=(0, 1))
def many(params, state, xs, ys, start, count):
    def body(i, carry):
        params, state, _ = carry
        at = (start + i) % xs.shape[0]
        return one_step(params, state, xs[at], ys[at])

    return jax.lax.fori_loop(0, count, body, (params, state, jnp.float32(0)))


batches = [(xs[i], ys[i]) for i in range(pool)]
at = 0


def steps(count):
    global params, state, at
    if args.mode == "scan":
        params, state, loss = many(params, state, xs, ys, at, count)
        at = (at + count) % pool
    else:
        for _ in range(count):
            params, state, loss = step(params, state, *batches[at])
            at = (at + 1) % pool
    return jax.block_until_ready(loss)


peer.serve(f"jax {jax.__version__}", steps)
