"""What is known of floats in registers that 16 bits hold: these bits, where they are at hand, so that what is
copied, chosen or given another sign is stored without being made narrow. Knows no expressions.

It is known of float32 too, for ``bfloat16(max(float32(x), 0))`` rounds nothing either.
"""

from __future__ import annotations

import re
import struct

import numpy as np

from ...core.dtype import DType, dtype
from . import types
from .emitter import Emitter

KINDS = (dtype("bfloat16"), dtype("float16"))
DEEPEST = 2  # choices among choices whose bits are chosen too: the greatest of nine is made narrow once


def bits_of(em: Emitter, x: str, kind: DType, lanes: int) -> str | None:
    """The bits of a value in registers of float32, if 16 of that kind hold it and they are at hand."""
    if x.startswith("%"):
        return em.halves.get((x, kind.code))
    number = re.search("0x([0-9A-F]{16})", x)
    if number is None:
        return None
    value: float = struct.unpack(">d", bytes.fromhex(number[1]))[0]
    with np.errstate(all="ignore"):
        if kind.code == "bfloat":
            near: float = types.round_to_bfloat(value)
            bits = int(np.float32(near).view("uint32")) >> 16
        else:
            near, bits = float(np.float16(value)), int(np.float16(value).view("uint16"))
    if near != value and value == value:
        return None
    return types.splat_literal(str(bits), "i16", lanes)


def is_exact(em: Emitter, x: str, kind: DType) -> bool:
    """Whether 16 bits of that kind hold a value in registers of float32 for sure."""
    return (x, kind.code) in em.exact or bits_of(em, x, kind, 1) is not None


def is_one_of(em: Emitter, a: str, b: str, out: str, t: DType) -> bool:
    """Say that ``out`` is ``a`` or ``b``. Whether 16 bits hold it then."""
    kinds = [k for k in _of(em, t) if is_exact(em, a, k) and is_exact(em, b, k)]
    em.exact.update((out, k.code) for k in kinds)
    return bool(kinds)


def chosen(em: Emitter, cond: tuple[str, str], a: str, b: str, out: str, t: DType, free: bool) -> None:
    """Say that ``out`` is ``a`` where ``cond`` (its type and operand) holds, else ``b``. ``free``: the bits
    are chosen whatever those are chosen from."""
    if not is_one_of(em, a, b, out, t):
        return
    for kind in _of(em, t):
        depth = 1 + max(em.picked.get((x, kind.code), 0) for x in (a, b))
        bits = bits_of(em, a, kind, t.lanes), bits_of(em, b, kind, t.lanes)
        if all(bits) and (free or depth <= DEEPEST):
            words = types.lanes_of("i16", t.lanes)
            em.picked[out, kind.code] = 0 if free else depth
            em.halves[out, kind.code] = em.ins(
                f"select {cond[0]} {cond[1]}, {words} {bits[0]}, {words} {bits[1]}"
            )


def with_sign(em: Emitter, x: str, out: str, t: DType, word: str, mask: int) -> None:
    """Say that ``out`` is ``x`` but for its sign, whose bit is changed by the operation ``word`` with
    ``mask``."""
    for kind in _of(em, t):
        if is_exact(em, x, kind):
            em.exact.add((out, kind.code))
        bits = bits_of(em, x, kind, t.lanes)
        if bits is not None:
            words = types.lanes_of("i16", t.lanes)
            number = types.splat_literal(str(mask), "i16", t.lanes)
            em.halves[out, kind.code] = em.ins(f"{word} {words} {bits}, {number}")


def _of(em: Emitter, t: DType) -> list[DType]:
    """The kinds that values of a type may be; none of what registers hold in another way."""
    if not t.is_float or em.element(t) != "float":
        return []
    return [k for k in KINDS if types.is_soft(k, em.target) and (t.bits == 32 or t.code == k.code)]
