"""Matrices by the place of an element beside the diagonal: eye, tril, triu. Knows the checks of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te
from ..core.dtype import DType
from ..core.dtype import dtype as as_dtype
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr
from ..te import Tensor
from . import inputs, tags

__all__ = ["eye", "tril", "triu"]

Diagonal = Tensor | ExprLike


def _diagonal(op: str, k: Any) -> Expr:
    """Which diagonal: a whole number, an expression of sizes, or a tensor of one integer."""
    if isinstance(k, Tensor):
        if not k.dtype.is_int or not all(inputs.is_one(n) for n in k.shape):
            raise DeclareError(
                f"ops.{op}: k {inputs.named(k)} of {k.dtype}", because="a diagonal is one whole number"
            )
        return k(*[0] * k.ndim)
    return make.as_expr(k if isinstance(k, Expr) else inputs.integer(op, "k", k))


def _part(op: str, x: Any, k: Diagonal, keeps: Callable[[Expr, Expr], Expr]) -> Tensor:
    x = inputs.tensor(op, x)
    if x.ndim < 2:
        raise DeclareError(
            f"ops.{op}: {inputs.named(x)} has {x.ndim} dimension(s), 2 at least are needed",
            because="the last two are the rows and columns of matrices",
        )
    diagonal, zero = _diagonal(op, k), make.const(0, x.dtype)

    def element(*i: Any) -> Expr:
        kept = keeps(make.as_expr(i[-1]), make.add(*make.unify(i[-2], diagonal)))
        # not a product with ones and zeros: an infinity or NaN outside must not come through
        return te.if_then_else(kept, x(*i), zero)

    return inputs.stage(op, tags.ELEMENTWISE, x.shape, element)


def tril(x: Tensor, k: Diagonal = 0) -> Tensor:
    """Matrices [..., M, N] with zeros above diagonal ``k``, where ``j - i > k``, as numpy's tril.

    ``k`` is a whole number (above the main diagonal when positive) or a tensor of one integer. Raises
    DeclareError for fewer than two dimensions. ``ops.tril(ops.full((n, n), 1))`` is a causal mask.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.tril(x)
    Tensor(tril: float32[2, 3])
    """
    return _part("tril", x, k, make.le)


def triu(x: Tensor, k: Diagonal = 0) -> Tensor:
    """Matrices [..., M, N] with zeros below diagonal ``k``, where ``j - i < k``; otherwise as :func:`tril`.
    Raises DeclareError for fewer than two dimensions.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.triu(x)
    Tensor(triu: float32[2, 3])
    """
    return _part("triu", x, k, make.ge)


def eye(n: ExprLike, m: ExprLike | None = None, k: int = 0, dtype: str | DType = "float32") -> Tensor:
    """A matrix [n, m] (square when ``m`` is left out) of ones on diagonal ``k`` and zeros elsewhere; sizes
    may be symbolic. ``ops.eye(3, k=1)`` has two ones. Raises DeclareError for a ``k`` that is no whole
    number."""
    t, diagonal = as_dtype(dtype), _diagonal("eye", k)
    one, zero = make.const(1, t), make.const(0, t)
    return inputs.stage(
        "eye",
        tags.INJECTIVE,
        [n, n if m is None else m],
        lambda i, j: te.select(make.eq(make.as_expr(j), make.add(i, diagonal)), one, zero),
    )
