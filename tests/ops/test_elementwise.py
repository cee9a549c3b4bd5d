"""Elementwise operators against numpy: every dtype, broadcasting, symbolic sizes, the corners of division,
and promotion."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.core.dtype import dtype
from tensorlang.ops import inputs
from tests.ops.arrays import FLOATS, INTS, compiled, exact, near, real, sample, stored, ulp
from tests.te.oracles import numbers

ops = tl.ops

# functions of floats: how numpy computes them, where, and how far ours may be: 2 ulp is what the vector math
# promises, of 16-bit floats half an ulp and what two roundings cost
MATH = {
    "sqrt": (np.sqrt, 0.01, 9),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.01, 9),
    "cbrt": (np.cbrt, -9, 9),
    "reciprocal": (lambda x: 1 / x, 0.01, 9),
    "exp": (np.exp, -5, 5),
    "exp2": (np.exp2, -5, 5),
    "expm1": (np.expm1, -5, 5),
    "log": (np.log, 0.01, 9),
    "log2": (np.log2, 0.01, 9),
    "log10": (np.log10, 0.01, 9),
    "log1p": (np.log1p, -0.9, 9),
    "sin": (np.sin, -3, 3),
    "cos": (np.cos, -3, 3),
    "tan": (np.tan, -1.5, 1.5),
    "asin": (np.arcsin, -1, 1),
    "acos": (np.arccos, -1, 1),
    "atan": (np.arctan, -9, 9),
    "sinh": (np.sinh, -5, 5),
    "cosh": (np.cosh, -5, 5),
    "asinh": (np.arcsinh, -9, 9),
    "acosh": (np.arccosh, 1, 9),
    "atanh": (np.arctanh, -0.99, 0.99),
    "erf": (np.vectorize(__import__("math").erf), -3, 3),
}
WHOLE = {
    "negative": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.round,
}
ARITHMETIC = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("name", MATH)
def test_functions_of_floats(name, t):
    f, lo, hi = MATH[name]
    n = te.var("n")
    x = te.placeholder((n, 17), t, name="x")
    kernel = tl.compile([x, getattr(ops, name)(x)])
    for rows in (1, 3):
        a = stored(np.random.default_rng(rows).uniform(lo, hi, (rows, 17)), t)
        with np.errstate(all="ignore"):
            near(kernel(a), f(real(a, t)), t, 3 if t == "float64" else 2 if t == "float32" else 1)


@pytest.mark.parametrize(
    ("t", "result"),
    [
        ("int8", "float16"),
        ("uint8", "float16"),
        ("bool", "float16"),
        ("int16", "float32"),
        ("int32", "float64"),
        ("uint64", "float64"),
    ],
)
def test_functions_of_integers_give_floats_as_in_numpy(t, result):
    a = np.arange(2).astype(t).repeat(9)
    x = te.placeholder(a.shape, t, name="x")
    got = compiled(ops.exp(x), {x: a})
    assert str(got.dtype) == result == str(np.exp(a).dtype)
    near(got, np.exp(a.astype(np.float64)), result, 3)


@pytest.mark.parametrize("t", [*FLOATS, *INTS])
@pytest.mark.parametrize("name", WHOLE)
def test_functions_that_keep_the_type(name, t):
    a = numbers(t, 33)
    x = te.placeholder((33,), t, name="x")
    with np.errstate(all="ignore"):
        given = real(a, t).astype("float32") if t in ("float16", "bfloat16") else a
        want = WHOLE[name](given)
        got = compiled(getattr(ops, name)(x), {x: a})
        if name == "square" and t in ("float16", "bfloat16"):
            want = real(stored(want, t), t)
    exact(got, want, t)


@pytest.mark.parametrize("t", [*FLOATS, *INTS])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_is_numpys(name, t):
    a, b = numbers(t, 51).reshape(3, 17), numbers(t, 51, seed=5)[34:]
    x, y = te.placeholder((3, 17), t, name="x"), te.placeholder((17,), t, name="y")
    got = compiled(getattr(ops, name)(x, y), {x: a, y: b})
    with np.errstate(all="ignore"):
        if t == "bfloat16":
            want = ARITHMETIC[name](real(a, t).astype("float32"), real(b, t).astype("float32"))
            want = np.where(np.isnan(want), np.nan, real(stored(np.where(np.isnan(want), 0, want), t), t))
        else:
            want = ARITHMETIC[name](a, b)
    exact(got, want, t)


@pytest.mark.parametrize("t", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", ["floor_divide", "mod"])
def test_division_of_floats_rounds_down(name, t):
    rng = np.random.default_rng(1)
    values = np.concatenate(
        [[0.0, -0.0, 1.0, -1.0, 7.0, -7.0, np.inf, -np.inf, np.nan, 0.1, 0.3, 1e-4], rng.uniform(-9, 9, 5)]
    )
    a, b = np.repeat(values, 17).astype(t).reshape(17, 17), values.astype(t)
    x, y = te.placeholder((17, 17), t, name="x"), te.placeholder((17,), t, name="y")
    got = compiled(getattr(ops, name)(x, y), {x: a, y: b})
    with np.errstate(all="ignore"):
        want = (
            getattr(np, name)(a, b)
            if t != "float16"
            else getattr(np, name)(a.astype("float32"), b.astype("float32")).astype(t)
        )
    np.testing.assert_array_equal(got, want)
    zero = want == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("t", ["float32", "float64", "float16", *INTS])
def test_fmod_has_the_sign_of_the_dividend(t):
    a, b = sample((33,), t, 1), sample((33,), t, 2)
    if dtype(t).is_int:
        b[3] = 0
    x, y = te.placeholder((33,), t, name="x"), te.placeholder((33,), t, name="y")
    got = compiled(ops.fmod(x, y), {x: a, y: b})
    with np.errstate(all="ignore"):
        exact(got, np.fmod(a, b), t)
        assert not np.array_equal(got, np.mod(a, b)) or t.startswith("u")


@pytest.mark.parametrize("t", INTS)
def test_division_of_integers_rounds_down_and_by_zero_gives_zero(t):
    a, b = sample((3, 17), t, 1), sample((17,), t, 2)
    b[3] = 0
    x, y = te.placeholder((3, 17), t, name="x"), te.placeholder((17,), t, name="y")
    quotient, rest = compiled([ops.floor_divide(x, y), ops.mod(x, y)], {x: a, y: b})
    with np.errstate(all="ignore"):
        exact(quotient, a // b, t)
        exact(rest, a % b, t)


@pytest.mark.parametrize(
    ("t", "result"),
    [
        ("float32", "float32"),
        ("float16", "float16"),
        ("float64", "float64"),
        ("int8", "float64"),
        ("int32", "float64"),
    ],
)
def test_divide_is_true_division(t, result):
    a, b = sample((3, 17), t, 1), sample((3, 1), t, 2)
    b[b == 0] = 3
    x, y = te.placeholder((3, 17), t, name="x"), te.placeholder((3, 1), t, name="y")
    got = compiled(ops.divide(x, y), {x: a, y: b})
    assert str(got.dtype) == result
    near(got, a.astype("float64") / b.astype("float64"), result, 1)


def test_power():
    a, b = np.abs(sample((3, 17), "float32", 1)), sample((17,), "float32", 2)
    x, y = te.placeholder((3, 17), name="x"), te.placeholder((17,), name="y")
    i = te.placeholder((17,), "int32", name="i")
    k = sample((17,), "int32", 3)
    got, square, cube, base = compiled(
        [ops.power(x, y), ops.power(x, 2), ops.power(i, 3), ops.power(2.0, y)], {x: a, y: b, i: k}
    )
    near(got, a.astype("float64") ** b.astype("float64"), "float32", 4)
    exact(square, a * a, "float32")
    exact(cube, k**3, "int32")
    near(base, 2.0 ** b.astype("float64"), "float32", 4)


def test_clip_keeps_nan_and_takes_one_bound_or_tensors():
    a = numbers("float32", 33)
    low = sample((33,), "float32", 4)
    x, lo = te.placeholder((33,), name="x"), te.placeholder((33,), name="lo")
    both, below, above, by = compiled(
        [ops.clip(x, -1, 6), ops.clip(x, 0), ops.clip(x, max=2.5), ops.clip(x, lo)], {x: a, lo: low}
    )
    exact(both, np.clip(a, -1, 6), "float32")
    exact(below, np.maximum(a, 0), "float32")
    exact(above, np.minimum(a, np.float32(2.5)), "float32")
    exact(by, np.maximum(a, low), "float32")


def test_cast_and_classes():
    a = numbers("float32", 33)
    x = te.placeholder((33,), name="x")
    whole, half, truth, nan, finite = compiled(
        [ops.cast(x, "int32"), ops.cast(x, "float16"), ops.cast(x, "bool"), ops.isnan(x), ops.isfinite(x)],
        {x: a},
    )
    exact(
        whole,
        np.clip(np.trunc(np.nan_to_num(a.astype("float64"), nan=0.0)), -(2**31), 2**31 - 1).astype("int32"),
        "int32",
    )
    with np.errstate(all="ignore"):
        exact(half, a.astype("float16"), "float16")
    exact(truth, a != 0, "bool")
    exact(nan, np.isnan(a), "bool")
    exact(finite, np.isfinite(a), "bool")


SHAPES = [
    ((1,), (33,)),
    ((3, 1), (1, 17)),
    ((17,), (3, 1)),
    ((3, 17), ()),
    ((1, 1), (1,)),
    ((33, 1, 3), (17, 1)),
    ((0, 3), (1,)),
    ((), ()),
]


@pytest.mark.parametrize(("one", "other"), SHAPES)
def test_shapes_broadcast_as_in_numpy(one, other):
    a, b = sample(one, "int32", 1), sample(other, "int32", 2)
    x, y = te.placeholder(one, "int32", name="x"), te.placeholder(other, "int32", name="y")
    exact(compiled(ops.subtract(x, y), {x: a, y: b}), a - b, "int32")


def test_symbolic_sizes_broadcast_with_themselves_and_with_one():
    n, m = te.var("n"), te.dim("m", 1, 64)
    x, y, z = (
        te.placeholder((n, m), name="x"),
        te.placeholder((m,), name="y"),
        te.placeholder((n, 1), name="z"),
    )
    out = ops.add(ops.multiply(x, y), z)
    kernel = tl.compile([x, y, z, out])
    for rows, columns in ((1, 1), (3, 17), (17, 33), (33, 3)):
        a, b, c = (sample(s, "float32", i) for i, s in enumerate(((rows, columns), (columns,), (rows, 1))))
        near(kernel(a, b, c), a.astype("float64") * b + c, "float32", 2, 2.0**-20)


def test_the_sum_of_two_sizes_is_one_size():
    n = te.var("n")
    x, y = te.placeholder((n + 1,), name="x"), te.placeholder((1 + n,), name="y")
    assert ops.add(x, y).op.tag == "elementwise"


TYPES = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
)


def test_promotion_is_numpys():
    for a in TYPES:
        for b in TYPES:
            if a == b == "bool":
                continue
            x, y = te.placeholder((3,), a, name="x"), te.placeholder((3,), b, name="y")
            assert str(ops.add(x, y).dtype) == str(np.result_type(a, b)), (a, b)


def test_python_numbers_take_the_type_of_the_tensor():
    for t in TYPES[1:]:
        x = te.placeholder((3,), t, name="x")
        assert str(ops.add(x, 1).dtype) == t
        assert str(ops.multiply(x, 0.5).dtype) == str((np.zeros(1, t) * 0.5).dtype)
        assert str(ops.multiply(x, np.float64(0.5)).dtype) == "float64"
    brain = te.placeholder((3,), "bfloat16", name="b")
    assert str(ops.add(brain, 0.5).dtype) == "bfloat16"


def test_promotion_of_bfloat16():
    other = {
        "bool": "bfloat16",
        "int8": "bfloat16",
        "int16": "float32",
        "int64": "float64",
        "float16": "float32",
        "float64": "float64",
    }
    for t, want in other.items():
        x, y = te.placeholder((3,), "bfloat16", name="x"), te.placeholder((3,), t, name="y")
        assert str(ops.add(x, y).dtype) == want
        assert str(inputs.result_type(y.dtype, x.dtype)) == want


def test_a_scalar_argument_of_the_kernel_is_an_operand():
    alpha = te.var("alpha", "float32")
    x = te.placeholder((17,), name="x")
    a = sample((17,), "float32")
    exact(tl.compile([x, alpha, ops.multiply(x, alpha)])(a, 2.5), a * np.float32(2.5), "float32")


def test_tags_tell_equal_shapes_from_broadcast_ones():
    x, y = te.placeholder((3, 17), name="x"), te.placeholder((17,), name="y")
    assert ops.add(x, x).op.tag == ops.exp(x).op.tag == ops.add(x, 1).op.tag == "elementwise"
    assert ops.add(x, y).op.tag == "broadcast"


def test_integers_wrap():
    a = np.array([2**31 - 1, -(2**31), 5], "int32")
    x = te.placeholder((3,), "int32", name="x")
    with np.errstate(all="ignore"):
        exact(compiled(ops.add(x, 1), {x: a}), a + np.int32(1), "int32")
        exact(compiled(ops.multiply(x, 3), {x: a}), a * np.int32(3), "int32")


PAIRS = {"hypot": (np.hypot, 1), "atan2": (np.arctan2, 2), "logaddexp": (np.logaddexp, 3)}


@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("name", PAIRS)
def test_functions_of_two_numbers(name, t):
    """Also of zeros of both signs, infinities and NaN: what numpy says in float64, rounded."""
    f, ulps = PAIRS[name]
    special = stored(np.array([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]), t)
    a = np.concatenate([np.repeat(special, 7), sample((40,), t, 1)])
    b = np.concatenate([np.tile(special, 7), sample((40,), t, 2)])
    x, y = te.placeholder(a.shape, t, name="x"), te.placeholder(b.shape, t, name="y")
    with np.errstate(all="ignore"):
        near(compiled(getattr(ops, name)(x, y), {x: a, y: b}), f(real(a, t), real(b, t)), t, ulps + 1, ulp(t))
    x, y = te.placeholder((3, 1), "int32", name="x"), te.placeholder((4,), "int32", name="y")
    got = compiled(
        getattr(ops, name)(x, y), {x: np.arange(3, dtype="int32")[:, None], y: np.arange(4, dtype="int32")}
    )
    assert got.dtype == "float64" and got.shape == (3, 4)


@pytest.mark.parametrize("t", [*FLOATS, "int32", "uint8"])
def test_nan_to_num(t):
    a = numbers(t, 33)
    x = te.placeholder((33,), t, name="x")
    wide = real(a, t)
    least, most = (te.min_value(t).value, te.max_value(t).value)
    for given in ({}, {"nan": 2.0, "posinf": 7.0, "neginf": -7.0}):
        want = np.nan_to_num(wide, **({"posinf": most, "neginf": least} | given)) if t in FLOATS else a
        exact(compiled(ops.nan_to_num(x, **given), {x: a}), want, t)


@pytest.mark.parametrize("t", ["float32", "float64", "int32"])
def test_closeness_and_infinity(t):
    a = numbers(t, 33)
    b = a.copy()
    b[::3] = (b[::3] * (1.001 if t != "int32" else 1)).astype(t)
    b[1::3] = b[1::3][::-1]
    x, y = te.placeholder((33,), t, name="x"), te.placeholder((33,), t, name="y")
    with np.errstate(all="ignore"):
        for given in ({}, {"rtol": 0.01}, {"atol": 0.5, "equal_nan": True}):
            exact(compiled(ops.isclose(x, y, **given), {x: a, y: b}), np.isclose(a, b, **given), "bool")
    exact(compiled(ops.isinf(x), {x: a}), np.isinf(a), "bool")
