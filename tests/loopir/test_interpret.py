"""The interpreter computes what the machine would, and catches each kind of error."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tensorlang.core.dtype import dtype
from tensorlang.expr import make
from tensorlang.expr.nodes import Call, build
from tensorlang.loopir.interpret import InterpretError, Program, interpret
from tensorlang.loopir.stmt import NOTHING, Alloc, Evaluate, Func, If, Let, Stmt, Store, load, seq

from .kernels import blocked_matmul, buffer, dim, func, loop, matmul, n, read, store, var

i, j, k = var("i"), var("j"), var("k")
F32 = np.float32


def zeros(*shape: int, type_: str = "float32") -> np.ndarray[Any, Any]:
    return np.zeros(shape, type_)


def ints(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(F32)


def fails(f: Func, *args: Any, **options: Any) -> InterpretError:
    with pytest.raises(InterpretError) as caught:
        interpret(f, *args, **options)
    return caught.value


# ---- what is computed


@pytest.mark.parametrize("kind", ["serial", "parallel", "vectorized", "unrolled"])
def test_matmul(kind: str) -> None:
    a, b, c = ints(20, 20), ints(20, 20, seed=1), zeros(20, 20)
    assert interpret(matmul(20, kind), a, b, c).unwritten == {}
    assert (c == a @ b).all()


@pytest.mark.parametrize("m", [1, 4, 7, 13])
def test_vectors_masks_guards_and_dims(m: int) -> None:
    a, b, c = ints(m, 5), ints(5, 12), zeros(m, 12)
    assert interpret(blocked_matmul(), a, b, c).dims == {"M": m, "K": 5}
    assert (c == a @ b).all()


def test_checks_are_cheap() -> None:
    """No function is called for each of the eight thousand iterations."""
    a, b, c = ints(20, 20), ints(20, 20, seed=1), zeros(20, 20)
    program, calls = Program(matmul()), [0]

    def count(frame: object, event: str, what: object) -> None:
        calls[0] += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        program.run(a, b, c)
    finally:
        sys.setprofile(before)
    assert 0 < calls[0] < 1000


def test_arrays_that_are_not_compact_are_read_and_written_in_place() -> None:
    a, b, c = ints(20, 40)[:, ::2], ints(20, 20).T, zeros(20, 20).T
    interpret(matmul(), a, b, c)
    assert (c == a @ b).all()


def test_scalars_and_lets() -> None:
    c, s, f, x = buffer("C", 4), var("s"), var("f", "float32"), var("x", "float32")
    body = loop(i, 4, Let(x, make.cast("float32", s + i) * f, store(c, i, x + x)))
    out = zeros(4)
    interpret(func("f", (c, s, f), body), out, 3, 0.5)
    assert out.tolist() == [3, 4, 5, 6]


def test_thirty_nested_loops() -> None:
    c = buffer("C", 8)
    loops = [var(f"i{x}") for x in range(30)]
    index = loops[3] * 4 + loops[17] * 2 + loops[29]
    body: Stmt = store(c, index, make.cast("float32", index))
    for x in reversed(range(30)):
        body = loop(loops[x], 2 if x in (3, 17, 29) else 1, body, "parallel" if x == 3 else "serial")
    out = zeros(8)
    interpret(func("deep", (c,), body), out)
    assert out.tolist() == list(range(8))


def test_empty_loops_and_branches() -> None:
    m, c = dim("m", lo=None), buffer("C", 4)
    body = loop(
        i,
        4,
        seq(
            loop(j, i - 2, store(c, i, 9.0)),
            If(make.lt(i, 2), NOTHING, store(c, i, 1.0)),
            If(i < 2, store(c, i, 5.0)),
        ),
    )
    out = zeros(4)
    interpret(func("f", (c,), body, (m,)), out, dims={"m": 0})
    assert out.tolist() == [5, 5, 1, 1]


def test_padded_workspace_uses_its_strides() -> None:
    c, w = buffer("C", 3, 4), buffer("w", 3, 4, scope="global", strides=(7, 1))
    fill = loop(i, 3, loop(j, 4, store(w, (i, j), make.cast("float32", i * 4 + j))))
    i2, j2 = var("i"), var("j")
    out = zeros(3, 4)
    interpret(
        func("f", (c,), Alloc(w, seq(fill, loop(i2, 3, loop(j2, 4, store(c, (i2, j2), read(w, i2, j2))))))),
        out,
    )
    assert (out.ravel() == np.arange(12)).all()


def test_a_load_between_stores_is_made_again() -> None:
    c = buffer("C", 2)
    body = seq(
        store(c, 0, 1.0),
        store(c, 1, read(c, 0)),
        store(c, 0, read(c, 0) + 1.0),
        store(c, 1, read(c, 1) + read(c, 0)),
    )
    out = zeros(2)
    interpret(func("f", (c,), body), out)
    assert out.tolist() == [2, 3]


# ---- the machine's arithmetic: every operation on scalars in loops, and on vectors, against numpy


def elementwise(op: Any, types: tuple[str, ...], result: str, size: int, vector: bool) -> Func:
    """``out[i] = op(in0[i], ...)`` by scalars in a loop, or as one vector."""
    params = [buffer(f"in{x}", size, type_=t) for x, t in enumerate(types)]
    out = buffer("out", size, type_=result)
    at = make.ramp(n(0), 1, size) if vector else i
    s = Store(out, op(*[load(p, (at,)) for p in params]), (at,))
    return func("f", (*params, out), s if vector else loop(i, size, s))


INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]


def samples(type_: str, seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    if type_ == "bool":
        return rng.integers(0, 2, 64).astype(bool)
    if type_.startswith("float"):
        x = rng.normal(size=64) * 10.0 ** rng.integers(-3, 4, 64)
        x[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
        rng.shuffle(x)
        with np.errstate(all="ignore"):
            return x.astype(type_)
    lo, hi = dtype(type_).limits()
    x = rng.integers(lo, hi, 64, dtype=type_, endpoint=True)
    x[:4] = [lo, hi, 0 if lo == 0 else -1, 1]
    x[rng.integers(0, 64, 20)] = 3
    rng.shuffle(x)
    return x


def check(op: Any, expected: Any, types: tuple[str, ...], result: str, nonzero: bool = False) -> None:
    arrays = [samples(t, seed) for seed, t in enumerate(types)]
    if nonzero:
        arrays[1][arrays[1] == 0] = 1
    with np.errstate(all="ignore"):
        want = np.asarray(expected(*arrays)).astype(result)
    for vector in (False, True):
        out = np.zeros(64, result)
        interpret(elementwise(op, types, result, 64, vector), *arrays, out)
        np.testing.assert_array_equal(out, want, err_msg=f"vector={vector}")


def c_quotient(a: Any, b: Any) -> Any:
    return np.array(
        [dtype(a.dtype).wrap(make._trunc(int(x), int(y))) for x, y in zip(a, b, strict=True)], a.dtype
    )


def c_remainder(a: Any, b: Any) -> Any:
    return np.array(
        [int(x) - int(y) * make._trunc(int(x), int(y)) for x, y in zip(a, b, strict=True)], a.dtype
    )


@pytest.mark.parametrize("type_", INTS + FLOATS)
def test_arithmetic(type_: str) -> None:
    two = (type_, type_)
    check(lambda a, b: a + b, np.add, two, type_)
    check(lambda a, b: a - b, np.subtract, two, type_)
    check(lambda a, b: a * b, np.multiply, two, type_)
    check(lambda a, b: (a * b - a) * b + a, lambda a, b: (a * b - a) * b + a, two, type_)
    check(make.min_, np.minimum, two, type_)
    check(make.max_, np.maximum, two, type_)
    for op, ref in (
        (make.lt, np.less),
        (make.le, np.less_equal),
        (make.eq, np.equal),
        (make.ne, np.not_equal),
    ):
        check(op, ref, two, "bool")
    check(lambda a, b: make.select(a < b, a, b + a), lambda a, b: np.where(a < b, a, b + a), two, type_)
    check(
        lambda a, b: make.lt(a + b, a), lambda a, b: a + b < a, two, "bool"
    )  # wrapped before it is compared
    if type_ in FLOATS:
        check(make.div, np.divide, two, type_)
    else:
        check(make.floordiv, np.floor_divide, two, type_, nonzero=True)
        check(make.floormod, np.remainder, two, type_, nonzero=True)
        check(make.truncdiv, c_quotient, two, type_, nonzero=True)
        check(make.truncmod, c_remainder, two, type_, nonzero=True)
        check(lambda a: a // make.const(3, type_), lambda a: a // np.dtype(type_).type(3), (type_,), type_)


def c_cast(a: np.ndarray[Any, Any], new: str) -> np.ndarray[Any, Any]:
    t = dtype(new)
    if a.dtype.kind == "f" and t.is_int:
        lo, hi = t.limits()
        return np.array(
            [0 if x != x else (hi if x > 0 else lo) if np.isinf(x) else min(max(int(x), lo), hi) for x in a],
            new,
        )
    return a != 0 if t.is_bool else a.astype(new)


@pytest.mark.parametrize("old", [*INTS, *FLOATS, "bool"])
@pytest.mark.parametrize("new", [*INTS, *FLOATS, "bool"])
def test_casts(old: str, new: str) -> None:
    if old != new:
        check(lambda a: make.cast(new, a), lambda a: c_cast(a, new), (old,), new)


def test_conditions() -> None:
    two = ("bool", "bool")
    check(make.and_, np.logical_and, two, "bool")
    check(make.or_, np.logical_or, two, "bool")
    check(make.not_, np.logical_not, ("bool",), "bool")


@pytest.mark.parametrize("name", ["exp", "erf", "sqrt", "abs", "round", "isnan"])
def test_intrinsics(name: str) -> None:
    from tensorlang.expr.intrinsics import TABLE

    check(
        lambda a: make.call(name, a),
        TABLE[name].evaluate,
        ("float32",),
        "bool" if name == "isnan" else "float32",
    )


@pytest.mark.parametrize("name", ["abs", "popcount", "bitwise_not"])
def test_intrinsics_on_integers(name: str) -> None:
    from tensorlang.expr.intrinsics import TABLE

    for type_ in ("int8", "int32", "int64"):
        check(lambda a: make.call(name, a), TABLE[name].evaluate, (type_,), type_)


def test_bfloat() -> None:
    a = (samples("float32", 0).view(np.uint32) >> 16).astype(np.uint16)
    a[np.isnan((a.astype(np.uint32) << 16).view(np.float32))] = 0
    wide = (a.astype(np.uint32) << 16).view(np.float32)
    for vector in (False, True):
        out = np.zeros(64, np.uint16)
        interpret(
            elementwise(lambda x: x * x, ("bfloat16",), "bfloat16", 64, vector),
            *(x.view(ml_dtypes.bfloat16) for x in (a, out)),
        )
        with np.errstate(all="ignore"):
            exact = wide * wide
        got = (out.astype(np.uint32) << 16).view(np.float32)
        finite = np.isfinite(got) & (exact != 0)
        got, exact = got[finite], exact[finite]
        assert finite.sum() > 50 and (np.abs(got - exact) <= np.abs(exact) * 2.0**-8).all()


def test_reductions_of_lanes() -> None:
    from tensorlang.loopir.stmt import reduction

    a, c = buffer("A", 16), buffer("C", 4)
    v = load(a, (make.ramp(n(0), 1, 16),))
    x, out = ints(16), zeros(4)
    interpret(
        func(
            "f",
            (a, c),
            seq(*[store(c, p, reduction(op, v)) for p, op in enumerate(("add", "min", "max", "mul"))]),
        ),
        x,
        out,
    )
    assert out.tolist() == [x.sum(), x.min(), x.max(), x.prod()]


def test_gather_and_scatter() -> None:
    a, p, c = buffer("A", 8), buffer("P", 8, type_="int32"), buffer("C", 8)
    r = make.ramp(n(0), 1, 8)
    perm = np.array([3, 1, 4, 0, 5, 7, 2, 6], np.int32)
    out = zeros(8)
    x = ints(8)
    interpret(func("gather", (a, p, c), Store(c, load(a, (load(p, (r,)),)), (r,))), x, perm, out)
    assert (out == x[perm]).all()
    interpret(func("scatter", (a, p, c), Store(c, load(a, (r,)), (load(p, (r,)),))), x, perm, out)
    assert (out[perm] == x).all()


def test_if_then_else_is_lazy_lane_by_lane() -> None:
    a, c = buffer("A", 5), buffer("C", 8)
    x = ints(5)
    for at, wrap in ((i, lambda s: loop(i, 8, s)), (make.ramp(n(0), 1, 8), lambda s: s)):
        value = make.if_then_else(
            make.lt(at, 5), load(a, (at,)), make.cast("float32", 7 // (at - 4))
        )  # 7 // 0 at 4
        out = zeros(8)
        interpret(func("f", (a, c), wrap(Store(c, value, (at,)))), x, out)
        assert out.tolist() == [*x.tolist(), 7, 3, 2]


# ---- what is caught


def test_out_of_bounds_scalar() -> None:
    a, c = buffer("A", 4, 8), buffer("C", 4, 9)
    f = func("f", (a, c), loop(i, 4, loop(j, 9, store(c, (i, j), read(a, i, j)))))
    e = fails(f, ints(4, 8), zeros(4, 9))
    assert (e.kind, e.buffer, e.index, e.position) == ("bounds", "A", (0, 8), (("i", 0), ("j", 8)))
    assert str(e) == (
        "read out of bounds: A[0, 8], where dimension 1 has the extent 8, at i = 0, j = 8\n"
        "  in  C[i, j] = A[i, j]"
    )


def test_out_of_bounds_negative_and_stores_and_workspace() -> None:
    c, t = buffer("C", 4), buffer("t", 2, scope="local")
    assert fails(func("f", (c,), loop(i, 4, store(c, i - 1, 1.0))), zeros(4)).index == (-1,)
    e = fails(func("f", (c,), Alloc(t, loop(i, 3, store(t, i, 1.0)))), zeros(4))
    assert (e.kind, e.buffer, e.index) == ("bounds", "t", (2,)) and "write out of bounds" in str(e)


def test_out_of_bounds_vector_lane_and_mask() -> None:
    a, c = buffer("A", 6), buffer("C", 8)
    r = make.ramp(n(0), 1, 8)
    e = fails(func("f", (a, c), loop(i, 1, Store(c, load(a, (r + i,)), (r,)))), ints(6), zeros(8))
    assert (e.kind, e.buffer, e.index, e.position) == ("bounds", "A", (6,), (("i", 0),))
    x, out = ints(6), zeros(8)
    interpret(func("f", (a, c), Store(c, load(a, (r,), r < make.broadcast(n(6), 8)), (r,))), x, out)
    assert out.tolist() == [*x.tolist(), 0, 0]


def test_out_of_bounds_behind_and_is_caught() -> None:
    a, c = buffer("A", 4), buffer("C", 8)
    cond = make.and_(
        i < 4, make.lt(read(a, i), 99.0)
    )  # `and` may be evaluated on both sides: it guards nothing
    assert (
        fails(func("f", (a, c), loop(i, 8, If(cond, store(c, i, 1.0)))), ints(4), zeros(8)).kind == "bounds"
    )


def test_prefetch_may_be_out_of_bounds() -> None:
    a, c = buffer("A", 4), buffer("C", 4)
    hint = Evaluate(build(Call, dtype("float32"), "prefetch", (read(a, i + 9),)))
    interpret(func("f", (a, c), loop(i, 4, seq(hint, store(c, i, read(a, i))))), ints(4), zeros(4))


@pytest.mark.parametrize("scope", ["local", "global"])
def test_uninitialised_workspace(scope: str) -> None:
    c, t = buffer("C", 4), buffer("t", 4, scope=scope)
    e = fails(func("f", (c,), Alloc(t, seq(store(t, 0, 1.0), loop(i, 4, store(c, i, read(t, i)))))), zeros(4))
    assert (e.kind, e.buffer, e.index) == ("uninitialised", "t", (1,))
    assert str(e).startswith("t[1] is read before it is written, at i = 1")
    r = make.ramp(n(0), 1, 4)
    e = fails(func("f", (c,), Alloc(t, seq(store(t, 0, 1.0), Store(c, load(t, (r,)), (r,))))), zeros(4))
    assert (e.kind, e.index) == ("uninitialised", (1,))


def test_workspace_is_fresh_in_each_iteration() -> None:
    c, t = buffer("C", 4), buffer("t", 1, scope="local")
    body = loop(i, 4, Alloc(t, seq(If(i < 1, store(t, 0, 1.0)), store(c, i, read(t, 0)))))
    assert fails(func("f", (c,), body), zeros(4)).position == (("i", 1),)


def test_uninitialised_output() -> None:
    c = buffer("C", 4)
    assert fails(func("f", (c,), loop(i, 4, store(c, i, read(c, i) + 1.0))), zeros(4)).kind == "uninitialised"


def test_masked_store_initialises_only_its_lanes() -> None:
    c, t = buffer("C", 4), buffer("t", 4, scope="local")
    r = make.ramp(n(0), 1, 4)
    fill = Store(t, make.broadcast(make.const(1.0), 4), (r,), r < make.broadcast(n(3), 4))
    assert fails(func("f", (c,), Alloc(t, seq(fill, Store(c, load(t, (r,)), (r,))))), zeros(4)).index == (3,)


def test_coverage() -> None:
    c = buffer("C", 3, 4)
    f = func("f", (c,), loop(i, 3, loop(j, 3, store(c, (i, j), 1.0))))
    e = fails(f, zeros(3, 4))
    assert (e.kind, e.index) == (
        "coverage",
        (0, 3),
    ) and "3 of 12 elements of the output C are never written" in str(e)
    assert interpret(f, zeros(3, 4), coverage=False).unwritten == {"C": 3}


def test_written_twice_serially_is_fine() -> None:
    c = buffer("C", 4)
    interpret(func("f", (c,), loop(i, 3, loop(j, 4, store(c, j, 1.0)))), zeros(4))
    interpret(func("f", (c,), loop(i, 4, loop(j, 3, store(c, i, 1.0)), "parallel")), zeros(4))


R4 = make.ramp(n(0), 1, 4)
C4, T4 = buffer("C", 4), buffer("t", 4, scope="global")
ONE = make.broadcast(make.const(1.0), 4)
RACES: dict[str, tuple[Stmt, str]] = {
    "write write": (
        loop(i, 3, loop(j, 4, store(C4, j, 1.0)), "parallel"),
        "race on C[0]: iteration i = 1 of the parallel loop writes what iteration i = 0 writes, at i = 1, j = 0",
    ),
    "write then read": (
        seq(store(C4, 0, 0.0), loop(i, 3, store(C4, i + 1, read(C4, i)), "parallel")),
        "race on C[1]: iteration i = 1 of the parallel loop reads what iteration i = 0 writes, at i = 1",
    ),
    "read then write": (
        seq(loop(j, 4, store(C4, j, 0.0)), loop(i, 3, store(C4, i, read(C4, i + 1)), "parallel")),
        "race on C[1]: iteration i = 1 of the parallel loop writes what iteration i = 0 reads, at i = 1",
    ),
    "several readers": (
        seq(loop(j, 4, store(C4, j, 0.0)), loop(i, 4, seq(store(C4, i, read(C4, 3))), "parallel")),
        "race on C[3]: iteration i = 3 of the parallel loop writes what several iterations read, at i = 3",
    ),
    "reduction": (
        seq(store(C4, 0, 0.0), loop(i, 4, store(C4, 0, read(C4, 0) + 1.0), "parallel")),
        "race on C[0]",
    ),
    "workspace outside": (
        Alloc(T4, loop(i, 4, seq(store(T4, 0, 1.0), store(C4, i, read(T4, 0))), "parallel")),
        "race on t[0]",
    ),
    "nested": (
        loop(k, 2, loop(i, 1, loop(j, 2, store(C4, k, 1.0), "parallel"), "parallel")),
        "iteration j = 1",
    ),
    "outer of nested": (loop(k, 2, loop(j, 2, store(C4, j, 1.0), "parallel"), "parallel"), "iteration k = 1"),
    "vectors": (
        loop(i, 3, Store(C4, ONE, (R4,)), "parallel"),
        "race on C[0]: iteration i = 1 of the parallel loop writes what iteration i = 0 writes, at i = 1",
    ),
    "vector read": (
        seq(
            Store(C4, ONE, (R4,)),
            loop(i, 4, store(C4, i, make.cast("float32", i)), "parallel"),
            loop(j, 2, Store(C4, load(C4, (R4,)), (R4,), make.lt(R4, make.broadcast(j, 4))), "parallel"),
        ),
        "race on C[0]: iteration j = 1 of the parallel loop writes what several iterations read, at j = 1",
    ),
}


@pytest.mark.parametrize("case", RACES)
def test_races(case: str) -> None:
    body, message = RACES[case]
    f = func("f", (C4,), body)
    e = fails(f, zeros(4), coverage=False)
    assert e.kind == "race" and message in str(e)
    interpret(f, zeros(4), races=False, coverage=False)


def test_no_race() -> None:
    private = loop(i, 4, Alloc(T4, seq(store(T4, 0, 1.0), store(C4, i, read(T4, 0)))), "parallel")
    after_each_other = loop(k, 3, loop(i, 4, store(C4, i, 1.0), "parallel"))
    i2, j2 = var("i"), var("j")
    reversed_reader = Alloc(
        T4,
        seq(
            loop(i2, 4, store(T4, i2, 1.0), "parallel"),
            loop(j2, 4, store(C4, j2, read(T4, 3 - j2)), "parallel"),
        ),
    )
    one_writes_what_only_it_reads = seq(
        loop(j, 4, store(C4, j, 0.0)), loop(i, 4, store(C4, i, read(C4, i) + 1.0), "parallel")
    )
    for body in (private, after_each_other, reversed_reader, one_writes_what_only_it_reads):
        interpret(func("f", (C4,), body), zeros(4))


def test_division_by_zero() -> None:
    p, c = buffer("P", 4, type_="int32"), buffer("C", 4, type_="int32")
    for at, wrap in ((i, lambda s: loop(i, 4, s)), (R4, lambda s: s)):
        f = func("f", (p, c), wrap(Store(c, make.floordiv(load(p, (at,)), load(p, (at,)) - 2), (at,))))
        e = fails(f, np.arange(4, dtype=np.int32), np.zeros(4, np.int32))
        assert e.kind == "arithmetic" and "division by zero" in str(e)


def test_arguments() -> None:
    f = blocked_matmul()
    a, b, c = ints(7, 5), ints(5, 12), zeros(7, 12)
    for args in (
        (a, b),
        (a.astype("f8"), b, c),
        (a, b[:, :3], c),
        (a, ints(6, 12), c),
        (a.tolist(), b, c),
        (a[0], b, c),
    ):
        assert fails(f, *args).kind == "arguments"
    assert fails(f, ints(7, 65), ints(65, 12), c).kind == "arguments"  # K is at most 64
    m = dim("m")
    g = func("f", (buffer("D", m // 2),), NOTHING, (m,))
    assert "the size m cannot be solved" in str(fails(g, zeros(3)))
    interpret(func("f", (buffer("D", m * 2 + 1),), NOTHING, (m,)), zeros(7))
    assert fails(func("f", (buffer("D", m * 2 + 1),), NOTHING, (m,)), zeros(8)).kind == "arguments"
