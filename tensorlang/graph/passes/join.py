"""Products of one value with several constant weights become one product with the weights side by side, and
so does what is done to each of their results channel by channel; slices of the one result are what there was.
Queries, keys and values are the common case, and the branches of a block of convolutions.

That a result's channel depends on one column of the weight is read off the te, as for scales.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import ops
from ...analysis import constant
from ...errors import TensorLangError
from ...expr import make
from ...expr.walk import preorder, variables
from ...te import ComputeOp, Tensor
from ...te.graph import operations
from ...te.tensor import TensorRead
from ..graph import Node, Program, Value
from ..regions.facts import Kind, Reading, by_place, facts_of
from ..sizes import same_sizes
from .duplicates import function_key
from .rewrite import exchanged, remade, single
from .scales import weighed

MOST_BYTES = 64 << 20  # of weights side by side


def join_products(graph: Program) -> Program:
    """The graph with joined products."""
    work = _Join(graph)
    for readers in graph.readers().values():
        work.take(readers)
    return exchanged(graph, work.new)


@dataclass(frozen=True)
class _Product:
    """A node that is linear in its constant ``weight``; ``axis`` of the result counts its columns."""

    node: Node
    weight: Value
    axis: int
    weight_axis: int

    @property
    def columns(self) -> int:
        assert self.weight.data is not None
        return int(self.weight.data.shape[self.weight_axis])

    @property
    def bytes(self) -> int:
        """Of the weight."""
        assert self.weight.data is not None
        return int(self.weight.data.nbytes)


class _Join:
    def __init__(self, graph: Program) -> None:
        self.graph = graph
        self.readers = graph.readers()
        self.kept = set(graph.outputs)  # what the rest of a model reads is among them
        self.new: dict[int, list[Node]] = {}  # in the place of a node

    def take(self, readers: Sequence[Node]) -> None:
        """Join products among these nodes, which read one value."""
        groups: dict[Any, list[_Product]] = {}
        for n in readers:
            p = None if id(n) in self.new else _product(n)
            if p is not None:
                with contextlib.suppress(TypeError):  # attributes that cannot be compared
                    groups.setdefault(_kind(p), []).append(p)
        for group in groups.values():
            # a copy of the weights is made: beyond that it costs more memory than a read of the input
            if len(group) > 1 and sum(p.bytes for p in group) <= MOST_BYTES:
                self._join(group)

    def _join(self, group: Sequence[_Product]) -> None:
        first = group[0]
        sizes = [p.columns for p in group]
        weight = _beside([p.weight for p in group], first.weight_axis)
        made = _again(first.node, {first.weight: weight}, first.axis, sum(sizes), [p.node for p in group])
        if made is None:
            return
        nodes, ends, gone = [made], [p.node.outputs[0] for p in group], [p.node for p in group]
        # what follows each product in the same way is done once for all: biases, activations
        while (step := self._step(ends, nodes[-1].outputs[0], first.axis, sizes)) is not None:
            made, behind = step
            nodes.append(made)
            gone += behind
            ends = [n.outputs[0] for n in behind]
        whole, begin = nodes[-1].outputs[0], 0
        for v, size in zip(ends, sizes, strict=True):
            part = Node("Slice", _part, [whole], {"axis": first.axis, "begin": begin, "size": size})
            # the very values that were there, so that whoever reads them need not change
            part.outputs = [v]
            nodes.append(part)
            begin += size
        self.new |= {id(n): [] for n in gone}
        self.new[id(first.node)] = nodes

    def _step(
        self, ends: Sequence[Value], whole: Value, axis: int, sizes: Sequence[int]
    ) -> tuple[Node, list[Node]] | None:
        """What is done to each of ``ends`` in the same way, done to ``whole``; and the nodes that do it."""
        nodes = []
        for v in ends:
            readers = self.readers.get(v, ())
            # somebody else reads it too, and needs it as it is
            if v in self.kept or len(readers) != 1 or not _of_channels(readers[0], v):
                return None
            nodes.append(readers[0])
        first = nodes[0]
        try:
            if len({_how(n, v) for n, v in zip(nodes, ends, strict=True)}) > 1:
                return None
        except TypeError:
            return None
        given: dict[Value, Value] = {ends[0]: whole}
        for place, c in enumerate(first.inputs):
            if c is None or c is ends[0]:
                continue
            others = [n.inputs[place] for n in nodes]
            if all(o is c for o in others) and c.data is not None and c.data.size == 1:
                continue
            along = _channels(others, ends[0].ndim, axis, sizes)
            if along is None:
                return None
            given[c] = _beside([o for o in others if o is not None], along)
        made = _again(first, given, axis, sum(sizes), nodes)
        return None if made is None else (made, nodes)


def _product(n: Node) -> _Product | None:
    """The product that a node is, without a bias."""
    if not single(n):
        return None
    for w in weighed(n):
        if (
            w.bias is None
            and constant(n.outputs[0].shape[w.axis]) is not None
            and _apart(n, w.weight, w.axis)
        ):
            return _Product(n, w.weight, w.axis, w.weight_axis)
    return None


def _apart(n: Node, weight: Value, axis: int) -> bool:
    """Whether nothing but the column of the weight depends on the place along ``axis``."""
    (made,) = n.results
    op = made.op
    if not isinstance(op, ComputeOp) or not op.reduce_axis:
        return False
    column = op.axis[axis].var
    reads = [e for e in preorder(op.body[0]) if isinstance(e, TensorRead)]
    others = [i for e in reads if e.tensor is not weight.tensor for i in e.indices]
    computed = [o for o in operations([op]) if isinstance(o, ComputeOp) and o is not op]
    return not computed and not any(column in variables(i) for i in others)


def _kind(p: _Product) -> Any:
    """Equal for products that can be joined."""
    n, data = p.node, p.weight.data
    assert data is not None
    others = tuple((i, None if v is None else id(v)) for i, v in enumerate(n.inputs) if v is not p.weight)
    sizes = tuple(s for d, s in enumerate(data.shape) if d != p.weight_axis)
    place = [i for i, v in enumerate(n.inputs) if v is p.weight]
    return function_key(n), others, tuple(place), sizes, p.axis, p.weight_axis, str(data.dtype)


def _how(n: Node, v: Value) -> Any:
    """Equal for nodes that do the same to the value."""
    return (
        function_key(n),
        tuple(i for i, w in enumerate(n.inputs) if w is v),
        len(n.inputs),
        str(n.outputs[0].dtype),
    )


def _of_channels(n: Node, v: Value) -> bool:
    """Whether a node does something to each element of ``v`` by itself, with constants."""
    if not single(n) or any(w.data is None for w in n.reads if w is not v):
        return False
    facts = facts_of(n)
    return (
        same_sizes(n.outputs[0].shape, v.shape)
        and facts.kind is Kind.MAP
        and facts.reads.get(v) is Reading.SAME
        and not any(isinstance(op, ComputeOp) and by_place(op) for op in operations([n.results[0].op]))
    )


def _channels(values: Sequence[Value | None], rank: int, axis: int, sizes: Sequence[int]) -> int | None:
    """The dimension of these constants that counts channels, when there is one and no other."""
    found = set()
    for v, size in zip(values, sizes, strict=True):
        if v is None or v.data is None:
            return None
        place = axis - (rank - v.data.ndim)
        along = tuple(size if d == place else 1 for d in range(v.data.ndim))
        if place < 0 or np.shape(v.data) != along:
            return None
        found.add((place, v.data.ndim, str(v.data.dtype)))
    return found.pop()[0] if len(found) == 1 else None


def _beside(values: Sequence[Value], axis: int) -> Value:
    """Constants side by side."""
    data = np.concatenate([np.asarray(v.data) for v in values], axis)
    return Value(values[0].name, data.shape, values[0].dtype, data=data)


def _again(n: Node, given: dict[Value, Value], axis: int, size: int, was: Sequence[Node]) -> Node | None:
    """The node with other inputs, when its result is as before but for its size along ``axis``."""
    node = remade(n, [None if v is None else given.get(v, v) for v in n.inputs])
    out = n.outputs[0]
    try:
        (made,) = node.results
    except TensorLangError:
        return None
    wanted = [*out.shape[:axis], make.const(size, out.shape[axis].dtype), *out.shape[axis + 1 :]]
    if made.dtype != out.dtype or not same_sizes(made.shape, wanted):
        return None
    node.outputs = [Value(out.name, made.shape, out.dtype, node)]
    node.was = tuple(m.op for m in was)
    return node


def _part(x: Tensor, *, axis: int, begin: int, size: int) -> Tensor:
    return ops.strided_slice(x, [begin], [begin + size], axes=[axis])
