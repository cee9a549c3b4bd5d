"""Conversions between element types, and the 16-bit floats that the target cannot convert by itself. Knows no
expressions.

Every conversion is emitted for any number of lanes. 16-bit floats held as float32 in registers (see
``types``) are rounded to nearest, ties to even, after each operation that is not exact, so they give the bits
that hardware would; to be stored they need no rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...core.dtype import FLOAT32, FLOAT64, DType
from . import halves, shuffles, types
from .emitter import Emitter


def _int(lanes: int, bits: int) -> str:
    return types.lanes_of(f"i{bits}", lanes)


def _k(value: int, lanes: int, bits: int = 32) -> str:
    return types.splat_literal(str(value), f"i{bits}", lanes)


def rounded(em: Emitter, x: str, t: DType) -> str:
    """The float32 ``x`` rounded to the 16-bit type ``t`` when ``t`` is held as float32; else ``x`` as it
    is."""
    if not types.is_soft(t, em.target):
        return x
    if halves.is_exact(em, x, t):
        return x
    return widen(em, _narrowed(em, x, t), t)


def narrow(em: Emitter, x: str, t: DType) -> str:
    """What is in memory of a value ``x`` of the soft float ``t``, a float32 that 16 bits hold; of one made of
    16 bits these."""
    known = halves.bits_of(em, x, t, t.lanes)
    if known or t.code != "bfloat":
        return known or _narrowed(em, x, t)
    n = t.lanes
    word = _int(n, 32)
    bits = em.ins(f"bitcast {types.lanes_of('float', n)} {x} to {word}")
    return em.ins(f"trunc {word} {em.ins(f'lshr {word} {bits}, {_k(16, n)}')} to {_int(n, 16)}")


def _narrowed(em: Emitter, x: str, t: DType) -> str:
    n = t.lanes
    word, single = _int(n, 32), types.lanes_of("float", n)
    if types.converted(t, em.target):
        half = types.lanes_of("half", n)
        return em.ins(f"bitcast {half} {em.ins(f'fptrunc {single} {x} to {half}')} to {_int(n, 16)}")
    if t.code == "bfloat" and n > 1 and em.target.rounds_bfloat16:
        return _rounded_by_instruction(em, x, n)
    flags = types.lanes_of("i1", n)
    bits = em.ins(f"bitcast {single} {x} to {word}")
    nan = em.ins(f"fcmp uno {single} {x}, {x}")
    if t.code == "bfloat":
        top = em.ins(f"lshr {word} {bits}, {_k(16, n)}")
        odd = em.ins(f"and {word} {top}, {_k(1, n)}")
        up = em.ins(f"add {word} {em.ins(f'add {word} {bits}, {odd}')}, {_k(0x7FFF, n)}")
        out = em.ins(f"lshr {word} {up}, {_k(16, n)}")
        quiet = em.ins(f"or {word} {top}, {_k(0x40, n)}")
        out = em.ins(f"select {flags} {nan}, {word} {quiet}, {word} {out}")
        return em.ins(f"trunc {word} {out} to {_int(n, 16)}")
    sign = em.ins(f"and {word} {em.ins(f'lshr {word} {bits}, {_k(16, n)}')}, {_k(0x8000, n)}")
    size = em.ins(f"and {word} {bits}, {_k(0x7FFFFFFF, n)}")
    # normal results: rebias the exponent and round at bit 13; subnormal results: let a float addition of 0.5
    # round at the last bit
    odd = em.ins(f"and {word} {em.ins(f'lshr {word} {size}, {_k(13, n)}')}, {_k(1, n)}")
    moved = em.ins(f"add {word} {em.ins(f'add {word} {size}, {odd}')}, {_k(((15 - 127) << 23) + 0xFFF, n)}")
    normal = em.ins(f"lshr {word} {moved}, {_k(13, n)}")
    half = types.splat_literal(types.float_literal(0.5, "float"), "float", n)
    tiny = em.ins(f"fadd {single} {em.ins(f'bitcast {word} {size} to {single}')}, {half}")
    tiny_bits = em.ins(f"sub {word} {em.ins(f'bitcast {single} {tiny} to {word}')}, {_k(0x3F000000, n)}")
    is_tiny = em.ins(f"icmp ult {word} {size}, {_k(0x38800000, n)}")
    out = em.ins(f"select {flags} {is_tiny}, {word} {tiny_bits}, {word} {normal}")
    too_big = em.ins(f"icmp uge {word} {size}, {_k(0x477FF000, n)}")
    out = em.ins(f"select {flags} {too_big}, {word} {_k(0x7C00, n)}, {word} {out}")
    out = em.ins(f"select {flags} {nan}, {word} {_k(0x7E00, n)}, {word} {out}")
    return em.ins(f"trunc {word} {em.ins(f'or {word} {out}, {sign}')} to {_int(n, 16)}")


def _rounded_by_instruction(em: Emitter, x: str, n: int) -> str:
    """The bits of bfloat16 as x86 rounds to them: as wanted, but that it takes numbers below the normal ones
    for zero. Those are moved to the first normal ones, whose last digit means the same, and back. Measured
    (Zen 4, beside eight operations on the bits): a batch norm takes 0.6 of the time, a layer norm 0.8."""
    m = 8 if n <= 8 else 16
    count = 1 << (-(-n // m) - 1).bit_length()
    x = shuffles.resized(em, x, n, count * m, "float")
    word, short, flags, single = _int(m, 32), _int(m, 16), types.lanes_of("i1", m), f"<{m} x float>"
    out = []
    for at in range(0, count * m, m):
        if at >= n:
            out.append("poison")
            continue
        bits = em.ins(f"bitcast {single} {shuffles.part(em, x, count * m, at, m, 'float')} to {word}")
        small = em.ins(f"icmp eq {word} {em.ins(f'and {word} {bits}, {_k(0x7F800000, m)}')}, {_k(0, m)}")
        moved = em.ins(f"or {word} {bits}, {_k(0x00800000, m)}")
        moved = em.ins(f"select {flags} {small}, {word} {moved}, {word} {bits}")
        name = f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * m}"
        made = em.call(f"<{m} x bfloat>", name, (single, em.ins(f"bitcast {word} {moved} to {single}")))
        made = em.ins(f"bitcast <{m} x bfloat> {made} to {short}")
        back = em.ins(f"sub {short} {made}, {_k(0x0080, m, 16)}")
        out.append(em.ins(f"select {flags} {small}, {short} {back}, {short} {made}"))
    return shuffles.resized(em, shuffles.joined(em, out, m, "i16"), count * m, n, "i16")


def widen(em: Emitter, bits16: str, t: DType) -> str:
    """The float32 of the 16 bits of the soft float ``t``. Exact."""
    out = _widened(em, bits16, t)
    em.halves[out, t.code] = bits16
    return out


def _widened(em: Emitter, bits16: str, t: DType) -> str:
    n = t.lanes
    word, single = _int(n, 32), types.lanes_of("float", n)
    if types.converted(t, em.target):
        half = types.lanes_of("half", n)
        return em.ins(f"fpext {half} {em.ins(f'bitcast {_int(n, 16)} {bits16} to {half}')} to {single}")
    bits = em.ins(f"zext {_int(n, 16)} {bits16} to {word}")
    if t.code == "bfloat":
        return em.ins(f"bitcast {word} {em.ins(f'shl {word} {bits}, {_k(16, n)}')} to {single}")
    flags = types.lanes_of("i1", n)
    size = em.ins(f"shl {word} {em.ins(f'and {word} {bits}, {_k(0x7FFF, n)}')}, {_k(13, n)}")
    scale = types.splat_literal(
        types.float_literal(2.0**112, "float"), "float", n
    )  # exact also for subnormal halves
    value = em.ins(f"fmul {single} {em.ins(f'bitcast {word} {size} to {single}')}, {scale}")
    special = em.ins(f"icmp uge {word} {size}, {_k(0x0F800000, n)}")
    high = em.ins(f"or {word} {size}, {_k(0x7F800000, n)}")
    out = em.ins(
        f"select {flags} {special}, {word} {high}, {word} {em.ins(f'bitcast {single} {value} to {word}')}"
    )
    sign = em.ins(f"shl {word} {em.ins(f'and {word} {bits}, {_k(0x8000, n)}')}, {_k(16, n)}")
    return em.ins(f"bitcast {word} {em.ins(f'or {word} {out}, {sign}')} to {single}")


def _double_to_single_odd(em: Emitter, x: str, n: int) -> str:
    """A float64 as float32 rounded to odd, so that rounding once more to 16 bits rounds as if from the
    float64 itself. Of its 52 bits 11 stay, and one that says whether others were set: more than those of
    both types by two, and so few that a float32 holds them as soon as a 16-bit float is not zero.

    Measured (Zen 4, one thread and two): 30,000 and a million float64 to float16 take 0.5 of the time of a
    float32 that is compared with what it was made of.
    """
    double, single, word = (types.lanes_of(e, n) for e in ("double", "float", "i64"))
    bits = em.ins(f"bitcast {double} {x} to {word}")
    low = _k((1 << 40) - 1, n, 64)
    carry = em.ins(f"add {word} {em.ins(f'and {word} {bits}, {low}')}, {low}")  # bit 40: one was set
    odd = em.ins(f"and {word} {em.ins(f'or {word} {carry}, {bits}')}, {_k(-1 << 40, n, 64)}")
    return em.ins(f"fptrunc {double} {em.ins(f'bitcast {word} {odd} to {double}')} to {single}")


def _odd(em: Emitter, x: str, t: DType, n: int) -> str:
    """An integer of 32 bits rounded to odd so far that a float32 holds it. Measured (Zen 4): 30,000 to
    bfloat16 take 0.6 of the time of a float64 between."""
    word, flags = _int(n, 32), types.lanes_of("i1", n)
    carry = em.ins(f"add {word} {em.ins(f'and {word} {x}, {_k(0xFF, n)}')}, {_k(0xFF, n)}")
    odd = em.ins(f"and {word} {em.ins(f'or {word} {carry}, {x}')}, {_k(-0x100, n)}")
    above = em.ins(f"add {word} {x}, {_k(1 << 24, n)}") if t.code == "int" else x
    few = em.ins(f"icmp ult {word} {above}, {_k(1 << (25 if t.code == 'int' else 24), n)}")
    return em.ins(f"select {flags} {few}, {word} {x}, {word} {odd}")


def cast(em: Emitter, x: str, a: DType, t: DType) -> str:
    """``x`` of dtype ``a`` converted to dtype ``t`` of as many lanes."""
    if a is t:
        return x
    source, wanted = em.type(a), em.type(t)
    n = t.lanes
    if t.is_bool:
        zero = types.splat_literal(
            "0" if not a.is_float else types.float_literal(0.0, em.element(a)), em.element(a), n
        )
        return em.ins(f"{'fcmp une' if a.is_float else 'icmp ne'} {source} {x}, {zero}")
    if a.is_float and t.is_float:
        return _float(em, x, a, t, source, wanted)
    if t.is_float:
        word = "sitofp" if a.code == "int" else "uitofp"
        if t.bits == 16 and (a.bits <= 16 or t.code != "bfloat"):
            # float32 holds 16 bits, and what it rounds is more than any float16
            single = types.lanes_of("float", n)
            return _float(em, em.ins(f"{word} {source} {x} to {single}"), FLOAT32, t, single, wanted)
        if t.bits == 16 and a.bits == 32:
            single = types.lanes_of("float", n)
            x = em.ins(f"{word} {source} {_odd(em, x, a, n)} to {single}")
            return _float(em, x, FLOAT32, t, single, wanted)
        # through float64, which holds 53 bits: more than enough that rounding twice shows only in theory
        if t.bits == 16:
            double = types.lanes_of("double", n)
            return _float(em, em.ins(f"{word} {source} {x} to {double}"), FLOAT64, t, double, wanted)
        return em.ins(f"{word} {source} {x} to {wanted}")
    if a.is_float:
        if em.element(a) == "half":  # LLVM converts halves lane by lane; floats hold them, and their limits
            x, a = em.ins(f"fpext {source} {x} to {types.lanes_of('float', n)}"), FLOAT32.with_lanes(n)
        return _truncated(em, x, a, t)
    if t.bits == a.bits:
        return x
    if t.bits < a.bits:
        return em.ins(f"trunc {source} {x} to {wanted}")
    return em.ins(f"{'sext' if a.code == 'int' else 'zext'} {source} {x} to {wanted}")


def _truncated(em: Emitter, x: str, a: DType, t: DType) -> str:
    """A float as an integer: towards zero, the nearest limit when out of range, 0 for NaN. LLVM's own
    saturating conversion does the same but lane by lane."""
    n, element, word = t.lanes, em.element(a), em.element(t)
    names = _cut_at_once(em, a, t)
    if names is not None:
        return _by_instruction(em, x, element, t, names)
    floats, words, flags = em.type(a), em.type(t), types.lanes_of("i1", n)
    lo, hi = t.limits()
    kinds: dict[str, type[np.floating[Any]]] = {"half": np.float16, "float": np.float32, "double": np.float64}
    kind = kinds[element]
    low, high = _inside(lo, kind), _inside(hi, kind)

    def limit(value: float) -> str:
        return types.splat_literal(types.float_literal(value, element), element, n)

    exact = int(low) == lo and int(high) == hi
    inside = x
    for word_, edge in (("ogt", low), ("olt", high)):  # the first takes NaN to the lower limit
        keep = em.ins(f"fcmp {word_} {floats} {inside}, {limit(edge)}")
        inside = em.ins(f"select {flags} {keep}, {floats} {inside}, {floats} {limit(edge)}")
        if lo and exact and word_ == "ogt":  # while it is as wide as what was compared
            number = em.ins(f"fcmp ord {floats} {x}, {x}")
            inside = em.ins(f"select {flags} {number}, {floats} {inside}, {floats} {limit(0.0)}")
    out = em.ins(f"fpto{'s' if t.code == 'int' else 'u'}i {floats} {inside} to {words}")
    for word_, edge, whole in (("olt", low, lo), ("ogt", high, hi)):
        if int(edge) != whole:
            beyond = em.ins(f"fcmp {word_} {floats} {x}, {limit(edge)}")
            out = em.ins(
                f"select {flags} {beyond}, {words} {types.splat_literal(str(whole), word, n)}, {words} {out}"
            )
    if lo and not exact:
        nan = em.ins(f"fcmp uno {floats} {x}, {x}")
        out = em.ins(f"select {flags} {nan}, {words} {types.splat_literal('0', word, n)}, {words} {out}")
    return out


# instructions by the lanes they convert, rounding as is set and towards zero
_REST = ("zeroinitializer", "-1", "4")
_NEAREST = {
    16: ("llvm.x86.avx512.mask.cvtps2dq.512", _REST),
    8: ("llvm.x86.avx.cvt.ps2dq.256", ()),
    4: ("llvm.x86.sse2.cvtps2dq", ()),
}
_TOWARDS_ZERO = {
    16: ("llvm.x86.avx512.mask.cvttps2dq.512", _REST),
    8: ("llvm.x86.avx.cvtt.ps2dq.256", ()),
    4: ("llvm.x86.sse2.cvttps2dq", ()),
}
_DOUBLES_TOWARDS_ZERO = {
    8: ("llvm.x86.avx512.mask.cvttpd2dq.512", _REST),
    4: ("llvm.x86.avx.cvtt.pd2dq.256", ()),
}


def rounds_at_once(em: Emitter, a: DType, t: DType) -> bool:
    """Whether :func:`nearest` converts vectors of ``a`` to integers ``t``."""
    narrow = t.code in ("int", "uint") and t.bits in (8, 16)
    return em.target.arch == "x86_64" and a.element is FLOAT32 and narrow and t.lanes >= 4


def adds_at_once(em: Emitter, t: DType) -> bool:
    """Whether :func:`nearest_above` makes integers ``t``."""
    return t.code == "uint" and t.bits == 8 and em.target.vector_bits >= 256


def nearest(em: Emitter, x: str, t: DType) -> str:
    """float32 as narrow integers, rounded to nearest, halves to even, as the processor does where it
    converts: the nearest limit when out of range, 0 for NaN. Limits are whole numbers, so they may come
    before."""
    return _by_instruction(em, x, "float", t, _NEAREST)


def nearest_above(em: Emitter, x: str, zero: str, above: str, t: DType) -> str:
    """float32 rounded as by :func:`nearest`, and a number of 8 bits more, as uint8: ``above``, which is
    ``zero`` as a float. The upper limit comes after the conversion, of which what no 32 bits hold is the most
    there is without a sign."""
    n = t.lanes
    floats, words, flags = types.lanes_of("float", n), _int(n, 32), types.lanes_of("i1", n)
    low = em.ins(f"fneg {floats} {zero}")
    keep = em.ins(f"fcmp ogt {floats} {x}, {low}")  # NaN becomes the lower limit, which is 0
    x = em.ins(f"select {flags} {keep}, {floats} {x}, {floats} {low}")
    whole = em.ins(f"add {words} {_converted(em, x, 'float', n, _NEAREST)}, {above}")
    most = _k(t.limits()[1], n)
    few = em.ins(f"icmp ult {words} {whole}, {most}")
    return em.ins(
        f"trunc {words} {em.ins(f'select {flags} {few}, {words} {whole}, {words} {most}')} to {em.type(t)}"
    )


def _cut_at_once(em: Emitter, a: DType, t: DType) -> Mapping[int, tuple[str, tuple[str, ...]]] | None:
    """The instructions that convert vectors of ``a`` to narrow integers ``t`` towards zero; None where others
    take as long, as for those without a sign, whose lower limit is what becomes of NaN."""
    if em.target.arch != "x86_64" or t.code != "int" or t.bits not in (8, 16) or t.lanes < 4:
        return None
    if a.element is FLOAT64 and em.target.vector_bits >= 256:
        return _DOUBLES_TOWARDS_ZERO
    return _TOWARDS_ZERO if a.element is FLOAT32 else None


def _by_instruction(
    em: Emitter, x: str, element: str, t: DType, names: Mapping[int, tuple[str, tuple[str, ...]]]
) -> str:
    """Floats as narrow integers by the first instruction of ``names`` that has as many lanes."""
    n = t.lanes
    floats, flags = types.lanes_of(element, n), types.lanes_of("i1", n)
    for word, edge in zip(("olt", "ogt"), t.limits(), strict=True):
        limit = types.splat_literal(types.float_literal(float(edge), element), element, n)
        beyond = em.ins(f"fcmp {word} {floats} {x}, {limit}")  # NaN stays
        x = em.ins(f"select {flags} {beyond}, {floats} {limit}, {floats} {x}")
    # of NaN the least number of 32 bits, whose last 16 are zeros
    return em.ins(f"trunc {_int(n, 32)} {_converted(em, x, element, n, names)} to {em.type(t)}")


def _converted(
    em: Emitter, x: str, element: str, n: int, names: Mapping[int, tuple[str, tuple[str, ...]]]
) -> str:
    """Floats as 32 bits; the least number of NaN and of what is out of range."""
    bits = 64 if element == "double" else 32
    m = min(em.target.vector_bits // bits, next((k for k in sorted(names) if n <= k), max(names)))
    count = 1 << (-(-n // m) - 1).bit_length()
    x = shuffles.resized(em, x, n, count * m, element)
    name, rest = names[m]
    words = _int(m, 32)
    more = tuple(zip((words, f"i{max(m, 8)}", "i32"), rest, strict=False))
    out = []
    for at in range(0, count * m, m):
        given = (types.lanes_of(element, m), shuffles.part(em, x, count * m, at, m, element))
        out.append(em.call(words, name, given, *more) if at < n else "poison")
    return shuffles.resized(em, shuffles.joined(em, out, m, "i32"), count * m, n, "i32")


def _inside(limit: int, kind: type[np.floating[Any]]) -> float:
    """The float nearest to an integer limit that does not exceed it in size."""
    with np.errstate(over="ignore"):
        value = kind(limit)
    if np.isinf(value) or abs(int(value)) > abs(limit):
        value = np.nextafter(value, kind(0))
    return float(value)


def _float(em: Emitter, x: str, a: DType, t: DType, source: str, wanted: str) -> str:
    """Between float types; ``source`` and ``wanted`` are their register types."""
    if t.bits == 16 and a.bits == 64:
        x = _double_to_single_odd(em, x, t.lanes)
        source = types.lanes_of("float", t.lanes)
    if source != wanted:
        up = "double" in wanted or "half" in source
        x = em.ins(f"{'fpext' if up else 'fptrunc'} {source} {x} to {wanted}")
    return rounded(em, x, t)
