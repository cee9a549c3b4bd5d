"""dead code: what nobody reads is not computed. Stores to buffers, or to parts of them, that are never read;
buffers, values, loops and tests that are left with nothing to do.

``t: float32[2] local; for k: t[0] = t[0] + A[k]; t[1] = t[1] + B[k]`` then ``C[i] = t[0]`` → the sum into
``t[1]`` is gone

Where all indices of a buffer are constants, as in unrolled tiles, each element is judged by itself: a row of
a tile that a version for fewer rows does not write back costs nothing. Reading an element to update it does
not keep it alive. Of a vector whose last lanes nobody reads the first ones are left.
"""

from __future__ import annotations

from operator import is_

from ..core.recursion import Steps, run
from ..expr import make
from ..expr.nodes import READS, Const, Expr, Ramp, Var, const_int
from ..expr.walk import variables
from ..loopir.stmt import (
    NOTHING,
    Alloc,
    Buffer,
    Evaluate,
    Extern,
    For,
    Func,
    If,
    Let,
    Report,
    Seq,
    Stmt,
    Store,
    loads,
    preorder,
    seq,
    touched,
)
from .live_lanes import divisible, rounded
from .split_lanes import first_lanes

MOST_ELEMENTS = 1 << 14  # of a buffer whose elements are told apart
_LEAVES = frozenset((Store, Evaluate, Extern, Report))
MOST_ROUNDS = 8  # one buffer fed by another that was fed by another …


def dead_code(func: Func) -> Func:
    """The pass."""
    body = func.body
    for _ in range(MOST_ROUNDS):
        found: list[_Uses] = []
        run(_gather(body, {}, found))
        new = run(_Cleaner(found).clean(body))
        if new is body:
            break
        body = new
        if not found:
            break
    return func if body is func.body else func.with_body(body)


class _Uses:
    """Of one buffer: the elements read for something else, as bits, and for each store those it writes and
    those it reads to do so."""

    __slots__ = ("apart", "buffer", "live", "places", "stores")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        size = 1
        for extent in buffer.shape:
            size *= const_int(extent) or MOST_ELEMENTS + 1
        self.apart = size <= MOST_ELEMENTS
        self.live = 0
        self.stores: list[tuple[Store, int, int]] = []
        self.places: dict[tuple[Expr, ...], int] = {}

    def elements(self, b: Buffer, indices: tuple[Expr, ...]) -> int:
        """The elements at constant indices as bits; -1, all of them, elsewhere."""
        result = self.places.get(indices)
        if result is None:
            result = self.places[indices] = _elements(b, indices) if self.apart else -1
        return result

    def dead(self) -> frozenset[Store]:
        """The stores whose elements nothing reads, or only stores like them."""
        waiting = self.stores
        while True:
            idle = [x for x in waiting if not x[1] & self.live]
            if len(idle) == len(waiting):
                return frozenset([s for s, _, _ in waiting])
            for s, writes, reads in waiting:
                if writes & self.live:
                    if reads == writes and _lane_by_lane(s):
                        continue
                    self.live |= reads
            waiting = idle

    def shorter(self) -> dict[Store, int]:
        """How many lanes of a vector something reads, of those whose last ones nothing does. Follows
        ``dead``."""
        out = {}
        for s, writes, _ in self.stores:
            lanes, live = s.value.dtype.lanes, writes & self.live
            if self.live < 0 or lanes < 4 or not live or not _in_a_row(writes, lanes):
                continue
            first = (writes & -writes).bit_length()
            most = rounded(live.bit_length() - first + 1)
            if most < lanes and divisible(s):
                out[s] = most
        return out


def _in_a_row(elements: int, lanes: int) -> bool:
    """Whether bits of so many lanes are neighbours."""
    return elements > 0 and elements // (elements & -elements) == (1 << lanes) - 1


def _lane_by_lane(s: Store) -> bool:
    """Whether each lane that a store writes is made of that lane of what it reads of its own buffer."""
    for node in loads(s.value):
        if node.buffer is s.buffer and not all(map(is_, node.indices, s.indices)):
            return False
    return divisible(s)


def _elements(b: Buffer, indices: tuple[Expr, ...]) -> int:
    at, lane_step, lanes = 0, 0, 1
    step = 1
    for i, extent in zip(reversed(indices), reversed(b.shape), strict=True):
        if type(i) is Const:
            at += int(i.value) * step
        elif type(i) is Ramp and type(i.base) is Const and type(i.stride) is Const and i.stride.value >= 0:
            at += int(i.base.value) * step
            lane_step += int(i.stride.value) * step
            lanes = i.lanes
        else:
            return -1
        step *= int(extent.value)  # type: ignore[attr-defined]
    if lane_step == 1 and at >= 0:
        return ((1 << lanes) - 1) << at
    out = 0
    for lane in range(lanes):
        if at + lane * lane_step >= 0:  # a lane that a condition turns off may lie before the buffer
            out |= 1 << (at + lane * lane_step)
    return out


def _gather(s: Stmt, scope: dict[Buffer, _Uses], found: list[_Uses]) -> Steps[None]:
    """Collect the uses of each buffer in the order of their Allocs: copies of a nest may share the buffer,
    each with a life of its own."""
    if isinstance(s, Alloc):
        uses = _Uses(s.buffer)
        found.append(uses)
        around = scope.get(s.buffer)
        scope[s.buffer] = uses
        yield _gather(s.body, scope, found)
        if around is None:
            del scope[s.buffer]
        else:
            scope[s.buffer] = around
        return
    if scope:
        _count_uses(s, scope)
    for part in s.parts():
        if part.parts():
            yield _gather(part, scope, found)
        elif scope:
            _count_uses(part, scope)


def _count_uses(s: Stmt, scope: dict[Buffer, _Uses]) -> None:
    """What a statement itself does with the buffers in scope."""
    own = scope.get(s.buffer) if isinstance(s, Store) else None
    mine = 0
    for e in s.exprs():
        for node in loads(e) if e.contains & READS else ():
            u = scope.get(node.buffer)
            if u is None:
                continue
            if u is own:
                mine |= u.elements(node.buffer, node.indices)
            else:
                u.live |= u.elements(node.buffer, node.indices)
    if own is not None:
        assert isinstance(s, Store)
        own.stores.append((s, own.elements(s.buffer, s.indices), mine))
    if isinstance(s, Extern):
        for b in s.buffers():
            if b in scope:
                scope[b].live = -1


class _Cleaner:
    """Takes out dead stores and what does nothing; meets the Allocs in the order in which they were found."""

    def __init__(self, found: list[_Uses]) -> None:
        self.found = iter(found)
        self.dead: dict[Buffer, frozenset[Store]] = {}
        self.shorter: dict[Buffer, dict[Store, int]] = {}
        # variables that what is kept so far speaks of, of names only while they live. Networks that sort are
        # chains of hundreds of names: what is inside is looked through once, and not for each of them
        self.spoken: set[Var] = set()

    def speak(self, s: Stmt) -> Stmt:
        """A statement that is kept, and what it says itself."""
        for e in s.buffer.shape if isinstance(s, Alloc) else s.exprs():
            self.spoken |= variables(e)
        return s

    def clean(self, s: Stmt) -> Steps[Stmt]:
        if type(s) in _LEAVES:
            return self.kept(s)
        if isinstance(s, Seq):
            new = []
            for x in s.stmts:
                new.append((yield self.clean(x)) if x.parts() else self.kept(x))
            return s if all(map(is_, new, s.stmts)) and NOTHING not in new else seq(*new)
        if isinstance(s, If):
            return (yield self.branch(s))
        assert isinstance(s, For | Let | Alloc)
        if isinstance(s, Alloc):
            uses = next(self.found)
            self.dead[s.buffer] = uses.dead()
            self.shorter[s.buffer] = uses.shorter()
        outside = isinstance(s, Let) and s.var in self.spoken
        if isinstance(s, Let):
            self.spoken.discard(s.var)
        body = yield self.clean(s.body)
        if isinstance(s, Let):
            asked = s.var in self.spoken
            if not outside:
                self.spoken.discard(s.var)
            elif not asked:
                self.spoken.add(s.var)
        if _idle(body):
            return NOTHING
        if isinstance(s, Let) and not asked:
            return body
        if isinstance(s, Alloc) and not (uses.live and uses.stores) and not _touches(body, s.buffer):
            return body
        return self.speak(s if body is s.body else s.with_parts(body))

    def kept(self, s: Stmt) -> Stmt:
        """A statement that holds no others, or nothing."""
        if not isinstance(s, Store) or s.buffer not in self.dead:
            return self.speak(s)
        if s in self.dead[s.buffer]:
            return NOTHING
        lanes = self.shorter[s.buffer].get(s)
        return self.speak(s if lanes is None else first_lanes(s, lanes, {}))

    def branch(self, s: If) -> Steps[Stmt]:
        then = yield self.clean(s.then)
        orelse = None if s.orelse is None else (yield self.clean(s.orelse))
        if not _idle(then) or (orelse is not None and not _idle(orelse)):
            self.spoken |= variables(s.cond)
        if (
            then is s.then
            and orelse is s.orelse
            and not _idle(then)
            and (orelse is None or not _idle(orelse))
        ):
            return s
        if orelse is not None and _idle(orelse):
            orelse = None
        if _idle(then):
            return NOTHING if orelse is None else If(make.not_(s.cond), orelse)
        return If(s.cond, then, orelse)


def _idle(s: Stmt) -> bool:
    return isinstance(s, Seq) and not s.stmts


def _touches(s: Stmt, b: Buffer) -> bool:
    return any(used is b for st in preorder(s) for used in touched(st))
