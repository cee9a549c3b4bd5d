"""The lanes of a vector where a mask holds, one behind the other: what is kept of many elements, and taken
without a branch for each. Knows expressions."""

from __future__ import annotations

from ..core.node import intern
from ..expr.nodes import REDUCED, Expr, over, together


class Packed(Expr):
    """The lanes of ``value`` where ``mask`` holds, in front; lanes behind those hold zero."""

    __slots__ = ("mask", "value")
    _fields = ("value", "mask")

    def __init__(self, value: Expr, mask: Expr) -> None:
        self._memo = None
        self._height = over((value, mask))
        self.contains = together(REDUCED, (value, mask))
        self.value = value
        self.mask = mask
        self.dtype = value.dtype

    def children(self) -> tuple[Expr, ...]:
        return (self.value, self.mask)

    def with_children(self, *kids: Expr) -> Expr:
        return packed(*kids)


def packed(value: Expr, mask: Expr) -> Expr:
    """See :class:`Packed`."""
    return intern(Packed, value, mask)
