"""Programs made of others: the same inputs and outputs, other nodes. Knows graphs only."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from ..graph import Node, Program, Value
from ..sizes import same_sizes


def renewed(graph: Program, nodes: Sequence[Node], replaced: Mapping[Value, Value] | None = None) -> Program:
    """A program of these nodes, in which every reader of a value of ``replaced`` reads the value it stands
    for. What the rest of a model reads keeps its name: those outputs are not replaced."""
    new = copy.copy(graph)
    found = dict(replaced or {})
    new.nodes = [_with_inputs(n, found) for n in nodes]
    # the rest of a model knows the outputs of its first part by identity, so there they stay
    if graph.rest is None:
        new.outputs = [resolved(v, found) for v in graph.outputs]
    return new


def exchanged(graph: Program, others: Mapping[int, Sequence[Node]]) -> Program:
    """The program with other nodes in the place of some, which are named by their ``id``; the very same where
    there are none."""
    if not others:
        return graph
    return renewed(graph, [m for n in graph.nodes for m in others.get(id(n), [n])])


def resolved(v: Value, replaced: Mapping[Value, Value]) -> Value:
    """The value that stands for ``v`` in the end."""
    # what stands for a value may itself have been replaced
    while v in replaced:
        v = replaced[v]
    return v


def _with_inputs(n: Node, replaced: Mapping[Value, Value]) -> Node:
    inputs = [None if v is None else resolved(v, replaced) for v in n.inputs]
    return n if all(a is b for a, b in zip(inputs, n.inputs, strict=True)) else remade(n, inputs, n.outputs)


def remade(
    n: Node,
    inputs: Sequence[Value | None],
    outputs: Sequence[Value] = (),
    attrs: dict[str, Any] | None = None,
) -> Node:
    """A node that does the same to other inputs, with its own attributes unless others are given."""
    new = Node(n.op, n.fn, inputs, n.attrs if attrs is None else attrs, n.name, n.kind, n.graphs)
    new.outputs, new.was = list(outputs), n.was
    return new


def plain(n: Node) -> bool:
    """Whether it is a function of te tensors, which gives the same whenever it is asked."""
    return n.kind == "te" and not n.graphs


def single(n: Node) -> bool:
    """Whether it is such a function, with one result."""
    return plain(n) and len(n.outputs) == 1


def alike_in_shape(a: Value, b: Value) -> bool:
    """Whether two values have one type, and sizes that are the same for every call."""
    return a.dtype == b.dtype and same_sizes(a.shape, b.shape)
