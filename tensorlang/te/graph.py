"""The graph of operations below some outputs, and a part of it as a graph by itself. Knows tensors only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..core.node import intern
from ..errors import DeclareError
from ..expr.nodes import Expr, Var
from ..expr.walk import rewrite, variables
from .extern import OpaqueOp
from .tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorRead


def operations(outputs: Iterable[Operation]) -> tuple[Operation, ...]:
    """Every operation needed for the outputs, producers before consumers."""
    done: dict[Operation, None] = {}
    # with a stack of its own: graphs of models are deeper than Python's recursion
    stack: list[tuple[Operation, bool]] = [(op, False) for op in reversed(list(outputs))]
    while stack:
        op, ready = stack.pop()
        if op in done:
            continue
        if ready:
            done[op] = None
            continue
        stack.append((op, True))
        stack.extend((t.op, False) for t in reversed(op.input_tensors))
    return tuple(done)


def inputs(outputs: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """The placeholders the outputs are made of, in order of appearance."""
    return tuple(op.outputs[0] for op in operations([t.op for t in outputs]) if isinstance(op, PlaceholderOp))


def variables_of(outputs: Iterable[Tensor]) -> set[Var]:
    """The variables that their computation mentions, in sizes, extents and bodies."""
    found: set[Var] = set()
    for op in operations([t.op for t in outputs]):
        sizes = [n for t in op.outputs for n in t.shape]
        extents = [a.extent for a in (*op.axis, *op.reduce_axis)]
        found.update(*map(variables, (*sizes, *extents, *op.body)))
    return found


def part(outputs: Iterable[Tensor], given: Mapping[Tensor, Tensor]) -> dict[Tensor, Tensor]:
    """The computation of some tensors from others as one by itself: for each tensor on the way, and each of
    ``outputs``, one that is computed in the same way, where every tensor of ``given`` is read as the one it
    stands for. Inputs that are not given stay themselves.

    ``part([E], {D: te.placeholder(D.shape, name="D")})[E]`` computes E of an input D. Raises DeclareError for
    a scan or an extern on the way.
    """
    made: dict[Tensor, Tensor] = dict(given)

    def renewed(e: Expr) -> Expr | None:
        return (
            intern(TensorRead, made[e.tensor], e.indices)
            if type(e) is TensorRead and made.get(e.tensor, e.tensor) is not e.tensor
            else None
        )

    stack: list[tuple[Operation, bool]] = [(t.op, False) for t in outputs]
    while stack:
        op, ready = stack.pop()
        if isinstance(op, PlaceholderOp) or all(t in made for t in op.outputs):
            continue
        if not isinstance(op, ComputeOp) or isinstance(op, OpaqueOp):
            raise DeclareError(
                f"part: `{op.name}` is {'a scan' if hasattr(op, 'state') else 'an extern'}",
                because="only what te.compute declares can be taken out of a computation",
                try_=f"give {op.name} as an input",
            )
        if not ready:
            stack.append((op, True))
            stack.extend((t.op, False) for t in op.input_tensors if t not in made)
            continue
        new = ComputeOp(
            op.name, op.axis, op.reduce_axis, tuple(rewrite(e, renewed) for e in op.body), op.tag, op.attrs
        )
        made.update(zip(op.outputs, new.outputs, strict=True))
    return {old: new for old, new in made.items() if old not in given}
