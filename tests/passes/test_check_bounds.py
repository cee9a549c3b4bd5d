"""``bounds_check=True``: an index out of bounds is reported with access, index, extent and iteration, never
followed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import InterpretError, interpret
from tensorlang.loopir.stmt import Report, preorder
from tensorlang.loopir.verify import verify
from tensorlang.passes.check_bounds import check_bounds
from tests.loopir.kernels import matmul
from tests.passes.same import body_text

ROWS = 37


def take() -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    n = te.dim("n", 0, 1000)
    A = te.placeholder((ROWS, 5), name="A")
    I = te.placeholder((n,), name="I", dtype="int32")
    return A, I, te.compute((n, 5), lambda i, j: A[I[i], j] * 2.0, name="C")


def plain(s: tl.Schedule, C: te.Tensor) -> None:
    pass


def parallel(s: tl.Schedule, C: te.Tensor) -> None:
    outer, _ = s[C].split(C.op.axis[0], 8)
    s[C].parallel(outer)


def vectors(s: tl.Schedule, C: te.Tensor) -> None:
    _, inner = s[C].split(C.op.axis[0], 8)
    s[C].reorder(C.op.axis[1], inner)
    s[C].vectorize(inner)


def unrolled(s: tl.Schedule, C: te.Tensor) -> None:
    _, inner = s[C].split(C.op.axis[0], 4)
    s[C].unroll(inner)
    s[C].unroll(C.op.axis[1])


def cached(s: tl.Schedule, C: te.Tensor) -> None:
    local = s.cache_write(C, "local")
    s[local].compute_at(s[C], s[C].op.axis[0])


@pytest.mark.parametrize("how", [plain, parallel, vectors, unrolled, cached])
def test_a_gather_out_of_bounds_is_reported_and_does_nothing_else(how) -> None:
    A, I, C = take()
    s = te.create_schedule(C.op)
    how(s, C)
    f = tl.build(s, [A, I, C], name="take", bounds_check=True)
    a = np.arange(ROWS * 5, dtype="float32").reshape(ROWS, 5)
    index = (np.arange(50) % ROWS).astype("int32")
    assert np.array_equal(f(a, index), a[index] * 2)
    for bad in (ROWS, -1, 2**31 - 1, -(2**31)):
        wrong = index.copy()
        wrong[23] = bad
        with pytest.raises(
            tl.CallError, match=rf"take: A\[.*\]: index 0 is {bad}, out of range 0\.\.{ROWS}, at "
        ):
            f(a, wrong)
    assert np.array_equal(f(a, index), a[index] * 2)


def test_the_message_names_access_index_extent_and_iteration() -> None:
    A, I, C = take()
    f = tl.build(te.create_schedule(C.op), [A, I, C], name="take", bounds_check=True)
    index = np.zeros(9, "int32")
    index[7] = 99
    with pytest.raises(tl.CallError) as caught:
        f(np.zeros((ROWS, 5), "float32"), index)
    assert str(caught.value).splitlines()[:2] == [
        "take: A[I[i], j]: index 0 is 99, out of range 0..37, at i=7 j=0",
        "  because   the kernel was built with bounds_check=True; its outputs are incomplete",
    ]


def test_the_text_shows_the_tests() -> None:
    A, I, C = take()
    assert (
        body_text(tl.lower(te.create_schedule(C.op), [A, I, C], bounds_check=True))
        == """\
for i in range(0, n):
    for j in range(0, 5):
        if 0 <= I[i] and I[i] < 37:
            C[i, j] = A[I[i], j] * 2.0
        else:
            report('A[I[i], j]', dim=0, index=I[i], extent=37)"""
    )


def test_the_index_of_an_index_is_tested_first() -> None:
    A = te.placeholder((8,), name="A")
    I, J = te.placeholder((4,), name="I", dtype="int64"), te.placeholder((6,), name="J", dtype="uint8")
    C = te.compute((6,), lambda i: A[I[J[i]]], name="C")
    f = tl.compile([A, I, J, C], bounds_check=True)
    a = np.arange(8, dtype="float32")
    good = np.array([7, 0, 3, 5], "int64")
    assert np.array_equal(f(a, good, np.array([0, 1, 2, 3, 0, 1], "uint8")), a[good[[0, 1, 2, 3, 0, 1]]])
    with pytest.raises(tl.CallError, match=r"I\[J\[.*\]\]: index 0 is 200, out of range 0\.\.4"):
        f(a, good, np.array([0, 1, 200, 3, 0, 1], "uint8"))
    with pytest.raises(
        tl.CallError, match=r"A\[I\[J\[.*\]\]\]: index 0 is 1099511627776, out of range 0\.\.8"
    ):
        f(a, np.array([7, 1 << 40, 3, 5], "int64"), np.array([0, 1, 2, 3, 0, 1], "uint8"))


def test_what_a_condition_guards_is_tested_only_there() -> None:
    A, I = te.placeholder((8,), name="A"), te.placeholder((6,), name="I", dtype="int32")
    C = te.compute((6,), lambda i: te.if_then_else(I[i] >= 0, A[I[i]], 0.0), name="C")
    f = tl.compile([A, I, C], bounds_check=True)
    a = np.arange(8, dtype="float32") + 1
    assert f(a, np.array([1, -5, 7, -1, 0, -(2**31)], "int32")).tolist() == [2, 0, 8, 0, 1, 0]
    with pytest.raises(tl.CallError, match="index 0 is 8, out of range"):
        f(a, np.array([1, -5, 8, -1, 0, -(2**31)], "int32"))


def test_a_read_past_the_end_that_sizes_do_not_exclude() -> None:
    n, m = te.dim("n", 1, 100), te.dim("m", 1, 100)
    A, B = te.placeholder((n,), name="A"), te.placeholder((m,), name="B")
    plain, odd = (
        te.compute((m,), lambda i, f=f: A[f(i)] + B[i], name="C") for f in (lambda i: i, lambda i: i // 2)
    )
    f, g = (tl.build(te.create_schedule(C.op), [A, B, C], bounds_check=True) for C in (plain, odd))
    assert f(np.ones(5, "float32"), np.ones(4, "float32")).tolist() == [2] * 4
    with pytest.raises(
        tl.CallError, match=r"`C` reads A\[i\]: index 0 runs up to m - 1, and A has shape \(n,\)"
    ):  # known before it runs
        f(np.ones(3, "float32"), np.ones(4, "float32"))
    with pytest.raises(tl.CallError, match=r"A\[i // 2\]: index 0 is 1, out of range 0\.\.1, at i=2"):
        g(np.ones(1, "float32"), np.ones(4, "float32"))


def test_a_sum_over_gathered_rows_reports_the_turn_of_its_reduction() -> None:
    A = te.placeholder((16,), name="A")
    I = te.placeholder((3, 4), name="I", dtype="int32")
    k = te.reduce_axis((0, 4), name="k")
    C = te.compute((3,), lambda i: te.sum(A[I[i, k]], axis=k), name="C")
    f = tl.build(te.create_schedule(C.op), [A, I, C], bounds_check=True)
    index = np.arange(12, dtype="int32").reshape(3, 4)
    assert f(np.arange(16, dtype="float32"), index).tolist() == [6, 22, 38]
    index[2, 1] = 16
    with pytest.raises(tl.CallError, match="at i=2 k=1"):
        f(np.arange(16, dtype="float32"), index)


def test_what_is_proved_is_not_tested() -> None:
    f = matmul()
    assert check_bounds(f).body is f.body
    A = te.placeholder((30, 40), name="A")
    C = te.compute(
        (30, 40), lambda i, j: te.if_then_else(te.all(i > 0, j < 39), A[i - 1, j + 1], 0.0), name="C"
    )
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].split(C.op.axis[1], 16)[1])
    assert not any(isinstance(x, Report) for x in preorder(tl.lower(s, [A, C], bounds_check=True).body))


def test_a_saved_kernel_still_reports(tmp_path: Path) -> None:
    A, I, C = take()
    s = te.create_schedule(C.op)
    parallel(s, C)
    tl.build(s, [A, I, C], name="take", bounds_check=True).save(tmp_path / "take.tlk")
    f = tl.load(tmp_path / "take.tlk")
    with pytest.raises(tl.CallError, match=r"A\[I\[.*\], j\]: index 0 is 37"):
        f(np.zeros((ROWS, 5), "float32"), np.full(20, ROWS, "int32"))


def test_the_interpreter_stops_at_the_same_place() -> None:
    A, I, C = take()
    s = te.create_schedule(C.op)
    unrolled(s, C)
    func = tl.lower(s, [A, I, C], bounds_check=True)
    verify(func, in_bounds=True)
    index = np.zeros(9, "int32")
    out = np.zeros((9, 5), "float32")
    interpret(func, np.ones((ROWS, 5), "float32"), index, out)
    assert (out == 2).all()
    index[7] = -3
    with pytest.raises(InterpretError, match=r"index 0 is -3, out of range 0\.\.37") as caught:
        interpret(func, np.ones((ROWS, 5), "float32"), index, out)
    assert caught.value.kind == "bounds"


def quotient(divide):
    x, y = te.placeholder((5,), "int32", name="x"), te.placeholder((5,), "int32", name="y")
    return x, y, te.compute((5,), lambda i: divide(x[i], y[i]), name="q")


@pytest.mark.parametrize("how", [plain, vectors, unrolled])
@pytest.mark.parametrize("divide", [te.floordiv, te.floormod, te.truncdiv, te.truncmod])
def test_a_division_by_zero_is_reported(divide, how) -> None:
    x, y, q = quotient(divide)
    s = te.create_schedule(q.op)
    if how is not plain:
        (s[q].vectorize if how is vectors else s[q].unroll)(q.op.axis[0])
    f = tl.build(s, [x, y, q], bounds_check=True)
    a, b = np.array([7, -7, 8, 9, 1], "int32"), np.array([2, 2, -3, 0, 5], "int32")
    with pytest.raises(
        tl.CallError,
        match=r"main: x\[i\d*\] .* y\[i\d*\].*: 9 is divided by zero|main: .*: 9 is divided by zero",
    ):
        f(a, b)
    func = tl.lower(s, [x, y, q], bounds_check=True)
    with pytest.raises(InterpretError, match="9 is divided by zero"):
        interpret(func, a, b, np.zeros(5, "int32"))
    b[3] = 4
    assert (f(a, b) == te.reference.evaluate([q], {x: a, y: b})[0]).all()


def test_divisions_that_do_not_count_are_not_reported() -> None:
    x, y, q = quotient(lambda a, b: te.if_then_else(b != 0, a // b, 0) + te.select(b != 0, a % b, 1))
    f = tl.build(te.create_schedule(q.op), [x, y, q], bounds_check=True)
    a, b = np.array([7, -7, 8, 9, 1], "int32"), np.array([2, 2, -3, 0, 5], "int32")
    assert f(a, b).tolist() == [4, -3, -4, 1, 1]
    known = tl.lower(te.create_schedule(q.op), [x, y, q], bounds_check=True)
    assert not [s for s in preorder(known.body) if isinstance(s, Report)]


def test_the_header_names_a_division() -> None:
    x, y, q = quotient(te.floordiv)
    f = tl.build(te.create_schedule(q.op), [x, y, q], bounds_check=True, name="q")
    assert "its divisor, and what is divided" in f._tools.c_function("q").header
