"""Convolutions that ask about the edges of their image in the formula, ``if_then_else(0 <= i + a - 1 < n,
x[…], 0) * w[…]``: the same with the margin as a stage of its own, which the recipes of convolutions know, and
which asks once for each element and not for each tap. Decides nothing about loops.
"""

from __future__ import annotations

from ..arith.conditions import conjunction, conjuncts, never_negative
from ..core.node import intern
from ..expr import make
from ..expr.linear import poly
from ..expr.nodes import Choice, Expr, Mul, is_const
from .compute import compute
from .exchange import anew
from .patterns import constant
from .products import Windows, conv_of, windows_of
from .reducers import Reduce
from .tensor import ComputeOp, Tensor, TensorRead


def margin_apart(op: ComputeOp) -> Tensor | None:
    """What may take the place of a convolution whose image counts as zero outside of its edges, by a choice
    for each tap; None for all else. Not where the choice is of the whole product: a weight may be infinite.

    Measured (Zen 4, one thread), 3 × 3: 64 channels of 56 × 56 0.40 of the time, 256 of 14 × 14 0.40, 16 of
    112 × 112 0.63. Depthwise convolutions take as long or longer, and are left.
    """
    first = op.body[0]
    if type(first) is not Reduce or first.condition is not None or first.init is not None:
        return None
    source = first.sources[0]
    if type(source) is not Mul or first.reducer.kind != "add":
        return None
    for choice, other in ((source.a, source.b), (source.b, source.a)):
        if isinstance(choice, Choice) and type(choice.a) is TensorRead and type(other) is TensorRead:
            found = windows_of(op)
            if found is None or conv_of(op) is None or found.data is found.weight:
                return None
            if choice.a.tensor is not found.data or not is_const(choice.b, 0):
                return None
            margin = _margin(found, choice)
            return None if margin is None else _apart(op, choice, margin)
    return None


def _margin(found: Windows, choice: Choice) -> list[tuple[int, int]] | None:
    """Places in front and behind along each dimension of the image, if the choice asks about its edges and
    nothing else."""
    tests = [never_negative(c) for c in conjuncts(choice.cond)]
    if None in tests:
        return None
    margin = []
    for i, m, n in zip(found.place, found.moved, found.data.shape, strict=True):
        size = constant(n)
        ends = poly(i), poly(make.sub(make.sub(n, 1), i))
        asked = [any(t == end for t in tests) for end in ends]
        tests = [t for t in tests if t not in ends]
        extents = [1 if a is None else constant(a.extent) for a in (m.axis, m.tap)]
        if size is None or m.added is None or None in extents or m.stride < 0 or m.dilation < 0:
            if any(asked):
                return None
            margin.append((0, 0))
            continue
        places, taps = (n or 1 for n in extents)
        last = (places - 1) * m.stride + (taps - 1) * m.dilation + m.added
        before, behind = max(0, -m.added), max(0, last - size + 1)
        if (before and not asked[0]) or (behind and not asked[1]):
            return None
        margin.append((before, behind))
    return margin if not tests and any(map(any, margin)) else None


def _apart(op: ComputeOp, choice: Choice, margin: list[tuple[int, int]]) -> Tensor:
    """The convolution that reads the image with its margin."""
    given: Tensor = choice.a.tensor  # type: ignore[attr-defined]
    shape = [make.add(n, sum(m)) for n, m in zip(given.shape, margin, strict=True)]

    def padded(*place: Expr) -> Expr:
        inside, own = [], list(place)
        for d, (before, behind) in enumerate(margin):
            own[d] = make.sub(place[d], before)
            inside += [make.le(before, place[d])] * (before > 0)
            inside += [make.lt(own[d], given.shape[d])] * (behind > 0)
        return make.if_then_else(conjunction(inside), given(*own), make.const(0, given.dtype))

    image: Tensor = compute(shape, padded, name=f"{op.name}.window")
    at = tuple(make.add(i, before) for i, (before, _) in zip(choice.a.indices, margin, strict=True))  # type: ignore[attr-defined]
    first = op.body[0]
    assert isinstance(first, Reduce)
    read: Expr = intern(TensorRead, image, at)
    source = first.sources[0]
    a, b = (read if e is choice else e for e in source.children())
    body = intern(Reduce, first.reducer, (make.mul(a, b),), first.axes, None, None, 0)
    made: Tensor = anew(op, (body,)).outputs[0]
    return made
