"""Maps: one stage whose element is a function of the elements at its place, of one tensor or of several that
broadcast. What every elementwise operator is made by. Knows the checks of arguments; no operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..core.dtype import DType
from ..expr.nodes import Expr
from ..te import Tensor, whole
from . import inputs, tags

Operand = Tensor | Expr | int | float | bool


def unary(name: str, x: Tensor, f: Callable[[Expr], Expr], result: DType | None = None) -> Tensor:
    """``f`` of each element, computed in the wide type of ``result`` (that of ``x``) and rounded to it
    once."""
    out = x.dtype if result is None else result
    return inputs.stage(
        # 16-bit floats are computed in float32 and rounded once: each step rounded would lose bits at every
        # one
        name,
        tags.ELEMENTWISE,
        x.shape,
        lambda *i: te.cast(out, f(te.cast(inputs.wide(out), x(*i)))),
    )


def broadcast(name: str, values: Sequence[Tensor | Expr], f: Callable[..., Expr]) -> Tensor:
    """``f`` of the elements of broadcast tensors, of which there is one at least. Raises DeclareError for
    shapes that do not fit."""
    inputs.some_tensor(name, values)
    return whole.broadcast(f"ops.{name}", name, values, f, (tags.ELEMENTWISE, tags.BROADCAST))


def nary(
    name: str,
    values: Sequence[Any],
    f: Callable[..., Expr],
    result: Callable[[DType], DType] = lambda t: t,
    compute: Callable[[DType], DType] = lambda t: t,
) -> Tensor:
    """``f`` of broadcast elements. They are cast to ``compute`` of the common type, its value to ``result``
    of that."""
    given, common = inputs.operands(name, values)
    inside, out = inputs.wide(compute(common)), result(common)
    return broadcast(name, given, lambda *es: te.cast(out, f(*[te.cast(inside, e) for e in es])))
