"""What classes of nodes get from modules that know them: the smart constructor of each (``node.make``), for
walks that rebuild an expression from new operands, and operators and text for all. The one place where
classes of this room are completed; ``expr`` imports it."""

from __future__ import annotations

from collections.abc import Callable

from ..boundary import answer
from . import make, nodes, operators
from .divisor import Gcd, gcd
from .literal import broadcast, const
from .nodes import Expr


def _rebuilt(op: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    """A division whose operands were rewritten. Where the divisor has become the literal 0 it stands in code
    that never runs, as ``7 // i`` beside the test ``i > 0`` in the first iteration of an unrolled loop, and
    any value will do."""

    def rebuild(a: Expr, b: Expr) -> Expr:
        return const(0, a.dtype if a.dtype.lanes > 1 else b.dtype) if make.uniform(b, 0) else op(a, b)

    return rebuild


for _cls, _make in (
    (nodes.Add, make.add),
    (nodes.Sub, make.sub),
    (nodes.Mul, make.mul),
    (nodes.Div, make.div),
    (nodes.FloorDiv, _rebuilt(make.floordiv)),
    (nodes.FloorMod, _rebuilt(make.floormod)),
    (nodes.TruncDiv, _rebuilt(make.truncdiv)),
    (nodes.TruncMod, _rebuilt(make.truncmod)),
    (nodes.Min, make.min_),
    (nodes.Max, make.max_),
    (nodes.And, make.and_),
    (nodes.Or, make.or_),
    (nodes.Not, make.not_),
    (nodes.Select, make.select),
    (nodes.IfThenElse, make.if_then_else),
    (nodes.Cast, make.cast),
    (nodes.Call, make.call),
    (nodes.CCall, make.c_call),
    (nodes.Ramp, make.ramp),
    (nodes.Broadcast, broadcast),
    (nodes.EQ, make.eq),
    (nodes.NE, make.ne),
    (nodes.LT, make.lt),
    (nodes.LE, make.le),
    (nodes.Const, const),
    (Gcd, gcd),
):
    _cls.make = staticmethod(_make)  # type: ignore[attr-defined]
operators.install()
answer(Expr, "expression", {}, often=True)
