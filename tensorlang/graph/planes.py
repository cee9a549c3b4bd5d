"""Two last axes of open sizes that a region passes side by side, as one axis: a convolution of single pixels,
maps, and what moves whole channels see no rows, and vectors then run over the end of a row. Knows te; no
kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis import constant
from ..expr.linear import poly
from ..expr.nodes import Expr, Var
from ..expr.walk import preorder, variables
from ..te import ComputeOp, IterVar, PlaceholderOp
from ..te.extern import OpaqueOp
from ..te.graph import operations
from ..te.tensor import TensorRead
from .graph import Node, Value

Plane = tuple[Expr, Expr]  # height and width


def plane_of(nodes: Sequence[Node], outputs: Sequence[Value]) -> Plane | None:
    """The height and width that may be one axis in all of the region; None where both are numbers, or where
    an operator tells a row from another."""
    shape = outputs[0].shape
    if len(shape) < 3:
        return None
    plane = (shape[-2], shape[-1])
    if all(constant(n) is not None for n in plane) or any(constant(n) == 1 for n in plane):
        return None
    if any(len(v.shape) < 3 or not has_plane(v.shape, plane) for v in outputs):
        return None
    if any(v.data is not None and has_plane(v.shape, plane) for n in nodes for v in n.reads):
        return None
    computed = [op for n in nodes for op in operations([t.op for t in n.results])]
    sums = any(isinstance(op, ComputeOp) and op.reduce_axis for op in computed)
    if not sums and constant(plane[1]) is not None:
        return None  # vectors of a row of a known size need no masks
    sizes = {v for n in plane for v in variables(n)}
    return plane if all(_passes(op, plane, sizes) for op in computed) else None


def has_plane(shape: Sequence[Expr], plane: Plane) -> bool:
    """Whether the last two sizes of a shape are these."""
    return len(shape) >= 2 and shape[-2] is plane[0] and shape[-1] is plane[1]


def _passes(op: object, plane: Plane, sizes: set[Var]) -> bool:
    """Whether each element of ``op`` is computed of elements at its own height and width, and of others that
    have none."""
    if isinstance(op, PlaceholderOp):
        return True
    if not isinstance(op, ComputeOp) or isinstance(op, OpaqueOp):
        return False
    if not has_plane([a.extent for a in op.axis], plane):
        return not any(has_plane(t.shape, plane) for t in op.input_tensors) and not _mentions(op, sizes)
    if any(constant(a.extent) is None for a in op.reduce_axis):
        return False
    y, x = op.axis[-2:]

    def below(e: Expr) -> Sequence[Expr]:
        if not isinstance(e, TensorRead):
            return e.children()
        return e.indices[:-2] if has_plane(e.tensor.shape, plane) else e.indices

    for e in (e for value in op.body for e in preorder(value, below)):
        if isinstance(e, TensorRead):
            if has_plane(e.tensor.shape, plane) and not (
                _is(op, e.indices[-2], y) and _is(op, e.indices[-1], x)
            ):
                return False
        elif e is y.var or e is x.var or e in sizes:
            return False
    return True


def _mentions(op: ComputeOp, sizes: set[Var]) -> bool:
    found = {v for e in (*op.body, *(a.extent for a in (*op.axis, *op.reduce_axis))) for v in variables(e)}
    return not found.isdisjoint(sizes)


def _is(op: ComputeOp, index: Expr, axis: IterVar) -> bool:
    """Whether an index is the axis, where reduction axes of one value are 0."""
    single = {a.var for a in op.reduce_axis if constant(a.extent) == 1}
    terms = {mono: c for mono, c in poly(index).items() if single.isdisjoint(mono)}
    return terms == {(axis.var,): 1}
