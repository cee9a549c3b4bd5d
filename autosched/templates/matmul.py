"""Templates for ``C[i, j] = sum(A[i, k] * B[k, j])``, with anything elementwise after it. A register tile of
C is accumulated in a local buffer; two levels of tiles around it; the vector loop along j. Knows schedule
calls only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import tensorlang as tl
from tensorlang import te

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
    io, ii = s[c].split(i, rows)
    iq, io = s[c].split(io, blocks)
    jo, ji = s[c].split(j, cols)
    jq, jo = s[c].split(jo, panels)
    s[c].reorder(iq, jq, jo, io, ii, ji)
    s[acc].compute_at(s[c], io)
    i, j = s[acc].op.axis
    (k,) = s[acc].op.reduce_axis
    ko, ki = s[acc].split(k, s.sample_tile(k, max_factor=8, values=1, name="k", role="unroll"))
    s[acc].reorder(ko, ki, i, j)
    s[acc].unroll(ki)
    s[acc].unroll(i)
    s[acc].vectorize(j)
    s[c].unroll(ii)
    s[c].vectorize(ji)
    if packed:
        b = s[acc].op.input_tensors[1]
        panel = s.cache_read(b, "global", [acc])
        s[panel].compute_at(s[c], jo)
        s[panel].vectorize(s[panel].op.axis[-1])
    if parallel:
        s[c].parallel(iq)


matmul_packed = partial(matmul, packed=True)
