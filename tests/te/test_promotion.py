"""What type an operation has: the whole table, as TVM promotes, and that of Python's numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang import te
from tensorlang.core.dtype import KNOWN, dtype
from tensorlang.errors import DeclareError

LONG = {"b": "bool", "i": "int", "u": "uint", "f": "float", "h": "bfloat"}
# every pair of types; float wins over integer, wider over narrower, unsigned over signed of one width
TABLE = """
      b    i8   i16  i32  i64  u8   u16  u32  u64  f16  h16  f32  f64
b     b    i8   i16  i32  i64  u8   u16  u32  u64  f16  h16  f32  f64
i8    i8   i8   i16  i32  i64  u8   u16  u32  u64  f16  h16  f32  f64
i16   i16  i16  i16  i32  i64  i16  u16  u32  u64  f16  h16  f32  f64
i32   i32  i32  i32  i32  i64  i32  i32  u32  u64  f16  h16  f32  f64
i64   i64  i64  i64  i64  i64  i64  i64  i64  u64  f16  h16  f32  f64
u8    u8   u8   i16  i32  i64  u8   u16  u32  u64  f16  h16  f32  f64
u16   u16  u16  u16  i32  i64  u16  u16  u32  u64  f16  h16  f32  f64
u32   u32  u32  u32  u32  i64  u32  u32  u32  u64  f16  h16  f32  f64
u64   u64  u64  u64  u64  u64  u64  u64  u64  u64  f16  h16  f32  f64
f16   f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64
h16   h16  h16  h16  h16  h16  h16  h16  h16  h16  f32  h16  f32  f64
f32   f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64
f64   f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64
"""
HEAD, *ROWS = [line.split() for line in TABLE.strip().splitlines()]
CELLS = [(row[0], column, cell) for row in ROWS for column, cell in zip(HEAD, row[1:], strict=True)]


def name(short: str) -> str:
    return LONG[short[0]] + short[1:]


@pytest.mark.parametrize("operation", ["+", "*", "min", "select", "pow", "atan2"])
def test_two_elements(operation):
    build = {
        "+": lambda a, b: a + b,
        "*": lambda a, b: a * b,
        "min": te.min,
        "select": lambda a, b: te.select(te.var("c") > 0, a, b),
        "pow": te.power,
        "atan2": te.atan2,
    }[operation]
    for a, b, want in CELLS:
        x, y, t = te.var("x", name(a)), te.var("y", name(b)), dtype(name(want))
        if (t.is_bool and operation != "select") or (not t.is_float and operation in ("pow", "atan2")):
            with pytest.raises(DeclareError):
                build(x, y)
        else:
            assert build(x, y).dtype is t, (a, b)


NUMBERS = [  # an element, a Python number, the type of their sum
    ("int8", 1, "int8"),
    ("int8", -128, "int8"),
    ("int8", 128, "int32"),
    ("int8", 2**40, "int64"),
    ("uint8", 255, "uint8"),
    ("uint8", -1, "int32"),
    ("uint64", 2**63, "uint64"),
    ("int32", 2**31, "int64"),
    ("int64", 1, "int64"),
    ("uint32", -1, "uint32"),
    ("bool", 1, "int32"),
    ("bool", 1.5, "float32"),
    ("int8", 1.5, "float32"),
    ("int64", 1.5, "float32"),
    ("float16", 1, "float16"),
    ("float16", 1.5, "float16"),
    ("bfloat16", 0.1, "bfloat16"),
    ("float64", 0.1, "float64"),
    ("float32", 2**70, "float32"),
    ("int32", np.int8(3), "int32"),
    ("int8", np.int64(3), "int8"),
    ("float16", np.float64(0.5), "float16"),
    ("int8", True, "int8"),
    ("float32", True, "float32"),
]


@pytest.mark.parametrize(("t", "number", "want"), NUMBERS)
def test_a_number_with_an_element(t, number, want):
    x = te.var("x", t)
    assert (x + number).dtype == want and (number + x).dtype == want and te.max(x, number).dtype == want
    assert te.multiply(number, x).dtype == want


def test_a_number_alone():
    for number, want in (
        (1, "int32"),
        (-1, "int32"),
        (2**31, "int64"),
        (1.5, "float32"),
        (True, "bool"),
        (np.float64(1), "float32"),
        (np.bool_(True), "bool"),
    ):
        assert te.const(number).dtype == want
    assert te.const(3, "float16").dtype == "float16" and te.const(2**63, "uint64").value == 2**63
    assert te.compute((2,), lambda i: 1.5).dtype == "float32"


def test_the_type_of_a_reduction_is_that_of_what_is_reduced():
    k = te.reduce_axis((0, 4))
    for t in ("int8", "uint16", "float16", "bfloat16", "float64"):
        A = te.placeholder((4,), t, name="A")
        for f in (te.sum, te.prod, te.min, te.max):
            assert f(A[k], axis=k).dtype == t
        assert te.sum(A[k].astype("float32"), axis=k, init=1).start()[0].dtype == "float32"
    assert te.all(A[k] > 0, axis=k).dtype == "bool"


def test_division():
    for a, b, want in (
        ("float32", "int8", "float32"),
        ("int8", "float16", "float16"),
        ("float16", "float64", "float64"),
    ):
        assert (te.var("x", a) / te.var("y", b)).dtype == want
    assert (te.var("x", "int8") // te.var("y", "int32")).dtype == "int32" and (
        te.var("x", "uint8") % 7
    ).dtype == "uint8"


def test_numpy_takes_our_types():
    A = te.placeholder((4,), "float16", name="A")
    assert np.zeros(3, A.dtype).dtype == np.float16 and np.arange(3).astype(A.dtype).dtype == np.float16
    assert (
        te.placeholder((4,), np.float64).dtype == "float64"
        and te.placeholder((4,), np.dtype("int8")).dtype == "int8"
    )
    assert te.placeholder((4,), A.dtype).dtype is A.dtype


# two elements of tensors: what a common type would lose, and the type that holds both
LOSSY = [
    ("int32", "float32", "float64"),
    ("int8", "uint8", "int16"),
    ("int16", "float16", "float32"),
    ("int64", "float32", None),
    ("int64", "uint64", None),
    ("uint32", "int32", "int64"),
    ("int16", "bfloat16", "float32"),
    ("uint16", "int16", "int32"),
    ("int64", "float64", None),
]
HELD = [
    ("int8", "int32"),
    ("uint8", "int16"),
    ("uint32", "int64"),
    ("int8", "float16"),
    ("uint8", "bfloat16"),
    ("int16", "float32"),
    ("int32", "float64"),
    ("float16", "float32"),
    ("bfloat16", "float16"),
    ("float32", "float64"),
]


def elements(a, b):
    A, B = te.placeholder((4,), a, name="A"), te.placeholder((4,), b, name="B")
    return A, B, A[te.var("i")], B[te.var("i")]


@pytest.mark.parametrize(("a", "b", "both"), LOSSY)
def test_elements_whose_common_type_loses_values_are_refused(a, b, both):
    A, B, x, y = elements(a, b)
    for build in (
        lambda x, y: x + y,
        lambda x, y: y * x,
        te.max,
        lambda x, y: te.if_then_else(te.var("c") > 0, x, y),
        lambda x, y: x < y,
        lambda x, y: (x + 1) - (y * y),
        lambda x, y: te.select(te.var("c") > 0, x, x + 1) + y,
    ):
        with pytest.raises(DeclareError, match="which type is meant") as caught:
            build(x, y)
        assert both is None or f".astype('{both}')" in str(caught.value)
    if both:
        assert (x.astype(both) + y.astype(both)).dtype == both
    assert (x.astype("float32") + y.astype("float32")).dtype == "float32"


@pytest.mark.parametrize(("a", "b"), HELD)
def test_elements_whose_common_type_holds_both(a, b):
    _, _, x, y = elements(a, b)
    assert (x + y).dtype is (y + x).dtype and (x + y).dtype.holds(dtype(a)) and (x + y).dtype.holds(dtype(b))


def test_the_cast_in_the_message_works():
    _, _, x, y = elements("int32", "float32")
    with pytest.raises(DeclareError) as caught:
        x * y
    assert (
        "try       A[i].astype('float64'), B[i].astype('float64') to keep every value, or A[i].astype('float32') to convert it as it is"
        in str(caught.value)
    )
    assert (x.astype("float64") * y.astype("float64")).dtype == "float64" and (
        x.astype("float32") * y
    ).dtype == "float32"


def test_indices_numbers_and_conditions_with_elements_are_as_in_tvm():
    _, _, x, y = elements("float32", "int8")
    i, n = te.var("i"), te.var("n", "int64")
    alpha = te.var("alpha", "float32")
    assert (
        (x + i).dtype == "float32"
        and (x * n).dtype == "float32"
        and (y * alpha).dtype == "float32"
        and (y + 300).dtype == "int32"
    )
    _, _, big, other = elements("int32", "float32")
    assert (big * alpha).dtype == "float32" and (big + 0.5).dtype == "float32"
    assert ((big > 0).astype("int32") * other).dtype == "float32"  # a condition as a number: 0 or 1
    assert (te.select(big > 0, 1, 2) * other).dtype == "float32"  # chosen by an element, not made of one
    assert (y.astype("int64") * other).dtype == "float32"  # int8, however wide it is held


@pytest.mark.parametrize("a", [t for t in KNOWN if t != "bool"])
def test_holds_is_what_numpy_converts_and_back(a):
    rng = np.random.default_rng(0)
    for short in HEAD[1:]:
        b = name(short)
        s, t = dtype(a), dtype(b)
        kind = s.to_numpy()
        if s.is_int:
            lo, hi = s.limits()
            x = np.unique(
                np.concatenate(
                    [
                        rng.integers(lo, hi, 500, kind.type, endpoint=True),
                        np.array([lo, hi, hi - 1, lo + 1, 0], kind),
                    ]
                )
            )
        else:
            x = (
                np.arange(0, 2**16, 7, np.uint16).view(kind)
                if s.bits == 16
                else np.arange(0, 2**32, 65521, np.uint32).astype(f"u{s.bytes}") << (s.bits - 32)
            )
            x = x.view(kind)
        with np.errstate(all="ignore"):
            x = x[np.isfinite(x.astype(np.float64))]
            kept = x.astype(t.to_numpy())
        number = int if s.is_int else float
        assert t.holds(s) == all(
            k == v for k, v in zip(map(int if t.is_int else float, kept), map(number, x), strict=True)
        ), (a, b)
