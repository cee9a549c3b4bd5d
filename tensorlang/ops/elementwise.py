"""Elementwise operators with numpy's names, broadcasting and promotion: arithmetic, and functions of one
element.

Two shapes are aligned at their last dimension; sizes are one, or 1 is repeated. A tensor and a Python number
give the tensor's type (float64 for integers beside a float). Integers wrap. ``maximum``, ``minimum`` and
``clip`` hand a NaN on, as numpy's do. Functions such as ``exp`` give floats of integers: float16 of 8 bits,
float32 of 16, float64 of more. Knows ``te`` elements and the checks of arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import te
from ..core.dtype import FLOAT64, DType
from ..core.dtype import dtype as as_dtype
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Const, Expr
from ..te import Tensor
from . import inputs, tags
from .maps import Operand, nary, unary

__all__ = [
    "abs",
    "add",
    "atan2",
    "cast",
    "cbrt",
    "ceil",
    "clip",
    "cos",
    "divide",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "fmod",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "nan_to_num",
    "negative",
    "power",
    "reciprocal",
    "round",
    "rsqrt",
    "sign",
    "sin",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "trunc",
]


def _numbers(op: str, *values: Any) -> None:
    """Raises DeclareError when all are bools, of which arithmetic makes no sense."""
    types = [v.dtype for v in values if isinstance(v, Tensor | Expr)]
    # a number beside a tensor of bools makes it a tensor of numbers
    if all(t.is_bool for t in types) and all(isinstance(v, bool | Tensor | Expr) for v in values):
        raise DeclareError(
            f"ops.{op}: the operands are bool, numbers are needed",
            try_="ops.cast(x, 'int32'), or ops.logical_and, logical_or, logical_xor",
        )


# --- arithmetic ---------------------------------------------------------------------------------------------


def add(x: Operand, y: Operand) -> Tensor:
    """``x + y``, broadcast. Shapes meet by numpy's rule, types by its promotion. Raises DeclareError for
    bool and for shapes that do not go together.

    >>> x, y = te.placeholder((2, 3), name="x"), te.placeholder((3,), name="y")
    >>> ops.add(x, y)
    Tensor(add: float32[2, 3])
    """
    _numbers("add", x, y)
    return nary("add", (x, y), make.add)


def subtract(x: Operand, y: Operand) -> Tensor:
    """``x - y``, broadcast. Shapes meet by numpy's rule, types by its promotion. Raises DeclareError for
    bool and for shapes that do not go together.

    >>> x, y = te.placeholder((2, 3), name="x"), te.placeholder((3,), name="y")
    >>> ops.subtract(x, y)
    Tensor(subtract: float32[2, 3])
    """
    _numbers("subtract", x, y)
    return nary("subtract", (x, y), make.sub)


def multiply(x: Operand, y: Operand) -> Tensor:
    """``x * y``, broadcast. Shapes meet by numpy's rule, types by its promotion. Raises DeclareError for
    bool and for shapes that do not go together.

    >>> x, y = te.placeholder((2, 3), name="x"), te.placeholder((3,), name="y")
    >>> ops.multiply(x, y)
    Tensor(multiply: float32[2, 3])
    """
    _numbers("multiply", x, y)
    return nary("multiply", (x, y), make.mul)


def _quotient_type(t: DType) -> DType:
    return t if t.is_float else FLOAT64


def divide(x: Operand, y: Operand) -> Tensor:
    """``x / y``, broadcast. Integers give float64. Shapes meet by numpy's rule, types by its promotion.
    Raises DeclareError for shapes that do not go together.

    >>> x, y = te.placeholder((2, 3), name="x"), te.placeholder((3,), name="y")
    >>> ops.divide(x, y)
    Tensor(divide: float32[2, 3])
    """
    return nary("divide", (x, y), make.div, _quotient_type, _quotient_type)


def floor_divide(x: Operand, y: Operand) -> Tensor:
    """``x // y`` rounded down, broadcast; floats too, by numpy's rule. An integer divided by zero is 0, as in
    numpy. Raises DeclareError for bools, and shapes that do not broadcast.

    >>> x, y = te.placeholder((2, 3), name="x"), te.placeholder((3,), name="y")
    >>> ops.floor_divide(x, y)
    Tensor(floor_divide: float32[2, 3])
    """
    _numbers("floor_divide", x, y)
    return nary("floor_divide", (x, y), _floor_divide)


def mod(x: Operand, y: Operand) -> Tensor:
    """``x % y`` with the sign of ``y``, broadcast; of floats too. The remainder of an integer by zero is 0,
    as in numpy. Raises DeclareError for bools, and shapes that do not broadcast.

    >>> x, y = te.placeholder((2, 3), name="x"), te.placeholder((3,), name="y")
    >>> ops.mod(x, y)
    Tensor(mod: float32[2, 3])
    """
    _numbers("mod", x, y)
    return nary("mod", (x, y), _mod)


def fmod(x: Operand, y: Operand) -> Tensor:
    """The remainder with the sign of ``x``, as C's ``fmod`` and ``%``, broadcast. That of an integer by zero
    is 0, as in numpy; of a float NaN. Raises DeclareError for bools, and shapes that do not broadcast."""
    _numbers("fmod", x, y)

    def remainder(a: Expr, b: Expr) -> Expr:
        return _guarded("fmod", make.truncmod, a, b) if a.dtype.is_int else te.fmod(a, b)

    return nary("fmod", (x, y), remainder)


def _nonzero(op: str, b: Expr) -> Expr:
    """The divisor, where it is not zero; Raises DeclareError for the literal 0."""
    if isinstance(b, Const):
        if b.value == 0:
            raise DeclareError(f"ops.{op}: the divisor is the literal 0")
        return b
    # the processor traps on an integer division by zero, and a select computes both sides
    return te.select(make.eq(b, 0), make.const(1, b.dtype), b)


def _guarded(op: str, f: Callable[[Expr, Expr], Expr], a: Expr, b: Expr) -> Expr:
    divisor = _nonzero(op, b)
    value = f(a, divisor)
    return value if divisor is b else te.select(make.eq(b, 0), make.const(0, b.dtype), value)


def _mod(a: Expr, b: Expr) -> Expr:
    if a.dtype.is_int:
        return _guarded("mod", make.floormod, a, b)
    r = te.fmod(a, b)
    # C's remainder has the sign of a; of unlike signs it is one divisor away from Python's
    floored = te.select((r < 0) != (b < 0), r + b, r)
    # numpy's remainder of zero has the sign of the divisor: -0.0 for a negative one
    return te.select(make.eq(r, 0.0), te.copysign(make.const(0.0, a.dtype), b), floored)


def _floor_divide(a: Expr, b: Expr) -> Expr:
    """numpy's ``npy_divmod``: the quotient of what the remainder leaves, which no rounding of ``a / b`` can
    spoil."""
    if a.dtype.is_int:
        return _guarded("floor_divide", make.floordiv, a, b)
    r = te.fmod(a, b)
    q = (a - r) / b
    q = te.select(te.all(make.ne(r, 0.0), (r < 0) != (b < 0)), q - 1.0, q)
    whole = te.floor(q)
    # q is a whole number but for its rounding: the nearest one, not the one below
    whole = te.select(q - whole > 0.5, whole + 1.0, whole)
    whole = te.select(make.eq(q, 0.0), te.copysign(make.const(0.0, a.dtype), a / b), whole)
    # the infinity or NaN that numpy gives; a - r is NaN there
    return te.select(make.eq(b, 0.0), a / b, whole)


def power(x: Operand, y: Operand) -> Tensor:
    """``x ** y``, broadcast: of floats, or of integers to a Python int, which must not be negative.

    Raises DeclareError for integers to the power of a tensor of integers, whose negative exponents have no
    integer result.
    """
    _numbers("power", x, y)
    integers = all(
        not isinstance(v, float) and (not isinstance(v, Tensor | Expr) or not v.dtype.is_float)
        for v in (x, y)
    )
    if integers and (isinstance(x, int) or not isinstance(y, int)):
        raise DeclareError(
            "ops.power: an integer to the power of a tensor of integers",
            because="negative exponents have no integer result",
            try_="ops.cast of one of them to a float, or a Python int as the exponent",
        )
    if integers and y < 0:  # type: ignore[operator]
        raise DeclareError(
            f"ops.power: the exponent is {y}",
            because="an integer to a negative power is not an integer",
            try_="ops.cast(x, 'float32') first",
        )
    # a literal exponent is written out as products
    if isinstance(y, int) and isinstance(x, Tensor):
        y_literal = y
        return unary("power", x, lambda e: te.power(e, y_literal))
    return nary("power", (x, y), te.power)


def hypot(x: Operand, y: Operand) -> Tensor:
    """``sqrt(x * x + y * y)`` that does not overflow on the way, broadcast. Integers give floats."""
    return nary("hypot", (x, y), te.hypot, inputs.float_type, inputs.float_type)


def atan2(y: Operand, x: Operand) -> Tensor:
    """The angle of the point (``x``, ``y``), from -pi to pi, broadcast. Integers give floats."""
    return nary("atan2", (y, x), te.atan2, inputs.float_type, inputs.float_type)


def logaddexp(x: Operand, y: Operand) -> Tensor:
    """``log(exp(x) + exp(y))``, broadcast, where the exponentials alone would overflow. Integers give
    floats."""
    return nary("logaddexp", (x, y), _logaddexp, inputs.float_type, inputs.float_type)


def _logaddexp(a: Expr, b: Expr) -> Expr:
    # exp of the difference to the larger one is at most 1
    larger = make.max_(a, b)
    far = te.abs(a - b)  # NaN for two infinities of one sign, which are their own sum
    return te.select(make.eq(a, b), a + math.log(2), larger + te.log1p(te.exp(-far)))


def maximum(x: Operand, y: Operand) -> Tensor:
    """The larger of each two elements, broadcast; NaN when either is NaN. Of bools, whether either holds.

    >>> x, y = te.placeholder((2, 3), name="x"), te.placeholder((3,), name="y")
    >>> ops.maximum(x, y)
    Tensor(maximum: float32[2, 3])
    """
    return nary("maximum", (x, y), lambda a, b: te.any(a, b) if a.dtype.is_bool else make.max_(a, b))


def minimum(x: Operand, y: Operand) -> Tensor:
    """The smaller of each two elements, broadcast; NaN when either is NaN. Of bools, whether both hold.

    >>> x, y = te.placeholder((2, 3), name="x"), te.placeholder((3,), name="y")
    >>> ops.minimum(x, y)
    Tensor(minimum: float32[2, 3])
    """
    return nary("minimum", (x, y), lambda a, b: te.all(a, b) if a.dtype.is_bool else make.min_(a, b))


def clip(x: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """``minimum(maximum(x, min), max)``, broadcast; a bound may be left out, one is needed. NaN stays NaN.
    Raises DeclareError for none, for numbers of which the lower is the greater one, and for bools.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.clip(x, 0, 6)
    Tensor(clip: float32[2, 3])
    """
    x = inputs.tensor("clip", x)
    # as operands, so that a bound that is a tensor takes part in broadcasting and promotion
    bounds = tuple(b for b in (min, max) if b is not None)
    if not bounds:
        raise DeclareError("ops.clip: neither min nor max is given", try_="ops.clip(x, 0, 6)")
    inputs.in_order("clip", x, min, max)
    _numbers("clip", x, *bounds)

    def clipped(e: Expr, *ends: Expr) -> Expr:
        if min is not None:
            e = make.max_(e, ends[0])
        return e if max is None else make.min_(e, ends[-1])

    return nary("clip", (x, *bounds), clipped)


# --- functions of one element -------------------------------------------------------------------------------


def cast(x: Tensor, dtype: str | DType) -> Tensor:
    """``x`` converted: floats to integers truncate and saturate (NaN gives 0), integers wrap, numbers to bool
    compare with zero.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.cast(x, "int32")
    Tensor(cast: int32[2, 3])
    """
    t, x = as_dtype(dtype), inputs.tensor("cast", x)
    return inputs.stage("cast", tags.ELEMENTWISE, x.shape, lambda *i: te.cast(t, x(*i)))


def _number(op: str, x: Tensor, f: Callable[[Expr], Expr]) -> Tensor:
    """A function that leaves the type as it is, of numbers."""
    x = inputs.tensor(op, x)
    _numbers(op, x)
    return unary(op, x, f)


def _float(op: str, x: Tensor, f: Callable[[Expr], Expr]) -> Tensor:
    """A function whose result is a float."""
    x = inputs.tensor(op, x)
    return unary(op, x, f, inputs.float_type(x.dtype))


def negative(x: Tensor) -> Tensor:
    """``-x``; that of an unsigned integer wraps. The shape is that of ``x``, and so is the type. Raises
    DeclareError for bool.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.negative(x), {x: np.array([-1.0, 2.0], np.float32)})[0].tolist()
    [1.0, -2.0]
    """
    return _number("negative", x, make.neg)


def abs(x: Tensor) -> Tensor:
    """The absolute value. That of the least int8 is itself, as it wraps.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.abs(x), {x: np.array([-1.0, 2.0], np.float32)})[0].tolist()
    [1.0, 2.0]
    """
    return _number("abs", x, te.abs)


def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1 in the type of ``x``; NaN of NaN. The shape is that of ``x``, and so is the type. Raises
    DeclareError for bool.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.sign(x), {x: np.array([-3.0, 2.0], np.float32)})[0].tolist()
    [-1.0, 1.0]
    """

    def of(e: Expr) -> Expr:
        zero, one = make.const(0, e.dtype), make.const(1, e.dtype)
        # a zero or a NaN is its own sign
        rest = te.select(e < zero, make.const(-1, e.dtype), e) if e.dtype.code != "uint" else e
        return te.select(zero < e, one, rest)

    return _number("sign", x, of)


def square(x: Tensor) -> Tensor:
    """``x * x``. The shape is that of ``x``, and so is the type. Raises DeclareError for bool.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.square(x), {x: np.array([-3.0, 2.0], np.float32)})[0].tolist()
    [9.0, 4.0]
    """
    return _number("square", x, lambda e: e * e)


def floor(x: Tensor) -> Tensor:
    """The next whole number below, in the type of ``x``. The shape is that of ``x``, and so is the type.
    Raises DeclareError for bool.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.floor(x), {x: np.array([-1.5, 2.5], np.float32)})[0].tolist()
    [-2.0, 2.0]
    """
    return _number("floor", x, te.floor)


def ceil(x: Tensor) -> Tensor:
    """The next whole number above, in the type of ``x``. The shape is that of ``x``, and so is the type.
    Raises DeclareError for bool.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.ceil(x), {x: np.array([-1.5, 2.5], np.float32)})[0].tolist()
    [-1.0, 3.0]
    """
    return _number("ceil", x, te.ceil)


def trunc(x: Tensor) -> Tensor:
    """The next whole number towards 0, in the type of ``x``. The shape is that of ``x``, and so is the
    type. Raises DeclareError for bool."""
    return _number("trunc", x, te.trunc)


def round(x: Tensor) -> Tensor:
    """The nearest whole number, halves to the even one as in numpy, in the type of ``x``.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.round(x), {x: np.array([0.5, 1.5], np.float32)})[0].tolist()
    [0.0, 2.0]
    """
    return _number("round", x, te.nearbyint)


def sqrt(x: Tensor) -> Tensor:
    """The square root; NaN below 0. The shape is that of ``x``; floats keep their type, int32 gives
    float64, uint8 float16. Raises DeclareError for what is not a tensor.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.sqrt(x), {x: np.array([4.0, 9.0], np.float32)})[0].tolist()
    [2.0, 3.0]
    """
    return _float("sqrt", x, te.sqrt)


def rsqrt(x: Tensor) -> Tensor:
    """``1 / sqrt(x)``. The shape is that of ``x``; floats keep their type, int32 gives float64, uint8
    float16. Raises DeclareError for what is not a tensor.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.rsqrt(x), {x: np.array([4.0, 16.0], np.float32)})[0].tolist()
    [0.5, 0.25]
    """
    return _float("rsqrt", x, te.rsqrt)


def cbrt(x: Tensor) -> Tensor:
    """The cube root, of negative numbers too. The shape is that of ``x``; floats keep their type, int32
    gives float64, uint8 float16. Raises DeclareError for what is not a tensor."""
    return _float("cbrt", x, te.cbrt)


def reciprocal(x: Tensor) -> Tensor:
    """``1 / x``, of floats (integers give floats). The shape is that of ``x``; floats keep their type,
    int32 gives float64, uint8 float16. Raises DeclareError for what is not a tensor."""
    return _float("reciprocal", x, lambda e: 1.0 / e)


def exp(x: Tensor) -> Tensor:
    """e to the power of ``x``. The shape is that of ``x``; floats keep their type, int32 gives float64,
    uint8 float16. Raises DeclareError for what is not a tensor.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.exp(x), {x: np.array([0.0, 1.0], np.float32)})[0].tolist()
    [1.0, 2.7182817459106445]
    """
    return _float("exp", x, te.exp)


def exp2(x: Tensor) -> Tensor:
    """2 to the power of ``x``. The shape is that of ``x``; floats keep their type, int32 gives float64,
    uint8 float16. Raises DeclareError for what is not a tensor."""
    return _float("exp2", x, te.exp2)


def expm1(x: Tensor) -> Tensor:
    """``exp(x) - 1``, precise near 0. The shape is that of ``x``; floats keep their type, int32 gives
    float64, uint8 float16. Raises DeclareError for what is not a tensor."""
    return _float("expm1", x, te.expm1)


def log(x: Tensor) -> Tensor:
    """The natural logarithm; NaN below 0, minus infinity at 0. The shape is that of ``x``; floats keep
    their type, int32 gives float64, uint8 float16. Raises DeclareError for what is not a tensor.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.log(x), {x: np.array([1.0, 1.0], np.float32)})[0].tolist()
    [0.0, 0.0]
    """
    return _float("log", x, te.log)


def log2(x: Tensor) -> Tensor:
    """The logarithm to base 2. The shape is that of ``x``; floats keep their type, int32 gives float64,
    uint8 float16. Raises DeclareError for what is not a tensor."""
    return _float("log2", x, te.log2)


def log10(x: Tensor) -> Tensor:
    """The logarithm to base 10. The shape is that of ``x``; floats keep their type, int32 gives float64,
    uint8 float16. Raises DeclareError for what is not a tensor."""
    return _float("log10", x, te.log10)


def log1p(x: Tensor) -> Tensor:
    """``log(1 + x)``, precise near 0. The shape is that of ``x``; floats keep their type, int32 gives
    float64, uint8 float16. Raises DeclareError for what is not a tensor."""
    return _float("log1p", x, te.log1p)


def sin(x: Tensor) -> Tensor:
    """The sine, ``x`` in radians. The shape is that of ``x``; floats keep their type, int32 gives
    float64, uint8 float16. Raises DeclareError for what is not a tensor."""
    return _float("sin", x, te.sin)


def cos(x: Tensor) -> Tensor:
    """The cosine, ``x`` in radians. The shape is that of ``x``; floats keep their type, int32 gives
    float64, uint8 float16. Raises DeclareError for what is not a tensor."""
    return _float("cos", x, te.cos)


def tan(x: Tensor) -> Tensor:
    """The tangent, ``x`` in radians. The shape is that of ``x``; floats keep their type, int32 gives
    float64, uint8 float16. Raises DeclareError for what is not a tensor."""
    return _float("tan", x, te.tan)


def erf(x: Tensor) -> Tensor:
    """The error function. The shape is that of ``x``; floats keep their type, int32 gives float64, uint8
    float16. Raises DeclareError for what is not a tensor.

    >>> x = te.placeholder((2,), name="x")
    >>> te.reference.evaluate(ops.erf(x), {x: np.array([0.0, 10.0], np.float32)})[0].tolist()
    [0.0, 1.0]
    """
    return _float("erf", x, te.erf)


def isnan(x: Tensor) -> Tensor:
    """Whether an element is NaN: bool. The shape is that of ``x``. Raises DeclareError for bool."""
    x = inputs.tensor("isnan", x)
    return inputs.stage("isnan", tags.ELEMENTWISE, x.shape, lambda *i: te.isnan(x(*i)))


def isfinite(x: Tensor) -> Tensor:
    """Whether an element is neither infinite nor NaN: bool. The shape is that of ``x``. Raises
    DeclareError for bool."""
    x = inputs.tensor("isfinite", x)
    return inputs.stage("isfinite", tags.ELEMENTWISE, x.shape, lambda *i: te.isfinite(x(*i)))


def isinf(x: Tensor) -> Tensor:
    """Whether an element is infinite, either way: bool. The shape is that of ``x``. Raises DeclareError
    for bool."""
    x = inputs.tensor("isinf", x)
    return inputs.stage("isinf", tags.ELEMENTWISE, x.shape, lambda *i: te.isinf(x(*i)))


def nan_to_num(
    x: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """``x`` with ``nan`` where it is NaN, ``posinf`` (the largest number of the type) where it is infinite
    and ``neginf`` (the least) where it is minus infinity. Integers stay."""
    x = inputs.tensor("nan_to_num", x)

    def finite(e: Expr) -> Expr:
        if not e.dtype.is_float:
            return e
        # of the type of x, not of the wider one in which a half is computed: an infinite half becomes 65504
        highest, lowest = te.max_value(x.dtype), te.min_value(x.dtype)
        above = te.cast(e.dtype, highest) if posinf is None else make.const(posinf, e.dtype)
        below = te.cast(e.dtype, lowest) if neginf is None else make.const(neginf, e.dtype)
        number = te.select(te.isinf(e), te.select(e > 0, above, below), e)
        return te.select(te.isnan(e), make.const(nan, e.dtype), number)

    return unary("nan_to_num", x, finite)
