"""``te``: what to compute, in TVM's words. Knows expressions and arithmetic; nothing of how it is computed,
except that it offers ``create_schedule`` and ``te.schedule`` for convenience, which are loaded when they are
asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import signposts
from ..boundary import answer, guard
from ..core.dtype import DType
from ..entries import close, share_class
from ..errors import DeclareError
from ..expr.make import cast, ceildiv, const, floordiv, floormod, if_then_else, select, truncdiv, truncmod
from ..expr.nodes import Expr, Var
from ..protocols import fix
from . import graph, intrinsics, reference, serialize, whole
from .axis import AXIS_SEPARATOR, IterVar, Range, assume, dim, reduce_axis, size_var, var
from .compute import compute, decl_buffer, placeholder, tag_scope
from .extern import ExternOp, call_extern, call_packed, call_pure_extern, extern
from .intrinsics import *  # noqa: F403  # `intrinsics.__all__` lists them
from .loops import LoopBuilder, LoopProgram, LoopsOp, loop_program, loops
from .reducers import Reducer, all, any, comm_reducer, infinity, max, max_value, min, min_value, prod, sum
from .scan import ScanOp, scan
from .scatter import ScatterOp, scatter
from .strides import BufferDecl
from .tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorRead, TensorSlice
from .tensor_intrin import TensorIntrin, decl_tensor_intrin

if TYPE_CHECKING:
    from ..schedule import tvm_names as schedule
    from ..schedule.schedule import create_schedule

Select = select  # TVM's class of that name, which users call like a function

__all__ = [
    "AXIS_SEPARATOR",
    "BufferDecl",
    "ComputeOp",
    "Expr",
    "ExternOp",
    "IterVar",
    "LoopBuilder",
    "LoopProgram",
    "LoopsOp",
    "Operation",
    "PlaceholderOp",
    "Range",
    "ScanOp",
    "ScatterOp",
    "Select",
    "Tensor",
    "TensorIntrin",
    "TensorRead",
    "TensorSlice",
    "Var",
    "all",
    "any",
    "assume",
    "call_extern",
    "call_packed",
    "call_pure_extern",
    "cast",
    "ceildiv",
    "comm_reducer",
    "compute",
    "const",
    "create_schedule",
    "decl_buffer",
    "decl_tensor_intrin",
    "dim",
    "extern",
    "floordiv",
    "floormod",
    "graph",
    "if_then_else",
    "infinity",
    "loop_program",
    "loops",
    "max",
    "max_value",
    "min",
    "min_value",
    "placeholder",
    "prod",
    "reduce_axis",
    "reference",
    "scan",
    "scatter",
    "schedule",
    "select",
    "serialize",
    "size_var",
    "sum",
    "tag_scope",
    "truncdiv",
    "truncmod",
    "var",
    "whole",
]
__all__ += intrinsics.__all__

close(
    __name__,
    "te",
    DeclareError,
    signposts.TE,
    {"create_schedule": "schedule.schedule", "schedule": "schedule.tvm_names"},
)
for _op in (
    ComputeOp,
    ExternOp,
    LoopsOp,
    PlaceholderOp,
    ScanOp,
    ScatterOp,
    BufferDecl,
    LoopProgram,
    TensorIntrin,
):
    guard(_op, ("__init__",), f"te.{_op.__name__}", DeclareError)
for _part in (LoopBuilder, Range, TensorRead, TensorSlice):
    share_class(_part, DeclareError)
answer(Var, "variable", {}, often=True)
answer(IterVar, "axis", {}, often=True)
fix(IterVar, "axis", signposts.SET)
answer(TensorSlice, "A[i]", {}, often=True)
guard(TensorSlice, ("__getitem__",), "A[i]", DeclareError)
for _cls, _label in (
    (BufferDecl, "buffer"),
    (DType, "dtype"),
    (LoopProgram, "program"),
    (Reducer, "reducer"),
    (TensorIntrin, "intrinsic"),
):
    answer(_cls, _label, {})
for _room, _names in (
    (graph, ("inputs", "operations", "part", "variables_of")),
    (reference, ("evaluate",)),
    (serialize, ("from_json", "key_of", "resized", "to_json")),
):
    guard(_room, _names, _room.__name__.removeprefix("tensorlang."), DeclareError, eager=True)
