"""Products with open rows and columns: every tile is right from its least sizes on, and the tree never gives
it less."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlang as tl
from autosched.dynamic.decision_tree import limited
from autosched.dynamic.families.products import schedules_of
from tensorlang import ops, te
from tests.autosched.dynamic.computations import dense, least_of, made, whole


def scores(t, batch=2):
    a, b = te.placeholder((batch, t, 12), name="A"), te.placeholder((batch, t, 12), name="B")
    return [a, b, ops.batch_matmul(a, b, transpose_b=True)]


def values(t):
    a, b = te.placeholder((2, t, t), name="A"), te.placeholder((2, t, 40), name="B")
    return [a, b, ops.relu(ops.batch_matmul(a, b))]


def opened(func, **more):
    return lambda least: func(te.dim("t", least.get("t", 1), 64), **more)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("func", [scores, values])
def test_every_tile_is_right(func, threads):
    found = list(schedules_of(opened(func), tl.Target.host(), [], threads))
    assert len(found) >= 4
    rng = np.random.default_rng(0)
    kernels = {f.name: tl.build(f.schedule, f.tensors) for f in found}
    for f in found:
        assert least_of(kernels[f.name], "t") == f.least["t"] == max(step for _, step in f.steps)
    served = dict.fromkeys(kernels, 0)
    least = {f.least["t"] for f in found}
    for t in sorted({4, 7, 9, 17, 24, 33, 64} | {min(n + more, 64) for n in least for more in (0, 1, 5)}):
        tensors = func(t)
        inputs = [whole(rng, *[int(str(n)) for n in x.shape]) for x in tensors[:-1]]
        want = te.reference.evaluate(tensors[-1:], dict(zip(tensors[:-1], inputs, strict=True)))[0]
        for name, kernel in kernels.items():
            if least_of(kernel, "t") <= t:
                assert (kernel(*inputs) == want).all(), (name, t)
                served[name] += 1
    assert all(served[f.name] >= (3 if f.least["t"] < 60 else 1) for f in found)


def test_nothing_leaks_from_other_rows_and_columns():
    rng = np.random.default_rng(0)
    a, b = whole(rng, 2, 64, 12), whole(rng, 2, 64, 12)
    bad_a, bad_b = a.copy(), b.copy()
    bad_a[0, 63, 3], bad_b[1, 5, 7] = np.nan, np.inf
    clean = np.ones((2, 64, 64), bool)
    clean[0, 63], clean[1, :, 5] = False, False
    for f in schedules_of(opened(scores), tl.Target.host(), [], 1):
        kernel = tl.build(f.schedule, f.tensors)
        with np.errstate(invalid="ignore"):
            got = kernel(bad_a, bad_b)
        assert (got[clean] == kernel(a, b)[clean]).all() and not np.isfinite(got[0, 63]).any(), f.name


def test_every_length_of_scores_is_served_and_right():
    f = made(scores, (te.dim("t", 0, 64),), {"t": (0, 16, 40)}, seconds=0.0)
    rng = np.random.default_rng(0)
    for t in range(41):
        a, b = whole(rng, 2, t, 12), whole(rng, 2, t, 12)
        assert (f(a, b) == a @ b.transpose(0, 2, 1)).all(), t


def test_sizes_that_count_in_steps():
    f = made(scores, (te.dim("t", 4, 64, multiple_of=4),), {"t": (4, 16, 40)}, seconds=0.0)
    for t in range(4, 41, 4):
        a = whole(np.random.default_rng(t), 2, t, 12)
        assert (f(a, a) == a @ a.transpose(0, 2, 1)).all(), t


def test_other_computations_have_no_such_schedule():
    fixed = scores(16)
    assert not list(schedules_of(lambda least: fixed, tl.Target.host(), [], 1))
    x = te.placeholder((te.dim("m"), 8), name="X")
    assert not list(schedules_of(lambda least: [x, ops.softmax(x)], tl.Target.host(), [], 1))
    packed = dense(te.dim("m", 1, 64), 32, 16)
    assert not list(schedules_of(lambda least: packed, tl.Target.host(), ["W"], 1))
    assert list(
        schedules_of(
            lambda least: dense(te.dim("m", max(1, least.get("m", 1)), 64), 32, 16), tl.Target.host(), [], 1
        )
    )


def test_routes_get_no_size_below_their_least():
    tree = ("t", 20, ("u", 3, 0, 1), 1)
    least = [{"t": 8, "u": 2}, {"t": 25}, {}]
    got = limited(tree, least, 2, {"t": 0, "u": 0})

    def pick(node, **sizes):
        while not isinstance(node, int):
            dim, most, low, high = node
            node = low if sizes[dim] <= most else high
        return node

    for t, u in itertools.product(range(40), range(6)):
        wanted = pick(tree, t=t, u=u)
        fits = all({"t": t, "u": u}[d] >= n for d, n in least[wanted].items())
        assert pick(got, t=t, u=u) == (wanted if fits else 2)
    assert limited(1, least, 2, {"t": 25, "u": 0}) == 1  # no test where none is needed
