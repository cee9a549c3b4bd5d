"""ONNX's operators on shapes and places of elements. Knows ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ... import ops, te
from ...expr.nodes import Expr
from ...te import Tensor
from .proto import Call
from .table import graph_op, te_op

if TYPE_CHECKING:
    from .importer import Importer


@graph_op("Constant")
def constant(c: Importer, call: Call) -> Any:
    key, value = next(iter(call.attrs.items()))
    kinds = {
        "value_int": np.int64,
        "value_ints": np.int64,
        "value_float": np.float32,
        "value_floats": np.float32,
    }
    return c.new(np.asarray(value, kinds.get(key)), call.outputs[0])


@te_op("Reshape", values=(1,))
def reshape(x: Tensor, target: Any = None, *, shape: Any = None, allowzero: int = 0) -> Tensor:
    wanted = list(shape if target is None else target)
    if not allowzero:
        wanted = [x.shape[d] if isinstance(n, int) and n == 0 else n for d, n in enumerate(wanted)]
    return ops.reshape(x, wanted)


@te_op("Transpose")
def transpose(x: Tensor, *, perm: Any = None) -> Tensor:
    return x if perm is not None and list(perm) == list(range(x.ndim)) else ops.transpose(x, perm)


@te_op("Squeeze", values=(1,))
def squeeze(x: Tensor, where: Any = None, *, axes: Any = None) -> Tensor:
    where = axes if where is None else where
    return ops.squeeze(x, None if where is None else tuple(where))


@te_op("Unsqueeze", values=(1,))
def unsqueeze(x: Tensor, where: Any = None, *, axes: Any = None) -> Tensor:
    return ops.expand_dims(x, tuple(axes if where is None else where))


@te_op("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    axis = axis + x.ndim if axis < 0 else axis
    first: Any = 1
    for n in x.shape[:axis]:
        first = first * n
    if axis == 0:
        return ops.reshape(x, (1, -1))
    return ops.reshape(x, (first, 1)) if axis == x.ndim else ops.reshape(x, (first, -1))


@te_op("Concat")
def concat(*tensors: Tensor, axis: int) -> Tensor:
    return tensors[0] if len(tensors) == 1 else ops.concatenate(list(tensors), axis)


@te_op("Expand", values=(1,))
def expand(x: Tensor, shape: Any) -> Tensor:
    """To the shape that both broadcast to."""
    rank = max(x.ndim, len(shape))
    own, wanted = [1] * (rank - x.ndim) + list(x.shape), [1] * (rank - len(shape)) + list(shape)
    sizes = [a if te.whole.is_one(b) else b for a, b in zip(own, map(_expr, wanted), strict=True)]
    return ops.broadcast_to(x, sizes)


def _expr(n: Any) -> Expr:
    return n if isinstance(n, Expr) else te.const(n, "int64" if abs(n) >= 1 << 31 else "int32")


@te_op("Slice", values=(1, 2, 3, 4))
def slice_(
    x: Tensor,
    begin: Any = None,
    end: Any = None,
    where: Any = None,
    steps: Any = None,
    *,
    starts: Any = None,
    ends: Any = None,
    axes: Any = None,
) -> Tensor:
    begin, end, where = (a if b is None else b for a, b in ((starts, begin), (ends, end), (axes, where)))
    steps = [1] * len(begin) if steps is None else steps
    end = [
        None if isinstance(e, int) and (e >= 2**31 - 1 or (s < 0 and e < -(2**31) + 2)) else e
        for e, s in zip(end, steps, strict=True)
    ]
    return ops.strided_slice(x, begin, end, steps, range(len(begin)) if where is None else where)


@te_op("Split", values=(1,))
def split(
    x: Tensor,
    sizes: Any = None,
    *,
    axis: int = 0,
    split: Any = None,
    num_outputs: int | None = None,
    results: int,
) -> Any:
    sizes = split if sizes is None else sizes
    if sizes is None:
        n = x.shape[axis]
        each = te.ceildiv(n, num_outputs or results)
        ends: list[Any] = [each * k for k in range(1, num_outputs or results)]
    else:
        ends, at = [], 0
        for size in sizes[:-1]:
            at = at + size
            ends.append(at)
    return tuple(ops.split(x, ends, axis)) if ends else (x,)


@te_op("Gather")
def gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    axis = axis + x.ndim if axis < 0 else axis
    n = x.shape[axis]
    whole = te.compute(
        indices.shape, lambda *i: te.if_then_else(indices(*i) < 0, indices(*i) + n, indices(*i)), name="index"
    )
    return ops.take(x, whole, axis)


@te_op("Tile", values=(1,))
def tile(x: Tensor, repeats: Any) -> Tensor:
    return ops.tile(x, [int(n) for n in repeats])


@te_op("Pad", values=(1, 2, 3))
def pad(
    x: Tensor,
    width: Any = None,
    value: Any = None,
    axes: Any = None,
    *,
    mode: str = "constant",
    pads: Any = None,
    paddings: Any = None,
) -> Tensor:
    width = pads if width is None else width
    where = list(range(x.ndim)) if axes is None else [a % x.ndim for a in axes]
    margins = [(0, 0)] * x.ndim
    for k, d in enumerate(where):
        margins[d] = (width[k], width[k + len(where)])
    fill = 0 if value is None else value[0] if isinstance(value, list) else value
    return ops.pad(x, margins, mode, fill)


@te_op("Range", values=(0, 1, 2))
def range_(start: Any, limit: Any, delta: Any) -> Tensor:
    if any(isinstance(n, float) for n in (start, limit, delta)):
        return ops.arange(start, limit, delta)
    count = te.ceildiv(_expr(limit) - _expr(start), delta)
    return te.compute((count,), lambda i: (i * delta + start).astype("int64"), name="range")


@graph_op("ConstantOfShape")
def constant_of_shape(c: Importer, call: Call) -> Any:
    value = call.attrs.get("value", np.zeros(1, np.float32)).reshape(-1)[0]
    sizes = c.numbers(call.inputs[0])
    return c.g.call(
        ops.full, op="ConstantOfShape", shape=sizes, fill_value=value.item(), dtype=str(value.dtype)
    )


@te_op("Shape")
def shape(x: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    raise AssertionError("a shape is known")
