"""The table of intrinsics: one row each, with types, meaning in numpy, and whether it is float-only. A new
intrinsic is one row here and its function in ``te/intrinsics.py``; what the C library does not have, or not
fast enough, has a row in the code generator's table as well. Knows no expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erf as _erf_scalar
from typing import Any

import numpy as np

from ..core.dtype import BOOL, DType
from ..core.dtype import dtype as as_dtype

_erf = np.vectorize(_erf_scalar, otypes=[np.float64])


def _is_float(t: DType) -> bool:
    return t.is_float


def _is_ieee(t: DType) -> bool:
    return t.code == "float"


def _is_number(t: DType) -> bool:
    return not t.is_bool


def _is_int(t: DType) -> bool:
    return t.is_int


def _same(t: DType) -> DType:
    return t


def _bool(t: DType) -> DType:
    return BOOL.with_lanes(t.lanes)


def _int_as_wide(t: DType) -> DType:
    return as_dtype(f"int{t.bits}").with_lanes(t.lanes)


@dataclass(frozen=True)
class Intrinsic:
    """``name`` with ``arity`` arguments; ``accepts`` and ``result`` speak of the dtype of the arguments;
    ``numpy`` is its meaning on arrays (floats narrower than 64 bits are computed in float64 and rounded
    once)."""

    name: str
    arity: int
    numpy: Callable[..., Any]
    accepts: Callable[[DType], bool] = _is_float
    result: Callable[[DType], DType] = _same
    own_type: bool = False  # its meaning depends on the spacing of the type: never computed in a wider one

    def evaluate(self, *arrays: Any) -> Any:
        """The value on numpy arrays, in the arrays' own type, rounded once from float64."""
        first = np.asarray(arrays[0])
        with np.errstate(all="ignore"):
            if not self.own_type and first.dtype.kind == "f" and first.dtype.itemsize < 8:
                wide = self.numpy(*[np.asarray(a, np.float64) for a in arrays])
                return wide if wide.dtype == np.bool_ else np.asarray(wide).astype(first.dtype)
            return self.numpy(*arrays)


def _popcount(x: Any) -> Any:
    x = np.asarray(x)
    return np.bitwise_count(x.astype(f"u{x.dtype.itemsize}")).astype(
        x.dtype
    )  # numpy itself counts the bits of the absolute value


def _ldexp(x: Any, n: Any) -> Any:
    return np.ldexp(x, np.clip(np.nan_to_num(np.trunc(n)), -5000, 5000).astype(np.int32))


def _clz(x: Any) -> Any:
    x = np.asarray(x)
    bits = x.dtype.itemsize * 8
    unsigned = x.astype(f"u{x.dtype.itemsize}")
    count = np.full(x.shape, bits, x.dtype)
    for b in range(bits):
        count = np.where(unsigned >> np.uint64(b).astype(unsigned.dtype) != 0, bits - 1 - b, count)
    return count.astype(x.dtype)


def _float_bits(x: Any) -> Any:
    x = np.asarray(x)
    return x.view(f"i{x.dtype.itemsize}")


def _float_of_bits(x: Any) -> Any:
    x = np.asarray(x)
    return x.view(f"f{x.dtype.itemsize}")


def _is_bits(t: DType) -> bool:
    return t.code == "int" and t.bits >= 16


def _float_as_wide(t: DType) -> DType:
    return as_dtype(f"float{t.bits}").with_lanes(t.lanes)


def _round_away(x: Any) -> Any:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


_ROWS = (
    Intrinsic("exp", 1, np.exp),
    Intrinsic("exp2", 1, np.exp2),
    Intrinsic("exp10", 1, lambda x: np.power(10.0, x)),
    Intrinsic("expm1", 1, np.expm1),
    Intrinsic("log", 1, np.log),
    Intrinsic("log2", 1, np.log2),
    Intrinsic("log10", 1, np.log10),
    Intrinsic("log1p", 1, np.log1p),
    Intrinsic("sqrt", 1, np.sqrt),
    Intrinsic("cbrt", 1, np.cbrt),
    Intrinsic("rsqrt", 1, lambda x: 1.0 / np.sqrt(x)),
    Intrinsic("sin", 1, np.sin),
    Intrinsic("cos", 1, np.cos),
    Intrinsic("tan", 1, np.tan),
    Intrinsic("asin", 1, np.arcsin),
    Intrinsic("acos", 1, np.arccos),
    Intrinsic("atan", 1, np.arctan),
    Intrinsic("sinh", 1, np.sinh),
    Intrinsic("cosh", 1, np.cosh),
    Intrinsic("tanh", 1, np.tanh),
    Intrinsic("asinh", 1, np.arcsinh),
    Intrinsic("acosh", 1, np.arccosh),
    Intrinsic("atanh", 1, np.arctanh),
    Intrinsic("sigmoid", 1, lambda x: 1.0 / (1.0 + np.exp(-x))),
    Intrinsic("erf", 1, _erf),
    Intrinsic("floor", 1, np.floor),
    Intrinsic("ceil", 1, np.ceil),
    Intrinsic("trunc", 1, np.trunc),
    Intrinsic("round", 1, _round_away),
    Intrinsic("nearbyint", 1, np.rint),
    Intrinsic("abs", 1, np.abs, _is_number),
    Intrinsic("pow", 2, np.power),
    Intrinsic("fmod", 2, np.fmod),
    Intrinsic("atan2", 2, np.arctan2),
    Intrinsic("hypot", 2, np.hypot),
    Intrinsic("copysign", 2, np.copysign),
    Intrinsic("nextafter", 2, np.nextafter, _is_ieee, own_type=True),
    Intrinsic("ldexp", 2, _ldexp),
    Intrinsic("isnan", 1, np.isnan, _is_float, _bool),
    Intrinsic("isinf", 1, np.isinf, _is_float, _bool),
    Intrinsic("isfinite", 1, np.isfinite, _is_float, _bool),
    Intrinsic("float_bits", 1, _float_bits, _is_ieee, _int_as_wide, own_type=True),
    Intrinsic("float_of_bits", 1, _float_of_bits, _is_bits, _float_as_wide, own_type=True),
    Intrinsic("popcount", 1, _popcount, _is_int),
    Intrinsic("clz", 1, _clz, _is_int),
    Intrinsic("bitwise_and", 2, np.bitwise_and, _is_int),
    Intrinsic("bitwise_or", 2, np.bitwise_or, _is_int),
    Intrinsic("bitwise_xor", 2, np.bitwise_xor, _is_int),
    Intrinsic("bitwise_not", 1, np.invert, _is_int),
    Intrinsic("shift_left", 2, np.left_shift, _is_int),
    Intrinsic("shift_right", 2, np.right_shift, _is_int),
)

TABLE: dict[str, Intrinsic] = {row.name: row for row in _ROWS}

EFFECTS = ("prefetch",)  # calls that have no value: they stand only in an Evaluate of the loop IR
