"""s.precompute: terms of a formula as stages of their own, with the same results, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.ops import tags

RNG = np.random.default_rng(7)
FLOAT = lambda i: te.cast("float32", i)


def scaled():
    A, W = te.placeholder((5, 33), name="A"), te.placeholder((33,), name="W")
    return [A, W, te.compute((5, 33), lambda i, j: A[i, j] * te.sqrt(te.abs(W[j]) + 1.0), name="B")], ["j"]


def rotated():
    A = te.placeholder((3, 6, 8), name="A")
    angle = lambda t, d: FLOAT(t) * te.exp(FLOAT(d % 4) * -0.5)
    B = te.compute((3, 6, 8), lambda h, t, d: A[h, t, d] * te.cos(angle(t, d)), name="B")
    return [A, B], ["t", "d"]


def product():
    A, s, W = (te.placeholder(n, name=x) for n, x in (((7, 9), "A"), ((12,), "s"), ((12, 5), "W")))
    k = te.reduce_axis((2, 11), name="k")
    term = lambda k: te.exp(s[k] * 0.25)
    B = te.compute((7, 5), lambda i, j: te.sum(A[i, k - 2] * term(k) * W[k, j], axis=k), name="B")
    return [A, s, W, B], ["k"]


def of_one_row():
    """An axis of one element counts as no other axis, and is an axis of the term where it is read."""
    A, W = te.placeholder((5, 1, 9), name="A"), te.placeholder((1, 9), name="W")
    return [A, W, te.compute((5, 1, 9), lambda i, r, j: A[i, r, j] * te.exp(W[r, j]), name="B")], ["r", "j"]


def of_open_sizes():
    n, m = te.var("n"), te.var("m")
    A, W = te.placeholder((n, m), name="A"), te.placeholder((m,), name="W")
    return [A, W, te.compute((n, m), lambda i, j: A[i, j] / (W[j] * W[j] + 1.0), name="B")], ["j"]


def broadcast():
    """The whole of the formula."""
    W = te.placeholder((33,), name="W")
    return [W, te.compute((4, 33), lambda i, j: te.exp(W[j]), name="B")], ["j"]


def guarded():
    """What a condition guards reads nothing, and may be computed where the condition does not hold."""
    A = te.placeholder((6, 9), name="A")
    edge = lambda i, j: te.if_then_else(i >= 2, te.sin(FLOAT(j) * 0.3) * A[i - 2, j], 0.0)
    return [A, te.compute((8, 9), edge, name="B")], ["j"]


def pairs():
    A, W = te.placeholder((5, 6), name="A"), te.placeholder((6,), name="W")
    both = te.compute((5, 6), lambda i, j: (A[i, j] + te.exp(W[j]), A[i, j] - te.exp(W[j])), name="B")
    return [A, W, *both], ["j"]


PROGRAMS = {
    f.__name__: f for f in (scaled, rotated, product, of_one_row, of_open_sizes, broadcast, guarded, pairs)
}


def arrays(tensors):
    shapes = [[{"n": 5, "m": 33}.get(str(n)) or int(str(n)) for n in t.shape] for t in tensors]
    return [RNG.integers(-3, 4, shape).astype("float32") for shape in shapes]


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_the_same(name):
    tensors, axes = PROGRAMS[name]()
    inputs = [t for t in tensors if isinstance(t.op, te.PlaceholderOp)]
    outputs = [t for t in tensors if t not in inputs]
    s, plain = te.create_schedule(outputs), te.create_schedule(outputs)
    term = s.precompute(outputs[0], axes)
    assert [a.name for a in term.op.axis] == axes and term in s[outputs[0]].op.input_tensors
    given = arrays(inputs)
    right = te.reference.evaluate(outputs, dict(zip(inputs, given, strict=True)))
    got, same = (tl.build(x, tensors)(*given) for x in (s, plain))
    for a, b, c in zip(*[x if isinstance(x, tuple | list) else [x] for x in (got, same, right)], strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=2e-6, atol=1e-6)
    replayed = te.create_schedule(outputs)
    tl.Trace.from_json(s.trace.to_json()).apply(replayed)
    assert str(replayed.tree()) == str(s.tree())


def test_each_call_takes_the_largest_term_that_is_left():
    A, W = te.placeholder((5, 6), name="A"), te.placeholder((6,), name="W")
    B = te.compute((5, 6), lambda i, j: (A[i, j] + te.exp(W[j])) * te.tanh(te.exp(W[j]) + 1.0), name="B")
    s = te.create_schedule(B.op)
    assert str(s.precompute(B, "j")) == "Tensor(B.term: float32[6])"
    assert str(s.precompute(B, B.op.axis[1])) == "Tensor(B.term_1: float32[6])"
    assert not s.can("precompute", "B", ["j"])
    # the term of the first is a formula with terms of its own, though not of fewer axes
    assert not s.can("precompute", "B.term", ["j"])


@pytest.mark.parametrize(("program", "tag"), [(rotated, tags.TABLE), (scaled, "")])
def test_what_reads_nothing_is_a_table_for_all_calls(program, tag):
    tensors, axes = program()
    s = te.create_schedule(tensors[-1].op)
    assert s.precompute(tensors[-1], axes).op.tag == tag


def refusals():
    A, W = te.placeholder((5, 6), name="A"), te.placeholder((6,), name="W")
    plain = te.compute((5, 6), lambda i, j: A[i, j] + W[j], name="B")
    yield "nothing but a read", plain, ["j"], "no term of `B` depends on j"
    dear = te.compute((5, 6), lambda i, j: A[i, j] + te.exp(W[j]), name="B")
    yield "of other loops", dear, ["i"], r"legal\s+j"
    yield "of all loops", dear, ["i", "j"], "no term"
    yield "of none", dear, [], "no loop"
    edge = te.compute(
        (5, 6), lambda i, j: te.if_then_else(i > 0, A[i, j] * te.exp(W[te.max(j, 1)]), 0.0), name="B"
    )
    yield "guarded", edge, ["j"], "none: every term"
    place = te.compute((5, 6), lambda i, j: A[i, te.cast("int32", te.exp(W[j]))], name="B")
    yield "of a place", place, ["j"], "no term"


@pytest.mark.parametrize(("B", "axes", "why"), [pytest.param(*r, id=n) for n, *r in refusals()])
def test_refusals_say_which_terms_there_are_and_change_nothing(B, axes, why):
    s = te.create_schedule(B.op)
    before = str(s.tree())
    with pytest.raises(tl.ScheduleError, match=why):
        s.precompute(B, axes)
    assert str(s.tree()) == before and not s.trace.steps


def test_a_schedule_that_is_begun_is_refused():
    (_, _, B), axes = scaled()
    s = te.create_schedule(B.op)
    s[B].parallel("i")
    with pytest.raises(tl.ScheduleError, match="precompute before all other calls"):
        s.precompute(B, axes)
