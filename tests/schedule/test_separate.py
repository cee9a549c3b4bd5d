"""s.separate: windows reduced in two passes, bit for bit, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te

RNG = np.random.default_rng(4)


def bare(reducer=te.max, begin=0):
    """Windows of 3 × 4 of a plane, their taps from ``begin`` on, two rows and three columns apart."""
    A = te.placeholder((12, 25), name="A")
    i, j = te.reduce_axis((0, 3), name="i"), te.reduce_axis((begin, begin + 4), name="j")
    B = te.compute((5, 6), lambda y, x: reducer(A[2 * y + i, 3 * x + 2 * j + 1], axis=[i, j]), name="B")
    return [A, B], j


def of_volume():
    V = te.placeholder((1, 2, 7, 8, 9), name="V")
    C = ops.max_pool3d(V, 3, 2)
    return [V, C], C.op.reduce_axis[-1]


def of_halves():
    A = te.placeholder((1, 3, 9, 9), "float16", name="A")
    B = ops.avg_pool2d(A, 3, 2)
    total = B.op.input_tensors[0]
    return [A, B, total], total.op.reduce_axis[-1]


PROGRAMS = {
    "maxima": bare,
    "sums": lambda: bare(te.sum),
    "products": lambda: bare(te.prod),
    "taps that begin at 1": lambda: bare(te.sum, 1),
    "volumes": of_volume,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_passes_give_the_same_bits(name):
    (A, B), j = PROGRAMS[name]()
    s = te.create_schedule(B.op)
    part = s.separate(B, j)
    assert len(s[B].op.reduce_axis) == 1 and len(part.op.reduce_axis) == len(B.op.reduce_axis) - 1
    x = RNG.integers(-3, 4, [int(str(n)) for n in A.shape]).astype("float32")
    (right,) = te.reference.evaluate([B], {A: x})
    assert np.array_equal(tl.build(s, [A, B])(x), right)


def test_the_partial_results_are_as_wide_as_the_windows_reach():
    (_, B), j = bare()
    s = te.create_schedule(B.op)
    assert str(s.separate(B, j)) == "Tensor(B.part: float32[5, 22])"


@pytest.mark.parametrize("stride", [1, 2, 5])
def test_open_sizes(stride):
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    i, j = te.reduce_axis((0, 3), name="i"), te.reduce_axis((0, 4), name="j")
    B = te.compute(
        ((n - 3) // stride + 1, (m - 4) // stride + 1),
        lambda y, x: te.max(A[stride * y + i, stride * x + j], axis=[i, j]),
        name="B",
    )
    s = te.create_schedule(B.op)
    s.separate(B, j)
    f = tl.build(s, [A, B])
    for shape in [(3, 4), (3, 31), (17, 4), (5, 8), (23, 37)]:
        x = RNG.integers(-9, 9, shape).astype("float32")
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 4))[::stride, ::stride]
        assert np.array_equal(f(x), windows.max((2, 3)))


def test_halves_are_summed_in_float32_in_both_passes():
    (A, B, total), j = of_halves()
    s = te.create_schedule(B.op)
    assert s.separate(total, j).dtype.name == "float32"
    x = RNG.integers(-3, 4, (1, 3, 9, 9)).astype("float16")
    (right,) = te.reference.evaluate([B], {A: x})
    assert np.array_equal(tl.build(s, [A, B])(x), right)


def test_nan_wins_in_both_passes():
    (A, B), j = bare()
    s = te.create_schedule(B.op)
    s.separate(B, j)
    x = RNG.standard_normal((12, 25)).astype("float32")
    x[4, 7] = np.nan
    (right,) = te.reference.evaluate([B], {A: x})
    assert np.isnan(right).any()
    assert np.array_equal(tl.build(s, [A, B])(x), right, equal_nan=True)


def test_traces_and_python_text_replay():
    tensors, j = bare()
    s = te.create_schedule(tensors[-1].op)
    part = s.separate(tensors[-1], j)
    s[part].vectorize(s[part].split(s[part].op.axis[1], 8)[1])
    text = str(tl.lower(s, tensors))
    again = tl.Trace.from_json(s.trace.to_json()).apply(te.create_schedule(tensors[-1].op))
    assert str(tl.lower(again, tensors)) == text
    names: dict = {}
    exec(s.trace.to_python(), names)
    assert str(tl.lower(names["apply"](te.create_schedule(tensors[-1].op)), tensors)) == text


def weighted():
    A, W = te.placeholder((9, 9), name="A"), te.placeholder((3, 3), name="W")
    i, j = te.reduce_axis((0, 3), name="i"), te.reduce_axis((0, 3), name="j")
    return te.compute((7, 7), lambda y, x: te.sum(A[y + i, x + j] * W[i, j], axis=[i, j]), name="B"), j


def conditional():
    C = ops.adaptive_max_pool2d(te.placeholder((1, 2, 7, 7), name="A"), 3)
    return C, C.op.reduce_axis[-1]


def along_a_row():
    A, j = te.placeholder((9,), name="A"), te.reduce_axis((0, 3), name="j")
    return te.compute((7,), lambda x: te.sum(A[x + j], axis=j), name="B"), j


def open_window():
    A, n = te.placeholder((9, te.var("n")), name="A"), te.var("m")
    i, j = te.reduce_axis((0, 3), name="i"), te.reduce_axis((0, n), name="j")
    return te.compute((7, 7), lambda y, x: te.sum(A[y + i, x + j], axis=[i, j]), name="B"), j


def skewed():
    A = te.placeholder((9, 20), name="A")
    i, j = te.reduce_axis((0, 3), name="i"), te.reduce_axis((0, 3), name="j")
    return te.compute((7, 7), lambda y, x: te.sum(A[y + i, x + y + j], axis=[i, j]), name="B"), j


def begun():
    (_, B), j = bare()
    return B, j


REFUSED = {
    "weights": (weighted, "j does not move one index"),
    "parts of unequal size": (conditional, "has a condition"),
    "one axis": (along_a_row, "reduces along no other axis"),
    "an open size": (open_window, "is not known"),
    "two axes in one index": (skewed, "one axis of the result alone"),
    "begun": (begun, "its schedule is begun"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_two_passes_is_refused_and_nothing_changed(name):
    make, reason = REFUSED[name]
    B, j = make()
    s = te.create_schedule(B.op)
    if name == "begun":
        s[B].split(s[B].op.axis[0], 2)
    steps = s.trace.to_json()
    with pytest.raises(tl.ScheduleError, match=reason):
        s.separate(B, j)
    assert s.trace.to_json() == steps


def test_a_data_loop_is_refused():
    (_, B), _ = bare()
    s = te.create_schedule(B.op)
    with pytest.raises(tl.ScheduleError, match="nothing to separate"):
        s.separate(B, B.op.axis[0])
