"""tensorlang: write, schedule and run tensor kernels in TVM TE's words.

``te`` declares and schedules; ``lower`` and ``build`` make kernels that run on numpy arrays; errors are all
``TensorLangError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import offer

if TYPE_CHECKING:  # the names below are loaded when they are asked for
    from . import nd, ops, te, testing, tir, topi
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
    from .graph import Graph
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
    from .runtime.engine import Engine
    from .schedule.schedule import Schedule, Stage, create_schedule
    from .schedule.trace import Trace
    from .target import Target
    from .view import view

__version__ = "0.1.0"
# which file has which public names
_PLACES = {
    "build": ("build", "compile", "lower"),
    "errors": (
        "CallError",
        "CompileError",
        "DeclareError",
        "LowerError",
        "ScheduleError",
        "TargetError",
        "TensorLangError",
    ),
    "frontends": ("load_onnx", "load_torch", "onnx_op"),
    "graph": ("Graph",),
    "interface.externs": ("register_func", "register_symbol"),
    "interpreter": ("interpret",),
    "nd": ("cpu", "device"),
    "passes.base": ("TimeTable",),
    "runtime": (
        "Dispatcher",
        "Module",
        "Profile",
        "Rows",
        "Timing",
        "load",
        "num_threads",
        "plan_workspace",
        "release_workspace",
        "set_num_threads",
    ),
    "runtime.engine": ("Engine",),
    "schedule.schedule": ("Schedule", "Stage", "create_schedule"),
    "schedule.trace": ("Trace",),
    "target": ("Target",),
    "view": ("view",),
}
_MODULES = ("nd", "ops", "te", "testing", "tir", "topi", "torch")
# rooms that are not part of the promise, but are there
_ROOMS = """
analysis arith boundary codegen core display entries errors expr frontends graph interface interpreter
loopir lowering native options passes recipes runtime schedule signposts target workers
"""
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

offer(__name__, _PLACES, (*_MODULES, *_ROOMS.split()))
