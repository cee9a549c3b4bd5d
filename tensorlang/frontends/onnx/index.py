"""ONNX's operators that read and write at places that are data. Knows ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import ops, te
from ...graph import Value
from ...runtime import choices
from ...te import Tensor
from .proto import Call
from .table import graph_op, one, te_op

if TYPE_CHECKING:
    from .importer import Importer


@te_op("Gather")
def gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return ops.take(x, indices, axis, "index")


@te_op("GatherElements")
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return ops.gather_elements(x, indices, axis)


@te_op("GatherND")
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    return ops.gather_nd(x, indices, batch_dims)


def _reduced(scatter: Any, x: Tensor, indices: Tensor, updates: Tensor, *axis: int, reduction: str) -> Tensor:
    """Of bools a sum is whether any is true, a product whether all are, as onnx's reference and onnxruntime
    have it: maximum and minimum of the numbers 0 and 1."""
    if not x.dtype.is_bool or reduction == "none":
        return scatter(x, indices, updates, *axis, reduction)
    how = {"add": "max", "mul": "min"}.get(reduction, reduction)
    x, updates = (ops.cast(t, "uint8") for t in (x, updates))
    return ops.cast(scatter(x, indices, updates, *axis, how), "bool")


@te_op("ScatterElements", "Scatter")
def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    return _reduced(ops.scatter_elements, x, indices, updates, axis, reduction=reduction)


@te_op("ScatterND")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    return _reduced(ops.scatter_nd, x, indices, updates, reduction=reduction)


@te_op("ReverseSequence")
def reverse_sequence(x: Tensor, lengths: Tensor, *, time_axis: int = 0, batch_axis: int = 1) -> Tensor:
    return ops.reverse_sequence(x, lengths, time_axis, batch_axis)


@te_op("OneHot", values=(1,))
def one_hot(indices: Tensor, depth: Any, values: Tensor, *, axis: int = -1) -> Tensor:
    """``values`` holds what stands elsewhere, and what stands at the index."""
    depth = one(depth)
    # ONNX allows depth to be of any number type
    depth = int(depth) if isinstance(depth, float) else depth
    axis = axis % (indices.ndim + 1)

    def element(*at: Any) -> Any:
        index = te.cast("int64", indices(*at[:axis], *at[axis + 1 :]))
        # ops.one_hot leaves a negative index out; ONNX counts it from the end
        index = te.select(index < 0, index + depth, index)
        return te.select(index == at[axis], values(1), values(0))

    shape = [*indices.shape[:axis], depth, *indices.shape[axis:]]
    return te.compute(shape, element, name="one_hot")


@te_op("TensorScatter")
def tensor_scatter(
    past: Tensor, update: Tensor, begin: Tensor | None = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    """A cache with the rows of ``update`` written from ``begin[batch]`` on along the axis, round its end when
    ``mode`` is circular."""
    axis = axis % past.ndim
    size, rows = past.shape[axis], update.shape[axis]

    def element(*at: Any) -> Any:
        first = te.const(0, "int64") if begin is None else begin(at[0])
        row = at[axis] - first
        row = te.floormod(row, size) if mode == "circular" else row
        inside = te.all(row >= 0, row < rows)
        # not a select, which reads both sides: most rows of a cache are none of the update
        return te.if_then_else(inside, update(*at[:axis], row, *at[axis + 1 :]), past(*at))

    return te.compute(past.shape, element, name="tensor_scatter")


@graph_op("Compress")
def compress(c: Importer, call: Call) -> Any:
    """How many are kept is known when the condition is: a function of arrays."""
    x, condition = (c.tensor(n) for n in call.inputs)
    axis = call.attrs.get("axis")
    # a size that is known when the function has run
    results = [(_chosen(x, axis), x.dtype)]
    return c.g.host(choices.compressed, [x, condition], results, call.op, call.name, call.outputs, axis=axis)


def _chosen(x: Value, axis: int | None) -> list[Any]:
    """The shape of some of the slices along an axis, or of the elements."""
    return [None] if axis is None else [None if d == axis % x.ndim else n for d, n in enumerate(x.shape)]


@graph_op("Unique")
def unique(c: Importer, call: Call) -> Any:
    """The distinct elements or slices, where each is first, which of them each was, and how often each is."""
    x = c.tensor(call.inputs[0])
    axis, in_order = call.attrs.get("axis"), bool(call.attrs.get("sorted", 1))
    results = [(_chosen(x, axis), x.dtype), ([None], "int64"), ([None], "int64"), ([None], "int64")]
    return c.g.host(
        choices.unique, [x], results, call.op, call.name, call.outputs, axis=axis, in_order=in_order
    )
