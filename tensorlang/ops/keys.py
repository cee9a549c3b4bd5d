"""Elements as integers, their keys, of which the larger one stands first in an order: NaN is greater than
every number, as in numpy and torch, and the zeros are equal. Knows expressions; no loops.
"""

from __future__ import annotations

from .. import te
from ..core.dtype import INT32, INT64, DType
from ..core.dtype import dtype as as_dtype
from ..expr import make
from ..expr.nodes import Expr
from . import inputs
from .network import Key


def key_type(t: DType) -> DType:
    """Of the keys of elements of a type."""
    return INT64 if t.bits == 64 else INT32


def line_type(t: DType) -> DType:
    """The narrowest of keys: many rows are sorted by as many at once as a vector has."""
    return as_dtype("int16") if t.bits <= 16 and not t.is_float else key_type(t)


def key_of(e: Expr, descending: bool, kind: DType | None = None) -> Expr:
    """An integer that is the larger the earlier an element stands in the order, of the type of keys or
    ``kind``."""
    t = e.dtype
    kind = kind or key_type(t)
    if t.is_float:
        e = te.cast(inputs.wide(t), e)
        bits = te.float_bits(e)
        # bits of positive floats count up with them, those of negative ones down: all but the sign are turned
        # round
        rising = te.select(bits < 0, te.bitwise_xor(bits, te.max_value(kind)), bits)
        # -0 and 0 are equal, and the sort is stable
        rising = te.select(make.eq(e, make.const(0, e.dtype)), make.const(0, kind), rising)
        # behind all others, as numpy sorts them
        rising = te.select(te.isnan(e), te.max_value(kind), rising)
    elif t.code == "uint" and t.bits == kind.bits:
        # unsigned numbers of the key's own width: with the highest bit turned their order is that of signed
        # ones
        rising = te.bitwise_xor(te.cast(kind, e), te.min_value(kind))
    else:
        rising = te.cast(kind, te.cast("uint8", e) if t.is_bool else e)
    return rising if descending else te.bitwise_not(rising)


def element_of(key: Expr, t: DType, descending: bool) -> Expr:
    """The element that has a key; one of the two zeros, and of all that are no numbers."""
    rising = key if descending else te.bitwise_not(key)
    if not t.is_float:
        same = t.code == "uint" and t.bits == key.dtype.bits
        return te.cast(t, te.bitwise_xor(rising, te.min_value(key.dtype)) if same else rising)
    bits = te.select(rising < 0, te.bitwise_xor(rising, te.max_value(key.dtype)), rising)
    return te.cast(t, te.float_of_bits(bits))


def is_negative_zero(e: Expr) -> Expr:
    return te.cast(
        INT32, make.eq(te.float_bits(te.cast(inputs.wide(e.dtype), e)), te.min_value(key_type(e.dtype)))
    )


def placed(key: Expr, place: Expr) -> Key:
    """A key with the place of its element: one of few bits in front of it in one number of twice as many, in
    which of equal keys the earlier is the larger."""
    bits, kind = key.dtype.bits, placed_types(key.dtype)[0]
    if bits == 64:
        return key, place
    front = te.shift_left(te.cast(kind, key), make.const(bits, kind))
    return (front + (make.const((1 << bits - 1) - 1, kind) - te.cast(kind, place)),)


def placed_types(kind: DType) -> list[DType]:
    """Of keys of a type with their places."""
    return {16: [INT32], 32: [INT64], 64: [INT64, INT32]}[kind.bits]


def place_of(key: Key) -> Expr:
    if len(key) > 1:
        return key[1]
    kind = key[0].dtype
    half = kind.bits // 2
    last, all_ones = make.const((1 << half - 1) - 1, kind), make.const((1 << half) - 1, kind)
    return last - te.bitwise_and(key[0], all_ones)
