"""Numbers of a range of which a loop appends to a list those that a condition keeps: bags of embeddings with
an index that stands for nothing, as exporters write them. A list whose length data tells element by element
is no array; the range with its conditions is, and what reads the list (its length, rows of a table, a
reduction of those) computes with both. Knows the importer; iterations are ``independent``'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np

from ... import ops, te
from ...core.dtype import INT64
from ...expr import make
from ...expr.nodes import Expr
from ...graph import Opaque, Value
from ...te import Tensor
from .known import as_known
from .proto import Body, Call, Type
from .reduce import REDUCTIONS

# each of nothing: what stands for an element that is not kept
NEUTRAL = {"ReduceSum": lambda t: te.const(0, t), "ReduceMax": te.min_value, "ReduceMin": te.max_value}
SAME = ("Cast", "CastLike", "Identity")  # of a whole number


@dataclass(frozen=True)
class Filter:
    """The numbers from ``start`` up to ``end``, values of one element, of which a loop appends to a list
    those that are kept. ``loop`` says of each whether it is, as many times as ``most`` tells, which is
    ``bound`` at most; ``name`` is what the list is called, ``last`` the number behind it."""

    start: Value
    end: Value
    loop: Call
    most: str
    bound: Expr
    name: str
    last: str


def filter_of(c: Any, call: Call) -> Filter | None:
    """The filter that a Loop is; None for any other."""
    body = call.graphs["body"]
    if len(call.inputs) != 4 or call.inputs[0] or len(body.outputs) != 3:
        return None
    made = {n: b for b in body.calls for n in b.outputs}
    (row, _), (going, truth) = body.inputs[:2]
    again = made.get(body.outputs[0][0])
    for k, n in ((0, 1), (1, 0)):
        at, after = body.inputs[2 + n][0], body.outputs[1 + n][0]
        appending, step = made.get(body.outputs[1 + k][0]), made.get(after)
        if (
            appending is not None
            and _is(again, "Less", after)
            and _is(step, "Add", at)
            and _one(c, body, made, step.inputs[1])
            and _appends(body, appending, body.inputs[2 + k][0], at)
        ):
            break
    else:
        return None
    begin, end = call.inputs[2 + n], again.inputs[1]
    start, stop, first = c.value(begin), c.env.get(end), c.value(call.inputs[1])
    if end in body.own or not _number(start) or not _number(stop) or not _empty(c.value(call.inputs[2 + k])):
        return None
    if not isinstance(first, Value) or first.node is None or first.node.op != "Less":
        return None
    if list(first.node.inputs) != [start, stop] or not c.narrow.keys().isdisjoint((start, stop)):
        return None
    # each number is a place in what the condition reads, from the end where it is below 0
    sizes = [_size(c, b) for b in body.calls if b.op == "Gather" and b.inputs[1] == at]
    size = next((n for n in sizes if n is not None), None)
    if size is None:
        return None
    place = Call("Add", "", (begin, row), (at,), {})
    calls = (place, *(b for b in body.calls if b is not appending and b is not again))
    keeps = replace(
        body,
        inputs=body.inputs[:2],
        outputs=((going, truth), (appending.inputs[0], Type("bool", ()))),
        calls=calls,
    )
    most = c.unique("length")
    loop = replace(call, inputs=(most, ""), outputs=(c.unique("keeps"),), graphs={"body": keeps})
    return Filter(start, stop, loop, most, make.mul(size, 2), call.outputs[k], (*call.outputs, "")[n])


def _is(b: Call | None, op: str, first: str) -> TypeGuard[Call]:
    return b is not None and b.op == op and not b.domain and b.inputs[0] == first


def _size(c: Any, gather: Call) -> Expr | None:
    """Of the first axis of what a Gather reads along it, where that is there before the loop."""
    v = c.env.get(gather.inputs[0])
    if not isinstance(v, Value) or isinstance(v, Opaque) or not v.ndim or gather.attrs.get("axis", 0):
        return None
    return v.shape[0]


def _one(c: Any, body: Body, made: Mapping[str, Call], name: str) -> bool:
    """Whether a name of the body stands for the number 1."""
    while name in made and made[name].op in SAME:
        name = made[name].inputs[0]
    if name in made or name in {n for n, _ in body.inputs}:
        return False
    known = body.constants[name] if name in body.constants else as_known(c.value(name))
    return known is not None and np.size(known) == 1 and bool(np.reshape(known, -1)[0] == 1)


def _appends(body: Body, call: Call, before: str, at: str) -> bool:
    """Whether an If appends the number ``at`` to the list ``before``, or leaves it as it is; and nothing else
    reads the list."""
    if call.op != "If" or call.domain or len(call.outputs) > 1:
        return False
    if any(before in b.reads or call.outputs[0] in b.reads for b in body.calls if b is not call):
        return False
    more, same = call.graphs["then_branch"], call.graphs["else_branch"]
    longer = {n: b for b in more.calls for n in b.outputs}
    joined = longer.get(more.outputs[0][0])
    if joined is None or not _is(joined, "Concat", before) or len(joined.inputs) != 2 or joined.attrs["axis"]:
        return False
    element = longer.get(joined.inputs[1])
    kept, handed = same.outputs[0][0], {b.outputs[0]: b.inputs[0] for b in same.calls if b.op == "Identity"}
    alone = _is(element, "Reshape", at) or _is(element, "Unsqueeze", at)
    return alone and handed.get(kept, kept) == before and len(handed) == len(same.calls)


def _number(v: Any) -> bool:
    """Whether a value is one whole number that a call tells."""
    one = isinstance(v, Value) and not isinstance(v, Opaque) and v.sizes in ((), (1,))
    return one and v.dtype == INT64 and v.known is None


def _empty(v: Any) -> bool:
    return isinstance(v, Value) and not isinstance(v, Opaque) and v.sizes == (0,) and v.dtype == INT64


def read(c: Any, call: Call, keeps: Mapping[Value, Value]) -> Any:
    """The result of what reads a list, and whether it is a row for each of its elements; None where it cannot
    be said so."""
    values = [c.env.get(n) for n in call.inputs]
    where = {k for k, v in enumerate(values) if v in keeps}
    if call.domain or len(call.reads) > len(call.inputs):
        return None
    how: dict[str, Any] = {"op": call.op, "name": call.name, "outputs": call.outputs}
    if call.op == "Size":
        return c.g.call(_count, keeps[values[0]], **how), False
    if call.op == "Gather" and where == {1} and call.attrs.get("axis", 0) == 0:
        return c.g.call(_rows, c.tensor(call.inputs[0]), values[1], keeps[values[1]], **how), True
    if call.op in (*NEUTRAL, "ReduceMean") and where == {0}:
        axes = call.attrs.get("axes") or (c.numbers(call.inputs[1]) if len(call.inputs) > 1 else None)
        x, keep = values[0], keeps[values[0]]
        if axes is not None and np.size(axes) == 1 and int(np.reshape(axes, -1)[0]) % x.ndim == 0:
            dims = bool(call.attrs.get("keepdims", 1))
            if call.op != "ReduceMean":
                return c.g.call(_reduced, x, keep, how=call.op, keepdims=dims, **how), False
            if x.dtype.is_float:
                return c.g.call(_mean, x, keep, keepdims=dims, **how), False
    return None


# -- te


def length(start: Tensor, end: Tensor) -> Tensor:
    """How many numbers there are, kept or not."""
    own = lambda t: t(*[0] * t.ndim)
    return te.compute((), lambda: te.max(own(end) - own(start), te.const(0, INT64)), name="length")


def places(start: Tensor, *, size: Expr) -> Tensor:
    """The numbers."""
    return te.compute((size,), lambda p: start(*[0] * start.ndim) + te.cast(INT64, p), name="places")


def _count(keep: Tensor) -> Tensor:
    return ops.sum(ops.cast(keep, INT64), None, INT64, False)


def _rows(x: Tensor, at: Tensor, keep: Tensor) -> Tensor:
    """Rows of a table, of those places that are kept: others need not be in it."""
    rows = ops.take(x, at, 0, "index")
    return _only(rows, keep, te.const(0, x.dtype))


def _only(x: Tensor, keep: Tensor, other: Any) -> Tensor:
    return te.compute(x.shape, lambda p, *i: te.if_then_else(keep(p), x(p, *i), other), name="kept")


def _reduced(x: Tensor, keep: Tensor, *, how: str, keepdims: bool) -> Tensor:
    return REDUCTIONS[how](_only(x, keep, NEUTRAL[how](x.dtype)), (0,), keepdims)


def _mean(x: Tensor, keep: Tensor, *, keepdims: bool) -> Tensor:
    """Of nothing 0, as that of an empty slice."""
    total, count = _reduced(x, keep, how="ReduceSum", keepdims=keepdims), _count(keep)
    each = lambda *i: total(*i) / te.cast(x.dtype, te.max(count(), te.const(1, INT64)))
    return te.compute(total.shape, each, name="mean")
