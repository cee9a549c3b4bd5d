"""``decl_tensor_intrin``: a function that computes a small tensor operation, to stand in for a loop nest of
that form.

The operation is declared like any other computation; ``fcompute(ins, outs)`` says which call computes it,
given handles to where its operands lie. A schedule asks for it with ``s[T].tensorize(loop, intrin)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.dtype import DType
from ..errors import DeclareError
from ..expr.nodes import Expr, const_int
from .extern import ExternBuffer, ExternCall, OpaqueOp
from .tensor import ComputeOp, PlaceholderOp, Tensor

_declared: dict[str, TensorIntrin] = {}


class IntrinBuffer(ExternBuffer):
    """An operand as the function of an intrinsic sees it: also the ``strides`` (elements between neighbours)
    of where it lies."""

    __slots__ = ("strides",)

    def __init__(
        self,
        name: str,
        shape: tuple[Expr, ...],
        dtype: DType,
        position: int,
        output: bool,
        strides: tuple[Expr, ...],
    ) -> None:
        super().__init__(name, shape, dtype, position, output)
        self.strides = strides


@dataclass(frozen=True, slots=True, eq=False)
class TensorIntrin:
    """A declared intrinsic: ``op`` is what it computes, ``fcompute`` makes its calls."""

    name: str
    op: ComputeOp
    inputs: tuple[Tensor, ...]
    fcompute: Callable[..., Any]

    def calls(
        self, strides: list[tuple[Expr, ...]], out_strides: tuple[Expr, ...]
    ) -> tuple[ExternCall, ExternCall | None, ExternCall | None]:
        """(body, reset, update) for operands lying with these strides. ``body`` computes the whole operation;
        ``reset`` writes the initial values and ``update`` adds to them, None when the function gives no such
        calls. Raises DeclareError for other results of the function."""
        ins = [
            IntrinBuffer(t.name, t.shape, t.dtype, i, False, s)
            for i, (t, s) in enumerate(zip(self.inputs, strides, strict=True))
        ]
        out = self.op.outputs[0]
        result = self.fcompute(ins, [IntrinBuffer(out.name, out.shape, out.dtype, 0, True, out_strides)])
        parts = tuple(result) if isinstance(result, tuple | list) else (result, None, None)
        if len(parts) == 2:
            parts = (*parts, parts[0])
        if (
            len(parts) != 3
            or not isinstance(parts[0], ExternCall)
            or any(p is not None and not isinstance(p, ExternCall) for p in parts)
        ):
            raise DeclareError(
                f"tensor intrinsic {self.name!r}: the function returned {result!r}",
                try_="te.call_extern(…), or a tuple (body, reset, update) of such calls",
            )
        return parts


def decl_tensor_intrin(
    op: ComputeOp,
    fcompute: Callable[..., Any],
    binds: Any = None,
    name: str | None = None,
    scalar_params: Any = None,
    default_buffer_params: Any = None,
) -> TensorIntrin:
    """Declare that the calls of ``fcompute(ins, outs)`` compute ``op``, a compute of placeholders with
    constant sizes and one output.

    ``ins`` and ``outs`` are handles with ``access_ptr``, ``shape``, ``strides`` and ``dtype``; the function
    returns one call, or ``(body, reset, update)`` when reduction loops may stand around it. ``binds`` and the
    parameters after ``name`` are accepted for TVM's sake: where operands lie is found when a schedule asks
    for the intrinsic. Raises DeclareError for an op of another form.
    """
    if not isinstance(op, ComputeOp) or isinstance(op, OpaqueOp) or len(op.outputs) != 1:
        raise DeclareError(
            "decl_tensor_intrin: the operation is a te.compute with one output",
            because=f"got {op!r}",
            try_="pass c.op",
        )
    if not callable(fcompute):
        raise DeclareError(
            f"decl_tensor_intrin: {fcompute!r} is not a function",
            because="it is called with handles of the operands and of the result",
            try_="def fcompute(ins, outs): return te.call_extern('int32', 'f', …)",
        )
    inputs = op.input_tensors
    for t in inputs:
        if not isinstance(t.op, PlaceholderOp):
            raise DeclareError(
                f"decl_tensor_intrin: the operand {t.name} is computed", try_="operands are te.placeholder"
            )
    for a in (*op.axis, *op.reduce_axis):
        if const_int(a.extent) is None:
            raise DeclareError(
                f"decl_tensor_intrin: axis {a.name} runs {a.extent} times; an intrinsic has constant sizes"
            )
    intrin = TensorIntrin(name or op.name, op, inputs, fcompute)
    _declared[intrin.name] = intrin
    return intrin


def declared(name: str) -> TensorIntrin | None:
    """The intrinsic of that name: traces speak of them by name."""
    return _declared.get(name)
