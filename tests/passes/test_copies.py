"""Copies of operands: equal ones are made once, and each in front of its first reader."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.stmt import Alloc, Buffer, Extern, Func, Stmt, preorder, seq
from tensorlang.passes.copies_late import copies_late
from tensorlang.passes.copies_once import copies_once
from tests.loopir.kernels import buffer, func, loop, read, store, var
from tests.passes.same import body_text, same
from tests.passes.test_reuse_storage import chain


def copy(src: Buffer, dst: Buffer, by: int = 0, name: str = "i") -> Stmt:
    i = var(name)
    return loop(i, 8, store(dst, i, read(src, 7 - i) + by if by else read(src, 7 - i)))


def add(a: Buffer, b: Buffer, out: Buffer) -> Stmt:
    i = var("i")
    return loop(i, 8, store(out, i, read(a, i) + read(b, i)))


W, X, C, D = (buffer(name, 8) for name in "WXCD")
P, Q, T = (buffer(name, 8, scope="global") for name in "PQT")


def kernel(*nests: Stmt, inner: tuple[Buffer, ...] = (P, Q, T)) -> Func:
    return func("f", (W, X, C, D), chain(*inner, body=seq(*nests)))


def test_equal_copies_are_one() -> None:
    before = kernel(copy(W, P), add(X, P, T), copy(W, Q, name="j"), add(T, Q, C), add(T, X, D))
    after = copies_once(before)
    assert (
        body_text(after)
        == """\
P: float32[8] global
T: float32[8] global
for i in range(0, 8):
    P[i] = W[7 - i]
for i_1 in range(0, 8):
    T[i_1] = X[i_1] + P[i_1]
for i_2 in range(0, 8):
    C[i_2] = T[i_2] + P[i_2]
for i_3 in range(0, 8):
    D[i_3] = T[i_3] + X[i_3]"""
    )
    same(before, after)


@pytest.mark.parametrize(
    "nests",
    [
        (copy(W, P), add(X, P, T), copy(W, Q, by=1), add(T, Q, C), add(T, X, D)),  # other values
        (copy(W, P), add(X, P, T), copy(X, Q), add(T, Q, C), add(T, X, D)),  # another source
        # the first is written again
        (copy(W, P), add(X, P, T), copy(W, Q), copy(T, P), add(P, Q, C), add(T, X, D)),
        (copy(C, P), add(X, P, T), add(T, T, C), copy(C, Q), add(T, Q, D)),  # the source changes meanwhile
        # code of others reads the second, which has its shape and its name
        (copy(W, P), add(X, P, T), copy(W, Q), Extern("packed", "look", (Q,), ()), add(T, Q, C)),
        (copy(W, P), Extern("packed", "look", (P,), ()), copy(W, Q), add(X, Q, C), add(X, Q, D)),
    ],
    ids=["values", "source", "written again", "source written", "second seen", "first seen"],
)
def test_what_differs_stays(nests: tuple[Stmt, ...]) -> None:
    before = kernel(*nests)
    assert copies_once(before) is before


def test_copies_stand_in_front_of_their_first_reader() -> None:
    before = kernel(copy(W, P), copy(W, Q, by=1), add(X, X, C), add(C, P, D), add(C, Q, C), inner=(P, Q))
    after = copies_late(before)
    assert (
        body_text(after)
        == """\
for i in range(0, 8):
    C[i] = X[i] + X[i]
P: float32[8] global
for i_1 in range(0, 8):
    P[i_1] = W[7 - i_1]
for i_2 in range(0, 8):
    D[i_2] = C[i_2] + P[i_2]
Q: float32[8] global
for i_3 in range(0, 8):
    Q[i_3] = W[7 - i_3] + 1.0
for i_4 in range(0, 8):
    C[i_4] = C[i_4] + Q[i_4]"""
    )
    same(before, after, coverage=False)


def test_several_copies_for_one_reader_keep_their_order() -> None:
    before = kernel(copy(W, P), copy(X, Q), add(P, Q, C), add(P, Q, D))
    assert copies_late(before) is before


@pytest.mark.parametrize(
    "nests",
    [
        (copy(C, P), copy(X, C), add(C, P, D)),  # its source is written in between
        (add(W, X, T), copy(T, P), add(T, X, C), add(P, P, D)),  # T would live longer
        (copy(W, P), Extern("packed", "look", (P,), ()), copy(X, C), add(P, C, D)),  # code of others reads it
    ],
    ids=["source written", "of a workspace", "extern"],
)
def test_what_does_not_wait(nests: tuple[Stmt, ...]) -> None:
    before = kernel(*nests, inner=(P, T))
    assert copies_late(before) is before


def test_a_copy_made_in_two_steps_moves_whole() -> None:
    before = kernel(copy(W, P), copy(P, Q), add(X, X, C), add(C, Q, D), inner=(P, Q))
    after = copies_late(before)
    assert [line for line in body_text(after).splitlines() if "=" in line] == [
        "    C[i] = X[i] + X[i]",
        "    P[i_1] = W[7 - i_1]",
        "    Q[i_2] = P[7 - i_2]",
        "    D[i_3] = C[i_3] + Q[i_3]",
    ]
    same(before, after)


@pytest.mark.parametrize("shared", [True, False])
def test_products_in_a_row_pack_a_shared_operand_once_and_keep_one_copy_alive(shared: bool) -> None:
    x = t = te.placeholder((48, 48), name="x")
    ws: list[te.Tensor] = []
    for n in range(4):
        ws.append(ws[0] if shared and ws else te.placeholder((48, 48), name=f"w{n}"))
        k = te.reduce_axis((0, 48), name=f"k{n}")
        t = te.compute(
            (48, 48), lambda i, j, t=t, k=k, w=ws[-1]: te.sum(t[i, k] * w[k, j], axis=k), name=f"p{n}"
        )
    given = list(dict.fromkeys(ws))
    s = tl.recipes.default_schedule(t)
    lowered = tl.lower(s, [x, *given, t])
    memory = [b.buffer for b in preorder(lowered.body) if isinstance(b, Alloc) and b.buffer.scope == "global"]
    assert len(memory) == 3, lowered  # a packed operand, and two products in turns
    assert str(lowered).count("for ax0") == (1 if shared else 4)  # copies
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-2, 3, (48, 48)).astype("float32") for _ in range(1 + len(given))]
    want = arrays[0]
    for w in ws:
        want = want @ arrays[1 + given.index(w)]
    assert (tl.build(s, [x, *given, t])(*arrays) == want).all()
