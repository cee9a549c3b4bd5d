"""What a node sums, as its te says it, for passes that put another operator in its place: the vector that is
added behind, and the margin of an image. Decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ... import analysis
from ...analysis import Margin
from ...expr.nodes import Cast
from ...ops import tags
from ...te import ComputeOp, Tensor
from ...te.graph import operations
from ...te.tensor import TensorRead
from ..graph import Node, Value
from .scales import bias_of


@dataclass(frozen=True)
class Sum:
    """The one sum of a node, and the vector that is added to it, ``along`` an axis, if there is one."""

    total: ComputeOp
    bias: Value | None
    along: int | None


def sum_of(n: Node, rounded: bool = False) -> Sum | None:
    """What a node of one result sums; None where it does anything else, or has several sums. ``rounded``: a
    sum that is rounded once, to the type of the result, counts as well."""
    (made,) = n.results
    made = _before_rounding(made) if rounded else made
    sums = [op for op in operations([made.op]) if isinstance(op, ComputeOp) and op.reduce_axis]
    if len(sums) != 1:
        return None
    (total,) = sums
    if made.op is total:
        return Sum(total, None, None)
    bias, along = bias_of(made, total, {v.tensor: v for v in n.reads}, rounded)
    return None if bias is None else Sum(total, bias, along)


def _before_rounding(made: Tensor) -> Tensor:
    """What is rounded to ``made``, element by element; itself, where nothing is."""
    op = made.op
    if not isinstance(op, ComputeOp) or len(op.body) != 1 or not isinstance(op.body[0], Cast):
        return made
    read = op.body[0].a
    if not isinstance(read, TensorRead) or len(read.indices) != len(op.axis):
        return made
    own = all(i is a.var for i, a in zip(read.indices, op.axis, strict=True))
    return read.tensor if own and read.dtype.is_float and read.dtype.bytes > made.dtype.bytes else made


def margin_of(data: Tensor, image: Value) -> Margin | None:
    """Zeros in front and behind along each place of the image in ``data``; None where that is something else
    than the image with a margin."""
    if data is not image.tensor and data.op.tag != tags.PAD:
        return None
    return analysis.margin_of(data, image.tensor)
