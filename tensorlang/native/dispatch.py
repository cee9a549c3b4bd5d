"""The machine code behind a Dispatcher: from the sizes of a call to the kernel that runs. Knows no kernels;
made anew for each dispatcher.

``entry(buffers, scalars)`` is like that of a kernel (``interface.signature``). It looks the sizes up in the
table of exact shapes; what is not there walks the decision tree, whose leaf is a slot of pointers to routes.
A route is a record that nobody changes once it can be seen.

The table and the slots change by one exchange of a pointer (``swap``, a full barrier). Two counters of calls
inside, one for each parity of the epoch, tell when nobody can see what was replaced (Fraser, "Practical
lock-freedom", 2004, section 5.2.3). The ring holds the last calls: which route, how long, which sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .emit import Emitter
from .types import Array, CFunctions, Global, Struct, at, i8, i32, i64, ptr
from .words import (
    Word,
    acquire,
    address,
    cast,
    exchange,
    fetch_add,
    fetch_sub,
    inline,
    load,
    local,
    lshr,
    null,
    relaxed,
    release,
    seq_cst,
    store,
    unrolled,
)

CALL, PICK, ROWS = range(3)
MIX = 0x9E3779B97F4A7C15  # 2^64 / golden ratio
_MIX = MIX - (1 << 64)

Tree = Any  # int | tuple[int, int, Tree, Tree]: a slot, or (dim, most, where dim <= most, where it is more)
Steps = Sequence[tuple[int, Sequence[int]] | None]
Kernel = Callable[[ptr, ptr], i32]

c = CFunctions("i64 llvm.readcyclecounter()")


class Route(Struct):
    """CALL: ``more`` is the entry of a kernel that takes the same scalars. PICK: the entry, how many scalars
    it takes, from which of ours each comes. ROWS: the highest block, then the entry for blocks of 0, 1, 2 …
    rows (0 unused)."""

    kind: i64
    number: i64
    more: ptr = at(None, i64, 0)


class Table(Struct):
    """Entries of (route, sizes …), a power of two of them."""

    mask: i64
    entries: ptr = at(None, i64, 0)


class Noted(Struct):
    """A call in the ring: its number (0: being written), the number of its route, processor cycles, the
    sizes."""

    number: i64
    route: i64
    cycles: i64
    sizes: ptr = at(None, i64, 0)


class Inside(Struct, size=64):
    calls: i64


class State(Struct):
    """Counters that calls write have a cache line of their own."""

    table: Table
    epoch: i64
    ring: ptr
    ring_mask: i64
    inside: ptr = at(64, Inside, 2)
    calls: i64 = at(192)
    slots: Array[Route] = at(256, ptr, 0)


def mixed(sizes: Sequence[int]) -> int:
    """The hash of a shape, as the machine code makes it; the order of the sizes matters."""
    h = 0
    for n in sizes:
        h = ((h ^ (n & (1 << 64) - 1)) * MIX) & (1 << 64) - 1
        h ^= h >> 29
    return h


def functions(
    buffer_count: int, dims: int, scalar_count: int, tree: Tree, slots: int, rows: int | None, steps: Steps
) -> dict[str, Any]:
    """The module's exports: ``entry``, ``swap`` and ``state``. ``scalar_count`` counts all scalar slots,
    ``dims`` the sizes among them, which come first. ``rows`` is the size that ROWS cuts; ``steps`` has for
    each buffer the bytes of one row, as (number, the sizes it is multiplied with), None for one that has no
    rows."""
    state = Global("state", State, 8 * slots)
    route_of, note = _route_of(state, tree, dims), _note(state, dims)
    run = _run(buffer_count, scalar_count, rows, steps)

    def swap(word: Array[i64], value: i64) -> None:
        exchange(word[0], value, seq_cst)

    def entry(buffers: Array[ptr], scalars: Array[i64]) -> i32:
        # Count this call in the epoch it is in. Between the look and the count the epoch may have gone on,
        # and whoever retires routes may have seen a count without this call: so look again.
        while True:
            epoch = load(state.epoch, seq_cst)
            inside = address(state.inside[epoch & 1].calls)
            fetch_add(inside[0], 1, seq_cst)
            if load(state.epoch, seq_cst) == epoch:
                break
            fetch_sub(inside[0], 1, seq_cst)
        route = route_of(scalars)
        start = c.llvm_readcyclecounter()
        status = run(route, buffers, scalars)
        note(route, c.llvm_readcyclecounter() - start, scalars)
        fetch_sub(inside[0], 1, seq_cst)
        return status

    return {"entry": entry, "swap": swap, "state": state}


def _route_of(state: Any, tree: Tree, dims: int) -> Any:
    """The route of a call: that of its shape in the table, else the leaf of the tree."""

    @Word
    def leaf(f: Emitter, sizes: Any) -> Any:
        return _leaf(f, tree, sizes)

    @inline
    def route_of(sizes: Array[i64]) -> Route:
        table = load(state.table, acquire)
        if table != null:
            h = 0
            for i in unrolled(range(dims)):
                h = (h ^ sizes[i]) * _MIX
                h ^= lshr(h, 29)
            place = lshr(h, 32)
            while True:
                entry = address(table.entries[(place & table.mask) * (1 + dims)])
                if entry[0] == 0:
                    break
                same = True
                for i in unrolled(range(dims)):
                    same = same & (entry[1 + i] == sizes[i])
                if same:
                    return cast(Route, entry[0])
                place += 1
        return cast(Route, load(state.slots[leaf(sizes)], acquire))

    return route_of


def _run(buffer_count: int, scalar_count: int, rows: int | None, steps: Steps) -> Any:
    """The kernel of a route, called as the kind of the route says."""

    @inline
    def pick(route: Route, buffers: ptr, scalars: Array[i64]) -> i32:
        picked = local(i64, max(1, scalar_count))
        for i in range(route.more[1]):
            picked[i] = scalars[route.more[2 + i]]
        return cast(Kernel, route.more[0])(buffers, picked)

    @inline
    def cut(route: Route, buffers: Array[ptr], scalars: Array[i64]) -> i32:
        """The rows in ceil(rows / highest) blocks of nearly equal height: first those of h rows, then those
        of h - 1, each part in one call on its part of the arrays. So no code is made for a shape, and a
        remainder never runs alone."""
        picked, moved = local(i64, scalar_count), local(ptr, buffer_count)
        count, highest = scalars[rows], route.more[0]  # type: ignore[index]
        if count == 0:
            return 0
        blocks = (count + highest - 1) // highest
        h = (count + blocks - 1) // blocks
        low = blocks * h - count
        first = (blocks - low) * h
        for i in unrolled(range(scalar_count)):
            picked[i] = scalars[i]
        picked[rows] = first
        status = cast(Kernel, route.more[1 + h])(buffers, picked)
        if status != 0 or low == 0:
            return status
        picked[rows] = low * (h - 1)
        for i in unrolled(range(buffer_count)):
            moved[i] = buffers[i]
            if steps[i] is not None:
                width, factors = steps[i]
                offset = first * width
                for factor in unrolled(factors):
                    offset = offset * scalars[factor]
                moved[i] = address(cast(i8, buffers[i])[offset])
        return cast(Kernel, route.more[h])(moved, picked)

    @inline
    def run(route: Route, buffers: Array[ptr], scalars: Array[i64]) -> i32:
        if rows is not None:
            if route.kind == ROWS:
                return cut(route, buffers, scalars)
        if route.kind == PICK:
            return pick(route, buffers, scalars)
        return cast(Kernel, route.more[0])(buffers, scalars)

    return run


def _note(state: Any, dims: int) -> Any:
    """A call written into the ring, whose readers pass over entries of number 0: those half written."""

    @inline
    def note(route: Route, cycles: i64, sizes: Array[i64]) -> None:
        number = fetch_add(state.calls, 1, relaxed)
        noted = cast(
            Noted, address(cast(i64, state.ring)[(number & state.ring_mask) * (Noted.size // 8 + dims)])
        )
        store(noted.number, 0, release)
        noted.route, noted.cycles = route.number, cycles
        for i in unrolled(range(dims)):
            noted.sizes[i] = sizes[i]
        store(noted.number, number + 1, release)

    return note


def _leaf(f: Emitter, tree: Tree, sizes: Any) -> Any:
    """The slot that the tree picks: compares written out, joined once."""
    after, env = f.fresh("leaf"), f.env

    def visit(node: Tree) -> None:
        if isinstance(node, int):
            f.env = {**env, "leaf": node}
            f.leave(after)
            return
        dim, most, *sides = node
        labels = f.fresh("most"), f.fresh("more")
        f.fork(f.compare("<=", f.element(sizes, dim), most), *labels)
        for label, side in zip(labels, sides, strict=True):
            f.begin(label)
            visit(side)

    visit(tree)
    f.begin(after)
    return f.env.pop("leaf")
