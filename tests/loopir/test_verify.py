"""The verifier accepts what is well formed and names each malformation."""

from __future__ import annotations

import pytest

from tensorlang.core.dtype import FLOAT32, dtype
from tensorlang.errors import TensorLangError
from tensorlang.expr import make
from tensorlang.expr.nodes import READS, Access, Add, Broadcast, Call, Expr, Ramp, build, over, together
from tensorlang.loopir.packed import Packed
from tensorlang.loopir.stmt import (
    Alloc,
    Buffer,
    Evaluate,
    For,
    Func,
    If,
    Let,
    Load,
    Reduction,
    Stmt,
    Store,
    seq,
)
from tensorlang.loopir.verify import VerifyError, verify

from .kernels import blocked_matmul, buffer, dim, func, loop, matmul, n, read, store, var

A, C = buffer("A", 16), buffer("C", 16)
T = buffer("t", 4, scope="local")
P = buffer("P", 16, type_="int32")
i, j, x = var("i"), var("j"), var("x", "float32")
r8 = make.ramp(n(0), 1, 8)


class Foreign(Access):
    """Stands for the reads of tensors that only the language knows."""

    __slots__ = ()
    _fields = ("indices",)

    def __init__(self, indices: tuple[Expr, ...]) -> None:
        self._memo = None
        self._height = over(indices)
        self.contains = together(READS, indices)
        self.indices = indices
        self.dtype = FLOAT32

    def label(self) -> str:
        return "tensor"


def test_well_formed() -> None:
    verify(matmul())
    verify(blocked_matmul())
    twice = loop(i, 4, store(C, i, 1.0))
    verify(func("f", (C,), seq(twice, twice)))  # beside each other: allowed
    verify(
        func("f", (A, C), seq(Evaluate(build(Call, FLOAT32, "prefetch", (read(A, 99),))), store(C, 0, 1.0)))
    )


MALFORMED: dict[str, tuple[Stmt | Func, str]] = {
    "undefined variable": (store(C, i, 1.0), "i is used where it is not defined"),
    "variable after its loop": (
        seq(loop(i, 4, store(C, i, 1.0)), store(C, i, 1.0)),
        "i is used where it is not defined",
    ),
    "bound of its own loop": (loop(i, i, store(C, 0, 1.0)), "i is used where it is not defined"),
    "let value uses its variable": (Let(x, x + 1.0, store(C, 0, x)), "x is used where it is not defined"),
    "defined twice": (loop(i, 4, loop(i, 4, store(C, i, 1.0))), "i is defined again within its own scope"),
    "buffer outside its alloc": (
        seq(Alloc(T, store(T, 0, 1.0)), store(C, 0, read(T, 0))),
        "t is used outside its Alloc",
    ),
    "buffer that is not a parameter": (store(C, 0, read(buffer("D", 4), 0)), "D is not a parameter"),
    "allocated twice": (Alloc(T, Alloc(T, store(T, 0, 1.0))), "t is allocated again"),
    "scope of an alloc": (Alloc(buffer("w", 4), store(C, 0, 1.0)), "w is allocated in the scope arg"),
    "number of strides": (
        Alloc(buffer("w", 4, scope="local", strides=(1, 1)), store(C, 0, 1.0)),
        "1 dimension(s) and 2 stride(s)",
    ),
    "input written": (Func("f", (A, C), store(A, 0, 1.0), (), (C,)), "A is written but is not an output"),
    "output no parameter": (Func("f", (A,), store(A, 0, 1.0), (), (A, C)), "the output C is not a parameter"),
    "dtype of a store": (Store(C, n(1), (n(0),)), "C is float32, the value stored is int32"),
    "rank": (store(C, (0, 0), 1.0), "C has 1 dimension(s), the access 2 index(es)"),
    "rank of a load": (store(C, 0, read(A, 0, 0)), "A has 1 dimension(s), the access 2 index(es)"),
    "float index": (Store(C, make.const(1.0), (make.const(1.0),)), "index 0 of C is float32"),
    "lanes of a store": (
        Store(C, make.const(1.0), (r8,)),
        "a value of 1 lane(s) is stored by an access of 8",
    ),
    "lanes of indices": (
        Store(buffer("D", 4, 4), make.broadcast(make.const(1.0), 8), (r8, make.ramp(n(0), 1, 4))),
        "index 1 of 4",
    ),
    "lanes of a mask": (
        Store(C, make.broadcast(make.const(1.0), 8), (r8,), make.broadcast(i < 1, 4)),
        "under a mask of 4",
    ),
    "mask is a number": (
        loop(i, 4, Store(C, make.const(1.0), (n(0),), i)),
        "the mask of an access to C is int32",
    ),
    "condition is a number": (If(n(1), store(C, 0, 1.0)), "the condition of an `if` is int32"),
    "condition is a vector": (
        loop(i, 4, If(r8 < make.broadcast(i, 8), store(C, 0, 1.0))),
        "the condition of an `if` is boolx8",
    ),
    "tensor read": (store(C, 0, build(Foreign, (n(0),))), "reads a tensor of the language"),
    "kind of loop": (For(i, n(0), n(4), "magic", store(C, 0, 1.0)), "no kind of loop is called magic"),
    "vectorized dynamic": (
        Func("f", (C,), loop(i, dim("m"), store(C, 0, 1.0), "vectorized"), (), (C,)),
        "m is used where",
    ),
    "float extent": (For(i, n(0), make.const(4.0), "serial", store(C, 0, 1.0)), "the extent of i is float32"),
    "bool extent": (For(i, n(0), make.const(True), "serial", store(C, 0, 1.0)), "the extent of i is bool"),
    "float loop variable": (loop(x, 4, store(C, 0, 1.0)), "the loop variable x is float32"),
    "let of another type": (Let(x, n(1), store(C, 0, x)), "x is float32, its value int32"),
    "mixed sides": (store(C, 0, build(Add, make.const(1.0), n(1))), "the sides of `+` are float32 and int32"),
    "scalar meets vector": (
        Store(C, build(Add, make.broadcast(make.const(1.0), 8), make.const(1.0)), (r8,)),
        "the sides of `+` are float32x8 and float32",
    ),
    "broadcast of a vector": (
        Store(C, build(Broadcast, make.broadcast(make.const(1.0), 8), 8), (r8,)),
        "a broadcast of float32x8",
    ),
    "ramp over floats": (
        store(C, 0, build(Reduction, "add", build(Ramp, make.const(1.0), make.const(1.0), 8))),
        "the base of a ramp is float32",
    ),
    "reduction of a name unknown": (
        store(C, 0, build(Reduction, "xor", read(A, r8))),
        "no reduction of lanes is called xor",
    ),
    "reduction of a scalar": (
        store(C, 0, build(Reduction, "add", read(A, 0))),
        "a reduction over the lanes of a scalar",
    ),
    "lanes kept by numbers": (
        Store(C, build(Packed, read(A, r8), r8), (r8,)),
        "lanes of float32x8 kept by int32x8",
    ),
    "unknown intrinsic": (
        store(C, 0, build(Call, FLOAT32, "frobnicate", (read(A, 0),))),
        "no intrinsic is called frobnicate",
    ),
    "prefetch in a value": (
        store(C, 0, build(Call, FLOAT32, "prefetch", (read(A, 0),))),
        "no intrinsic is called prefetch",
    ),
    "intrinsic on integers": (store(C, 0, build(Call, FLOAT32, "exp", (n(1),))), "exp on int32"),
    "buffer of vectors": (
        Alloc(Buffer("w", dtype("float32x4"), (n(4),), "local"), store(C, 0, 1.0)),
        "elements of float32x4",
    ),
    "float size": (
        Alloc(Buffer("w", FLOAT32, (make.const(4.0),), "local"), store(C, 0, 1.0)),
        "a size of w is float32",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed(case: str) -> None:
    body, reason = MALFORMED[case]
    f = body if isinstance(body, Func) else Func("f", (A, C, P), body, (), (C,))
    if case == "lanes of indices":
        d = body.buffer  # type: ignore[union-attr]
        f = Func("f", (d,), body, (), (d,))  # type: ignore[arg-type]
    if case == "lanes of a mask":
        f = Func("f", (C,), loop(i, 4, body), (), (C,))  # type: ignore[arg-type]
    with pytest.raises(VerifyError) as caught:
        verify(f)
    assert reason in caught.value.reason


def test_vectorized_loops_need_constant_extents() -> None:
    m = dim("m")
    f = Func("f", (buffer("D", m),), loop(i, m, Evaluate(i + 0), "vectorized"), (m,))
    with pytest.raises(VerifyError, match="the extent of the vectorized loop i is m, not a constant"):
        verify(f)


def test_the_guilty_line_is_marked() -> None:
    body = loop(i, 4, seq(store(C, i, 1.0), loop(j, 4, Store(C, n(1), (j,)))))
    with pytest.raises(VerifyError) as caught:
        verify(func("f", (C,), body))
    assert not isinstance(caught.value, TensorLangError)
    assert str(caught.value).splitlines() == [
        "C is float32, the value stored is int32",
        "  def f(C: float32[16] out):",
        "      for i in range(0, 4):",
        "          C[i] = 1.0",
        "          for j in range(0, 4):",
        ">             C[j] = 1    # <-- C is float32, the value stored is int32",
    ]


def test_a_long_function_is_cut_around_the_guilty_line() -> None:
    many = [store(C, 0, float(k)) for k in range(100)]
    body = loop(i, 4, seq(*many, Store(C, n(1), (i,))))
    with pytest.raises(VerifyError) as caught:
        verify(func("f", (C,), body))
    lines = str(caught.value).splitlines()
    assert len(lines) < 30 and "      for i in range(0, 4):" in lines and "  ..." in lines


def test_loads_are_interned_so_scope_is_asked_each_time() -> None:
    value = read(T, 0)
    assert isinstance(value, Load)
    with pytest.raises(VerifyError, match="outside its Alloc"):
        verify(func("f", (C,), seq(Alloc(T, seq(store(T, 0, 1.0), store(C, 0, value))), store(C, 1, value))))


# ---- in bounds by proof


def test_in_bounds() -> None:
    verify(matmul(), in_bounds=True)
    verify(blocked_matmul(), in_bounds=True)


def test_in_bounds_by_guard() -> None:
    m = dim("m")
    a, d = buffer("A", m), buffer("D", m)
    at, lanes = i * 8 + j, i * 8 + r8
    guarded = loop(i, (m + 7) // 8, loop(j, 8, If(at < m, store(d, at, read(a, at)))), "parallel")
    lazy = loop(i, m + 2, If(i < m, store(d, i, make.if_then_else(make.le(1, i), read(a, i - 1), 0.0))))
    mask = lanes < make.broadcast(m, 8)
    masked = loop(i, (m + 7) // 8, Store(d, read(a, lanes, mask=mask), (lanes,), mask))
    orelse = loop(i, m + 2, If(make.or_(i < 1, m <= i), store(d, 0, 1.0), store(d, i, read(a, i - 1))))
    let = loop(i, m, Let(j, m - 1 - i, store(d, j, read(a, j))))
    gather = loop(i, m, store(d, i, read(a, read(buffer("P", m, type_="int32"), i))))
    for body in (guarded, lazy, masked, orelse, let):
        verify(func("f", (a, d), body, (m,)), in_bounds=True)
    p = gather.body.value.indices[0].buffer  # type: ignore[attr-defined]
    verify(func("f", (a, p, d), gather, (m,)), in_bounds=True)


def test_a_condition_on_an_outer_variable_bounds_an_inner_one() -> None:
    t = buffer("t", 8, scope="local")
    body = loop(
        i, 3, If(make.le(0, 14 - i * 8), store(C, 0, 1.0), Alloc(t, loop(j, 22 - i * 8, store(t, j, 1.0))))
    )
    verify(func("f", (C,), body), in_bounds=True)


def test_a_shared_statement_is_marked_where_it_is_guilty() -> None:
    s = store(C, i, 1.0)
    with pytest.raises(VerifyError) as caught:
        verify(func("f", (C,), seq(loop(i, 16, s), loop(i, 17, s))), in_bounds=True)
    assert str(caught.value).splitlines()[-1].startswith(">         C[i] = 1.0")
    assert str(caught.value).splitlines()[-2] == "      for i in range(0, 17):"


def test_not_in_bounds() -> None:
    m = dim("m")
    a, d = buffer("A", m), buffer("D", m)
    at, lanes = i * 8 + j, i * 8 + r8
    plain = loop(i, (m + 7) // 8, loop(j, 8, store(d, at, 1.0)))
    unmasked = loop(i, (m + 7) // 8, Store(d, make.broadcast(make.const(1.0), 8), (lanes,)))
    below = loop(i, m, store(d, i, read(a, i - 1)))
    strict = loop(i, m, store(d, i, make.select(make.le(1, i), read(a, i - 1), 0.0)))
    for body, reason in (
        (plain, "i*8 + j < m"),
        (unmasked, "i*8 + lane < m"),
        (below, "0 <= i - 1"),
        (strict, "0 <= i - 1"),
    ):
        with pytest.raises(VerifyError) as caught:
            verify(func("f", (a, d), body, (m,)), in_bounds=True)
        assert reason in caught.value.reason
