"""Where an element of an array is in the same array seen in another shape: both count the same elements, the
last index fastest. Knows sizes and expressions; no tensors.

A place is found group by group: dimensions that multiply to the same number on both sides are divided among
themselves only, so that the ones that stay as they are are read straight.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int


def product(sizes: Sequence[ExprLike]) -> Expr:
    """The number of elements of a shape; wide enough for a product of symbols."""
    known, rest = 1, []
    for s in sizes:
        n = const_int(make.as_expr(s))
        if n is None:
            rest.append(make.as_expr(s))
        else:
            known *= n
    # known sizes are multiplied in Python, which does not overflow
    total = make.as_expr(known, rest[0].dtype if rest else None)
    for e in rest:
        total = make.mul(total, e)
    return total


def same(some: Sequence[Expr], others: Sequence[Expr]) -> bool:
    """Whether two shapes, or the indices of two places, are one."""
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def place(shape: Sequence[Expr], seen: Sequence[Expr], at: Sequence[ExprLike]) -> list[ExprLike]:
    """The indices in an array of that ``shape`` of what is ``at`` these in one that is ``seen`` so."""
    out: list[ExprLike] = [make.const(0, "int32")] * len(shape)
    for sources, targets in _groups(shape, seen):
        offset = make.as_expr(0)
        for d in targets:
            # only within a group: dimensions that stay as they are need no division
            offset = offset * seen[d] + at[d]
        for d in reversed(sources[1:]):
            out[d] = make.floormod(offset, shape[d])
            offset = make.floordiv(offset, shape[d])
        out[sources[0]] = offset
    return out


def _groups(before: Sequence[Expr], after: Sequence[Expr]) -> list[tuple[list[int], list[int]]]:
    """The least groups of neighbouring dimensions that hold as many elements on both sides. Sizes of 1 are in
    none: their index is 0."""
    a = [d for d, n in enumerate(before) if const_int(n) != 1]
    b = [d for d, n in enumerate(after) if const_int(n) != 1]
    # a prefix of both sides with as many elements ends a group
    ends = {product([after[d] for d in b[:k]]): k for k in range(1, len(b) + 1)}
    groups, start, target = [], 0, 0
    for k in range(1, len(a) + 1):
        end = ends.get(product([before[d] for d in a[:k]]))
        # the last group takes what is left, also where no proof says that it fits
        if k == len(a):
            end = len(b)
        if end is not None and end > target:
            groups.append((a[start:k], b[target:end]))
            start, target = k, end
    return groups
