"""softmax and log_softmax against numpy in float64, along every axis, with huge numbers, and by their
stages."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import FLOATS, compiled, near, real, sample

ops = tl.ops


def softmax(r, axis):
    e = np.exp(r - r.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(r, axis):
    s = r - r.max(axis, keepdims=True)
    return s - np.log(np.exp(s).sum(axis, keepdims=True))


@pytest.mark.each_value
@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize(
    ("shape", "axis"), [((17,), 0), ((3, 33), -1), ((17, 3), 0), ((3, 17, 5), 1), ((5, 1), 1), ((3, 130), 1)]
)
def test_softmax(t, shape, axis):
    a = sample(shape, t, 4)
    x = te.placeholder(shape, t, name="x")
    got, logs = compiled([ops.softmax(x, axis), ops.log_softmax(x, axis)], {x: a})
    r = real(a, t)
    # exp and the quotient round, the argument of exp (below 32 in size) carries half an ulp of itself, sums
    # an ulp for each level
    near(got, softmax(r, axis), t, 1 if t in ("float16", "bfloat16") else 24)
    near(
        logs,
        log_softmax(r, axis),
        t,
        1 if t in ("float16", "bfloat16") else 4,
        2.0**-50 if t == "float64" else 2.0**-21,
    )


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_one_kernel_for_all_sizes(name, axis):
    n, m = te.var("n"), te.dim("m", 1, 100)
    x = te.placeholder((n, m), name="x")
    kernel = tl.compile([x, getattr(ops, name)(x, axis)])
    for shape in ((1, 1), (3, 17), (33, 3), (17, 33)):
        a = sample(shape, "float32", sum(shape))
        near(kernel(a), globals()[name](a.astype("float64"), axis), "float32", 24, 2.0**-21)


def test_nothing_overflows():
    a = np.array([[1e4, 1e4 - 1, -1e4], [-1e38, -1e38, -np.inf], [88.8, 89.0, 200.0]], "float32")
    x = te.placeholder(a.shape, name="x")
    got, logs = compiled([ops.softmax(x), ops.log_softmax(x)], {x: a})
    r = a.astype("float64")
    near(got, softmax(r, 1), "float32", 4, 1e-38)
    near(logs, log_softmax(r, 1), "float32", 4)


def test_stages_are_there_for_recipes():
    x = te.placeholder((3, 17), name="x")
    out = ops.softmax(x)
    grown, total = out.op.input_tensors
    assert [t.op.name for t in (out, grown, total)] == ["softmax", "softmax.exp", "softmax.sum"]
    assert out.op.tag == "softmax" and out.op.attrs["axis"] == 1 and total.op.tag == "reduce"
    assert total.op.input_tensors == (grown,)  # exp is computed once, and summed from there


def test_it_is_torchs():
    torch = pytest.importorskip("torch")
    a = sample((17, 33), "float32")
    x = te.placeholder(a.shape, name="x")
    for name in ("softmax", "log_softmax"):
        want = getattr(torch.nn.functional, name)(torch.from_numpy(a).double(), dim=0).numpy()
        near(compiled(getattr(ops, name)(x, axis=0), {x: a}), want, "float32", 24, 2.0**-21)


@pytest.mark.parametrize(("t", "low"), [("float32", -100), ("float64", -720)])
def test_weights_too_small_for_all_digits_are_zero(t, low):
    """A mask of -100 leaves nothing, and no number below the least normal one, of which products are slow."""
    a = np.array([[0, 1, low], [low, low, low], [np.nan, 0, low], [-np.inf, 0, low]], t)
    x = te.placeholder(a.shape, t, name="x")
    got = compiled([ops.softmax(x, 1)], {x: a})
    assert np.array_equal(got[:, 2], np.array([0, 1 / 3, np.nan, 0], t), equal_nan=True)
    rows = [0, 1, 3]
    near(got[rows, :2], softmax(a[rows].astype("float64"), 1)[:, :2], t, 24)
