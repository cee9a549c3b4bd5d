"""Minima and maxima of floats, of two vectors and of the lanes of one, NaN if a number is. Knows expressions,
no statements.

x86's own instruction gives the second of its operands where one of them is NaN; which one was, somebody has
to ask.
"""

from __future__ import annotations

import math

from ...core.dtype import DType
from ...expr.nodes import Expr, const_int
from ...loopir.stmt import Buffer, Load, loads
from . import shuffles, types
from .emitter import Emitter

MANY = 8  # vectors of a tile
_BITS = {"float": 32, "double": 64}


def of_many(e: Expr) -> bool:
    """Whether ``e`` is one of the vectors of a tile that is reduced: there are others to work on while it is
    asked about, and it stays in its register."""
    if type(e) is not Load or e.buffer.scope != "local":
        return False
    sizes = [const_int(n) for n in e.buffer.shape]
    return None not in sizes and math.prod(sizes) >= MANY * e.dtype.lanes  # type: ignore[arg-type]


def of_two(em: Emitter, word: str, t: DType, a: str, b: str, *, fixed: bool = True) -> str:
    """The minimum or maximum. x86's instruction gives ``a`` where a number is NaN; where that is ``b``, it is
    put in the place of the result, if ``fixed`` by an instruction that looks for it, where that is quick.
    Otherwise the result of a masked one stays ``b``: two instructions, and three where LLVM may choose."""
    vector = em.type(t)
    if t.lanes == 1 or not em.target.has_masks:
        name = f"llvm.{word}imum.{types.mangle(em.element(t), t.lanes)}"
        return em.call(vector, name, (vector, b), (vector, a), flags="nsz")
    conds = f"<{t.lanes} x i1>"
    beyond = em.ins(f"fcmp {'ogt' if word == 'max' else 'olt'} {vector} {b}, {a}")
    found = em.ins(f"select nsz {conds} {beyond}, {vector} {b}, {vector} {a}")
    if fixed and em.target.fixes_floats and (width := _register(em, t)):
        return _fixed(em, t, width, found, b)
    number = em.ins(f"fcmp ord {vector} {b}, {b}")
    return em.ins(f"select {conds} {number}, {vector} {found}, {vector} {b}")


def of_tile(em: Emitter, word: str, t: DType, a: str, b: str, read: Expr) -> str:
    """The same with ``a``, a vector of a tile, which is asked about: what is ``read`` is no instruction of
    its own then. Under a mask that waits for ``a`` it is read late. What comes from memory has to be asked
    for early; what a cache holds takes longer that way. Measured (Zen 5, one thread), the largest of 256
    columns beside a mask: 41 MB 0.48 of the time, 24 MB 0.41, 16 MB 0.9, 8 MB 1.06, 2 MB 1.13, 0.4 MB 1.5."""
    return of_two(em, word, t, b, a, fixed=_from_memory(em, read))


def _from_memory(em: Emitter, e: Expr) -> bool:
    """Whether what is read is so much that no cache holds it for long."""
    return any(2 * _bytes_of(x.buffer) >= em.target.l3_bytes for x in loads(e))


def _bytes_of(b: Buffer) -> int:
    """Of a buffer; 0 where nobody knows."""
    return math.prod(const_int(n) or 0 for n in b.shape) * b.dtype.element.bytes


def _register(em: Emitter, t: DType) -> int:
    """The bits of registers that hold a vector; 0 where some of the last one's would be left."""
    bits = t.lanes * _BITS.get(em.element(t), 0)  # of half floats as they are computed with
    return 0 if bits == 0 or bits & (bits - 1) else max(128, min(bits, em.target.vector_bits))


def _fixed(em: Emitter, t: DType, width: int, found: str, b: str) -> str:
    """``found``, but ``b`` where that is NaN: no register of masks, of which there are few, so that more can
    be read before the first of it has come. Measured (Zen 5, one thread), the largest of columns that come
    from memory: 16,384 × 1024 and 8000 × 2000 0.8 of the time of a comparison; of 1000 rows of 40 0.75."""
    element = em.element(t)
    bits = _BITS[element]
    lanes, whole = width // bits, f"i{bits}"
    vector = types.lanes_of(element, lanes)
    name = f"llvm.x86.avx512.mask.fixupimm.p{'s' if bits == 32 else 'd'}.{width}"
    # four bits for each class of number: NaN of both kinds, the first two, is taken, the others are not
    table = (types.lanes_of(whole, lanes), types.vector_literal(whole, [0x11] * lanes))
    rest = [("i32", "0"), (f"i{max(lanes, 8)}", "-1"), *([("i32", "4")] if width == 512 else [])]
    n = max(t.lanes, lanes)  # half of the smallest register is one too
    given, made = [shuffles.resized(em, x, t.lanes, n, element) for x in (found, b)], []
    for at in range(0, n, lanes):
        one, other = (shuffles.part(em, x, n, at, lanes, element) for x in given)
        made.append(em.call(vector, name, (vector, one), (vector, other), table, *rest))
    return shuffles.resized(em, shuffles.joined(em, made, lanes, element), n, t.lanes, element)


def of_lanes(em: Emitter, word: str, t: DType, operand: str) -> str:
    """The minimum or maximum of all lanes of a vector of type ``t``, NaN if one of them is."""
    element = em.element(t)
    halved = element != "half" and t.lanes & (t.lanes - 1) == 0
    while halved and t.lanes > 2 and not _is_register(em, t):
        # by halves: LLVM takes the last four lanes one after the other
        t = t.with_lanes(t.lanes // 2)
        operand = of_two(em, word, t, *_halves(em, t, operand))
    if halved and _is_register(em, t):
        return _of_register(em, word, t, operand)
    name = f"llvm.vector.reduce.f{word}imum.{types.mangle(element, t.lanes)}"
    return em.call(element, name, (em.type(t), operand), flags="nsz")


def _halves(em: Emitter, t: DType, operand: str) -> list[str]:
    """The two vectors of type ``t`` that one of twice its lanes is made of."""
    n = t.lanes
    return [shuffles.part(em, operand, 2 * n, at, n, em.element(t)) for at in (0, n)]


def _is_register(em: Emitter, t: DType) -> bool:
    """Whether comparisons of so many lanes are one register of bits, which is asked as a whole."""
    bits = t.lanes * _BITS[em.element(t)]
    return em.target.has_masks and t.lanes >= 4 and bits <= em.target.vector_bits


def _of_register(em: Emitter, word: str, t: DType, operand: str) -> str:
    """The minimum or maximum of the lanes of a register, NaN if one of them is: all are asked for that at
    once, beside the comparisons of halves, each of which would wait for the answer of the one before."""
    element, vector, conds = em.element(t), em.type(t), f"<{t.lanes} x i1>"
    nan = em.ins(f"fcmp uno {vector} {operand}, {operand}")
    some = em.call("i1", f"llvm.vector.reduce.or.v{t.lanes}i1", (conds, nan))
    order = "ogt" if word == "max" else "olt"
    while t.lanes > 1:
        t = t.with_lanes(t.lanes // 2)
        if t.lanes > 1:
            low, high = _halves(em, t, operand)
        else:
            low, high = (
                em.ins(f"extractelement {em.type(t.with_lanes(2))} {operand}, i32 {i}") for i in (0, 1)
            )
        part, bits = em.type(t), f"<{t.lanes} x i1>" if t.lanes > 1 else "i1"
        further = em.ins(f"fcmp {order} {part} {high}, {low}")
        operand = em.ins(f"select nsz {bits} {further}, {part} {high}, {part} {low}")
    return em.ins(
        f"select i1 {some}, {element} {types.float_literal(math.nan, element)}, {element} {operand}"
    )
