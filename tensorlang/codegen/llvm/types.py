"""How dtypes and literals are spelled in LLVM. Knows no expressions and no control flow.

A value has a register form and a memory form. They differ for bool (``i1``, one byte) and for 16-bit floats
the target has no arithmetic for (bfloat16 everywhere, float16 on most processors): in registers these are
``float`` values that are always exactly representable in 16 bits, in memory ``i16``, whose vectors LLVM also
puts together faster than those of ``half``. So nothing depends on conversion routines of a compiler's
run-time library, and what rounds nothing, as a maximum, is not converted back and forth.
"""

from __future__ import annotations

import struct

import numpy as np

from ...core.dtype import DType
from ...target import Target


def is_soft(t: DType, target: Target) -> bool:
    """Whether that float type is held as float32 in registers."""
    if t.code == "bfloat" or t.code != "float" or t.bits != 16:
        return t.code == "bfloat"
    # what LLVM knows of a processor of another kind is not known here: it chooses
    return not target.has_half or (target.arch == "x86_64" and not target.computes_half)


def converted(t: DType, target: Target) -> bool:
    """Whether instructions convert that soft type from memory and back."""
    return t.code == "float" and target.has_half


def lanes_of(element: str, lanes: int) -> str:
    """The vector type of this many elements; one lane is a scalar."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


_FLOATS = {16: "half", 32: "float", 64: "double"}


def register_element(t: DType, target: Target) -> str:
    """The LLVM type of one lane in a register."""
    if t.is_float:
        return "float" if t.bits == 16 and is_soft(t, target) else _FLOATS[t.bits]
    return "i1" if t.is_bool else f"i{t.bits}"


def register_type(t: DType, target: Target) -> str:
    """The LLVM type of a value in a register."""
    return lanes_of(register_element(t, target), t.lanes)


def memory_element(t: DType, target: Target) -> str:
    """The LLVM type of one element in memory."""
    if t.is_float:
        return "i16" if t.bits == 16 and is_soft(t, target) else _FLOATS[t.bits]
    return "i8" if t.is_bool else f"i{t.bits}"


def float_literal(value: float, element: str) -> str:
    """A float literal, exact to the bit."""
    if element == "half":
        return f"0xH{int(np.float16(value).view(np.uint16)):04X}"
    if element == "float":
        with np.errstate(all="ignore"):
            value = float(np.float32(value))
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return f"0x{bits:016X}"


def literal(value: int | float | bool, t: DType, target: Target) -> str:
    """The literal of a scalar of that type."""
    if t.is_bool:
        return "true" if value else "false"
    if t.is_float:
        if t.code == "bfloat":
            value = round_to_bfloat(float(value))
        return float_literal(float(value), register_element(t, target))
    return str(int(value))


def round_to_bfloat(x: float) -> float:
    """``x`` rounded to the nearest bfloat16, ties to even."""
    with np.errstate(all="ignore"):
        single = np.float32(x)
    if np.isnan(single):
        return float("nan")
    bits = int(single.view(np.uint32))
    if float(single) != x and not np.isinf(single):  # rounding twice: keep what float32 lost as a sticky bit
        if abs(float(single)) > abs(x):
            bits -= 1
        bits |= 1
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(np.uint32(bits).view(np.float32))


def splat_literal(text: str, element: str, lanes: int) -> str:
    """A literal repeated in every lane."""
    return text if lanes == 1 else f"splat ({element} {text})"


def vector_literal(element: str, values: list[int]) -> str:
    """A vector of integer literals."""
    return "<" + ", ".join(f"{element} {v}" for v in values) + ">"


def mangle(element: str, lanes: int) -> str:
    """The suffix of an overloaded intrinsic: ``v8f32``, ``i64``."""
    short = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}.get(element, element)
    return short if lanes == 1 else f"v{lanes}{short}"
