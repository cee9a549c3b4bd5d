"""JAX on the CPU (XLA): each case one jitted function on device arrays; constant weights are closed over.
Threads by the environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..harness.case import Array, Case
from ..harness.peer import Peer, Prepared


class Jax(Peer):
    name = "jax"
    package = "jax"

    def start(self, threads: int) -> None:
        """The number of threads is read at the first use: ``harness.peer.environment`` has set it for this
        process."""

    def unsupported(self, case: Case) -> str | None:
        return None if case.op in OPERATORS else f"no {case.op}"

    def prepare(self, case: Case, arrays: dict[str, Array]) -> Prepared:
        operator, params = OPERATORS[case.op], dict(case.params)
        inputs = [jax.device_put(arrays[a.name]) for a in case.arguments if not a.constant]
        weights = [jax.device_put(arrays[a.name]) for a in case.arguments if a.constant]
        compute = jax.jit(lambda *xs: operator(*xs, *weights, **params))

        def run() -> None:
            compute(*inputs).block_until_ready()

        run()
        return Prepared(run, lambda: np.asarray(compute(*inputs)))


def conv2d(data: Any, weight: Any, bias: Any, *, stride: int, padding: int, groups: int) -> Any:
    out = jax.lax.conv_general_dilated(
        data,
        weight,
        (stride, stride),
        [(padding, padding)] * 2,
        feature_group_count=groups,
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
    )
    return jax.nn.relu(out + bias[:, None, None])


def layer_norm(x: Any, scale: Any, shift: Any, *, epsilon: float) -> Any:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + epsilon) * scale + shift


def batch_norm_relu(x: Any, mean: Any, variance: Any, scale: Any, shift: Any, *, epsilon: float) -> Any:
    factor = scale * jax.lax.rsqrt(variance + epsilon)
    return jax.nn.relu(x * factor[:, None, None] + (shift - mean * factor)[:, None, None])


def attention(q: Any, k: Any, v: Any) -> Any:
    """By heads; JAX's own function takes tokens before heads."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v)


OPERATORS: dict[str, Callable[..., Any]] = {
    "matmul": lambda a, b: a @ b,
    "matmul_int8": lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.int32),
    "conv2d": conv2d,
    "attention": attention,
    "softmax": lambda x, axis: jax.nn.softmax(x, axis=axis),
    "layer_norm": layer_norm,
    "batch_norm_relu": batch_norm_relu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "einsum": lambda a, b, subscripts: jnp.einsum(subscripts, a, b),
    "sum_last": lambda x, axis: x.sum(axis),
    "sum_first": lambda x, axis: x.sum(axis),
    "max_last": lambda x, axis: x.max(axis),
    "max_first": lambda x, axis: x.max(axis),
    "transpose": lambda x: x.T,
    "chain": lambda x, a, b: jax.nn.relu(x * a + b) * 0.5,
}
