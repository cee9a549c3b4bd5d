"""A block of memory of the loop IR, and where its elements are. Knows expressions; no statements."""

from __future__ import annotations

import math

from ..core.dtype import INT32, DType
from ..expr import make
from ..expr.linear import Poly, add_to, from_poly, poly
from ..expr.nodes import Expr, Ramp, const_int


class Buffer:
    """A block of memory with a shape. ``scope`` is ``arg`` (of the function), ``global`` (workspace) or
    ``local`` (registers or stack). Known by identity."""

    __slots__ = ("__weakref__", "_steps", "dtype", "name", "scope", "shape", "strides")

    def __init__(
        self,
        name: str,
        dtype: DType,
        shape: tuple[Expr, ...],
        scope: str = "arg",
        strides: tuple[Expr, ...] | None = None,
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.scope = scope
        self.strides = strides
        self._steps = strides

    def __repr__(self) -> str:
        return f"Buffer({self.name}: {self.dtype}[{', '.join(map(str, self.shape))}] {self.scope})"

    def element_strides(self) -> tuple[Expr, ...]:
        """Elements between neighbours in each dimension; 64 bits wide when offsets may not fit 32."""
        if self._steps is not None:
            return self._steps
        sizes = [const_int(e) for e in self.shape]
        narrow = len(self.shape) < 2 or (None not in sizes and math.prod(n for n in sizes if n) < 1 << 31)
        out: list[Expr] = []
        step = make.const(1, "int32" if narrow else "int64")
        for extent in reversed(self.shape):
            out.append(step)
            step = make.mul(step, extent)
        self._steps = tuple(reversed(out))  # asked for at every access
        return self._steps

    def offset(self, indices: tuple[Expr, ...]) -> Expr:
        """The element's distance from the first one; of a vector of indices a vector."""
        row = self._row(indices)
        if row is not None:
            return row
        flat: Expr = make.const(0, "int32")
        for i, stride in zip(indices, self.element_strides(), strict=True):
            flat = make.add(flat, make.mul(i, stride))
        return flat

    def _row(self, indices: tuple[Expr, ...]) -> Expr | None:
        """The same where sizes are numbers, one index at most is a vector, a ramp, and all are of one type:
        most accesses. As one sum, it is put in order once."""
        total: Poly = {}
        lanes, step, kind = 1, 0, INT32
        for i, stride in zip(indices, self.element_strides(), strict=True):
            n = const_int(stride)
            if type(i) is Ramp and lanes == 1:
                each = const_int(i.stride)
                if each is None or n is None:
                    return None
                lanes, step, i = i.lanes, each * n, i.base
            if i.dtype is not kind or stride.dtype is not kind or n is None:
                return None
            add_to(total, poly(i), n)
        flat = from_poly(total, kind)
        return flat if lanes == 1 else make.ramp(flat, step, lanes)
