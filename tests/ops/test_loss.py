"""Losses against their formulas in float64, with weights, what is left out, and all reductions."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import compiled, near, real, sample

ops = tl.ops


def nll(x, target, weight, reduction, ignore):
    """By loops."""
    total, weights, each = 0.0, 0.0, np.zeros(target.shape)
    for at in np.ndindex(target.shape):
        c = target[at]
        w = 0.0 if c == ignore else 1.0 if weight is None else weight[c]
        each[at] = 0.0 if c == ignore else -x[(*at[:1], c, *at[1:])] * w
        total, weights = total + each[at], weights + w
    return each if reduction == "none" else total if reduction == "sum" else total / weights


@pytest.mark.parametrize("ignore", [None, 2, -100])
@pytest.mark.parametrize("name", ["nll_loss", "cross_entropy"])
def test_reductions(name, ignore):
    n = te.dim("n", 1, 8)
    a, w = sample((3, 5, 2, 4), "float32"), np.abs(sample((5,), "float32", 1))
    c = np.random.default_rng(3).integers(0, 5, (3, 2, 4))
    if ignore == -100:
        c[0] = -100
    x, at, v = (
        te.placeholder((n, 5, 2, 4), name="x"),
        te.placeholder((n, 2, 4), "int64", name="at"),
        te.placeholder((5,), name="v"),
    )
    ways = [(r, weight) for r in ("none", "sum", "mean") for weight in (None, v)]
    outs = [getattr(ops, name)(x, at, weight, r, ignore) for r, weight in ways]
    got = compiled(outs, {x: a, at: c, v: w})
    logs = a.astype("float64")
    if name == "cross_entropy":
        logs = logs - np.log(np.exp(logs).sum(1, keepdims=True))
    for (r, weight), g in zip(ways, got, strict=True):
        near(g, nll(logs, c, None if weight is None else w.astype("float64"), r, ignore), "float32", 40, 1e-5)


def test_one_row_and_half_floats():
    a = sample((7,), "float16")
    x, at = te.placeholder((7,), "float16", name="x"), te.placeholder((), "int32", name="at")
    near(
        compiled(ops.nll_loss(x, at), {x: a, at: np.array(3, "int32")}), -real(a, "float16")[3], "float16", 0
    )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, c, w: ops.nll_loss(x, c, w, "average"), "'none', 'sum', 'mean'"),
        (lambda x, c, w: ops.nll_loss(x, x), "integers are needed"),
        (lambda x, c, w: ops.cross_entropy(c, c), "floats are needed"),
        (lambda x, c, w: ops.nll_loss(x, ops.expand_dims(c, 1)), "every dimension of x but the classes"),
        (lambda x, c, w: ops.nll_loss(ops.transpose(x), c), "is 3, 5 is needed"),
        (lambda x, c, w: ops.nll_loss(x, c, te.placeholder((3,))), "is 3, 5 is needed"),
    ],
)
def test_refusals(call, text):
    x, c, w = te.placeholder((3, 5)), te.placeholder((3,), "int64"), te.placeholder((5,))
    with pytest.raises(tl.DeclareError, match=text):
        call(x, c, w)
