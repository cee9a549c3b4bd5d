"""Intrinsics: one row for each of ``expr.intrinsics``, in ``table``: vector code of our own, LLVM's intrinsics, or libm lane by
lane. Knows dtypes and operands, and of expressions only the call node."""

from .table import MODES, ROWS

__all__ = ["MODES", "ROWS"]
