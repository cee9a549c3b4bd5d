"""Operators whose result is their input, element by element in the same shape: a reshape to the shape that is
there, a transposition of nothing, a cast to the same type; and pairs that make bytes of bytes, each value as
itself, as files of quantised networks have them (floats of the bytes, quantised by the same numbers) where an
operator that stood between is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...errors import TensorLangError
from ...expr.walk import preorder
from ...te import ComputeOp, placeholder, reference
from ...te.tensor import TensorRead
from ..graph import Node, Program, Value
from ..regions.facts import Reading, reading
from .rewrite import alike_in_shape, renewed, single


def drop_identities(graph: Program) -> Program:
    """The graph without them."""
    replaced: dict[Value, Value] = {}
    makers = {v: n for n in graph.nodes for v in n.outputs}
    for n in graph.nodes:
        source = _source(n) or _bytes_again(n, makers)
        if source is not None:
            replaced[n.outputs[0]] = source
    fixed = set(graph.outputs) if graph.rest is not None else set()
    nodes = [n for n in graph.nodes if n.outputs[0] not in replaced or n.outputs[0] in fixed]
    changed = len(nodes) < len(graph.nodes) or any(v in replaced for n in nodes for v in n.reads)
    return renewed(graph, nodes, replaced) if changed else graph


def _source(n: Node) -> Value | None:
    """The input that the node hands on; None when it does something."""
    if not single(n) or len(n.reads) != 1:
        return None
    (source,) = n.reads
    if not alike_in_shape(n.outputs[0], source):
        return None
    (made,) = n.results
    op = made.op
    if not isinstance(op, ComputeOp) or len(op.body) != 1:
        return None
    (body,) = op.body
    if isinstance(body, TensorRead) and body.tensor is source.tensor:
        return source if reading(op, body.indices) is Reading.SAME else None
    return None


def _bytes_again(n: Node, makers: Mapping[Value, Node]) -> Value | None:
    """The bytes that are the operator's result, for they are what its input was made of, by numbers alone."""
    if not single(n) or n.outputs[0].dtype.name not in ("int8", "uint8"):
        return None
    given = by_itself(n)
    maker = None if given is None else makers.get(given)
    source = None if maker is None else by_itself(maker)
    if given is None or maker is None or source is None or not alike_in_shape(n.outputs[0], source):
        return None
    every = np.arange(256).astype(source.dtype.name)
    found = computed([(maker, source), (n, given)], every)
    return source if found is not None and np.array_equal(found, every) else None


def computed(steps: Sequence[tuple[Node, Value]], numbers: np.ndarray) -> np.ndarray | None:
    """What operators, each of the one before, make of numbers in the place of an input; None where one wants
    the shape that it had."""
    (_, source), *_ = steps
    shape = (len(numbers), *[1] * (len(source.shape) - 1))
    made = whole = placeholder(shape, source.dtype, "numbers")
    constants = {v.tensor: v.data for n, _ in steps for v in n.reads if v.data is not None}
    try:
        for n, given in steps:
            (made,) = n.of([made if w is given else None if w is None else w.tensor for w in n.inputs])
        (found,) = reference.evaluate([made], {whole: numbers.reshape(shape), **constants})
    except TensorLangError:
        return None
    return found.reshape(-1) if found.size == len(numbers) else None  # type: ignore[no-any-return]


def by_itself(n: Node) -> Value | None:
    """The input of which each element of the result is made, of one at the same place, by single numbers;
    None where there is no such input."""
    varying = [v for v in n.reads if v.data is None]
    if not single(n) or len(varying) != 1 or any(v.data.size != 1 for v in n.reads if v.data is not None):
        return None
    op = n.results[0].op
    if not varying[0].shape or not isinstance(op, ComputeOp) or len(op.body) != 1:
        return None
    reads = [e for e in preorder(op.body[0]) if isinstance(e, TensorRead) and e.tensor is varying[0].tensor]
    return varying[0] if reads and all(reading(op, e.indices) is Reading.SAME for e in reads) else None
