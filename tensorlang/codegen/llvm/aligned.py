"""Loops that do little but write elements in order: their vectors begin on boundaries of memory's lines.

An array of numpy that is large begins 16 bytes behind a boundary, and a vector of 64 bytes that is stored
there crosses two lines each time: a tenth of the time of a sum of two arrays that the second or third cache
holds. So the loop begins a few elements further on, at the next boundary, and runs one iteration less; what
it leaves out at both ends is the first and the last vector, which are computed before it, from what memory
holds then (the result may be one of the operands), and stored after it. How far it is to the boundary is
looked up at run time, from the address: of what is written, or of what is read where that is much more.

Knows loops, expressions and addresses; ``statement`` says what a loop is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...core.recursion import Steps
from ...expr import make
from ...expr.linear import poly, split_by_atom
from ...expr.nodes import (
    Binary,
    Broadcast,
    Call,
    Cast,
    Choice,
    Expr,
    Min,
    Not,
    Ramp,
    Var,
    const_int,
    is_const,
)
from ...expr.walk import preorder, rewrite, substitute, variables
from ...loopir.stmt import Buffer, Load, Stmt, Store, map_exprs
from . import memory, types
from .emitter import Emitter
from .expression import uniform_apart
from .mathlib import ROWS

LINE = 64  # bytes
LEAST = 32  # of a vector that is worth it: shorter ones cross a line more seldom
LONG = 64  # iterations from which on the vectors at the ends cost nothing
# times as wide as what is written, from which on what is read lies on boundaries. Measured (Zen 4):
# comparisons of float64 0.82 to 0.93 of the time, float32 of float64 1.04
WIDER = 4
FEW = 8  # operations on an element: more take longer than its way to memory
Repeated = Callable[..., Steps[None]]


@dataclass(frozen=True)
class Elements:
    """A loop that writes a vector in each iteration, the next to that of the one before: the ``store``; the
    buffers that are gone through at the same pace, ``moving``; where ``lined`` begins on a boundary, what is
    written or what is read; the first iteration that is something else, ``past``, None where there is none,
    and what it and those behind it are, ``rest``."""

    store: Store
    moving: tuple[Buffer, ...]
    lined: Store | Load
    past: Expr | None = None
    rest: Stmt | None = None


def elements(em: Emitter, var: Var, count: int | None, body: Stmt) -> Elements | None:
    """What a loop of ``count`` iterations is, None for one that had better begin where it does: a short one,
    and in another loop one of an open length, which may be."""
    if em.depth if count is None else count < (2 * LONG if em.depth else LONG):
        return None
    past, rest = None, None
    if type(body) is Store:
        ahead = _before_shift(var, body)
        if ahead is not None:
            rest, (body, past) = body, ahead
    if not isinstance(body, Store):
        return None
    moving = _moving(em, var, body)
    return None if moving is None else Elements(body, moving, _lined(em, body), past, rest)


def _lined(em: Emitter, s: Store) -> Store | Load:
    """What had better lie on boundaries: what is written, or what is read of it where that is much more."""
    width = s.buffer.dtype.bytes * WIDER
    wide = (e for e in preorder(s.value) if type(e) is Load and e.buffer.dtype.bytes >= width)
    return next((e for e in wide if type(memory.flat_offset(em, e.buffer, e.indices)) is Ramp), s)


def _before_shift(var: Var, s: Store) -> tuple[Store, Expr] | None:
    """Of a row whose last vector overlaps the one before, at ``min(16 * i, 984)``: the store as it is before
    that vector, and the iteration of the vector."""
    found = (x for e in s.exprs() for x in preorder(e))
    shifts = dict.fromkeys(x for x in found if isinstance(x, Min) and var in variables(x))
    if len(shifts) != 1:
        return None
    (shift,) = shifts
    each, rest = split_by_atom(poly(shift.a), var)
    lanes, most = each.get((), 0), const_int(shift.b)
    if rest or list(each) != [()] or lanes <= 0 or most is None:
        return None
    done: dict[Expr, Expr] = {}
    plain = map_exprs(s, lambda e: rewrite(e, lambda x: shift.a if x is shift else None, done))
    assert type(plain) is Store
    return plain, make.const(most // lanes + 1, var.dtype)


def _moving(em: Emitter, var: Var, s: Store) -> tuple[Buffer, ...] | None:
    """The buffers that such a loop goes through; None for another loop."""
    lanes, width = s.value.dtype.lanes, s.value.dtype.lanes * s.buffer.dtype.bytes
    if s.mask is not None or s.buffer in em.streamed or not LEAST <= width <= LINE or LINE % width:
        return None
    place = memory.flat_offset(em, s.buffer, s.indices)
    if not follows(place, var, lanes):
        return None
    moving, standing, operations = {s.buffer: None}, set[Buffer](), 0
    for e in preorder(s.value, lambda e: () if type(e) is Load else e.children()):
        if type(e) is not Load:
            if e is var or not _each_lane_alike(e):
                return None
            operations += e.dtype.lanes > 1
        elif var not in variables(e):
            if e.mask is not None or not all(i.dtype.lanes == 1 or type(i) is Broadcast for i in e.indices):
                return None  # of the lane, and so of the place: a channel's number, where channels are last
            standing.add(e.buffer)
        else:
            at = memory.flat_offset(em, e.buffer, e.indices)
            same = e.buffer is not s.buffer or at is place
            if e.mask is not None or not same or not follows(at, var, lanes):
                return None
            moving[e.buffer] = None
    return tuple(moving) if operations <= FEW and standing.isdisjoint(moving) else None


def _each_lane_alike(e: Expr) -> bool:
    """Whether a node does the same in each lane, whatever place that is of, and may be computed twice."""
    if isinstance(e, Call):
        return type(e) is Call and e.name in ROWS and ROWS[e.name].short
    return e.dtype.lanes == 1 or isinstance(e, Binary | Not | Choice | Cast | Broadcast)


def follows(at: Expr, var: Var, lanes: int) -> bool:
    """Whether a vector lies in a row, behind that of the iteration before."""
    if type(at) is not Ramp or at.dtype.lanes != lanes or not is_const(at.stride, 1):
        return False
    each, rest = split_by_atom(poly(at.base), var)
    return each == {(): lanes} and all(var not in variables(atom) for mono in rest for atom in mono)


def emit(
    em: Emitter,
    it: Elements,
    var: Var,
    begin: str,
    end: str,
    bounds: tuple[int | None, int | None],
    repeated: Repeated,
) -> Steps[None]:
    """``for var in begin .. end - 1``, the loop that ``it`` is; ``repeated`` emits one as it stands."""
    em.at = em.depth
    behind = end
    if it.past is not None:
        least = em.call("i64", "llvm.smin.i64", ("i64", em.index(it.past)), ("i64", end))
        end = em.call("i64", "llvm.smax.i64", ("i64", least), ("i64", begin))
    here, some, done = em.block, em.function.block("some"), em.function.block("written")
    here.end = f"  br i1 {em.ins(f'icmp slt i64 {begin}, {end}')}, label %{some.label}, label %{done.label}"
    em.push(some, conditional=True, written=frozenset((it.store.buffer,)))
    last = em.ins(f"sub nsw i64 {end}, 1")
    ends = [_vector(em, it.store, var, at, bounds) for at in (begin, last)]
    first = ends[0][0] if it.lined is it.store else place(em, it.lined, var, begin, bounds)
    further = _to_boundary(em, it.lined, first, em.ins(f"sub nsw i64 {end}, {begin}"))
    before = {b: em.storage[b] for b in it.moving}
    for b, there in before.items():
        element = types.memory_element(b.dtype, em.target)
        moved = em.ins(f"getelementptr {element}, ptr {there.pointer}, i64 {further}")
        em.storage[b] = replace(there, pointer=moved, depth=em.depth, on_stack=None)
    yield repeated(em, var, begin, last, bounds, False, it.store)
    em.storage.update(before)
    em.at = em.depth
    for address, operand in ends:
        memory.store_row(em, it.store.buffer, address, it.store.value.dtype.lanes, operand, None)
    em.forget(it.store.buffer)
    em.block.end = f"  br label %{done.label}"
    em.pop(done)
    if it.rest is not None:
        yield repeated(em, var, end, behind, bounds, False, it.rest)


def _vector(
    em: Emitter, s: Store, var: Var, at: str, bounds: tuple[int | None, int | None]
) -> tuple[Expr, str]:
    """Where the vector of iteration ``at`` belongs, and the operand that holds it."""
    own = Var(var.name, var.dtype, var.kind)
    em.bind(own, at, em.depth, *bounds)
    value = uniform_apart(substitute(s.value, {var: own}))
    place = _offset(em, s, var, own)
    em.at = em.depth
    return place, memory.to_memory(em, em.value(value), value.dtype)


def place(em: Emitter, s: Store | Load, var: Var, at: str, bounds: tuple[int | None, int | None]) -> Expr:
    """Where the vector of iteration ``at`` begins."""
    own = Var(var.name, var.dtype, var.kind)
    em.bind(own, at, em.depth, *bounds)
    return _offset(em, s, var, own)


def _offset(em: Emitter, s: Store | Load, var: Var, own: Var) -> Expr:
    place = memory.flat_offset(em, s.buffer, tuple(substitute(i, {var: own}) for i in s.indices))
    assert type(place) is Ramp
    return place.base


def _to_boundary(em: Emitter, s: Store | Load, first: Expr, count: str) -> str:
    """The elements from the first one to the next boundary; 0 where the loop is short."""
    each = s.buffer.dtype.bytes
    lanes = (s.value if isinstance(s, Store) else s).dtype.lanes
    mask = min(LINE, lanes * each) - 1
    address = em.ins(f"ptrtoint ptr {memory.pointer(em, s.buffer, first)} to i64")
    bytes_ = em.ins(f"and i64 {em.ins(f'sub i64 0, {address}')}, {mask}")
    long = em.ins(f"icmp sge i64 {count}, {LONG}")
    return em.ins(f"select i1 {long}, i64 {em.ins(f'udiv i64 {bytes_}, {each}')}, i64 0")
