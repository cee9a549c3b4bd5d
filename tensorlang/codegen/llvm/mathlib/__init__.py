"""Intrinsics: one row for each of ``expr.intrinsics``, in ``table``. Vector code of our own, LLVM's intrinsics, or libm lane by lane."""

from .table import MODES, ROWS

__all__ = ["MODES", "ROWS"]
