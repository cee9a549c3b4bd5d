"""``te``: what to compute, in TVM's words. Knows expressions and arithmetic; nothing of how it is computed, except that it
offers ``create_schedule`` for convenience (set by the schedule room when the package is imported)."""

from __future__ import annotations

from ..expr.make import call as _call
from ..expr.make import cast, ceildiv, const, floordiv, floormod, if_then_else, select, truncdiv, truncmod
from ..expr.make import and_ as _and
from ..expr.make import or_ as _or
from ..expr.intrinsics import TABLE as _TABLE
from ..expr.nodes import Expr
from .axis import IterVar, dim, reduce_axis, size_var, var
from .compute import compute, placeholder
from .reducers import comm_reducer, max, max_value, min, min_value, prod, sum
from .tensor import Tensor, TensorRead
