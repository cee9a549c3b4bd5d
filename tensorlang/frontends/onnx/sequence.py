"""ONNX's sequences and optionals: lists of values and None, which are gone when the graph is made. Knows the
importer and ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ... import ops
from ...errors import DeclareError, TensorLangError
from ...expr.nodes import const_int
from .proto import Call
from .table import graph_op, one

if TYPE_CHECKING:
    from .importer import Importer


def _list(c: Importer, call: Call, i: int = 0) -> list[Any]:
    v = c.value(call.inputs[i])
    if not isinstance(v, list):
        raise TensorLangError(f"{call!r}: {call.inputs[i]!r} is not a sequence")
    return v


def _place(c: Importer, call: Call, i: int, most: int) -> int:
    """A place in a list, from the end when it is negative."""
    n = one(c.numbers(call.inputs[i]))
    if not isinstance(n, int) or not -most <= n <= most:
        raise TensorLangError(f"{call!r}: place {n} of a sequence of {most}")
    return n + most if n < 0 else n


def _given(call: Call, i: int) -> bool:
    return len(call.inputs) > i and bool(call.inputs[i])


@graph_op("SequenceEmpty")
def sequence_empty(c: Importer, call: Call) -> Any:
    return []


@graph_op("SequenceConstruct")
def sequence_construct(c: Importer, call: Call) -> Any:
    return [c.value(n) for n in call.inputs]


@graph_op("SequenceLength")
def sequence_length(c: Importer, call: Call) -> Any:
    return c.new(np.array(len(_list(c, call)), np.int64), call.outputs[0])


@graph_op("SequenceAt")
def sequence_at(c: Importer, call: Call) -> Any:
    found = _list(c, call)
    return (found[_place(c, call, 1, len(found))],)


@graph_op("SequenceInsert")
def sequence_insert(c: Importer, call: Call) -> Any:
    before = _list(c, call)
    at = _place(c, call, 2, len(before)) if _given(call, 2) else len(before)
    return [*before[:at], c.value(call.inputs[1]), *before[at:]]


@graph_op("SequenceErase")
def sequence_erase(c: Importer, call: Call) -> Any:
    before = _list(c, call)
    at = _place(c, call, 1, len(before)) if _given(call, 1) else len(before) - 1
    return [*before[:at], *before[at + 1 :]]


@graph_op("ConcatFromSequence")
def concat_from_sequence(c: Importer, call: Call) -> Any:
    values = _list(c, call)
    join = _stacked if call.attrs.get("new_axis", 0) else _joined
    return c.g.call(join, *values, op=call.op, name=call.name, outputs=call.outputs, axis=call.attrs["axis"])


def _stacked(*tensors: Any, axis: int) -> Any:
    return ops.stack(list(tensors), axis)


def _joined(*tensors: Any, axis: int) -> Any:
    return ops.concatenate(list(tensors), axis)


@graph_op("SplitToSequence")
def split_to_sequence(c: Importer, call: Call) -> Any:
    """Parts of the sizes that the second input gives, of one size, or slices of one element."""
    x, axis = c.tensor(call.inputs[0]), call.attrs.get("axis", 0)
    total = const_int(x.shape[axis])
    # a list has as many elements as the graph was made with
    if total is None:  # how many parts there are is known when it is
        raise DeclareError(f"the size of dimension {axis} of {x!r} is not known")
    sizes = c.numbers(call.inputs[1]) if _given(call, 1) else 1
    if not isinstance(sizes, list):
        sizes = [min(sizes, total - at) for at in range(0, total, sizes)]
    drop = not _given(call, 1) and not call.attrs.get("keepdims", 1)
    ends = np.cumsum(sizes)[:-1].tolist()
    parts = c.g.call(_parts, x, op=call.op, name=call.name, ends=ends, axis=axis, drop=drop)
    return list(parts) if isinstance(parts, tuple) else [parts]


def _parts(x: Any, *, ends: Any, axis: int, drop: bool) -> Any:
    parts = ops.split(x, ends, axis) if ends else (x,)
    return tuple(ops.squeeze(p, axis) for p in parts) if drop else parts


@graph_op("SequenceMap")
def sequence_map(c: Importer, call: Call) -> Any:
    """The body once for each element, with the other sequences beside it and arrays as they are."""
    inputs = [c.value(n) for n in call.inputs]
    body = call.graphs["body"]
    count = len(_list(c, call))
    made = [[c.unique(n) for n in call.outputs] for _ in range(count)]
    rows = [[made[k][i] for k in range(count)] for i in range(len(call.outputs))]
    for names, out in zip(reversed(rows), reversed(call.outputs), strict=True):
        # work is put in front, so the last piece comes first: the lists are made when all bodies have run
        c.work.appendleft(Call("SequenceConstruct", "", tuple(names), (out,), {}))
    for k in reversed(range(count)):
        names = [c.unique(n) for n, _ in body.inputs]
        c.env |= {n: v[k] if isinstance(v, list) else v for n, v in zip(names, inputs, strict=True)}
        c.splice(body, names, made[k])
    return None


@graph_op("Optional")
def optional(c: Importer, call: Call) -> Any:
    return (c.value(call.inputs[0]) if _given(call, 0) else None,)


@graph_op("OptionalHasElement")
def optional_has_element(c: Importer, call: Call) -> Any:
    there = _given(call, 0) and c.value(call.inputs[0]) is not None
    return c.new(np.array(there), call.outputs[0])


@graph_op("OptionalGetElement")
def optional_get_element(c: Importer, call: Call) -> Any:
    v = c.value(call.inputs[0])
    if v is None:
        raise TensorLangError(f"{call!r}: the optional is empty")
    return (v,)
