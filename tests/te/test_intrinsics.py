"""The functions of ``te``: each on each dtype it takes through all oracles; integer arithmetic as C and
Python define it."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.codegen.llvm.mathlib.table import ROWS
from tensorlang.core.dtype import KNOWN, dtype
from tensorlang.errors import DeclareError
from tensorlang.expr import make
from tensorlang.expr.intrinsics import TABLE
from tensorlang.te import intrinsics

from .oracles import agree, numbers

N = 131
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTS = tuple(t for t in KNOWN if dtype(t).is_int)


def operands(name: str, t: str) -> list[np.ndarray]:
    a, b = numbers(t, N), numbers(t, N, seed=1)[::-1].copy()
    if name.startswith("shift"):
        b = np.random.default_rng(2).integers(0, dtype(t).bits + 4, N).astype(a.dtype)
    if name == "ldexp" and t != "bfloat16":
        b = np.random.default_rng(3).integers(-1100, 1100, N).astype(a.dtype)
    return [a, b]


@pytest.mark.parametrize("t", [*FLOATS, *INTS])
def test_every_intrinsic(t):
    names = [n for n, row in TABLE.items() if row.accepts(dtype(t))]
    for exact in (
        True,
        False,
    ):  # those with exact results must agree to the bit, the others within their bounds
        chosen = [n for n in names if (ROWS[n].ulp == 0) == exact]
        if not chosen:
            continue
        A, B = te.placeholder((N,), t, name="A"), te.placeholder((N,), t, name="B")
        outs = [
            te.compute((N,), lambda i, n=n: make.call(n, *[A[i], B[i]][: TABLE[n].arity]), name=n)
            for n in chosen
        ]
        for n, out in zip(chosen, outs, strict=True):
            a, b = operands(n, t)
            inputs = {A: a} if TABLE[n].arity == 1 else {A: a, B: b}
            agree(
                out,
                inputs,
                ulp=0
                if exact
                else 4
                if t == "float64"
                else 1
                if t in ("float16", "bfloat16")
                else ROWS[n].ulp,
                lanes=(8,),
            )


def test_every_row_has_a_function_with_a_docstring():
    inner = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"}
    for name in {*TABLE, *intrinsics.__all__} - inner:
        f = getattr(te, name, None)
        assert name in te.__all__ and inspect.getdoc(f), (
            f"{name}: a row in expr/intrinsics.py has a function with a docstring in te/intrinsics.py"
        )
    for name in te.__all__:
        assert inspect.getdoc(getattr(te, name)), name


def test_all_that_tvm_exports():
    tvm = [
        "any",
        "all",
        "min_value",
        "max_value",
        "exp",
        "erf",
        "tanh",
        "sigmoid",
        "log",
        "tan",
        "cos",
        "sin",
        "sqrt",
        "rsqrt",
        "floor",
        "ceil",
        "sinh",
        "cosh",
        "log2",
        "log10",
        "asin",
        "asinh",
        "acos",
        "acosh",
        "atan",
        "atanh",
        "trunc",
        "abs",
        "round",
        "nearbyint",
        "power",
        "popcount",
        "fmod",
        "if_then_else",
        "isnan",
        "isfinite",
        "isinf",
        "div",
        "indexdiv",
        "indexmod",
        "truncdiv",
        "truncmod",
        "floordiv",
        "floormod",
        "comm_reducer",
        "min",
        "max",
        "sum",
        "add",
        "subtract",
        "multiply",
        "create_schedule",
        "Tensor",
        "TensorSlice",
        "tag_scope",
        "placeholder",
        "compute",
        "var",
        "size_var",
        "const",
        "reduce_axis",
        "PlaceholderOp",
        "ComputeOp",
    ]
    assert [n for n in tvm if not hasattr(te, n)] == []
    for name in ("thread_axis", "gradient", "nonsense"):
        with pytest.raises(AttributeError, match=f"te has no '{name}'"):
            getattr(te, name)


def test_a_number_takes_the_type_of_the_others():
    x = te.var("x", "float64")
    h = te.var("h", "float16")
    assert te.power(x, 0.1).args[1].value == 0.1  # not rounded to float32 on the way
    assert te.power(0.1, x).args[0].value == 0.1
    assert (
        te.hypot(h, 2).dtype == "float16"
        and te.atan2(1, h).dtype == "float16"
        and te.fmod(h, 2.5).dtype == "float16"
    )
    assert te.ldexp(h, te.var("n")).dtype == "float16"
    assert (
        te.sqrt(2) is te.sqrt(2.0) and te.hypot(3, 4).dtype == "float32" and te.popcount(7).dtype == "int32"
    )
    assert (
        te.shift_left(te.var("b", "uint8"), 3).dtype == "uint8"
        and te.shift_left(1, te.var("b", "uint8")).dtype == "uint8"
    )


def test_a_power_that_turns_out_to_be_two_is_a_product():
    """The exponent of ONNX's Pow is a tensor of one number."""
    x = te.placeholder((8,), name="x")
    two = te.compute((), lambda: te.const(2.0, "float32"), name="two")
    square = te.compute((8,), lambda i: te.pow(x[i], two()), name="square")
    s = te.create_schedule(square)
    s[two].compute_inline()
    assert "square[i] = x[i] * x[i]" in str(tl.lower(s, [x, square]))


def test_powers():
    x, i = te.var("x", "float32"), te.var("i", "int8")
    assert x**2 is x * x and x**3 is x * x * x and te.power(x, 1.0) is x
    assert str(x**0.5) == "pow(x, 0.5)" and str(x ** te.var("y", "float32")) == "pow(x, y)"
    assert i**0 is te.const(1, "int8") and (i**5).dtype == "int8"
    with pytest.raises(DeclareError, match="literal power"):
        i**i
    with pytest.raises(DeclareError, match="literal power"):
        i**-1
    A = te.placeholder((N,), "int8", name="A")
    (got,) = agree(te.compute((N,), lambda k: A[k] ** 7), {A: (a := numbers("int8", N))})
    np.testing.assert_array_equal(got, a**7)


def test_integers_are_rounded_and_classified_already():
    i = te.var("i")
    for f in (te.floor, te.ceil, te.trunc, te.round, te.nearbyint):
        assert f(i) is i
    assert not te.isnan(i) and not te.isinf(i) and te.isfinite(i)


def test_limits():
    for t in INTS:
        info = np.iinfo(t)
        assert (te.min_value(t).value, te.max_value(t).value) == (info.min, info.max)
    for t in ("float16", "float32", "float64"):
        assert (te.min_value(t).value, te.max_value(t).value) == (
            float(np.finfo(t).min),
            float(np.finfo(t).max),
        )
        assert te.infinity(t).value == float("inf")
    assert te.max_value("bfloat16").value == float(np.array([0x7F7F0000], np.uint32).view(np.float32)[0])
    assert (te.min_value("bool").value, te.max_value("bool").value) == (False, True)
    with pytest.raises(DeclareError, match="integers have none"):
        te.infinity("int8")


def test_div_is_that_of_c():
    i, x = te.var("i"), te.var("x", "float32")
    assert (
        str(te.div(i, 3)) == "truncdiv(i, 3)"
        and str(te.div(x, 3)) == "x / 3.0"
        and str(te.div(7, i)) == "truncdiv(7, i)"
    )
    assert te.indexdiv(i, 8) is i // 8 and te.indexmod(i, 8) is i % 8
    assert (
        te.div(-7, 2) is te.const(-3)
        and te.floordiv(-7, 2) is te.const(-4)
        and te.truncmod(-7, 2) is te.const(-1)
    )


def as_python(op: str, a: int, b: int) -> int:
    if op.startswith("floor"):
        return a // b if op == "floordiv" else a % b
    q = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return q if op == "truncdiv" else a - q * b


@pytest.mark.parametrize("t", INTS)
def test_integer_division(t):
    """By elements and by literals, positive and negative: Python's and C's."""
    a, b = numbers(t, N), numbers(t, N, seed=5)
    b[b == 0] = 3
    kind = dtype(t)
    A, B = te.placeholder((N,), t, name="A"), te.placeholder((N,), t, name="B")
    ops = {"floordiv": te.floordiv, "floormod": te.floormod, "truncdiv": te.truncdiv, "truncmod": te.truncmod}
    divisors = [1, 2, 3, 7, 8, kind.limits()[1]] + (
        [-1, -2, -7, kind.limits()[0]] if kind.code == "int" else []
    )
    outs = [te.compute((N,), lambda i, f=f: f(A[i], B[i]), name=n) for n, f in ops.items()]
    results = agree(outs, {A: a, B: b})
    cases = [(n, b.tolist()) for n in ops]
    outs = [
        te.compute((N,), lambda i, f=f, d=d: f(A[i], te.const(d, t)), name=f"{n}_{k}")
        for n, f in ops.items()
        for k, d in enumerate(divisors)
    ]
    results = (*results, *agree(outs, {A: a}, lanes=(8,)))
    cases += [(n, [d] * N) for n in ops for d in divisors]
    for got, (op, by) in zip(results, cases, strict=True):
        want = [kind.wrap(as_python(op, x, y)) for x, y in zip(a.tolist(), by, strict=True)]
        assert got.tolist() == want, (op, by[:3])


@pytest.mark.parametrize("t", INTS)
def test_integer_arithmetic_and_comparisons(t):
    a, b = numbers(t, N), numbers(t, N, seed=5)
    A, B = te.placeholder((N,), t, name="A"), te.placeholder((N,), t, name="B")
    tests = {
        "lt": lambda x, y: x < y,
        "le": lambda x, y: x <= y,
        "gt": lambda x, y: x > y,
        "ge": lambda x, y: x >= y,
        "eq": lambda x, y: x == y,
        "ne": lambda x, y: x != y,
    }
    sums = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "min": te.min,
        "max": te.max,
    }
    one = te.const(1, t)
    outs = [te.compute((N,), lambda i, f=f: f(A[i], B[i]), name=n) for n, f in {**tests, **sums}.items()]
    outs += [
        te.compute((N,), lambda i: -A[i], name="neg"),
        te.compute((N,), lambda i: A[i] + dtype(t).limits()[1] + one, name="wrap"),
        te.compute((N,), lambda i: te.select(A[i] < B[i], A[i], B[i]) ^ ~B[i], name="mix"),
    ]
    results = agree(outs, {A: a, B: b})
    numpy = {
        **tests,
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
    }
    with np.errstate(all="ignore"):
        wants = [f(a, b) for f in numpy.values()] + [
            np.negative(a),
            a + np.iinfo(t).max + a.dtype.type(1),
            np.minimum(a, b) ^ ~b,
        ]
    for out, got, want in zip(outs, results, wants, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=out.name)


def test_float_comparisons_with_nan():
    a, b = numbers("float32", N), numbers("float32", N)[::-1].copy()
    A, B = te.placeholder((N,), name="A"), te.placeholder((N,), name="B")
    fs = {
        "lt": lambda x, y: x < y,
        "le": lambda x, y: x <= y,
        "eq": lambda x, y: x == y,
        "ne": lambda x, y: x != y,
        "not_lt": lambda x, y: ~(x < y),
        "not_eq": lambda x, y: ~(x == y),
        "self": lambda x, y: x == x,
    }
    results = agree(
        [te.compute((N,), lambda i, f=f: f(A[i], B[i]), name=n) for n, f in fs.items()], {A: a, B: b}
    )
    for (n, f), got in zip(fs.items(), results, strict=True):
        np.testing.assert_array_equal(got, f(a, b), err_msg=n)


def test_minima_of_floats_give_nan():
    a, b = numbers("float32", N), numbers("float32", N)[::-1].copy()
    A, B = te.placeholder((N,), name="A"), te.placeholder((N,), name="B")
    lo, hi = agree(
        [te.compute((N,), lambda i: te.min(A[i], B[i])), te.compute((N,), lambda i: te.max(A[i], B[i]))],
        {A: a, B: b},
    )
    np.testing.assert_array_equal(lo, np.minimum(a, b))
    np.testing.assert_array_equal(hi, np.maximum(a, b))
