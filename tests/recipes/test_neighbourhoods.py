"""Elements of several windows: right on odd shapes, common terms once, and windows in passes of their own
where those are better."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512

RNG = np.random.default_rng(17)


def weighed(high, wide, taps, rows=None):
    """Neighbours weighed by how like they are."""
    lead = () if rows is None else (rows,)
    x = te.placeholder((*lead, high + taps - 1, wide + taps - 1), name="x")
    axes = [te.reduce_axis((0, taps), name=n) for n in "abcd"]
    off = lambda at, a, b: te.abs(
        x[(*at[:-2], at[-2] + a, at[-1] + b)] - x[(*at[:-2], at[-2] + taps // 2, at[-1] + taps // 2)]
    )
    weight = lambda at, a, b: 1.0 / (1.0 + off(at, a, b))
    shape = (*lead, high, wide)
    n = te.compute(
        shape,
        lambda *at: te.sum(
            weight(at, *axes[:2]) * x[(*at[:-2], at[-2] + axes[0], at[-1] + axes[1])], axis=axes[:2]
        ),
        name="n",
    )
    s = te.compute(shape, lambda *at: te.sum(weight(at, *axes[2:]), axis=axes[2:]), name="s")
    return [x, te.compute(shape, lambda *at: n(*at) / s(*at), name="o")]


def variances(high, wide, taps):
    x = te.placeholder((high + taps - 1, wide + taps - 1), name="x")
    axes = [te.reduce_axis((0, taps), name=n) for n in "abcd"]
    at = lambda i, j, a, b: x[i + a, j + b]
    m = te.compute((high, wide), lambda i, j: te.sum(at(i, j, *axes[:2]), axis=axes[:2]), name="m")
    q = te.compute(
        (high, wide), lambda i, j: te.sum(at(i, j, *axes[2:]) * at(i, j, *axes[2:]), axis=axes[2:]), name="q"
    )
    return [x, te.compute((high, wide), lambda i, j: q[i, j] - m[i, j] * m[i, j] / taps**2, name="o")]


def extremes(high, wide, taps):
    """Where a value lies between the least and the largest around it."""
    x = te.placeholder((high + taps - 1, wide + taps - 1), name="x")
    axes = [te.reduce_axis((0, taps), name=n) for n in "abcd"]
    least, most = (
        te.compute((high, wide), lambda i, j, f=f, r=r: f(x[i + r[0], j + r[1]], axis=r), name=f.__name__)
        for f, r in ((te.min, axes[:2]), (te.max, axes[2:]))
    )
    here = lambda i, j: x[i + taps // 2, j + taps // 2] - least[i, j]
    return [x, te.compute((high, wide), lambda i, j: here(i, j) / (most[i, j] - least[i, j] + 1), name="o")]


CASES = {
    "weighed 3": lambda: weighed(7, 37, 3),
    "weighed 2, several": lambda: weighed(3, 16, 2, rows=2),
    "weighed, one row": lambda: weighed(1, 50, 3),
    "weighed 3, a vector and one": lambda: weighed(4, 17, 3),
    "variances 3": lambda: variances(5, 33, 3),
    "variances 5": lambda: variances(9, 40, 5),
    "extremes 3": lambda: extremes(6, 35, 3),
    "extremes 7": lambda: extremes(9, 41, 7),
    "few columns": lambda: weighed(9, 5, 3),
}


@pytest.mark.each_value
@pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize("name", CASES)
def test_windows(name, target):
    x, o = CASES[name]()
    a = RNG.integers(-4, 5, [int(str(n)) for n in x.shape]).astype("float32")
    (right,) = te.reference.evaluate([o], {x: a})
    s = default_schedule(o, target)
    got = np.full(right.shape, np.nan, "float32")
    interpret(tl.lower(s, [x, o]), a, got)
    np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5)
    if not tl.Target(target).why_not_here():
        np.testing.assert_allclose(tl.compile([x, o], target=target)(a), right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("made", [weighed, variances])
def test_open_windows(made):
    """They were passes of their own, each over a vector with a mask."""
    tensors = made(te.dim("h", 1), te.dim("w", 1), 3)
    assert len(attached(tensors)) == 2
    f = tl.compile(tensors)
    for high, wide in ((1, 1), (2, 17), (9, 40), (3, 15)):
        x, o = made(high, wide, 3)
        a = RNG.integers(-4, 5, (high + 2, wide + 2)).astype("float32")
        (right,) = te.reference.evaluate([o], {x: a})
        np.testing.assert_allclose(f(a), right, rtol=1e-5, atol=1e-5)


def attached(tensors):
    """The stages that are computed within the result."""
    s = default_schedule(tensors[-1], AVX512)
    return {st.name for st in s.stages if getattr(st.state.attach, "stage", None) == "o"}


def test_few_taps_are_in_the_vectors_of_the_result_and_share_their_weights():
    assert attached(weighed(7, 37, 3)) == {"n", "s"} and attached(variances(5, 33, 3)) == {"m", "q"}
    x, o = weighed(6, 64, 3)
    f = tl.compile([x, o], target=AVX512) if not tl.Target(AVX512).why_not_here() else None
    if f is not None:
        divisions = [
            line for line in f.get_source("asm").splitlines() if "vdivps" in line or "vrcp14" in line
        ]
        assert len(divisions) <= 9 + 1 + 1  # a tap's, the result's, and a rest


def test_windows_of_many_taps_have_passes_of_their_own():
    """The rows of a window are no rows of memory: each ended as a sum of a few lanes."""
    for tensors in (variances(40, 64, 5), extremes(40, 64, 7)):
        assert not attached(tensors)
        s = default_schedule(tensors[-1], AVX512)
        assert not any(step.name == "rfactor" for step in s.trace.steps)


@pytest.mark.parametrize("taps", [5, 7])
def test_functions_of_many_taps_are_shared_by_windows(taps):
    """Of pixels weighed by an exponential each was computed twice, eight rows of them written out: 36,000 lines
    of LLVM, 2.4 seconds."""
    high, wide = 11, 37
    x = te.placeholder((high + taps - 1, wide + taps - 1), name="x")
    a, b, c, d = (te.reduce_axis((0, taps), name=n) for n in "abcd")
    off = lambda i, j, a, b: x[i + a, j + b] - x[i + taps // 2, j + taps // 2]
    weight = lambda *at: te.exp(-(off(*at) * off(*at)))
    n = te.compute(
        (high, wide), lambda i, j: te.sum(weight(i, j, a, b) * x[i + a, j + b], axis=[a, b]), name="n"
    )
    s = te.compute((high, wide), lambda i, j: te.sum(weight(i, j, c, d), axis=[c, d]), name="s")
    o = te.compute((high, wide), lambda i, j: n[i, j] / s[i, j], name="o")
    f = tl.compile([x, o])
    assert len(f.get_source("ll").splitlines()) < 3000
    image = RNG.random((high + taps - 1, wide + taps - 1), np.float32)
    around = np.lib.stride_tricks.sliding_window_view(image, (taps, taps)).astype(float)
    weights = np.exp(-((around - around[..., taps // 2, taps // 2, None, None]) ** 2))
    want = (weights * around).sum((-1, -2)) / weights.sum((-1, -2))
    np.testing.assert_allclose(f(image), want, rtol=1e-5)
    got = np.zeros((high, wide), np.float32)
    interpret(tl.lower(default_schedule(o), [x, o]), image, got)
    np.testing.assert_allclose(got, want, rtol=1e-5)
