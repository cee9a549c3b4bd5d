"""What is computed between images with their channels last is computed that way: where a part of a graph
reads only images that are transposed to have their channels first, and all that it makes is transposed back,
the transpositions are left out. Convolutions and what works on each element by itself are such parts.

Which input of a convolution is the image, and how it is read, follows from its te. Only where all
transpositions go: one in the middle takes more time than one at the ends, and convolutions with their
channels first have more ways to be computed. A weight beyond the second cache is read in the better order
there too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...analysis import Margin, constant, reads_of, window_of
from ...target import Target
from ...te import ComputeOp, Tensor
from ...te.graph import operations
from ...te.tensor import TensorRead
from ..graph import Node, Program, Value
from ..regions.facts import Kind, Reading, by_place, facts_of
from ..sizes import same_sizes
from .rewrite import alike_in_shape, remade, renewed, single
from .windows import margin_of, sum_of

FIRST = (0, 3, 1, 2)  # of channels last, the dimensions with channels first
LAST = (0, 2, 3, 1)


def keep_channels_last(graph: Program, target: Target) -> Program:
    """The graph without those transpositions."""
    if not any(order_of(n) == FIRST for n in graph.nodes):
        return graph
    left: set[int] = set()  # nodes that stay as they are
    while True:
        part = _Part(graph, left, target)
        stays = part.needed()
        if not stays:
            return part.result()
        # whose result is read with channels first: with it left as it is, what it reads may have to stay too
        left |= stays


class _Part:
    """All that may be computed with channels last, but for the nodes that are ``left``."""

    def __init__(self, graph: Program, left: set[int], target: Target) -> None:
        self.graph, self.target = graph, target
        self.last: dict[Value, Value] = {}  # of values with channels first
        self.back: dict[Value, Value] = {}  # results of transpositions that are there already
        self.new: dict[int, Node] = {}
        for n in graph.nodes:
            order = order_of(n)
            if order == FIRST:
                self.last[n.outputs[0]] = n.reads[0]
            # there and back again: the value is as it was before the first of the two
            elif order == LAST and n.reads[0] in self.last:
                self.back[n.outputs[0]] = self.last[n.reads[0]]
            elif id(n) not in left and single(n) and any(v in self.last for v in n.reads):
                made = self._convolution(n) or self._map(n)
                if made is not None:
                    self.new[id(n)] = made
                    self.last[n.outputs[0]] = made.outputs[0]

    def needed(self) -> set[int]:
        """Nodes whose result somebody reads with channels first."""
        kept = set(self.graph.outputs)
        for n in self.graph.nodes:
            if id(n) not in self.new and n.outputs[0] not in self.back:
                kept.update(n.reads)
        return {id(n) for n in self.graph.nodes if id(n) in self.new and n.outputs[0] in kept}

    def result(self) -> Program:
        # nothing is gained unless two transpositions meet over something that was changed
        if not self.back or not self.new:
            return self.graph
        fixed = set(self.graph.outputs) if self.graph.rest is not None else set()
        # the rest of a model knows these values by identity, so they cannot be replaced
        if fixed.intersection(self.back):
            return self.graph
        nodes = [self.new.get(id(n), n) for n in self.graph.nodes if n.outputs[0] not in self.back]
        return renewed(self.graph, nodes, self.back)

    def _convolution(self, n: Node) -> Node | None:
        # the answer for a node is the same in every round
        key = ("channels last", self.target)
        found = n.memo[key] if key in n.memo else _found(n, self.target)
        n.memo[key] = found
        if found is None or found[0] not in self.last:
            return None
        image, weight, bias, attrs = found
        return _made(n, Node(n.op, conv, [self.last[image], weight, bias], attrs, n.name))

    def _map(self, n: Node) -> Node | None:
        """What works on each element by itself; constants are turned as values are."""
        v = n.outputs[0]
        if len(v.shape) != 4 or not _each_alone(n):
            return None
        inputs: list[Value | None] = []
        for x in n.inputs:
            if x is None or (x.data is not None and x.data.size == 1):
                inputs.append(x)
            elif x.data is not None:
                # a constant of fewer dimensions is broadcast: it gets those it lacks before they change
                # places
                whole = x.data.reshape((1,) * (4 - x.data.ndim) + x.data.shape).transpose(LAST)
                inputs.append(Value(x.name, whole.shape, x.dtype, data=np.ascontiguousarray(whole)))
            elif x in self.last and alike_in_shape(Value("", x.shape, v.dtype), v):
                inputs.append(self.last[x])
            else:
                return None
        made = _made(n, remade(n, inputs))
        (result,) = made.results
        fits = same_sizes(result.shape, made.outputs[0].shape)
        # asked again of the result: a function may look at its inputs' shapes and do something else with
        # other ones
        return made if fits and _each_alone(made) else None


def _made(n: Node, new: Node) -> Node:
    """The node in the place of another, whose result it gives with channels last."""
    v = n.outputs[0]
    new.outputs, new.was = [Value(v.name, [v.shape[d] for d in LAST], v.dtype, new)], n.was
    return new


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
    """A convolution of [N, H, W, C] by [O, I, KH, KW]."""
    return ops.conv2d(x, weight, bias, stride, padding, dilation, groups, "NHWC", "OIHW")


def order_of(n: Node) -> tuple[int, ...] | None:
    """For each dimension of the result of a transposition the one of its input; None for what is none."""
    if "order" not in n.memo:
        n.memo["order"] = _order(n)
    found: tuple[int, ...] | None = n.memo["order"]
    return found


def _order(n: Node) -> tuple[int, ...] | None:
    if not single(n) or len(n.reads) != 1 or len(n.outputs[0].shape) != 4:
        return None
    (made,), (source,) = n.results, n.reads
    op = made.op
    if not isinstance(op, ComputeOp) or len(op.body) != 1 or not isinstance(op.body[0], TensorRead):
        return None
    place = {id(i): d for d, i in enumerate(op.body[0].indices)}
    if op.body[0].tensor is not source.tensor or {id(a.var) for a in op.axis} != set(place):
        return None
    return tuple(place[id(a.var)] for a in op.axis) if len(place) == len(source.shape) else None


def _each_alone(n: Node) -> bool:
    """Whether each element is made of those at its own place, and of constants by broadcasting alone."""
    facts = facts_of(n)
    if facts.kind is not Kind.MAP or any(r is not Reading.SAME for r in facts.reads.values()):
        return False
    rank = len(n.outputs[0].shape)
    known = {v.tensor for v in n.reads if v.data is not None and v.data.size > 1}
    for op in operations([t.op for t in n.results]):
        if not isinstance(op, ComputeOp):
            continue
        if len(op.axis) != rank and op.input_tensors:
            return False
        for t, at in reads_of(op).plain:
            along = op.axis[rank - len(at) :]
            if t in known and any(
                i is not a.var and constant(i) != 0 for i, a in zip(at, along, strict=True)
            ):
                return False
        if by_place(op):
            return False
    return True


def _found(n: Node, target: Target) -> tuple[Value, Value, Value | None, dict[str, Any]] | None:
    """Image, weight, bias and attributes of a convolution; None where it is none, and where its order is
    better as it is."""
    values, found = {v.tensor: v for v in n.reads}, sum_of(n)
    if found is None or found.along not in (None, 1):
        return None
    places, window = found.total.axis[2:], window_of(found.total)
    if window is None or window.weight not in values or not all(constant(a.extent) for a in places):
        return None
    weight, bias = values[window.weight], found.bias
    images = [v for v in n.reads if v not in (weight, bias)]
    if len(images) != 1 or images[0].ndim != 4 or not _small(weight, target):
        return None
    padding = margin_of(window.data, images[0])
    if padding is None or images[0].dtype != n.outputs[0].dtype:
        return None
    how = {"stride": window.strides, "dilation": window.dilation, "groups": window.groups}
    return images[0], weight, bias, {"padding": padding, **how}


def _small(weight: Value, target: Target) -> bool:
    return weight.data is not None and weight.data.nbytes <= target.l2_bytes
