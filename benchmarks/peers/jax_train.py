"""jax-1 of the models of suite step: JAX on one core. --mode step: one jitted step a call, dispatched ahead from
Python; --mode scan: K steps inside one jitted call. --bf16 1: dense's and the transformer's arithmetic in bfloat16."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import peer  # noqa: E402

args = peer.arguments(("--mode", "step"), ("--bf16", 0), cases=peer.MODELS)

import functools  # noqa: E402

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import jax_models  # noqa: E402
import jax_updates  # noqa: E402

xs, ys = peer.read_rows(args.case, args.data)
xs = jnp.asarray(xs.astype("int32") if xs.dtype == "int64" else xs)
ys = jnp.asarray(ys.astype("int32"))
pool = len(xs)
params, statistics, forward = jax_models.make(args.case, xs.shape[2], jnp.bfloat16 if args.bf16 else jnp.float32)
peer.say_size(sum(p.size for p in jax.tree.leaves(params)))
if args.case == "resnet20":
    update, slots = jax_updates.sgd, jax_updates.sgd_init(params)
else:
    update, slots = jax_updates.adam, jax_updates.adam_init(params)


def loss_of(params, statistics, x, y):
    logits, statistics = forward(params, statistics, x)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], axis=-1)
    return -jnp.mean(chosen), statistics


def one_step(state, x, y):
    params, statistics, slots = state
    (loss, statistics), grads = jax.value_and_grad(loss_of, has_aux=True)(params, statistics, x, y)
    params, slots = update(params, slots, grads)
    return (params, statistics, slots), loss


@functools.partial(jax.jit, donate_argnums=0)
def step(state, x, y):
    return one_step(state, x, y)


@functools.partial(jax.jit, donate_argnums=0)
def many(state, xs, ys, start, count):
    def body(i, carry):
        at = (start + i) % xs.shape[0]
        return one_step(carry[0], xs[at], ys[at])

    return jax.lax.fori_loop(0, count, body, (state, jnp.float32(0)))


state = (params, statistics, slots)
batches = [(xs[i], ys[i]) for i in range(pool)]
at = 0


def steps(count):
    global state, at
    if args.mode == "scan":
        state, loss = many(state, xs, ys, at, count)
        at = (at + count) % pool
    else:
        for _ in range(count):
            state, loss = step(state, *batches[at])
            at = (at + 1) % pool
    return jax.block_until_ready(loss)


peer.serve(f"jax {jax.__version__}", steps)
