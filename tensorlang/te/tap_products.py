"""A convolution as two steps: the products of each pixel with the taps of all its channels, where the image
lies, and sums of those that an output gathers. Plain and transposed ones, of any stride: only where a sum
reads counts. Decides nothing.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from ..expr import make
from ..expr.nodes import Expr, Var
from ..expr.walk import substitute, variables
from .axis import IterVar
from .convolutions import Margin, margin_of
from .patterns import constant, reducer_kind
from .products import factors_of
from .tensor import ComputeOp, Tensor


@dataclass(frozen=True)
class TapProducts:
    """``out[n, o, …] = sum(data[n, c, place(…, t)] * weight[o, c, tap(…, t)], where=…)`` over the channels c
    and taps t; the weight has outputs and channels at ``first`` and ``second``, or the other way round."""

    image: Tensor
    margin: Margin  # around it, of zeros
    weight: Tensor
    outputs_first: bool
    channels: IterVar
    place: tuple[Expr, ...]  # of the image with its margin
    tap: tuple[Expr, ...]

    @property
    def taps(self) -> tuple[int, ...]:
        """Of the weight, along each place."""
        return tuple(constant(n) or 0 for n in self.weight.shape[2:])

    @property
    def outputs(self) -> int:
        return constant(self.weight.shape[0 if self.outputs_first else 1]) or 0

    def element(self, tap: Expr, output: Expr, channel: Expr) -> Expr:
        """Of the weight; taps are counted row by row."""
        places = list[Expr]()
        for n in reversed(self.taps):
            places.insert(0, make.floormod(tap, n))
            tap = make.floordiv(tap, n)
        front = (output, channel) if self.outputs_first else (channel, output)
        return self.weight(*front, *places)  # type: ignore[no-any-return]


def tap_products_of(op: ComputeOp) -> TapProducts | None:
    """``op`` as such a convolution of known sizes, of one group; None for anything else."""
    found = factors_of(op)
    if found is None or reducer_kind(op) != "add" or len(op.body) != 1 or op.body[0].init is not None:
        return None
    if len(op.axis) < 3 or not all(constant(a.extent) for a in (*op.axis, *op.reduce_axis)):
        return None
    n, o, *_ = op.axis
    for data, weight in (found, found[::-1]):
        at, place = weight.indices, data.indices
        if len(at) != len(op.axis) or len(place) != len(op.axis) or place[0] is not n.var:
            continue
        channels = next((c for c in op.reduce_axis if place[1] is c.var), None)
        if channels is None:
            continue
        outputs_first = at[0] is o.var and at[1] is channels.var
        if not outputs_first and not (at[0] is channels.var and at[1] is o.var):
            continue
        others = {v for i in (*place[2:], *at[2:]) for v in variables(i)}
        if op.body[0].condition is not None:
            others |= set(variables(op.body[0].condition))
        margin = _margin(data.tensor)
        if others & {n.var, o.var, channels.var} or margin is None:
            continue
        image, around = margin
        return TapProducts(image, around, weight.tensor, outputs_first, channels, place[2:], at[2:])
    return None


def _margin(data: Tensor) -> tuple[Tensor, Margin] | None:
    """The image in ``data``, and the zeros around it."""
    if isinstance(data.op, ComputeOp) and len(data.op.input_tensors) == 1:
        (image,) = data.op.input_tensors
        margin = margin_of(data, image)
        if margin is not None:
            return image, margin
    return data, ((0, 0),) * (data.ndim - 2)


def gathered(op: ComputeOp, t: TapProducts, products: Tensor) -> Tensor:
    """``op`` from the ``products`` of the image with its margin, [N, taps · outputs, …], taps written out."""
    _, o, *_ = op.axis
    taps = [a for a in op.reduce_axis if a is not t.channels]
    total: Expr | None = None
    for values in itertools.product(*[range(constant(a.extent) or 0) for a in taps]):
        known: dict[Var, Expr] = {a.var: make.as_expr(i) for a, i in zip(taps, values, strict=True)}
        place = [substitute(i, known) for i in t.place]
        tap: Expr = make.as_expr(0)
        for i, many in zip(t.tap, t.taps, strict=True):
            tap = make.add(make.mul(tap, many), substitute(i, known))
        read: Expr = products(op.axis[0].var, make.add(make.mul(tap, t.outputs), o.var), *place)
        condition = op.body[0].condition
        if condition is not None:
            read = make.if_then_else(substitute(condition, known), read, make.const(0, read.dtype))
        total = read if total is None else make.add(total, read)
    assert total is not None
    made = ComputeOp(op.name, op.axis, (), (total,), "", {}, None, op.needs)
    return made.outputs[0]
