"""Lanes where a mask holds, put one behind the other, counted, and the first of them: an instruction each
where masks are registers, lane by lane elsewhere. Knows the emitter."""

from __future__ import annotations

from ...expr.nodes import Broadcast, Cast, Const, Expr, Ramp, Select, const_int
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


def first(em: Emitter, e: Reduction) -> str | None:
    """The least of the lanes' places where a mask holds, with the largest number where it does not: the
    zeros below its first bit, and no lanes of places."""
    if e.op != "min" or e.dtype.code != "int" or not em.target.has_masks:
        return None
    value, masks = e.value, list[Expr]()
    while type(value) is Select and _largest(value.b):
        masks.append(value.cond)
        value = value.a
    n = value.dtype.lanes
    if not masks or type(value) is not Ramp or const_int(value.stride) != 1 or n not in (8, 16, 32, 64):
        return None
    own, flags = em.element(e.dtype), types.lanes_of("i1", n)
    holds = em.value(masks[0])
    for mask in masks[1:]:
        # no poison of lanes behind an end: what a select does not take is not asked
        holds = em.ins(f"select {flags} {holds}, {flags} {em.value(mask)}, {flags} zeroinitializer")
    bits = em.ins(f"bitcast {flags} {holds} to i{n}")
    lane = em.call(f"i{n}", f"llvm.cttz.i{n}", (f"i{n}", bits), ("i1", "false"))
    if own != f"i{n}":
        lane = em.ins(f"{'zext' if e.dtype.bits > n else 'trunc'} i{n} {lane} to {own}")
    place = em.ins(f"add {own} {em.value(value.base)}, {lane}")
    some = em.ins(f"icmp ne i{n} {bits}, 0")
    return em.ins(f"select i1 {some}, {own} {place}, {own} {(1 << (e.dtype.bits - 1)) - 1}")


def _largest(e: Expr) -> bool:
    """Whether all lanes are the largest number of their type."""
    only = e.value if type(e) is Broadcast else e
    return type(only) is Const and only.value == (1 << (only.dtype.bits - 1)) - 1
