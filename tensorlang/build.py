"""lower, build, compile: the only file that knows the whole flow from a schedule to a kernel.

schedule → concrete state → loop IR → passes → LLVM text → object code → Module
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .codegen import compile_ll, emit, kernel_signature
from .core.names import identifier
from .errors import LowerError
from .expr.nodes import Var
from .loopir.stmt import Func
from .lowering.lower import lower_state
from .passes.base import Hook, Pass, TimeTable
from .passes.pipeline import CHECKED, PIPELINE
from .recipes import default_schedule
from .runtime import Module
from .schedule.schedule import Schedule
from .target import Target, as_target
from .te.tensor import ComputeOp, Tensor

Args = Sequence[Tensor | Var]


def lower(schedule: Schedule, args: Args, name: str = "main", *, simple: bool = False, bounds_check: bool = False,
          hooks: tuple[Hook, ...] = (), simple_mode: bool = False) -> Func:
    """The loop IR of a schedule: ``print(tl.lower(s, [A, B, C]))``. ``simple=True`` shows it before any pass.

    ``bounds_check=True`` adds a check to every access that is not proved to be in bounds; a kernel that fails one raises CallError.
    ``hooks`` are called after each pass with (pass, kernel, seconds). Sampled values count with their present choice.
    ``simple_mode`` is accepted for TVM's sake: what is printed is always the short form.
    Raises LowerError for arguments that do not fit the computation.
    """
    if not isinstance(schedule, Schedule):
        raise LowerError(f"lower({getattr(schedule, 'name', type(schedule).__name__)}, …): the first argument is a schedule",
                         try_="tl.lower(te.create_schedule(C.op), [A, B, C])")
    if not isinstance(args, list | tuple):
        raise LowerError(f"lower(s, {getattr(args, 'name', type(args).__name__)}): the arguments are no list",
                         try_="tl.lower(s, [A, B, C])")
    start = time.perf_counter()
    with _depth(f"lower({name})"):
        func = lower_state(schedule.concrete().state, list(args), identifier(name))
        for hook in hooks:
            hook(LOWERING, func, time.perf_counter() - start)
        return func if simple else (CHECKED if bounds_check else PIPELINE).run(func, hooks)


@contextmanager
def _depth(what: str) -> Iterator[None]:
    """Python's limit on recursion as a clear error: the trees of expressions are walked by functions that call themselves."""
    try:
        yield
    except RecursionError:
        raise LowerError(f"{what}: an expression is too deep", because="one element is computed by hundreds of nested operations",
                         try_="several te.compute stages, which the schedule may keep apart") from None


LOWERING = Pass("lower", lambda f: f)


def build(schedule: Schedule, args: Args, target: str | Target | None = None, name: str = "main", *,
          bounds_check: bool = False, times: TimeTable | None = None) -> Module:
    """A kernel that runs on numpy arrays given in the order of ``args``.

    ``target`` is a string in TVM's form (``"llvm -mcpu=skylake-avx512"``), a Target, or None for this CPU.
    ``bounds_check=True`` builds a kernel that, instead of reading or writing outside a tensor, raises CallError with the access, the
    index, its extent and the turn of the loops. ``times``, when given, collects the seconds each stage of compilation took.
    A kernel for another machine can be read and saved, and says so when it is called.
    Raises LowerError for arguments that do not fit, TargetError for a target that means nothing.
    """
    where = as_target(target)
    func = lower(schedule, args, name, bounds_check=bounds_check, hooks=(times,) if times is not None else ())
    start = time.perf_counter()
    text = emit(func, where)
    code = compile_ll(text, where)
    if times is not None:
        times.add("emit LLVM text", time.perf_counter() - start - sum(code.seconds.values()))
        for stage, seconds in code.seconds.items():
            times.add(f"LLVM {stage}", seconds)
    start = time.perf_counter()
    sources = {"ir": lambda: str(func), "ll": lambda: code.optimised_ll, "asm": lambda: code.asm}
    module = Module(code.object, kernel_signature(func), sources, str(where), refused=where.why_not_here())
    if times is not None:
        times.add("load", time.perf_counter() - start)
    return module


def compile(args: Sequence[Tensor | Var], target: str | Target | None = None, name: str = "main", *,
            outputs: Sequence[Tensor] | None = None, bounds_check: bool = False) -> Module:
    """A kernel with a default schedule: ``tl.compile([A, B, C])``, no tuning.

    ``outputs`` are the computed ones among ``args`` unless given. ``bounds_check`` as in ``build``.
    Raises LowerError when no argument is computed.
    """
    if not isinstance(args, list | tuple):
        raise LowerError(f"compile({getattr(args, 'name', type(args).__name__)}): the arguments are no list", try_="tl.compile([A, B, C])")
    wanted = [a for a in args if isinstance(a, Tensor) and isinstance(a.op, ComputeOp)] if outputs is None else list(outputs)
    if not wanted:
        raise LowerError("compile: no argument is computed", try_="tl.compile([A, B, C]) with C made by te.compute")
    where = as_target(target)
    with _depth("compile"):
        schedule = default_schedule(wanted, where)
    return build(schedule, args, where, name, bounds_check=bounds_check)
