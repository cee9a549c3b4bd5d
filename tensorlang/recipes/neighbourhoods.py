"""Elements made of several reductions over the window around them, as a filter that weighs neighbours by how
like they are, and divides by the sum of the weights. All reductions of a vector of elements are computed
before the next one, their taps written out: what they have in common is computed once, and their results stay
in registers. Uses public primitives only.

Measured (Zen 4, one thread and two), beside each reduction in a pass of its own: 3 × 3 pixels weighed by
differences, of 100 × 150, 0.53 and 0.36.
"""

from __future__ import annotations

import math

from ..analysis import SIDE, has_calls, operations, own_place, reads_of, reducer_kind, slides, typical
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp
from .common import in_registers, share_out, size, with_attached, work

# taps of a window that pays whatever it is of; operations of a tap that pays in a larger one
FEW, DEAR = 9, 8
# operations that are written out, and where functions are among them, which are most of the time and of which
# LLVM makes little code. Measured (Zen 4, two threads): pixels weighed by an exponential of their difference,
# 5 × 5 and 7 × 7, take 0.53 of the time of two passes
WRITTEN, WRITTEN_OF_FUNCTIONS = 320, 1600


def windows_of(s: Schedule, out: Stage, target: Target) -> list[Stage] | None:
    """The reductions over windows that ``out`` alone reads, each at its own place; None where there are not
    several, or better ones in passes of their own."""
    op = out.op
    if op.reduce_axis or len(op.body) != 1 or not op.axis:
        return None
    if typical(op.axis[-1].extent, SIDE) < target.vector_lanes(op.body[0].dtype):
        return None
    found = []
    for t in op.input_tensors:
        st = s.state.of(t)
        if isinstance(st.op, ComputeOp) and st.op.reduce_axis:
            if not _is_window(s, s[st.name], out):
                return None
            found.append(s[st.name])
    written = sum(_taps(st.op) * operations(st.op.body) for st in found)
    most = WRITTEN_OF_FUNCTIONS if any(has_calls(st.op) for st in found) else WRITTEN
    return found if len(found) > 1 and written <= most else None


def _taps(op: ComputeOp) -> int:
    """Of a window; more than any is of for open ones."""
    return math.prod(size(a) or WRITTEN for a in op.reduce_axis)


def _is_window(s: Schedule, stage: Stage, out: Stage) -> bool:
    op, st = stage.op, stage.state
    return (
        not (st.is_output or st.attach is not None or st.relations or st.kinds)
        and len(op.body) == 1
        and reducer_kind(op) not in (None, "custom")
        and (_taps(op) <= FEW or operations(op.body) >= DEAR)
        and len(op.axis) == len(out.op.axis)
        and all(a.extent is b.extent for a, b in zip(op.axis, out.op.axis, strict=True))
        and slides(op)
        and [r.name for r in s.state.readers(stage.name)] == [out.name]
        and all(own_place(out.op, at) for at in reads_of(out.op).of(op))
    )


def apply(s: Schedule, out: Stage, windows: list[Stage], target: Target) -> set[str]:
    """Schedule the windows in the vectors of ``out``. The names of the stages that are done."""
    axes = list(out.op.axis)
    iterations = sum(map(work, windows))
    lanes, n = target.vector_lanes(out.op.body[0].dtype), size(axes[-1])
    several = any(size(a) != 1 for a in axes[:-1])
    # a rest is a vector that overlaps the one before, where threads do not share vectors out
    overlaps = several and (n is None or n % lanes > 0)
    outer, inner = out.split(axes[-1], lanes, tail="shift" if overlaps else "auto")
    out.vectorize(inner)
    for st in windows:
        st.compute_at(out, outer)
        *_, last = st.op.axis
        st.reorder(*st.op.reduce_axis, last)
        for tap in st.op.reduce_axis:
            st.unroll(tap)
        st.vectorize(last)
        in_registers(s, st)
    share_out(out, axes[:-1] if several else [outer], iterations, target)
    return with_attached(s, out.name)
