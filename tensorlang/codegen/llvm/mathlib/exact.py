"""Intrinsics with exact results: bits, signs, classes of floats. Knows no expressions."""

from __future__ import annotations

from collections.abc import Callable

from ....core.dtype import FLOAT32, DType
from ....core.dtype import dtype as as_dtype
from .. import convert, halves, types
from ..emitter import Emitter
from .kit import Kit, Num
from .libm import lanewise

Operands = tuple[str, ...]


def _k(value: int, t: DType, em: Emitter) -> str:
    return types.splat_literal(str(value), em.element(t), t.lanes)


def absolute(em: Emitter, t: DType, x: Operands) -> str:
    if t.code == "uint":
        return x[0]
    vector, suffix = em.type(t), types.mangle(em.element(t), t.lanes)
    if t.is_float:
        out = em.call(vector, f"llvm.fabs.{suffix}", (vector, x[0]))
        halves.with_sign(em, x[0], out, t, "and", 0x7FFF)
        return out
    # false: the least number has itself for its absolute value, as in numpy, and no poison
    return em.call(vector, f"llvm.abs.{suffix}", (vector, x[0]), ("i1", "false"))


def _kit(em: Emitter, t: DType) -> Kit:
    return Kit(em, em.element(t), t.lanes)


def isnan(em: Emitter, t: DType, x: Operands) -> str:
    return Num(_kit(em, t), "f", x[0]).unordered().operand


def isinf(em: Emitter, t: DType, x: Operands) -> str:
    kit = _kit(em, t)
    return kit.abs(Num(kit, "f", x[0])).same(float("inf")).operand


def isfinite(em: Emitter, t: DType, x: Operands) -> str:
    kit = _kit(em, t)
    return (kit.abs(Num(kit, "f", x[0])) < float("inf")).operand


WHOLE = ("floor", "ceil", "trunc", "round", "nearbyint")


def whole(em: Emitter, t: DType, name: str, x: str) -> str:
    """The integer next to a float32 that was a float16, by adding and subtracting what leaves no fraction:
    LLVM makes an instruction of float16 of ``llvm.floor`` between the two conversions, and where the
    processor has none, one call for each lane."""
    m = _kit(em, t)
    value = Num(m, "f", x)
    size = m.abs(value)
    if name == "round":  # half away from zero
        # exact, for it was a float16: none has a fraction that the sum would round
        size = size + 0.5
    start = value if name in ("floor", "ceil") else size
    # rounds to the nearest even; the selects correct that by one
    near = (start + m.format.magic) - m.format.magic
    if name == "ceil":
        near = near + m.select(near < start, 1.0, 0.0)
    elif name != "nearbyint":
        near = near - m.select(near > start, 1.0, 0.0)
    return m.copysign(near, value).operand


def float_bits(em: Emitter, t: DType, x: Operands) -> str:
    if types.is_soft(t, em.target):
        return convert.narrow(em, x[0], t)
    return em.ins(f"bitcast {em.type(t)} {x[0]} to {types.lanes_of(f'i{t.bits}', t.lanes)}")


def float_of_bits(em: Emitter, t: DType, x: Operands) -> str:
    return _of_bits(em, x[0], as_dtype(f"float{t.bits}").with_lanes(t.lanes))


def _of_bits(em: Emitter, bits: str, t: DType) -> str:
    """The float of the type ``t`` that has these bits."""
    if types.is_soft(t, em.target):
        return convert.widen(em, bits, t)
    return em.ins(f"bitcast {types.lanes_of(f'i{t.bits}', t.lanes)} {bits} to {em.type(t)}")


def popcount(em: Emitter, t: DType, x: Operands) -> str:
    vector = em.type(t)
    return em.call(vector, f"llvm.ctpop.{types.mangle(em.element(t), t.lanes)}", (vector, x[0]))


def clz(em: Emitter, t: DType, x: Operands) -> str:
    vector = em.type(t)
    return em.call(
        vector, f"llvm.ctlz.{types.mangle(em.element(t), t.lanes)}", (vector, x[0]), ("i1", "false")
    )


def word(name: str) -> Callable[[Emitter, DType, Operands], str]:
    """The instruction of that name."""
    return lambda em, t, x: em.ins(f"{name} {em.type(t)} {x[0]}, {x[1]}")


def invert(em: Emitter, t: DType, x: Operands) -> str:
    return em.ins(f"xor {em.type(t)} {x[0]}, {_k(-1, t, em)}")


def shift_left(em: Emitter, t: DType, x: Operands) -> str:
    """Zero when shifted by all bits or more."""
    vector, flags = em.type(t), types.lanes_of("i1", t.lanes)
    good = em.ins(f"icmp ult {vector} {x[1]}, {_k(t.bits, t, em)}")
    shifted = em.ins(f"shl {vector} {x[0]}, {x[1]}")
    return em.ins(f"select {flags} {good}, {vector} {shifted}, {vector} {_k(0, t, em)}")


def shift_right(em: Emitter, t: DType, x: Operands) -> str:
    """Signed numbers keep their sign; shifted by all bits or more nothing but the sign is left."""
    vector = em.type(t)
    if t.code == "int":
        name = f"llvm.umin.{types.mangle(em.element(t), t.lanes)}"
        amount = em.call(vector, name, (vector, x[1]), (vector, _k(t.bits - 1, t, em)))
        return em.ins(f"ashr {vector} {x[0]}, {amount}")
    good = em.ins(f"icmp ult {vector} {x[1]}, {_k(t.bits, t, em)}")
    shifted = em.ins(f"lshr {vector} {x[0]}, {x[1]}")
    return em.ins(
        f"select {types.lanes_of('i1', t.lanes)} {good}, {vector} {shifted}, {vector} {_k(0, t, em)}"
    )


def nextafter(m: Kit, x: Num, y: Num) -> Num:
    """The neighbour of ``x`` towards ``y``: one step on its bits."""
    bits = m.bits_of(x)
    # away from zero the bits count up, whatever the sign
    away = (x < y) ^ (bits < 0)
    moved = bits + m.select(away, m.num(1, "i"), -1)
    # from zero, the smallest subnormal with the sign of where it goes
    least = m.bits_of(m.copysign(m.from_bits(m.num(1, "i")), y))
    out = m.from_bits(m.select(x.same(0.0), least, moved))
    out = m.select(x.same(y), y, out)
    return m.select(x.unordered() | y.unordered(), x + y, out)


def nextafter16(em: Emitter, t: DType, x: Operands) -> str:
    """The neighbour of a 16-bit float: one step on its bits."""
    n = t.lanes
    word16, flags = types.lanes_of("i16", n), types.lanes_of("i1", n)

    def k(value: int) -> str:
        return types.splat_literal(str(value), "i16", n)

    a, b = x
    wide = FLOAT32.with_lanes(n)
    single = em.type(wide)
    fa, fb = (convert.cast(em, v, t, wide) for v in x)
    zero = types.splat_literal(types.float_literal(0.0, "float"), "float", n)
    bits, target_bits = float_bits(em, t, (a,)), float_bits(em, t, (b,))
    up = em.ins(f"fcmp olt {single} {fa}, {fb}")
    negative = em.ins(f"fcmp olt {single} {fa}, {zero}")
    # away from zero the bits count up, whatever the sign
    grow = em.ins(f"xor {flags} {up}, {negative}")
    step = em.ins(f"select {flags} {grow}, {word16} {k(1)}, {word16} {k(-1)}")
    moved = em.ins(f"add {word16} {bits}, {step}")
    # from zero, the smallest subnormal with the sign of where it goes
    least = em.ins(f"or {word16} {em.ins(f'and {word16} {target_bits}, {k(-32768)}')}, {k(1)}")
    at_zero = em.ins(f"fcmp oeq {single} {fa}, {zero}")
    out = em.ins(f"select {flags} {at_zero}, {word16} {least}, {word16} {moved}")
    same = em.ins(f"fcmp oeq {single} {fa}, {fb}")
    out = em.ins(f"select {flags} {same}, {word16} {target_bits}, {word16} {out}")
    value = _of_bits(em, out, t)
    nan = em.ins(f"fcmp uno {single} {fa}, {fb}")
    # with NaN the result is that NaN, made quiet
    total = em.ins(f"fadd {em.type(t)} {a}, {b}")
    return em.ins(f"select {flags} {nan}, {em.type(t)} {total}, {em.type(t)} {value}")


def ldexp(m: Kit, x: Num, n: Num) -> Num:
    """``x * 2**n``, rounded once also where the result is subnormal."""
    vector, word = m.type("f"), types.lanes_of("i32", m.lanes)
    floats, words = types.mangle(m.element, m.lanes), types.mangle("i32", m.lanes)
    whole = m.em.call(word, f"llvm.fptosi.sat.{words}.{floats}", (vector, n.operand))
    return Num(m, "f", m.em.call(vector, f"llvm.ldexp.{floats}.{words}", (vector, x.operand), (word, whole)))


def fmod(m: Kit, x: Num, y: Num) -> Num:
    """``x`` less ``y`` times the integer part of ``x / y``, exact. A rounded quotient is never below the true
    one's integer part, and at most one above, which a negative rest tells; the rest is a multiple of the last
    place of ``y`` and smaller than ``y``, so fma gives it exactly. Where quotients are no longer all the
    integers there are, the C library counts on."""
    a, b = m.abs(x), m.abs(y)
    quotient = a / b
    whole = m.trunc(quotient)
    if m.em.target.has_fma:
        rest = m.fma(-whole, b, a)
    elif m.bits == 32:
        rest = m.narrow(m.wide(a) - m.wide(whole) * m.wide(b))
    else:
        return lanewise(m, "fmod", x, y)
    # the quotient may have been rounded up to the next integer: then one divisor too much was taken away
    rest = m.select(rest < 0.0, rest + b, rest)
    rest = m.copysign(m.select(a < b, a, rest), x)
    # beyond it the quotient's integer part has lost bits
    rare = (quotient > 2.0**m.format.fraction) & (a < float("inf")) & (b > 0.0)
    return m.repaired(rest, rare, _fmod_far, x, y)


def _fmod_far(m: Kit, x: Num, y: Num) -> Num:
    return lanewise(m, "fmod", x, y)
