"""Guards become bounds of plain loops; what vector and unrolled loops do not change is tested in front of
them."""

from __future__ import annotations

from tensorlang.expr import make
from tensorlang.loopir.stmt import For, Func, If, preorder, seq
from tensorlang.passes.tighten import tighten
from tests.loopir.kernels import buffer, func, loop, n, read, store, var
from tests.passes.same import body_text, same


def causal(kind: str, columns: int = 8) -> Func:
    """Row sums up to the diagonal, some columns side by side behind a test of the loop around them."""
    a, c = buffer("A", 6, 6, columns), buffer("C", 6, columns)
    q, k, j = var("q"), var("k"), var("j")
    step = If(make.le(k, q), store(c, (q, j), read(c, q, j) + read(a, q, k, j)))
    return func(
        "f",
        (a, c),
        loop(q, 6, seq(loop(j, columns, store(c, (q, j), 0.0)), loop(k, 6, loop(j, columns, step, kind)))),
    )


def test_a_test_that_lanes_share_becomes_the_bound_of_the_loop_around() -> None:
    for kind in ("vectorized", "unrolled"):
        before = causal(kind)
        after = tighten(before)
        assert not [s for s in preorder(after.body) if isinstance(s, If)]
        assert "    for k in range(0, min(q + 1, 6)):" in body_text(after).splitlines()
        assert [s.kind for s in preorder(after.body) if isinstance(s, For)][-1] == kind
        same(before, after)
        assert tighten(after).body is after.body


def test_lanes_keep_what_they_decide_themselves() -> None:
    """Of two conditions, one of the lane: the other goes in front, and the extent of the lanes stays."""
    a, c = buffer("A", 8), buffer("C", 8)
    i, j, m = var("i"), var("j"), var("m")
    for kind in ("vectorized", "unrolled"):
        both = make.and_(make.lt(i * 4 + j, n(7)), make.lt(i, n(3)))
        before = func(
            "f",
            (a, c),
            loop(m, 1, seq(loop(i, 2, loop(j, 4, If(both, store(c, i * 4 + j, read(a, i * 4 + j))), kind)))),
        )
        after = tighten(before)
        lanes = next(s for s in preorder(after.body) if isinstance(s, For) and s.kind == kind)
        assert (
            str(lanes.extent) == "4"
            and isinstance(lanes.body, If)
            and "i*4 + j" in str(lanes.body.cond)
            and "and" not in str(lanes.body.cond)
        )
        same(before, after, coverage=False)


def test_a_condition_read_from_memory_stays_inside() -> None:
    a, c = buffer("A", 8), buffer("C", 8)
    j = var("j")
    step = If(make.lt(read(a, 0), 1.0), store(c, j, 1.0))
    before = func("f", (a, c), loop(j, 8, step, "vectorized"))
    assert tighten(before).body is before.body
    same(before, tighten(before), coverage=False)


def test_other_statements_of_the_lanes_are_not_put_behind_a_test() -> None:
    """Only a test around everything that the lanes do may leave the loop."""
    a, c, d = buffer("A", 6, 8), buffer("C", 6, 8), buffer("D", 6, 8)
    k, j = var("k"), var("j")
    body = seq(store(d, (k, j), read(a, k, j)), If(make.lt(k, n(4)), store(c, (k, j), read(a, k, j))))
    before = func("f", (a, c, d), loop(k, 6, loop(j, 8, body, "vectorized")))
    assert tighten(before).body is before.body
    same(before, tighten(before), coverage=False)


def test_what_the_first_turn_does_in_full_begins_later_in_the_others() -> None:
    """The rows of a sliding window: ``y == 0 or i >= 2``."""
    a, c = buffer("A", 9), buffer("C", 6, 3)
    y, i = var("y"), var("i")
    step = If(make.or_(make.eq(y, 0), make.le(n(2), i)), store(c, (y, i), read(a, y + i)))
    before = func("f", (a, c), loop(y, 6, loop(i, 3, step)))
    after = tighten(before)
    assert "    for i in range(select(y == 0, 0, 2), 3):" in body_text(after).splitlines()
    same(before, after, coverage=False)
