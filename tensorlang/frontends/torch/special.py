"""ATen's special functions, and what else it has of elements and rows that few models ask for. Knows ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import ops, te
from ...core.dtype import BOOL, INT32, INT64
from ...expr import make
from ...te import Tensor
from ..words import constant_like
from .elementwise import sign
from .reduce import sorted_with_places, vector_norm
from .table import aten, known, needs
from .types import as_type, floats, of_floats, promoted, rounded_once, wide

for _name, _op in {
    "digamma": ops.digamma,
    "erfc": ops.erfc,
    "erfinv": ops.erfinv,
    "i0": ops.i0,
    "lgamma": ops.lgamma,
    "special_erfcx": ops.erfcx,
    "special_i0e": ops.i0e,
    "special_i1": ops.i1,
    "special_i1e": ops.i1e,
    "special_log_ndtr": ops.log_ndtr,
    "special_modified_bessel_i0": ops.i0,
    "special_modified_bessel_i1": ops.i1,
    "special_ndtri": ops.ndtri,
}.items():
    aten(_name)(of_floats(_op))


@aten("polygamma")
def polygamma(n: int, x: Tensor) -> Tensor:
    return ops.polygamma(n, floats(x))


@aten("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other")
def xlogy(x: Any, y: Any) -> Tensor:
    return rounded_once(ops.xlogy)(*map(floats, promoted(x, y)))


@aten("special_xlog1py", "special_xlog1py.self_scalar", "special_xlog1py.other_scalar")
def xlog1py(x: Any, y: Any) -> Tensor:
    return rounded_once(ops.xlog1py)(*map(floats, promoted(x, y)))


@aten("nextafter")
def nextafter(x: Tensor, y: Tensor) -> Tensor:
    return ops.nextafter(*promoted(x, y))


def _without_nan(name: str, f: Callable[..., Tensor]) -> None:
    @aten(name)
    def of(x: Tensor, y: Tensor) -> Tensor:
        a, b = promoted(x, y)
        if a.dtype.is_bool:
            return as_type(f(as_type(a, "uint8"), as_type(b, "uint8")), BOOL)
        if not a.dtype.is_float:
            return f(a, b)
        return ops.where(ops.isnan(a), b, ops.where(ops.isnan(b), a, f(a, b)))


_without_nan("fmax", ops.maximum)
_without_nan("fmin", ops.minimum)


@aten("sgn")
def sgn(x: Tensor) -> Tensor:
    return sign(x)


@aten("angle")
def angle(x: Tensor) -> Tensor:
    """Of real numbers pi where they are less than nothing."""
    x = floats(x)
    pi, zero = constant_like(x, 3.14159265358979323846), constant_like(x, 0)
    turned = ops.where(ops.less(x, zero), pi, zero)
    return ops.where(ops.isnan(x), x, turned)


@aten("round.decimals")
def round_decimals(x: Tensor, decimals: int = 0) -> Tensor:
    if not x.dtype.is_float:
        needs(decimals == 0, "whole numbers that are rounded to tens")
        return x
    return wide(lambda t: _rounded(t, decimals))(x)


def _rounded(x: Tensor, decimals: int) -> Tensor:
    by = constant_like(x, 10.0 ** abs(decimals))
    if decimals < 0:
        return ops.multiply(ops.round(ops.divide(x, by)), by)
    return ops.divide(ops.round(ops.multiply(x, by)), by)


@aten("frexp.Tensor")
def frexp(x: Tensor) -> Any:
    """A number from 0.5 to 1, and the power of two that it is to be multiplied by."""
    needs(x.dtype.bits in (32, 64) and x.dtype.is_float, "parts of 16-bit floats")
    digits, bias = (23, 126) if x.dtype.bits == 32 else (52, 1022)
    whole = f"int{x.dtype.bits}"
    exponents = (1 << x.dtype.bits - 1 - digits) - 1

    def parts(e: Any) -> tuple[Any, Any, Any]:
        # what is too small for an exponent of its own is made larger first
        small = te.abs(e) < te.const(2.0 ** (1 - bias), x.dtype)
        bits = te.float_bits(te.select(small, e * te.const(2.0**64, x.dtype), e))
        power = te.bitwise_and(te.shift_right(bits, te.const(digits, whole)), te.const(exponents, whole))
        none = te.any(make.eq(e, 0), te.isinf(e), te.isnan(e))
        return none, bits, te.cast(INT32, power) - te.select(small, bias + 64, bias)

    def mantissa(*i: Any) -> Any:
        none, bits, _ = parts(x(*i))
        kept = te.bitwise_and(bits, te.const(~(exponents << digits), whole))
        return te.select(none, x(*i), te.float_of_bits(te.bitwise_or(kept, te.const(bias << digits, whole))))

    def exponent(*i: Any) -> Any:
        none, _, power = parts(x(*i))
        return te.select(none, te.const(0, INT32), power)

    return te.compute(x.shape, mantissa, name="mantissa"), te.compute(x.shape, exponent, name="exponent")


@aten("ldexp.Tensor")
def ldexp(x: Tensor, power: Tensor) -> Tensor:
    """As torch has it, a product with a power of two, which may be too large where the product is not."""
    a, b = promoted(floats(x), power)
    return ops.multiply(a, rounded_once(ops.exp2)(b))


@aten("dist")
def dist(x: Tensor, y: Tensor, order: float = 2) -> Tensor:
    return vector_norm(ops.subtract(*promoted(x, y)), order)


def _extreme(name: str, f: Callable[..., Any]) -> None:
    @aten(name)
    def of(x: Tensor, dim: int) -> Any:
        if not x.ndim:
            return x, ops.full((), 0, INT64)
        if x.dtype.is_bool:
            values, places = f(as_type(x, "uint8"), dim)
            return as_type(values, BOOL), places
        return f(x, dim)


_extreme("cummax", ops.cummax)
_extreme("cummin", ops.cummin)


@aten("nanmedian.dim")
def nanmedian(x: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The lower of two in the middle of what are numbers."""
    if not x.ndim:
        return x, ops.full((), 0, INT64)
    d = dim % x.ndim
    n = known(x.shape[d], "the elements of a median")
    values, places = sorted_with_places(x, d, False)
    if not x.dtype.is_float:
        middle = te.compute([*x.shape[:d], 1, *x.shape[d + 1 :]], lambda *i: te.const((n - 1) // 2, INT64))
    else:
        # what is no number is sorted behind all others
        numbers = ops.sum(as_type(ops.logical_not(ops.isnan(x)), INT64), d, keepdims=True)
        middle = te.compute(
            numbers.shape,
            lambda *i: te.max(te.truncdiv(numbers(*i) - 1, te.const(2, INT64)), 0),
            name="middle",
        )

    def chosen(t: Tensor) -> Tensor:
        found = te.compute(
            middle.shape, lambda *i: t(*i[:d], te.min(middle(*i), n - 1), *i[d + 1 :]), name="median"
        )
        return found if keepdim else ops.squeeze(found, (d,))

    return chosen(values), as_type(chosen(places), INT64)


@aten("nanmedian")
def nanmedian_of_all(x: Tensor) -> Tensor:
    found: Tensor = nanmedian(ops.reshape(x, (-1,)))[0]
    return found


@aten("mode")
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The value that is there most often, the least of several, and its last place. Where the values are
    sorted, equal ones lie in a run; how long it is there, the place where it began tells."""
    if not x.ndim:
        return x, ops.full((), 0, INT64)
    d = dim % x.ndim
    n = known(x.shape[d], "the elements of a mode")
    needs(n > 0, "the mode of nothing")
    order = as_type(ops.argsort(x, d), INT64)
    values = ops.gather(x, d, order)

    def begin(*i: Any) -> Any:
        before = values(*i[:d], te.max(i[d] - 1, 0), *i[d + 1 :])
        return te.select(make.eq(values(*i), before), te.const(0, INT64), te.cast(INT64, i[d]))

    begins = ops.cummax(te.compute(x.shape, begin, name="begin"), d)[0]
    length = te.compute(x.shape, lambda *i: te.cast(INT64, i[d]) - begins(*i), name="length")
    at = ops.argmax(length, d, True)
    found, place = ops.gather(values, d, at), ops.gather(order, d, at)
    return (found, place) if keepdim else (ops.squeeze(found, (d,)), ops.squeeze(place, (d,)))


@aten("addbmm")
@rounded_once
def addbmm(x: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """The sum of all products of a batch, which is one product of longer rows."""
    n, rows, inner = a.shape
    left = ops.reshape(ops.transpose(a, (1, 0, 2)), (rows, n * inner))
    made = ops.matmul(left, ops.reshape(b, (n * inner, b.shape[2])))
    made = made if alpha == 1 else ops.multiply(made, as_type(alpha, made.dtype))
    if beta == 0:
        return made
    return ops.add(made, x if beta == 1 else ops.multiply(x, as_type(beta, x.dtype)))


@aten("view.dtype", "view_copy.dtype")
def of_bits(x: Tensor, kind: str) -> Tensor:
    """The same bits as numbers of another type: of as many bits, floats of 16 not among them."""
    to = te.const(0, kind).dtype
    if x.dtype == to:
        return x
    apart = {x.dtype.code, to.code}
    needs(x.dtype.bits == to.bits and not {"bool", "bfloat"} & apart, f"the bits of {x.dtype} as {to}")
    if apart == {"int", "uint"}:
        return ops.cast(x, to)

    def element(*i: Any) -> Any:
        e = x(*i)
        if to.is_float:
            return te.float_of_bits(te.cast(f"int{to.bits}", e))
        return te.cast(to, te.float_bits(e))

    needs(x.dtype.is_float != to.is_float, f"the bits of {x.dtype} as {to}")
    return te.compute(x.shape, element, name="bits")  # type: ignore[return-value]
