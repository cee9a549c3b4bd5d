"""Loops that fill a list, from nothing and at its end, for what puts the list together: the same loop with
rows that are stacked. Knows the importer; loops are ``control``'s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ... import ops
from ...graph import Value
from ...te import Tensor
from .proto import Call

if TYPE_CHECKING:
    from .importer import Importer


@dataclass(frozen=True)
class Stacked:
    """A loop without its lists: ``call``, whose last ``count`` results are their elements; ``names`` says for
    each result of the loop as it was whether it is a list, and what it is called."""

    call: Call
    names: Sequence[tuple[bool, str]]

    @property
    def count(self) -> int:
        return sum(is_list for is_list, _ in self.names)

    def results(self, c: Importer, made: Sequence[Any]) -> tuple[Any, ...]:
        """The results of the loop as it was; what would have put lists together reads rows instead."""
        kept, rows = iter(made[: len(made) - self.count]), iter(made[len(made) - self.count :])
        found: list[Any] = []
        for is_list, name in self.names:
            if is_list:
                _join(c, name, next(rows))
            found.append([] if is_list else next(kept))
        return tuple(found)


def stacked(c: Importer, call: Call) -> Stacked | None:
    """The loop with rows for its lists; None where it has none, or does more with them."""
    body = call.graphs["body"]
    state = call.inputs[2:]
    lists = [k for k, n in enumerate(state) if isinstance(c.value(n), list) and not c.value(n)]
    elements = [_appended(call, k) for k in lists]
    if not lists or None in elements:
        return None
    outputs = [*call.outputs, *[""] * (len(body.outputs) - 1 - len(call.outputs))]
    if any(outputs[k] and not _only_joined(c, outputs[k]) for k in lists):
        return None
    # a name of their own, for a state may be appended too
    rows = [c.unique(e) for e in elements if e]
    named = [Call("Identity", "", (e,), (n,), {}) for e, n in zip(elements, rows, strict=True) if e]
    types = dict(body.outputs)
    kept = [k for k in range(len(outputs)) if k not in lists]
    new = replace(
        body,
        inputs=(*body.inputs[:2], *(body.inputs[2 + k] for k in range(len(state)) if k not in lists)),
        outputs=(
            body.outputs[0],
            *(body.outputs[1 + k] for k in kept),
            *((n, types[body.outputs[1 + k][0]]) for k, n in zip(lists, rows, strict=True)),
        ),
        calls=(
            *(b for b in body.calls if not (b.op == "SequenceInsert" and _of_list(b, call, lists))),
            *named,
        ),
    )
    made = replace(
        call,
        inputs=(*call.inputs[:2], *(n for k, n in enumerate(state) if k not in lists)),
        outputs=(*(outputs[k] for k in kept), *(c.unique(outputs[k] or "rows") for k in lists)),
        graphs={**call.graphs, "body": new},
    )
    return Stacked(made, [(k in lists, n) for k, n in enumerate(outputs)])


def _of_list(b: Call, call: Call, lists: Sequence[int]) -> bool:
    return b.outputs[0] in {call.graphs["body"].outputs[1 + k][0] for k in lists}


def _appended(call: Call, k: int) -> str | None:
    """What an iteration appends to the list that is carried as number ``k``; None where it does more."""
    body = call.graphs["body"]
    before, after = body.inputs[2 + k][0], body.outputs[1 + k][0]
    readers = [b for b in body.calls if before in b.reads or after in b.reads]
    if len(readers) != 1 or [n for n, _ in body.outputs].count(after) > 1:
        return None
    (insert,) = readers
    ours = insert.op == "SequenceInsert" and not insert.domain and insert.outputs == (after,)
    return insert.inputs[1] if ours and insert.inputs[0] == before and not any(insert.inputs[2:]) else None


def _only_joined(c: Importer, name: str) -> bool:
    """Whether a sequence is put together by what reads it, and by nothing else."""
    readers = [w for w in c.work if name in w.reads]
    joins = all(w.op == "ConcatFromSequence" and w.inputs == (name,) and not w.domain for w in readers)
    return joins and name not in c.outputs


def _join(c: Importer, name: str, rows: Value) -> None:
    """Put the rows in the place of what the sequence would have been put together to."""
    for k, w in enumerate(c.work):
        if name and name in w.reads:
            how = {"axis": w.attrs["axis"], "stacked": bool(w.attrs.get("new_axis", 0))}
            own = c.unique(w.outputs[0])
            c.env[own] = c.g.call(_joined, rows, op=w.op, name=w.name, outputs=w.outputs, **how)
            c.work[k] = Call("Identity", "", (own,), w.outputs, {})


def _joined(rows: Tensor, *, axis: int, stacked: bool) -> Tensor:
    """What is stacked along axis 0, along another one, or behind each other along it."""
    last = rows.ndim - (1 if stacked else 2)
    axis = axis + last + 1 if axis < 0 else axis
    order = [*range(1, axis + 1), 0, *range(axis + 1, rows.ndim)]
    moved = rows if axis == 0 else ops.transpose(rows, order)
    if stacked:
        return moved
    shape = list(moved.shape)
    return ops.reshape(moved, [*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]])
