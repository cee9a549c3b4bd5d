"""What only picks among floats that are made of bytes picks among the bytes, and makes floats of those it has
picked: largest and smallest elements of windows or along axes, and elements at other places. The scale is one
positive number, so the largest float is that of the largest byte. A file of a quantised network has such
operators between making floats and quantising again; where both are by the same numbers, nothing but a pick
of bytes is left.

Known by the te of the operator. ``without=["picked bytes"]`` is the switch. Knows graphs and te, no frontend.
"""

from __future__ import annotations

import math

from ...core.dtype import DType
from ...errors import TensorLangError
from ...expr.nodes import Choice, Const, Expr
from ...te import ComputeOp, PlaceholderOp, Tensor
from ...te.graph import operations
from ...te.reducers import Reduce
from ...te.tensor import TensorRead
from ..graph import Node, Program, Value
from ..sizes import same_sizes
from .levels import Constants
from .rewrite import exchanged, remade, single
from .whole_numbers import bytes_of


def pick_bytes(graph: Program) -> Program:
    """The graph with floats made behind what picks."""
    constants = Constants(graph)
    found = ((n, _of_bytes(n, constants)) for n in graph.nodes if single(n))
    return exchanged(graph, {id(n): nodes for n, nodes in found if nodes})


def _of_bytes(n: Node, constants: Constants) -> list[Node]:
    """What picks among the bytes, and what makes floats of them; none where it cannot."""
    (out,) = n.outputs
    if len(n.reads) != 1 or out.dtype != n.reads[0].dtype or not _picks(n.results[0], n.reads[0].tensor):
        return []
    (floats,) = n.reads
    data = bytes_of(floats, constants)
    if data is None or not data.scale > 0:
        return []
    q, maker = data.value, constants.makers[floats]
    first = remade(n, [q if v is floats else v for v in n.inputs])
    try:
        (made,) = first.results
        if made.dtype != q.dtype or not same_sizes(made.shape, out.shape) or not _picks(made, q.tensor):
            return []
        first.outputs = [Value(f"{out.name}.bytes", out.shape, q.dtype, first)]
        second = remade(maker, [first.outputs[0] if v is q else v for v in maker.inputs], [out])
        (made,) = second.results
    except TensorLangError:  # an operator that wants another type, or the shape that it had
        return []
    return [first, second] if same_sizes(made.shape, out.shape) else []


def _picks(made: Tensor, x: Tensor) -> bool:
    """Whether each element is one of ``x``, or the largest or the smallest of some, beside margins that are
    never it."""
    depends, kinds, margins = {x}, set(), set()
    for op in operations([made.op]):
        if isinstance(op, PlaceholderOp):
            continue
        if not isinstance(op, ComputeOp) or len(op.body) != 1:
            return False
        if not depends.intersection(op.input_tensors):
            continue
        e: Expr = op.body[0]
        if isinstance(e, Reduce):
            if e.reducer.kind not in ("max", "min") or e.condition is not None or e.init is not None:
                return False
            kinds.add(e.reducer.kind)
            e = e.sources[0]
        if isinstance(e, Choice):
            margin = _never(e.b, x.dtype)
            if margin is None:
                return False
            margins.add(margin)
            e = e.a
        if not isinstance(e, TensorRead) or e.tensor not in depends:
            return False
        depends.update(op.outputs)
    return made in depends and len(kinds) < 2 and margins <= kinds


def _never(e: Expr, kind: DType) -> str | None:
    """Of which of the two reductions a constant is the result only where there is nothing else."""
    if not isinstance(e, Const):
        return None
    least, most = (-math.inf, math.inf) if kind.is_float else kind.limits()
    return "max" if e.value == least else "min" if e.value == most else None
