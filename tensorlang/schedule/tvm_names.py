"""``te.schedule``: what TVM keeps under that name and has a meaning here. Everything is done by public
primitives and bounds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from .. import signposts
from ..boundary import signpost
from ..entries import share
from ..expr import make
from ..expr.nodes import Const
from ..expr.walk import preorder
from ..te.axis import IterVar, Range
from ..te.tensor import ComputeOp, TensorRead
from .bounds import bounds_of
from .schedule import Schedule, Stage, create_schedule
from .state import StageState

__all__ = [
    "AutoInlineBroadcast",
    "AutoInlineElemWise",
    "AutoInlineInjective",
    "InferBound",
    "Schedule",
    "Stage",
    "create_schedule",
]


def AutoInlineInjective(s: Schedule) -> None:
    """Inline every stage that reduces nothing and has not been scheduled, outputs excepted."""
    _inline(s, lambda op: True)


def AutoInlineBroadcast(s: Schedule) -> None:
    """Inline those of such stages whose reads take some of their axes, in order: ``A[i, j] + b[j]``."""
    _inline(s, lambda op: all(_in_order(op, read) for read in _reads(op)))


def AutoInlineElemWise(s: Schedule) -> None:
    """Inline those of such stages whose reads take their very axes: ``A[i, j] + B[i, j]``."""
    _inline(s, lambda op: all(_same(read.indices, [a.var for a in op.axis]) for read in _reads(op)))


def InferBound(s: Schedule) -> dict[IterVar, Range]:
    """The range of every axis and loop where its stage is computed now; ``InferBound(s)[axis].extent``."""
    result: dict[IterVar, Range] = {}
    bounds = bounds_of(s.concrete().state)
    for stage in bounds.state.stages:
        if stage.name in bounds.stages:
            b = bounds[stage.name]
            corner = (
                dict(zip(stage.compute.axis, b.low, strict=True))
                if len(b.low) == len(stage.compute.axis)
                else {}
            )
            for iv, extent in b.loops.items():
                begin = corner.get(iv, iv.dom.min if iv.dom is not None else make.const(0, iv.dtype))
                result[iv] = Range(begin, extent)
    return result


def _inline(s: Schedule, suits: Callable[[ComputeOp], bool]) -> None:
    for stage in s.stages:
        st = stage.state
        if (
            isinstance(st.op, ComputeOp)
            and not st.is_opaque
            and _untouched(st)
            and suits(st.op)
            and s.can("compute_inline", stage.name)
        ):
            stage.compute_inline()


def _untouched(st: StageState) -> bool:
    op = st.compute
    return not (st.relations or st.attach or st.kinds or op.reduce_axis or st.is_output) and _same(
        st.leaves, op.axis
    )


def _same(a: Sequence[object], b: Sequence[object]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b))


def _reads(op: ComputeOp) -> list[TensorRead]:
    return [node for e in op.body for node in preorder(e) if type(node) is TensorRead]


def _in_order(op: ComputeOp, read: TensorRead) -> bool:
    places = {a.var: n for n, a in enumerate(op.axis)}
    taken = [places.get(i, -1) for i in read.indices if type(i) is not Const]  # type: ignore[call-overload]
    return -1 not in taken and taken == sorted(set(taken))


share(__name__, "te.schedule")
signpost(sys.modules[__name__], "te.schedule", signposts.ROOMS["te.schedule"])
