"""Scalar and vector element types, and the promotion rules. Knows nothing of expressions.

The text form is TVM's: ``float32``, ``int8``, ``bool``, and ``float32x8`` for a vector of eight lanes.
"""

from __future__ import annotations

import difflib
import re

import numpy as np

from ..errors import DeclareError
from .text import type_of


def _bfloat16() -> np.dtype:  # type: ignore[type-arg]
    from ml_dtypes import bfloat16  # 20 ms, which only kernels with such a type pay for

    return np.dtype(bfloat16)


class DType:
    """An element type: ``code`` (bool, int, uint, float, bfloat), ``bits`` and vector ``lanes``. One object
    per type.

    ``is_int`` says signed or unsigned integer (bool is neither); ``is_index`` the scalar types index
    arithmetic is done in: it never overflows by contract, so it is kept canonical; ``bytes`` what one lane
    takes in memory."""

    __slots__ = ("bits", "bytes", "code", "is_bool", "is_float", "is_index", "is_int", "lanes", "name")

    def __init__(self, code: str, bits: int, lanes: int) -> None:
        self.code = code
        self.bits = bits
        self.lanes = lanes
        base = code if code == "bool" else f"{code}{bits}"
        self.name = base if lanes == 1 else f"{base}x{lanes}"
        self.is_bool = code == "bool"
        self.is_float = code in ("float", "bfloat")
        self.is_int = code in ("int", "uint")
        # narrower integers wrap within the sizes that arrays have
        self.is_index = code == "int" and bits >= 32 and lanes == 1
        self.bytes = max(1, bits // 8)

    def __reduce__(self) -> tuple[object, ...]:
        return dtype, (self.name,)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"dtype({self.name!r})"

    def __eq__(self, other: object) -> bool:
        # one object a type, so that ``is`` decides; text for users who compare with "float32"
        return self is other or (isinstance(other, str) and self.name == other)

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def element(self) -> DType:
        """The type of one lane."""
        return self if self.lanes == 1 else _make(self.code, self.bits, 1)

    def with_lanes(self, lanes: int) -> DType:
        return self if lanes == self.lanes else _make(self.code, self.bits, lanes)

    def to_numpy(self) -> np.dtype:  # type: ignore[type-arg]
        """The numpy dtype of one lane. That of bfloat16 is the one of ml_dtypes, which JAX has too."""
        if self.code == "bfloat":
            return _bfloat16()
        return np.dtype(self.element.name)

    def bits_dtype(self) -> np.dtype:  # type: ignore[type-arg]
        """A numpy dtype of one lane that every part of numpy and Python's memory views take: of bfloat16 the
        bits, as uint16."""
        return np.dtype("uint16") if self.code == "bfloat" else self.to_numpy()

    @property
    def dtype(self) -> np.dtype:  # type: ignore[type-arg]
        """By which numpy takes it for a dtype: ``np.zeros(4, A.dtype)``, ``x.astype(A.dtype)``."""
        return self.to_numpy()

    def holds(self, other: DType) -> bool:
        """Whether every value of the type ``other`` is one of this type (lanes aside)."""
        if self.element is other.element or other.is_bool:
            return True
        if self.is_bool or (other.is_float and not self.is_float):
            return False
        if other.is_float:
            return self.bits > other.bits
        if self.is_float:
            # the sign takes no digit
            return other.bits - (other.code == "int") <= _DIGITS[self.element.name]
        lo, hi = self.limits()
        return lo <= other.limits()[0] and other.limits()[1] <= hi

    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer or bool type."""
        if self.code == "bool":
            return 0, 1
        if self.code == "uint":
            return 0, (1 << self.bits) - 1
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1

    def wrap(self, value: int) -> int:
        """``value`` reduced into this integer type, as the machine does."""
        lo, _ = self.limits()
        return (int(value) - lo) % (1 << self.bits) + lo


_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}  # binary digits of the significand
_types: dict[tuple[str, int, int], DType] = {}
_by_name: dict[str, DType] = {}
_BITS = {
    "int": (8, 16, 32, 64),
    "uint": (8, 16, 32, 64),
    "float": (16, 32, 64),
    "bfloat": (16,),
    "bool": (1,),
}
KNOWN = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)


def _make(code: str, bits: int, lanes: int) -> DType:
    result = _types.get((code, bits, lanes))
    if result is None:
        result = _types.setdefault((code, bits, lanes), DType(code, bits, lanes))
    return result


_USUAL = {
    "int": "int32",
    "uint": "uint32",
    "float": "float32",
    "long": "int64",
    "half": "float16",
    "single": "float32",
    "double": "float64",
}


def dtype(name: str | DType | type | np.dtype) -> DType:  # type: ignore[type-arg]
    """The element type of that name (``"float32"``, ``"int8x16"``), numpy dtype or numpy scalar class.

    Raises DeclareError for a name that is not a type.
    """
    if isinstance(name, DType):
        return name
    if not isinstance(name, str):
        try:
            if name is None:  # numpy would take it for float64
                raise TypeError
            known = np.dtype(name)
            if known.kind not in "biuf" and known.name != "bfloat16":
                raise TypeError
            name = known.name
        except (TypeError, ValueError):
            raise DeclareError(
                f"no dtype: {_written(name)}", legal=", ".join(KNOWN), try_="a name such as 'float32'"
            ) from None
    result = _by_name.get(name)
    if result is not None:
        return result
    m = re.fullmatch(r"(bool|int|uint|float|bfloat)(\d*)(?:x(\d+))?", name)
    if m:
        code, bits, lanes = m[1], int(m[2] or (1 if m[1] == "bool" else 0)), int(m[3] or 1)
        if bits in _BITS[code] and lanes >= 1:
            return _by_name.setdefault(name, _make(code, bits, lanes))
    near = [_USUAL[name]] if name in _USUAL else difflib.get_close_matches(name, KNOWN, 1)
    raise DeclareError(
        f"unknown dtype {name!r}", legal=", ".join(KNOWN), try_=repr(near[0]) if near else None
    )


def _written(x: object) -> str:
    return (
        x.__name__
        if isinstance(x, type)
        else repr(x)
        if isinstance(x, str | int | float | None)
        else type_of(x)
    )


BOOL = dtype("bool")
INT32 = dtype("int32")
INT64 = dtype("int64")
FLOAT32 = dtype("float32")
FLOAT64 = dtype("float64")


def promote(a: DType, b: DType) -> DType:
    """The type of a binary operation on ``a`` and ``b`` (lanes aside), by TVM's rules: float wins over
    integer, the wider wins over the narrower, and of two integers of one width the unsigned wins."""
    if a is b:
        return a
    lanes = max(a.lanes, b.lanes)
    a, b = a.element, b.element
    if a is b:
        return a.with_lanes(lanes)
    if a.is_float and b.is_float:
        if a.bits == b.bits:  # float16 with bfloat16: neither holds the other
            return FLOAT32.with_lanes(lanes)
        return (a if a.bits > b.bits else b).with_lanes(lanes)
    if a.is_float or b.is_float:
        return (a if a.is_float else b).with_lanes(lanes)
    if a.is_bool or b.is_bool:
        return (b if a.is_bool else a).with_lanes(lanes)
    if a.bits != b.bits:
        return (a if a.bits > b.bits else b).with_lanes(lanes)
    # as in C, and in TVM
    return (a if a.code == "uint" else b).with_lanes(lanes)
