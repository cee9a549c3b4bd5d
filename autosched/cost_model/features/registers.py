"""The register tile: accumulators, operands and loads of one pass through the unrolled and vectorised loops,
against the registers."""

from __future__ import annotations

from dataclasses import dataclass

from tensorlang import Target
from tensorlang.analysis import (
    Expr,
    Statement,
    absolute,
    amount,
    ceil_quotient,
    choose,
    most,
    plus,
    quotient,
    ratio,
    times,
)


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
    at = next((p for p in range(level, len(st.loops)) if st.loops[p].kind == "vectorized"), None)
    write, reads = st.accesses[0], [a for a in st.accesses if not a.write]
    lanes = max(1, target.vector_bits // (8 * write.bytes))
    if at is None:
        return Tile(
            level, lanes, st.extent(level), write.elements(level), plus(*[a.elements(level) for a in reads])
        )
    vectors = times(
        *[loop.extent for p, loop in enumerate(st.loops) if p >= level and p != at],
        ceil_quotient(st.loops[at].extent, lanes),
    )
    loads = []
    for a in reads:
        alone = a.elements(level)
        row = a.extents[level][-1] if a.extents[level] else amount(1)
        together = times(quotient(alone, most(row, 1)), ceil_quotient(row, lanes))
        step = absolute(a.strides[at])
        loads.append(choose(step, 0, alone, choose(step, 1, together, alone)))
    return Tile(level, lanes, vectors, ceil_quotient(write.elements(level), lanes), plus(*loads))


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
