"""Arithmetic, comparisons, conversions and choices equal numpy's in scalars and in vectors."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tensorlang.core.dtype import KNOWN, dtype
from tensorlang.expr.nodes import Expr
from tensorlang.loopir.stmt import reduction

from .helper import Func, If, Kernel, Let, Store, Target, buffer, i32, load, loop, make, ramp, run, seq, var

rng = np.random.default_rng(1)
N = 96


def elementwise(
    result: str, types: tuple[str, ...], lanes: int, build: object, target: Target | None = None
) -> Kernel:
    args = [buffer(f"A{i}", t, N) for i, t in enumerate(types)]
    out = buffer("OUT", result, N)

    def body(i: Expr) -> Store:
        at = (ramp(i * lanes, lanes),)
        return Store(out, build(*[load(a, at) for a in args]), at)  # type: ignore[operator]

    return Kernel(Func("k", (*args, out), loop(N // lanes, body), (), (out,)), target=target)


def numbers(t: str) -> np.ndarray:
    d = dtype(t)
    if d.is_bool:
        return rng.integers(0, 2, N).astype(bool)
    if d.is_float:
        x = rng.normal(size=N) * 10.0 ** rng.integers(-3, 4, N)
        x[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
        return to_bfloat(x) if d.code == "bfloat" else x.astype(t)
    lo, hi = d.limits()
    x = rng.integers(lo, hi, N, t, endpoint=True)
    x[:4] = [lo, hi, 0, 1]
    return x


def to_bfloat(x: np.ndarray) -> np.ndarray:
    """float64 to the bits of bfloat16, through exact rational comparison of neighbours."""
    with np.errstate(all="ignore"):
        down = x.astype(np.float32).view(np.uint32) & 0xFFFF0000
    out = []
    for value, d in zip(x.astype(np.float64), down, strict=True):
        near = [int(d) + k * 0x10000 for k in (-1, 0, 1) if 0 <= int(d) + k * 0x10000 < 2**32]
        back = [float(np.uint32(b).view(np.float32)) for b in near]
        if np.isnan(value):
            out.append(0x7FC0)
        elif np.isinf(value):
            out.append(0x7F80 if value > 0 else 0xFF80)
        else:
            best = min(
                range(len(near)),
                key=lambda i: (abs(back[i] - value) if np.isfinite(back[i]) else np.inf, near[i] >> 16 & 1),
            )
            out.append(near[best] >> 16)
    return np.array(out, np.uint16).view(dtype("bfloat16").to_numpy())


def from_bfloat(x: np.ndarray) -> np.ndarray:
    return (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def plain(x: np.ndarray, t: str) -> np.ndarray:
    return from_bfloat(x) if t == "bfloat16" else x


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("a", KNOWN)
@pytest.mark.parametrize("b", KNOWN)
def test_casts(a: str, b: str, lanes: int) -> None:
    x = numbers(a)
    value = plain(x, a)
    out = np.zeros(N, dtype(b).to_numpy())
    assert elementwise(b, (a,), lanes, lambda e: make.cast(b, e))(x, out) == 0
    with np.errstate(all="ignore"):
        if b == "bfloat16":
            want, got = from_bfloat(to_bfloat(value.astype(np.float64))), from_bfloat(out)
        elif dtype(a).is_float and dtype(b).is_int:
            lo, hi = dtype(b).limits()  # saturates; NaN is 0
            exact = [
                0 if np.isnan(v) else lo if v <= lo else hi if v >= hi else int(v)
                for v in value.astype(np.float64)
            ]
            want, got = np.array(exact, b), out
        else:
            want, got = value.astype(b), out
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("a", ["float32", "float64", "bool", "int32", "uint8", "float16"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_float16_without_hardware(a: str, lanes: int) -> None:
    target = Target.parse("llvm -mcpu=x86-64-v2")
    assert not target.has_half
    x = numbers(a)
    out, back = np.zeros(N, "float16"), np.zeros(N, a)
    assert elementwise("float16", (a,), lanes, lambda e: make.cast("float16", e), target)(x, out) == 0
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, x.astype("float16"))
    assert elementwise(a, ("float16",), lanes, lambda e: make.cast(a, e), target)(out, back) == 0


def test_float16_widening_without_hardware_of_all_values() -> None:
    target = Target.parse("llvm -mcpu=x86-64-v2")
    kernel = elementwise("float32", ("float16",), 8, lambda e: make.cast("float32", e), target)
    every = np.resize(np.arange(65536, dtype=np.uint16), -(-65536 // N) * N).view("float16")
    for start in range(0, len(every), N):
        wide = np.zeros(N, "float32")
        kernel(every[start : start + N].copy(), wide)
        np.testing.assert_array_equal(wide, every[start : start + N].astype("float32"))


def test_float16_rounding_without_hardware_on_all_neighbours() -> None:
    target = Target.parse("llvm -mcpu=x86-64-v2")
    kernel = elementwise("float16", ("float32",), 8, lambda e: make.cast("float16", e), target)
    every = np.arange(0, 0x7C00, dtype=np.uint16).view("float16").astype("float32")
    middle = (every[:-1] + every[1:]) / 2
    values = np.concatenate(
        [
            every,
            middle,
            np.nextafter(middle, np.float32(np.inf)),
            np.nextafter(middle, np.float32(0)),
            [65519, 65520, 1e30],
        ]
    )
    values = np.concatenate([values, -values]).astype("float32")
    values = np.resize(values, -(-len(values) // N) * N)
    for start in range(0, len(values), N):
        out = np.zeros(N, "float16")
        kernel(values[start : start + N].copy(), out)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(
                out.view(np.uint16), values[start : start + N].astype("float16").view(np.uint16)
            )


@pytest.mark.parametrize("t", ["int8", "int32", "int64", "uint8", "uint32", "uint64"])
@pytest.mark.parametrize("lanes", [1, 8, 6])
def test_integer_division_is_exact_and_never_traps(t: str, lanes: int) -> None:
    a, b = numbers(t), numbers(t)
    b[10:40] = rng.integers(1, 7, 30)
    a[4], b[4] = dtype(t).limits()[0], -1 if dtype(t).code == "int" else 3
    a[5:8], b[5:8] = (
        [-7, 7, -8] if dtype(t).code == "int" else [7, 7, 8],
        [2, -2 if dtype(t).code == "int" else 2, 4],
    )
    good = b != 0
    for op, want in (
        (make.floordiv, np.floor_divide),
        (make.floormod, np.remainder),
        (make.truncmod, np.fmod),
    ):
        out = np.zeros(N, t)
        assert elementwise(t, (t, t), lanes, op)(a, b, out) == 0
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(out[good], want(a, b)[good])
    out = np.zeros(N, t)
    assert elementwise(t, (t, t), lanes, make.truncdiv)(a, b, out) == 0
    with np.errstate(all="ignore"):
        wrapped = [
            dtype(t).wrap(int(abs(int(x)) // abs(int(y))) * (1 if (x < 0) == (y < 0) else -1)) if y else 0
            for x, y in zip(a, b, strict=True)
        ]
    np.testing.assert_array_equal(out[good], np.array(wrapped, t)[good])


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 8, 10, -3, -4, 100])
@pytest.mark.parametrize("lanes", [1, 8])
def test_division_by_constants(divisor: int, lanes: int) -> None:
    a = numbers("int32")
    a[50:] = np.arange(N - 50) - 23
    for op, want in (
        (make.floordiv, np.floor_divide),
        (make.floormod, np.remainder),
        (make.truncmod, np.fmod),
    ):
        out = np.zeros(N, "int32")
        assert (
            elementwise(
                "int32", ("int32",), lanes, lambda e, op=op: op(e, make.broadcast(i32(divisor), lanes))
            )(a, out)
            == 0
        )
        np.testing.assert_array_equal(out, want(a, divisor))


@pytest.mark.parametrize("t", ["int32", "int64"])
def test_index_division_of_negative_loop_variables(t: str) -> None:
    n, d = var("n", t, "dim"), var("d", t, "value")
    out = buffer("OUT", t, 8, 41)
    exprs = [
        lambda i: i // 7,
        lambda i: i % 7,
        lambda i: i // 8,
        lambda i: i % 8,
        lambda i: i // d,
        lambda i: i % d,
        lambda i: make.truncdiv(i, d),
        lambda i: make.truncmod(i, d),
    ]
    func = Func(
        "k",
        (out, d),
        loop(
            41,
            lambda i: seq(*[Store(out, e(i), (i32(r), i + 20)) for r, e in enumerate(exprs)]),
            begin=-20,
            t=t,
        ),
        (n,),
        (out,),
    )
    kernel = Kernel(func)
    for divisor in (5, -5, 1, -1, 64):
        got = np.zeros((8, 41), t)
        assert kernel(got, dims=(1,), scalars=(divisor,)) == 0
        i = np.arange(-20, 21)
        truncated = np.trunc(i / divisor).astype(int)
        want = [i // 7, i % 7, i // 8, i % 8, i // divisor, i % divisor, truncated, i - truncated * divisor]
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "target", ["llvm -mcpu=haswell", "llvm -mcpu=skylake-avx512"], ids=["avx2", "avx512"]
)
def test_vectors_are_divided_by_an_open_size_without_dividing_lanes(target: str) -> None:
    """By float64, exactly, up to the largest numbers: quotients that are whole, and those just below."""
    n, base = var("n", kind="dim"), var("base", kind="dim")
    out = buffer("OUT", "int32", 2, 16)
    at, by = ramp(base, 16), make.broadcast(n, 16)
    stores = [Store(out, op(at, by), (i32(r), ramp(i32(0), 16))) for r, op in enumerate(BOTH)]
    kernel = Kernel(Func("k", (out,), seq(*stores), (n, base), (out,)), target=Target.parse(target))
    assert not re.search(r"\bi?div[lqr]?\b", kernel.code.asm) and "vcvttpd2dq" in kernel.code.asm
    if kernel.target.why_not_here():
        return
    most = 2**31 - 17
    divisors = [1, 2, 3, 7, 10, 1000, 46341, 65536, 2**30 - 1, 2**31 - 2, *rng.integers(1, 2**31 - 1, 40)]
    for d in map(int, divisors):
        for first in {0, most, *(max(min(k * d - 8, most), 0) for k in (1, 2, 3, 46340, most // d))}:
            got, i = np.zeros((2, 16), "int32"), np.arange(first, first + 16)
            assert kernel(got, dims=(d, first)) == 0
            np.testing.assert_array_equal(got, [i // d, i % d])


BOTH = (make.floordiv, make.floormod)


def test_division_of_what_is_not_negative_is_cheap() -> None:
    n = var("n", kind="dim")
    x, y = buffer("X", "float32", n), buffer("Y", "float32", n)
    func = Func(
        "k", (x, y), loop(n, lambda i: Store(y, load(x, (i // 3 + i % 5 + i // n,)), (i,))), (n,), (y,)
    )
    ll = Kernel(func).ll
    assert (
        "udiv i64" in ll and "urem i64" in ll and "sdiv" not in ll and "srem" not in ll and "ashr" not in ll
    )


@pytest.mark.parametrize("t", ["float16", "bfloat16"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_a_float_of_16_bits_is_rounded_once_on_its_way_to_memory(t: str, lanes: int) -> None:
    """Held as float32 it was rounded where it was made, and again where it is stored."""
    target = Target.parse("llvm -mcpu=x86-64-v2")
    kernel = elementwise(t, ("float32",), lanes, lambda e: make.cast(t, e), target)
    assert kernel.ll.count("fcmp uno") == 1
    copy = elementwise(t, (t,), lanes, lambda e: e, target)
    assert "fcmp" not in copy.ll


def test_one_value_rounded_to_both_kinds_of_16_bits() -> None:
    target = Target.parse("llvm -mcpu=x86-64-v2")
    x = numbers("float32")
    for first, second in (("bfloat16", "float16"), ("float16", "bfloat16")):
        twice = lambda e, a=first, b=second: make.cast(b, make.cast("float32", make.cast(a, e)))
        out, middle, want = np.zeros(N, "uint16"), np.zeros(N, "uint16"), np.zeros(N, "uint16")
        views = [v.view(dtype(t).to_numpy()) for v, t in ((out, second), (middle, first), (want, second))]
        elementwise(second, ("float32",), 8, twice, target)(x, views[0])
        elementwise(first, ("float32",), 8, lambda e, t=first: make.cast(t, e), target)(x, views[1])
        elementwise(second, (first,), 8, lambda e, t=second: make.cast(t, e), target)(views[1], views[2])
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("t", ["float32", "float64", "float16", "bfloat16", "int32", "uint8", "int64"])
@pytest.mark.parametrize("lanes", [1, 8, 6])
def test_arithmetic(t: str, lanes: int) -> None:
    a, b = numbers(t), rng.permutation(numbers(t))
    pa, pb = plain(a, t), plain(b, t)
    with np.errstate(all="ignore"):
        cases = [
            (make.add, pa + pb),
            (make.sub, pa - pb),
            (make.mul, pa * pb),
            (make.min_, np.minimum(pa, pb)),
            (make.max_, np.maximum(pa, pb)),
        ]
        if dtype(t).is_float:
            cases.append((make.div, pa / pb))
    for op, want in cases:
        out = np.zeros(N, dtype(t).to_numpy())
        assert elementwise(t, (t, t), lanes, op)(a, b, out) == 0
        got = plain(out, t)
        if t == "bfloat16":
            want = from_bfloat(to_bfloat(want.astype(np.float64)))
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("t", ["float32", "float16", "bfloat16", "int32", "uint32", "int8", "uint8", "int64"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_comparisons_and_logic(t: str, lanes: int) -> None:
    a, b = numbers(t), numbers(t)
    b[::2] = a[::2]
    pa, pb = plain(a, t), plain(b, t)
    for op, want in (
        (make.eq, pa == pb),
        (make.ne, pa != pb),
        (make.lt, pa < pb),
        (make.le, pa <= pb),
        (make.gt, pa > pb),
        (make.ge, pa >= pb),
        (lambda x, y: make.and_(make.lt(x, y), make.not_(make.eq(x, y))), pa < pb),
        (lambda x, y: make.or_(make.lt(x, y), make.eq(x, y)), pa <= pb),
        (lambda x, y: make.not_(make.lt(x, y)), ~(pa < pb)),
    ):
        out = np.zeros(N, bool)
        assert elementwise("bool", (t, t), lanes, op)(a, b, out) == 0
        np.testing.assert_array_equal(out, want)


def test_any_byte_but_zero_is_true() -> None:
    out = np.zeros(N, bool)
    flags = rng.integers(0, 256, N).astype(np.uint8)
    assert elementwise("bool", ("bool",), 8, lambda e: e)(flags, out) == 0
    np.testing.assert_array_equal(out.view(np.uint8), flags != 0)


@pytest.mark.parametrize("t", ["float32", "int32", "int64", "uint8", "float16", "bfloat16", "bool"])
@pytest.mark.parametrize("lanes", [2, 6, 8, 16, 48])
def test_reductions(t: str, lanes: int) -> None:
    ops = (
        {"and": np.all, "or": np.any, "min": np.min, "max": np.max}
        if t == "bool"
        else {"add": np.sum, "mul": np.prod, "min": np.min, "max": np.max}
    )
    for op, want in ops.items():
        x, y = buffer("X", t, lanes), buffer("Y", t, 1)
        func = Func("k", (x, y), Store(y, reduction(op, load(x, (ramp(0, lanes),))), (i32(0),)), (), (y,))
        for values in (rng.integers(0, 2, lanes) + (op == "mul"), rng.permutation(np.arange(lanes) % 2) + 1):
            if op == "mul":
                values = np.where(np.arange(lanes) < 4, values, 1)
            a = to_bfloat(values.astype(float)) if t == "bfloat16" else values.astype(t)
            b = np.zeros(1, a.dtype)
            run(func, a, b)
            assert plain(b, t)[0] == want(plain(a, t)), op


def test_reductions_let_nan_through() -> None:
    for op in ("min", "max", "add"):
        x, y = buffer("X", "float32", 8), buffer("Y", "float32", 1)
        func = Func("k", (x, y), Store(y, reduction(op, load(x, (ramp(0, 8),))), (i32(0),)), (), (y,))
        for at in range(8):
            a, b = np.arange(8, dtype="float32"), np.zeros(1, "float32")
            a[at] = np.nan
            run(func, a, b)
            assert np.isnan(b[0])


def test_if_then_else_guards_a_read_scalar_and_vector() -> None:
    from .test_memory import guarded_page

    x, y = buffer("X", "float32", 5), buffer("Y", "float32", 16)
    a = guarded_page(5)
    a[:] = [1, 2, 3, 4, 5]
    want = np.array([1, 2, 3, 4, 5] + [-1] * 11, "float32")
    for lanes in (1, 16):

        def body(i: Expr, lanes: int = lanes) -> Store:
            at = ramp(i * lanes, lanes)
            value = make.if_then_else(make.lt(at, i32(5)), load(x, (at,)) * 1, make.const(-1.0, "float32"))
            return Store(y, value, (at,))

        b = np.zeros(16, "float32")
        run(Func("k", (x, y), loop(16 // lanes, body), (), (y,)), a, b)
        np.testing.assert_array_equal(b, want)


def test_nested_guards_gathers_and_divisions_in_vectors() -> None:
    from .test_memory import guarded_page

    x, p, y = buffer("X", "int32", 5), buffer("P", "int32", 8), buffer("Y", "int32", 16)
    at = ramp(0, 16)
    inner = make.if_then_else(make.lt(at, i32(8)), load(p, (at,)), make.const(0, "int32x16"))
    # X[P[i]] where i < 8 and P[i] < 5; 100 // X[0] wherever i >= 8; 100 // P[i] between
    guarded = make.if_then_else(
        make.and_(make.lt(at, i32(8)), make.lt(load(p, (at,)), i32(5))),
        load(x, (load(p, (at,)),)),
        make.if_then_else(
            make.lt(at, i32(8)),
            make.floordiv(make.const(100, "int32x16"), inner),
            make.floordiv(make.const(100, "int32x16"), make.broadcast(load(x, (i32(0),)), 16)),
        ),
    )
    a, order = guarded_page(5, "int32"), guarded_page(8, "int32")
    a[:], order[:] = [10, 20, 30, 40, 50], [4, 9, 0, 7, 1, 50, 3, 2]
    b = np.zeros(16, "int32")
    run(Func("k", (x, p, y), Store(y, guarded, (at,)), (), (y,)), a, order, b)
    np.testing.assert_array_equal(b, [50, 11, 10, 14, 20, 2, 40, 30] + [10] * 8)


def test_and_is_lazy_where_the_right_side_reads() -> None:
    from .test_memory import guarded_page

    x, y = buffer("X", "float32", 5), buffer("Y", "float32", 8)
    a = guarded_page(5)
    a[:] = [1, -1, 1, -1, 1]
    func = Func(
        "k",
        (x, y),
        loop(
            8,
            lambda i: If(
                make.and_(make.lt(i, i32(5)), make.gt(load(x, (i,)), make.const(0.0))),
                Store(y, make.const(1.0), (i,)),
                Store(y, make.const(2.0), (i,)),
            ),
        ),
        (),
        (y,),
    )
    b = np.zeros(8, "float32")
    run(func, a, b)
    np.testing.assert_array_equal(b, [1, 2, 1, 2, 1, 2, 2, 2])
    at = ramp(0, 8)
    func = Func(
        "k",
        (x, y),
        Store(
            y,
            make.select(
                make.and_(make.lt(at, i32(5)), make.gt(load(x, (at,)), make.const(0.0, "float32x8"))),
                make.const(1.0, "float32x8"),
                make.const(2.0, "float32x8"),
            ),
            (at,),
        ),
        (),
        (y,),
    )
    b[:] = 0
    run(func, a, b)
    np.testing.assert_array_equal(b, [1, 2, 1, 2, 1, 2, 2, 2])


def test_loop_variables_as_data_and_lets() -> None:
    y, z = buffer("Y", "float32", 10), buffer("Z", "int32", 10)
    v, w = var("v", "int32", "value"), var("w", "float32", "value")

    def body(i: Expr) -> Let:
        return Let(
            v,
            i * i + load(z, (i,)),
            Let(
                w,
                make.cast("float32", v) * 2,
                seq(Store(z, v, (i,)), Store(y, w + make.cast("float32", i), (i,))),
            ),
        )

    a, b = np.zeros(10, "float32"), np.arange(10, dtype="int32")
    run(Func("k", (y, z), loop(10, body), (), (y, z)), a, b)
    i = np.arange(10)
    np.testing.assert_array_equal(b, i * i + i)
    np.testing.assert_array_equal(a, (i * i + i) * 2 + i)


@pytest.mark.parametrize("t", KNOWN)
def test_scalar_parameters(t: str) -> None:
    s = var("s", t, "value")
    y = buffer("Y", t, 3)
    value = 1 if t == "bool" else 1.5 if dtype(t).is_float else dtype(t).limits()[1]
    if t == "uint64":
        value = 7
    b = np.zeros(3, dtype(t).to_numpy())
    run(Func("k", (s, y), loop(3, lambda i: Store(y, s, (i,))), (), (y,)), b, scalars=(value,))
    np.testing.assert_array_equal(plain(b, t), np.full(3, value))


@pytest.mark.parametrize("lanes", [1, 8])
def test_deeply_nested_lazy_conditions_that_read(lanes: int) -> None:
    from .test_memory import guarded_page

    x = [buffer(f"X{i}", "int32", 3 + i) for i in range(5)]
    y = buffer("Y", "int32", 8)

    def read(k: int, at: Expr) -> Expr:
        return load(x[k], (at,))

    def small(k: int, at: Expr, limit: int) -> Expr:
        return make.lt(read(k, at), make.broadcast(i32(limit), lanes))

    def inside(k: int, at: Expr) -> Expr:
        return make.lt(at, make.broadcast(i32(3 + k), lanes))

    def body(i: Expr) -> Store:
        at = ramp(i * lanes, lanes)
        deep = make.if_then_else(
            make.and_(small(1, at, 2), make.and_(small(2, at, 2), small(3, at, 2))),
            make.if_then_else(
                make.or_(make.not_(small(3, at, 1)), small(4, at, 1)), read(4, at) + read(0, at), read(2, at)
            ),
            make.if_then_else(small(2, at, 1), read(1, at), read(0, at)),
        )
        value = make.if_then_else(
            make.and_(inside(0, at), small(0, at, 5)),
            deep,
            make.if_then_else(
                make.and_(inside(4, at), small(4, at, 2)), read(4, at), make.broadcast(i32(-1), lanes)
            ),
        )
        return Store(y, value, (at,))

    kernel = Kernel(Func("k", (*x, y), loop(8 // lanes, body), (), (y,)))
    for _ in range(20):
        arrays = [guarded_page(3 + i, "int32") for i in range(5)]
        for a in arrays:
            a[:] = rng.integers(0, 3, len(a))
        got, want = np.zeros(8, "int32"), np.zeros(8, "int32")
        assert kernel(*arrays, got) == 0
        a = [[int(v) for v in p] for p in arrays]
        for i in range(8):
            if i < 3 and a[0][i] < 5:
                if a[1][i] < 2 and a[2][i] < 2 and a[3][i] < 2:
                    want[i] = a[4][i] + a[0][i] if not a[3][i] < 1 or a[4][i] < 1 else a[2][i]
                else:
                    want[i] = a[1][i] if a[2][i] < 1 else a[0][i]
            else:
                want[i] = a[4][i] if i < 7 and a[4][i] < 2 else -1
        np.testing.assert_array_equal(got, want)


def test_nested_guards_whose_masks_read_in_every_level() -> None:
    x = [buffer(f"X{i}", "int32", 8) for i in range(6)]
    y = buffer("Y", "int32", 8)
    at = ramp(0, 8)
    d = [make.lt(load(b, (at,)), make.const(1, "int32x8")) for b in x]
    value = load(x[0], (at,)) + 1
    for k in range(5):
        value = make.if_then_else(
            make.and_(d[k], make.and_(d[(k + 1) % 6], d[(k + 2) % 6])), value, load(x[k], (at,))
        )
    arrays = [rng.integers(0, 2, 8).astype("int32") for _ in range(6)]
    got = np.zeros(8, "int32")
    run(Func("k", (*x, y), Store(y, value, (at,), make.or_(d[5], make.not_(d[4]))), (), (y,)), *arrays, got)
    want = arrays[0] + 1
    for k in range(5):
        c = (arrays[k] < 1) & (arrays[(k + 1) % 6] < 1) & (arrays[(k + 2) % 6] < 1)
        want = np.where(c, want, arrays[k])
    np.testing.assert_array_equal(got, np.where((arrays[5] < 1) | (arrays[4] >= 1), want, 0))
