"""Accumulators in memory become registers for the duration of a loop: loop IR into loop IR, before any text
is written.

``for k: C[i, j] = C[i, j] + …`` reads and writes memory at each iteration, because LLVM's passes that know
better are not run. Where a loop touches a buffer only at places that do not move with it, and surely writes
each of them, the places are read into small local buffers in front of the loop and written back behind it.
Those become registers, like the local buffers of a schedule.

It is done for the outermost loop that allows it, and for a row of stores that write the same places again.
Nothing is done across parallel loops, or where two places might overlap.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from ...core.recursion import Steps, run
from ...expr import linear, make
from ...expr.nodes import Broadcast, Const, Expr, Ramp, const_int
from ...expr.walk import variables
from ...loopir.relocate import Place, relocate
from ...loopir.stmt import (
    PARALLEL,
    Alloc,
    Buffer,
    Extern,
    For,
    Func,
    If,
    Let,
    Seq,
    Stmt,
    Store,
    load,
    loads,
    preorder,
    rebuilt,
    seq,
)
from . import joined, tiles

MOST_PLACES = 64  # of one buffer: more would not fit registers anyhow

Where = tuple[tuple[Expr, ...], "Expr | None"]  # indices and mask


@dataclass
class _Uses:
    """What a loop body does with one buffer."""

    places: dict[Where, int] = field(default_factory=dict)  # with the number of lanes
    sure: set[Where] = field(default_factory=set)  # written in every iteration
    allowed: bool = True


def promote(func: Func) -> Func:
    """The rewrite."""
    return func.with_body(run(_walk(func.body)))


def _walk(s: Stmt) -> Steps[Stmt]:
    if type(s) is For and tiles.noted(s):
        return s  # its sums are held in registers of another kind
    if type(s) is For and s.kind != PARALLEL:
        changed = yield _promote_loop(s)
        if changed is not None:
            return changed
    if type(s) is Seq:
        changed = _promote_row(s)
        if changed is not None:
            return changed
    new = []
    for p in s.parts():
        new.append((yield _walk(p)))
    return rebuilt(s, new)


def _promote_loop(s: For) -> Steps[Stmt | None]:
    slots = _slots(s.body, {id(s.var)})
    if not slots:
        return None
    inner = yield _walk(_replace(s.body, slots))
    body = _between(For(s.var, s.begin, s.extent, s.kind, inner, s.attrs), slots)
    extent = const_int(s.extent)
    if extent is None:
        # without an iteration nothing may be read or written, and the places may not even be inside the
        # buffer
        body = If(make.lt(make.const(0, s.extent.dtype), s.extent), body)
    return _allocated(body, slots)


def _promote_row(s: Seq) -> Stmt | None:
    """Unrolled iterations that add to the same places: what all but the last of them would store is
    overwritten."""
    stored = [(one.buffer, one.indices) for one in s.stmts if type(one) is Store]
    if len(stored) < len(s.stmts) or len(set(stored)) == len(stored):
        return None
    slots = _slots(s, set())
    return _allocated(_between(_replace(s, slots), slots), slots) if slots else None


def _slots(body: Stmt, bound: set[int]) -> dict[Buffer, dict[Where, Buffer]]:
    """A small buffer for each place of the buffers that may live in registers while ``body`` runs. ``bound``:
    variables that change."""
    stores = []
    for node in preorder(body):
        kind = type(node)
        if kind is Store:
            stores.append(node)
        elif kind is For:
            # registers belong to one thread
            if node.kind == PARALLEL:  # type: ignore[attr-defined]
                return {}
            bound.add(id(node.var))  # type: ignore[attr-defined]
        elif kind is Let:
            bound.add(id(node.var))  # type: ignore[attr-defined]
    wanted = _settled(stores, bound)  # type: ignore[arg-type]
    if not wanted:
        return {}
    uses: dict[Buffer, _Uses] = {}
    run(_collect(body, uses, True, bound, wanted))
    slots: dict[Buffer, dict[Where, Buffer]] = {}
    for b, u in uses.items():
        if (
            u.allowed
            and u.sure
            and len(u.places) <= MOST_PLACES
            # a place that is only read, or only perhaps written, would be written back where the program did
            # not write it: a race, if another thread does
            and set(u.places) == u.sure
            and _disjoint(b, u.places)
        ):
            slots[b] = {
                w: Buffer(f"{b.name}.reg", b.dtype, (make.const(n, "int32"),), "local")
                for w, n in u.places.items()
            }
    return slots


def _settled(stores: list[Store], bound: set[int]) -> frozenset[Buffer]:
    """The buffers that are written, at places only that do not move and that are not registers already: no
    others can be kept, and what reads them need not be looked at. Most loops are turned down by that."""
    fixed: dict[Buffer, bool] = {}
    for s in stores:
        if fixed.get(s.buffer, True):
            fixed[s.buffer] = not _in_register(s.buffer, s.indices) and not any(
                id(v) in bound for i in s.indices for v in variables(i)
            )
    return frozenset(b for b, still in fixed.items() if still)


def _in_register(b: Buffer, indices: tuple[Expr, ...]) -> bool:
    """Whether that is an element of a buffer of the kernel's own that LLVM knows by its number."""
    return b.scope != "arg" and all(
        type(i) is Const or (type(i) is Ramp and type(i.base) is Const) for i in indices
    )


def _between(inner: Stmt, slots: dict[Buffer, dict[Where, Buffer]]) -> Stmt:
    """``inner``, with the slots filled in front of it and written back behind it."""
    before: list[Stmt] = []
    after: list[Stmt] = []
    for b, places in slots.items():
        for (indices, mask), slot in places.items():
            at = _slot_index(slot)
            before.append(Store(slot, load(b, indices, mask), at))
            after.append(Store(b, load(slot, at), indices, mask))
    return seq(*before, inner, *after)


def _allocated(body: Stmt, slots: dict[Buffer, dict[Where, Buffer]]) -> Stmt:
    for places in slots.values():
        for slot in places.values():
            body = Alloc(slot, body)
    return body


def _slot_index(slot: Buffer) -> tuple[Expr, ...]:
    lanes = const_int(slot.shape[0]) or 1
    return (make.ramp(make.const(0, "int32"), 1, lanes),)


def _collect(
    s: Stmt, uses: dict[Buffer, _Uses], sure: bool, bound: set[int], wanted: frozenset[Buffer]
) -> Steps[None]:
    for e in s.exprs():
        for node in [n for n in loads(e) if n.buffer in wanted]:
            _use(uses, node.buffer, node.indices, node.mask, node.dtype.lanes, False, bound)
    kind = type(s)
    if kind is Store and s.buffer in wanted:  # type: ignore[attr-defined]
        lanes = max([s.value.dtype.lanes, *(i.dtype.lanes for i in s.indices)])  # type: ignore[attr-defined]
        _use(uses, s.buffer, s.indices, s.mask, lanes, sure, bound)  # type: ignore[attr-defined]
    # its own life lies inside the loop: there is nothing to read ahead of it
    elif kind is Alloc:
        uses.setdefault(s.buffer, _Uses()).allowed = False  # type: ignore[attr-defined]
    elif kind is Extern:  # code of others reads and writes memory, not registers
        for b in s.buffers():  # type: ignore[attr-defined]
            uses.setdefault(b, _Uses()).allowed = False
    # a store under a condition is not sure to happen
    elif kind is If:
        sure = False
    elif kind is For:
        extent = const_int(s.extent)  # type: ignore[attr-defined]
        sure = sure and extent is not None and extent > 0
    for p in s.parts():
        yield _collect(p, uses, sure, bound, wanted)


def _use(
    uses: dict[Buffer, _Uses],
    b: Buffer,
    indices: tuple[Expr, ...],
    mask: Expr | None,
    lanes: int,
    sure: bool,
    bound: set[int],
) -> None:
    u = uses.setdefault(b, _Uses())
    if not u.allowed:
        return
    where = (indices, mask)
    if where not in u.places:
        parts = indices if mask is None else (*indices, mask)
        fixed = all(not linear.reads_data(p) and not any(id(v) in bound for v in variables(p)) for p in parts)
        if (
            not fixed
            or _in_register(b, indices)
            or _offset(b, indices) is None
            or (mask is not None and mask.dtype.lanes != lanes)
        ):
            u.allowed = False
            return
        u.places[where] = lanes
    # the same first element, but more or fewer of them: the two overlap in part
    elif u.places[where] != lanes:
        u.allowed = False
    if sure:
        u.sure.add(where)


def _offset(b: Buffer, indices: tuple[Expr, ...]) -> Expr | None:
    """The element offset of the first lane; None when the lanes are not one element after the other."""
    flat = joined.offset(b, indices)
    if type(flat) is Ramp:
        return flat.base if const_int(flat.stride) == 1 else None
    return None if type(flat) is Broadcast or flat.dtype.lanes > 1 else flat


def _disjoint(b: Buffer, places: dict[Where, int]) -> bool:
    """Whether no two of the places overlap, for sure: they are a constant number of elements apart."""
    if len(places) == 1:
        return True
    first = _offset(b, next(iter(places))[0])
    assert first is not None
    spans = []
    for (indices, _), lanes in places.items():
        at = _offset(b, indices)
        assert at is not None
        apart = const_int(make.sub(at, first))
        if apart is None:
            return False
        spans.append((apart, lanes))
    # all are the same distance from the first, so neighbours in order are the only ones that can overlap
    spans.sort()
    return all(at + n <= following for (at, n), (following, _) in itertools.pairwise(spans))


def _replace(s: Stmt, slots: dict[Buffer, dict[Where, Buffer]]) -> Stmt:
    def place(at: Place) -> Place | None:
        if at.buffer not in slots:
            return None
        slot = slots[at.buffer][(at.indices, at.mask)]
        return Place(slot, _slot_index(slot), at.mask)

    def stored(at: Place) -> Place | None:
        new = place(at)
        return new and new._replace(mask=None)  # lanes that are masked off are never seen again

    return relocate(s, place, stored)
