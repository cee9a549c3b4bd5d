"""A template for direct convolution in NCHW layout, ``out[n, f, y, x] = sum(data[n, c, y', x'] * weight[f, c,
ry, rx])``, padding inlined. A tile of filters × columns is accumulated in registers; the vector loop runs
along x. Knows schedule calls only."""

from __future__ import annotations

from collections.abc import Sequence

import tensorlang as tl
from tensorlang import te
from tensorlang.recipes import Axes, Cut, nest, sums

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
    cuts: dict[str, Cut | None] = {
        "f": s.sample_tile(f, max_factor=16, values=at_most(f, 4), name="f"),
        "y": s.sample_tile(y, max_factor=8, values=1, name="y"),
        "x": s.sample_tile(x, candidates=lanes, values=at_most(x, 16), name="x", role="vector"),
    }
    loops = nest(s[out], {"n": n, "f": f, "y": y, "x": x}, "n (fo) yo xo fi yi | xi", cuts, parallel=parallel)
    n, f, y, x = s[acc].op.axis
    rc, ry, rx = s[acc].op.reduce_axis

    def deep(c: te.IterVar) -> te.Expr:
        return s.sample_tile(c, max_factor=4, values=1, name="rc", role="unroll")

    axes: Axes = {"c": rc, "r": [ry, rx], "n": n, "f": f, "y": y, "x": x}
    (place,) = loops.named["xo"]
    sums(s, s[acc], s[out], place, axes, "co r | ci n f y x", {"c": deep})
