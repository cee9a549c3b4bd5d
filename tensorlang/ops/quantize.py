"""Quantised numbers: floats as whole numbers times a scale, and products of them.

``x`` is stored as ``q = round(x / scale) + zero_point``, halves to the even one, cut to the range of the
type. Scale and zero point are one number, one for each index along ``axis``, or one for each block of
``block_size`` elements along it. Numbers of 4 or 2 bits are kept one to a byte, in int8 or uint8, with
``bits=4``. Zero points have the stored type. Knows what products and convolutions are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .. import te
from ..core.dtype import FLOAT32, INT32, INT64, DType, dtype
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te import Tensor, whole
from ..te.axis import known_dtype
from . import inputs, tags
from .conv import convolution
from .matmul import product
from .reduce import max as maximum
from .reduce import min as minimum
from .window import SPATIAL, Padding, Sizes, padded, spatial_rank, window
from .window import taps as window_taps

__all__ = [
    "conv_integer",
    "dequantize_linear",
    "dynamic_quantize_linear",
    "matmul_integer",
    "qlinear_conv",
    "qlinear_matmul",
    "quantize_linear",
]

At = Callable[[Sequence[Any]], Expr]  # the parameter that belongs to an element


def _limits(op: str, t: DType, bits: int | None) -> tuple[int, int]:
    if not t.is_int or t.bits > 32:
        raise DeclareError(
            f"ops.{op}: {t} holds no quantised numbers", legal="int8, uint8, int16, uint16, int32, uint32"
        )
    if bits is None:
        return t.limits()
    if bits not in (2, 4, 8) or bits > t.bits:
        raise DeclareError(f"ops.{op}: bits={bits} in {t}", legal="2, 4, 8, no more than the type has")
    # ONNX's int4 and uint4 are kept in bytes here: the range is narrower than the type
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if t.code == "int" else (0, (1 << bits) - 1)


def _parameter(op: str, what: str, p: Tensor, x: Tensor, axis: int, block_size: int) -> At:
    """A scale or zero point, by the element of ``x`` that it belongs to. Raises DeclareError for a shape that
    does not fit."""
    # one number for all, however it is written: exporters write both
    if p.ndim == 0 or (p.ndim == 1 and inputs.is_one(p.shape[0]) and not block_size):
        return lambda i: p(*[0] * p.ndim)
    d = inputs.axis_of(op, axis, x.ndim)
    if p.ndim == 1 and not block_size:
        because = f"there is one for each index along dimension {d} of {inputs.named(x)}"
        inputs.same_size(op, f"the size of {what} {p.name}", p.shape[0], x.shape[d], because)
        return lambda i: p(i[d])
    if p.ndim != x.ndim or block_size < 1:
        raise DeclareError(
            f"ops.{op}: {what} {inputs.named(p)} of {inputs.named(x)}",
            because="it is one number, one for each index along the axis, or one for each block of it",
            try_=None if block_size else "block_size=32, with the dimensions of x",
        )
    for k, (n, m) in enumerate(zip(p.shape, x.shape, strict=True)):
        # the last block may be shorter
        blocks = make.ceildiv(m, block_size) if k == d else m
        inputs.same_size(
            op,
            f"dimension {k} of {what} {p.name}",
            n,
            blocks,
            f"x is {inputs.named(x)} in blocks of {block_size}",
        )
    return lambda i: p(
        *[make.floordiv(make.as_expr(v), block_size) if k == d else v for k, v in enumerate(i)]
    )


def _zero(op: str, zero_point: Any, x: Tensor, axis: int, block_size: int) -> At | None:
    if zero_point is None:
        return None
    zero_point = inputs.tensor(op, zero_point, "zero_point")
    if not zero_point.dtype.is_int:
        raise DeclareError(
            f"ops.{op}: zero_point {zero_point.name} is {zero_point.dtype}", because="it is a stored number"
        )
    return _parameter(op, "zero_point", zero_point, x, axis, block_size)


def quantize_linear(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    axis: int = 1,
    dtype: str | DType | None = None,
    block_size: int = 0,
    bits: int | None = None,
) -> Tensor:
    """``round(x / scale) + zero_point`` cut to the range of ``dtype`` (that of the zero point, or uint8): the
    shape of x.

    x is floats or int32. NaN gives the zero point of 0. Raises DeclareError for a scale or zero point that
    does not fit the axis, and for a type that is not an integer of up to 32 bits.
    ``ops.quantize_linear(x, scale, zero, axis=0)``.
    """
    op = "quantize_linear"
    x, scale = inputs.tensor(op, x), inputs.floating(op, scale, "scale")
    default = "uint8" if zero_point is None else inputs.tensor(op, zero_point, "zero_point").dtype
    out = known_dtype(f"ops.{op}: dtype", default if dtype is None else dtype)
    block = inputs.integer(op, "block_size", block_size)
    by, zero = (_parameter(op, "scale", scale, x, axis, block), _zero(op, zero_point, x, axis, block))
    # an int32 that is quantised again is divided in the type of the scale
    inside, limits = inputs.wide(x.dtype if x.dtype.is_float else scale.dtype), _limits(op, out, bits)

    def element(*i: Any) -> Expr:
        steps = te.cast(inside, x(*i)) / te.cast(inside, by(i))
        return _stored(steps, None if zero is None else zero(i), out, limits)

    return inputs.stage(op, tags.BROADCAST, x.shape, element)


def _stored(steps: Expr, zero: Expr | None, out: DType, limits: tuple[int, int]) -> Expr:
    """A number of steps as it is stored. What float32 cannot hold, near the ends of 32 bits, saturates."""
    number = te.nearbyint(steps)
    if zero is not None:
        # after rounding, as ONNX has it: before, a half would go to the other side where the zero point is
        # odd
        number = number + te.cast(number.dtype, zero)
    if limits != out.limits():
        # the cast saturates at the ends of the type, which are not these
        low, high = (make.const(v, number.dtype) for v in limits)
        number = make.min_(make.max_(number, low), high)
    return te.cast(out, number)


def dequantize_linear(
    x: Tensor, scale: Tensor, zero_point: Tensor | None = None, axis: int = 1, block_size: int = 0
) -> Tensor:
    """``(x - zero_point) * scale`` in the type of the scale: the way back from :func:`quantize_linear`.
    Raises DeclareError as that does."""
    op = "dequantize_linear"
    x, scale = inputs.tensor(op, x), inputs.floating(op, scale, "scale")
    _limits(op, x.dtype, None)
    block = inputs.integer(op, "block_size", block_size)
    by, zero = (_parameter(op, "scale", scale, x, axis, block), _zero(op, zero_point, x, axis, block))
    inside = inputs.wide(scale.dtype)
    # differences are made of whole numbers: one of two int32 has 33 bits, and float32 holds 24
    exact = INT32 if x.dtype.bits < 32 else INT64

    def element(*i: Any) -> Expr:
        steps = te.cast(exact, x(*i))
        if zero is not None:
            steps = steps - te.cast(exact, zero(i))
        return te.cast(scale.dtype, te.cast(inside, steps) * te.cast(inside, by(i)))

    return inputs.stage(op, tags.BROADCAST, x.shape, element)


def scale_of_range(least: Expr, most: Expr) -> Expr:
    """The scale at which uint8 holds what lies between these and 0."""
    zero = make.const(0.0, FLOAT32)
    # the range has to contain 0, so that padding and relu stay exact
    spread = make.max_(te.cast(FLOAT32, most), zero) - make.min_(te.cast(FLOAT32, least), zero)
    # all zeros: 0 / 0 would make the stored numbers NaN
    return te.select(make.eq(spread, 0.0), make.const(1.0, FLOAT32), spread / 255.0)


def zero_of_range(least: Expr, scale: Expr) -> Expr:
    """The number that stands for 0 at that scale, as a float."""
    low = make.min_(te.cast(FLOAT32, least), make.const(0.0, FLOAT32))
    return make.min_(te.nearbyint(make.neg(low) / scale), make.const(255.0, FLOAT32))


def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x as uint8 over the range of its elements and 0: the stored numbers, the scale (float32, one number)
    and the zero point (uint8, one number).

    ``scale = (max - min) / 255``, 1 where all elements are 0; ``zero_point = round(-min / scale)``.
    """
    op = "dynamic_quantize_linear"
    x = inputs.floating(op, x)
    most, least = maximum(x), minimum(x)
    scale = inputs.stage(f"{op}.scale", tags.ELEMENTWISE, [], lambda: scale_of_range(least(), most()))
    at = inputs.stage(
        f"{op}.zero_point", tags.ELEMENTWISE, [], lambda: te.cast("uint8", zero_of_range(least(), scale()))
    )
    uint8 = at.dtype
    stored = inputs.stage(
        op,
        tags.BROADCAST,
        x.shape,
        lambda *i: _stored(te.cast(FLOAT32, x(*i)) / scale(), at(), uint8, uint8.limits()),
    )
    return stored, scale, at


# --- products -----------------------------------------------------------------------------------------------


MANY = 16  # outputs of a group from which on the sums of their windows cost little beside the products
FEW_ROWS = 4  # below which the sums of the other operand's columns cost more than differences of this one


def _stored_numbers(op: str, what: str, x: Any, zero_point: Any) -> tuple[Tensor, Tensor | None]:
    x = inputs.tensor(op, x, what)
    if not x.dtype.is_int or x.dtype.bits > 16:
        raise DeclareError(
            f"ops.{op}: {what} {x.name} is {x.dtype}",
            legal="int8, uint8, int16, uint16",
            because="sums are int32",
        )
    p = None if zero_point is None else inputs.tensor(op, zero_point, f"zero point of {what}")
    if p is not None and not p.dtype.is_int:
        raise DeclareError(
            f"ops.{op}: the zero point {p.name} of {what} is {p.dtype}", because="it is a stored number"
        )
    return x, p


def _shifted(op: str, what: str, x: Tensor, p: Tensor | None, axis: int) -> Tensor:
    """``x`` less its zero point, in int16 where both have 8 bits, for two such products are one instruction,
    else in int32: a stage where there is a zero point, one number or one along ``axis``."""
    if p is None:
        return x
    if p.ndim > 1 and p.ndim == x.ndim:
        at: At = partial(whole.read, p)
    else:
        at = _parameter(op, f"the zero point of {what}", p, x, axis, 0)
    # differences of 8-bit numbers have 9 bits
    kind = dtype("int16") if x.dtype.bits == p.dtype.bits == 8 else INT32
    return inputs.stage(
        f"{op}.{what}", tags.LINES, x.shape, lambda *i: te.cast(kind, x(*i)) - te.cast(kind, at(i))
    )


def _apart(x: Tensor, p: Tensor | None, y: Tensor, y_zero: Tensor | None, of_sign: bool = True) -> bool:
    """Whether ``x`` is multiplied as it is stored, and its zero point, times the sum of each column of
    ``y``, taken away after: uint8 times int8 is one instruction for four products on newer processors, which
    sums of constants do not slow down. Where int8 has no zero point, or is not 8 bits, nothing is gained. A
    zero point of another type may be none of the numbers that ``x`` can hold, as margins are to. Not
    ``of_sign``: whatever the sign of ``y``, which another step gives it."""
    return (
        x.dtype.bits == y.dtype.bits == 8
        and (y.dtype.code == "int" or not of_sign)
        and y_zero is None
        and (p is None or (p.dtype == x.dtype and p.ndim <= 1))
        and not (x.dtype.code == "uint" and p is None and of_sign)
    )


def _unsigned(op: str, what: str, x: Tensor, p: Tensor | None, axis: int) -> tuple[Tensor, At]:
    """8-bit numbers as uint8, and their zero point: int8 are 128 more."""
    more = 0 if x.dtype.code == "uint" else 128
    if p is None:
        zero: At = lambda i: make.const(more, INT32)
    else:
        own = _parameter(op, f"the zero point of {what}", p, x, axis, 0)
        # (x + 128) - (zero + 128): the differences stay what they were
        zero = lambda i: te.cast(INT32, own(i)) + more
    if not more:
        return x, zero
    return _turned(op, what, x, "uint8"), zero


def _signed(op: str, what: str, y: Tensor, p: Tensor | None, axis: int) -> tuple[Tensor, At]:
    """8-bit numbers as int8, and their zero point: uint8 are 128 less."""
    less = 0 if y.dtype.code == "int" else 128
    if p is None:
        zero: At = lambda i: make.const(-less, INT32)
    else:
        own = _parameter(op, f"the zero point of {what}", p, y, axis, 0)
        zero = lambda i: te.cast(INT32, own(i)) - less
    if not less:
        return y, zero
    return _turned(op, what, y, "int8"), zero


def _turned(op: str, what: str, x: Tensor, to: str) -> Tensor:
    """8-bit numbers with the other sign, 128 more or less: the same bits but for the highest."""
    high = make.const(-128 if to == "int8" else 128, dtype(to))
    return inputs.stage(
        f"{op}.{what}", tags.LINES, x.shape, lambda *i: te.bitwise_xor(te.cast(to, x(*i)), high)
    )


def _taken_away(op: str, total: Tensor, zero: At, sums: Tensor, axis: int) -> Tensor:
    """A product of stored numbers less what the zero point of one operand has added; ``sums`` of the other
    operand are along ``axis``."""
    return inputs.stage(
        f"{op}.apart", tags.BROADCAST, total.shape, lambda *i: total(*i) - zero(i) * sums(i[axis])
    )


def matmul_integer(
    a: Tensor, b: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Tensor:
    """``(a - a_zero_point) @ (b - b_zero_point)`` in int32, by the rules of ``ops.matmul``.

    A zero point is one number, one for each row of a or each column of b, or a tensor that broadcasts to the
    operand. Raises DeclareError for floats, and for what ``ops.matmul`` refuses.
    """
    op = "matmul_integer"
    (a, a_zero), (b, b_zero) = (
        _stored_numbers(op, "a", a, a_zero_point),
        _stored_numbers(op, "b", b, b_zero_point),
    )
    row = 0 if a.ndim == 1 else -2
    if a.ndim > 1 and b.ndim == 2 and not _few(a.shape[-2]):
        if _apart(a, a_zero, b, b_zero):
            a, zero = _unsigned(op, "a", a, a_zero, row)
            return _less_columns(op, product(op, a, b, False, False, INT32), b, zero)
        plain = (const_int(b.shape[1]) or 0) >= MANY and (b_zero is None or b_zero.ndim <= 1)
        if plain and _apart(a, a_zero, b, None, of_sign=False):
            return _product_apart(op, a, b, a_zero, b_zero)
    a, b = _shifted(op, "a", a, a_zero, row), _shifted(op, "b", b, b_zero, -1)
    return product(op, a, b, False, False, INT32)


def _product_apart(op: str, a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None) -> Tensor:
    """A product whose right operand is unsigned or has a zero point: of it as int8, less that zero point
    times the sum of each row's differences, which all columns share."""
    a, zero = _unsigned(op, "a", a, a_zero, -2)
    b, b_less = _signed(op, "b", b, b_zero, -1)
    k = te.reduce_axis((0, a.shape[-1]), "k")
    rows = inputs.stage(
        f"{op}.rows",
        tags.REDUCE,
        a.shape[:-1],
        lambda *i: te.sum(te.cast(INT32, a(*i, k)) - zero((*i, k)), axis=k),
    )
    total = _less_columns(op, product(op, a, b, False, False, INT32), b, zero)
    return inputs.stage(
        f"{op}.b_apart",
        tags.BROADCAST,
        total.shape,
        lambda *i: total(*i) - b_less((0, i[-1])) * rows(*i[:-1]),  # one for each column, whatever the row
    )


def _less_columns(op: str, total: Tensor, b: Tensor, zero: At) -> Tensor:
    """A product less what the zero point of the left operand has added."""
    k = te.reduce_axis((0, b.shape[0]), "k")
    sums = inputs.stage(
        f"{op}.sums", tags.REDUCE, [b.shape[1]], lambda j: te.sum(te.cast(INT32, b(k, j)), axis=k)
    )
    return _taken_away(op, total, zero, sums, -1)


def _few(rows: Expr) -> bool:
    known = const_int(rows)
    return known is not None and known < FEW_ROWS


def conv_integer(
    data: Tensor,
    weight: Tensor,
    data_zero_point: Tensor | None = None,
    weight_zero_point: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The convolution of ``data - data_zero_point`` [N, C, …] with ``weight - weight_zero_point``
    [O, C / groups, …] in int32; what is padded counts as the zero point. One to three dimensions, by the rank
    of the data; other arguments as for ``ops.conv2d``."""
    op = "conv_integer"
    return _int_conv(
        op, data, weight, data_zero_point, weight_zero_point, None, stride, padding, dilation, groups
    )


def _int_conv(
    op: str,
    data: Any,
    weight: Any,
    data_zero_point: Any,
    weight_zero_point: Any,
    bias: Tensor | None,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
) -> Tensor:
    x, x_zero = _stored_numbers(op, "data", data, data_zero_point)
    w, w_zero = _stored_numbers(op, "weight", weight, weight_zero_point)
    n = spatial_rank(op, x)
    how = (bias, stride, padding, dilation, groups, f"NC{SPATIAL[n]}", None, INT32)
    # the margin has one value: a zero point for each channel would need as many
    one = x_zero is None or x_zero.ndim == 0 or inputs.is_one(x_zero.shape[0])
    if one and w.ndim == x.ndim and _apart(x, x_zero, w, w_zero):
        x, zero = _unsigned(op, "data", x, x_zero, 0)
        taps = [te.reduce_axis((0, m), f"k{d}") for d, m in enumerate(w.shape[1:])]
        sums = inputs.stage(
            f"{op}.sums", tags.REDUCE, [w.shape[0]], lambda o: te.sum(te.cast(INT32, w(o, *taps)), axis=taps)
        )
        # padded with the zero point, so that the margin counts nothing once that is taken away
        total = convolution(op, n, x, w, *how, te.cast("uint8", zero(())))
        return _taken_away(op, total, zero, sums, 1)
    plain = w.ndim == x.ndim and (w_zero is None or w_zero.ndim <= 1)
    if one and plain and _apart(x, x_zero, w, None, of_sign=False) and _outputs(w, groups) >= MANY:
        return _int_conv_apart(op, n, x, w, x_zero, w_zero, how)
    x, w = _shifted(op, "data", x, x_zero, 0), _shifted(op, "weight", w, w_zero, 0)
    return convolution(op, n, x, w, *how)


def _outputs(weight: Tensor, groups: int) -> int:
    """Of a group; 0 where they are not known."""
    return (const_int(weight.shape[0]) or 0) // groups


def _int_conv_apart(
    op: str,
    n: int,
    x: Tensor,
    w: Tensor,
    x_zero: Tensor | None,
    w_zero: Tensor | None,
    how: tuple[Tensor | None, Sizes, Padding, Sizes, int, str, None, DType],
) -> Tensor:
    """A convolution whose weight is unsigned or has a zero point: of the weight as int8, less that zero point
    times the sum of each window's differences, which all outputs of a group share."""
    x, zero = _unsigned(op, "data", x, x_zero, 0)
    w, w_less = _signed(op, "weight", w, w_zero, 0)
    _, stride, padding, dilation, groups, *_ = how
    each_in, each_out = w.shape[1], make.floordiv(w.shape[0], groups)
    taps = [te.reduce_axis((0, m), f"k{d}") for d, m in enumerate(w.shape[1:])]
    sums = inputs.stage(
        f"{op}.sums", tags.REDUCE, [w.shape[0]], lambda o: te.sum(te.cast(INT32, w(o, *taps)), axis=taps)
    )
    c = te.reduce_axis((0, each_in), "c")
    over_channels = inputs.stage(
        f"{op}.channels",
        tags.REDUCE,
        [x.shape[0], groups, *x.shape[2:]],
        lambda b, g, *i: te.sum(te.cast(INT32, x(b, g * each_in + c, *i)) - zero(()), axis=c),
    )
    seen = window(op, x.shape[2:], w.shape[2:], stride, padding, dilation)
    source = padded(f"{op}.margin", over_channels, range(2, n + 2), seen.before, seen.after, 0)
    total = convolution(op, n, x, w, *how, te.cast("uint8", zero(())))
    axes = window_taps(seen.kernel)
    within = inputs.stage(
        f"{op}.windows",
        tags.REDUCE,
        [x.shape[0], groups, *total.shape[2:]],
        lambda b, g, *i: te.sum(source(b, g, *seen.reads(i, axes)), axis=axes),
    )
    return inputs.stage(
        f"{op}.apart",
        tags.BROADCAST,
        total.shape,
        lambda b, o, *i: (
            total(b, o, *i) - zero(()) * sums(o) - w_less((o,)) * within(b, make.floordiv(o, each_out), *i)
        ),
    )


def _requantised(
    op: str, total: Tensor, scales: Sequence[At], y_scale: Any, y_zero_point: Any, axis: int
) -> Tensor:
    """int32 totals times the scales of both operands, stored by the scale and zero point of the result."""
    y_scale = inputs.floating(op, y_scale, "y_scale")
    y_zero = inputs.tensor(op, y_zero_point, "y_zero_point")
    out, limits = y_zero.dtype, _limits(op, y_zero.dtype, None)
    by = _parameter(op, "y_scale", y_scale, total, axis, 0)
    zero = _parameter(op, "y_zero_point", y_zero, total, axis, 0)

    def element(*i: Any) -> Expr:
        # scales first: their product is the same for a whole channel
        factor = te.cast(FLOAT32, scales[0](i)) * te.cast(FLOAT32, scales[1](i)) / te.cast(FLOAT32, by(i))
        return _stored(te.cast(FLOAT32, total(*i)) * factor, zero(i), out, limits)

    return inputs.stage(op, tags.BROADCAST, total.shape, element)


def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Tensor:
    """The matrix product of quantised numbers, quantised: in the type of ``y_zero_point``.

    Sums are int32, their scale ``a_scale * b_scale / y_scale`` float32. Scales and zero points are one
    number, or one for each row of a and column of b. Raises DeclareError for parameters of other shapes or
    types."""
    op = "qlinear_matmul"
    total = matmul_integer(a, b, a_zero_point, b_zero_point)
    scale_a, scale_b = inputs.floating(op, a_scale, "a_scale"), inputs.floating(op, b_scale, "b_scale")
    rows = total.ndim - 2 if a.ndim > 1 and b.ndim > 1 else 0
    scales = (
        _parameter(op, "a_scale", scale_a, total, rows, 0),
        _parameter(op, "b_scale", scale_b, total, -1, 0),
    )
    return _requantised(op, total, scales, y_scale, y_zero_point, -1)


def qlinear_conv(
    data: Tensor,
    data_scale: Tensor,
    data_zero_point: Tensor | None,
    weight: Tensor,
    weight_scale: Tensor,
    weight_zero_point: Tensor | None,
    y_scale: Tensor,
    y_zero_point: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The convolution of quantised numbers, quantised: as :func:`conv_integer`, plus ``bias`` [O] of int32
    (in steps of ``data_scale * weight_scale``), in the type of ``y_zero_point``. The weight's scale is one
    number, or one for each output channel. Raises DeclareError for parameters of other shapes or types."""
    op = "qlinear_conv"
    total = _int_conv(
        op, data, weight, data_zero_point, weight_zero_point, bias, stride, padding, dilation, groups
    )
    scale_x = inputs.floating(op, data_scale, "data_scale")
    scale_w = inputs.floating(op, weight_scale, "weight_scale")
    scales = (
        _parameter(op, "data_scale", scale_x, total, 1, 0),
        _parameter(op, "weight_scale", scale_w, total, 1, 0),
    )
    return _requantised(op, total, scales, y_scale, y_zero_point, 1)
