"""Elements by their place, against numpy: triangles, unit matrices, blocks of images, hard_max."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import compiled, exact, sample

ops = tl.ops


@pytest.mark.parametrize("t", ["float32", "int64", "bool"])
def test_triangles(t):
    a, k = sample((2, 5, 7), t), np.array([-1], "int64")
    x, at = te.placeholder(a.shape, t, name="x"), te.placeholder((1,), "int64", name="at")
    diagonals = (-9, -2, 0, 1, 9)
    outs = [f(x, d) for d in diagonals for f in (ops.tril, ops.triu)]
    got = compiled([*outs, ops.tril(x, at), ops.triu(x, at)], {x: a, at: k})
    want = [f(a, d) for d in (*diagonals, -1) for f in (np.tril, np.triu)]
    for g, w in zip(got, want, strict=True):
        exact(g, w, t)


def test_eye():
    n = te.dim("n", 1, 9)
    x = te.placeholder((n,), name="x")
    got = tl.compile([x, ops.eye(4), ops.eye(3, 5, 1, "int32"), ops.multiply(ops.eye(n, n, -1), x)])(
        np.ones(6, "float32")
    )
    exact(got[0], np.eye(4), "float32")
    exact(got[1], np.eye(3, 5, 1), "int32")
    exact(got[2], np.eye(6, 6, -1), "float32")


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_and_back(mode):
    n, h = te.dim("n", 1, 4), te.dim("h", 1, 8)
    a = sample((2, 12, 3, 5), "float32")
    x = te.placeholder((n, 12, h, 5), name="x")
    y = ops.depth_to_space(x, 2, mode)
    got, back = compiled([y, ops.space_to_depth(y, 2, mode)], {x: a})
    parts = (
        a.reshape(2, 2, 2, 3, 3, 5)
        if mode == "DCR"
        else a.reshape(2, 3, 2, 2, 3, 5).transpose(0, 2, 3, 1, 4, 5)
    )
    exact(got, parts.transpose(0, 3, 4, 1, 5, 2).reshape(2, 3, 6, 10), "float32")
    exact(back, a, "float32")


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("t", ["float32", "int8"])
def test_hard_max(t, axis):
    a = np.round(sample((3, 4, 5), t))
    x = te.placeholder(a.shape, t, name="x")
    best = np.expand_dims(a.argmax(axis), axis)
    want = np.zeros_like(a)
    np.put_along_axis(want, best, 1, axis)
    exact(compiled(ops.hard_max(x, axis), {x: a}), want, t)


def test_counting_between_sizes():
    n = te.dim("n", 1, 9)
    x = te.placeholder((n,), name="x")
    f = tl.compile(
        [x, ops.arange(n), ops.arange(2, n, 3), ops.arange(n, 0, -2, "int32"), ops.tile(x, (2, n - 1))]
    )
    for size in (1, 5, 9):
        a = np.arange(size).astype("float32")
        got = f(a)
        exact(got[0], np.arange(size), "int64")
        exact(got[1], np.arange(2, size, 3), "int64")
        exact(got[2], np.arange(size, 0, -2), "int32")
        exact(got[3], np.tile(a, (2, size - 1)), "float32")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.tril(ops.flatten(x)), "2 at least are needed"),
        (lambda x: ops.triu(x, 1.5), "a Python int is needed"),
        (lambda x: ops.triu(x, x), "one whole number"),
        (lambda x: ops.depth_to_space(x, 2), "is not a multiple of 4"),
        (lambda x: ops.depth_to_space(x, 2, "RDC"), "'DCR', 'CRD'"),
        (lambda x: ops.space_to_depth(x, 0), "1 is the least"),
        (lambda x: ops.space_to_depth(ops.flatten(x), 2), "4 are needed"),
        (lambda x: ops.arange(te.var("n"), step=0), "step is 0"),
    ],
)
def test_refusals(call, text):
    with pytest.raises(tl.DeclareError, match=text):
        call(te.placeholder((1, 6, 4, 4), name="x"))
