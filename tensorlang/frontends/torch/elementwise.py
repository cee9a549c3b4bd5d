"""ATen's elementwise arithmetic, comparisons, logic and casts. Knows ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import ops, te
from ...core.dtype import BOOL, FLOAT32
from ...expr.make import as_expr
from ...expr.nodes import const_int
from ...te import Tensor
from ..words import constant_like, paired, truncated, whole_power
from .table import aten, needs
from .types import as_type, held, is_just, of_floats, promoted, result_type, rounded_once, wide

_SAME: dict[str, Callable[..., Any]] = {
    "abs": ops.abs,
    "ceil": ops.ceil,
    "floor": ops.floor,
    "_neg_view": ops.negative,
    "neg": ops.negative,
    "round": ops.round,
    "trunc": ops.trunc,
    "relu": ops.relu,
}
for _name, _op in _SAME.items():
    aten(_name)(_op)

for _name, _op in {
    "acos": ops.acos,
    "acosh": ops.acosh,
    "asin": ops.asin,
    "asinh": ops.asinh,
    "atan": ops.atan,
    "atanh": ops.atanh,
    "cos": ops.cos,
    "cosh": ops.cosh,
    "erf": ops.erf,
    "exp": ops.exp,
    "exp2": ops.exp2,
    "expm1": ops.expm1,
    "log": ops.log,
    "log10": ops.log10,
    "log1p": ops.log1p,
    "log2": ops.log2,
    "reciprocal": ops.reciprocal,
    "rsqrt": ops.rsqrt,
    "sigmoid": ops.sigmoid,
    "sin": ops.sin,
    "sinh": ops.sinh,
    "sqrt": ops.sqrt,
    "tan": ops.tan,
    "tanh": ops.tanh,
}.items():
    aten(_name)(of_floats(_op))


@aten("alias", "clone", "contiguous", "detach", "detach_", "lift_fresh_copy")
def same(x: Tensor) -> Tensor:
    return x


@aten("dropout", "feature_dropout", "alpha_dropout")
def dropout(x: Tensor, share: float, training: bool) -> Tensor:
    needs(not training or share == 0, "elements that are left out by chance")
    return x


@aten("sign")
def sign(x: Tensor) -> Tensor:
    """Of NaN torch's is 0."""
    if x.dtype.is_bool:
        return x
    made = ops.sign(x)
    return ops.where(ops.isnan(x), constant_like(x, 0), made) if x.dtype.is_float else made


@aten("square")
def square(x: Tensor) -> Tensor:
    return mul(x, x)


@aten("bitwise_not")
def bitwise_not(x: Tensor) -> Tensor:
    # a bool is a byte of 0 or 1, and the complement of either is neither
    return ops.logical_not(x) if x.dtype.is_bool else ops.bitwise_not(x)


@aten("logical_not")
def logical_not(x: Tensor) -> Tensor:
    return ops.logical_not(as_type(x, BOOL))


@aten("isnan")
def isnan(x: Tensor) -> Tensor:
    return ops.isnan(x) if x.dtype.is_float else ops.full(x.shape, False, BOOL)


@aten("isinf")
def isinf(x: Tensor) -> Tensor:
    return ops.isinf(x) if x.dtype.is_float else ops.full(x.shape, False, BOOL)


@aten("isfinite")
def isfinite(x: Tensor) -> Tensor:
    return ops.isfinite(x) if x.dtype.is_float else ops.full(x.shape, True, BOOL)


@aten("nan_to_num")
def nan_to_num(
    x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    # None stands for 0
    return ops.nan_to_num(x, nan or 0.0, posinf, neginf) if x.dtype.is_float else x


# -- of two tensors


def _scaled(x: Tensor, alpha: Any) -> Tensor:
    return x if is_just(alpha, 1) else ops.multiply(x, as_type(alpha, x.dtype))


@aten("add.Tensor", "add.Scalar")
def add(x: Any, y: Any, alpha: Any = 1) -> Tensor:
    a, b = promoted(x, y)
    # torch adds bools as "or", where numpy does too, and alpha plays no part
    return ops.logical_or(a, b) if a.dtype.is_bool else ops.add(a, _scaled(b, alpha))


@aten("sub.Tensor", "sub.Scalar")
def sub(x: Any, y: Any, alpha: Any = 1) -> Tensor:
    a, b = promoted(x, y)
    return ops.subtract(a, _scaled(b, alpha))


@aten("rsub.Tensor", "rsub.Scalar")
def rsub(x: Any, y: Any, alpha: Any = 1) -> Tensor:
    return sub(y, x, alpha)


@aten("mul.Tensor", "mul.Scalar")
def mul(x: Any, y: Any) -> Tensor:
    a, b = promoted(x, y)
    return ops.logical_and(a, b) if a.dtype.is_bool else ops.multiply(a, b)


def _quotient(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both as floats."""
    t = result_type(x, y)
    t = t if t.is_float else FLOAT32  # -1 among bytes is -1 here
    return as_type(x, t), as_type(y, t)


@aten("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(x: Any, y: Any) -> Tensor:
    return ops.divide(*_quotient(x, y))


@aten("div.Tensor_mode", "div.Scalar_mode")
def div_mode(x: Any, y: Any, rounding_mode: str | None) -> Tensor:
    if rounding_mode is None:
        return div(x, y)
    a, b = promoted(x, y)
    if rounding_mode == "floor":
        return _floor_of(a, b)
    if not a.dtype.is_float:
        return truncated(a, b)
    # of 16 bits a quotient by several numbers is rounded before it is cut, by one it is not
    several = isinstance(y, Tensor) and any(const_int(as_expr(n)) != 1 for n in y.shape)
    return _whole_quotient(a, b) if several else rounded_once(_whole_quotient)(a, b)


def _whole_quotient(a: Tensor, b: Tensor) -> Tensor:
    return ops.trunc(rounded_once(ops.divide)(a, b))


@aten("floor_divide", "floor_divide.Scalar")
def floor_divide(x: Any, y: Any) -> Tensor:
    return _floor_of(*promoted(x, y))


def _floor_of(a: Tensor, b: Tensor) -> Tensor:
    return _floor_quotient(a, b) if a.dtype.is_float else ops.floor_divide(a, b)


@rounded_once
def _floor_quotient(a: Tensor, b: Tensor) -> Tensor:
    """Of floats, as Python has it: from the remainder, so that what divides evenly is exact."""
    rest = ops.fmod(a, b)
    zero, one = constant_like(a, 0), constant_like(a, 1)
    quotient = ops.divide(ops.subtract(a, rest), b)
    apart = ops.logical_and(ops.not_equal(rest, zero), ops.not_equal(ops.less(rest, zero), ops.less(b, zero)))
    quotient = ops.where(apart, ops.subtract(quotient, one), quotient)
    low = ops.floor(quotient)
    near = ops.where(ops.greater(ops.subtract(quotient, low), constant_like(a, 0.5)), ops.add(low, one), low)
    return ops.where(ops.equal(b, zero), ops.divide(a, b), near)


@aten("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(x: Any, y: Any) -> Tensor:
    return rounded_once(ops.mod)(*promoted(x, y))


@aten("fmod.Tensor", "fmod.Scalar")
def fmod(x: Any, y: Any) -> Tensor:
    return rounded_once(ops.fmod)(*promoted(x, y))


@aten("pow.Tensor_Tensor", "pow.Scalar")
def pow_(x: Any, y: Any) -> Tensor:
    a, b = promoted(x, y)
    return ops.power(a, b) if a.dtype.is_float else paired("pow", a, b, whole_power)


# the exponents that torch writes out too, which so give the same bits
_ROOTS: dict[float, Callable[[Tensor], Tensor]] = {
    0.5: ops.sqrt,
    -0.5: ops.rsqrt,
    -1.0: ops.reciprocal,
    1.0: same,
    2.0: square,
    3.0: lambda x: ops.multiply(ops.multiply(x, x), x),
}


@aten("pow.Tensor_Scalar")
def pow_number(x: Tensor, exponent: Any) -> Tensor:
    x = as_type(x, result_type(x, exponent))
    if isinstance(exponent, int | float) and x.dtype.is_float and float(exponent) in _ROOTS:
        return wide(_ROOTS[float(exponent)])(x)
    needs(
        not x.dtype.is_int or not isinstance(exponent, int) or exponent >= 0,
        "whole numbers to the power of less than 0",
    )
    narrow = x.dtype.is_int or x.dtype.bits == 16  # torch turns the exponent to their type
    return pow_(x, held(exponent, x.dtype) if narrow else exponent)


@aten("maximum", "max.other")
def maximum(x: Tensor, y: Tensor) -> Tensor:
    a, b = promoted(x, y)
    return ops.logical_or(a, b) if a.dtype.is_bool else ops.maximum(a, b)


@aten("minimum", "min.other")
def minimum(x: Tensor, y: Tensor) -> Tensor:
    a, b = promoted(x, y)
    return ops.logical_and(a, b) if a.dtype.is_bool else ops.minimum(a, b)


@aten("atan2")
def atan2(x: Tensor, y: Tensor) -> Tensor:
    return ops.atan2(*_quotient(x, y))


@aten("hypot")
def hypot(x: Tensor, y: Tensor) -> Tensor:
    return ops.hypot(*_quotient(x, y))


@aten("signbit")
def signbit(x: Tensor) -> Tensor:
    """Of floats the sign itself, that of -0 and of what is no number too."""
    if not x.dtype.is_float:
        return ops.full(x.shape, False, BOOL) if x.dtype.is_bool else ops.less(x, constant_like(x, 0))
    return ops.less(_signed(constant_like(x, 1), x), constant_like(x, 0))


@aten("copysign.Tensor", "copysign.Scalar")
def copysign(x: Tensor, y: Any) -> Tensor:
    return _signed(*_quotient(x, y))


def _signed(x: Tensor, y: Tensor) -> Tensor:
    return paired("copysign", x, y, te.copysign)


@aten("logaddexp")
def logaddexp(x: Tensor, y: Tensor) -> Tensor:
    return ops.logaddexp(*_quotient(x, y))


def _bits(name: str, whole: Callable[..., Tensor], truth: Callable[..., Tensor]) -> None:
    word = f"__{name.removeprefix('bitwise_')}__"

    @aten(f"{name}.Tensor", f"{name}.Scalar", f"{name}.Scalar_Tensor", f"{word}.Tensor", f"{word}.Scalar")
    def of(x: Any, y: Any) -> Tensor:
        a, b = promoted(x, y)
        return truth(a, b) if a.dtype.is_bool else whole(a, b)


_bits("bitwise_and", ops.bitwise_and, ops.logical_and)
_bits("bitwise_or", ops.bitwise_or, ops.logical_or)
_bits("bitwise_xor", ops.bitwise_xor, ops.logical_xor)


@aten(
    "__lshift__.Scalar", "__lshift__.Tensor", "bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar"
)
def left_shift(x: Tensor, y: Any) -> Tensor:
    """By fewer than nothing or more than there are bits is 0."""
    x, by, bits = _shifted(x, y)
    within = ops.logical_and(
        ops.greater_equal(by, constant_like(by, 0)), ops.less(by, constant_like(by, bits))
    )
    return ops.where(within, ops.left_shift(x, _clipped(by, bits - 1)), constant_like(x, 0))


@aten(
    "__rshift__.Scalar",
    "__rshift__.Tensor",
    "bitwise_right_shift.Tensor",
    "bitwise_right_shift.Tensor_Scalar",
)
def right_shift(x: Tensor, y: Any) -> Tensor:
    """By fewer than nothing or more than there are bits leaves the sign, and nothing where there is none."""
    x, by, bits = _shifted(x, y)
    if x.dtype.code != "int":
        return ops.where(
            ops.less(by, constant_like(by, bits)),
            ops.right_shift(x, ops.minimum(by, constant_like(by, bits - 1))),
            constant_like(x, 0),
        )
    far = ops.where(ops.less(by, constant_like(by, 0)), constant_like(by, bits - 1), by)
    return ops.right_shift(x, ops.minimum(far, constant_like(by, bits - 1)))


def _shifted(x: Tensor, y: Any) -> tuple[Tensor, Tensor, int]:
    """What is shifted, by how much, and how many bits it has."""
    if isinstance(y, Tensor):
        x, by = promoted(x, y)
    else:
        # a number that the type may not hold is too many like any other
        far = isinstance(y, int) and not 0 <= y < x.dtype.bits
        by = as_type(x.dtype.bits if far else y, x.dtype)
    needs(x.dtype.is_int, "a shift of what is no whole number")
    return x, by, x.dtype.bits


def _clipped(x: Tensor, most: int) -> Tensor:
    return ops.minimum(ops.maximum(x, constant_like(x, 0)), constant_like(x, most))


def _logic(name: str, f: Callable[..., Tensor]) -> None:
    @aten(name)
    def of(x: Tensor, y: Tensor) -> Tensor:
        return f(as_type(x, BOOL), as_type(y, BOOL))


_logic("logical_and", ops.logical_and)
_logic("logical_or", ops.logical_or)
_logic("logical_xor", ops.logical_xor)


def _comparison(name: str, f: Callable[..., Tensor]) -> None:
    @aten(f"{name}.Tensor", f"{name}.Scalar")
    def of(x: Any, y: Any) -> Tensor:
        a, b = promoted(x, y)
        if a.dtype.is_bool:
            # False < True
            a, b = as_type(a, "uint8"), as_type(b, "uint8")
        return f(a, b)


for _name, _op in {
    "eq": ops.equal,
    "ge": ops.greater_equal,
    "gt": ops.greater,
    "le": ops.less_equal,
    "lt": ops.less,
    "ne": ops.not_equal,
}.items():
    _comparison(_name, _op)


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(condition: Tensor, x: Any, y: Any) -> Tensor:
    t = result_type(x, y)
    return ops.where(as_type(condition, BOOL), held(x, t), held(y, t))


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    return ops.where(mask, held(value, x.dtype), x)


@aten("hardtanh")
def hard_tanh(x: Tensor, low: float = -1, high: float = 1) -> Tensor:
    """In the type of ``x``, be it one of whole numbers."""
    return ops.minimum(ops.maximum(x, held(_in(x, low), x.dtype)), held(_in(x, high), x.dtype))


def _in(x: Tensor, n: float) -> float:
    return n if x.dtype.is_float else int(n)


@aten("relu6")
def relu6(x: Tensor) -> Tensor:
    return hard_tanh(x, 0, 6)


@aten("clamp", "clamp.Tensor")
def clamp(x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    # bounds take part in the promotion: an int tensor between floats is a float tensor
    t = result_type(*(a for a in (x, low, high) if a is not None))
    x = as_type(x, t)
    x = x if low is None else ops.maximum(x, held(low, t))
    return x if high is None else ops.minimum(x, held(high, t))


@aten("clamp_min", "clamp_min.Tensor")
def clamp_min(x: Tensor, low: Any) -> Tensor:
    return clamp(x, low)


@aten("clamp_max", "clamp_max.Tensor")
def clamp_max(x: Tensor, high: Any) -> Tensor:
    return clamp(x, None, high)


@aten("addcmul")
@rounded_once
def addcmul(x: Tensor, y: Tensor, z: Tensor, value: Any = 1) -> Tensor:
    return add(x, mul(y, z), value)


@aten("addcdiv")
@rounded_once
def addcdiv(x: Tensor, y: Tensor, z: Tensor, value: Any = 1) -> Tensor:
    return add(x, div(y, z), value)


@aten("lerp.Scalar", "lerp.Tensor")
@rounded_once
def lerp(x: Tensor, y: Tensor, weight: Any) -> Tensor:
    """From the end that is nearer, so that a weight of 1 is ``y`` itself whatever ``x`` is."""
    way = sub(y, x)
    from_x, from_y = add(x, mul(weight, way)), sub(y, mul(rsub(weight, 1), way))
    if isinstance(weight, Tensor):
        return ops.where(ops.less(ops.abs(weight), constant_like(weight, 0.5)), from_x, from_y)
    return from_x if abs(weight) < 0.5 else from_y


# -- types


@aten("_to_copy", "to.dtype", "to.device", "to.dtype_layout")
def to_copy(x: Tensor, to: str | None = None) -> Tensor:
    return x if to is None else as_type(x, to)


@aten("prims.convert_element_type.default")
def converted(x: Tensor, to: str) -> Tensor:
    return as_type(x, to)


@aten("type_as")
def type_as(x: Tensor, like: Tensor) -> Tensor:
    return as_type(x, like.dtype)
