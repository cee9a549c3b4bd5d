"""Convolutions with open heights and widths: every tile is right for every size, whatever follows or
precedes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlang as tl
from autosched.dynamic.families.conv import schedules_of
from tensorlang import ops, te
from tests.autosched.dynamic.computations import least_of, whole


def conv(n, h, w, outputs=24, stride=1, padding=1, relu=False):
    x, k = te.placeholder((n, 3, h, w), name="X"), te.placeholder((outputs, 3, 3, 3), name="K")
    y = ops.conv2d(x, k, stride=stride, padding=padding)
    return [x, k, ops.relu(y) if relu else y]


def opened(*more):
    """The same with an open batch, height and width, the width at least what it is asked to be."""
    return lambda least: conv(
        te.dim("n", 1, 3), te.dim("h", 3, 40), te.dim("w", least.get("w", 3), 40), *more
    )


@pytest.mark.parametrize(
    ("outputs", "stride", "padding", "relu"),
    [(24, 1, 1, False), (8, 1, 1, True), (17, 2, 1, False), (32, 1, 0, True)],
)
def test_every_tile_is_right(outputs, stride, padding, relu):
    found = list(schedules_of(opened(outputs, stride, padding, relu), tl.Target.host(), [], 2))
    assert len(found) >= 3
    rng = np.random.default_rng(0)
    kernels = {f.name: tl.build(f.schedule, f.tensors) for f in found}
    served = 0
    for n, h, w in itertools.product((1, 2), (3, 9), (3, 7, 8, 17, 33)):
        fixed = conv(n, h, w, outputs, stride, padding, relu)
        x, k = whole(rng, n, 3, h, w), whole(rng, outputs, 3, 3, 3)
        want = te.reference.evaluate(fixed[-1:], {fixed[0]: x, fixed[1]: k})[0]
        for name, kernel in kernels.items():
            if least_of(kernel, "w") <= w:
                assert (kernel(x, k) == want).all(), (name, n, h, w)
                served += 1
    assert served > 10 * len(kernels)


@pytest.mark.parametrize("threads", [1, 2])
def test_pixels_are_counted_over_the_ends_of_rows(threads):
    """Every small image, the last tile of which has any number of pixels."""

    def stated(least):
        return conv(
            te.dim("n", 1, 3),
            te.dim("h", max(1, least.get("h", 1)), 40),
            te.dim("w", max(1, least.get("w", 1)), 40),
            24,
            1,
            1,
            True,
        )

    found = [f for f in schedules_of(stated, tl.Target.host(), [], threads) if "of a row" not in f.name]
    assert len(found) == 2 * threads
    rng = np.random.default_rng(0)
    kernels = {f.name: tl.build(f.schedule, f.tensors) for f in found}
    for h, w in itertools.product(range(1, 8), repeat=2):
        fixed = conv(2, h, w, 24, 1, 1, True)
        x, k = whole(rng, 2, 3, h, w), whole(rng, 24, 3, 3, 3)
        want = te.reference.evaluate(fixed[-1:], {fixed[0]: x, fixed[1]: k})[0]
        for name, kernel in kernels.items():
            assert least_of(kernel, "w") == least_of(kernel, "h") == 1
            assert (kernel(x, k) == want).all(), (name, h, w)


def test_nothing_leaks_from_other_pixels():
    rng = np.random.default_rng(0)
    x, k = whole(rng, 1, 3, 9, 13), whole(rng, 24, 3, 3, 3)
    for f in schedules_of(opened(), tl.Target.host(), [], 1):
        kernel = tl.build(f.schedule, f.tensors)
        clean = kernel(x, k)
        poisoned = x.copy()
        poisoned[0, 1, 4, 12] = np.nan
        near = np.zeros((9, 13), bool)
        near[3:6, 11:] = True
        got = kernel(poisoned, k)
        assert (got[0][:, ~near] == clean[0][:, ~near]).all() and np.isnan(got[0][:, near]).all()


def test_other_computations_have_no_such_schedule():
    x = te.placeholder((te.dim("m"), 8), name="X")
    assert not list(schedules_of(lambda least: [x, ops.softmax(x)], tl.Target.host(), [], 1))
    a = te.placeholder((te.dim("n"), 8, te.dim("h"), te.dim("w")), name="A")
    grouped = [a, k := te.placeholder((8, 4, 3, 3), name="K"), ops.conv2d(a, k, padding=1, groups=2)]
    assert not list(schedules_of(lambda least: grouped, tl.Target.host(), [], 1))
