"""``te``: what to compute, in TVM's words. Knows expressions and arithmetic; nothing of how it is computed, except that it
offers ``create_schedule`` for convenience (set by the schedule room when the package is imported)."""

from __future__ import annotations

from typing import NoReturn

from ..expr.make import cast, ceildiv, const, floordiv, floormod, if_then_else, select, truncdiv, truncmod
from . import intrinsics
from .axis import IterVar, Range, dim, reduce_axis, size_var, var
from .compute import compute, placeholder, tag_scope
from .extern import ExternOp, call_extern, call_packed, extern
from .intrinsics import *  # noqa: F403 - the list stands there, one word for each function
from .reducers import all, any, comm_reducer, infinity, max, max_value, min, min_value, prod, sum
from .scan import ScanOp, scan
from .tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorRead, TensorSlice

Select = select  # TVM's class of that name, which users call like a function

__all__ = sorted([  # noqa: PLE0605 - a list of strings
    *intrinsics.__all__, "ComputeOp", "ExternOp", "IterVar", "Operation", "PlaceholderOp", "Range", "ScanOp", "Select", "Tensor", "TensorRead", "TensorSlice", "all", "any",
    "call_extern", "call_packed", "cast", "ceildiv", "comm_reducer", "compute", "const", "dim", "extern", "floordiv", "floormod", "if_then_else", "infinity", "max", "max_value", "min",
    "min_value", "placeholder", "prod", "reduce_axis", "scan", "select", "size_var", "sum", "tag_scope", "truncdiv", "truncmod", "var"])

_NOT_HERE = {
    "thread_axis": "threads of a GPU; on the CPU s[T].parallel(axis) and s[T].vectorize(axis) take the axes themselves",
    "create_prim_func": "TVM's TIR; tl.lower(s, args) gives the loop IR of a schedule",
    "extern_primfunc": "TVM's TIR; te.extern takes a Python callback or a C symbol",
    "gradient": "derivatives; declare the backward computation with te.compute",
    "hybrid": "TVM's hybrid script; te.compute and te.extern declare computations",
    "trace": "TVM's tracing; tl.build(…, bounds_check=True) reports accesses out of bounds",
    "SpecializedCondition": "TVM's specialisation; te.dim('n', lo, hi, multiple_of=…) states what is known of a size",
}


def __getattr__(name: str) -> NoReturn:
    reason = _NOT_HERE.get(name)
    raise AttributeError(f"tensorlang's te has no {name!r}" + (f": {reason}" if reason else ""))
