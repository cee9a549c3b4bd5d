"""What the operators of other frameworks have in common beside ``tensorlang.ops``: names, numbers as tensors,
casts that do nothing, whole numbers divided and raised as C does. Knows ops and te; no framework.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops, te
from ..core.dtype import DType
from ..expr.make import ExprLike
from ..te import Tensor


def name_of_ours(name: str) -> str:
    """Another framework's name as one of a dim or an input: letters, digits and _."""
    text = "".join(ch if ch.isalnum() else "_" for ch in name)
    return text if text and not text[0].isdigit() else f"n{text}"


def constant_like(x: Tensor, value: Any) -> Tensor:
    """A number as a tensor of the dtype of ``x``."""
    return te.compute((), lambda: te.const(value, x.dtype), name="c")


def times(x: Tensor, factor: float) -> Tensor:
    """The product with a number; ``x`` itself for 1."""
    return x if factor == 1 else ops.multiply(x, constant_like(x, factor))


def of_type(x: Tensor, kind: DType) -> Tensor:
    """``x`` in another dtype, itself when it has that."""
    return x if x.dtype == kind else ops.cast(x, kind)


def paired(name: str, a: Tensor, b: Tensor, f: Callable[[Any, Any], Any]) -> Tensor:
    """``f`` of the elements of two tensors that broadcast."""
    shape = te.whole.broadcast_shape(name, [a, b])

    def own(t: Tensor, at: tuple[ExprLike, ...]) -> Any:
        at = at[len(at) - t.ndim :] if t.ndim else ()
        return t(*(0 if te.whole.is_one(n) else i for n, i in zip(t.shape, at, strict=True)))

    return te.compute(shape, lambda *i: f(own(a, i), own(b, i)), name=name)


def truncated(a: Tensor, b: Tensor) -> Tensor:
    """The quotient of whole numbers towards zero."""
    return paired("div", a, b, te.truncdiv)


def whole_power(base: Any, exponent: Any) -> Any:
    """By squaring: six bits of an exponent say all, for of larger ones only powers of -1, 0 and 1 are whole
    numbers of 64 bits. A negative exponent leaves nothing of other numbers than those."""
    one = te.const(1, base.dtype)
    found, square = one, base
    for k in range(6):
        bit = te.bitwise_and(
            te.shift_right(exponent, te.const(k, exponent.dtype)), te.const(1, exponent.dtype)
        )
        found = te.select(bit != 0, found * square, found)
        # wraps, as the product of whole numbers does: what overflows here is not in the result or overflows
        # there too
        square = square * square
    found = te.select(te.all(base == 0, exponent != 0), te.const(0, base.dtype), found)
    if exponent.dtype.code == "uint":
        return found
    # a negative power of any other whole number is less than one, and cut to 0
    unit = base == 1 if base.dtype.code == "uint" else te.any(base == 1, base == -1)
    return te.select(te.any(exponent >= 0, unit), found, te.const(0, base.dtype))


def by_channel(p: Tensor, x: Tensor) -> Tensor:
    """A vector over the channels, beside ``x`` [N, C, …]."""
    return ops.reshape(p, (p.shape[0], *[1] * (x.ndim - 2)))


def inverse_root(x: Tensor, epsilon: float) -> Tensor:
    """``1 / √(x + epsilon)``."""
    return ops.rsqrt(ops.add(x, constant_like(x, epsilon)))


def scaled(x: Tensor, scale: Tensor | None, bias: Tensor | None = None) -> Tensor:
    """``x * scale + bias``, broadcast; what is left out changes nothing."""
    x = x if scale is None else ops.multiply(x, scale)
    return x if bias is None else ops.add(x, bias)
