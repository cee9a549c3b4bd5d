"""Whole numbers that are made floats and quantised again are multiplied by one number between: the scale of a
sum or of bytes over the scale of the result. Where a file has a sum of products times a scale, a shift,
another value of bytes added to it, limits, and a division by the scale of what is stored, all of these are
constants, and become one factor for each value of whole numbers and one shift; limits that the stored type
has by itself are left out.

What stands between is recognised by what it computes, as scales are. Rounding moves, by less than before: it
is done once a factor. ``without=["one scale"]`` is the switch. Knows graphs and te, no frontend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ... import ops, te
from ...analysis import constant
from ...core.dtype import FLOAT32
from ...expr import make
from ...expr.nodes import Add, Expr
from ...te import ComputeOp, Tensor
from ...te.tensor import TensorRead
from ..graph import Node, Program, Value
from .identities import by_itself, computed
from .levels import Constants
from .rewrite import alike_in_shape, exchanged, single
from .whole_numbers import bytes_of, rescaled

STEPS = "Steps"
MOST = 2  # values of whole numbers that are added
PROBES = np.arange(-600, 601) / 2  # in steps: halves are where roundings differ


@dataclass(frozen=True)
class _Sum:
    """Values of whole numbers, each times its factor, and a shift, within limits; the arrays broadcast to the
    values."""

    values: tuple[tuple[Value, np.ndarray], ...]
    shift: np.ndarray
    low: float = -np.inf
    high: float = np.inf


def multiply_once(graph: Program) -> Program:
    """The graph with one factor for each value of whole numbers that is quantised again."""
    work = _Work(graph)
    found = ((n, work.steps_of(n)) for n in graph.nodes if single(n))
    return exchanged(graph, {id(n): [made] for n, made in found if made is not None})


def steps_between(*inputs: Tensor, kind: str, count: int, zero: bool, low: bool, high: bool) -> Tensor:
    """``count`` values of whole numbers, each times a number of its channel, plus a shift, rounded to whole
    numbers of ``kind``. Then come the number that stands for 0, and limits before it is added, of those there
    are."""
    *pairs, shift = inputs[: 2 * count + 1]
    rest = list(inputs[2 * count + 1 :])
    y = shift
    for value, factor in zip(pairs[::2], pairs[1::2], strict=True):
        y = ops.add(ops.multiply(ops.cast(value, "float32"), factor), y)
    at = rest.pop(0) if zero else None
    for there, limit in ((low, make.max_), (high, make.min_)):
        if there:
            y = _limited(y, rest.pop(0), limit)

    def stored(*i: Any) -> te.Expr:
        number = te.nearbyint(y(*i))
        return te.cast(kind, number if at is None else number + te.cast(FLOAT32, at()))

    return te.compute(y.shape, stored, name="steps")  # type: ignore[return-value]


def _limited(y: Tensor, by: Tensor, limit: Callable[[te.Expr, te.Expr], te.Expr]) -> Tensor:
    return te.compute(y.shape, lambda *i: limit(y(*i), by()), name="limited")  # type: ignore[return-value]


class _Work:
    def __init__(self, graph: Program) -> None:
        self.constants = Constants(graph)
        self.makers = self.constants.makers
        self.readers = graph.readers()
        self.kept = set(graph.outputs)

    def steps_of(self, n: Node) -> Node | None:
        """What gives the bytes that ``n`` does by one factor; None where it does not quantise whole
        numbers."""
        out = n.outputs[0]
        if out.dtype.name not in ("int8", "uint8") or n.op == STEPS:
            return None
        given = by_itself(n)
        if (
            given is None
            or given.dtype != "float32"
            or not alike_in_shape(Value("", out.shape, given.dtype), given)
        ):
            return None
        how = _quantised(n, given)
        total = None if how is None else self._sum(given)
        if how is None or total is None:
            return None
        # bytes alone may be the very ones that are wanted, which another pass sees
        alone = len(total.values) == 1 and total.values[0][0].dtype.bytes == 1 and total.shift.size == 1
        return None if alone and total.low == -np.inf and total.high == np.inf else _node(n, total, *how)

    def _sum(self, v: Value) -> _Sum | None:
        """A float as a sum of whole numbers. Others may read it too only where it is made of bytes, which
        takes nothing."""
        data = bytes_of(v, self.constants)
        if data is not None:
            return _Sum(((data.value, np.array(data.scale)),), np.array(-data.zero * data.scale))
        n = self.makers.get(v)
        if n is None or not single(n) or v in self.kept or len(self.readers.get(v, ())) != 1:
            return None
        if n.fn is rescaled:
            total, by, more = n.inputs
            assert total is not None and by is not None and more is not None
            assert by.data is not None and more.data is not None
            return _Sum(((total, by.data.astype(np.float64)),), more.data.astype(np.float64))
        return self._added(n) or self._limits(n)

    def _added(self, n: Node) -> _Sum | None:
        (out,), op = n.outputs, n.results[0].op
        if len(n.reads) != 2 or not isinstance(op, ComputeOp) or type(op.body[0]) is not Add:
            return None
        if not all(_broadcast(op, e) for e in (op.body[0].a, op.body[0].b)):
            return None
        if not all(v.data is not None or alike_in_shape(v, out) for v in n.reads):
            return None
        a, b = (_Sum((), v.data.astype(np.float64)) if v.data is not None else self._sum(v) for v in n.reads)
        if a is None or b is None or len(a.values) + len(b.values) > MOST:
            return None
        if any(np.isfinite([s.low, s.high]).any() for s in (a, b)):
            return None
        return _Sum(a.values + b.values, a.shift + b.shift)

    def _limits(self, n: Node) -> _Sum | None:
        given = by_itself(n)
        if given is None or given.dtype != "float32" or not alike_in_shape(n.outputs[0], given):
            return None
        probes = np.concatenate([PROBES, PROBES / 64, [-np.inf, np.inf]])
        y = computed([(n, given)], probes.astype(np.float32))
        if y is None:
            return None
        low, high = float(y[-2]), float(y[-1])
        if not low < high or not np.array_equal(y, np.clip(probes, low, high).astype(np.float32)):
            return None
        total = self._sum(given)
        return None if total is None else replace(total, low=max(low, total.low), high=min(high, total.high))


def _broadcast(op: ComputeOp, e: Expr) -> bool:
    """Whether an element of the result reads a tensor at its own place, as far as that has dimensions."""
    if not isinstance(e, TensorRead):
        return False
    last = op.axis[len(op.axis) - len(e.indices) :]
    return all(i is a.var or constant(i) == 0 for i, a in zip(e.indices, last, strict=True))


def _quantised(n: Node, given: Value) -> tuple[float, int] | None:
    """The scale and the zero point by which ``n`` makes bytes of floats; None where it does something
    else."""
    kind = n.outputs[0].dtype
    low, high = kind.limits()
    for v in n.reads:
        if v.data is None or v.data.dtype != np.float32 or not (s := float(v.data.reshape(()))) > 0:
            continue
        x = np.float32(s) * PROBES.astype(np.float32)
        x = np.concatenate([x, np.nextafter(x, np.float32(-np.inf)), np.nextafter(x, np.float32(np.inf))])
        y = computed([(n, given)], x)
        if y is None:
            continue
        zero = int(y[len(PROBES) // 2])
        if np.array_equal(y, np.clip(np.rint(x / np.float32(s)) + zero, low, high)):
            return s, zero
    return None


def _node(n: Node, total: _Sum, scale: float, zero: int) -> Node:
    out = n.outputs[0]
    low, high = out.dtype.limits()
    limits = {
        name: at / scale
        for name, at, implied in (
            ("low", total.low, lambda x: np.rint(x) + zero <= low),
            ("high", total.high, lambda x: np.rint(x) + zero >= high),
        )
        if not implied(at / scale)
    }

    def constant(name: str, a: np.ndarray | float) -> Value:
        data = np.asarray(a, np.float32)
        return Value(f"{out.name}.{name}", data.shape, FLOAT32, data=data)

    inputs: list[Value] = []
    for k, (v, factor) in enumerate(total.values):
        inputs += [v, constant(f"scale{k}", factor / scale)]
    inputs.append(constant("shift", total.shift / scale))
    if zero:
        at = np.array(zero, out.dtype.to_numpy())
        inputs.append(Value(f"{out.name}.zero", (), out.dtype, data=at))
    inputs += [constant(name, a) for name, a in limits.items()]
    how = {"kind": out.dtype.name, "count": len(total.values), "zero": bool(zero)}
    made = Node(STEPS, steps_between, inputs, how | {k: k in limits for k in ("low", "high")}, n.name)
    made.outputs, made.was = list(n.outputs), n.was or (n.op,)
    return made
