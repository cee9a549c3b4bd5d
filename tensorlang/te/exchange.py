"""A computation in which other tensors stand for some of its own, and what follows from them is declared
anew. Knows te; nothing of why they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.node import intern
from ..expr.nodes import Expr
from ..expr.walk import rewrite
from .graph import operations
from .tensor import ComputeOp, PlaceholderOp, Tensor, TensorRead


@dataclass(frozen=True)
class Exchanged:
    """The tensors of a computation, each with the one that stands for it; those that are not here stand for
    themselves."""

    tensors: Mapping[Tensor, Tensor]

    def of(self, these: Iterable[Any]) -> list[Any]:
        """What stands for them; numbers and tensors of other computations stand for themselves."""
        return [self.tensors.get(t, t) if isinstance(t, Tensor) else t for t in these]

    def then(self, other: Exchanged) -> Exchanged:
        """What stands for them after what stands for those."""
        return Exchanged(
            {**other.tensors, **dict(zip(self.tensors, other.of(self.tensors.values()), strict=True))}
        )


def anew(op: ComputeOp, body: tuple[Expr, ...], name: str = "") -> ComputeOp:
    """A definition with another body, of tensors of its own; called as it is where no ``name`` is given."""
    return ComputeOp(name or op.name, op.axis, op.reduce_axis, body, op.tag, op.attrs, None, op.needs)


def exchanged(outputs: Sequence[Tensor], other: Callable[[ComputeOp], Tensor | None]) -> Exchanged:
    """The computation of ``outputs`` with what ``other`` says in the place of operations of one result, under
    their names; it may be made of the computation's own tensors, and None leaves an operation as it is.
    Nothing is exchanged where an operation that is not a compute (a scan, an extern) reads what would
    change."""
    # operations are left as they are, and what is neither is refused where the schedule is made
    if not all(isinstance(t, Tensor) for t in outputs):
        return Exchanged({})
    made: dict[Tensor, Tensor] = {}

    def declare(op: Any) -> bool:
        if isinstance(op, PlaceholderOp) or not any(t in made for t in op.input_tensors):
            return True
        if type(op) is not ComputeOp:
            return False
        made.update(zip(op.outputs, reading(op, made, op.name).outputs, strict=True))
        return True

    for op in operations(t.op for t in outputs):  # producers first
        new = other(op) if type(op) is ComputeOp and len(op.outputs) == 1 else None
        if new is None:
            if not declare(op):
                return Exchanged({})
            continue
        last = new.op
        if type(last) is not ComputeOp:
            return Exchanged({})
        before = operations([last])[:-1]
        if not all(declare(b) for b in before if not any(t in made for t in b.outputs)):
            return Exchanged({})
        made[op.outputs[0]] = reading(last, made, op.name).outputs[0]
    return Exchanged(made)


def reading(op: ComputeOp, made: Mapping[Tensor, Tensor], name: str) -> ComputeOp:
    """A definition that reads what is made instead, by another name."""

    def renewed(e: Expr) -> Expr | None:
        return intern(TensorRead, made.get(e.tensor, e.tensor), e.indices) if type(e) is TensorRead else None

    return anew(op, tuple(rewrite(e, renewed) for e in op.body), name)
