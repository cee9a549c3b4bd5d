"""tensorlang: write, schedule and run tensor kernels in TVM TE's words.

``te`` declares and schedules; ``lower`` and ``build`` make kernels that run on numpy arrays; errors are all
``TensorLangError``.
"""

from __future__ import annotations

import sys

from . import entries, nd, ops, te, testing, tir, topi
from .build import build, compile, lower
from .errors import (
    CallError,
    CompileError,
    DeclareError,
    LowerError,
    ScheduleError,
    TargetError,
    TensorLangError,
)
from .frontends import load_onnx, load_torch, onnx_op
from .graph import Engine, Graph
from .interface.externs import register_func, register_symbol
from .interpreter import interpret
from .nd import cpu, device
from .passes.base import TimeTable
from .runtime import (
    Dispatcher,
    Module,
    Profile,
    Rows,
    Timing,
    load,
    num_threads,
    plan_workspace,
    release_workspace,
    set_num_threads,
)
from .schedule import tvm_names
from .schedule.schedule import Schedule, Stage, create_schedule
from .schedule.trace import Trace
from .target import Target
from .view import view

te.create_schedule = create_schedule
te.schedule = tvm_names

__version__ = "0.1.0"
__all__ = [
    "CallError",
    "CompileError",
    "DeclareError",
    "Dispatcher",
    "Engine",
    "Graph",
    "LowerError",
    "Module",
    "Profile",
    "Rows",
    "Schedule",
    "ScheduleError",
    "Stage",
    "Target",
    "TargetError",
    "TensorLangError",
    "TimeTable",
    "Timing",
    "Trace",
    "build",
    "compile",
    "cpu",
    "create_schedule",
    "device",
    "interpret",
    "load",
    "load_onnx",
    "load_torch",
    "lower",
    "nd",
    "num_threads",
    "onnx_op",
    "ops",
    "plan_workspace",
    "register_func",
    "register_symbol",
    "release_workspace",
    "set_num_threads",
    "te",
    "testing",
    "tir",
    "topi",
    "view",
]

entries.close_all(sys.modules[__name__])
