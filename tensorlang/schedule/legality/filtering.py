"""Whether a stage is a convolution by 3×3 kernels that minimal filtering can compute, and which of its axes
are what. Knows the state; changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from ...expr.linear import poly
from ...expr.nodes import Expr, Mul, Var, const_int
from ...te.axis import REDUCE, IterVar
from ...te.reducers import Reduce
from ...te.tensor import ComputeOp, TensorRead

TAPS = 3


@dataclass(frozen=True, slots=True)
class Filter:
    """``data`` and ``weight`` as they are read; the axes by their roles. ``places`` are height and width,
    each with its tap and what is added to both in the index of ``data``."""

    data: TensorRead
    weight: TensorRead
    batch: tuple[IterVar, ...]
    places: tuple[tuple[IterVar, IterVar, int], ...]
    outputs: IterVar
    channels: IterVar


def filter_of(op: ComputeOp) -> Filter | str:
    """The convolution by 3×3 kernels that an operation computes, its axes by their roles; or, as text, why it
    is none that minimal filtering can compute."""
    first = op.body[0] if len(op.body) == 1 else None
    if not isinstance(first, Reduce) or first.reducer.kind != "add" or first.init is not None:
        return "it is not a plain sum"
    if first.dtype.name not in ("float32", "float64"):
        return f"it sums {first.dtype}, and the transforms are for float32 and float64"
    if first.condition is not None:
        return "its sum has a condition"
    product = first.sources[0]
    if not (
        isinstance(product, Mul) and isinstance(product.a, TensorRead) and isinstance(product.b, TensorRead)
    ):
        return "what it sums is not the product of an element of one tensor and one of another"
    if any(iv.dom is None or const_int(iv.dom[0]) != 0 for iv in op.reduce_axis):
        return "a reduction axis does not begin at 0"
    for data, weight in ((product.a, product.b), (product.b, product.a)):
        found = _in_roles(op, data, weight)
        if found is not None:
            return found
    return "it is not a convolution by 3×3 kernels of stride 1, in one group, of an image of known size"


def _in_roles(op: ComputeOp, data: TensorRead, weight: TensorRead) -> Filter | None:
    by_var = {a.var: a for a in (*op.axis, *op.reduce_axis)}
    of_weight = [by_var[i] for i in weight.indices if isinstance(i, Var) and i in by_var]
    if len(of_weight) != 4 or len(weight.indices) != 4:
        return None
    places, alone = [], []
    for index in data.indices:
        place = _place(index, by_var)
        if place is not None:
            places.append(place)
        elif isinstance(index, Var) and index in by_var:
            alone.append(by_var[index])
        elif const_int(index) is None:
            return None
    channels = [a for a in alone if a.kind == REDUCE]
    batch = [a for a in alone if a.kind != REDUCE]
    outputs = [a for a in of_weight if a.kind != REDUCE]
    if len(places) != 2 or len(channels) != 1 or len(outputs) != 1 or len(op.reduce_axis) != 3:
        return None
    taps = [tap for _, tap, _ in places]
    used = [*batch, *outputs, *(axis for axis, _, _ in places)]
    apart = len({id(a) for a in used}) == len(used) and len({id(a) for a in (*taps, *channels)}) == 3
    whole = {id(a) for a in of_weight} == {id(a) for a in (*taps, *channels, *outputs)}
    idle = all(any(a is u for u in used) or const_int(a.extent) == 1 for a in op.axis)
    known = all(const_int(axis.extent) for axis, _, _ in places) and const_int(channels[0].extent)
    if not (apart and whole and idle and known) or any(const_int(tap.extent) != TAPS for tap in taps):
        return None
    return Filter(data, weight, tuple(batch), tuple(places), outputs[0], channels[0])


def _place(index: Expr, by_var: dict[Var, IterVar]) -> tuple[IterVar, IterVar, int] | None:
    """The axis and the tap whose sum an index is, with the number added to them."""
    terms = dict(poly(index))
    added = terms.pop((), 0)
    if len(terms) != 2 or any(n != 1 or len(t) != 1 for t, n in terms.items()):
        return None
    axes = [by_var[t[0]] for t in terms if isinstance(t[0], Var) and t[0] in by_var]
    data = [a for a in axes if a.kind != REDUCE]
    taps = [a for a in axes if a.kind == REDUCE]
    return (data[0], taps[0], added) if len(data) == len(taps) == 1 else None
