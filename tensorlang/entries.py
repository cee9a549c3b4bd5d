"""Which names are public, behind which no plain exception comes out: every function and class that users
call is guarded here, and every module and class answers for names that it does not have. Knows all rooms;
says nothing of how (see ``boundary``).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from types import ModuleType

from . import nd, ops, signposts, te, testing, tir, topi
from .boundary import answer, guard, guard_class, signpost
from .display.attached import attach_everything
from .errors import CallError, DeclareError, LowerError, ScheduleError, TargetError, TensorLangError
from .expr.operators import Operators
from .graph import Engine, Graph, Program, Value
from .loopir.stmt import Func
from .passes.base import TimeTable
from .runtime import Dispatcher, Module, Profile, Rows, Timing
from .schedule.schedule import Schedule, Stage
from .schedule.trace import Trace
from .target import Target
from .te.tensor import Operation, Tensor

# what is held against its annotation before a kernel is made; the others are looked at by their functions
SETTINGS = ("bounds_check", "name", "simple", "times")
# functions of the package by what goes wrong in them
OF_PACKAGE: dict[type[TensorLangError], tuple[str, ...]] = {
    LowerError: ("build", "compile", "lower", "view"),
    ScheduleError: ("create_schedule",),
    TargetError: ("cpu", "device"),
    CallError: ("interpret",),
    TensorLangError: (
        "load",
        "load_onnx",
        "num_threads",
        "onnx_op",
        "plan_workspace",
        "register_func",
        "register_symbol",
        "release_workspace",
        "set_num_threads",
    ),
}
# class → what goes wrong in it, how it is called, TVM's names
CLASSES: tuple[tuple[type, type[TensorLangError], str, Mapping[str, str]], ...] = (
    (Schedule, ScheduleError, "s", signposts.SCHEDULE),
    (Stage, ScheduleError, "s[T]", signposts.STAGE),
    (Trace, ScheduleError, "Trace", {}),
    (Module, TensorLangError, "f", signposts.MODULE),
    (Timing, TensorLangError, "Timing", {}),
    (Profile, TensorLangError, "Profile", {}),
    (Dispatcher, TensorLangError, "Dispatcher", {}),
    (Rows, TensorLangError, "Rows", {}),
    (TimeTable, TensorLangError, "TimeTable", {}),
    (Program, DeclareError, "Graph", {}),
    (Graph, DeclareError, "Graph", {}),
    (Value, DeclareError, "Value", {}),
    (Engine, CallError, "Engine", {}),
    (Func, LowerError, "Func", {}),
    (Target, TargetError, "Target", {}),
    (Tensor, DeclareError, "Tensor", signposts.TENSOR),
    (Operation, DeclareError, "Operation", {}),
)
MODULES: tuple[tuple[ModuleType, str, type[TensorLangError], Mapping[str, str]], ...] = (
    (te, "te", DeclareError, signposts.TE),
    (ops, "ops", DeclareError, {}),
    (topi, "topi", DeclareError, signposts.TOPI),
    (topi.nn, "topi.nn", DeclareError, {}),
    (tir, "tir", DeclareError, signposts.TIR),
    (nd, "tl.nd", TensorLangError, signposts.ND),
)
# of whole tensors; those of elements are short by themselves
OPERATORS = tuple(
    n for n in vars(Operators) if n.startswith("__") and callable(vars(Operators)[n]) and n != "__bool__"
)
# methods that only code of ours calls
WITHIN = ("called", "work", "take", "arguments", "perform", "verdict", "do")
_THERE = {"te": te, "ops": ops, "topi": topi}


def close_all(package: ModuleType) -> None:
    """Guard what there is, and let it show itself. Called once, when the package has been imported."""
    attach_everything()
    for error, names in OF_PACKAGE.items():
        guard(package, names, "tl", error, eager=SETTINGS if error is LowerError else True)
    for cls, error, label, gone in CLASSES:
        guard_class(cls, error, label, eager=cls in (Program, Graph), without=WITHIN)
        answer(cls, label, gone)
    guard(Tensor, OPERATORS, "Tensor", DeclareError)
    guard(type(Target), ("__call__",), "", TargetError)
    for module, label, error, gone in MODULES:
        guard(module, getattr(module, "__all__", ()), label, error)
        signpost(module, label, gone, partial(_elsewhere, here=module))
    signpost(testing, "tl.testing", {})  # whose AssertionErrors are meant
    signpost(package, "tl", signposts.PACKAGE)


def _elsewhere(name: str, here: ModuleType) -> dict[str, str]:
    """Where among the modules of operators and declarations there is such a name."""
    for label, module in _THERE.items():
        found = vars(module).get(name)
        if module is not here and name in module.__all__ and not inspect.ismodule(found):
            return {name: f"{label}.{name}"}
    return {}
