"""The text of the loop IR. The goldens are meant to be read."""

from __future__ import annotations

from tensorlang.expr import make
from tensorlang.loopir.packed import packed
from tensorlang.loopir.printer import show_func, show_stmt
from tensorlang.loopir.stmt import NOTHING, Alloc, For, Func, If, Let, Stmt, reduction, seq

from .kernels import blocked_matmul, buffer, dim, func, loop, matmul, n, read, store, var


def same(text: str, golden: str) -> None:
    lines = golden.strip("\n").splitlines()
    margin = len(lines[0]) - len(lines[0].lstrip())
    assert text.splitlines() == [line[margin:] for line in lines]


def test_matmul() -> None:
    same(
        show_func(matmul()),
        """
        def matmul(A: float32[20, 20], B: float32[20, 20], C: float32[20, 20] out):
            for i in parallel(0, 20):
                for j in range(0, 20):
                    C[i, j] = 0.0
                    for k in range(0, 20):
                        C[i, j] = C[i, j] + A[i, k] * B[k, j]
    """.rstrip(),
    )


def test_vectors_masks_and_dims() -> None:
    same(
        str(blocked_matmul()),
        """
        def blocked_matmul(A: float32[M, K], B: float32[K, 12], C: float32[M, 12] out, *, M: dim(1..), K: dim(1..64)):
            for i.outer in parallel(0, (M + 3) // 4):
                C.local: float32[4, 16] local
                for i.inner in range(0, 4):
                    C.local[i.inner, 0 : 16] = x16(0.0)
                    for k in range(0, K):
                        if i.outer*4 + i.inner < M:
                            C.local[i.inner, 0 : 16] = C.local[i.inner, 0 : 16] + x16(A[i.outer*4 + i.inner, k]) * (B[k, 0 : 16] if ramp(0, 1, 16) < x16(12))
                for i.inner_1 in range(0, 4):
                    if i.outer*4 + i.inner_1 < M:
                        C[i.outer*4 + i.inner_1, 0 : 16] = C.local[i.inner_1, 0 : 16] if ramp(0, 1, 16) < x16(12)
    """.rstrip(),
    )


def test_branches_lets_and_lifetimes() -> None:
    c, t, w = buffer("C", 8), buffer("t", 2, scope="local"), buffer("w", 8, 8, scope="global", strides=(9, 1))
    i, x = var("i"), var("x", "float32")
    body = seq(
        Alloc(t, seq(store(t, 0, 1.0), Let(x, read(t, 0), store(c, 0, x * 2.0)))),
        Alloc(
            w,
            For(
                i,
                n(1),
                n(7),
                "unrolled",
                If(make.lt(i, 2), store(c, i, 0.0), If(make.lt(i, 4), store(c, i, 1.0), NOTHING)),
                (("pragma", "x"),),
            ),
        ),
    )
    same(
        str(func("f", (c,), body)),
        """
        def f(C: float32[8] out):
            t: float32[2] local
            t[0] = 1.0
            x = t[0]
            C[0] = x * 2.0
            del t
            w: float32[8, 8] strides [9, 1] global
            for i in unrolled(1, 8):  # pragma=x
                if i < 2:
                    C[i] = 0.0
                elif i < 4:
                    C[i] = 1.0
                else:
                    pass
    """.rstrip(),
    )


def test_slices() -> None:
    a, i = buffer("A", 64), var("i")
    assert str(read(a, make.ramp(i * 8, 1, 8))) == "A[i*8 : i*8 + 8]"
    assert str(read(a, make.ramp(i, 4, 8))) == "A[i : i + 32 : 4]"
    gather = read(buffer("P", 8, type_="int32"), make.ramp(n(0), 1, 8))
    assert str(read(a, gather)) == "A[P[0 : 8]]"
    masked = read(a, make.ramp(i, 1, 8), mask=make.ramp(i, 1, 8) < make.broadcast(n(9), 8))
    assert str(masked) == "A[i : i + 8] if ramp(i, 1, 8) < x8(9)"
    assert (
        str(masked * masked)
        == "(A[i : i + 8] if ramp(i, 1, 8) < x8(9)) * (A[i : i + 8] if ramp(i, 1, 8) < x8(9))"
    )
    assert str(reduction("add", read(a, make.ramp(i, 1, 8)))) == "sum(A[i : i + 8])"
    kept = packed(read(a, make.ramp(i, 1, 8)), make.ramp(i, 1, 8) < make.broadcast(n(9), 8))
    assert str(kept) == "packed(A[i : i + 8] if ramp(i, 1, 8) < x8(9))"


def test_the_order_of_float_arithmetic_is_seen() -> None:
    a = read(buffer("A", 4), n(0))
    b = read(buffer("B", 4), n(0))
    assert str(a + (b + a)) == "A[0] + (B[0] + A[0])"
    assert str((a + b) + a) == "A[0] + B[0] + A[0]"
    assert str(a * (b * a)) == "A[0] * (B[0] * A[0])"


def test_names_are_unique_and_do_not_depend_on_what_was_printed_before() -> None:
    c = buffer("i", 4, 4)
    body = loop(var("i"), 4, loop(var("for"), 4, store(c, (0, 0), 1.0)))
    text = str(func("f", (c,), body))
    assert "for i_1 in" in text and "for for_1 in" in text
    assert str(func("f", (c,), body)) == text


def test_a_long_header_takes_a_line_for_each_parameter() -> None:
    params = [buffer(f"parameter_{x}", 1024, 1024) for x in "abcde"]
    lines = str(Func("long", tuple(params), NOTHING, (dim("n"),))).splitlines()
    assert lines[0] == "def long(parameter_a: float32[1024, 1024],"
    assert lines[5] == "         *, n: dim(1..)):"
    assert lines[6] == "    pass"


def test_statements_show_themselves() -> None:
    s: Stmt = store(buffer("C", 4), 0, 1.0)
    assert str(s) == repr(s) == show_stmt(s) == "C[0] = 1.0"
