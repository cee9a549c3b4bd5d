"""Templates for ``C[i, j] = sum(A[i, k] * B[k, j])``, with anything elementwise after it. A register tile of
C is accumulated in a local buffer; two levels of tiles around it; the vector loop along j. Knows schedule
calls only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import tensorlang as tl
from tensorlang import te
from tensorlang.recipes import Axes, Cut, nest, sums

from .start import at_most

LANES = (8, 16, 24, 32, 40, 48, 64)


def matmul(
    s: tl.Schedule,
    tensors: Sequence[te.Tensor],
    *,
    parallel: bool = False,
    packed: bool = False,
    lanes: Sequence[int] = LANES,
) -> None:
    """Tile, accumulate in registers, vectorize. ``packed`` copies a panel of B into contiguous memory;
    ``parallel`` shares rows of tiles out."""
    c = tensors[-1]
    acc = s.cache_write(c, "local")
    i, j = s[c].op.axis
    rows, blocks = s.sample_tile(i, 2, max_factor=64, values=(at_most(i, 6), at_most(i, 8)), name="i")
    cols = s.sample_tile(j, candidates=lanes, values=at_most(j, 16), name="j", role="vector")
    panels = s.sample_tile(j, max_factor=32, values=at_most(j, 4), name="jo")
    cuts: dict[str, Cut | None] = {"i": rows, "io": blocks, "j": cols, "jo": panels}
    loops = nest(s[c], {"i": i, "j": j}, "(ioo) joo joi ioi | ii ji", cuts, parallel=parallel)
    i, j = s[acc].op.axis
    axes: Axes = {"k": s[acc].op.reduce_axis, "i": i, "j": j}

    def deep(k: te.IterVar) -> te.Expr:
        return s.sample_tile(k, max_factor=8, values=1, name="k", role="unroll")

    sums(s, s[acc], s[c], loops.place, axes, "ko | ki i j", {"k": deep})
    if packed:
        b = s[acc].op.input_tensors[1]
        panel = s.cache_read(b, "global", [acc])
        s[panel].compute_at(s[c], loops.around[-2])
        s[panel].vectorize(s[panel].op.axis[-1])


matmul_packed = partial(matmul, packed=True)
