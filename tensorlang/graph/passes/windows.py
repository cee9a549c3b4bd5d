"""What a node sums, as its te says it, for passes that put another operator in its place: the vector that is
added behind, and the margin of an image. Decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ... import analysis
from ...analysis import Margin
from ...ops import tags
from ...te import ComputeOp, Tensor
from ...te.graph import operations
from ..graph import Node, Value
from .scales import bias_of


@dataclass(frozen=True)
class Sum:
    """The one sum of a node, and the vector that is added to it, ``along`` an axis, if there is one."""

    total: ComputeOp
    bias: Value | None
    along: int | None


def sum_of(n: Node) -> Sum | None:
    """What a node of one result sums; None where it does anything else, or has several sums."""
    (made,) = n.results
    sums = [op for op in operations([made.op]) if isinstance(op, ComputeOp) and op.reduce_axis]
    if len(sums) != 1:
        return None
    (total,) = sums
    if made.op is total:
        return Sum(total, None, None)
    bias, along = bias_of(made, total, {v.tensor: v for v in n.reads})
    return None if bias is None else Sum(total, bias, along)


def margin_of(data: Tensor, image: Value) -> Margin | None:
    """Zeros in front and behind along each place of the image in ``data``; None where that is something else
    than the image with a margin."""
    if data is not image.tensor and data.op.tag != tags.PAD:
        return None
    return analysis.margin_of(data, image.tensor)
