"""What fresh eyes broke, each once: large tensors, foreign targets, sizes passed by hand, reads outside, deep
expressions."""

from __future__ import annotations

import inspect
import re
import sys
from functools import partial

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te


def test_offsets_beyond_31_bits_do_not_wrap() -> None:
    A = te.placeholder((65536, 50000), "uint8", name="A")
    B = te.compute((4,), lambda i: A[65535, i + 49996], name="B")
    text = tl.build(te.create_schedule(B.op), [A, B]).get_source("ll")
    steps = [int(n) for n in re.findall(r"getelementptr [^\n]*i64 (-?\d+)$", text, re.M)]
    assert 65535 * 50000 + 49996 in steps and min(steps) >= 0
    n = te.var("n")
    A = te.placeholder((n, 50000), "uint8", name="A")
    B = te.compute((4,), lambda i: A[65535, i + 49996], name="B")
    text = tl.build(te.create_schedule(B.op), [A, B]).get_source("ll")
    assert min(int(n) for n in re.findall(r"getelementptr [^\n]*i64 (-?\d+)$", text, re.M)) >= 0


def test_a_stage_of_more_than_31_bits_is_not_on_the_stack() -> None:
    A = te.placeholder((4,), "uint8", name="A")
    B = te.compute((65536, 65536), lambda i, j: A[i % 4], name="B")
    C = te.compute((4,), lambda i: B[i + 65532, i + 65530], name="C")
    text = tl.build(te.create_schedule(C.op), [A, C]).get_source("ll")
    assert "alloca [1 x" not in text and str(1 << 32) in text


@pytest.mark.parametrize(
    "target", ["llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", "llvm -mtriple=riscv64-linux-gnu"]
)
def test_a_kernel_for_another_machine_is_read_but_not_called(target: str) -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] * 2, name="B")
    f = tl.compile([A, B], target=target)
    assert len(f.get_source("asm")) > 100
    with pytest.raises(tl.TargetError, match="cannot run here"):
        f(np.ones(64, "float32"))


def test_a_size_may_be_passed_by_hand() -> None:
    m = te.var("m")
    X = te.placeholder((8,), name="X")
    Y = te.compute((m,), lambda i: X[i % 8], name="Y")
    f = tl.build(te.create_schedule(Y.op), [X, m, Y])
    x, y = np.arange(8, dtype="float32"), np.zeros(11, "float32")
    f(x, 11, y)
    assert np.array_equal(y, x[np.arange(11) % 8])
    with pytest.raises(tl.CallError, match="m is 12"):
        f(x, 12, y)


def test_a_step_given_by_hand_decides_a_shape() -> None:
    st, n = te.var("st"), te.var("n")
    X = te.placeholder((n,), name="X")
    Y = te.compute(((n + st - 1) // st,), lambda i: X[i * st], name="Y")
    x = np.arange(10, dtype="float32")
    assert np.array_equal(tl.build(te.create_schedule(Y.op), [X, st, Y])(x, 3), x[::3])


@pytest.mark.parametrize(
    "read, message",
    [
        (lambda A, i: A[i + 1], "index 0 is 4 at one point"),
        (lambda A, i: A[2 - i], "index 0 is -1 at one point"),
        (lambda A, i: A[2 * i], "index 0 is 6"),
    ],
)
def test_reads_that_are_certainly_outside_are_refused(read, message) -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: read(A, i), name="B")
    with pytest.raises(tl.DeclareError, match=message):
        te.create_schedule(B)


def test_guarded_and_empty_reads_are_not() -> None:
    A = te.placeholder((4,), name="A")
    te.create_schedule(te.compute((6,), lambda i: te.if_then_else(i < 4, A[i], 0.0), name="B"))
    te.create_schedule(te.compute((0,), lambda i: A[i + 9], name="B"))
    te.create_schedule(te.compute((te.var("n"),), lambda i: A[i], name="B"))


def test_very_deep_choices(request) -> None:
    """Refused as too deep before their sides were computed in named parts."""
    request.addfinalizer(
        partial(sys.setrecursionlimit, sys.getrecursionlimit())
    )  # libraries of other tests raise it
    sys.setrecursionlimit(1000 + len(inspect.stack(0)))
    x = te.placeholder((4,), name="x")

    def deep(i):
        e = x[i]
        for n in range(350):
            e = te.if_then_else(x[i] > n, e + 1, x[i])
        return e

    f = tl.compile([x, te.compute((4,), deep, name="D")])
    assert f(np.array([0, 7, 349, 1000], "float32")).tolist() == [0, 7, 349, 1350]


def test_a_tensor_in_place_of_the_list_of_arguments() -> None:
    A = te.placeholder((4,), name="A")
    with pytest.raises(tl.LowerError, match="are not a list"):
        tl.compile(A)


def test_a_parallel_loop_beside_numbers_of_other_kinds() -> None:
    """How many pieces it is cut into is estimated from the sizes alone, wherever floats stand among them."""
    n, a, k = te.var("n"), te.var("a", "float32"), te.var("k", "int32")
    X = te.placeholder((n, 64), name="X")
    Y = te.compute((n, 64), lambda i, j: X[i, j] * a + te.cast("float32", k), name="Y")
    s = te.create_schedule(Y.op)
    s[Y].parallel(Y.op.axis[0])
    for args in ([X, a, k, Y], [k, a, X, Y], [a, X, Y, k]):
        values = {X: np.ones((999, 64), np.float32), a: 2.0, k: 3}
        np.testing.assert_array_equal(
            tl.build(s, args)(*(values[x] for x in args if x is not Y)), np.full((999, 64), 5)
        )


@pytest.mark.parametrize(
    "target",
    [
        None,
        "llvm -mcpu=x86-64",
        "llvm -mcpu=haswell",
        "llvm -mcpu=skylake-avx512",
        "llvm -mcpu=znver5",
        "llvm -mtriple=aarch64-linux-gnu",
        "llvm -mtriple=riscv64-linux-gnu -mattr=+v",
    ],
)
def test_columns_read_in_a_loop_are_known_where_what_reads_them_is_computed(target: str | None) -> None:
    """Blocks of columns stood in the loop, sums of them in front of it: LLVM ended the process."""
    A = te.placeholder((16, 6), name="A")
    P = te.compute((16, 6), lambda i, j: A[i, j] + te.if_then_else((i + j) % 3 == 0, 1, 0), name="P")
    k = te.reduce_axis((0, 6), name="k")
    C = te.compute((16, 11), lambda i, j: te.sum(P[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[P].compute_inline()
    s[C].unroll(k)
    s[C].vectorize(s[C].op.axis[0])
    f = tl.build(s, [A, C], target)
    assert f.get_source("asm")
    if target is None:
        a = np.arange(96, dtype="float32").reshape(16, 6)
        want = (a + (np.add.outer(np.arange(16), np.arange(6)) % 3 == 0)).sum(1)
        assert np.array_equal(f(a), np.repeat(want[:, None], 11, 1))


def test_a_tensorized_stage_may_be_double_buffered() -> None:
    """The call still named the buffer that two halves had replaced."""
    from tests.fuzz import functions  # declares the intrinsics

    A, B = te.placeholder((5, 3), "int32", name="A"), te.placeholder((16, 3), "int32", name="B")
    k = te.reduce_axis((0, 3), "k")
    T = te.compute((5, 16), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="T")
    U = te.compute((5, 16), lambda i, j: te.max(T[i, j], 0), name="U")
    s = te.create_schedule(U.op)
    s[U].reverse_compute_at(s[T], s[T].op.axis[0])
    s[T].tensorize(s[T].split(T.op.axis[1], 4)[1], functions.GEMV["fuzz.gemv4x3.int32"][3])
    s[T].double_buffer()
    a, b = np.arange(15, dtype="int32").reshape(5, 3) - 7, np.arange(48, dtype="int32").reshape(16, 3)
    assert np.array_equal(tl.build(s, [A, B, U])(a, b), np.maximum(a @ b.T, 0))
