"""The register tile: accumulators, operands and loads of one pass through the unrolled and vectorised loops, against the
registers."""

from __future__ import annotations

from tensorlang import Target
from tensorlang.analysis import Expr, Statement, amount, ceil_quotient, most, plus, quotient, ratio, times


def registers(st: Statement, target: Target) -> dict[str, Expr]:
    """Vectors written and read in the innermost unrolled block, multiply-adds per load, how many vectors do not fit."""
    level = len(st.loops)
    while level > st.own and st.loops[level - 1].kind in ("unrolled", "vectorized"):
        level -= 1
    write, reads = st.accesses[0], [a for a in st.accesses if not a.write]
    lanes = target.vector_lanes("float32") if write.bytes == 4 else max(1, target.vector_bits // (8 * write.bytes))
    held = ceil_quotient(write.elements(level), lanes)
    loads = []
    for a in reads:
        vector = a.extents[level][-1] if a.extents[level] else amount(1)
        rows = quotient(a.elements(level), most(vector, 1))
        loads.append(times(rows, ceil_quotient(vector, lanes)))
    loaded = plus(*loads)
    instructions = ceil_quotient(times(st.extent(level), max(1, st.work.flops - st.work.fma)), lanes)
    return {
        "tile.accumulators": held,
        "tile.loads": loaded,
        "tile.instructions": instructions,
        "tile.spilled": most(plus(held, loaded, -target.vector_registers), 0),
        "tile.fill": ratio(times(held, 64), target.vector_registers),
        "tile.per_load": ratio(times(instructions, 16), plus(loaded, 1)),
    }
