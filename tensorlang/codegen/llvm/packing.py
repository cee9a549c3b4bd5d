"""Lanes where a mask holds, put one behind the other and counted: an instruction each where masks are
registers, lane by lane elsewhere. Knows the emitter."""

from __future__ import annotations

from ...expr.nodes import Cast
from ...loopir.packed import Packed
from ...loopir.stmt import Reduction
from . import types
from .emitter import Emitter

_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}  # of elements in registers


def packed(em: Emitter, e: Packed) -> str:
    """The lanes where the mask holds, in front."""
    n, own = e.dtype.lanes, em.type(e.dtype)
    value, mask = em.value(e.value), em.value(e.mask)
    # LLVM 22 ends the process where lanes are floats, bits, or bytes of half a register: integers of 16
    # bits or more stand for them
    bits = _BITS.get(em.element(e.dtype)) or e.dtype.bits
    whole = f"i{max(bits, 16)}"
    vector, flags = types.lanes_of(whole, n), types.lanes_of("i1", n)
    there = "bitcast" if e.dtype.is_float else "zext"
    if own != vector:
        value = em.ins(f"{there} {own} {value} to {vector}")
    name = f"llvm.experimental.vector.compress.{types.mangle(whole, n)}"
    out = em.call(vector, name, (vector, value), (flags, mask), (vector, "zeroinitializer"))
    if own == vector:
        return out
    return em.ins(f"{'bitcast' if e.dtype.is_float else 'trunc'} {vector} {out} to {own}")


def counted(em: Emitter, e: Reduction) -> str | None:
    """A sum of flags: their bits in one register, counted."""
    flags = e.value
    if e.op != "add" or type(flags) is not Cast or not flags.a.dtype.is_bool or not e.dtype.is_int:
        return None
    n = flags.dtype.lanes
    if n not in (8, 16, 32, 64) or e.dtype.bits < 16:
        return None
    bits = em.ins(f"bitcast <{n} x i1> {em.value(flags.a)} to i{n}")
    found = em.call(f"i{n}", f"llvm.ctpop.i{n}", (f"i{n}", bits))
    own = em.element(e.dtype)
    if own == f"i{n}":
        return found
    return em.ins(f"{'zext' if e.dtype.bits > n else 'trunc'} i{n} {found} to {own}")
