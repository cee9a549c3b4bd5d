"""Recurrences that need nothing of each other, each in a thread of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.stmt import Buffer, Extern, For, Func, Stmt, preorder, seq
from tensorlang.passes.side_by_side import side_by_side
from tests.loopir.kernels import buffer, func, loop, read, store, var
from tests.passes.same import body_text, same
from tests.passes.test_reuse_storage import chain


def recurrence(src: Buffer, dst: Buffer, name: str = "t", times: int = 8) -> Stmt:
    """dst[t + 1] = dst[t] + src[t]"""
    t = var(name)
    return loop(t, times, store(dst, t + 1, read(dst, t) + read(src, t)))


def first(dst: Buffer) -> Stmt:
    return store(dst, 0, 0.0)


def twice(src: Buffer, dst: Buffer, kind: str = "serial") -> Stmt:
    i = var("i")
    return loop(i, 8, store(dst, i, read(src, i) + read(src, i)), kind)


W, X, C, D, E, F = (buffer(name, 9) for name in "WXCDEF")
P, Q = (buffer(name, 9, scope="global") for name in "PQ")


def kernel(*nests: Stmt, inner: tuple[Buffer, ...] = (P, Q)) -> Func:
    return func("f", (W, X, C, D, E, F), chain(*inner, body=seq(*nests)))


def regions(f: Func) -> list[For]:
    """The parallel loops that hold recurrences."""
    return [s for s in preorder(f.body) if isinstance(s, For) and s.var.name == "side"]


def test_two_are_one_region() -> None:
    before = kernel(
        *(first(C), recurrence(W, C), twice(C, E)),
        *(twice(X, P), first(D), recurrence(P, D, "u"), twice(D, F)),
        inner=(P,),
    )
    after = side_by_side(before)
    # what needs the first goes behind both, what the second needs stays in front
    assert (
        body_text(after)
        == """\
C[0] = 0.0
P: float32[9] global
for i in range(0, 8):
    P[i] = X[i] + X[i]
D[0] = 0.0
for side in parallel(0, 2):
    if side == 0:
        for t in range(0, 8):
            C[t + 1] = C[t] + W[t]
    else:
        for u in range(0, 8):
            D[u + 1] = D[u] + P[u]
for i_1 in range(0, 8):
    E[i_1] = C[i_1] + C[i_1]
for i_2 in range(0, 8):
    F[i_2] = D[i_2] + D[i_2]"""
    )
    same(before, after, coverage=False)
    assert side_by_side(after) is after


def test_three_and_layers_of_them() -> None:
    three = kernel(*(first(b) for b in (C, D, E)), *(recurrence(W, b) for b in (C, D, E)), inner=())
    (region,) = regions(side_by_side(three))
    assert str(region.extent) == "3"
    same(three, side_by_side(three), coverage=False)
    layers = kernel(
        *(first(b) for b in (P, Q, C, D)),
        *(recurrence(W, P), recurrence(X, Q), recurrence(P, C), recurrence(Q, D)),
    )
    after = side_by_side(layers)
    assert [str(r.extent) for r in regions(after)] == ["2", "2"]
    same(layers, after, coverage=False)


def test_groups_that_would_wait_for_each_other() -> None:
    """The second of each pair needs the first of the other: of two pairs one is made."""
    before = kernel(
        *(first(b) for b in (C, D, E, F)),
        *(recurrence(W, C), recurrence(X, D, times=7)),
        *(recurrence(D, E), recurrence(C, F, times=7)),
        inner=(),
    )
    after = side_by_side(before)
    assert len(regions(after)) == 1
    same(before, after, coverage=False)


def accumulation(dst: Buffer) -> Stmt:
    t = var("t")
    return loop(t, 8, store(dst, t, read(dst, t) + read(W, t)))


@pytest.mark.parametrize(
    "nests",
    [
        (recurrence(W, C), recurrence(C, D)),  # it reads the first
        (recurrence(W, C), twice(C, P), recurrence(P, D)),  # it reads what is made of the first
        (recurrence(D, C), recurrence(W, D)),  # it writes what the first reads
        (recurrence(W, C), recurrence(X, D, times=7)),  # one is longer
        (recurrence(W, C), twice(W, D)),  # one is none
        (accumulation(C), accumulation(D)),  # an iteration needs no other
        (
            loop(var("t"), 8, seq(recurrence(W, C), twice(C, E, "parallel"))),
            loop(var("t"), 8, seq(recurrence(W, D), twice(D, F, "parallel"))),
        ),  # threads have work in them already
        (
            loop(var("t"), 8, seq(Extern("packed", "look", (C,), ()), recurrence(W, C))),
            loop(var("t"), 8, seq(Extern("packed", "look", (D,), ()), recurrence(W, D))),
        ),  # code of others
    ],
    ids=["reads", "by another", "writes", "longer", "one", "none", "parallel", "extern"],
)
def test_what_stays_in_its_turn(nests: tuple[Stmt, ...]) -> None:
    before = kernel(first(C), first(D), *nests, inner=(P,))
    assert side_by_side(before) is before


@pytest.mark.parametrize("open_length", [False, True])
@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_both_directions_of_a_layer(kind: str, open_length: bool) -> None:
    """One region, which computes on two threads the very numbers that it computes on one."""
    gates, (t, n, i, h) = {"rnn": 1, "gru": 3, "lstm": 4}[kind], (50, 3, 24, 40)
    times: Any = te.dim("t", 1, 200) if open_length else t
    x, lens = te.placeholder((times, n, i), name="x"), te.placeholder((n,), "int32", name="lens")
    h0 = te.placeholder((2, n, h), name="h0")
    w, r = te.placeholder((2, gates * h, i), name="w"), te.placeholder((2, gates * h, h), name="r")
    results = list(
        getattr(tl.ops, kind)(x, w, r, sequence_lens=lens, initial_h=h0, direction="bidirectional")
    )
    given = [x, w, r, lens, h0, *results]
    lowered = tl.lower(tl.recipes.default_schedule(results), given)
    assert len(regions(lowered)) == 1
    rng = np.random.default_rng(7)
    feed = [
        rng.uniform(-0.5, 0.5, s).astype("float32") for s in ((t, n, i), (2, gates * h, i), (2, gates * h, h))
    ]
    feed += [np.array([50, 17, 1], "int32"), rng.uniform(-0.5, 0.5, (2, n, h)).astype("float32")]
    kernel = tl.compile(given)
    threads = tl.num_threads()
    got = []
    try:
        for count in (1, 2):
            tl.set_num_threads(count)
            got.append(kernel(*feed))
    finally:
        tl.set_num_threads(threads)
    for one, two in zip(*got, strict=True):
        assert (one == two).all()
    for d, direction in enumerate(["forward", "reverse"]):
        own = _of_direction(feed, d)
        p = [te.placeholder(a.shape, a.dtype) for a in own]
        alone = getattr(tl.ops, kind)(*p[:3], sequence_lens=p[3], initial_h=p[4], direction=direction)
        want = tl.compile([*p, *alone])(*own)
        np.testing.assert_allclose(got[0][0][:, d], want[0][:, 0], rtol=1e-5, atol=1e-6)
        for both, one in zip(got[0][1:], want[1:], strict=True):
            np.testing.assert_allclose(both[d], one[0], rtol=1e-5, atol=1e-6)


def _of_direction(feed: list[np.ndarray], d: int) -> list[np.ndarray]:
    x, w, r, lens, h0 = feed
    return [x, w[d : d + 1], r[d : d + 1], lens, h0[d : d + 1]]
