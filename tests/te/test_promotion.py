"""What type an operation has: the whole table, as TVM promotes, and that of Python's numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang import te
from tensorlang.core.dtype import dtype
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
    build = {"+": lambda a, b: a + b, "*": lambda a, b: a * b, "min": te.min, "select": lambda a, b: te.select(te.var("c") > 0, a, b),
             "pow": te.power, "atan2": te.atan2}[operation]
    for a, b, want in CELLS:
        x, y, t = te.var("x", name(a)), te.var("y", name(b)), dtype(name(want))
        if (t.is_bool and operation != "select") or (not t.is_float and operation in ("pow", "atan2")):
            with pytest.raises(DeclareError):
                build(x, y)
        else:
            assert build(x, y).dtype is t, (a, b)


NUMBERS = [  # an element, a Python number, the type of their sum
    ("int8", 1, "int8"), ("int8", -128, "int8"), ("int8", 128, "int32"), ("int8", 2**40, "int64"), ("uint8", 255, "uint8"), ("uint8", -1, "int32"),
    ("uint64", 2**63, "uint64"), ("int32", 2**31, "int64"), ("int64", 1, "int64"), ("uint32", -1, "uint32"), ("bool", 1, "int32"), ("bool", 1.5, "float32"),
    ("int8", 1.5, "float32"), ("int64", 1.5, "float32"), ("float16", 1, "float16"), ("float16", 1.5, "float16"), ("bfloat16", 0.1, "bfloat16"),
    ("float64", 0.1, "float64"), ("float32", 2**70, "float32"), ("int32", np.int8(3), "int32"), ("int8", np.int64(3), "int8"), ("float16", np.float64(0.5), "float16"),
    ("int8", True, "int8"), ("float32", True, "float32"),
]


@pytest.mark.parametrize(("t", "number", "want"), NUMBERS)
def test_a_number_with_an_element(t, number, want):
    x = te.var("x", t)
    assert (x + number).dtype == want and (number + x).dtype == want and te.max(x, number).dtype == want
    assert te.multiply(number, x).dtype == want


def test_a_number_alone():
    for number, want in ((1, "int32"), (-1, "int32"), (2**31, "int64"), (1.5, "float32"), (True, "bool"), (np.float64(1), "float32"), (np.bool_(True), "bool")):
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
    for a, b, want in (("float32", "int8", "float32"), ("int8", "float16", "float16"), ("float16", "float64", "float64")):
        assert (te.var("x", a) / te.var("y", b)).dtype == want
    assert (te.var("x", "int8") // te.var("y", "int32")).dtype == "int32" and (te.var("x", "uint8") % 7).dtype == "uint8"


def test_numpy_takes_our_types():
    A = te.placeholder((4,), "float16", name="A")
    assert np.zeros(3, A.dtype).dtype == np.float16 and np.arange(3).astype(A.dtype).dtype == np.float16
    assert te.placeholder((4,), np.float64).dtype == "float64" and te.placeholder((4,), np.dtype("int8")).dtype == "int8"
    assert te.placeholder((4,), A.dtype).dtype is A.dtype
