"""Small computations in which one reduction feeds another, with what they should give: the search has to take
them all. Knows ``ops``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import ops, te

Tensors = list[te.Tensor]
EPS = float(np.finfo(np.float32).eps)


def p(*shape: int, dtype: str = "float32", name: str = "X") -> te.Tensor:
    """An input."""
    return te.placeholder(shape, dtype, name=name)


def image() -> te.Tensor:
    return p(1, 5, 9, 11, name="image")


def taps(f: int, c: int, size: int = 3, name: str = "taps") -> te.Tensor:
    return p(f, c, size, size, name=name)


def _two_products() -> Tensors:
    a, b, c = p(13, 21, name="A"), p(21, 37, name="B"), p(37, 18, name="C")
    return [a, b, c, ops.matmul(ops.matmul(a, b), c)]


def _right_operand() -> Tensors:
    a, b, c = p(9, 13, name="A"), p(13, 21, name="B"), p(21, 37, name="C")
    return [a, b, c, ops.matmul(a, ops.matmul(b, c))]


def _relu_between() -> Tensors:
    a, b, c = p(13, 21, name="A"), p(21, 37, name="B"), p(37, 18, name="C")
    return [a, b, c, ops.matmul(ops.relu(ops.matmul(a, b)), c)]


def _mlp() -> Tensors:
    x, w, v, b = p(33, 20, name="x"), p(50, 20, name="w"), p(24, 50, name="v"), p(50, name="b")
    return [x, w, b, v, ops.dense(ops.dense(x, w, b, activation=ops.relu), v)]


def _scores() -> Tensors:
    q, k = p(2, 19, 16, name="q"), p(2, 23, 16, name="k")
    return [q, k, ops.softmax(ops.batch_matmul(q, k, transpose_b=True))]


def _softmax_of_product() -> Tensors:
    x, w = p(20, 33, name="x"), p(33, 40, name="w")
    return [x, w, ops.softmax(ops.matmul(x, w))]


def _normed() -> Tensors:
    x, w = p(20, 33, name="x"), p(33, 40, name="w")
    return [x, w, ops.layer_norm(ops.matmul(x, w), 40)]


def _residual_norm() -> Tensors:
    x, w, r = p(20, 33, name="x"), p(33, 40, name="w"), p(20, 40, name="r")
    return [x, w, r, ops.layer_norm(ops.add(r, ops.matmul(x, w)), 40)]


def _attention() -> Tensors:
    q, k, v = (p(1, 2, 19, 16, name=n) for n in "qkv")
    return [q, k, v, ops.scaled_dot_product_attention(q, k, v)]


def _conv_conv() -> Tensors:
    x, a, b = image(), taps(6, 5, name="a"), taps(7, 6, name="b")
    return [x, a, b, ops.conv2d(ops.relu(ops.conv2d(x, a, padding=1)), b, padding=1)]


def _conv_residual() -> Tensors:
    x, a, r = image(), taps(6, 5, name="a"), p(1, 6, 9, 11, name="r")
    return [x, a, r, ops.relu(ops.add(ops.conv2d(x, a, padding=1), r))]


def _conv_broadcast_bias() -> Tensors:
    x, a, b = image(), taps(6, 5, name="a"), p(1, 6, 1, 1, name="b")
    return [x, a, b, ops.add(ops.conv2d(x, a, padding=1), b)]


def _winograd() -> Tensors:
    x, a = image(), taps(6, 5, name="a")
    return [x, a, ops.conv2d_winograd(x, a, padding=1)]


def _blur() -> Tensors:
    x = p(18, 26, name="x")
    dy, dx = te.reduce_axis((0, 3), name="dy"), te.reduce_axis((0, 3), name="dx")
    down = te.compute((16, 26), lambda i, j: te.sum(x[i + dy, j], axis=dy), name="down")
    return [x, te.compute((16, 24), lambda i, j: te.sum(down[i, j + dx], axis=dx), name="across")]


def _sum_of_product() -> Tensors:
    a, b = p(13, 21, name="A"), p(21, 37, name="B")
    return [a, b, ops.sum(ops.matmul(a, b), axis=1)]


def _column_sums_of_product() -> Tensors:
    a, b = p(13, 21, name="A"), p(21, 37, name="B")
    return [a, b, ops.sum(ops.matmul(a, b), axis=0)]


def _lstm_cell() -> Tensors:
    x, h, w, v = p(8, 12, name="x"), p(8, 10, name="h"), p(64, 12, name="w"), p(64, 10, name="v")
    a, b = ops.split(ops.add(ops.dense(x, w), ops.dense(h, v)), 2, axis=1)
    return [x, h, w, v, ops.multiply(ops.relu(a), b)]


def _swiglu() -> Tensors:
    x, w, u, v = p(12, 16, name="x"), p(40, 16, name="w"), p(40, 16, name="u"), p(16, 40, name="v")
    return [x, w, u, v, ops.dense(ops.multiply(ops.relu(ops.dense(x, w)), ops.dense(x, u)), v)]


MADE: dict[str, tuple[Callable[[], Tensors], bool]] = {  # and whether small integers make the result exact
    "two products": (_two_products, True),
    "right operand": (_right_operand, True),
    "relu between": (_relu_between, True),
    "mlp": (_mlp, True),
    "scores": (_scores, False),
    "softmax of product": (_softmax_of_product, False),
    "normed": (_normed, False),
    "residual and norm": (_residual_norm, False),
    "attention": (_attention, False),
    "conv conv": (_conv_conv, True),
    "conv residual": (_conv_residual, True),
    "conv broadcast bias": (_conv_broadcast_bias, True),
    "winograd": (_winograd, False),
    "blur": (_blur, True),
    "sum of product": (_sum_of_product, True),
    "column sums of product": (_column_sums_of_product, True),
    "lstm cell": (_lstm_cell, True),
    "swiglu": (_swiglu, True),
}
NAMES = tuple(MADE)


class Oracle:
    """Inputs of small integers for a computation, and whether a schedule of it gives what numpy says."""

    def __init__(self, tensors: Tensors, exact: bool, seed: int = 0) -> None:
        self.tensors, self.exact = tensors, exact
        rng = np.random.default_rng(seed)
        inputs = [t for t in tensors if isinstance(t.op, te.PlaceholderOp)]
        self.inputs = {
            t: rng.integers(0 if t.dtype.code == "int" else -4, 5, [int(str(e)) for e in t.shape]).astype(
                t.dtype.to_numpy()
            )
            for t in inputs
        }
        self.right = te.reference.evaluate([t for t in tensors if t not in self.inputs], self.inputs)

    def differs(self, s: tl.Schedule) -> float:
        """The greatest difference beyond what rounding explains; 0 when all is well."""
        got: Any = tl.build(s, self.tensors)(*self.inputs.values())
        worst = 0.0
        for g, r in zip(got if isinstance(got, tuple) else (got,), self.right, strict=True):
            off = np.abs(g.astype(np.float64) - r.astype(np.float64))
            bound = 0.0 if self.exact else 256 * EPS * max(1.0, float(np.abs(r).max(initial=0.0)))
            worst = max(worst, float((off * (off > bound)).max(initial=0.0)))
        return worst


def made(name: str) -> tuple[Tensors, Oracle]:
    """A computation by name, with its oracle."""
    make, exact = MADE[name]
    tensors = make()
    return tensors, Oracle(tensors, exact)
