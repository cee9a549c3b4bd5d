"""``tir``: the names of TVM's ``tir`` that TE programs use. All are those of ``te``."""

from __future__ import annotations

from . import signposts
from .boundary import answer, guard
from .entries import close
from .errors import DeclareError
from .te import (
    Expr,
    IterVar,
    Select,
    Var,
    all,
    any,
    call_extern,
    call_packed,
    call_pure_extern,
    ceildiv,
    comm_reducer,
    const,
    decl_buffer,
    floordiv,
    floormod,
    if_then_else,
    infinity,
    intrinsics,
    max,
    max_value,
    min,
    min_value,
    sum,
    truncdiv,
    truncmod,
)
from .te.extern import ExternCall
from .te.intrinsics import *  # noqa: F403  # `intrinsics.__all__` lists them

PrimExpr = Expr


class _Builder:
    """What is left of TVM's builder of statements: the call that a tensor intrinsic or an extern is made
    of."""

    def __init__(self) -> None:
        self._calls: list[ExternCall] = []

    def emit(self, call: ExternCall) -> None:
        """Add the call."""
        self._calls.append(call)

    def get(self) -> ExternCall:
        """The one call. Raises DeclareError when it is not one."""
        if len(self._calls) != 1:
            raise DeclareError(
                f"ir_builder: {len(self._calls)} calls were emitted",
                because="a step done by foreign code is one call",
                try_="one C function that does it all",
            )
        return self._calls[0]


class ir_builder:
    """``ib = tir.ir_builder.create(); ib.emit(tir.call_extern(…)); return ib.get()``: other statements are
    declared with te.compute."""

    @staticmethod
    def create() -> _Builder:
        """A builder."""
        return _Builder()


__all__ = [
    "Expr",
    "IterVar",
    "PrimExpr",
    "Select",
    "Var",
    "all",
    "any",
    "call_extern",
    "call_packed",
    "call_pure_extern",
    "ceildiv",
    "comm_reducer",
    "const",
    "decl_buffer",
    "floordiv",
    "floormod",
    "if_then_else",
    "infinity",
    "ir_builder",
    "max",
    "max_value",
    "min",
    "min_value",
    "sum",
    "truncdiv",
    "truncmod",
]
__all__ += intrinsics.__all__

guard(ir_builder, ("create",), "tir.ir_builder", DeclareError)
answer(_Builder, "ib", signposts.BUILDER)
answer(ir_builder, "ir_builder", {})
close(__name__, "tir", DeclareError, signposts.TIR)
