"""Rows in another size are held, a plane at a time, where several rows of the result read them."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule

TARGET = "llvm -mcpu=haswell -mtriple=x86_64-linux-gnu -num-cores=2"


def larger(shape, size, mode, **how):
    x = te.placeholder(shape, name="x")
    return x, ops.resample(x, size=size, axes=(len(shape) - 2, len(shape) - 1), mode=mode, **how)


def stages(out):
    s = default_schedule(out, TARGET)
    return [x.name for x in s.stages if x.op.tag == "resize" and x.state.attach not in (None, "inlined")]


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize(
    ("shape", "size"),
    [((2, 9, 5, 7), (13, 19)), ((1, 8, 16, 16), (32, 32)), ((1, 6, 3, 33), (10, 70)), ((5, 4, 1, 1), (4, 4))],
    ids=str,
)
def test_values_are_those_of_the_definition(shape, size, mode):
    x, y = larger(shape, size, mode)
    a = np.random.default_rng(0).standard_normal(shape).astype("float32")
    want = te.reference.evaluate(y, {x: a})[0]
    np.testing.assert_allclose(tl.compile([x, y])(a), want, rtol=1e-5, atol=1e-6)


def test_open_sizes_and_what_follows():
    n, h, w = (te.dim(d) for d in "nhw")
    x = te.placeholder((n, 16, h, w), name="x")
    z = te.placeholder((n, 16, h * 3, w * 3), name="z")
    y = ops.relu(ops.add(ops.resample(x, scales=(3.0, 3.0), axes=(2, 3), mode="linear"), z))
    assert stages(y)
    f = tl.compile([x, z, y])
    rng = np.random.default_rng(0)
    for shape in ((1, 16, 5, 4), (3, 16, 1, 9), (2, 16, 17, 33)):
        a = rng.standard_normal(shape).astype("float32")
        b = rng.standard_normal((*shape[:2], 3 * shape[2], 3 * shape[3])).astype("float32")
        own = te.placeholder(shape, name="own")
        large = ops.resample(own, scales=(3.0, 3.0), axes=(2, 3), mode="linear")
        want = np.maximum(te.reference.evaluate(large, {own: a})[0] + b, 0)
        np.testing.assert_allclose(f(a, b), want, rtol=1e-5, atol=1e-6)


def test_rows_are_held_where_they_are_read_again():
    assert stages(larger((1, 32, 16, 16), (32, 32), "linear")[1])
    assert stages(larger((1, 32, 16, 16), (79, 79), "nearest")[1])


@pytest.mark.parametrize(
    ("shape", "size", "mode"),
    [
        ((1, 32, 64, 64), (32, 32), "linear"),  # of which every second one would be for nobody
        ((1, 32, 16, 16), (32, 32), "nearest"),  # vectors that repeat
        ((1, 32, 24, 24), (79, 79), "nearest"),  # as they are, and read three times only
        ((1, 2, 700, 700), (1400, 1400), "linear"),  # planes that no cache near holds
    ],
)
def test_rows_that_are_not(shape, size, mode):
    assert not stages(larger(shape, size, mode)[1])
