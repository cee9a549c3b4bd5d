"""ONNX's operators that put elements in order and choose among them. Knows ops.

What is chosen by the elements has as many rows as they say: a kernel fills the most there can be, and the
rows that count are cut out between kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import ops
from ...runtime import choices
from ...te import Tensor
from .proto import Call
from .table import graph_op, one, te_op

if TYPE_CHECKING:
    from .importer import Importer


@te_op("TopK", values=(1,))
def top_k(
    x: Tensor, number: Any = None, *, k: int | None = None, axis: int = -1, largest: int = 1, sorted: int = 1
) -> Any:
    n: Any = k if number is None else one(number)
    return ops.top_k(x, n, axis, bool(largest), bool(sorted))


@graph_op("NonMaxSuppression")
def non_max_suppression(c: Importer, call: Call) -> Any:
    inputs = [c.tensor(n) if n else None for n in call.inputs]
    inputs += [None] * (5 - len(inputs))
    most = inputs[2]
    made = c.g.call(
        _best_boxes,
        inputs[0],
        inputs[1],
        None if most is None or most.data is not None else most,
        *inputs[3:],
        op=call.op,
        name=call.name,
        # a constant bounds the memory of the result; an operand does not
        most=None if most is None or most.data is None else int(most.data.reshape(-1)[0]),
        center=bool(call.attrs.get("center_point_box", 0)),
    )
    return c.g.host(choices.first_rows, made, [((None, 3), "int64")], "Rows", call.name, call.outputs)


def _best_boxes(
    boxes: Tensor,
    scores: Tensor,
    number: Tensor | None,
    overlap: Tensor | None,
    least: Tensor | None,
    *,
    most: int | None,
    center: bool,
) -> Any:
    limit = number if number is not None else 0 if most is None else most
    return ops.non_max_suppression(boxes, scores, limit, 0.0 if overlap is None else overlap, least, center)


@graph_op("NonZero")
def non_zero(c: Importer, call: Call) -> Any:
    x = c.tensor(call.inputs[0])
    # a kernel finds the places; a function of arrays cuts off what is behind them, for its size is data
    made = c.g.call(ops.nonzero, x, op=call.op, name=call.name)
    shape = (max(1, x.ndim), None)
    return c.g.host(choices.first_columns, made, [(shape, "int64")], "Columns", call.name, call.outputs)
