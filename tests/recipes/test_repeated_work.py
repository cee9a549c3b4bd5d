"""No default schedule computes an element more than twice, wherever a reader looks: every kind of heavy
operator, read at its own place and somewhere else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tensorlang import ops, te
from tensorlang.recipes import default_schedule

N = 24


def _in(*shape: int) -> te.Tensor:
    return te.placeholder(shape, name="A")


HEAVY: dict[str, Callable[[], te.Tensor]] = {
    "matmul": lambda: ops.matmul(_in(N, 16), te.placeholder((16, N), name="B")),
    "softmax": lambda: ops.softmax(_in(N, N), axis=-1),
    "keepdims": lambda: ops.sum(_in(N, N), axis=1, keepdims=True) + te.placeholder((N, N), name="B"),
    "cumsum": lambda: ops.cumsum(_in(N, N), axis=1),
    "conv2d": lambda: ops.reshape(
        ops.conv2d(_in(1, 4, N + 2, N + 2), te.placeholder((1, 4, 3, 3), name="W")), (N, N)
    ),
    "sum of rows": lambda: ops.sum(_in(N, N, N), axis=2),
    "sum of columns": lambda: ops.sum(_in(N, N, N), axis=0),
    "max_pool2d": lambda: ops.reshape(ops.max_pool2d(_in(1, 1, 2 * N, 2 * N), 2, 2), (N, N)),
    "argmax": lambda: ops.argmax(_in(N, N, N), axis=2),
    "layer_norm": lambda: ops.layer_norm(_in(N, N), N),
    "logsumexp": lambda: ops.logsumexp(_in(N, N, N), axis=2),
}
READ: dict[str, Callable[[te.Tensor, Any, Any], Any]] = {
    "transposed": lambda c, i, j: c[j, i],
    "flipped": lambda c, i, j: c[i, N - 1 - j],
    "first row": lambda c, i, j: c[0, j],
    "first column": lambda c, i, j: c[i, 0],
    "diagonal": lambda c, i, j: c[j, j],
    "rolled": lambda c, i, j: c[i, (j + 5) % N],
    "enlarged": lambda c, i, j: c[i // 2, j // 2],
    "symmetric": lambda c, i, j: te.select(i > j, c[i, j], c[j, i]),
    "row above": lambda c, i, j: te.if_then_else(i > 0, c[te.max(i - 1, 0), j], 0),
}


@pytest.mark.parametrize("heavy", HEAVY)
def test_an_element_read_elsewhere_is_computed_once(heavy: str) -> None:
    for name, read in READ.items():
        for beside in (True, False):
            c = HEAVY[heavy]()
            body = lambda i, j, c=c, read=read, beside=beside: (c[i, j] if beside else 0) + read(c, i, j)
            tree = str(default_schedule(te.compute((N, N), body, name="D")).tree())
            times = [float(x) for x in re.findall(r"each element ([\d.]+) times", tree)]
            assert max(times, default=0) <= 2, f"{heavy}, {name}, beside={beside}\n{tree}"
