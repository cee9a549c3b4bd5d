"""ONNX's operators of quantised numbers. Knows ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ... import ops, te
from ...core.dtype import dtype
from ...expr import make
from ...te import Tensor
from ..words import of_type
from .narrow import WIDE, rounded
from .proto import Call, dtype_name
from .table import graph_op, plain, te_op

if TYPE_CHECKING:
    from .importer import Importer


def _by(scale: Tensor, x: Tensor, axis: int, block: int, f: Callable[[Any, Any], Any]) -> Tensor:
    """``f`` of each element, in float32, and its scale: one number, one along the axis, or one a block."""
    d = axis % max(1, x.ndim)

    def own(i: Sequence[Any]) -> Any:
        if scale.ndim == 0 or (scale.ndim == 1 and te.whole.is_one(scale.shape[0])):
            return scale(*[0] * scale.ndim)
        if not block:
            return scale(i[d])
        return scale(*[make.floordiv(make.as_expr(j), block) if k == d else j for k, j in enumerate(i)])

    def element(*i: Any) -> Any:
        return f(te.cast("float32", x(*i)), te.cast("float32", own(i)))

    return te.compute(x.shape, element, name="scaled")  # type: ignore[return-value]


def _divided(x: Tensor, scale: Tensor, *, axis: int, block: int) -> Tensor:
    return _by(scale, x, axis, block, lambda a, s: a / s)


def _multiplied(x: Tensor, scale: Tensor, *, axis: int, block: int, kind: str) -> Tensor:
    return ops.cast(_by(scale, x, axis, block, lambda a, s: a * s), kind)


@graph_op("QuantizeLinear")
def quantize_linear(c: Importer, call: Call) -> Any:
    """Into integers, or floats of few bits, which have no zero point but 0."""
    x, scale, *rest = (c.tensor(n) if n else None for n in call.inputs)
    assert x is not None and scale is not None
    zero = rest[0] if rest else None
    wanted = call.attrs.get("output_dtype", 0)
    kind = dtype_name(wanted) if wanted else "uint8" if zero is None else c.narrow.get(zero, str(zero.dtype))
    where = {"axis": call.attrs.get("axis", 1), "block": call.attrs.get("block_size", 0)}
    how: dict[str, Any] = {"name": call.name, "outputs": call.outputs}
    # numbers are rounded by a function of arrays; kernels have no such types
    if kind.startswith("float"):
        y = c.g.call(_divided, x, scale, op=call.op, **how, **where)
        return c.narrowed(rounded(c.g, y, kind, bool(call.attrs.get("saturate", 1))), kind)
    # 4 and 2 bits are kept one to a byte, in the type that WIDE names
    few = kind in WIDE
    y = c.g.call(
        _quantised,
        x,
        scale,
        zero,
        op=call.op,
        **how,
        **where,
        kind=WIDE.get(kind, kind),
        bits=int(kind[-1]) if few else None,
    )
    return c.narrowed(y, kind) if few else y


def _quantised(
    x: Tensor, scale: Tensor, zero: Tensor | None, *, axis: int, block: int, kind: str, bits: int | None
) -> Tensor:
    return ops.quantize_linear(x, scale, zero, axis, kind, block, bits)


@graph_op("DequantizeLinear")
def dequantize_linear(c: Importer, call: Call) -> Any:
    x, scale, *rest = (c.tensor(n) if n else None for n in call.inputs)
    assert x is not None and scale is not None
    wanted = call.attrs.get("output_dtype", 0)
    kind = dtype_name(wanted) if wanted else str(scale.dtype)
    where = {"axis": call.attrs.get("axis", 1), "block": call.attrs.get("block_size", 0), "kind": kind}
    how: dict[str, Any] = {"op": call.op, "name": call.name, "outputs": call.outputs}
    if x.dtype.is_float:
        return c.g.call(_multiplied, x, scale, **how, **where)
    return c.g.call(_dequantised, x, scale, rest[0] if rest else None, **how, **where)


def _dequantised(
    x: Tensor, scale: Tensor, zero: Tensor | None, *, axis: int, block: int, kind: str
) -> Tensor:
    y = ops.dequantize_linear(x, scale, zero, axis, block)
    return of_type(y, dtype(kind))


plain(ops.dynamic_quantize_linear, "DynamicQuantizeLinear")


@te_op("MatMulInteger", stored=(2, 1, 3, -1))
def matmul_integer(
    a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    return ops.matmul_integer(a, b, a_zero, b_zero)


@te_op("QLinearMatMul", stored=(2, 3, 5, -1))
def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:
    return ops.qlinear_matmul(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero)
