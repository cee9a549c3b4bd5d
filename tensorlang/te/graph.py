"""The graph of operations below some outputs. Knows tensors only."""

from __future__ import annotations

from collections.abc import Iterable

from .tensor import Operation, PlaceholderOp, Tensor


def operations(outputs: Iterable[Operation]) -> tuple[Operation, ...]:
    """Every operation needed for the outputs, producers before consumers."""
    done: dict[Operation, None] = {}
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
