"""A template for direct convolution in NCHW layout, ``out[n, f, y, x] = sum(data[n, c, y', x'] * weight[f, c,
ry, rx])``, padding inlined. A tile of filters × columns is accumulated in registers; the vector loop runs
along x. Knows schedule calls only."""

from __future__ import annotations

from collections.abc import Sequence

import tensorlang as tl
from tensorlang import te

from .start import at_most

LANES = (4, 8, 16, 24, 32)


def conv2d(
    s: tl.Schedule,
    tensors: Sequence[te.Tensor],
    *,
    parallel: bool = False,
    pad: str = "root",
    lanes: Sequence[int] = LANES,
) -> None:
    """Tile filters and columns, accumulate in registers, vectorize. ``pad`` is where the padded image is
    made: ``inline``, ``root``."""
    out = tensors[-1]
    acc = s.cache_write(out, "local")
    n, f, y, x = s[out].op.axis
    padded = [
        st for st in s.stages if st.name not in (out.name, acc.name) and isinstance(st.op, te.ComputeOp)
    ]
    for st in padded:
        if pad == "inline":
            st.compute_inline()
        else:
            st.vectorize(st.split(st.op.axis[-1], 8)[1])
    fo, fi = s[out].split(f, s.sample_tile(f, max_factor=16, values=at_most(f, 4), name="f"))
    yo, yi = s[out].split(y, s.sample_tile(y, max_factor=8, values=1, name="y"))
    xo, xi = s[out].split(
        x, s.sample_tile(x, candidates=lanes, values=at_most(x, 16), name="x", role="vector")
    )
    s[out].reorder(n, fo, yo, xo, fi, yi, xi)
    s[acc].compute_at(s[out], xo)
    n, f, y, x = s[acc].op.axis
    rc, ry, rx = s[acc].op.reduce_axis
    rco, rci = s[acc].split(rc, s.sample_tile(rc, max_factor=4, values=1, name="rc", role="unroll"))
    s[acc].reorder(rco, ry, rx, rci, n, f, y, x)
    for loop in (rci, f, y):
        s[acc].unroll(loop)
    s[acc].vectorize(x)
    s[out].vectorize(xi)
    if parallel:
        s[out].parallel(fo)
