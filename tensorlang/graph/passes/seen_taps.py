"""Convolutions of a constant weight some taps of which read nothing but the margin: by the taps that read
more, which ``ops.conv3d`` and its like copy out of the weight (``ops.window.Window.seeing``), as a constant.

Whose last planes or rows are one or two has such layers, as networks on volumes do. What looks for a weight
that is an input of a node, as scales that go into it and minimal filtering do, finds it then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...analysis import Margin, constant, window_of
from ...expr.linear import poly
from ...te import ComputeOp, Tensor
from ...te.tensor import TensorRead
from ..graph import Node, Program, Value
from ..sizes import same_sizes
from .rewrite import exchanged, single
from .windows import margin_of, sum_of

CONVOLUTIONS = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}


def keep_seen_taps(graph: Program) -> Program:
    """The graph with weights of those taps alone."""
    made = ((n, _made(n)) for n in graph.nodes)
    return exchanged(graph, {id(n): [new] for n, new in made if new is not None})


def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Sequence[int],
    padding: Margin,
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """A convolution with channels first."""
    way = CONVOLUTIONS[x.ndim - 2]
    return way(x, weight, bias, stride, padding, dilation, groups)  # type: ignore[no-any-return]


def _made(n: Node) -> Node | None:
    """The same convolution by fewer taps; None for any other, and where all are seen."""
    if not single(n):
        return None
    if "seen taps" not in n.memo:
        n.memo["seen taps"] = _found(n)
    inputs = n.memo["seen taps"]
    if inputs is None:
        return None
    made = Node(n.op, conv, inputs[0], inputs[1], n.name)
    (result,) = made.results
    out = n.outputs[0]
    # with fewer taps it may fit more often
    if result.dtype != out.dtype or not same_sizes(result.shape, out.shape):
        n.memo["seen taps"] = None
        return None
    made.outputs, made.was = list(n.outputs), n.was
    return made


def _found(n: Node) -> tuple[list[Value | None], dict[str, Any]] | None:
    """The inputs, a new weight among them, and the attributes of the same convolution."""
    values, found = {v.tensor: v for v in n.reads if v.data is not None}, sum_of(n, rounded=True)
    if found is None or found.along not in (None, 1):
        return None
    window = window_of(found.total, widened=True)
    if window is None or len(window.strides) not in CONVOLUTIONS:
        return None
    weight, bias = _cut(window.weight, values), found.bias
    images = [v for v in n.reads if v is not bias and v.tensor not in window.weight.op.input_tensors]
    if weight is None or len(images) != 1 or images[0].ndim != window.data.ndim:
        return None
    padding = margin_of(window.data, images[0])
    if padding is None or images[0].dtype != weight.dtype:
        return None
    how = {"stride": window.strides, "dilation": window.dilation, "groups": window.groups}
    return [images[0], weight, bias], {"padding": padding, **how}


def _cut(weight: Tensor, values: dict[Tensor, Value]) -> Value | None:
    """The elements of a weight that is part of a constant; None where it is not."""
    op = weight.op
    read = op.body[0] if isinstance(op, ComputeOp) and len(op.body) == 1 else None
    if not isinstance(op, ComputeOp) or not isinstance(read, TensorRead) or read.tensor not in values:
        return None
    whole = values[read.tensor]
    assert whole.data is not None
    if whole.ndim != weight.ndim:
        return None
    part = []
    for i, a in zip(read.indices, op.axis, strict=True):
        many, terms = constant(a.extent), dict(poly(i))
        begins = terms.pop((), 0)
        if many is None or (terms != {(a.var,): 1} and (terms or many > 1)):
            return None
        part.append(slice(begins, begins + many))
    data = np.ascontiguousarray(whole.data[tuple(part)])
    return Value(whole.name, data.shape, whole.dtype, data=data)
