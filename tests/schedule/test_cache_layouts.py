"""cache_write of a stage whose loops were cut or fused before: the cache lies as the loops run, padded where
a split does not divide."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.errors import ScheduleError
from tests.fuzz.harness import run


def scaled(m, n):
    A = te.placeholder((m, n), name="A")
    return A, te.compute((m, n), lambda i, j: A[i, j] * 2 + j, name="C")


def summed(m, n):
    A, k = te.placeholder((m, n), name="A"), te.reduce_axis((0, 3), name="k")
    return A, te.compute((m, n), lambda i, j: te.sum(A[i, j] * (k + 1), axis=k), name="C")


def uneven(st, i, j):
    outer, inner = st.split(i, 4)
    st.reorder(j, outer, inner)


def parts(st, i, j):
    st.split(j, nparts=4)


def inner_cut_again(st, i, j):
    st.split(st.split(j, 6)[1], 4)


def outer_cut_again(st, i, j):
    st.split(st.split(j, 3)[0], 3)


def fused(st, i, j):
    st.fuse(i, j)


def fused_and_cut(st, i, j):
    st.split(st.fuse(i, j), 9)


def cut_fused_and_cut(st, i, j):
    st.split(st.fuse(st.split(i, 3)[1], j), 7)


def shifted(st, i, j):
    st.split(i, 4, tail="shift")


def beyond(st, i, j):
    st.split(i, 64)


CUTS = {  # each with the shape of the cache of (7, 10)
    uneven: (10, 2, 4),
    parts: (7, 4, 3),
    inner_cut_again: (7, 2, 2, 4),
    outer_cut_again: (7, 2, 3, 3),
    fused: (70,),
    fused_and_cut: (8, 9),
    cut_fused_and_cut: (3, 5, 7),
    shifted: (2, 4, 10),
    beyond: (1, 7, 10),
}


@pytest.mark.parametrize("compute", [scaled, summed])
@pytest.mark.parametrize("cut", CUTS)
def test_a_cache_lies_as_the_loops_run(compute, cut):
    A, C = compute(7, 10)
    s = te.create_schedule(C.op)
    cut(s[C], *C.op.axis)
    cache = s.cache_write(C, "local")
    assert cache.shape == CUTS[cut]
    if compute is summed:
        s[cache].compute_at(s[C], C.op.axis[0])
    run([A, C], [C], {"A": (-9, 9)}, s, [{}])


SIZES = [{"m": 7, "n": 10}, {"m": 1, "n": 1}, {"m": 8, "n": 12}, {"m": 0, "n": 3}, {"m": 3, "n": 0}]


@pytest.mark.parametrize(
    ("compute", "cut"),
    [(scaled, fused_and_cut), (summed, uneven), (summed, inner_cut_again), (summed, cut_fused_and_cut)],
)
def test_of_open_sizes(compute, cut):
    A, C = compute(te.var("m"), te.var("n"))
    s = te.create_schedule(C.op)
    cut(s[C], *C.op.axis)
    s.cache_write(C, "local")
    run([A, C], [C], {"A": (-9, 9)}, s, SIZES)


def test_a_size_known_to_divide_is_not_padded():
    A, C = summed(te.var("m") * 4, te.var("n"))
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], 4)
    s.cache_write(C, "local")
    assert "if " not in str(tl.lower(s, [A, C]))


def test_both_results_of_one_reduction():
    """The padding of each holds its own initial value."""
    high = te.comm_reducer(
        lambda x, y: (te.max(x[0], y[0]), te.min(x[1], y[1])),
        lambda t, u: (te.min_value(t), te.max_value(u)),
        name="high",
    )
    A, k = te.placeholder((7, 6), name="A"), te.reduce_axis((0, 6), "k")
    top = te.compute((7,), lambda i: high((A[i, k], -A[i, k]), axis=k), "top")
    s = te.create_schedule(top[0].op)
    s[top[0]].split(top[0].op.axis[0], 4)
    first, second = s.cache_write(list(top), "local")
    assert first.shape == second.shape == (2, 4)
    a = np.random.default_rng(0).integers(-9, 9, (7, 6)).astype("float32")
    results = [np.zeros(7, "float32"), np.zeros(7, "float32")]
    tl.build(s, [A, *top])(a, *results)
    assert np.array_equal(results, [a.max(1), -a.max(1)])


def test_a_cut_reduction_is_refused_and_nothing_changes():
    A, C = summed(7, 10)
    s = te.create_schedule(C.op)
    s[C].split(C.op.reduce_axis[0], 2)
    before = str(tl.lower(s, [A, C]))
    with pytest.raises(ScheduleError, match="a reduction loop of `C` is cut already"):
        s.cache_write(C, "local")
    assert str(tl.lower(s, [A, C])) == before
