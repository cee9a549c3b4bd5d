"""Columns of a block are read as its rows and transposed in registers.

``D[0] = S[ramp(0, 100, 8)]; D[1] = S[ramp(1, 100, 8)]; …`` reads eight far places for every vector. Four such
vectors side by side (two of 64-bit elements) are what eight short contiguous loads hold: shuffles within 128
bits make one of the other. This prepares the loads of a row of stores before they are asked for; it reads the
same elements and no others: a lane that is masked off, as behind the last row of a panel, has its elements
from a block of zeros. A condition that a row of stores shares, as that of the padding of a row of
pixels does, is asked once for all of them: nothing can be read together where each asks for itself. Knows no
statements but stores and conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...arith.conditions import conjunction, conjuncts
from ...expr import linear, make
from ...expr.nodes import LE, LT, Broadcast, Expr, IfThenElse, Ramp, const_int
from ...expr.walk import rewrite, variables
from ...loopir.stmt import Buffer, If, Load, Stmt, Store, load, loads, seq
from . import memory, shuffles, types
from .emitter import Emitter, buffers_read, of_lanes, read_in_lanes

_NEAR = 4  # elements apart up to which whole vectors are loaded and thinned out


def together(em: Emitter, stmts: tuple[Stmt, ...]) -> Sequence[Stmt]:
    """The statements, those that read at a distance under a condition they share in one ``If``."""
    if len(stmts) < 2:
        return stmts
    out: list[Stmt] = []
    row: list[Store] = []
    shared: list[Expr] = []

    def end() -> None:
        if len(row) < 2:
            out.extend(row)
            return
        sides = [_sides(s, shared) for s in row]
        out.append(If(conjunction(shared), seq(*[then for then, _ in sides]), seq(*[o for _, o in sides])))

    for s in stmts:
        asked = _asked(em, s)
        same = set(asked)
        left = [c for c in shared if c in same] if row else asked
        if not left:
            end()
            row, left = [], asked
        shared = left
        if asked:
            row.append(s)  # type: ignore[arg-type]
        else:
            out.append(s)
    end()
    return out


def _asked(em: Emitter, s: Stmt) -> list[Expr]:
    """The conditions, the same for all lanes, under which a store reads lanes that lie apart: of the first
    lanes of a vector, as behind the last row of a panel, that there is one of them."""
    if type(s) is not Store or type(s.value) is not IfThenElse:
        return []
    e = s.value
    if linear.reads_data(e.cond):
        return []
    if e.cond.dtype.lanes > 1 and (type(e.a) is not Load or e.a.mask is not None):
        return []
    asked = conjuncts(e.cond) if e.cond.dtype.lanes == 1 else _first_lane(e.cond)
    far = any(x.dtype.lanes > 1 and x.mask is None and _far(em, x) is not None for x in loads(e.a))
    return asked if far else []


def _first_lane(cond: Expr) -> list[Expr]:
    """The condition of the first lane, where no other one holds without it."""
    if not isinstance(cond, LT | LE) or type(cond.a) is not Ramp or type(cond.b) is not Broadcast:
        return []
    return [cond.with_children(cond.a.base, cond.b.value)] if (const_int(cond.a.stride) or 0) > 0 else []


def _sides(s: Store, known: Sequence[Expr]) -> tuple[Store, Store]:
    """The store where all of these hold, and where one does not."""
    e = s.value
    assert type(e) is IfThenElse
    if e.cond.dtype.lanes > 1:
        assert type(e.a) is Load
        read = load(e.a.buffer, e.a.indices, e.cond)  # as a masked one, of which nothing more is asked
        return tuple(Store(s.buffer, v, s.indices, s.mask) for v in (make.select(e.cond, read, e.b), e.b))  # type: ignore[return-value]
    dropped = set(known)
    rest = [c for c in conjuncts(e.cond) if c not in dropped]
    then = make.if_then_else(conjunction(rest), e.a, e.b) if rest else e.a
    return tuple(Store(s.buffer, value, s.indices, s.mask) for value in (then, e.b))  # type: ignore[return-value]


def rows(em: Emitter, stmts: Sequence[Stmt]) -> dict[int, list[Store]]:
    """Stores that follow one another, by the place of the first: one that reads at a distance what those
    before it write begins a row of its own."""
    found: dict[int, list[Store]] = {}
    row: list[Store] = []
    written: set[Buffer] = set()
    for at, s in enumerate(stmts):
        if type(s) is not Store:
            row = []
            continue
        late = any(e.buffer in written and _far(em, e) is not None for e in loads(s.value)) if row else True
        if late:
            row = found[at] = []
            written = set()
        row.append(s)
        written.add(s.buffer)
    return found


def prepare(em: Emitter, stmts: Sequence[Store]) -> None:
    """Read what a row of stores reads at a distance, as far as it makes up blocks. The values wait where
    loads are remembered."""
    if len(stmts) < 2 or em.target.vector_bits < 128:
        return
    written = {s.buffer for s in stmts}
    found: dict[tuple[Buffer, Expr, Expr, Expr | None, int], dict[int, Load]] = {}
    for s in stmts:
        value = s.value
        if all(e.dtype.lanes == 1 or e.buffer in written or _far(em, e) is None for e in loads(value)):
            continue
        for e in _evaluated(value):
            # what the row itself writes is not what its first load would see
            if e.buffer not in written and e not in em.memo:
                at = _far(em, e)
                if at is not None:
                    base, stride = at
                    terms = dict(linear.poly(base))
                    offset = terms.pop((), 0)
                    key = e.buffer, linear.from_poly(terms, base.dtype), stride, e.mask, em.home(e)
                    found.setdefault(key, {})[offset] = e
    for (buffer, base, stride, _, home), near in found.items():
        few = 16 // buffer.dtype.bytes
        rest = sorted(near)
        while rest:
            first = rest.pop(0)
            side = _side(em, near[first])
            square = [near[first + i] for i in range(side) if first + i in near]
            if square and [e.dtype.lanes for e in square] == [side] * side:
                _square(em, buffer, base, stride, first, square, home)
                rest = [o for o in rest if o >= first + side]
            elif all(first + i in near for i in range(few)):
                _block(em, buffer, base, stride, first, [near[first + i] for i in range(few)], home)
                rest = [o for o in rest if o >= first + few]


def _evaluated(root: Expr) -> Iterator[Load]:
    """The reads that are made for certain: not those in the sides of an ``if_then_else``, of which the other
    may be out of bounds, but for one in the lanes where its condition holds."""
    masked = read_in_lanes(root)
    if masked is not None:
        yield masked
    seen, stack = {root}, [root]
    while stack:
        e = stack.pop()
        if type(e) is Load and (e.mask is None or of_lanes(e.mask)):
            yield e
        for kid in reversed((e.cond,) if isinstance(e, IfThenElse) else e.children()):
            if kid not in seen:
                seen.add(kid)
                stack.append(kid)


def _far(em: Emitter, e: Load) -> tuple[Expr, Expr] | None:
    """Base and stride of lanes that lie apart and fill 128 bits."""
    t = e.dtype
    if t.lanes == 1 or t.lanes % (16 // t.bytes):
        return None
    flat = memory.flat_offset(em, e.buffer, e.indices)
    if type(flat) is not Ramp or flat.base.dtype.lanes != 1:
        return None
    step = const_int(flat.stride)
    return None if step is not None and abs(step) <= _NEAR else (flat.base, flat.stride)


def _block(
    em: Emitter, buffer: Buffer, base: Expr, stride: Expr, first: int, loads: list[Load], home: int
) -> None:
    """The vectors of loads that are neighbours: ``few`` elements of each lane are read together, and
    transposed.

    They are placed at their ``home``: an expression that reads them may itself be computed as far out as
    that."""
    em.at = home
    mask = loads[0].mask
    element = types.memory_element(buffer.dtype, em.target)
    few, lanes = len(loads), loads[0].dtype.lanes
    wide = min(em.target.vector_bits // 8 // buffer.dtype.bytes, lanes)
    short = f"<{few} x {element}>"
    made: list[list[str]] = [[] for _ in loads]
    for chunk in range(0, lanes, wide):
        rows = []
        for i in range(few):  # lane i of each 128 bits
            parts = []
            for lane in range(chunk + i, chunk + wide, few):
                at = make.add(make.add(base, make.mul(stride, lane)), first)
                place = memory.pointer(em, buffer, at)
                if mask is not None:
                    flag = _flag(em, mask, lane)
                    place = em.ins(f"select i1 {flag}, ptr {place}, ptr {_zeros(em)}")
                parts.append(em.ins(f"load {short}, ptr {place}, align {buffer.dtype.bytes}"))
            rows.append(shuffles.joined(em, parts, few, element))
        for column, value in zip(made, _transposed(em, rows, few, wide, element), strict=True):
            column.append(value)
    for e, column in zip(loads, made, strict=True):
        em.remember(
            em.memo,
            e,
            memory.from_memory(em, shuffles.joined(em, column, wide, element), e.dtype),
            home,
            buffers_read(e),
        )
    em.at = em.depth


def _side(em: Emitter, e: Load) -> int:
    """How many neighbouring vectors of lanes that lie apart make up a square that was stored in whole
    registers; 0 where it is not there, or in memory."""
    t, room = e.dtype, em.storage[e.buffer].on_stack
    if (
        room is None
        or e.mask is not None
        or not 32 <= t.lanes * t.element.bytes <= em.target.vector_bits // 8
    ):
        return 0
    return t.lanes


def _square(
    em: Emitter, buffer: Buffer, base: Expr, stride: Expr, first: int, loads: list[Load], home: int
) -> None:
    """The vectors of loads that are the columns of a square: its rows are whole registers, which are
    transposed within 128 bits and then by pieces of so many. Pieces that are taken out of registers, and put
    together again, are twice as many instructions. Measured (Zen 5): 10,000 of int32 are sorted in 0.7 of the
    time."""
    em.at = home
    element = types.memory_element(buffer.dtype, em.target)
    lanes, few = len(loads), 16 // buffer.dtype.bytes
    rows = []
    for lane in range(lanes):
        place = memory.pointer(em, buffer, make.add(make.add(base, make.mul(stride, lane)), first))
        rows.append(em.ins(f"load <{lanes} x {element}>, ptr {place}, align {buffer.dtype.bytes}"))
    groups = [_transposed(em, rows[at : at + few], few, lanes, element) for at in range(0, lanes, few)]
    for column in range(few):
        pieces = [group[column] for group in groups]
        for piece, value in enumerate(_by_pieces(em, pieces, lanes, few, element)):
            e = loads[piece * few + column]
            made = memory.from_memory(em, value, e.dtype)
            em.remember(em.memo, e, made, home, buffers_read(e))
    em.at = em.depth


def _by_pieces(em: Emitter, rows: list[str], lanes: int, few: int, element: str) -> list[str]:
    """The transpose of a square of pieces of ``few`` elements: the even pieces of two rows, and the odd ones,
    again and again."""
    if len(rows) == 1:
        return rows
    vector = f"<{lanes} x {element}>"
    sides = []
    for odd in (0, few):
        order = [at + k for at in range(odd, 2 * lanes, 2 * few) for k in range(few)]
        picked = types.vector_literal("i32", order)
        pairs = [
            em.ins(f"shufflevector {vector} {a}, {vector} {b}, <{lanes} x i32> {picked}")
            for a, b in zip(rows[::2], rows[1::2], strict=True)
        ]
        sides.append(_by_pieces(em, pairs, lanes, few, element))
    return [column for pair in zip(*sides, strict=True) for column in pair]


def _flag(em: Emitter, mask: Expr, lane: int) -> str:
    """The mask of one lane: asked as a scalar, where it is a comparison."""
    if all(v.dtype.lanes == 1 for v in variables(mask)):
        return em.value(rewrite(mask, lambda e: _in_lane(e, lane)))
    lanes = mask.dtype.lanes
    return em.ins(f"extractelement {types.lanes_of('i1', lanes)} {em.value(mask)}, i32 {lane}")


def _in_lane(e: Expr, lane: int) -> Expr | None:
    if type(e) is Ramp:
        return make.add(e.base, make.mul(e.stride, make.const(lane, e.stride.dtype)))
    return e.value if type(e) is Broadcast else None


def _zeros(em: Emitter) -> str:
    """The address of 128 bits of zeros."""
    name = "@.zeros"
    em.module.records.setdefault(name, f"{name} = private constant [4 x i32] zeroinitializer, align 16")
    return name


def _transposed(em: Emitter, rows: list[str], few: int, wide: int, element: str) -> list[str]:
    """The transposes of all blocks of 128 bits: to interleave the first half of the rows with the second,
    log2 ``few`` times."""
    half = few // 2
    low, high = (
        tuple(
            i
            for pair in zip(range(at, at + half), range(few + at, few + at + half), strict=True)
            for i in pair
        )
        for at in (0, half)
    )
    for _ in range(half.bit_length()):
        rows = [
            _shuffled(em, a, b, pick, wide, element)
            for a, b in zip(rows[:half], rows[half:], strict=True)
            for pick in (low, high)
        ]
    return rows


def _shuffled(em: Emitter, a: str, b: str, pick: tuple[int, ...], wide: int, element: str) -> str:
    """The same choice of elements from each 128 bits of two vectors."""
    few = len(pick)
    order = [(p if p < few else p - few + wide) + at for at in range(0, wide, few) for p in pick]
    return em.ins(
        f"shufflevector <{wide} x {element}> {a}, <{wide} x {element}> {b}, <{wide} x i32> "
        f"{types.vector_literal('i32', order)}"
    )
