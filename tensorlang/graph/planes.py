"""Two neighbouring axes, one or both of open sizes, that a region passes side by side, as one axis.

The two last: a convolution of single pixels, maps, and what moves whole channels see no rows, and vectors
then run over the end of a row. The two first, of a product by weights: its rows are those of all sequences
of a batch, so tiles run over the end of a sequence and weights are read once for all. Knows te; no kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..analysis import constant, product_of
from ..expr.linear import poly
from ..expr.nodes import Expr, Var
from ..expr.walk import preorder, variables
from ..te import ComputeOp, IterVar, PlaceholderOp
from ..te.extern import OpaqueOp
from ..te.graph import operations
from ..te.tensor import TensorRead
from .graph import Node, Value


class Plane(NamedTuple):
    """The sizes of the two axes, height and width, or batch and length; whether they are the first ones."""

    high: Expr
    wide: Expr
    first: bool = False

    def within(self, shape: Sequence[Expr]) -> bool:
        """Whether a shape has them at that end."""
        if len(shape) < 2:
            return False
        high, wide = shape[:2] if self.first else shape[-2:]
        return high is self.high and wide is self.wide

    def of(self, items: Sequence[Expr]) -> tuple[Expr, Expr]:
        """What stands at their places."""
        a, b = items[:2] if self.first else items[-2:]
        return a, b

    def others(self, items: Sequence[Expr]) -> Sequence[Expr]:
        """What stands at other places."""
        return items[2:] if self.first else items[:-2]


def plane_of(nodes: Sequence[Node], outputs: Sequence[Value]) -> Plane | None:
    """The two axes that may be one in all of the region; None where both are numbers, or where an operator
    tells one row from another."""
    shape = outputs[0].shape
    if len(shape) < 3:
        return None
    computed = [op for n in nodes for op in operations([t.op for t in n.results])]
    for plane in (Plane(shape[-2], shape[-1]), Plane(shape[0], shape[1], True)):
        if _open(plane) and _gains(plane, computed) and _alike(plane, nodes, outputs, computed):
            return plane
    return None


def _open(plane: Plane) -> bool:
    sizes = [constant(n) for n in plane[:2]]
    return sizes != [n for n in sizes if n is not None] and 1 not in sizes


def _gains(plane: Plane, computed: Sequence[object]) -> bool:
    sums = [op for op in computed if isinstance(op, ComputeOp) and op.reduce_axis]
    if not plane.first:  # vectors of a row of a known size need no masks
        return bool(sums) or constant(plane.wide) is None
    # rows of a known number are tiles as they are
    return constant(plane.wide) is None and any(_by_weights(op, plane) for op in sums)


def _by_weights(op: ComputeOp, plane: Plane) -> bool:
    """Whether ``op`` is a product with rows along the second axis, whose right operand has neither."""
    product = product_of(op, views=True) if plane.within([a.extent for a in op.axis]) else None
    own = op.axis[:2]
    return product is not None and product.row is own[1] and own[0] not in product.right_axes


def _alike(plane: Plane, nodes: Sequence[Node], outputs: Sequence[Value], computed: Sequence[object]) -> bool:
    if any(not plane.within(v.shape) or len(v.shape) < 3 for v in outputs):
        return False
    if any(v.data is not None and plane.within(v.shape) for n in nodes for v in n.reads):
        return False
    sizes = {v for n in plane[:2] for v in variables(n)}
    return all(_passes(op, plane, sizes) for op in computed)


def _passes(op: object, plane: Plane, sizes: set[Var]) -> bool:
    """Whether each element of ``op`` is computed of elements at its own place in the plane, and of others
    that have none."""
    if isinstance(op, PlaceholderOp):
        return True
    if not isinstance(op, ComputeOp) or isinstance(op, OpaqueOp):
        return False
    if not plane.within([a.extent for a in op.axis]):
        return not any(plane.within(t.shape) for t in op.input_tensors) and not _mentions(op, sizes)
    if any(constant(a.extent) is None for a in op.reduce_axis):
        return False
    y, x = op.axis[:2] if plane.first else op.axis[-2:]

    def below(e: Expr) -> Sequence[Expr]:
        if not isinstance(e, TensorRead):
            return e.children()
        return plane.others(e.indices) if plane.within(e.tensor.shape) else e.indices

    for e in (e for value in op.body for e in preorder(value, below)):
        if isinstance(e, TensorRead):
            if plane.within(e.tensor.shape):
                row, column = plane.of(e.indices)
                if not (_is(op, row, y) and _is(op, column, x)):
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
