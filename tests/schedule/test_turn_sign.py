"""s.turn_sign: products of one sign by those of both, the same to the last bit at the ends of the types, and
what it refuses; where default schedules and searches do so."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
import tensorlang as tl
from autosched.space.template import variants_of
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule

RNG = np.random.default_rng(8)
VNNI, AVX2, TILES = (
    tl.Target.parse("llvm -mcpu=" + cpu) for cpu in ("znver4", "haswell", "icelake-server -mattr=+amx-int8")
)
WIDE = lambda e: e.astype("int32")


def product(m=5, k=19, n=33, t="int8", other=None):
    a, b = te.placeholder((m, k), t, "A"), te.placeholder((k, n), other or t, "B")
    r = te.reduce_axis((0, k), name="r")
    return [a, b, te.compute((m, n), lambda i, j: te.sum(WIDE(a[i, r]) * WIDE(b[r, j]), axis=r), name="C")]


def batched(t="int8"):
    a, b = te.placeholder((3, 6, 20), t, "A"), te.placeholder((3, 18, 20), t, "B")
    r = te.reduce_axis((2, 19), name="r")
    at = lambda e, i, j: te.sum(WIDE(a[e, i, r]) * WIDE(b[e, j, r]), axis=r)
    return [a, b, te.compute((3, 6, 18), at, name="C")]


def image(t="int8", last=False):
    x = te.placeholder((1, 9, 8, 6) if last else (1, 6, 9, 8), t, "A")
    w = te.placeholder((3, 3, 6, 17) if last else (17, 6, 3, 3), t, "B")
    c, p, q = (te.reduce_axis((0, n), name=s) for n, s in ((6, "c"), (3, "p"), (3, "q")))
    if last:
        at = lambda b, y, z, o: te.sum(WIDE(x[b, y + p, z + q, c]) * WIDE(w[p, q, c, o]), axis=[p, q, c])
        return [x, w, te.compute((1, 7, 6, 17), at, name="C")]
    at = lambda b, o, y, z: te.sum(WIDE(x[b, c, y + p, z + q]) * WIDE(w[o, c, p, q]), axis=[c, p, q])
    return [x, w, te.compute((1, 17, 7, 6), at, name="C")]


def vector(t="int8"):
    a, b = te.placeholder((7, 12), t, "A"), te.placeholder((12,), t, "B")
    r = te.reduce_axis((0, 12), name="r")
    return [a, b, te.compute((7,), lambda i: te.sum(WIDE(a[i, r]) * WIDE(b[r]), axis=r), name="C")]


PROGRAMS = {
    "product": product,
    "uint8": lambda: product(t="uint8"),
    "nothing to sum": lambda: product(k=0),
    "batched, of a part": batched,
    "image": image,
    "channels last, uint8": lambda: image("uint8", True),
    "vector": vector,
}


def extremes(t):
    """Most elements at the ends of the type, where sums of 16 bits would overflow."""
    info = np.iinfo(t.dtype.name)
    shape = [int(str(n)) for n in t.shape]
    ends = RNG.choice([info.min, info.max, info.max - 1], shape)
    return np.where(RNG.random(shape) < 0.8, ends, RNG.integers(info.min, info.max + 1, shape)).astype(
        t.dtype.name
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_the_same(name):
    a, b, c = PROGRAMS[name]()
    s = te.create_schedule(c.op)
    products = s.turn_sign(c, a)
    assert products.name == "C.products" and {t.dtype.name for t in products.op.input_tensors} == {
        "int8",
        "uint8",
    }
    given = [extremes(a), extremes(b)]
    (right,) = te.reference.evaluate([c], dict(zip([a, b], given, strict=True)))
    assert np.array_equal(tl.build(s, [a, b, c])(*given), right)
    out = np.full(right.shape, 7, "int32")
    interpret(tl.lower(s, [a, b, c]), *given, out)
    assert np.array_equal(out, right)
    assert np.array_equal(tl.compile([a, b, c])(*given), right)
    assert np.array_equal(tl.compile([a, b, c], constants={b: given[1]})(given[0]), right)
    replayed = te.create_schedule(c.op)
    tl.Trace.from_json(s.trace.to_json()).apply(replayed)
    assert str(replayed.tree()) == str(s.tree())
    assert "products = s.turn_sign(C, A)" in s.trace.to_python()


def steps(schedule):
    return [p.name for p in schedule.trace.steps]


@pytest.mark.parametrize("tensors", [product(), batched("uint8"), image(), image("uint8", True)])
def test_default_schedules_turn_where_a_processor_sums_fours_of_both_signs(tensors):
    """Of one sign they took twice as long."""
    assert "turn_sign" in steps(default_schedule(tensors[-1:], VNNI))
    for target in AVX2, TILES:
        assert "turn_sign" not in steps(default_schedule(tensors[-1:], target))


@pytest.mark.parametrize(
    "tensors", [product(m=3), product(n=15), product(k=15), product(other="uint8"), vector()]
)
def test_few_rows_columns_or_terms_and_both_signs_stay(tensors):
    assert "turn_sign" not in steps(default_schedule(tensors[-1:], VNNI))


def test_open_sizes_and_what_comes_behind():
    n, m = te.var("n"), te.var("m")
    a, b = te.placeholder((n, 40), "int8", "A"), te.placeholder((40, m), "int8", "B")
    bias = te.placeholder((m,), "int32", "bias")
    r = te.reduce_axis((0, 40), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(WIDE(a[i, r]) * WIDE(b[r, j]), axis=r), name="C")
    d = te.compute((n, m), lambda i, j: te.max((c[i, j] + bias[j]) >> 7, 0).astype("int8"), name="D")
    f = tl.compile([a, b, bias, d])
    assert "turn_sign" in steps(default_schedule([d], VNNI))
    for rows, columns in ((0, 5), (1, 1), (7, 33), (70, 64)):
        x = RNG.integers(-128, 128, (rows, 40)).astype("int8")
        y = RNG.integers(-128, 128, (40, columns)).astype("int8")
        z = RNG.integers(-9, 9, columns).astype("int32")
        want = np.maximum((x.astype("int32") @ y.astype("int32") + z) >> 7, 0).astype("int8")
        assert np.array_equal(f(x, y, z), want)


def test_a_search_begins_with_what_is_compiled():
    tensors = product(64, 64, 64)
    task = autosched.SearchTask.of(tensors, VNNI)
    assert "turn_sign" in steps(task.default_schedule())
    found = list(variants_of(task))
    assert found and all("turn_sign" in [p.name for p in v.trace.steps] for v in found)
    assert not any("turn_sign" in steps(v.base) for v in variants_of(autosched.SearchTask.of(tensors, AVX2)))


def refusals():
    a, b, c = product(other="uint8")
    yield "of both signs", c, a
    a, b, c = product()
    yield "no operand", c, c
    x = te.placeholder((9, 9), "int8", "X")
    r = te.reduce_axis((0, 9), name="r")
    own = te.compute((9, 9), lambda i, j: te.sum(WIDE(x[i, r]) * WIDE(x[j, r]), axis=r), name="C")
    yield "with itself", own, x
    y = te.placeholder((4,), "int8", "Y")
    again = te.compute((9,), lambda i: te.sum(WIDE(x[i, r]) * WIDE(y[r // 3]), axis=r), name="C")
    yield "other terms", te.compute((4,), lambda i: te.sum(WIDE(x[0, r]) * WIDE(y[i]), axis=r), name="C"), x
    assert again.op.reduce_axis
    floats = te.placeholder((9, 9), name="F")
    yield "floats", te.compute((9,), lambda i: te.sum(floats[i, r] * floats[r, i], axis=r), name="C"), floats


@pytest.mark.parametrize(("why", "c", "a"), list(refusals()), ids=[n for n, *_ in refusals()])
def test_others_are_refused_and_nothing_changes(why, c, a):
    s = te.create_schedule(c.op)
    with pytest.raises(tl.ScheduleError, match="sums no products"):
        s.turn_sign(c, a)
    assert not s.trace.steps


def test_a_schedule_that_is_begun_is_refused():
    a, b, c = product()
    s = te.create_schedule(c.op)
    s[c].parallel("i")
    with pytest.raises(tl.ScheduleError, match="turn_sign before all other calls"):
        s.turn_sign(c, a)
