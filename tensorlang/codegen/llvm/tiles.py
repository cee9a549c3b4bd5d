"""Sums of products of 8-bit integers in the tiles of a matrix unit, where a loop over rows bears the pragma
``matrix_tiles``.

AMX of x86 (Intel, "Intel Architecture Instruction Set Extensions Programming Reference", chapter 3) has
eight registers of 16 rows by 64 bytes. One instruction adds to 16 × 16 sums of 32 bits the products of 16
rows of 64 left elements and of 16 columns of as many right ones, four by four, as vpdpbusd does for one row.
The loops around the rows are one such sum over all their iterations::

    for k in range(0, 12):
        for i in range(0, 32):  # matrix_tiles
            for p in range(0, 16):
                S[i, 0 : 32] = S[i, 0 : 32] + int32(A[.. + i, 64*k + 4*p]) * int32(B[16*k + p, 0 : 32, 0])
                … 1, 2, 3

Up to 32 rows of 32 sums are held in four registers while it runs, two hold rows of A and two columns of B.
How many rows there are may be known only as the loop runs: it is part of the configuration, which is made
then. Two registers of rows hold half of them each, of an odd number the one in the middle both.
The sums wrap as the additions do, so every value is exact. What is not such a nest keeps its loops. Knows the
shape of the nest, not why a schedule made it.

A configuration takes as long as 16 products of registers (Emerald Rapids: 512³ 0.70 of the time with one for
all), so the loops around keep the one they have while it serves (:func:`kept`).

Linux gives a process the registers when it asks for them once (arch_prctl): code that uses them asks before,
so that it runs wherever it is loaded or linked to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...core.dtype import INT32
from ...core.recursion import Steps
from ...expr import make
from ...expr.nodes import LT, Expr, Ramp, Var, const_int, lane_of
from ...expr.walk import substitute, variables
from ...loopir.stmt import PARALLEL, Alloc, Evaluate, For, If, Let, Load, Seq, Stmt, Store, preorder, rebuilt
from ...target import x86
from . import memory, pairs
from .emitter import Emitter
from .index import interval
from .text import Function

PRAGMA = "matrix_tiles"
ROWS, COLUMNS, TOGETHER = 16, 16, 4  # rows of a register, sums in a row of it, products of one sum
MOST = 2  # registers of rows, and of columns, of a nest
_LEFT, _RIGHT = MOST * MOST, MOST * MOST + MOST  # the first register of A and of B, behind those of the sums
_ASKED = "@tensorlang.tiles.asked"


class Products(NamedTuple):
    """Of one iteration of the sum: ``rows`` (at most ``high``) × ``columns`` sums of ``depth`` × 4 products.
    ``left``, ``right`` and ``sums`` are what the first of them reads and writes; the strides are in
    elements."""

    rows: Expr
    high: int
    columns: int
    lanes: int  # of a row of sums in memory: what the right operand has behind its columns is off, and zero
    depth: int
    left: Load
    right: Load
    sums: Store
    left_stride: Expr
    right_stride: int
    sums_stride: int


class Step(Stmt):
    """One iteration. Made here, for ``statement`` to emit; no statement of the loop IR."""

    __slots__ = ("products",)

    def __init__(self, products: Products) -> None:
        self.products = products

    def parts(self) -> tuple[Stmt, ...]:
        return ()

    def with_parts(self, *parts: Stmt) -> Stmt:
        return self


def noted(s: Stmt) -> bool:
    """Whether a loop over rows bears the pragma, itself or within nothing but loops."""
    while type(s) is For:
        if any(key == PRAGMA for key, _ in s.attrs):
            return True
        s = s.body
    return False


def stepped(em: Emitter, s: For) -> tuple[Stmt, Products] | None:
    """The loop with a step for each iteration in the place of loops over rows, or the only step, and what
    such a step is; None where it is no such sum, or the target has no tiles."""
    if not em.target.has_tiles or not noted(s):
        return None
    outer: list[For] = []
    at: Stmt = s
    while type(at) is For:
        outer.append(at)
        at = at.body
    if type(at) is not Seq or len(at.stmts) != TOGETHER or not all(type(x) is Store for x in at.stmts):
        return None
    stores: Sequence[Store] = at.stmts  # type: ignore[assignment]
    inner: list[For] = []
    # the loops of a tile move the sums, or are the last one, of the products of a row
    while outer and len(inner) < 2 and (not inner or _moves(em, stores[0], outer[-1].var)):
        inner.insert(0, outer.pop())
    found = _products(em, stores, inner)
    if found is None or any(_moves(em, found.sums, loop.var) for loop in outer):
        return None
    body: Stmt = Step(found)
    for loop in reversed(outer):
        body = rebuilt(loop, [body])
    return body, found


def zeros(em: Emitter, before: Stmt, s: For) -> Products | None:
    """What the loop is, where the statement ``before`` it does nothing but set its sums to zero."""
    inner: list[For] = []
    while type(before) is For and not inner:
        inner.append(before)
        before = before.body
    tiled = stepped(em, s) if type(before) is Store else None
    if tiled is None or (not inner and tiled[1].high > 1):
        return None
    assert type(before) is Store
    value = lane_of(before.value)
    p = tiled[1]
    if before.buffer is not p.sums.buffer or before.mask is not None or const_int(value) != 0:
        return None
    place, first = (memory.flat_offset(em, x.buffer, x.indices) for x in (before, p.sums))
    loop = inner[0] if inner else None
    if type(place) is not Ramp or type(first) is not Ramp or place.lanes != p.lanes:
        return None
    start = place.base if loop is None else substitute(place.base, {loop.var: loop.begin})
    same = (
        const_int(place.stride) == 1
        and const_int(make.sub(start, first.base)) == 0
        and (loop is None or const_int(make.sub(loop.extent, p.rows)) == 0)
        and (p.high == 1 or const_int(_stride(place, loop) or place) == p.sums_stride)
    )
    return p if same else None


def _moves(em: Emitter, store: Store, v: Var) -> bool:
    return v in variables(memory.flat_offset(em, store.buffer, store.indices))


def _products(em: Emitter, stores: Sequence[Store], inner: Sequence[For]) -> Products | None:
    together = pairs.products(em, stores)
    if together is None or stores[0].buffer.dtype is not INT32:
        return None
    left, right = together if together[0].dtype.lanes == 1 else together[::-1]
    lanes, columns = right.dtype.lanes, _on(em, right)
    if columns is None or left.dtype.lanes != 1 or not 1 < lanes <= MOST * COLUMNS or left.dtype.bytes != 1:
        return None
    rows, depth = (inner[0], inner[1]) if len(inner) == 2 else (None, inner[0] if inner else None)
    if rows is None and depth is not None and _moves(em, stores[0], depth.var):
        rows, depth = depth, None
    count = make.const(1, "int64") if rows is None else rows.extent
    high, deep = interval(em, count)[1], 1 if depth is None else const_int(depth.extent)
    if high is None or deep is None or not (0 < high <= MOST * ROWS and 0 < deep <= ROWS):
        return None
    strides = []
    for access in (left, right, stores[0]):
        place = memory.flat_offset(em, access.buffer, access.indices)
        strides.append([_stride(place, loop) for loop in (rows, depth)])
    (left_row, left_deep), (right_row, right_deep), (sums_row, sums_deep) = strides
    if (
        left_row is None
        or (deep > 1 and const_int(left_deep) != TOGETHER)
        or const_int(right_row) != 0
        or (deep > 1 and const_int(right_deep) is None)
        or const_int(sums_row) is None
        or const_int(sums_deep) != 0
    ):
        return None
    start = {loop.var: loop.begin for loop in (rows, depth) if loop is not None}
    first = [_at(e, start) for e in (left, right)]
    sums = Store(stores[0].buffer, stores[0].value, tuple(substitute(i, start) for i in stores[0].indices))
    wide = const_int(right_deep) if deep > 1 else TOGETHER * lanes
    down = const_int(sums_row) or lanes
    return Products(count, high, columns, lanes, deep, first[0], first[1], sums, left_row, wide or 0, down)


def _on(em: Emitter, e: Load) -> int | None:
    """Of how many lanes, the first ones, a row of elements is read; None where that is not known."""
    if e.mask is None:
        return e.dtype.lanes
    mask = em.masks.get(e.mask, e.mask)  # type: ignore[call-overload]
    if type(mask) is not LT or type(mask.a) is not Ramp or const_int(mask.a.stride) != 1:
        return None
    count = const_int(make.sub(lane_of(mask.b), mask.a.base))
    return count if count is not None and 0 < count <= e.dtype.lanes else None


def some(em: Emitter, p: Products) -> Expr | None:
    """What must hold for there to be rows, where nothing says so."""
    least = interval(em, p.rows)[0]
    return None if least is not None and least > 0 else make.gt(p.rows, 0)


def _at(e: Load, values: dict[Var, Expr]) -> Load:
    return substitute(e, values)  # type: ignore[return-value]


def _stride(place: Expr, loop: For | None) -> Expr | None:
    """How far an offset moves in an iteration, where that is the same in each; that of lanes is one."""
    if loop is None:
        return make.const(0, "int64")
    base = place.base if type(place) is Ramp else place
    step = make.sub(substitute(base, {loop.var: make.add(loop.var, 1)}), base)
    return None if loop.var in variables(step) else step


# --- code ---------------------------------------------------------------------------------------------------


def kept(em: Emitter, body: Stmt, inside: Steps[None]) -> Steps[None]:
    """The code of ``inside``, of a loop with that ``body``, in which a configuration is kept from one nest to
    the next; as it is, where there is no such nest, or other functions are called, which make their own."""
    if em.configured is not None or not em.target.has_tiles or not _keeps(body):
        yield inside
        return
    _begin(em)
    yield inside
    _end(em)


def _keeps(body: Stmt) -> bool:
    found = False
    for s in preorder(body):
        found = found or (type(s) is For and any(key == PRAGMA for key, _ in s.attrs))
        if type(s) not in (For, If, Let, Seq, Alloc, Store, Evaluate):
            return False
        if type(s) is For and s.kind == PARALLEL:
            return False
    return found


def _begin(em: Emitter) -> None:
    em.at = em.depth
    em.configured = em.function.fresh()
    em.function.entry.lines.insert(0, f"  {em.configured} = alloca i64, align 8")
    em.do(f"store i64 0, ptr {em.configured}, align 8")


def _end(em: Emitter) -> None:
    em.at = em.depth
    em.configured = None
    em.do(f"call void {_declared(em, 'tilerelease', '')}()")


def emit(em: Emitter, p: Products, inside: Steps[None], fresh: bool) -> Steps[None]:
    """The code of ``inside``, the loop of all steps, between registers that are read from the sums, or are
    zero where those are ``fresh``, and written to them."""
    em.at = em.depth
    alone = em.configured is None
    if alone:
        _begin(em)
    _configure(em, p)
    if fresh:
        for at, _, _ in _tiles(p):
            em.do(f"call void {_declared(em, 'tilezero', 'i8')}(i8 {at})")
    else:
        _move(em, p, "tileloadd64")
    yield inside
    em.at = em.depth
    em.forget(p.sums.buffer)
    _move(em, p, "tilestored64")
    if alone:
        _end(em)


def _move(em: Emitter, p: Products, how: str) -> None:
    """Read the registers of the sums from memory, or write them."""
    place, row = _place(em, p.sums.buffer, p.sums.indices), p.sums_stride * 4
    below = _below(em, p, place, str(row))
    for at, r, c in _tiles(p):
        address = _further(em, below if r else place, c * COLUMNS * 4)
        em.do(f"call void {_declared(em, how, 'i8, ptr, i64')}(i8 {at}, ptr {address}, i64 {row})")


def step(em: Emitter, p: Products) -> None:
    """The code of one iteration."""
    load, kinds = _declared(em, "tileloadd64", "i8, ptr, i64"), _signs(p)
    left, right = (_place(em, e.buffer, e.indices) for e in (p.left, p.right))
    wide = em.index(p.left_stride)
    for c in range(_count(p.columns)):
        address = _further(em, right, c * COLUMNS * TOGETHER)
        em.do(f"call void {load}(i8 {_RIGHT + c}, ptr {address}, i64 {p.right_stride})")
    below = _below(em, p, left, wide)
    for r in range(_count(p.high)):
        em.do(f"call void {load}(i8 {_LEFT + r}, ptr {below if r else left}, i64 {wide})")
    product = _declared(em, f"tdpb{kinds}d", "i8, i8, i8")
    for at, r, c in _tiles(p):
        em.do(f"call void {product}(i8 {at}, i8 {_LEFT + r}, i8 {_RIGHT + c})")


def _below(em: Emitter, p: Products, place: str, row: str) -> str:
    """Where the second register of rows begins, of rows that are so many bytes apart."""
    if _count(p.high) == 1:
        return place
    half = em.index(make.floordiv(p.rows, 2))
    return em.ins(f"getelementptr i8, ptr {place}, i64 {em.ins(f'mul i64 {half}, {row}')}")


def _declared(em: Emitter, name: str, arguments: str) -> str:
    return em.module.declare(f"llvm.x86.{name}", "void", arguments)


def _signs(p: Products) -> str:
    return "".join("u" if e.dtype.code == "uint" else "s" for e in (p.left, p.right))


def _count(n: int) -> int:
    return -(-n // ROWS)


def _tiles(p: Products) -> list[tuple[int, int, int]]:
    """The registers of sums: their numbers, and the rows and columns of registers that they stand in."""
    return [(MOST * r + c, r, c) for r in range(_count(p.high)) for c in range(_count(p.columns))]


def _place(em: Emitter, buffer: object, indices: Sequence[Expr]) -> str:
    place = memory.flat_offset(em, buffer, tuple(indices))  # type: ignore[arg-type]
    return memory.pointer(em, buffer, place.base if type(place) is Ramp else place)  # type: ignore[arg-type]


def _further(em: Emitter, place: str, by: int) -> str:
    return em.ins(f"getelementptr i8, ptr {place}, i64 {by}") if by else place


def _configure(em: Emitter, p: Products) -> None:
    """Make the configuration of a nest, unless it is there: 64 bytes that say how many rows and bytes of a
    row each register has."""
    halves = _count(p.high)
    rows = em.index(make.floordiv(make.add(p.rows, halves - 1), halves))
    by_rows, wide = [*(at for at, _, _ in _tiles(p)), *range(_LEFT, _LEFT + halves)], [0] * 16
    high = [0] * 16
    for at, _, c in _tiles(p):
        wide[at] = wide[_RIGHT + c] = min(COLUMNS, p.columns - c * COLUMNS) * 4
    for r in range(halves):
        wide[_LEFT + r] = p.depth * TOGETHER
    for c in range(_count(p.columns)):
        high[_RIGHT + c] = p.depth
    data = bytes([1, *[0] * 15, *(b for n in wide for b in (n & 255, n >> 8)), *high])
    numbers = em.module.configurations
    kind = numbers.setdefault((data, halves), len(numbers) + 1) * (ROWS + 1)
    wanted, place = em.ins(f"add i64 {rows}, {kind}"), em.function.fresh()
    em.function.entry.lines.insert(0, f"  {place} = alloca [64 x i8], align 64")
    there = em.ins(f"load i64, ptr {em.configured}, align 8")
    same = em.ins(f"icmp eq i64 {there}, {wanted}")
    make_it, made = em.function.block("configure"), em.function.block("configured")
    em.block.end = f"  br i1 {same}, label %{made.label}, label %{make_it.label}"
    em.scopes[-1].block = make_it
    _ask(em)
    em.do(f"store [64 x i8] [{', '.join(f'i8 {b}' for b in data)}], ptr {place}, align 64")
    few = em.ins(f"trunc i64 {rows} to i8")
    for at in by_rows:
        em.do(f"store i8 {few}, ptr {em.ins(f'getelementptr i8, ptr {place}, i64 {48 + at}')}, align 1")
    em.do(f"call void {_declared(em, 'ldtilecfg', 'ptr')}(ptr {place})")
    em.do(f"store i64 {wanted}, ptr {em.configured}, align 8")
    em.block.end = f"  br label %{made.label}"
    em.scopes[-1].block = made


def _ask(em: Emitter) -> None:
    """Ask for the registers, once in a process and module."""
    name = "tensorlang.tiles.ask"
    if em.module.claim(name):
        em.module.records[_ASKED] = f"{_ASKED} = internal global i8 0"
        f = Function(f"define internal void @{name}() noinline #0")
        asked, there = f.fresh(), f.fresh()
        system = em.module.declare("syscall", "i64", "i64, ...")
        ask, done = f.block("ask"), f.block("done")
        f.entry.lines += [
            f"  {asked} = load atomic i8, ptr {_ASKED} monotonic, align 1",
            f"  {there} = icmp ne i8 {asked}, 0",
        ]
        f.entry.end = f"  br i1 {there}, label %{done.label}, label %{ask.label}"
        numbers = ", ".join(f"i64 {n}" for n in x86.ASK_FOR_TILES)
        ask.lines += [
            f"  {f.fresh()} = call i64 (i64, ...) {system}({numbers})",
            f"  store atomic i8 1, ptr {_ASKED} monotonic, align 1",
        ]
        ask.end = f"  br label %{done.label}"
        done.end = "  ret void"
        em.module.add(f)
    em.do(f"call void @{name}()")
