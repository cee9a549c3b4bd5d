"""Places of the first element for which something holds, as the second half of an argmax: a comparison for
each element, whose bits are one register, and of a long row no more once one is set. Uses public primitives
only.

Measured (Zen 5, one thread), argmax: 500 rows of 300 take 0.57 (int8) to 0.88 (int64) of the time of places
in lanes, 2000 of 64 0.55 to 0.86; of open lengths 500 of 300 0.18 (bool) to 0.83, 1000 of 100 0.24 to 0.85,
one of 100,000 0.41 (int64) and 0.55 (float64), 2000 of 64 int64 1.14. Of 10, 24 and 41 elements, of which the
last bits are a second register, numbers would take 1.0 to 1.25; bools take 0.4.
"""

from __future__ import annotations

from ..analysis import nowhere, reads_of
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import IterVar
from .common import share_out, work

LANES = 64  # bits of a register
FEWEST = 8  # elements of a row
# vectors of an open row up to which WIDE are one masked vector, and up to FEW of which SIDE find the extreme,
# the last of them masked for itself. Measured (Zen 5, one thread), argmax of 3000 rows of 9, 17 and 31
# float64 20.5 → 9.4, 35 → 22.8 and 36 → 23.0 µs, 2000 of 33 25.8 → 15.3, 1000 of 100 20.5 → 13.6, 3000 of 17
# float32 40 → 10, 1000 of 100 16.6 → 11.5
WIDE = 2
FEW = 24
SIDE = 2
VECTORS = 4  # of an open row, whose bits are asked together
WRITTEN_OUT = (
    4  # registers of bits of a row, up to which all are asked: a branch that is foretold wrong costs more
)


def applies(stage: Stage, n: int | None, target: Target) -> bool:
    """Whether a reduction of ``n`` elements of memory looks for the first of something, and comparisons are
    bits."""
    if not target.has_masks or nowhere(stage.op) is None:
        return False
    return n is None or n >= LANES or (n >= FEWEST and (n & (n - 1) == 0 or _of_bools(stage)))


def one_vector(stage: Stage, target: Target) -> int:
    """Elements of an open row up to which it is one masked vector, for its extreme as for the place of that:
    some registers, for the mask is made once and nothing is asked of a row."""
    return min([LANES, *(WIDE * target.vector_lanes(t.dtype) for t, _ in reads_of(stage.op).plain if t.ndim)])


def extreme_of(s: Schedule, stage: Stage, target: Target) -> bool:
    """Whether ``stage`` finds the extreme that is looked for, where comparisons are bits."""
    return target.has_masks and any(nowhere(r.compute) is not None for r in s.state.readers(stage.name))


def _of_bools(stage: Stage) -> bool:
    """Whether all that is read is bits already."""
    return all(t.dtype.is_bool for t, _ in reads_of(stage.op).plain)


def search(s: Schedule, stage: Stage, row: IterVar, n: int | None, target: Target) -> None:
    """Look for it along ``row``, which is all that is reduced."""
    iterations, root, out = work(stage), stage.state.attach is None, stage
    long = n is None or n > WRITTEN_OUT * LANES
    alone = root and len(stage.op.reduce_axis) == 1 and bool(stage.op.axis)
    if long and alone and s.can("cache_write", stage.name):
        # each iteration asks for what was found, and would for a line that another thread writes. Measured
        # (Zen 5, two threads), an open row of 300,000 float32 18.3 → 12.2 µs, float64 49 → 27
        stage = s[s.cache_write(stage.name, "local")]
        row = stage.op.reduce_axis[0]
    if n is None:
        # the last bits of an open row are masked, which takes as long as whole ones
        element = max(t.dtype.bytes for t, _ in reads_of(stage.op).plain)
        lanes = max(FEWEST, min(LANES, VECTORS * target.vector_bits // 8 // element))
    else:
        lanes = min(LANES, 1 << (n.bit_length() - 1))
    if n is not None and n <= WRITTEN_OUT * lanes:
        # one vector with a constant mask behind the others, not several shorter ones
        bits, inner = stage.split(row, lanes, tail="shift" if n % lanes else "auto")
        stage.unroll(bits)
    else:
        bits, inner = stage.split(row, lanes, tail="peel" if n is not None and n % lanes else "auto")
        stage.pragma(bits, "until_known")
    stage.vectorize(inner)
    if root and out.op.axis:
        axes = list(out.op.axis)
        axes = [out.fuse(*axes)] if len(axes) > 1 else axes
        if out is not stage:
            stage.compute_at(out, axes[0])
        share_out(out, axes, iterations, target)
