"""How the array behind an argument may lie in memory: declared strides, and TVM's ``decl_buffer``. Knows
sizes; nothing of calls.

A stride is the number of elements from one index to the next along an axis. It may be 0 (all indices are one
element, as in numpy's broadcast views) or negative (a reversed view). None stands for any: it is solved from
the array at the call, as sizes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.dtype import INT64, DType
from ..errors import DeclareError, counted
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, Var, const_int
from .axis import fixed

Strides = str | Sequence[ExprLike | None] | None


@dataclass(frozen=True, eq=False)
class BufferDecl:
    """How an argument lies in memory, for ``tl.build(…, binds={A: buffer})``; made by ``te.decl_buffer``."""

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    strides: tuple[Expr, ...] | None

    def describes(self, dtype: DType, shape: tuple[Expr, ...]) -> bool:
        """Whether it has the dtype and the shape of a tensor, so that it may say how the tensor lies."""
        return (
            dtype is self.dtype
            and len(shape) == len(self.shape)
            and all(
                a is b or (const_int(a) is not None and const_int(a) == const_int(b))
                for a, b in zip(shape, self.shape, strict=True)
            )
        )


def checked_strides(
    where: str, name: str, given: Strides, shape: tuple[Expr, ...]
) -> tuple[Expr, ...] | None:
    """The declared strides in elements, with a fresh variable for each that may be any; None for compact
    row-major.

    ``given`` is None (compact), ``"any"``, or an int, an expression of sizes or None for each axis. Raises
    DeclareError.
    """
    if given is None:
        return None
    if given == "any":
        given = (None,) * len(shape)
    if not isinstance(given, tuple | list):
        raise DeclareError(
            f"{where}: strides={given!r}",
            because='strides are "any", or one for each axis, counted in elements',
            try_='strides="any", or a tuple with None where any stride will do',
        )
    if len(given) != len(shape):
        raise DeclareError(
            f"{where}: {counted(len(given), 'stride')} for {counted(len(shape), 'dimension')}",
            because="each axis has one stride, counted in elements",
        )
    found = tuple(_stride(f"{where}, stride {d}", f"{name}.stride{d}", s) for d, s in enumerate(given))
    # compact strides that are written out are those that are left out: one kernel, which tests nothing
    return None if _compact(found, shape) else found


def _stride(where: str, name: str, given: ExprLike | None) -> Expr:
    if given is None:
        return Var(name, INT64, "stride")
    try:
        e = make.as_expr(given, INT64)
    except DeclareError:
        e = None  # type: ignore[assignment]
    if e is None or isinstance(given, bool) or not e.dtype.is_index:
        raise DeclareError(
            f"{where}: {given!r} is not a stride",
            because="a stride is a whole number of elements",
            try_="an int, None for any, te.var('ld'), or arithmetic on sizes",
        ) from None
    fixed(where, e)
    return make.cast("int64", e) if const_int(e) is not None else e


def _compact(strides: tuple[Expr, ...], shape: tuple[Expr, ...]) -> bool:
    step = 1
    for stride, extent in zip(reversed(strides), reversed(shape), strict=True):
        n = const_int(extent)
        if const_int(stride) != step:
            return False
        step = step * n if n is not None else -1
    return True
