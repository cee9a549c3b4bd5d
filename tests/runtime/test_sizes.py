"""Sizes at the call: those that stand only in a sum are solved, relations stated by ``te.assume`` are
checked, and so is what a read needs of sizes that may differ. Each is checked against the numpy reference,
the interpreter and compiled code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.errors import CallError, DeclareError, LowerError
from tensorlang.loopir.interpret import InterpretError, interpret
from tensorlang.te import serialize
from tests.fuzz.harness import run

F = np.float32


@pytest.fixture(params=["0", "1"], ids=["portable", "native"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORLANG_NATIVE_CALLS", request.param)


def pairs():
    """C[i] = A[2 i] + A[2 i + 2], of 2 m + 1 numbers m."""
    m = te.var("m")
    A = te.placeholder((2 * m + 1,), name="A")
    return [A, te.compute((m,), lambda i: A[2 * i] + A[2 * i + 2], name="C")]


def csr():
    """The rows' sums of a matrix by its n + 1 begins."""
    n, k, most = te.dim("n", 0, 50), te.var("k"), te.var("most")
    begin, values = te.placeholder((n + 1,), "int32", name="begin"), te.placeholder((k,), name="values")
    r = te.reduce_axis((0, most), name="r")
    rows = te.compute(
        (n,),
        lambda i: te.sum(te.if_then_else(begin[i] + r < begin[i + 1], values[begin[i] + r], 0.0), axis=r),
        name="rows",
    )
    return [begin, values, most, rows]


def two_sums():
    """n is told by n + 1, then m by 3 m + n."""
    n, m = te.var("n"), te.var("m")
    A, B = te.placeholder((n + 1,), name="A"), te.placeholder((3 * m + n,), name="B")
    return [A, B, te.compute((m, n), lambda i, j: A[j + 1] * B[3 * i + j], name="C")]


def beside():
    """C[i] = A[i] + B[i] of n numbers, where B has m."""
    n, m = te.var("n"), te.var("m")
    A, B = te.placeholder((n,), name="A"), te.placeholder((m,), name="B")
    return [A, B, te.compute((n,), lambda i: A[i] + B[i], name="C")], n, m


def built(args):
    return tl.build(te.create_schedule(args[-1].op), args)


@pytest.mark.parametrize(
    "make, sizes",
    [(pairs, [{"m": 0}, {"m": 5}]), (two_sums, [{"n": 3, "m": 2}, {"n": 0, "m": 4}, {"n": 5, "m": 0}])],
)
def test_sizes_of_sums_are_solved(make, sizes):
    args = make()
    run(args, args[-1:], {"A": (-4, 5), "B": (-4, 5)}, te.create_schedule(args[-1].op), sizes)


def test_sums_are_solved_when_outputs_are_left_out(path):
    f = built(pairs())
    a = np.arange(9, dtype=F)
    assert (f(a) == a[:-1:2] + a[2::2]).all()
    out = np.zeros(4, F)
    assert f(a, out) is None and (out == f(a)).all()
    g = built(two_sums())
    x, y = np.arange(4, dtype=F), np.arange(9, dtype=F)
    assert g(x, y).shape == (2, 3) and (g(x, y)[1] == x[1:] * y[3:6]).all()


def test_rows_of_a_csr_matrix(path):
    f = built(csr())
    begin, values = np.array([0, 2, 2, 5], np.int32), np.arange(1, 6, dtype=F)
    assert f(begin, values, 3).tolist() == [3, 0, 12] and f(begin[:1], values, 3).shape == (0,)
    with pytest.raises(CallError, match="n = -1 is too small"):
        f(begin[:0], values, 3)


@pytest.mark.parametrize("n", [0, 2, 8])
def test_a_size_that_no_number_gives_is_refused(path, n):
    f = built(pairs())
    with pytest.raises(CallError, match=r"which \(\(m \* 2\) \+ 1\) is for no whole number m"):
        f(np.zeros(n, F))
    out = np.full(3, 7, F)
    with pytest.raises(CallError, match=r"not \(\(m \* 2\) \+ 1\) = 7 where m = 3"):
        f(np.zeros(n, F), out)
    assert (out == 7).all()


def test_a_size_that_no_argument_tells_is_refused():
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n * m,), name="A")
    with pytest.raises(LowerError, match="determined by no argument"):
        built([A, te.compute((n,), lambda i: A[i * m], name="C")])


def test_a_read_beyond_a_tensor_of_another_size_is_refused(path):
    f = built(beside()[0])
    a, b = np.arange(4, dtype=F), np.arange(7, dtype=F)
    assert (f(a, b) == a + b[:4]).all() and f(a[:0], b[:0]).shape == (0,)
    out = np.full(7, 77, F)
    with pytest.raises(CallError, match="do not go together") as caught:
        f(b, a, out)
    assert (
        "`C` reads B[i]: index 0 runs up to n - 1, and B has shape (m,)" in str(caught.value)
        and (out == 77).all()
    )


@pytest.mark.parametrize(
    "read, fits, breaks",
    [
        (lambda B, i, n: B[i + 2], (5, 7), (5, 6)),
        (lambda B, i, n: B[n - i], (5, 6), (5, 5)),
        (lambda B, i, n: B[2 * i], (5, 9), (5, 8)),
        (lambda B, i, n: B[2 * n - 1], (4, 8), (4, 7)),
    ],
)
def test_conditions_of_reads_are_exact(read, fits, breaks):
    n, m = te.var("n"), te.var("m")
    A, B = te.placeholder((n,), name="A"), te.placeholder((m,), name="B")
    args = [A, B, te.compute((n,), lambda i: A[i] + read(B, i, n), name="C")]
    f, func = built(args), tl.lower(te.create_schedule(args[-1].op), args)
    a, b = (np.arange(k, dtype=F) for k in fits)
    (want,) = te.reference.evaluate(args[-1], {A: a, B: b})
    assert (f(a, b) == want).all()
    a, b = (np.arange(k, dtype=F) for k in breaks)
    with pytest.raises(CallError, match="do not go together"):
        f(a, b)
    with pytest.raises(DeclareError):
        te.reference.evaluate(args[-1], {A: a, B: b})
    with pytest.raises(InterpretError):
        interpret(func, a, b, np.zeros_like(a))


def test_reads_that_are_guarded_or_follow_from_shapes_ask_for_nothing():
    n, m = te.var("n"), te.var("m")
    A, B = te.placeholder((n,), name="A"), te.placeholder((m,), name="B")
    safe = te.compute((n,), lambda i: te.if_then_else(i < m, B[i], 0.0) + A[n - 1 - i], name="C")
    assert built([A, B, safe]).signature.needs == ()
    x = te.placeholder((n, 3, m), name="x")
    assert tl.compile([x, tl.ops.softmax(x)]).signature.needs == ()


def test_what_is_assumed_is_checked_and_used(path, tmp_path: Path):
    args, n, m = beside()
    te.assume(n <= m, m <= 2 * n)
    f = built(args)
    f.save(tmp_path / "f.tl")
    for kernel in (f, tl.load(tmp_path / "f.tl")):
        assert kernel(np.ones(4, F), np.ones(7, F)).tolist() == [2] * 4
        for sizes in ((7, 4), (3, 7)):
            with pytest.raises(CallError, match="do not go together") as caught:
                kernel(*(np.ones(k, F) for k in sizes))
            assert "te.assume(" in str(caught.value)
    assert list(f.signature.needs) == ["te.assume(n <= m)", "te.assume(m <= n*2)"]


def test_sizes_assumed_equal_need_no_guard():
    n, m = te.dim("n", 0, multiple_of=16), te.var("m")
    te.assume(n == m)
    A, B = te.placeholder((n,), name="A"), te.placeholder((m,), name="B")
    C = te.compute((m,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    run([A, B, C], [C], {"A": (-4, 5), "B": (-4, 5)}, s, [{"n": 32, "m": 32}])
    assert list(tl.build(s, [A, B, C]).signature.needs) == ["te.assume(n == m)"]


def test_an_assumed_order_takes_a_guard_away():
    n, m = te.var("n"), te.var("m")
    te.assume(n <= m)
    A = te.placeholder((m,), name="A")
    B = te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: te.if_then_else(i < m, A[i], 0.0) + B[i], name="C")
    text = str(tl.lower(te.create_schedule(C.op), [A, B, C]))
    assert "A[i] + B[i]" in text and "if" not in text.split("\n", 1)[1], text


def test_assumptions_travel_and_fold():
    args, n, m = beside()
    te.assume(n <= m)
    read = serialize.from_json(serialize.to_json(args))
    assert serialize.key_of(read) == serialize.key_of(args) != serialize.key_of(beside()[0])
    with pytest.raises(CallError, match="do not go together"):
        built(read)(np.ones(7, F), np.ones(4, F))
    fixed = serialize.resized(args, {"n": 3})
    with pytest.raises(CallError, match="do not go together"):
        built(fixed)(np.ones(3, F), np.ones(2, F))
    with pytest.raises(DeclareError, match="never holds"):
        serialize.resized(args, {"n": 3, "m": 2})


def test_mistakes_of_assume():
    args, n, m = beside()
    i = te.reduce_axis((0, 4))
    for wrong in (n + m, n * 2 != m, i < n, args[0][0] < 1.0, (n < m) | (m < 5)):
        with pytest.raises(DeclareError, match="assume"):
            te.assume(wrong)
    with pytest.raises(DeclareError, match="never holds"):
        te.assume(n < n)
    te.assume(True)
    k = te.var("k")
    te.assume(n <= k)
    with pytest.raises(LowerError, match=r"te\.assume\(n <= k\) cannot be checked") as caught:
        built(args)
    assert "pass `k` as an argument" in str(caught.value)
    f = built([args[0], args[1], k, args[2]])
    assert (f(np.ones(2, F), np.ones(2, F), 2) == 2).all()
    with pytest.raises(CallError, match="do not go together"):
        f(np.ones(2, F), np.ones(2, F), 1)
