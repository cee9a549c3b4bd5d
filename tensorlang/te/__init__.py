"""``te``: what to compute, in TVM's words. Knows expressions and arithmetic; nothing of how it is computed, except that it
offers ``create_schedule`` for convenience (set by the schedule room when the package is imported)."""

from __future__ import annotations

from ..expr.make import cast, ceildiv, const, floordiv, floormod, if_then_else, select, truncdiv, truncmod
from .axis import IterVar, dim, reduce_axis, size_var, var
from .compute import compute, placeholder
from .reducers import comm_reducer, max, max_value, min, min_value, prod, sum
from .tensor import Tensor, TensorRead

__all__ = ["IterVar", "Tensor", "TensorRead", "cast", "ceildiv", "comm_reducer", "compute", "const", "dim", "floordiv", "floormod",
           "if_then_else", "max", "max_value", "min", "min_value", "placeholder", "prod", "reduce_axis", "select", "size_var", "sum",
           "truncdiv", "truncmod", "var"]
