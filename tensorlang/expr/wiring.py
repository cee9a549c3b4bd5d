"""What classes of nodes get from modules that know them: the smart constructor of each (``node.make``), for
walks that rebuild an expression from new operands, and operators and text for all. The one place where
classes of this room are completed; ``expr`` imports it."""

from __future__ import annotations

from collections.abc import Callable

from . import make, operators
from .divisor import Gcd, gcd
from .literal import FALSE as FALSE
from .literal import TRUE as TRUE
from .literal import broadcast, const
from .nodes import (
    EQ,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    CCall,
    Const,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
)


def _rebuilt(op: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr], Expr]:
    """A division whose operands were rewritten. Where the divisor has become the literal 0 it stands in code
    that never runs, as ``7 // i`` beside the test ``i > 0`` in the first turn of an unrolled loop, and any
    value will do."""

    def rebuild(a: Expr, b: Expr) -> Expr:
        return const(0, a.dtype if a.dtype.lanes > 1 else b.dtype) if make.uniform(b, 0) else op(a, b)

    return rebuild


for _cls, _make in (
    (Add, make.add),
    (Sub, make.sub),
    (Mul, make.mul),
    (Div, make.div),
    (FloorDiv, _rebuilt(make.floordiv)),
    (FloorMod, _rebuilt(make.floormod)),
    (TruncDiv, _rebuilt(make.truncdiv)),
    (TruncMod, _rebuilt(make.truncmod)),
    (Min, make.min_),
    (Max, make.max_),
    (And, make.and_),
    (Or, make.or_),
    (Not, make.not_),
    (Select, make.select),
    (IfThenElse, make.if_then_else),
    (Cast, make.cast),
    (Call, make.call),
    (CCall, make.c_call),
    (Ramp, make.ramp),
    (Broadcast, broadcast),
    (EQ, make.eq),
    (NE, make.ne),
    (LT, make.lt),
    (LE, make.le),
    (Const, const),
    (Gcd, gcd),
):
    _cls.make = staticmethod(_make)  # type: ignore[attr-defined]
operators.install()
