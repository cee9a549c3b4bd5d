"""Row operators and movers at sizes where the default schedule splits, vectorises and shares out among
threads, odd in every dimension."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import exact, near, sample, whole

ops = tl.ops
ROWS, COLUMNS = 257, 1031


def _softmax(r, axis):
    e = np.exp(r - r.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _normal(r, axis):
    return (r - r.mean(axis, keepdims=True)) / np.sqrt(r.var(axis, keepdims=True) + 1e-5)


EXACT = {
    "sum": (ops.sum, np.sum),
    "max": (ops.max, np.max),
    "min": (ops.min, np.min),
    "argmax": (ops.argmax, np.argmax),
    "argmin": (ops.argmin, np.argmin),
    "any": (ops.any, np.any),
    "all": (ops.all, np.all),
    "cumsum": (ops.cumsum, np.cumsum),
    "flip": (ops.flip, np.flip),
    "repeat": (lambda x, axis: ops.repeat(x, 2, axis), lambda a, axis: np.repeat(a, 2, axis)),
    "concatenate": (
        lambda x, axis: ops.concatenate([x, x], 0 if axis is None else axis),
        lambda a, axis: np.concatenate([a, a], 0 if axis is None else axis),
    ),
    "pad": (
        lambda x, axis: ops.pad(x, 3, "reflect" if axis else "constant"),
        lambda a, axis: np.pad(a, 3, "reflect" if axis else "constant"),
    ),
}


@pytest.mark.each_value
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("name", EXACT)
def test_exact(name, axis):
    declare, numpys = EXACT[name]
    a = whole((ROWS, COLUMNS), "float32", 1)
    x = te.placeholder(a.shape, name="x")
    out = declare(x, axis=axis)
    exact(tl.compile([x, out])(a), numpys(a, axis=axis), str(out.dtype))


@pytest.mark.parametrize("axis", [0, 1])
def test_rows(axis):
    a = sample((ROWS, COLUMNS), "float32", 2)
    x = te.placeholder(a.shape, name="x")
    r = a.astype("float64")
    run = {
        name: tl.compile([x, out])(a)
        for name, out in (
            ("softmax", ops.softmax(x, axis)),
            ("log_softmax", ops.log_softmax(x, axis)),
            ("layer_norm", ops.layer_norm(x, axis=axis)),
            ("var", ops.var(x, axis)),
            ("mean", ops.mean(x, axis)),
            ("logsumexp", ops.logsumexp(x, axis)),
        )
    }
    # sums of a thousand numbers one after the other are off by at most a thousand halves of an ulp
    near(run["softmax"], _softmax(r, axis), "float32", 600)
    near(run["log_softmax"], np.log(_softmax(r, axis)), "float32", 8, 2.0**-13)
    near(run["layer_norm"], _normal(r, axis), "float32", 600, 2.0**-13)
    near(run["var"], r.var(axis), "float32", 600)
    near(run["mean"], r.mean(axis), "float32", 8, 2.0**-12)
    near(run["logsumexp"], np.log(np.exp(r).sum(axis)), "float32", 8, 2.0**-13)


def test_images():
    a, p = sample((2, 12, 33, 65), "float32", 3), sample((12,), "float32", 4)
    x, w = te.placeholder(a.shape, name="x"), te.placeholder((12,), name="w")
    got = tl.compile([x, w, ops.group_norm(x, 3, w)])(a, p)
    want = _normal(a.astype("float64").reshape(2, 3, -1), 2).reshape(a.shape) * p[:, None, None]
    near(got, want, "float32", 600, 2.0**-10)
    variance = np.abs(p) + np.float32(1)
    got = tl.compile([x, w, ops.relu(ops.batch_norm(x, w, ops.add(ops.abs(w), 1.0), w, w))])(a, p)
    scale = p / np.sqrt(variance.astype("float64") + 1e-5)
    want = np.maximum((a - p[:, None, None].astype("float64")) * scale[:, None, None] + p[:, None, None], 0)
    near(got, want, "float32", 4, 2.0**-17)


def test_views():
    a = sample((63, 33, 129), "float32", 5)
    x = te.placeholder(a.shape, name="x")
    exact(tl.compile([x, ops.transpose(x, (2, 0, 1))])(a), a.transpose(2, 0, 1), "float32")
    exact(tl.compile([x, ops.transpose(x)])(a), a.T, "float32")
    exact(tl.compile([x, ops.reshape(x, (33 * 3, 21 * 129))])(a), a.reshape(99, -1), "float32")
    exact(tl.compile([x, ops.tile(x, (1, 2, 1))])(a), np.tile(a, (1, 2, 1)), "float32")
    exact(
        tl.compile([x, ops.strided_slice(x, (None, 1, -1), (None, None, None), (1, 2, -1))])(a),
        a[:, 1::2, ::-1],
        "float32",
    )
