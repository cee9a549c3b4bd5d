"""The nest that recipes, rules, families and templates share: its order, its cuts, its mistakes."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.recipes import fill, nest, pack, sums


def product(m: int, n: int, k: int) -> list[te.Tensor]:
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    return [A, B, te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")]


def tiled(tensors: list[te.Tensor], block: int | None, order: str) -> tl.Schedule:
    s = te.create_schedule(tensors[2].op)
    inside = s[s.cache_write(tensors[2], "local")]
    (i, j), (row, column), (k,) = s[tensors[2]].op.axis, inside.op.axis, inside.op.reduce_axis
    copy = pack(s, inside, tensors[1], {k: 0, column: 1}, column, 8)
    loops = nest(s[tensors[2]], {"i": i, "j": j}, order, {"i": 4, "j": 8, "jo": block}, parallel=True)
    sums(s, inside, s[tensors[2]], loops.place, {"k": k, "i": row, "j": column}, "k | i j")
    fill(copy, 1)
    copy.compute_at(s[tensors[2]], loops.around[0])
    return s


@pytest.mark.parametrize(
    ("block", "order", "tree"),
    [
        (
            2,
            "(joo) io joi | ii ji",
            ["C.j.outer.outer", "C.i.outer", "C.j.outer.inner", "C.i.inner", "C.j.inner"],
        ),
        (
            2,
            "(io joo) joi | ii ji",
            ["C.i.outer.j.outer.outer.fused", "C.j.outer.inner", "C.i.inner", "C.j.inner"],
        ),
        (None, "(io joo) joi | ii ji", ["C.i.outer", "C.j.outer", "C.i.inner", "C.j.inner"]),
    ],
)
def test_loops_stand_as_the_order_says(block: int | None, order: str, tree: list[str]) -> None:
    tensors = product(13, 37, 9)
    s = tiled(tensors, block, order)
    text = s.tree()
    places = [text.index(f"loop {name} ") for name in tree]
    assert places == sorted(places)
    assert f"loop {tree[0]} " in next(line for line in text.splitlines() if "parallel" in line)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (13, 9)).astype("float32"), rng.integers(-4, 5, (9, 37)).astype("float32")
    assert np.array_equal(tl.build(s, tensors)(a, b), a @ b)


@pytest.mark.parametrize(("order", "why"), [("io jo | iii ji", "no loop 'iii'"), ("io jo ii ji", "no tile")])
def test_an_order_that_makes_no_sense_is_refused(order: str, why: str) -> None:
    C = product(8, 8, 8)[2]
    s = te.create_schedule(C.op)
    i, j = s[C].op.axis
    with pytest.raises(tl.ScheduleError, match=why):
        nest(s[C], {"i": i, "j": j}, order, {"i": 4, "j": 8})
    assert not s.trace.steps
