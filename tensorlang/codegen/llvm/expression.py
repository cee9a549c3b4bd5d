"""Values: one rule for each expression node, scalar and vector alike. Knows no statements and no addresses
(``memory`` does).

Floats carry the flag ``contract`` only: a product and the sum it feeds may become one fused multiply-add;
nothing is reordered. Min and Max of floats are numpy's: a NaN on either side gives NaN; of two zeros either
may come out. Comparisons with NaN are false, except ``!=``. A float converted to an integer truncates and
saturates, NaN becomes 0. ``and`` and ``or`` of scalars that read memory on the right are lazy; of an
IfThenElse only the taken side is evaluated, per lane where the condition is a vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import is_

from ...arith.conditions import conjunction
from ...core.dtype import INT32, DType
from ...core.visit import TypeTable
from ...expr import linear, make
from ...expr.deep import ask_below, is_deep
from ...expr.nodes import (
    EQ,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Choice,
    Compare,
    Const,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    const_int,
    lane_of,
)
from ...expr.walk import preorder
from ...loopir.packed import Packed
from ...loopir.stmt import Buffer, Load, Reduction, load, loads, reduction
from . import convert, extremes, halves, index, joined, packing, types
from .emitter import Emitter, branches, buffers_read
from .known_divisor import divided
from .wide_registers import is_exact

rules = TypeTable("llvm value")
Emitter.value_rules = rules


def pure_index(e: Expr) -> bool:
    """Whether ``e`` is a scalar of index arithmetic: computed in 64 bits, cut to its type where it is used as
    data."""
    return e.dtype.is_index and not linear.wraps(e)


def _cut(em: Emitter, e: Expr) -> str:
    operand = em.index(e)
    if e.dtype.bits == 64:
        return operand
    # a literal has no type of its own in LLVM's text
    if not operand.startswith("%"):
        return operand
    return em.ins(f"trunc i64 {operand} to i{e.dtype.bits}")


@rules.on(Var)
def _var(em: Emitter, e: Var) -> str:
    return _cut(em, e) if e.dtype.is_index else em.vars[e]


_WORDS = {Add: "add", Sub: "sub", Mul: "mul", Div: "div"}


@rules.on(Add, Sub, Mul, Div)
def _arithmetic(em: Emitter, e: Add | Sub | Mul | Div) -> str:
    if pure_index(e):
        return _cut(em, e)
    word = _WORDS[type(e)]
    if not e.dtype.is_float:
        return em.ins(f"{word} {em.type(e.dtype)} {em.value(e.a)}, {em.value(e.b)}")
    if type(e) is Mul:  # x * -1 is how -x is spelled
        for x, y in ((e.a, e.b), (e.b, e.a)):
            scalar = lane_of(y)
            if type(scalar) is Const and scalar.value == -1.0:
                negative = em.ins(f"fneg {em.type(e.dtype)} {em.value(x)}")
                halves.with_sign(em, em.value(x), negative, e.dtype, "xor", 0x8000)
                return negative
    quotient = divided(em, e) if type(e) is Div else None
    if quotient is not None:
        return quotient
    flags = "contract " if em.module.fuses else ""
    if e is em.counting:
        # a sum that began at zero is never -0.0, so that adding zero is leaving it alone, an addition under a
        # mask. LLVM does not know where it began
        flags += "nsz "
    result = em.ins(f"f{word} {flags}{em.type(e.dtype)} {em.value(e.a)}, {em.value(e.b)}")
    return convert.rounded(em, result, e.dtype)


def counts(e: Expr, buffer: Buffer, at: Sequence[Expr]) -> bool:
    """Whether ``e``, which is stored at these indices, adds to what is there something or zero, by a test."""
    if type(e) is not Add or type(e.a) is not Load or e.a.buffer is not buffer:
        return False
    if not isinstance(e.b, Choice) or not all(map(is_, e.a.indices, at)):
        return False
    ends = [lane_of(x) for x in (e.b.a, e.b.b)]
    return any(type(x) is Const and x.value == 0 for x in ends)


@rules.on(FloorDiv, FloorMod, TruncDiv, TruncMod)
def _divide(em: Emitter, e: FloorDiv | FloorMod | TruncDiv | TruncMod) -> str:
    if pure_index(e):
        return _cut(em, e)
    return index.divide(em, e, em.type(e.dtype), em.value(e.a), em.value(e.b), e.dtype.lanes)


@rules.on(Min, Max)
def _extreme(em: Emitter, e: Min | Max) -> str:
    if pure_index(e):
        return _cut(em, e)
    t = em.type(e.dtype)
    word = "min" if type(e) is Min else "max"
    suffix = types.mangle(em.element(e.dtype), e.dtype.lanes)
    if e.dtype.is_float:
        # not minnum: that would drop a NaN. Without ``nsz`` x86 takes three instructions more to tell -0 from
        # 0. It asks whether the first operand is NaN: not what a reduction has so far, which would wait
        if (counted := _number_of(e)) is not None:
            # ``max(a, x or the least)``: a comparison that fails for NaN leaves ``a``, NaN or not
            a, b = em.value(e.a), em.value(counted)
            flags, beyond = types.lanes_of("i1", e.dtype.lanes), em.ins(f"fcmp ogt {t} {b}, {a}")
            return em.ins(f"select nsz {flags} {beyond}, {t} {b}, {t} {a}")
        a, b = em.value(e.a), em.value(e.b)
        constant = any(type(side) is Const for side in (lane_of(e.a), lane_of(e.b)))
        if em.element(e.dtype) != "half" and not constant:
            if extremes.of_many(e.a):
                out = extremes.of_tile(em, word, e.dtype, a, b, e.b)
            else:
                out = extremes.of_two(em, word, e.dtype, a, b)
        else:
            out = em.call(t, f"llvm.{word}imum.{suffix}", (t, b), (t, a), flags="nsz")
        if halves.is_one_of(em, a, b, out, e.dtype) and em.target.has_masks and e.dtype.lanes > 1:
            _note_chosen(em, word, e, a, b, out)
        return out
    sign = "s" if e.dtype.code == "int" else "u"
    return em.call(t, f"llvm.{sign}{word}.{suffix}", (t, em.value(e.a)), (t, em.value(e.b)))


def _number_of(e: Min | Max) -> Expr | None:
    """``x`` of ``max(a, select(x > -inf, x, -inf))``, what counts if it is a number."""
    b = e.b
    if type(e) is not Max or type(b) is not Select or type(b.cond) is not LT or b.cond.b is not b.a:
        return None
    low, least = lane_of(b.b), lane_of(b.cond.a)
    nothing = type(low) is Const and low.value == -math.inf and low is least
    return b.a if nothing else None


def _note_chosen(em: Emitter, word: str, e: Min | Max, a: str, b: str, out: str) -> None:
    """Say which of its operands an extreme of 16-bit floats is: the first where that is NaN."""
    x, y = (lane_of(side) for side in (e.a, e.b))
    if type(x) is Const:
        x, y, a, b = y, x, b, a
    vector, conds = em.type(e.dtype), f"<{e.dtype.lanes} x i1>"
    order = "gt" if word == "max" else "lt"
    if type(y) is Const and y.value == y.value:
        flags = em.ins(f"fcmp u{order} {vector} {a}, {b}")
    else:
        beyond, nan = em.ins(f"fcmp o{order} {vector} {a}, {b}"), em.ins(f"fcmp uno {vector} {a}, {a}")
        flags = em.ins(f"or {conds} {beyond}, {nan}")
    halves.chosen(em, (conds, flags), a, b, out, e.dtype, free=False)


_ORDER = {
    EQ: ("eq", "eq", "oeq"),
    NE: ("ne", "ne", "une"),
    LT: ("slt", "ult", "olt"),
    LE: ("sle", "ule", "ole"),
}


@rules.on(Compare)
def _compare(em: Emitter, e: Compare) -> str:
    signed, unsigned, ordered = _ORDER[type(e)]
    if pure_index(e.a) and pure_index(e.b):
        return em.ins(f"icmp {signed} i64 {em.index(e.a)}, {em.index(e.b)}")
    t = em.type(e.a.dtype)
    if e.a.dtype.is_float:
        return em.ins(f"fcmp {ordered} {t} {em.value(e.a)}, {em.value(e.b)}")
    found = _prefix(em, e) or _at_place(em, e) or _of_rows(em, e)
    if found is not None:
        return found
    word = signed if e.a.dtype.code == "int" else unsigned
    return em.ins(f"icmp {word} {t} {em.value(e.a)}, {em.value(e.b)}")


def _prefix(em: Emitter, e: Compare) -> str | None:
    """``ramp(base, 1) < x`` with scalar ``x``: the tail masks of loops. Compares 0, 1, 2 ... with the scalar
    ``x - base``, which is loop-invariant more often, never overflows, and needs only 32 bits a lane."""
    if (
        type(e) not in (LT, LE)
        or type(e.a) is not Ramp
        or type(e.b) is not Broadcast
        or const_int(e.a.stride) != 1
    ):
        return None
    if not (pure_index(e.a.base) and pure_index(e.b.value)):
        return None
    lanes = e.a.lanes
    room = em.index(make.add(make.sub(e.b.value, e.a.base), 1 if type(e) is LE else 0))
    if not room.startswith("%"):
        n = max(0, min(lanes, int(room)))
        return types.vector_literal("i1", [int(i < n) for i in range(lanes)])
    # cut to 0 … lanes before it is narrowed: a distance of 2^32 and more would come out as a small one
    room = em.call("i64", "llvm.smin.i64", ("i64", room), ("i64", str(lanes)))
    room = em.call("i64", "llvm.smax.i64", ("i64", room), ("i64", "0"))
    bits = _mask_bits(em, lanes)
    wide = em.splat(em.ins(f"trunc i64 {room} to i{bits}"), f"i{bits}", lanes)
    iota = types.vector_literal(f"i{bits}", list(range(lanes)))
    return em.ins(f"icmp ult <{lanes} x i{bits}> {iota}, {wide}")


def _at_place(em: Emitter, e: Compare) -> str | None:
    """Other comparisons of ``ramp(base, 1)`` with a scalar ``x``, as ``i == j`` of a diagonal, whose lanes
    fill several registers: of 0, 1, 2 ... with the place ``x - base`` among the lanes, a byte each.

    Measured (Zen 4, one thread): diagonals of bytes 0.45 of the time; of two bytes it would be 1.08, of four,
    which are one register, 1.22."""
    ramp, other = (e.a, e.b) if type(e.a) is Ramp else (e.b, e.a)
    if type(ramp) is not Ramp or type(other) is not Broadcast or const_int(ramp.stride) != 1:
        return None
    if _mask_bits(em, ramp.lanes) > 8:
        return None
    if not (pure_index(ramp.base) and pure_index(other.value)):
        return None
    lanes, alike = ramp.lanes, isinstance(e, EQ | NE)
    place = em.index(make.sub(other.value, ramp.base))
    if not place.startswith("%"):
        place = str(max(-1, min(lanes, int(place))))
    elif alike:  # to one lane too many, from both sides
        place = em.call("i64", "llvm.umin.i64", ("i64", place), ("i64", str(lanes)))
    else:
        place = em.call("i64", "llvm.smin.i64", ("i64", place), ("i64", str(lanes)))
        place = em.call("i64", "llvm.smax.i64", ("i64", place), ("i64", "-1"))
    narrow = em.ins(f"trunc i64 {place} to i8") if place.startswith("%") else place
    sides = [types.vector_literal("i8", list(range(lanes))), em.splat(narrow, "i8", lanes)]
    a, b = sides if ramp is e.a else sides[::-1]
    return em.ins(f"icmp {_ORDER[type(e)][0]} <{lanes} x i8> {a}, {b}")


def _of_rows(em: Emitter, e: Compare) -> str | None:
    """Comparisons of the rows that lanes are of with a scalar."""
    found = joined.by_element(e) if e.a.dtype.lanes > 1 else None
    before = None if found is None else _prefix(em, found[1])
    if found is None or before is None or found[0]:
        return before
    return em.ins(
        f"xor <{e.a.dtype.lanes} x i1> {before}, {types.splat_literal('true', 'i1', e.a.dtype.lanes)}"
    )


def _mask_bits(em: Emitter, lanes: int) -> int:
    """Bits a lane for computing a mask: those that make it one register, at most 32, so that it has the form
    its user needs."""
    bits = em.target.vector_bits // lanes
    return 32 if bits >= 32 or lanes > 127 else 16 if bits >= 16 else 8


@rules.on(And, Or)
def _logic(em: Emitter, e: And | Or) -> str:
    is_and = type(e) is And
    if branches(e) and e.dtype.lanes == 1:
        if is_and:
            return em.value(make.if_then_else(e.a, e.b, make.const(False)))
        return em.value(make.if_then_else(e.a, make.const(True), e.b))
    a, b = e.a, e.b
    if e.dtype.lanes > 1 and buffers_read(b):
        # all lanes compute both sides: the right one may read only where the left one has not decided
        a = _settled(em, a)
        b = guarded(em, b, a if is_and else _settled(em, make.not_(a)))
    return em.ins(f"{'and' if is_and else 'or'} {em.type(e.dtype)} {em.value(a)}, {em.value(b)}")


@rules.on(Not)
def _not(em: Emitter, e: Not) -> str:
    return em.ins(
        f"xor {em.type(e.dtype)} {em.value(e.a)}, {types.splat_literal('true', 'i1', e.dtype.lanes)}"
    )


@rules.on(Select)
def _select(em: Emitter, e: Select) -> str:
    if pure_index(e):
        return _cut(em, e)
    cond, a, b, t = (
        (em.type(e.cond.dtype), em.value(e.cond)),
        em.value(e.a),
        em.otherwise(e),
        em.type(e.dtype),
    )
    out = em.ins(f"select {cond[0]} {cond[1]}, {t} {a}, {t} {b}")
    halves.chosen(em, cond, a, b, out, e.dtype, free=True)
    return out


@rules.on(IfThenElse)
def _if_then_else(em: Emitter, e: IfThenElse) -> str:
    if pure_index(e):
        return _cut(em, e)
    # both sides are cheap and cannot fault: a select keeps the code straight
    if not linear.reads_data(e):
        return _select(em, e)  # type: ignore[arg-type]
    if e.cond.dtype.lanes > 1:
        if _reads_alike(em, e):
            return _select(em, e)  # type: ignore[arg-type]
        cond = _settled(em, e.cond)
        a = guarded(em, e.a, cond)
        if is_zero(e.b) and _zero_outside(a, _conjuncts(cond)):
            return em.value(a)
        return em.value(make.select(cond, a, guarded(em, e.b, _settled(em, make.not_(cond)))))
    return _branch(em, e)


def _reads_alike(em: Emitter, e: IfThenElse) -> bool:
    """Whether no lane is kept from reading anything, for both sides read the same, at once. Measured (Zen 5):
    argmax of 1000 open rows of 2 to 6 floats 0.6 to 0.7 of the time of gathers under masks."""
    if any(branches(x) for side in (e.a, e.b) for x in preorder(side)):
        return False
    return all(_harmless(em, x) for x in set(loads(e.a)) ^ set(loads(e.b)))


def uniform_apart(e: Expr) -> Expr:
    """What a copy stores, with conditions that are one for all lanes asked first, as branches: the rows of a
    margin then need no masks of their own, and those of its columns stay what they are from row to row. (In
    the midst of a tile of sums a branch would keep loads apart from what they are for.)"""
    if type(e) is not IfThenElse or e.cond.dtype.lanes == 1 or type(lane_of(e.b)) is not Const:
        return e
    a, conds = uniform_apart(e.a), _conjuncts(e.cond)
    uniform = [c.value for c in conds if type(c) is Broadcast]
    lanes = [c for c in conds if type(c) is not Broadcast]
    if not uniform or not lanes or buffers_read(e.cond):
        return e if a is e.a else make.if_then_else(e.cond, a, e.b)
    return make.if_then_else(conjunction(uniform), make.if_then_else(conjunction(lanes), a, e.b), e.b)


def is_zero(e: Expr) -> bool:
    scalar = lane_of(e)
    return type(scalar) is Const and str(scalar.value) in ("0", "0.0", "False")  # -0.0 has another bit


def _zero_outside(e: Expr, conds: list[Expr]) -> bool:
    """Whether lanes where not all of ``conds`` hold are 0 as they come: those that a load leaves out."""
    if type(e) is IfThenElse:
        return is_zero(e.b) and _zero_outside(e.a, conds)
    if type(e) is not Load or e.mask is None or e.mask.dtype.lanes == 1:
        return False
    asked = _conjuncts(e.mask)
    return all(any(c is m for m in asked) for c in conds)


def _branch(em: Emitter, e: IfThenElse) -> str:
    cond = em.value(e.cond)
    here = em.block
    done = em.function.block("endif")
    incoming = []
    labels = []
    for word, side in (("then", e.a), ("else", e.b)):
        start = em.function.block(word)
        labels.append(start.label)
        em.push(start, conditional=True)
        # computed in its own block; the side may end in another one, where it holds conditions itself
        operand = em.value(side)
        end = em.block
        end.end = f"  br label %{done.label}"
        incoming.append(f"[ {operand}, %{end.label} ]")
        em.pop(here)
    here.end = f"  br i1 {cond}, label %{labels[0]}, label %{labels[1]}"
    em.scopes[-1].block = done
    return em.ins(f"phi {em.type(e.dtype)} {', '.join(incoming)}")


def guarded(em: Emitter, e: Expr, cond: Expr) -> Expr:
    """The vector ``e`` for the lanes where the vector ``cond`` holds: memory is touched only there, but for
    what any lane may read. What the other lanes hold does not matter. ``cond`` reads no memory itself (see
    :func:`_settled`), so the masks it goes into do not grow without end."""
    wanted = _conjuncts(cond)
    done: dict[Expr, Expr] = {}

    def walk(e: Expr) -> Expr:
        if not buffers_read(e) or _harmless(em, e):
            return e
        result = done.get(e)
        if result is None:
            result = done[e] = change(e)
        return result

    def change(e: Expr) -> Expr:
        if e.dtype.lanes == 1:
            return _any_lane(e, cond)
        if type(e) is Broadcast:
            return make.broadcast(_any_lane(e.value, cond), e.lanes)
        if type(e) is not Load:
            kids = [walk(c) for c in e.children()]
            return (
                e.with_children(*kids)
                if any(a is not b for a, b in zip(kids, e.children(), strict=True))
                else e
            )
        if e in em.memo:
            return e  # read already, in the lanes that its own mask allows
        old = e.mask
        if old is not None and all(any(c is m for m in _conjuncts(old)) for c in wanted):
            return e
        if all(i.dtype.lanes == 1 for i in e.indices) and (old is None or old.dtype.lanes == 1):
            return make.broadcast(_any_lane(e, cond), cond.dtype.lanes)
        mask = cond if old is None else make.and_(cond, walk(make.broadcast(old, cond.dtype.lanes)))
        return load(
            e.buffer, tuple(walk(i) if i.dtype.lanes > 1 else _any_lane(i, cond) for i in e.indices), mask
        )

    return walk(e)


def _harmless(em: Emitter, e: Expr) -> bool:
    """Whether every read in ``e`` is inside its buffer in every lane, and no more than one of a vector: as
    good without a mask, and the same read for all conditions."""
    result = em.harmless.get(e)
    if result is None:
        if is_deep(e):
            ask_below(e, em.harmless.__contains__, lambda k: _harmless(em, k))
        result = em.harmless[e] = all([_harmless(em, c) for c in e.children()]) and (
            type(e) is not Load or _inside(em, e)
        )
    return result


def _inside(em: Emitter, e: Load) -> bool:
    if e.mask is not None or any(
        i.dtype.lanes > 1 and not (d == len(e.indices) - 1 and type(i) is Ramp and const_int(i.stride) == 1)
        for d, i in enumerate(e.indices)
    ):
        return False
    for i, n in zip(e.indices, e.buffer.shape, strict=True):
        (low, high), whole = index.interval(em, i), const_int(n)
        if low is None or high is None or whole is None or low < 0 or high >= whole:
            return False
    return True


def _settled(em: Emitter, cond: Expr) -> Expr:
    """A condition that guards others: itself when it reads nothing, else a variable that holds its value."""
    if not buffers_read(cond):
        return cond
    v = Var("lanes", cond.dtype)
    em.bind(v, em.value(cond), em.home(cond))
    return v


def _conjuncts(e: Expr) -> list[Expr]:
    return [*_conjuncts(e.a), *_conjuncts(e.b)] if type(e) is And else [e]


def _any_lane(e: Expr, cond: Expr) -> Expr:
    """A scalar that is needed only when some lane of ``cond`` holds."""
    if not buffers_read(e):
        return e
    return make.if_then_else(reduction("or", cond), e, make.const(False if e.dtype.is_bool else 0, e.dtype))


@rules.on(Cast)
def _cast(em: Emitter, e: Cast) -> str:
    if pure_index(e):
        return _cut(em, e)
    if is_exact(e):
        return em.value(e.a)
    if convert.rounds_at_once(em, e.a.dtype, e.dtype):
        rounded = _rounded_in(e.a)
        if rounded is not None:
            return convert.nearest(em, em.value(rounded), e.dtype)
        if type(e.a) is Add and convert.adds_at_once(em, e.dtype):
            for a, b in ((e.a.a, e.a.b), (e.a.b, e.a.a)):
                rounded, above = _rounded_in(a), _byte_in(lane_of(b))
                if rounded is not None and above is not None:
                    more = em.value(make.broadcast(above, e.dtype.lanes))
                    return convert.nearest_above(em, em.value(rounded), em.value(b), more, e.dtype)
    return convert.cast(em, em.value(e.a), e.a.dtype, e.dtype)


def _rounded_in(e: Expr) -> Expr | None:
    """What is rounded to the nearest whole number."""
    return e.args[0] if type(e) is Call and e.name == "nearbyint" else None


def _byte_in(e: Expr) -> Expr | None:
    """A float that is a number without a sign of 8 bits, as int32."""
    if type(e) is Cast and e.a.dtype.element == "uint8":
        return make.cast(INT32.with_lanes(e.dtype.lanes), e.a)
    known = type(e) is Const and e.value in range(256)
    return make.const(int(e.value), INT32) if known else None  # type: ignore[attr-defined]


@rules.on(Broadcast)
def _broadcast(em: Emitter, e: Broadcast) -> str:
    return em.splat(em.value(e.value), em.element(e.dtype), e.lanes)


@rules.on(Ramp)
def _ramp(em: Emitter, e: Ramp) -> str:
    element, t = em.element(e.dtype), em.type(e.dtype)
    step = const_int(e.stride)
    if step is not None:
        offsets = types.vector_literal(element, [e.dtype.wrap(step * i) for i in range(e.lanes)])
    else:
        iota = types.vector_literal(element, list(range(e.lanes)))
        offsets = em.ins(f"mul {t} {em.splat(em.value(e.stride), element, e.lanes)}, {iota}")
    if const_int(e.base) == 0:
        return offsets
    return em.ins(f"add {t} {em.splat(em.value(e.base), element, e.lanes)}, {offsets}")


rules.on(Packed)(packing.packed)
_REDUCE_INT = {"add": "add", "mul": "mul", "and": "and", "or": "or"}


@rules.on(Reduction)
def _reduction(em: Emitter, e: Reduction) -> str:
    t: DType = e.value.dtype
    vector, element = em.type(t), em.element(t)
    suffix = types.mangle(element, t.lanes)
    if (flags := packing.counted(em, e) or packing.first(em, e)) is not None:
        return flags
    operand = em.value(e.value)
    if t.is_float and e.op in ("add", "mul"):
        # -0 leaves every number as it is: 0 would make 0 of -0
        start = types.float_literal(-0.0 if e.op == "add" else 1.0, element)
        name = f"llvm.vector.reduce.f{e.op}.{suffix}"
        # without ``reassoc`` the lanes are added one after the other
        out = em.call(element, name, (element, start), (vector, operand), flags="reassoc contract")
        return convert.rounded(em, out, e.dtype)
    if t.is_float:
        return extremes.of_lanes(em, e.op, t, operand)
    if e.op in ("min", "max"):
        word = ("and" if e.op == "min" else "or") if t.is_bool else ("s" if t.code == "int" else "u") + e.op
    else:
        word = _REDUCE_INT[e.op]
    return em.call(element, f"llvm.vector.reduce.{word}.{suffix}", (vector, operand))
