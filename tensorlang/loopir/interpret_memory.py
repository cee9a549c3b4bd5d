"""What translated loop IR calls while it runs: memory that remembers what was written and by whom, vector
accesses, arithmetic of the machine where Python's differs, and the error. Knows buffers and dtypes; must not
know how the source is made.

Who wrote and who read: each iteration of a parallel loop gets a *ticket*, a number never used again; the
iterations of one run of a loop have the tickets ``base + 1 ..``. An element keeps the ticket of its last
writer and of its reader (``base`` itself: several readers). A ticket at least ``base`` and not one's own
belongs to another iteration of the same run: the two are not ordered.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn, cast

import numpy as np

from ..core.dtype import DType
from ..expr.nodes import Var
from ..interface.externs import packed
from ..interface.signature import DIVISION
from .printer import Names, lines_of, show_stmt
from .stmt import Buffer, Func, Stmt

FILE = "<loop ir>"  # the file name of translated code, by which its frames are known
Array = Any  # np.ndarray
Levels = tuple[
    tuple[int, int, bool], ...
]  # for each tracked parallel loop: base, own ticket, whether the buffer is read there


class InterpretError(Exception):
    """A kernel did what no kernel may. ``kind``: bounds, uninitialised, race, coverage, arithmetic or
    arguments; ``buffer``, ``index`` and ``position`` (loop variable and value, outermost first) say where."""

    def __init__(
        self,
        kind: str,
        message: str,
        buffer: str = "",
        index: tuple[int, ...] = (),
        position: tuple[tuple[str, int], ...] = (),
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.buffer = buffer
        self.index = index
        self.position = position


@dataclass(frozen=True)
class Site:
    """A place in the function that can fail: the statement, the loops around it with their names in the
    translated code, and for an access its buffer. ``levels`` are the parallel loops whose races are watched
    here, as (variable, which ticket array)."""

    func: Func
    stmt: Stmt
    loops: tuple[tuple[Var, str], ...]
    buffer: Buffer | None = None
    lanes: int = 1
    poison: bool = False
    levels: tuple[tuple[Var, int], ...] = ()


class Block:
    """The memory of one buffer: ``data`` (flat) and ``view`` (the same for scalar access), ``flags`` with a
    byte set for every written element, ``written_by`` and ``read_by`` with tickets, one array for each
    nesting level of parallel loops in its life. ``first`` is where the first element lies: not at 0 when a
    stride is negative."""

    __slots__ = (
        "data",
        "dtype",
        "first",
        "flags",
        "init",
        "read_by",
        "readers",
        "shape",
        "strides",
        "view",
        "writers",
        "written_by",
    )

    def __init__(
        self,
        dtype: DType,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        levels: int,
        data: Array | None = None,
        written: bool = False,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.first = 0
        if strides is None:
            step, reverse = 1, []
            for n in reversed(shape):
                reverse.append(step)
                step *= n
            strides, size = tuple(reversed(reverse)), step
        else:
            size = 1 + sum((n - 1) * abs(s) for n, s in zip(shape, strides, strict=True)) if all(shape) else 0
            self.first = (
                -sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0) if size else 0
            )
        self.strides = strides
        size = max(size, 0)
        self.data = np.empty(size, dtype.bits_dtype()) if data is None else data
        # floats stay numpy scalars, which round as the machine does; integers are Python's, wrapped by the
        # translated code
        self.view = self.data if self.data.dtype.kind == "f" else memoryview(cast(Any, self.data))
        self.flags = bytearray(b"\1") * size if written else bytearray(size)
        self.init = np.frombuffer(self.flags, np.uint8)
        self.written_by = [np.full(size, -1, np.int64) for _ in range(levels)]
        self.read_by = [np.full(size, -1, np.int64) for _ in range(levels)]
        self.writers = [memoryview(cast(Any, a)) for a in self.written_by]
        self.readers = [memoryview(cast(Any, a)) for a in self.read_by]

    def elements(self, flat: Array) -> Array:
        """One of the flat arrays with the shape of the buffer."""
        steps = tuple(s * flat.itemsize for s in self.strides)
        return np.lib.stride_tricks.as_strided(flat[self.first :], self.shape, steps)


# ---- failures ----------------------------------------------------------------------------------------------


def _fail(
    kind: str, site: Site, what: Callable[[Names, dict[str, Any]], str], index: tuple[int, ...] = ()
) -> NoReturn:
    """Raise, with the values of the loop variables read from the frames of the translated code; ``what`` is
    given them too."""
    values: dict[str, Any] = {}
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == FILE:
            values = {**frame.f_locals, **values}
        frame = frame.f_back  # type: ignore[assignment]
    names = Names()
    lines = lines_of(site.func, names)
    position = tuple((names(v), int(values[python])) for v, python in site.loops if python in values)
    where = f" at {', '.join(f'{n} = {x}' for n, x in position)}" if position else ""
    text = next((t for _, t, s in lines if s is site.stmt), None) or show_stmt(site.stmt).splitlines()[0]
    name = names.buffer(site.buffer) if site.buffer is not None else ""
    raise InterpretError(kind, f"{what(names, values)}{where}\n  in  {text}", name, index, position)


def _element(names: Names, site: Site, index: tuple[int, ...]) -> str:
    assert site.buffer is not None
    return f"{names.buffer(site.buffer)}[{', '.join(map(str, index))}]"


def bounds(site: Site, index: tuple[int, ...], shape: tuple[int, ...], word: str) -> NoReturn:
    """Raise: this element is outside the buffer."""
    d = next((d for d, (i, n) in enumerate(zip(index, shape, strict=True)) if not 0 <= i < n), 0)
    _fail(
        "bounds",
        site,
        lambda names, _: (
            f"{word} out of bounds: {_element(names, site, index)}, where dimension {d} has the "
            f"extent {shape[d]},"
        ),
        index,
    )


def report(site: Site, access: str, dim: int, index: int, extent: int, *position: int) -> NoReturn:
    """Raise: a check the kernel itself makes found an index out of bounds, or a divisor that is zero."""
    if dim == DIVISION:
        _fail("arithmetic", site, lambda names, _: f"{access}: {extent} is divided by zero")
    _fail(
        "bounds",
        site,
        lambda names, _: f"{access}: index {dim} is {index}, out of range 0..{extent}",
        (int(index),),
    )


def uninitialised(site: Site, index: tuple[int, ...]) -> NoReturn:
    """Raise: this element was never written."""
    _fail(
        "uninitialised",
        site,
        lambda names, _: f"{_element(names, site, index)} is read before it is written,",
        index,
    )


def race(
    site: Site, index: tuple[int, ...], which: int, other: int, base: int, mine: int, verbs: tuple[str, str]
) -> NoReturn:
    """Raise: the iterations with the tickets ``mine`` and ``other`` of one parallel loop touch this element,
    and one writes."""
    var = site.levels[which][0]
    python = dict(site.loops)[var]

    def text(names: Names, values: dict[str, Any]) -> str:
        v, now = names(var), values[python]
        them = (
            f"several iterations {verbs[1]}"
            if other == base
            else f"iteration {v} = {now - (mine - other)} {verbs[1]}s"
        )
        return (
            f"race on {_element(names, site, index)}: iteration {v} = {now} of the parallel loop "
            f"{verbs[0]}s what {them},"
        )

    _fail("race", site, text, index)


# ---- vector accesses ---------------------------------------------------------------------------------------


def _offsets(
    site: Site, block: Block, index: tuple[Any, ...], mask: Array | None, word: str
) -> tuple[Array, Array]:
    """The live lanes and their offsets, checked against the bounds."""
    live = _all_lanes(site.lanes) if mask is None else np.flatnonzero(np.broadcast_to(mask, site.lanes))
    first, at = block.first, None
    for i, n, stride in zip(index, block.shape, block.strides, strict=True):
        if np.ndim(i) == 0:
            # the same in all lanes: a number, of which numpy makes no arrays
            if live.size and not 0 <= i < n:
                bounds(site, _lane(index, int(live[0])), block.shape, word)
            first += int(i) * stride
            continue
        one = np.asarray(i, np.int64)
        one = one if mask is None else one[live]
        bad = one.view(np.uint64) >= n  # those below 0 are the largest
        if bad.any():
            bounds(site, _lane(index, int(live[np.flatnonzero(bad)[0]])), block.shape, word)
        at = one * stride if at is None else at + one * stride
    return live, np.full(live.size, first, np.int64) if at is None else at + first


@cache
def _all_lanes(lanes: int) -> Array:
    every = np.arange(lanes)
    every.flags.writeable = False
    return every


def _lane(index: tuple[Any, ...], lane: int) -> tuple[int, ...]:
    return tuple(int(np.asarray(i).reshape(-1)[lane if np.ndim(i) else 0]) for i in index)


def vector_load(
    site: Site, block: Block, index: tuple[Any, ...], mask: Array | None, levels: Levels
) -> Array:
    """The elements of the live lanes, zero in the others."""
    live, at = _offsets(site, block, index, mask, "read")
    if site.poison:
        there = block.init[at]
        if not there.all():
            uninitialised(site, _lane(index, int(live[np.flatnonzero(there == 0)[0]])))
    for which, (base, mine, _) in enumerate(levels):
        slot = site.levels[which][1]
        _conflict(site, index, live, block.written_by[slot][at], which, base, mine, ("read", "write"))
        seen = block.read_by[slot][at]
        block.read_by[slot][at] = np.where((seen < base) | (seen == mine), mine, base)
    if len(live) == site.lanes:
        return block.data[at]
    out = np.zeros(site.lanes, block.data.dtype)
    out[live] = block.data[at]
    return out


def vector_store(
    site: Site, block: Block, value: Any, index: tuple[Any, ...], mask: Array | None, levels: Levels
) -> None:
    """Write the live lanes, in lane order."""
    live, at = _offsets(site, block, index, mask, "write")
    for which, (base, mine, is_read) in enumerate(levels):
        slot = site.levels[which][1]
        _conflict(site, index, live, block.written_by[slot][at], which, base, mine, ("write", "write"))
        if is_read:
            _conflict(site, index, live, block.read_by[slot][at], which, base, mine, ("write", "read"))
        block.written_by[slot][at] = mine
    block.data[at] = np.broadcast_to(value, site.lanes)[live]
    block.init[at] = 1


def _conflict(
    site: Site,
    index: tuple[Any, ...],
    live: Array,
    stamps: Array,
    which: int,
    base: int,
    mine: int,
    verbs: tuple[str, str],
) -> None:
    bad = np.flatnonzero((stamps >= base) & (stamps != mine))
    if bad.size:
        race(site, _lane(index, int(live[bad[0]])), which, int(stamps[bad[0]]), base, mine, verbs)


# ---- the machine's arithmetic ------------------------------------------------------------------------------


def _by_zero(site: Site) -> NoReturn:
    _fail("arithmetic", site, lambda names, _: "integer division by zero")


def floor_div(a: int, b: int, site: Site) -> int:
    if b == 0:
        _by_zero(site)
    return a // b


def floor_mod(a: int, b: int, site: Site) -> int:
    if b == 0:
        _by_zero(site)
    return a % b


def trunc_div(a: int, b: int, site: Site) -> int:
    """C's quotient."""
    if b == 0:
        _by_zero(site)
    return abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))


def trunc_mod(a: int, b: int, site: Site) -> int:
    """C's remainder."""
    return a - b * trunc_div(a, b, site)


def _divisor(b: Array, site: Site, active: Array | None) -> Array:
    zero = b == 0
    if zero.any():
        if bool((zero if active is None else zero & active).any()):
            _by_zero(site)
        return np.where(zero, b.dtype.type(1), b)
    return b


def vector_floor_div(a: Array, b: Array, site: Site, active: Array | None) -> Array:
    return np.floor_divide(a, _divisor(b, site, active))


def vector_floor_mod(a: Array, b: Array, site: Site, active: Array | None) -> Array:
    return np.remainder(a, _divisor(b, site, active))


def vector_trunc_div(a: Array, b: Array, site: Site, active: Array | None) -> Array:
    b = _divisor(b, site, active)
    return (a - np.fmod(a, b)) // b  # exact: what is left is divisible


def vector_trunc_mod(a: Array, b: Array, site: Site, active: Array | None) -> Array:
    return np.fmod(a, _divisor(b, site, active))


def float_to_int(x: Any, lo: int, hi: int) -> int:
    """Truncated and saturated; NaN is 0."""
    if x != x:
        return 0
    if math.isinf(x):
        return hi if x > 0 else lo
    return min(max(int(x), lo), hi)


def vector_float_to_int(x: Array, t: np.dtype[Any], lo: int, hi: int) -> Array:
    return np.array([float_to_int(v, lo, hi) for v in x.tolist()], t)


def round_bfloat(x: Any) -> Any:
    """A float32 (scalar or array) rounded to the nearest bfloat16, ties to even, held as float32."""
    x = np.asarray(x, np.float32)
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), rounded)[()]


def from_bfloat(bits: Any) -> Any:
    """The float32 of the bits of a bfloat16."""
    return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)[()]


def to_bfloat(x: Any) -> Any:
    """The bits of a bfloat16 held as float32: a Python int, or an array of uint16."""
    bits = (np.asarray(x, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return bits if bits.ndim else int(bits)


_REDUCE = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.logical_and,
    "or": np.logical_or,
}


def reduce_lanes(op: str, x: Array) -> Any:
    """The lanes combined in their own type."""
    return (
        _REDUCE[op].reduce(x) if op in ("and", "or", "min", "max") else _REDUCE[op].reduce(x, dtype=x.dtype)
    )


def pack_lanes(x: Array, mask: Array) -> Array:
    """The lanes where a mask holds, in front, and zeros."""
    kept = x[mask]
    return np.concatenate([kept, np.zeros(len(x) - len(kept), x.dtype)])


def view(block: Block, corner: tuple[int, ...], extents: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """The box of a block's memory; its elements count as written from here on, since whoever gets it may
    write them."""
    start = block.first + sum(i * s for i, s in zip(corner, block.strides, strict=True))
    reach = [(n - 1) * s for n, s in zip(extents, strides, strict=True)]
    low, high = start + sum(r for r in reach if r < 0), start + sum(r for r in reach if r > 0)
    if low < 0 or high >= len(block.data):
        raise InterpretError(
            "bounds", f"a view from element {low} to {high} of a buffer of {len(block.data)}", "", corner, ()
        )
    size = block.data.itemsize
    np.lib.stride_tricks.as_strided(block.init[start:], extents, strides)[...] = 1
    return np.lib.stride_tricks.as_strided(
        block.data[start:], extents, tuple(s * size for s in strides)
    ).view(block.dtype.to_numpy())


def extern(kind: str, name: str, args: list[Any], outputs: list[Block]) -> None:
    """A call of a registered function on whole buffers."""
    if kind != "packed":
        raise InterpretError("extern", f"the C symbol {name!r} can only be called by a kernel", "", (), ())
    packed(name)(
        *[a.data.view(a.dtype.to_numpy()).reshape(a.shape) if isinstance(a, Block) else a for a in args]
    )
    if not any(isinstance(a, np.ndarray) for a in args):
        for b in outputs:
            b.init[:] = 1


HELPERS: dict[str, Any] = {
    "extern": extern,
    "report": report,
    "view": view,
    "np": np,
    "Block": Block,
    "bounds": bounds,
    "uninitialised": uninitialised,
    "race": race,
    "vector_load": vector_load,
    "vector_store": vector_store,
    "floor_div": floor_div,
    "floor_mod": floor_mod,
    "trunc_div": trunc_div,
    "trunc_mod": trunc_mod,
    "vector_floor_div": vector_floor_div,
    "vector_floor_mod": vector_floor_mod,
    "vector_trunc_div": vector_trunc_div,
    "vector_trunc_mod": vector_trunc_mod,
    "float_to_int": float_to_int,
    "vector_float_to_int": vector_float_to_int,
    "round_bfloat": round_bfloat,
    "from_bfloat": from_bfloat,
    "to_bfloat": to_bfloat,
    "reduce_lanes": reduce_lanes,
    "pack_lanes": pack_lanes,
}
