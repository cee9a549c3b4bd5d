"""The smart constructors: types, conversions, refusals."""

from __future__ import annotations

import gc
import itertools
import math

import numpy as np
import pytest

from tensorlang.core.dtype import FLOAT32, INT32, INT64, KNOWN, dtype, promote
from tensorlang.core.node import interned_count
from tensorlang.errors import DeclareError
from tensorlang.expr import linear, make
from tensorlang.expr.intrinsics import TABLE
from tensorlang.expr.nodes import Add, Const, Var, const_int, is_const

x, y = Var("x", FLOAT32), Var("y", FLOAT32)
i, j = Var("i", INT32), Var("j", INT32)


def test_equal_expressions_are_one_node():
    assert x + y is x + y
    assert make.if_then_else(i < j, x, y) is make.if_then_else(i < j, x, y)
    assert make.const(1.5) is make.const(1.5)
    assert make.const(1) is not make.const(1, "int64")
    assert make.const(1) is not make.const(True)
    assert make.const(0.0) is not make.const(-0.0)
    assert make.const(math.nan) is make.const(math.nan)
    assert linear.literal(1, INT32) is make.const(1) is make.as_expr(1, INT32)
    assert type(make.const(1).value) is int


def test_dead_nodes_leave_the_table_without_the_cyclic_collector():
    def some():
        return [((i * 3 + n + j) // 7) * (j + n) for n in range(5000, 5100)]

    some()  # small literals stay for good
    gc.collect()
    gc.disable()
    try:
        before = interned_count()
        kept = some()
        assert interned_count() > before + 300
        del kept
        assert interned_count() == before
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("value", "t", "text"),
    [
        (1, None, "int32"),
        (2**40, None, "int64"),
        (1.0, None, "float32"),
        (True, None, "bool"),
        (np.int8(3), None, "int32"),
        (np.float64(0.5), None, "float32"),
        (3, "float64", "float64"),
        (3.0, "int32", "int32"),
        (2, "bool", "bool"),
    ],
)
def test_literals(value, t, text):
    e = make.const(value, t)
    assert type(e) is Const and e.dtype.name == text


@pytest.mark.parametrize(
    ("value", "t", "message"),
    [
        (1.5, "int32", "not an integer"),
        (300, "int8", "out of range -128..127"),
        (-1, "uint8", "out of range 0..255"),
        ("a", None, "'a' stands where a number is meant"),
        (None, None, "None stands where a number is meant"),
    ],
)
def test_literals_that_do_not_fit(value, t, message):
    with pytest.raises(DeclareError, match=message):
        make.const(value, t)


def test_a_python_number_takes_the_type_of_the_other_side():
    assert (x * 2).dtype is FLOAT32
    assert (2 * x).dtype is FLOAT32
    assert (Var("b", dtype("int8")) + 1).dtype.name == "int8"
    assert (Var("b", dtype("int8")) + 1000).dtype.name == "int32"
    assert (i + 2**40).dtype is INT64
    assert (i + 1.5).dtype is FLOAT32
    assert (Var("d", dtype("float64")) + 0.1).b.value == 0.1  # not rounded to float32 on the way


@pytest.mark.parametrize(("a", "b"), list(itertools.product(KNOWN, KNOWN)))
def test_promotion_is_symmetric_and_idempotent(a, b):
    t = promote(dtype(a), dtype(b))
    assert t is promote(dtype(b), dtype(a))
    assert promote(t, dtype(a)) is t
    if t.is_float or t.is_int:
        va, vb = Var("a", dtype(a)), Var("b", dtype(b))
        assert (va + vb).dtype is t and (va * vb).dtype is t and (va < vb).dtype.is_bool


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: i / j, "`/` on integers: i / j"),
        (lambda: i // 0, "division by zero"),
        (lambda: x // y, "`//` needs integers, got float32"),
        (lambda: x % 2.0, "`%` needs integers"),
        (lambda: make.add(i < j, i < j), "`\\+` needs numbers, got a bool"),
        (lambda: make.and_(i, i < j), "`and` needs conditions, got int32"),
        (lambda: make.if_then_else(i, x, y), "`if_then_else` needs conditions"),
        (lambda: make.not_(i), "`not` needs conditions"),
        (lambda: make.call("exp", i), r"exp\(i\): needs a float, got int32"),
        (lambda: make.call("popcount", x), r"popcount\(x\): needs an integer, got float32"),
        (lambda: make.call("exp", x, y), "exp takes 1 argument"),
        (lambda: bool(i < j), "the truth of `i < j` is not known"),
        (lambda: 0 <= i < 8, "the truth of `0 <= i`"),
        (lambda: i and j, "the truth of `i`"),
    ],
)
def test_refusals(build, message):
    with pytest.raises(DeclareError, match=message):
        build()


def test_every_operator_has_its_reflection():
    d = Var("d", dtype("int32"), "dim", 1)
    for f, text in (
        (lambda: 7 - i, "7 - i"),
        (lambda: 7 // d, "7 // d"),
        (lambda: 7 % d, "7 % d"),
        (lambda: 2.0 / x, "2.0 / x"),
        (lambda: 2.0 - x, "2.0 - x"),
        (lambda: 3 < i, "3 < i"),
        (lambda: i >= 3, "3 <= i"),
        (lambda: 1 << d, "shift_left(1, d)"),
        (lambda: abs(x), "abs(x)"),
        (lambda: x**0.5, "pow(x, 0.5)"),
        (lambda: x**2, "x * x"),
        (lambda: ~i, "bitwise_not(i)"),
        (lambda: 6 & d, "bitwise_and(6, d)"),
        (lambda: ~(i < j), "j <= i"),
        (lambda: (i < j) & (j < 3), "i < j and j < 3"),
        (lambda: i.equal(j), "i == j"),
        (lambda: +i, "i"),
    ):
        assert str(f()) == text


def test_constants_are_recognised():
    assert (
        const_int(make.const(5)) == 5
        and const_int(7) == 7
        and const_int(i) is None
        and const_int(make.const(2.0)) is None
    )
    assert is_const(make.const(2.0), 2) and not is_const(make.const(2.0), 3) and not is_const(i)


def test_a_type_behind_the_value_is_told_to_come_first():
    with pytest.raises(DeclareError) as told:
        make.cast(x, "int8")
    assert "te.cast('int8', value), the type first, or value.astype('int8')" in str(told.value)
    assert make.cast("int8", x) is x.astype("int8")
    with pytest.raises(DeclareError, match="a number, a variable"):
        make.cast("int8", "something")


def test_casts_fold_where_the_value_is_sure():
    assert make.cast("int8", 300).value == 44
    assert make.cast("float32", make.const(3)) is make.const(3.0)
    assert make.cast("int32", i) is i
    assert str(make.cast("int32", make.const(2.5))) == "int32(2.5)"
    assert str(make.cast("bool", i)) == "i != 0"


def test_vectors_are_simplified_when_all_lanes_are_equal():
    a, b = make.broadcast(i, 8), make.broadcast(j, 8)
    assert a + b is make.broadcast(i + j, 8)
    assert (a < b) is make.broadcast(i < j, 8)
    assert make.add(make.broadcast(x, 4), 1.0) is make.broadcast(x + 1.0, 4)
    assert make.ramp(i, 0, 4) is make.broadcast(i, 4)
    assert make.ramp(i, 1, 1) is i
    assert make.ramp(i, 1, 4) * 3 is make.ramp(i * 3, 3, 4)
    assert make.select(make.broadcast(i < j, 4), make.ramp(i, 1, 4), 0).dtype.lanes == 4


def test_integers_are_not_assumed_to_be_floats():
    assert type(x + 0.0) is Add  # not dropped
    a = Var("a", dtype("int8"))
    assert a + 0 is a and a * 1 is a and a - 0 is a


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_intrinsic_evaluates_in_its_own_type(name):
    row = TABLE[name]
    for t in map(dtype, ("float32", "float64", "int32")):
        if not row.accepts(t):
            continue
        e = make.call(name, *[Var("a", t)] * row.arity)
        args = [np.array([1, 2, 3], t.to_numpy())] * row.arity
        assert row.evaluate(*args).dtype == e.dtype.to_numpy()


def test_literals_of_float32_are_rounded_as_numpy_rounds():
    rng = np.random.default_rng(0)
    some = [0.1, -0.0, 1e-46, 1e39, -1e39, 3.4028235677973366e38, 3.4028235e38, float("inf"), float("nan")]
    with np.errstate(over="ignore"):
        for x in (*some, *np.ldexp(rng.standard_normal(50), rng.integers(-160, 140, 50))):
            made = np.float64(make.const(float(x), "float32").value)
            assert made.tobytes() == np.float64(np.float32(x)).tobytes()
