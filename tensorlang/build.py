"""lower, build, compile: the only file that knows the whole flow from a schedule to a kernel.

schedule → concrete state → loop IR → passes → LLVM text → object code → Module
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from .codegen import MOST_ROWS, STACK_LIMIT, compile_ll, emit, emit_export, kernel_signature
from .core.collector import uncollected
from .core.names import identifier
from .errors import LowerError
from .expr.nodes import Expr, Var, const_int
from .given import check_lists, check_name, check_without, mapping_of, strides_of, values_of, with_a_schedule
from .interface.signature import Signature
from .loopir.loop_builder import vectors_of
from .loopir.stmt import Func
from .loopir.workspaces import with_workspaces
from .lowering.constants import Packing, ahead, alike, check_constants, split_constants
from .lowering.lower import lower_state
from .lowering.unit_axes import as_declared
from .lowering.written_out import missing_outputs, write_out
from .passes.base import Hook, Pass, TimeTable
from .passes.instrument import instrument
from .passes.pipeline import CHECKED, PIPELINE
from .passes.shared_nests import unless
from .runtime import Module, num_threads
from .runtime.codes import KernelCode, Packer
from .runtime.export import CFunction, kernel_header
from .runtime.profile import Instrumented
from .schedule.schedule import Schedule, create_schedule
from .schedule.state import ScheduleState
from .schedule.trace import Trace
from .target import Target, arch_of, as_target
from .te.exchange import Exchanged, exchanged
from .te.reshaped import as_computed
from .te.strides import BufferDecl
from .te.tensor import ComputeOp, Tensor
from .te.windows_apart import windows_apart

Args = Sequence[Tensor | Var]
Choices = Sequence[tuple[Expr, Schedule]]  # schedules for the calls whose sizes are like this
_Plan = tuple[Schedule, dict[str, str], Choices]  # what a recipe makes, and says of its stages


@dataclass(frozen=True)
class _Settings:
    """What a caller asks of a kernel beside its computation; see ``build``, which says what each is."""

    name: str
    target: Target
    bounds_check: bool = False
    times: TimeTable | None = None
    constants: Mapping[Tensor, Any] | None = None
    binds: Mapping[Tensor, BufferDecl] | None = None
    math: str = "default"
    load: bool = True

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """What is called after each pass."""
        return () if self.times is None else (self.times,)


def lower(
    schedule: Schedule,
    args: Args,
    name: str = "main",
    *,
    simple: bool = False,
    bounds_check: bool = False,
    hooks: tuple[Hook, ...] = (),
    simple_mode: bool = False,
    constants: Sequence[Tensor] = (),
    binds: Mapping[Tensor, BufferDecl] | None = None,
) -> Func:
    """The loop IR of a schedule: ``print(tl.lower(s, [A, B, C]))``. ``simple=True`` shows it before any pass.

    ``bounds_check=True`` adds a check to every access that is not proved to be in bounds; a kernel that fails
    one raises CallError. ``hooks`` are called after each pass with (pass, kernel, seconds). Sampled values
    count with their present choice. ``simple_mode`` is accepted for TVM's sake: what is printed is always the
    short form. ``constants`` are inputs whose values are given to ``build``: what depends on them alone is
    not part of the kernel. ``binds`` as in ``build``. Outputs that ``args`` leaves out follow as the last
    parameters. Raises LowerError for arguments that do not fit the computation.

    >>> A = te.placeholder((8, 8), name="A")
    >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
    >>> s = te.create_schedule(B.op)
    >>> print(tl.lower(s, [A, B]))
    def main(A: float32[8, 8], B: float32[8, 8] out):
        for i in range(0, 8):
            for j in range(0, 8):
                B[i, j] = A[i, j] + 1.0
    """
    if isinstance(schedule, Schedule) and isinstance(args, list | tuple):
        # an output that nobody lists is given back by the call, so a list of inputs is enough
        args = [*args, *missing_outputs(schedule.state, args)]
    return _lowered(
        schedule,
        args,
        name,
        simple=simple,
        bounds_check=bounds_check,
        hooks=hooks,
        constants=constants,
        binds=binds,
    )[0]


def _check_listed(call: str, schedule: Schedule, args: Any) -> None:
    if not isinstance(args, list | tuple):
        raise LowerError(
            f"{call}(s, {getattr(args, 'name', type(args).__name__)}): the arguments are not a list",
            try_=f"tl.{call}(s, [{', '.join(_all_arguments(schedule))}])",
        )


def _all_arguments(schedule: Schedule) -> list[str]:
    """The names of what a kernel of this schedule reads and gives, the inputs first."""
    stages = schedule.state.stages
    return [t.name for st in stages if st.is_placeholder for t in st.op.outputs] + [
        t.name for st in stages if st.is_output for t in st.op.outputs
    ]


def _lowered(
    schedule: Schedule,
    args: Args,
    name: str,
    *,
    simple: bool = False,
    bounds_check: bool = False,
    hooks: tuple[Hook, ...] = (),
    constants: Sequence[Tensor] = (),
    binds: Mapping[Tensor, BufferDecl] | None = None,
    choices: Choices = (),
    declared: Args | None = None,
) -> tuple[Func, tuple[Packing, ...]]:
    """The kernel, and what is to be computed before it can be loaded. Where a condition of ``choices`` holds
    a call takes the loops of another schedule. ``declared`` are the arguments with all their dimensions."""
    if not isinstance(schedule, Schedule):
        raise LowerError(
            f"lower({getattr(schedule, 'name', type(schedule).__name__)}, …): the first argument is a "
            "schedule",
            try_=with_a_schedule(schedule, args),
        )
    _check_listed("lower", schedule, args)
    check_name(name)
    start = time.perf_counter()
    with _depth(f"lower({name})"):
        # knobs by their values: a kernel has numbers
        state = schedule.concrete().state
        # asked before lowering: an argument's strides decide how every read of it is addressed
        strides = strides_of(args, binds or {})
        check_constants(() if declared else constants, [t for st in state.stages for t in st.op.outputs])
        for t in (*constants, *strides):
            if state.present(t) is not t:
                raise LowerError(
                    f"the layout of `{t.name}` was transformed, and it is "
                    f"{'bound to a buffer' if t in strides else 'a constant'}",
                    because="transform_layout decides how its array lies in memory",
                    try_=f"s.cache_read({t.name}, 'global', readers) and transform_layout of the copy",
                )
        func, packings = _one_or_several(state, choices, args, name, constants, strides)
        if declared is not None:
            func = as_declared(func, declared, args, constants)
        for hook in hooks:
            hook(LOWERING, func, time.perf_counter() - start)
        # before any pass the loops are those that the schedule names, which ``simple`` is there to show
        return (func if simple else _passed(func, bounds_check, hooks)), packings


def _one_or_several(
    state: ScheduleState,
    choices: Choices,
    args: Args,
    name: str,
    constants: Sequence[Tensor],
    strides: Mapping[Tensor, tuple[Expr, ...] | None],
    held: bool = True,
) -> tuple[Func, tuple[Packing, ...]]:
    """The kernel of a schedule before any pass, with the loops of the others for the calls that take them. It
    holds what is computed ahead, or takes it as parameters."""

    def parts(state: ScheduleState) -> tuple[ScheduleState, list[Tensor | Var], tuple[Packing, ...]]:
        present = [state.present(a) for a in args]
        state, packings = split_constants(write_out(state, present), constants)
        return state, [a for a in present if not any(a is c for c in constants)], packings

    def lowered(
        state: ScheduleState, given: list[Tensor | Var], packings: tuple[Packing, ...], like: Func | None
    ) -> Func:
        tensors = ahead(packings)
        if held:
            return lower_state(state, given, name, tensors, strides, like)
        return lower_state(state, [*given, *tensors], name, [], strides, like)

    state, given, packings = parts(state)
    func = lowered(state, given, packings, None)
    for cond, schedule in reversed(choices):
        state, given, also = parts(schedule.concrete().state)
        if alike(also, packings):  # what is computed ahead is computed once, for all of them
            func = unless(func, cond, lowered(state, given, also, func))
    return func, packings


def _passed(func: Func, bounds_check: bool, hooks: tuple[Hook, ...]) -> Func:
    """The kernel after every pass."""
    func = (CHECKED if bounds_check else PIPELINE).run(func, hooks)
    func.ready = True  # it is not run through the passes again when it is built
    return func


@contextmanager
def _depth(what: str) -> Iterator[None]:
    """Python's limit on recursion as a clear error: the trees of expressions are walked by functions that
    call themselves."""
    try:
        with uncollected():
            yield
    except RecursionError:
        raise LowerError(
            f"{what}: an expression is too deep",
            because="one element is computed by hundreds of nested operations",
            try_="several te.compute stages, which the schedule may keep apart",
        ) from None


LOWERING = Pass("lower", lambda f: f)


def build(
    schedule: Schedule | Func,
    args: Args | None = None,
    target: str | Target | None = None,
    name: str | None = None,
    *,
    target_host: str | Target | None = None,
    bounds_check: bool = False,
    times: TimeTable | None = None,
    constants: Mapping[Tensor, Any] | None = None,
    binds: Mapping[Tensor, BufferDecl] | None = None,
    math: str = "default",
    load: bool = True,
) -> Module:
    """A kernel that runs on numpy arrays given in the order of ``args``: inputs (also some that nobody
    reads), all outputs, numbers, and computed tensors on the way, which are then written out as well.

    ``constants`` gives inputs their values now, ``{W: array}``: they are not parameters of the kernel
    (whether ``args`` names them or not), and every stage at the root that depends on nothing else, such as a
    packed copy of weights, is computed once, here. The kernel keeps its own copy of the results, which
    kernels with equal weights and equal packing share; later changes of the array have no effect.

    ``binds`` tells how arguments lie in memory, outputs too: ``{C: te.decl_buffer(C.shape, C.dtype,
    strides="any")}``; inputs may say so themselves, ``te.placeholder(…, strides="any")``.

    In place of a schedule and its arguments it takes what ``lower`` made of them, ``tl.build(tl.lower(s, [A,
    B, C]))``.

    ``target`` is a string in TVM's form (``"llvm -mcpu=skylake-avx512"``), a Target, or None for this CPU;
    ``target_host`` is accepted for TVM's sake: who calls a kernel runs on the CPU that it is for. ``math`` is
    how exp, sin and their like are computed: ``"default"``, our vector code (at most 2 ulp, pow 4, in float32
    and float64), or ``"precise"``, the C library's functions element by element. ``bounds_check=True``
    builds a kernel that, instead of reading or writing outside a tensor, raises CallError with the
    access, the index, its extent and the iteration of the loops, or the division by zero of integers.
    ``times``, when given, collects the seconds each stage of compilation took. A kernel for another
    machine can be read and saved, and says so when it is called; so does one with ``load=False``, which
    some other process is to run.
    Raises LowerError for arguments, constants and a ``math`` that do not fit, TargetError for a target that
    means nothing, CompileError when LLVM makes no code (a bug; with ``TENSORLANG_ISOLATE=1`` in the
    environment also where LLVM would end the process).

    >>> A = te.placeholder((8, 8), name="A")
    >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
    >>> s = te.create_schedule(B.op)
    >>> f = tl.build(s, [A, B])
    >>> f(np.zeros((8, 8), np.float32)).sum()
    np.float32(64.0)
    """
    if isinstance(schedule, Schedule) and args is not None:
        _check_listed("build", schedule, args)
    where = as_target(target)
    # for TVM's sake: checked, and otherwise the target itself, for there is no device beside it
    as_target(target_host)
    asked = _Settings(
        "main" if name is None else name, where, bounds_check, times, constants, binds, math, load
    )
    if isinstance(schedule, Func):
        _alone(schedule, args, name, bounds_check, constants, binds)
        # a kernel from ``tl.lower`` has been through the passes; one that was read from text has not
        given = (lambda hooks: schedule) if schedule.ready else partial(_passed, schedule, bounds_check)
        return _module(given(asked.hooks), asked, [], given, (None, (), {}))
    if args is None:
        raise LowerError("build: the arguments are missing", try_="tl.build(s, [A, B, C])")
    return _scheduled(schedule, args, {}, asked)


def _scheduled(
    schedule: Schedule,
    args: Args,
    why: Mapping[str, str],
    asked: _Settings,
    choices: Choices = (),
    declared: Args | None = None,
) -> Module:
    """As ``build``, of a schedule; ``why`` is what a recipe says of its stages, ``choices`` are those for
    other sizes, ``declared`` the arguments with all of their dimensions."""
    values = values_of(mapping_of(asked.constants))
    lowered = partial(
        vectors_of(asked.target.vector_bits)(_lowered),
        schedule,
        args,
        asked.name,
        bounds_check=asked.bounds_check,
        constants=list(values),
        binds=asked.binds,
        choices=choices,
        declared=declared,
    )
    func, packings = lowered(hooks=asked.hooks)
    held = [a for p in packings for a in _packer(p, p.sources).packed([values[t] for t in p.sources])]
    # a page of the kernel shows each pass, whose texts are larger than the kernel
    again = lambda hooks: lowered(hooks=hooks)[0]
    return _module(func, asked, held, again, (schedule, args, why))


def _alone(
    func: Func, args: Args | None, name: str | None, bounds_check: bool, constants: Any, binds: Any
) -> None:
    """Raises LowerError for what was decided when ``func`` was lowered."""
    given = {
        "args": args,
        "name": name not in (None, func.name),
        "constants": constants or func.constants,
        "binds": binds,
        "bounds_check": bounds_check and func.ready,
    }
    word = next((w for w, value in given.items() if value), None)
    if word is not None:
        raise LowerError(
            f"build of the lowered `{func.name}`: `{word}` was settled when it was lowered",
            because="loop IR speaks of buffers of that kernel, and holds no arrays",
            try_=f"tl.build(s, [A, B, C]{'' if word == 'args' else f', {word}=…'}) of the schedule",
        )


def _module(
    func: Func,
    asked: _Settings,
    data: Sequence[Any],
    again: Callable[[tuple[Hook, ...]], Func],
    source: tuple[Schedule | None, Args, Mapping[str, str]],
) -> Module:
    """The kernel as machine code; ``data`` are the arrays of its constants; ``again`` makes ``func`` once
    more, of the ``source``: schedule, arguments, and what a recipe says of its stages."""
    start, where, times = time.perf_counter(), asked.target, asked.times
    with uncollected():
        # many small objects that all live make the collector walk them again and again
        text = emit(func, where, asked.math)
        code = compile_ll(text, where, program=lambda: str(func))
    if times is not None:
        times.add("emit LLVM text", time.perf_counter() - start - sum(code.seconds.values()))
        for stage, seconds in code.seconds.items():
            times.add(f"LLVM {stage}", seconds)
    start = time.perf_counter()
    sources = {"ir": lambda: str(func), "ll": lambda: code.optimised_ll, "asm": lambda: code.asm}
    signature = kernel_signature(func)
    held = {c.symbol: a for c, a in zip(signature.constants, data, strict=True)}
    module = Module(
        code.object,
        signature,
        sources,
        str(where),
        refused=where.why_not_here() if asked.load else NOT_LOADED,
        constants=held,
        # a saved kernel is refused on a processor without them, instead of dying of an illegal instruction
        features=code.instruction_sets,
        tools=_Tools(func, where, held, asked.math, again, source),
    )
    if times is not None:
        times.add("load", time.perf_counter() - start)
    return module


@dataclass(frozen=True)
class _Tools:
    """What else can be made of a kernel, from its loop IR (see runtime.module.Tools)."""

    func: Func
    target: Target
    constants: Mapping[str, Any]
    math: str
    again: Callable[[tuple[Hook, ...]], Func]
    source: tuple[Schedule | None, Args, Mapping[str, str]]

    def explain(self, kernel: Module) -> Any:
        from .explanation import explained

        schedule, _, why = self.source
        return explained(kernel.name, self.func, self.target, schedule, why)

    def view(self, kernel: Module, arrays: Sequence[Any]) -> Any:
        from .view import page_of, watched

        schedule, args, _ = self.source
        _, steps = watched(self.again)
        return page_of(kernel, self.func, self.target, self.math, schedule, args, steps, arrays)

    def c_function(self, name: str) -> CFunction:
        text, signature = emit_export(self.func, self.target, name, self.constants, self.math)
        here = Target.host()
        # code of another architecture cannot be linked with this process's helpers
        foreign = arch_of(self.target.triple) != arch_of(here.triple)
        code = compile_ll(text, self.target, program=lambda: str(self.func)).object
        header = kernel_header(code, signature, str(self.target))
        return CFunction(code, signature, self.target.triple, foreign, header)

    def instrumented(self, deep: bool) -> Instrumented:
        func, nests = instrument(self.func, deep)
        return Instrumented(
            compile_ll(emit(func, self.target, self.math), self.target, program=lambda: str(func)).object,
            nests,
        )


def unbound(
    args: Args,
    constants: Sequence[Tensor],
    dims: Sequence[Var],
    target: str | Target | None = None,
    name: str = "main",
    *,
    outputs: Sequence[Tensor],
    math: str = "default",
    steps: str | None = None,
) -> KernelCode:
    """As ``compile``, but the values of ``constants`` are not needed yet: what depends on them alone is a
    parameter, so that one kernel serves layers that differ in their weights; so are workspaces, behind the
    outputs. Its sizes are named by their numbers in ``dims``. ``steps`` is the JSON of a trace that is
    replayed in place of a default schedule. Nothing is loaded. Raises LowerError as ``build``, ScheduleError
    for steps that are refused.
    """
    where, declared = as_target(target), args
    with uncollected(), _depth("compile"), vectors_of(where.vector_bits):
        choices: Choices = ()
        if steps is None:
            args, constants, outputs = map(as_computed(outputs, constants).of, (args, constants, outputs))
            # a graph has decided which convolutions are filtered, before layouts
            schedule, _, choices = _default(outputs, where, list(constants), ["winograd"])
        else:
            schedule = create_schedule(list(outputs)).replay(Trace.from_json(steps))
        state = schedule.concrete().state
        func, packings = _one_or_several(state, choices, args, identifier(name), constants, {}, held=False)
        func = as_declared(func, declared, args, constants)
        # an engine plans one memory for all its kernels, so that none of them asks for its own at a call
        func = with_workspaces(_passed(func, False, ()), STACK_LIMIT, min(where.num_cores, MOST_ROWS))
        code = compile_ll(emit(func, where, math), where, program=lambda: str(func))
        packers = tuple(_packer(p, constants) for p in packings)
    places = tuple(next(i for i, d in enumerate(dims) if d is v) for v in _slots(func))
    return KernelCode(code.object, kernel_signature(func), places, code.instruction_sets, packers)


def _slots(func: Func) -> tuple[Var, ...]:
    """The sizes and numbers that a kernel takes, in order."""
    return (*func.dims, *(p for p in func.params if isinstance(p, Var)))


def _packer(packing: Packing, constants: Sequence[Tensor]) -> Packer:
    """A Packing as plain data; its code is for this processor, whatever the kernel is for."""
    sources = tuple(next(i for i, c in enumerate(constants) if c is t) for t in packing.sources)
    forms = tuple((tuple(const_int(n) or 0 for n in t.shape), str(t.dtype)) for t in packing.tensors)
    # as it is: no code to run
    if packing.sources == packing.tensors:
        return Packer(sources, forms)
    # What it is given is compact, however it is declared.
    compact = dict.fromkeys(packing.sources)
    func = PIPELINE.run(
        lower_state(packing.state, [*packing.sources, *packing.tensors], "prepack", strides=compact)
    )
    return Packer(sources, forms, *_prepacker(func))


_prepackers: dict[str, tuple[bytes, Signature]] = {}


def _prepacker(func: Func) -> tuple[bytes, Signature]:
    """The code of a packing; equal ones are compiled once, for layers differ in their weights alone."""
    text = str(func)
    if text not in _prepackers:
        here = Target.host()
        # each operation is rounded, as where numbers are folded; quick code (level 0), for it runs once
        code = compile_ll(emit(func, here, fuses=False), here, 0, lambda: text).object
        # the oldest goes: models are compiled one after the other, layers of one beside each other
        while len(_prepackers) >= MAX_PREPACKERS:
            _prepackers.pop(next(iter(_prepackers)), None)
        _prepackers[text] = code, kernel_signature(func)
    return _prepackers[text]


MAX_PREPACKERS = 256
NOT_LOADED = "it was built with load=False"


def compile(
    args: Sequence[Tensor | Var],
    target: str | Target | None = None,
    name: str = "main",
    *,
    outputs: Sequence[Tensor] | None = None,
    bounds_check: bool = False,
    constants: Mapping[Tensor, Any] | None = None,
    math: str = "default",
    without: Sequence[str] = (),
) -> Module:
    """A kernel with a default schedule: ``tl.compile([A, B, C])``, no tuning.

    ``outputs`` are the computed ones among ``args`` unless given. ``bounds_check``, ``constants`` and
    ``math`` as in ``build``; the schedule packs constants as a whole, ahead of the call, and shares work out
    among ``tl.num_threads()``; others run it too.

    Convolutions by 3×3 kernels are computed by Winograd's minimal filtering where that takes less time
    (``f.explain()`` says so): by F(4×4, 3×3) only where the weight is among the ``constants``, which is
    within 2e-5 of the largest output; F(2×2, 3×3) is, like a direct sum, within 3e-6.
    ``without=["winograd"]`` keeps direct sums.
    Raises LowerError when no argument is computed, and for another name in ``without``.

    >>> x = te.placeholder((4, 8), name="x")
    >>> f = tl.compile([x, ops.softmax(x)])
    >>> f(np.zeros((4, 8), np.float32))[0, 0]
    np.float32(0.125)
    """
    check_lists(args, outputs)
    check_name(name)
    check_without(without)
    wanted = (
        # what is computed among the arguments, in their order
        [a for a in args if isinstance(a, Tensor) and isinstance(a.op, ComputeOp)]
        if outputs is None
        else list(outputs)
    )
    if not wanted:
        example = "tl.compile([A, B, C]) with C made by te.compute"
        raise LowerError("compile: no argument is computed", try_=example)
    where = as_target(target).for_threads(num_threads())
    with uncollected():
        with _depth("compile"):
            given = values_of(mapping_of(constants))
            check_constants(given, wanted)
            short = as_computed(wanted, list(given))
            given = short.values(given)
            declared = short.of(wanted)
            made = None if without else _filtered(declared, where, list(given))
            other, plan = made or (Exchanged({}), _default(declared, where, list(given), without))
        asked = _Settings(name, where, bounds_check, constants=given, math=math)
        schedule, why, choices = plan
        return _scheduled(schedule, other.of(short.of(args)), why, asked, choices, args)


def _filtered(
    outputs: Sequence[Tensor], where: Target, constants: Sequence[Tensor]
) -> tuple[Exchanged, _Plan] | None:
    """The computation with fewer multiplications and its default schedule, None where none gains by it: most
    want a weight that is known."""
    from .recipes import all_by_block, another_way

    apart = windows_apart(outputs)
    fewer = exchanged(apart.of(outputs), lambda op: another_way(op, where, constants))
    if not fewer.tensors:
        return None
    made = apart.then(fewer)
    plan = _default(made.of(outputs), where, constants)
    return (made, plan) if all(map(all_by_block, [plan[0], *(s for _, s in plan[2])])) else None


def _default(
    outputs: Sequence[Tensor], where: Target, constants: Sequence[Tensor], without: Sequence[str] = ()
) -> _Plan:
    """The schedule that a recipe makes, what it says of its stages, and the schedules for few of what only a
    call can count, each with the condition that picks it."""
    from .recipes import scheduled
    from .recipes.choices import asking

    with asking() as first:
        schedule, why = scheduled(outputs, where, constants, without)
    choices = []
    for extent, n in first.choices():
        with asking({extent: n}):
            other, _ = scheduled(outputs, where, constants, without)
        if other.trace.to_json() != schedule.trace.to_json():
            choices.append((extent <= n, other))
    if choices:
        why["by size"] = f"other loops where {', or else where '.join(str(cond) for cond, _ in choices)}"
    return schedule, why, tuple(choices)
