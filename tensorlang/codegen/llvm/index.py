"""Index arithmetic: scalar integers as i64, integer division, and what is known of signs.

Index expressions never overflow by contract, so sums and products are ``nsw`` and are done in 64 bits
whatever the language says: that spares sign extensions at each address. Where such a value is used as data it
is cut to its own type. Values read from memory, and sums of them, which wrap, are sign-extended leaves. A
division never traps, whatever the divisor: it may have been moved in front of a guard.
"""

from __future__ import annotations

from ...arith.conditions import conjuncts
from ...core.dtype import DType
from ...core.visit import TypeTable
from ...expr import linear, make
from ...expr.nodes import (
    LE,
    Add,
    Broadcast,
    Cast,
    Choice,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Ramp,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    const_int,
)
from . import convert
from .emitter import Emitter, sized
from .types import float_literal, lanes_of, splat_literal

rules = TypeTable("llvm index")
Emitter.index_rules = rules

Range = tuple[int | None, int | None]
_OPEN: Range = (None, None)


def interval(em: Emitter, e: Expr) -> Range:
    """Inclusive bounds of an integer expression (over all lanes), None where unknown."""
    result = em.ranges.get(e)
    if result is None:
        result = em.ranges[e] = _interval(em, e)
    return result


def known_by(em: Emitter, cond: Expr) -> dict[Expr, Range]:
    """The bounds of variables where a condition holds that says ``n <= 8`` of a size, or of a product of
    sizes, as that of a version for short rows does: what is as long as a row has room on the stack there.
    Empty where it says nothing of a size."""
    found: dict[Expr, Range] = {}
    for c in conjuncts(cond):
        if isinstance(c, LE) and (sized(c.a) or (isinstance(c.a, Var) and c.a.kind == "dim")):
            most, (lo, hi) = const_int(c.b), interval(em, c.a)
            if most is not None:
                found[c.a] = lo, most if hi is None else min(hi, most)
    return em.given_ranges() | found if found else {}


def _interval(em: Emitter, e: Expr) -> Range:
    kind = type(e)
    if kind is Const:
        return (int(e.value), int(e.value)) if not e.dtype.is_float else _OPEN  # type: ignore[attr-defined]
    if kind is Var:
        return e.lo, e.hi  # type: ignore[attr-defined]
    if kind is Broadcast:
        return interval(em, e.value)  # type: ignore[attr-defined]
    if kind is Ramp:
        return _ramp(em, e)  # type: ignore[arg-type]
    if kind is Cast:
        a = e.a  # type: ignore[attr-defined]
        wide = (
            a.dtype.is_int
            and e.dtype.is_int
            and e.dtype.bits >= a.dtype.bits
            and e.dtype.code == a.dtype.code
        )
        return interval(em, a) if wide or a.dtype.is_bool else _type_range(e)
    if isinstance(e, Choice) and not linear.wraps(e):
        return _either(interval(em, e.a), interval(em, e.b))
    if kind is Mul and (size := _size(e)) is not None and size is not e and size in em.ranges:
        return em.ranges[size]
    if kind in _ARITHMETIC and e.dtype.code == "int" and e.dtype.bits >= 32 and not linear.wraps(e):
        return _ARITHMETIC[kind](interval(em, e.a), interval(em, e.b))  # type: ignore[attr-defined]
    return _type_range(e)


def _size(e: Expr) -> Expr | None:
    """A product of sizes in the type of its factors, whatever type it is computed in; None for all else."""
    if type(e) is Cast and e.dtype.is_index and e.a.dtype.is_index:
        return _size(e.a)
    if type(e) is Var:
        return e if e.kind == "dim" else None
    if type(e) is not Mul:
        return None
    a, b = _size(e.a), _size(e.b)
    return None if a is None or b is None else make.mul(a, b)


def _either(a: Range, b: Range) -> Range:
    lo, hi = [x for x in (a[0], b[0]) if x is not None], [x for x in (a[1], b[1]) if x is not None]
    return (min(lo) if len(lo) == 2 else None), (max(hi) if len(hi) == 2 else None)


def _type_range(e: Expr) -> Range:
    return (
        e.dtype.limits()
        if (e.dtype.is_int and (e.dtype.bits < 32 or e.dtype.code == "uint")) or e.dtype.is_bool
        else _OPEN
    )


def _ramp(em: Emitter, e: Ramp) -> Range:
    lo, hi = interval(em, e.base)
    step = const_int(e.stride)
    if step is None:
        return _OPEN
    reach = step * (e.lanes - 1)
    return (None if lo is None else lo + min(0, reach)), (None if hi is None else hi + max(0, reach))


def _add(a: Range, b: Range) -> Range:
    return (None if a[0] is None or b[0] is None else a[0] + b[0]), (
        None if a[1] is None or b[1] is None else a[1] + b[1]
    )


def _sub(a: Range, b: Range) -> Range:
    return (None if a[0] is None or b[1] is None else a[0] - b[1]), (
        None if a[1] is None or b[0] is None else a[1] - b[0]
    )


def _mul(a: Range, b: Range) -> Range:
    if None not in a and None not in b:
        ends = [x * y for x in a for y in b]  # type: ignore[operator]
        return min(ends), max(ends)
    if a[0] is not None and a[0] >= 0 and b[0] is not None and b[0] >= 0:
        return a[0] * b[0], None
    return _OPEN


def _floordiv(a: Range, b: Range) -> Range:
    if b[0] is None or b[0] <= 0:
        return _OPEN
    lo = None if a[0] is None else a[0] // b[0] if a[0] < 0 else 0 if b[1] is None else a[0] // b[1]
    hi = None if a[1] is None else a[1] // b[0] if a[1] >= 0 else -1
    return lo, hi


def _floormod(a: Range, b: Range) -> Range:
    if b[0] is None or b[0] <= 0:
        return _OPEN
    return 0, None if b[1] is None else b[1] - 1


def _min(a: Range, b: Range) -> Range:
    hi = [x for x in (a[1], b[1]) if x is not None]
    return (None if a[0] is None or b[0] is None else min(a[0], b[0])), min(hi, default=None)


def _max(a: Range, b: Range) -> Range:
    lo = [x for x in (a[0], b[0]) if x is not None]
    return max(lo, default=None), (None if a[1] is None or b[1] is None else max(a[1], b[1]))


_ARITHMETIC = {
    Add: _add,
    Sub: _sub,
    Mul: _mul,
    FloorDiv: _floordiv,
    FloorMod: _floormod,
    Min: _min,
    Max: _max,
}


@rules.on(Add, Sub, Mul)
def _nsw(em: Emitter, e: Add | Sub | Mul) -> str:
    if not e.dtype.is_index or linear.wraps(e):  # narrow integers wrap, and so does data
        return _leaf(em, e)
    word = {Add: "add", Sub: "sub", Mul: "mul"}[type(e)]
    return em.ins(f"{word} nsw i64 {em.index(e.a)}, {em.index(e.b)}")


@rules.on(Min, Max)
def _extreme(em: Emitter, e: Min | Max) -> str:
    if not e.dtype.is_index:
        return _leaf(em, e)
    name = "smin" if type(e) is Min else "smax"
    return em.call("i64", f"llvm.{name}.i64", ("i64", em.index(e.a)), ("i64", em.index(e.b)))


@rules.on(FloorDiv, FloorMod, TruncDiv, TruncMod)
def _divide(em: Emitter, e: FloorDiv | FloorMod | TruncDiv | TruncMod) -> str:
    if not e.dtype.is_index or _quotient_wraps(em, e):
        return _leaf(em, e)
    return divide(em, e, "i64", em.index(e.a), em.index(e.b), 1)


def _quotient_wraps(em: Emitter, e: FloorDiv | FloorMod | TruncDiv | TruncMod) -> bool:
    """Whether it is data that may be the least number by -1, which is the least number again in 32 bits, and
    2**31 in 64."""
    if isinstance(e, FloorMod | TruncMod) or e.dtype.bits == 64 or not linear.wraps(e):
        return False
    least, most = interval(em, e.b)
    return (least is None or least <= -1) and (most is None or most >= -1)


@rules.on(Cast)
def _cast(em: Emitter, e: Cast) -> str:
    # Widening loses nothing, and a pure index never overflows: only narrowing of data must cut.
    if e.dtype.is_index and e.a.dtype.is_index and (e.dtype.bits >= e.a.dtype.bits or not linear.wraps(e.a)):
        return em.index(e.a)
    if not e.dtype.is_index:
        return _leaf(em, e)
    operand = convert.cast(
        em, em.value(e.a), e.a.dtype, e.dtype
    )  # of another type: an index that went through uint8, say
    return operand if e.dtype.bits == 64 else em.ins(f"sext i32 {operand} to i64")


@rules.on(Choice)
def _choice(em: Emitter, e: Choice) -> str:
    if linear.wraps(e):
        return _leaf(em, e)
    return em.ins(f"select i1 {em.value(e.cond)}, i64 {em.index(e.a)}, i64 {em.index(e.b)}")


@rules.on(Expr)
def _leaf(em: Emitter, e: Expr) -> str:
    operand = em.value(e)
    if e.dtype.bits == 64:
        return operand
    word = "sext" if e.dtype.code == "int" else "zext"
    return em.ins(f"{word} {em.type(e.dtype)} {operand} to i64")


def divide(
    em: Emitter, e: FloorDiv | FloorMod | TruncDiv | TruncMod, t: str, a: str, b: str, lanes: int
) -> str:
    """The integer division or remainder ``e`` of operands of LLVM type ``t``: exact for negative numbers,
    cheap where the operands are known not to be negative or the divisor is a power of two, and without
    traps."""
    bits = 64 if lanes == 1 and t == "i64" else e.dtype.bits

    def k(value: int) -> str:
        return splat_literal(str(value), f"i{bits}", lanes)

    kind = type(e)
    floor = kind is FloorDiv or kind is FloorMod
    quotient = kind is FloorDiv or kind is TruncDiv
    divisor = const_int(e.b.value if type(e.b) is Broadcast else e.b)
    lo_a, lo_b = interval(em, e.a)[0], interval(em, e.b)[0]
    plain = e.dtype.code == "uint" or (lo_a is not None and lo_a >= 0 and lo_b is not None and lo_b >= 0)
    if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0 and (floor or plain):
        if quotient:
            return em.ins(f"{'lshr' if plain else 'ashr'} {t} {a}, {k(divisor.bit_length() - 1)}")
        return em.ins(f"and {t} {a}, {k(divisor - 1)}")
    if divisor == -1:  # as a division it would be undefined for the least number, which wraps
        return em.ins(f"sub {t} {k(0)}, {a}") if quotient else k(0)
    flags = lanes_of("i1", lanes)
    if divisor is None and (lo_b is None or lo_b < 1):  # by one instead of by zero
        bad = em.ins(f"icmp eq {t} {b}, {k(0)}")
        # and the least number by one instead of by -1: the same value, wrapped
        if e.dtype.code == "int" and not plain:
            least = em.ins(f"icmp eq {t} {a}, {k(-(1 << (bits - 1)))}")
            minus = em.ins(f"icmp eq {t} {b}, {k(-1)}")
            bad = em.ins(f"or {flags} {bad}, {em.ins(f'and {flags} {least}, {minus}')}")
        b = em.ins(f"select {flags} {bad}, {t} {k(1)}, {t} {b}")
    if lanes > 1 and divisor is None and bits <= MOST_BITS:
        q = _by_reciprocal(em, e, a, b) if plain else _by_floats(em, e.dtype, a, b)
        if quotient and (plain or not floor):
            return q
        rest = em.ins(f"sub {t} {a}, {em.ins(f'mul {t} {q}, {b}')}")
        return rest if plain or not floor else _floored(em, quotient, t, q, rest, b, flags, k(0))
    if plain:
        return em.ins(f"{'udiv' if quotient else 'urem'} {t} {a}, {b}")
    if not floor:
        return em.ins(f"{'sdiv' if quotient else 'srem'} {t} {a}, {b}")
    if lo_b is not None and lo_b >= 1:  # floor(a / b) = ~(~a / b) for negative a: no branch, no correction
        sign = em.ins(f"ashr {t} {a}, {k(bits - 1)}")
        q = em.ins(f"udiv {t} {em.ins(f'xor {t} {a}, {sign}')}, {b}")
        q = em.ins(f"xor {t} {q}, {sign}")
        return q if quotient else em.ins(f"sub {t} {a}, {em.ins(f'mul {t} {q}, {b}')}")
    q = em.ins(f"sdiv {t} {a}, {b}") if quotient else ""
    return _floored(em, quotient, t, q, em.ins(f"srem {t} {a}, {b}"), b, flags, k(0))


def _floored(em: Emitter, quotient: bool, t: str, q: str, rest: str, b: str, flags: str, zero: str) -> str:
    """Quotient or remainder rounded down, of those rounded to zero."""
    inexact = em.ins(f"icmp ne {t} {rest}, {zero}")
    differ = em.ins(f"icmp slt {t} {em.ins(f'xor {t} {rest}, {b}')}, {zero}")
    fix = em.ins(f"and {flags} {inexact}, {differ}")
    if quotient:
        return em.ins(f"add {t} {q}, {em.ins(f'sext {flags} {fix} to {t}')}")
    return em.ins(f"add {t} {rest}, {em.ins(f'select {flags} {fix}, {t} {b}, {t} {zero}')}")


MOST_BITS = 32  # of integers whose quotients float64 tells exactly
HALF_BITS = 16  # of those whose quotients float32 does


def _floats(em: Emitter, t: DType, x: str) -> str:
    """A vector of integers as floats that tell its quotients exactly: ``float`` of the narrow ones."""
    n, word = t.lanes, lanes_of(f"i{t.bits}", t.lanes)
    if t.bits > HALF_BITS:
        return em.ins(f"{'sitofp' if t.code == 'int' else 'uitofp'} {word} {x} to {lanes_of('double', n)}")
    wide = em.ins(f"{'sext' if t.code == 'int' else 'zext'} {word} {x} to {lanes_of('i32', n)}")
    return em.ins(f"sitofp {lanes_of('i32', n)} {wide} to {lanes_of('float', n)}")


def _whole(em: Emitter, t: DType, x: str) -> str:
    """Such floats as integers, rounded to zero."""
    n, word = t.lanes, lanes_of(f"i{t.bits}", t.lanes)
    if t.bits > HALF_BITS:
        return em.ins(f"{'fptosi' if t.code == 'int' else 'fptoui'} {lanes_of('double', n)} {x} to {word}")
    wide = em.ins(f"fptosi {lanes_of('float', n)} {x} to {lanes_of('i32', n)}")
    return em.ins(f"trunc {lanes_of('i32', n)} {wide} to {word}")


def _kind(t: DType) -> str:
    return "double" if t.bits > HALF_BITS else "float"


def _by_floats(em: Emitter, t: DType, a: str, b: str) -> str:
    """The quotients of a vector, rounded to zero, by a division of floats: no processor divides vectors of
    integers, and LLVM takes the lanes one by one. Exact: a quotient that is no whole number is at least ``1 /
    a`` of itself away from one, which is far more than floats of twice the bits round."""
    x, y = (_floats(em, t, v) for v in (a, b))
    return _whole(em, t, em.ins(f"fdiv {lanes_of(_kind(t), t.lanes)} {x}, {y}"))


def _by_reciprocal(em: Emitter, e: FloorDiv | FloorMod | TruncDiv | TruncMod, a: str, b: str) -> str:
    """The same of numbers that are not negative. One divisor of all lanes makes it ``(a + 1/2) * (1 / b)``:
    a half keeps whole quotients from being rounded below themselves, and one division serves a loop."""
    if type(e.b) is not Broadcast:
        return _by_floats(em, e.dtype, a, b)
    kind, lanes = _kind(e.dtype), e.dtype.lanes
    wide = lanes_of(kind, lanes)
    n = e.b.value
    least = interval(em, n)[0]
    n = n if least is not None and least >= 1 else make.max_(n, make.const(1, n.dtype))
    name = "float64" if kind == "double" else "float32"
    one = make.div(make.const(1.0, name), make.cast(name, n))
    inverse = em.value(make.broadcast(one, lanes))  # where the divisor is known: ahead of loops
    half = em.ins(
        f"fadd {wide} {_floats(em, e.dtype, a)}, {splat_literal(float_literal(0.5, kind), kind, lanes)}"
    )
    return _whole(em, e.dtype, em.ins(f"fmul {wide} {half}, {inverse}"))
