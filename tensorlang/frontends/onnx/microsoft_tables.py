"""Operators of the domain com.microsoft on weights of four bits beside MatMulNBits: rows of a table that are
read and made floats, and products with weights of four-bit floats. Knows ops and the importer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ... import ops, te
from ...errors import TensorLangError
from ...expr import make
from ...expr.nodes import Expr
from ...ops.places import kept_within
from ...te import Tensor
from .proto import Call
from .table import MICROSOFT, graph_op

if TYPE_CHECKING:
    from .importer import Importer

# what the four bits stand for (bitsandbytes)
_FP4 = (0.0, 0.0625 / 12, 2 / 3, 1.0, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip


@graph_op("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(c: Importer, call: Call) -> Any:
    """Whole numbers of four bits, or of 2, 4 or 8 that stand together in bytes of uint8."""
    data, indices, scales, *rest = (c.tensor(n) if n else None for n in call.inputs)
    assert data is not None and indices is not None and scales is not None
    given, kind = call.attrs, c.kind(call.inputs[0])
    if kind.startswith("float"):
        raise TensorLangError(f"{call!r}: data of {kind} is not supported", legal="int4, uint4, uint8")
    axes = {k: given.get(f"{k}_axis", d) % data.ndim for k, d in (("gather", 0), ("quantize", 1))}
    # int4 and uint4 of the file are one number a byte by now
    bits = given.get("bits", 4) if kind == "uint8" else 8
    return c.g.call(
        _rows,
        data,
        indices,
        scales,
        rest[0] if rest else None,
        op=call.op,
        name=call.name,
        outputs=call.outputs,
        **axes,
        block=given.get("block_size", 128),
        bits=bits,
        middle=1 << bits - 1 if kind == "uint8" else 0,
    )


def _rows(
    data: Tensor,
    indices: Tensor,
    scales: Tensor,
    zeros: Tensor | None,
    *,
    gather: int,
    quantize: int,
    block: int,
    bits: int,
    middle: int,
) -> Tensor:
    each = 8 // bits  # numbers in a byte

    def number(t: Tensor, at: list[Any]) -> Expr:
        if each == 1:
            return te.cast("int32", t(*at))
        last = make.as_expr(at[-1])
        byte = te.cast("int32", t(*at[:-1], make.floordiv(last, each)))
        return te.bitwise_and(byte >> (make.floormod(last, each) * bits), (1 << bits) - 1)

    def element(*i: Any) -> Expr:
        own = i[gather : gather + indices.ndim]
        row = te.cast("int64", indices(*own))
        extent = data.shape[gather]
        row = kept_within(te.select(row < 0, row + extent, row), extent)
        at = [*i[:gather], row, *i[gather + indices.ndim :]]
        place = [make.floordiv(make.as_expr(k), block) if d == quantize else k for d, k in enumerate(at)]
        zero = make.as_expr(middle) if zeros is None else number(zeros, place)
        return te.cast(scales.dtype, number(data, at) - zero) * scales(*place)

    sizes = [*data.shape[:-1], make.mul(data.shape[-1], each)]
    shape = [*sizes[:gather], *indices.shape, *sizes[gather + 1 :]]
    return te.compute(shape, element, name="rows")  # type: ignore[return-value]


@graph_op("MatMulBnb4", domain=MICROSOFT)
def matmul_bnb4(c: Importer, call: Call) -> Any:
    """``a @ Wᵀ``, W [N, K] of four-bit floats (``quant_type`` 0) or of quantiles of a normal distribution
    (1), the high ones of a byte first, each block times its largest absolute value."""
    a, b, largest = (c.tensor(n) for n in call.inputs)
    given = call.attrs
    values = _NF4 if given["quant_type"] else (*_FP4, *(-x for x in _FP4))
    # 16 numbers that stay in the first cache
    table = c.new(np.array(values, str(a.dtype)), "values")
    return c.g.call(
        _product,
        a,
        b,
        largest,
        table,
        op=call.op,
        name=call.name,
        outputs=call.outputs,
        shape=(given["N"], given["K"]),
        block=given["block_size"],
        turned=bool(given.get("transB", 1)),
    )


def _product(
    a: Tensor, b: Tensor, largest: Tensor, table: Tensor, *, shape: tuple[int, int], block: int, turned: bool
) -> Tensor:
    def element(n: Any, k: Any) -> Expr:
        flat = n * shape[1] + k
        byte = te.cast("int32", b(make.floordiv(flat, 2)))
        # the high bits of a byte first, unlike MatMulNBits
        which = te.bitwise_and(byte >> (4 - make.floormod(flat, 2) * 4), 15)
        return table(which) * largest(make.floordiv(flat, block))

    weight: Any = te.compute(shape, element, name="weight")
    return ops.matmul(a, weight, False, turned)
