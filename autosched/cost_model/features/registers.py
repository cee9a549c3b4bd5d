"""The register tile: accumulators, operands and loads of one pass through the unrolled and vectorised loops,
against the registers."""

from __future__ import annotations

from dataclasses import dataclass

from tensorlang import Target
from tensorlang.analysis import (
    Access,
    Expr,
    Statement,
    absolute,
    ceil_quotient,
    choose,
    minus,
    most,
    plus,
    quotient,
    ratio,
    times,
)

SHUFFLED = 4  # lanes this far apart are picked out of whole vectors


@dataclass(frozen=True, slots=True)
class Tile:
    """One pass through the innermost unrolled and vectorised loops, which begin at loop number ``level``.
    ``lanes`` is what one vector holds, ``vectors`` how often the body runs counted in vectors, ``held`` the
    vectors that are written and ``loaded`` those that are read (elements count by themselves where they do
    not lie side by side)."""

    level: int
    lanes: int
    vectors: Expr
    held: Expr
    loaded: Expr


def tile_of(st: Statement, target: Target) -> Tile:
    """The tile of a statement."""
    level = len(st.loops)
    while level > st.own and st.loops[level - 1].kind in ("unrolled", "vectorized"):
        level -= 1
    at = vector_loop(st, level)
    write, reads = st.accesses[0], [a for a in st.accesses if not a.write]
    lanes = max(1, target.vector_bits // (8 * write.bytes))
    if at is None:
        return Tile(
            level, lanes, st.extent(level), write.elements(level), plus(*[a.elements(level) for a in reads])
        )
    width = st.loops[at].extent
    parts = parts_of(width, lanes)
    vectors = times(*[loop.extent for p, loop in enumerate(st.loops) if p >= level and p != at], parts)

    def vectors_of(a: Access) -> Expr:
        # a stride of 0 is one element for all lanes, of 1 neighbours in one vector; a small one takes every
        # so-manieth lane of as many vectors, any other gathers lane by lane
        alone, step = a.elements(level), absolute(a.strides[at])
        together = times(ceil_quotient(alone, width), parts)
        return choose(step, 0, alone, choose(step, SHUFFLED, times(together, most(step, 1)), alone))

    return Tile(level, lanes, vectors, vectors_of(write), plus(*[vectors_of(a) for a in reads]))


def vector_loop(st: Statement, level: int) -> int | None:
    """The number of the vectorised loop of a tile that begins at loop number ``level``."""
    return next((p for p in range(level, len(st.loops)) if st.loops[p].kind == "vectorized"), None)


def parts_of(width: Expr, lanes: int) -> Expr:
    """The vectors that a vector loop is made of: whole ones, and for the rest one of each power of two in it:
    7 lanes are 4, 2 and 1."""
    halves = [quotient(width, 1 << k) for k in range(1, lanes.bit_length())]
    return minus(width, plus(*halves)) if halves else width


def registers(st: Statement, target: Target) -> dict[str, Expr]:
    """Vectors written and read in the innermost unrolled block, multiply-adds per load, how many vectors do
    not fit."""
    tile = tile_of(st, target)
    instructions = times(tile.vectors, max(1, st.work.flops - st.work.fma))
    return {
        "tile.accumulators": tile.held,
        "tile.loads": tile.loaded,
        "tile.instructions": instructions,
        "tile.spilled": most(plus(tile.held, tile.loaded, -target.vector_registers), 0),
        "tile.fill": ratio(times(tile.held, 64), target.vector_registers),
        "tile.per_load": ratio(times(instructions, 16), plus(tile.loaded, 1)),
    }
