"""Marked loops that run as one with the next."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.stmt import Buffer, For, Func, Stmt, seq
from tensorlang.passes.join_loops import join_loops
from tests.loopir.kernels import buffer, func, loop, read, store, var
from tests.passes.same import body_text, same

A, B, C, D = (buffer(name, 9) for name in "ABCD")


def copy(src: Buffer, dst: Buffer, name: str, times: int = 9, marked: bool = False) -> Stmt:
    """dst[i] = src[i]"""
    i = var(name)
    made = loop(i, times, store(dst, i, read(src, i)))
    assert isinstance(made, For)
    return For(i, made.begin, made.extent, made.kind, made.body, (("join_next", None),) if marked else ())


def kernel(*nests: Stmt) -> Func:
    return func("f", (A, B, C, D), seq(*nests))


def test_two_loops_are_one() -> None:
    """What stands between them, and needs nothing of the first, goes in front."""
    before = kernel(copy(A, B, "i", marked=True), store(D, 8, 0.0), copy(A, C, "j"), copy(B, D, "k"))
    after = join_loops(before)
    assert (
        body_text(after)
        == """\
D[8] = 0.0
for j in range(0, 9):
    B[j] = A[j]
    C[j] = A[j]
for k in range(0, 9):
    D[k] = B[k]"""
    )
    same(before, after)


def test_three_loops_are_one() -> None:
    before = kernel(copy(A, B, "i", marked=True), copy(A, C, "j", marked=True), copy(A, D, "k"))
    after = join_loops(before)
    assert body_text(after).count("for ") == 1
    same(before, after)


@pytest.mark.parametrize(
    "nests",
    [
        (copy(A, B, "i", marked=True), copy(B, C, "j")),  # reads what the first writes
        (copy(A, B, "i", marked=True), copy(C, B, "j")),  # writes it too
        (copy(A, B, "i", marked=True), copy(C, A, "j")),  # writes what the first reads
        (copy(A, B, "i", marked=True), copy(A, C, "j", times=7)),  # other iterations
        (copy(A, B, "i", marked=True), store(C, 8, read(B, 0)), copy(A, D, "j")),  # between, and needs it
        (copy(A, B, "i"), copy(A, C, "j", marked=True)),  # the last one has none behind it
        (copy(A, B, "i"), copy(A, C, "j")),  # not marked
    ],
)
def test_others_stay_apart(nests: tuple[Stmt, ...]) -> None:
    before = kernel(*nests)
    assert body_text(join_loops(before)) == body_text(before)


@pytest.mark.parametrize("n", [1, 8, 13])
def test_a_pragma_joins_two_sums(n: int) -> None:
    """A mean and a mean of squares read the row once."""
    x = te.placeholder((5, n), name="x")
    k, l = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "l")
    first = te.compute((5,), lambda i: te.sum(x[i, k], axis=k), name="first")
    square = te.compute((5,), lambda i: te.sum(x[i, l] * x[i, l], axis=l), name="square")
    out = te.compute((5,), lambda i: first[i] + square[i], name="out")
    s = te.create_schedule(out)
    for stage in (first, square):
        s[stage].compute_at(s[out], out.op.axis[0])
        s[stage].pragma(s[stage].op.reduce_axis[0], "join_next")
    kernel = tl.lower(s, [x, out])
    assert str(kernel).count("for k") + str(kernel).count("for l") == (1 if n > 1 else 0)
    data = np.random.default_rng(n).random((5, n), dtype="float32")
    wanted = data.sum(1) + (data * data).sum(1)
    found = np.zeros(5, "float32")
    interpret(kernel, data, found)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_allclose(tl.build(s, [x, out])(data), wanted, rtol=1e-5)
