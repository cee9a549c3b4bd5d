"""hoist guards: conditions that do not change in a loop are tested in front of it, once, and each answer gets
a loop without the test.

``for k: (S0; if r + 1 < m: S1; if r + 2 < m: S2)`` →
``if r + 2 < m: (for k: S0; S1; S2) elif r + 1 < m: (for k: S0; S1) else: (for k: S0)``

Guards that differ only by a constant, as those of the rows of an unrolled tile, imply each other: they are
one family, and R of them need R + 1 versions, not 2 ** R. A version is made around the whole tile (the local
buffers, their initialisation and what writes them back), outside every loop that holds nothing else, so that
within it the accumulators are registers like any others. What the versions add is counted against
``MOST_ADDED`` statements; a family too large gets fewer versions, which keep some of the tests.

Each version is code that LLVM takes long for, so there are no more than pay (see ``_tests``). Where rows are
many, two heights share a version: the row that may not exist is computed as well, from the last row that
does, and is not written. Stores without a tile, as those of a transposed block, keep the tests of up to
three rows.

Where rows call functions of mathematics behind the loops, versions are made of the loops alone: ``for k:
tested rows of acc; (if r + 1 < m: C[r + 1] = sigmoid(acc[1])) …``. In a copy for each number of rows such
functions would be most of the code of a kernel, and a test for each row is little beside them.

Runs after unrolling, when the guards of rows are explicit, and after simplification has dropped those that
are decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd

from ..arith.conditions import conjunction, conjuncts, denied, holds_when_nonneg, never_negative
from ..arith.facts import Facts
from ..core.dtype import INT64
from ..core.recursion import Steps, run
from ..expr import make
from ..expr.linear import add_poly, poly, reads_data
from ..expr.nodes import CALLS, Const, Expr, FloorDiv, FloorMod, TruncDiv, TruncMod, Var, const_int
from ..expr.walk import preorder as walk
from ..expr.walk import variables
from ..loopir.stmt import (
    NOTHING,
    SERIAL,
    Alloc,
    Buffer,
    Evaluate,
    For,
    Func,
    If,
    Let,
    Seq,
    Stmt,
    Store,
    preorder,
    rebuilt,
    seq,
    touched,
)
from .spare_rows import SpareRows

MOST_ADDED = 600  # statements a kernel may grow by
STORES = 4  # rows of stores between two versions: as many are transposed together
THIN = 64  # bytes of a row of sums up to which four take no longer than one: they wait for each other
# bytes of sums of versions that share what follows, half of the registers of AVX-512: beside more of them,
# what a function of mathematics keeps in registers takes the place of some (measured: 27 vectors of sums took
# 1.2 times as long)
MOST_HELD = 1024
LEAST_CALLS = 4  # rows that call functions from which on versions share them
HIGH = 8  # rows of a tile of which two heights share a version
_HERE = Evaluate(make.const(0))  # where what versions share has stood
# each makes versions of what the ones before have made
MOST_FAMILIES = 16


def hoist_guards(func: Func) -> Func:
    """The pass."""
    dims = frozenset(func.dims)
    body = _hoisted(func.body, dims, Facts(sizes=frozenset(v for v in dims if v.kind == "dim")))
    return func if body is func.body else func.with_body(body)


def _hoisted(body: Stmt, dims: frozenset[Var], facts: Facts) -> Stmt:
    """With versions of its tiles; what the sizes of a call choose from is a kernel each, with room of its
    own. ``facts`` are those of the sizes."""
    if isinstance(body, If) and body.orelse is not None and variables(body.cond) <= dims:
        then = _hoisted(body.then, dims, facts.assume(body.cond))
        return rebuilt(body, [then, _hoisted(body.orelse, dims, facts.assume(denied(body.cond)))])
    room = MOST_ADDED
    looping = _Below(lambda s: isinstance(s, For) and s.kind == SERIAL)
    for family in _families(body, looping)[:MOST_FAMILIES]:
        work = _Hoist(family, room, dims, facts, looping)
        body = run(work.walk(body))
        room = work.room
    return body


@dataclass(frozen=True)
class Family:
    """Conditions from weakest to strongest: each holds wherever a later one does. Those of one row are equal,
    though written in different ways: ``i * 6 + 4 < 100`` and ``i * 6 + 5 < 100``. ``speaks_of``: the
    variables in them; ``key``: what they have in common."""

    rows: tuple[tuple[Expr, ...], ...]
    speaks_of: frozenset[Var]
    key: frozenset[object]


def _families(body: Stmt, looping: _Below) -> list[Family]:
    """The families of conditions tested inside serial loops that do not bind their variables, or beside such
    loops where a local buffer lives: what the tile does not write back it need not compute."""
    found: dict[frozenset[object], dict[int, dict[Expr, None]]] = {}
    counted: list[Expr] = []  # the extents of the loops around, of which each has an iteration

    def visit(s: Stmt, loops: tuple[Var | None, ...]) -> Steps[None]:
        if isinstance(s, For):
            counted.append(s.extent)
            loops = (*loops, s.var) if s.kind == SERIAL else ()
        elif isinstance(s, Alloc) and s.buffer.scope == "local" and looping(s):
            loops = (*loops, None)
        elif isinstance(s, If) and loops:
            for c in conjuncts(s.cond):
                if loops[-1] not in variables(c) and _movable(c, counted):
                    key, room = _measure(c)
                    found.setdefault(key, {}).setdefault(room, {})[c] = None
        for part in s.parts():
            if part.parts():  # a leaf tests nothing
                yield visit(part, loops)
        if isinstance(s, For):
            counted.pop()

    run(visit(body, ()))
    out = []
    for key, rows in found.items():
        speaks_of = frozenset(v for conds in rows.values() for c in conds for v in variables(c))
        out.append(Family(tuple(tuple(rows[room]) for room in sorted(rows, reverse=True)), speaks_of, key))
    return out


def _measure(c: Expr) -> tuple[frozenset[object], int]:
    """What the conditions of one family have in common, and by how much this one holds: ``x + room >= 0``."""
    p = never_negative(c)
    if p is None or not any(p):
        return frozenset({c}), 0  # a set: expressions are not compared by ==
    # by the greatest divisor of the factors: 2 i + 3 >= 0 is i + 1 >= 0 of integers, and so of one family
    # with i + 0
    step = gcd(*[k for m, k in p.items() if m])
    return frozenset((m, k // step) for m, k in p.items() if m), p.get((), 0) // step


class _Below:
    """Whether a statement of some kind stands in another or is it; each statement is looked at once."""

    def __init__(self, wanted: Callable[[Stmt], bool]) -> None:
        self.wanted = wanted
        self._found: dict[Stmt, bool] = {}

    def __call__(self, s: Stmt) -> bool:
        found = self._found.get(s)
        return run(self._look(s)) if found is None else found

    def _look(self, s: Stmt) -> Steps[bool]:
        result = self._found.get(s)
        if result is None:
            result = self.wanted(s)
            for p in s.parts():
                found = self._found.get(p)
                if found is None:  # most hold no others
                    found = (yield self._look(p)) if p.parts() else self.wanted(p)
                result = found or result
            self._found[s] = result
        return result


def _movable(c: Expr, counted: Sequence[Expr]) -> bool:
    """Whether ``c`` may be tested earlier than it stands: it reads no memory and divides by what is not 0, a
    constant or a factor of how often a loop around runs, as the parts of a fused loop do."""
    if reads_data(c):
        return False
    divisors = {
        e.b
        for e in walk(c)
        if isinstance(e, FloorDiv | FloorMod | TruncDiv | TruncMod) and type(e.b) is not Const
    }
    return all(any(all(any(a is d for a in m) for m in poly(n)) for n in counted) for d in divisors)


class _Hoist:
    """One family hoisted wherever in a kernel it is tested."""

    def __init__(
        self, family: Family, room: int, dims: frozenset[Var], facts: Facts, looping: _Below
    ) -> None:
        self.family = family
        self.dims = dims
        self.facts = facts
        self.members = frozenset(c for row in family.rows for c in row)
        self.room = room
        self.tests = _Below(self.is_test)  # whether a condition of the family is tested in a statement
        self.looping = looping
        self.binding = _Below(lambda s: isinstance(s, For | Let) and s.var in family.speaks_of)
        self._belongs: dict[Stmt, bool] = {}

    def is_test(self, s: Stmt) -> bool:
        """Whether ``s`` itself tests a condition of the family."""
        return isinstance(s, If) and any(c in self.members for c in conjuncts(s.cond))

    def walk(self, s: Stmt, whole: bool = True) -> Steps[Stmt]:
        """``whole`` where there may be all rows: not beside a tile that is for these alone."""
        if not self.tests(s):
            return s
        if self.belongs(s):
            new = self.versions(s, whole)
            if new is not None:
                return new
        parts = s.parts()
        alone = isinstance(s, If) and any(_measure(c)[0] == self.family.key for c in conjuncts(s.cond))
        walked = []
        for n, p in enumerate(parts):
            walked.append((yield self.walk(p, whole and not (alone and n))))
        return rebuilt(s, walked)

    def belongs(self, s: Stmt) -> bool:
        """Whether versions are made of ``s`` as a whole: the loop that holds the tests, the local buffers
        around it, and loops and values that hold nothing but these."""
        found = self._belongs.get(s)
        return run(self._belonging(s)) if found is None else found

    def _belonging(self, s: Stmt) -> Steps[bool]:
        result = self._belongs.get(s)
        if result is not None:
            return result
        if isinstance(s, For):
            result = (
                s.kind == SERIAL
                and not self.binding(s)
                and ((yield self._unlooped(s.body)) or (yield self._belonging(s.body)))
            )
        elif isinstance(s, Alloc):
            result = (s.buffer.scope == "local" and self.looping(s) and not self.binding(s)) or (
                yield self._belonging(s.body)
            )
        else:
            result = (
                isinstance(s, Let) and s.var not in self.family.speaks_of and (yield self._belonging(s.body))
            )
        self._belongs[s] = result
        return result

    def _unlooped(self, s: Stmt) -> Steps[bool]:
        """Whether a test of the family stands in ``s`` outside every loop and tile in it."""
        if isinstance(s, For) or not self.tests(s) or (yield self._belonging(s)):
            return False
        if self.is_test(s):
            return True
        for p in s.parts():
            if (yield self._unlooped(p)):
                return True
        return False

    def versions(self, s: Stmt, whole: bool) -> Stmt | None:
        """The chain of versions; None when they would take too much room."""
        old = size(s)
        for tests, spare in self._tests(s, whole):
            made: list[Stmt] = []
            added = -old
            for version in self._made(s, tests, spare):
                if version is None:
                    break
                made.append(version)
                added += size(version) + 1
                if added > self.room:
                    break
            else:
                self.room -= max(0, added)
                # whole tiles among them: their sums stay in registers up to what writes them
                return self._chosen(tests, made) if whole else self._shared(s, tests, spare, made)
        return None

    def _shared(self, s: Stmt, tests: list[int], spare: bool, made: list[Stmt]) -> Stmt:
        """The chain of versions, of the loops alone where what stands behind them is long."""
        parts = _parted(s, self.tests)
        if parts is None or sum(_bytes(a.buffer) for a in parts.held) > MOST_HELD:
            return self._chosen(tests, made)
        fronts = list(self._made(parts.front, tests, spare))
        if any(v is None for v in fronts):  # spare rows, where all that stores them is behind
            return self._chosen(tests, made)
        return parts.closed(self._chosen(tests, [_without_note(v) for v in fronts if v is not None]))

    def _made(self, s: Stmt, tests: list[int], spare: bool) -> Iterator[Stmt | None]:
        """The versions for the answers to these tests, most rows first; None for one that cannot be."""
        rows = self.family.rows
        # between two that are tested the answer of neither is known for the rows in between: these keep their
        # tests, or are computed without
        for weaker, stronger in zip([*tests, -1], [len(rows), *tests], strict=True):
            answers = {
                c: n <= weaker for n, row in enumerate(rows) if n <= weaker or n >= stronger for c in row
            }
            version = run(_decided(s, answers))
            if spare and stronger - weaker > 1:
                yield SpareRows(version, rows, self.dims).computed(range(weaker + 1, stronger))
            else:
                yield version

    def _chosen(self, tests: list[int], made: list[Stmt]) -> Stmt:
        """The version that the tests choose."""
        out = made[-1]
        for n, version in zip(reversed(tests), reversed(made[:-1]), strict=True):
            out = If(self.family.rows[n][0], version, None if out is NOTHING else out)
        return out

    def _tests(self, s: Stmt, whole: bool) -> Iterator[tuple[list[int], bool]]:
        """Which conditions choose a version, strongest first, the best way first; and whether rows between
        two of them are to be computed without a test."""
        rows = self.family.rows
        last = len(rows) - 1
        held = {st.buffer for st in preorder(s) if isinstance(st, Alloc) and st.buffer.scope == "local"}
        if held:
            # the first row has no test where the loop around ends with it
            none = {c: False for row in rows for c in row}
            above = run(_decided(s, none)) is not NOTHING
            height = len(rows) + above
            thin = height <= 8 and sum(map(_bytes, held)) <= height * THIN
            step = 4 if thin else 2 if self._many(height) else 1
            if step > 1:  # a version for all rows, and one for each multiple of the step and more
                all_rows = last if whole else None
                yield [n for n in range(last, -1, -1) if n == all_rows or (n + above) % step == 0], True
        # a version for each number of rows that hold; where that is too much for every second, every third …
        for step in range(1 if held or last < 2 * STORES else STORES, len(rows) + 1):
            yield list(range(last, -1, -step)), False

    def _many(self, height: int) -> bool:
        """Whether a row too many is little: tiles are high, and there are two of them or more. (Measured on
        AVX2, tiles of 6 rows: products of 31 and 37 rows took 1.05 times as long. Emerald Rapids, of 9: 28 to
        75 rows 1.01.)"""
        p = never_negative(self.family.rows[-1][0])
        if p is None or height < HIGH:
            return False
        least = {m: k for m, k in p.items() if all(v in self.dims for x in m for v in variables(x))}
        return self.facts.prove(holds_when_nonneg(add_poly(least, {(): 1 - height}), INT64)) is True


def _bytes(b: Buffer) -> int:
    n = 1
    for e in b.shape:
        n *= const_int(e) or THIN
    return n * b.dtype.bytes


def _decided(s: Stmt, answers: dict[Expr, bool]) -> Steps[Stmt]:
    """``s`` where the answers to some conditions are known; loops and buffers that are left with nothing to
    do vanish."""
    if isinstance(s, If):
        conds = conjuncts(s.cond)
        if any(answers.get(c) is False for c in conds):
            return NOTHING if s.orelse is None else (yield _decided(s.orelse, answers))
        left = [c for c in conds if c not in answers]
        then = yield _decided(s.then, answers)
        if not left:
            return then
        orelse = NOTHING if s.orelse is None else (yield _decided(s.orelse, answers))
        if then is s.then and len(left) == len(conds) and orelse is (s.orelse or NOTHING):
            return s
        cond = conjunction(left)
        if then is NOTHING:
            return NOTHING if orelse is NOTHING else If(make.not_(cond), orelse)
        return If(cond, then, None if orelse is NOTHING else orelse)
    parts = s.parts()
    new = []
    for p in parts:
        new.append((yield _decided(p, answers)))
    if all(a is b for a, b in zip(parts, new, strict=True)):
        return s
    if isinstance(s, Seq):
        return seq(*new)
    return NOTHING if new[0] is NOTHING else s.with_parts(*new)


def size(s: Stmt) -> int:
    """Statements in ``s``."""
    return sum(not isinstance(st, Seq) for st in preorder(s))


@dataclass(frozen=True)
class _Parted:
    """A tile as what versions are made of, which ends in a note, and what stands ``behind``; ``held`` are the
    local buffers of both."""

    front: Stmt
    held: tuple[Alloc, ...]
    behind: Stmt

    def closed(self, front: Stmt) -> Stmt:
        """The tile, with versions of its front."""
        return _opened([(0, a) for a in self.held], [front, self.behind])


def _parted(tile: Stmt, tests: Callable[[Stmt], bool]) -> _Parted | None:
    """A tile in two parts, the first with every loop in which ``tests`` finds a test; None where versions of
    the whole are better."""
    opened: list[tuple[int, Alloc]] = []
    items: list[Stmt] = []
    while not items or isinstance(tile, Alloc):
        while isinstance(tile, Alloc):
            opened.append((len(items), tile))
            tile = tile.body
        if not isinstance(tile, Seq):
            break
        items += tile.stmts[:-1]
        tile = tile.stmts[-1]
    items.append(tile)
    looping = [
        n for n, one in enumerate(items) if any(isinstance(s, For) and tests(s) for s in preorder(one))
    ]
    end = looping[-1] + 1 if looping else len(items)
    behind = items[end:]
    if not end or sum(tests(one) and _calls(one) for one in behind) < LEAST_CALLS:
        return None
    used = {b for one in behind for s in preorder(one) for b in touched(s)}
    held = tuple(a for n, a in opened if n < end and a.buffer in used)
    return _Parted(
        _opened([(n, a) for n, a in opened if n < end and a not in held], [*items[:end], _HERE]),
        held,
        _opened([(n - end, a) for n, a in opened if n >= end], behind),
    )


def _without_note(version: Stmt) -> Stmt:
    """A version of a front, which ends in the note that what is shared follows."""
    return run(_noteless(version))


def _noteless(version: Stmt) -> Steps[Stmt]:
    if isinstance(version, Alloc):
        body = yield _noteless(version.body)
        return body if body is NOTHING else version.with_parts(body)
    if version is _HERE:
        return NOTHING
    assert isinstance(version, Seq)
    return seq(*version.stmts[:-1], (yield _noteless(version.stmts[-1])))


def _opened(opened: list[tuple[int, Alloc]], items: list[Stmt]) -> Stmt:
    out: Stmt = NOTHING
    for n in reversed(range(len(items))):
        out = seq(items[n], out)
        for at, a in reversed(opened):
            out = a.with_parts(out) if at == n else out
    return out


def _calls(s: Stmt) -> bool:
    return any(isinstance(one, Store) and one.value.contains & CALLS for one in preorder(s))
