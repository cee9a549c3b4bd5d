"""Workspace that is no longer read is used again; what is saved shows in ``workspace_bytes``."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.expr import make
from tensorlang.expr.nodes import Expr, const_int
from tensorlang.loopir.stmt import Alloc, Buffer, Func, Stmt, preorder, seq
from tensorlang.passes.reuse_storage import once, reuse_storage, workspace_bytes
from tests.loopir.kernels import buffer, dim, func, loop, n, read, store, var
from tests.passes.same import body_text, same


def chain(*buffers: Buffer, body: Stmt) -> Stmt:
    for b in reversed(buffers):
        body = Alloc(b, body)
    return body


def shift(a: Buffer, b: Buffer, size: Any, by: int) -> Stmt:
    """b[i] = a[i + by]"""
    i = var("i")
    return loop(i, size, store(b, i, read(a, i + by) + 1.0))


def saved(before: Func) -> tuple[Func, int, int]:
    after = reuse_storage(before)
    return after, const_int(workspace_bytes(before)) or 0, const_int(workspace_bytes(after)) or 0


def test_a_buffer_not_read_any_more_serves_the_next() -> None:
    a, c = buffer("A", 11), buffer("C", 8)
    x, y, z = buffer("X", 10, scope="global"), buffer("Y", 9, scope="global"), buffer("Z", 9, scope="global")
    i = var("i")
    body = chain(
        x,
        y,
        z,
        body=seq(
            shift(a, x, 10, 1), shift(x, y, 9, 1), loop(i, 9, store(z, i, read(y, 8 - i))), shift(z, c, 8, 1)
        ),
    )
    before = func("f", (a, c), body)
    after, was, now = saved(before)
    assert (
        body_text(after)
        == """\
X: float32[10] global
Y: float32[9] global
for i in range(0, 10):
    X[i] = A[i + 1] + 1.0
for i_1 in range(0, 9):
    Y[i_1] = X[i_1 + 1] + 1.0
for i_2 in range(0, 9):
    X[i_2] = Y[8 - i_2]
for i_3 in range(0, 8):
    C[i_3] = X[i_3 + 1] + 1.0"""
    )
    assert (was, now) == (112, 76)
    same(before, after)


def test_an_elementwise_chain_works_in_place_and_ends_in_the_output() -> None:
    m = dim("m", 0)
    a, c = buffer("A", m, 4), buffer("C", m, 4)
    x, y = buffer("X", m, 4, scope="global"), buffer("Y", m, 4, scope="global")

    def nest(src: Buffer, dst: Buffer, kind: str) -> Stmt:
        i, j = var("i"), var("j")
        return loop(i, m, loop(j, 4, store(dst, (i, j), read(src, i, j) * read(src, i, j))), kind)

    before = func(
        "f",
        (a, c),
        chain(
            x, body=seq(nest(a, x, "parallel"), Alloc(y, seq(nest(x, y, "serial"), nest(y, c, "parallel"))))
        ),
        (m,),
    )
    after = reuse_storage(before)
    assert (
        body_text(after)
        == """\
for i in parallel(0, m):
    for j in range(0, 4):
        C[i, j] = A[i, j] * A[i, j]
for i_1 in range(0, m):
    for j_1 in range(0, 4):
        C[i_1, j_1] = C[i_1, j_1] * C[i_1, j_1]
for i_2 in parallel(0, m):
    for j_2 in range(0, 4):
        C[i_2, j_2] = C[i_2, j_2] * C[i_2, j_2]"""
    )
    same(before, after, [{"m": 0}, {"m": 3}])


def test_buffers_of_other_shapes_share_flat_memory() -> None:
    a, c = buffer("A", 6), buffer("C", 12)
    x, y, z = (
        buffer("X", 6, scope="global"),
        buffer("Y", 3, 4, scope="global"),
        buffer("Z", 12, scope="global"),
    )
    i, j = var("i"), var("j")
    body = chain(
        x,
        y,
        z,
        body=seq(
            loop(i, 6, store(x, i, read(a, i))),
            loop(i, 3, loop(j, 4, store(y, (i, j), read(x, i + j)))),
            loop(i, 12, store(z, i, read(y, make.floordiv(i, n(4)), make.floormod(i, n(4))))),
            loop(i, 12, store(c, i, read(z, 11 - i))),
        ),
    )
    before = func("f", (a, c), body)
    after, was, now = saved(before)
    assert (was, now) == ((6 + 12 + 12) * 4, 24 * 4)
    assert "X: float32[12] global" in str(after)
    same(before, after)


@pytest.mark.parametrize(
    "why", ["read at another element", "written twice", "another type", "read again later", "two stores"]
)
def test_what_may_not_be_overwritten_is_not(why: str) -> None:
    a, c = buffer("A", 8), buffer("C", 8)
    x = buffer("X", 8, scope="global")
    y = buffer("Y", 8, scope="global", type_="float64" if why == "another type" else "float32")
    i, k = var("i"), var("k")
    fill = loop(i, 8, store(x, i, read(a, i)))
    at: Expr = 7 - i if why == "read at another element" else i
    value = read(x, at) * 2.0
    step: Stmt = store(y, i, make.cast("float64", value) if why == "another type" else value)
    if why == "written twice":
        step = loop(k, 2, step)
    if why == "two stores":
        step = seq(step, store(y, i, read(x, i) * 3.0))
    last = make.cast("float32", read(y, 7 - i))
    if why == "read again later":
        last = last + read(x, 7 - i)
    before = func("f", (a, c), chain(x, y, body=seq(fill, loop(i, 8, step), loop(i, 8, store(c, i, last)))))
    after = reuse_storage(before)
    assert sum(isinstance(s, Alloc) for s in preorder(after.body)) == 2
    same(before, after)


def test_once() -> None:
    i, j, k = var("i"), var("j"), var("k")
    m = dim("m", 0)

    def loops(*pairs: Any) -> tuple[Any, ...]:
        return tuple(loop(v, extent, seq()) for v, extent in pairs)

    assert once((i, j), loops((i, m), (j, 4)))
    assert once((i * 8 + j,), loops((i, m), (j, make.min_(n(8), m - i * 8))))
    assert once((i * 8 + j * 2, k), loops((k, 5), (i, 3), (j, 4)))
    assert not once((i * 7 + j,), loops((i, m), (j, 8)))
    assert not once((i + j * 8,), loops((i, m), (j, 8)))
    assert not once((i,), loops((i, 4), (j, 2)))
    assert once((i,), loops((i, 4), (j, 1)))
    assert not once((make.floordiv(i, n(2)),), loops((i, 4)))
    assert not once((i, i), loops((i, 4), (j, 2)))


def test_inside_a_parallel_loop_each_turn_shares_its_own() -> None:
    a, c = buffer("A", 4, 10), buffer("C", 4, 8)
    x, y, z = buffer("X", 10, scope="global"), buffer("Y", 9, scope="global"), buffer("Z", 10, scope="global")
    i, r = var("i"), var("r")
    body = chain(
        x,
        y,
        z,
        body=seq(
            loop(i, 10, store(x, i, read(a, r, i))),
            shift(x, y, 9, 1),
            loop(i, 10, store(z, i, read(y, make.floordiv(i * 9, n(10))))),
            loop(i, 8, store(c, (r, i), read(z, i + 2))),
        ),
    )
    before = func("f", (a, c), loop(r, 4, body, "parallel"))
    after, was, now = saved(before)
    assert (was, now) == (116, 76)
    same(before, after)


def test_a_chain_of_stages_needs_the_memory_of_one() -> None:
    A = te.placeholder((64, 64), name="A")
    stages = [A]
    for n_ in range(6):
        last = stages[-1]
        stages.append(te.compute((64, 64), lambda i, j, t=last: t[i, j] * 2.0 + t[i, j], name=f"S{n_}"))
    s = te.create_schedule(stages[-1])
    before = tl.lower(s, [A, stages[-1]], simple=True)
    after = tl.lower(s, [A, stages[-1]])
    assert const_int(workspace_bytes(before)) == 5 * 64 * 64 * 4
    assert const_int(workspace_bytes(after)) == 0
