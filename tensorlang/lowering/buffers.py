"""Arguments and buffers of a kernel: which tensor lives where. Knows te, bounds and loop IR's Buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import LowerError
from ..expr.linear import poly
from ..expr.nodes import Expr, Var
from ..expr.walk import variables
from ..loopir.stmt import Buffer
from ..schedule.bounds import Bounds, lanes_around, padded, region_size
from ..schedule.sliding import Slide
from ..schedule.state import INLINED, ScheduleState, StageState
from ..te.axis import dims_of
from ..te.loops import LoopsOp
from ..te.scan import ScanOp
from ..te.tensor import Operation, PlaceholderOp, Tensor


def argument_buffers(
    state: ScheduleState,
    args: Sequence[Tensor | Var],
    constants: Sequence[Tensor] = (),
    strides: Mapping[Tensor, tuple[Expr, ...] | None] | None = None,
) -> tuple[dict[Tensor, Buffer], tuple[Buffer | Var, ...]]:
    """A buffer for each tensor argument, and the parameters in call order. ``constants`` are compact; an
    argument lies as ``strides`` says, or as it is declared.

    Raises LowerError when an argument is foreign, named twice, or one that is needed is missing.
    """
    buffers: dict[Tensor, Buffer] = {}
    params: list[Buffer | Var] = []
    for a in (*args, *constants):
        if isinstance(a, Var):
            if any(a is p for p in params):
                raise LowerError(f"argument `{a.name}` is given twice", try_="name each argument once")
            params.append(a)
            continue
        if not isinstance(a, Tensor):
            raise _no_argument(a)
        if a in buffers:
            raise LowerError(f"argument `{a.name}` is given twice", try_="name each argument once")
        if _is_parameter_of_another(state, a):
            continue
        # constants are packed by us, compact
        lies = None if a in constants else (strides or {}).get(a, a.op.strides)
        buffers[a] = Buffer(a.name, a.dtype, a.shape, "arg", lies)
        params.append(buffers[a])
    _check_complete(state, buffers, params)
    return buffers, tuple(params)


def _no_argument(a: object) -> LowerError:
    shown = a if isinstance(a, int | float | str) else f"{type(a).__name__} {getattr(a, 'name', '')}".strip()
    return LowerError(
        f"argument {shown} is neither a tensor nor a te.var",
        because="a kernel is built for tensors and variables; numbers and arrays are passed when it is "
        "called",
        try_=f"{a.name}.output(0), the tensor that it makes"
        if isinstance(a, Operation)
        else "the tensors of te.placeholder and te.compute, in the order of the call",
    )


def _is_parameter_of_another(state: ScheduleState, a: Tensor) -> bool:
    """Whether an argument is the new state of an array that is a parameter already: it changes that in place.
    Raises LowerError for a tensor that has no memory of its own in this computation."""
    stage = state.find(a.op)
    if stage is None:
        if isinstance(a.op, PlaceholderOp):  # one that nobody reads is passed and left alone
            return False
        raise LowerError(
            f"argument `{a.name}` is not part of this computation",
            because="nothing it computes depends on it",
            legal=", ".join(t.name for st in state.stages if st.attach != INLINED for t in st.op.outputs),
        )
    if stage.updates:
        return True
    if stage.shares:
        raise LowerError(
            f"argument `{a.name}` is part of the scan `{stage.shares[0].name}`: its memory is the scan's "
            "result"
        )
    return False


def _check_complete(
    state: ScheduleState, buffers: Mapping[Tensor, Buffer], params: Sequence[Buffer | Var]
) -> None:
    """Raises LowerError where an input that is read, or an output, has no argument."""
    for stage in state.stages:
        for t in stage.op.outputs:
            if t in buffers or stage.shares:
                continue
            # an input that nobody reads need not be passed
            if stage.is_placeholder and state.readers(stage.name):
                raise LowerError(
                    f"argument `{t.name}` is missing: the computation reads it",
                    because=f"the arguments are {', '.join(p.name for p in params) or 'none'}",
                    try_=f"add {t.name} to the list of arguments",
                )
            if stage.is_output and not _beside(stage, buffers):
                raise LowerError(
                    f"output `{t.name}` is missing from the arguments",
                    because="results are written to arrays of the caller",
                    try_=f"add {t.name} to the list of arguments",
                )


def _beside(stage: StageState, buffers: Mapping[Tensor, Buffer]) -> bool:
    """Whether a stage may have results that the caller does not get, which are workspace then: a program of
    loops and a scan give all of their results, of which often one is meant."""
    return isinstance(stage.op, LoopsOp | ScanOp) and any(t in buffers for t in stage.op.outputs)


def workspace_buffers(
    state: ScheduleState, bounds: Bounds, slides: Mapping[str, Slide], buffers: dict[Tensor, Buffer]
) -> None:
    """Add a buffer for every stage that is neither argument nor inlined, of which ``slides`` says what slides
    by its name."""
    for stage in state.stages:
        if stage.is_placeholder or stage.attach == INLINED or stage.shares:
            continue
        for t in stage.op.outputs:
            if t not in buffers:
                shape = slides[stage.name].shape(region_size(t, bounds))
                # inside a vector loop every lane has an element of its own, the last dimension of the memory
                shape = (*shape, *[n for n, _ in lanes_around(state, bounds, stage)])
                buffers[t] = Buffer(t.name, t.dtype, shape, stage.scope, padded(shape, stage.align))


def share_buffers(state: ScheduleState, buffers: dict[Tensor, Buffer]) -> None:
    """Give the parts of scans the buffers of their results."""
    for stage in state.stages:
        for t, whole in zip(stage.op.outputs, stage.shares, strict=False):
            buffers[t] = buffers[whole]


def _solved(shape: Sequence[Expr], known: set[Var]) -> set[Var]:
    """``known`` and the sizes that follow from dimensions when those are known: n by ``n + 1`` or ``2 * n +
    m``."""
    more = True
    while more:
        more = False
        for e in shape:
            unknown = [v for v in dims_of(e) if v not in known]
            # linear in the one that is not known, so that the call can solve for it
            if len(unknown) == 1 and all(
                len(m) == 1 and m[0] is unknown[0]
                for m in poly(e)
                if any(unknown[0] in variables(a) for a in m)
            ):
                known.add(unknown[0])
                more = True
    return known


def sizes_of(params: Sequence[Buffer | Var], exprs: Sequence[Expr]) -> tuple[Var, ...]:
    """The symbolic sizes of a kernel: named in shapes and strides of arguments, solved at the call.

    Raises LowerError for one that no argument determines.
    """
    given = [p for p in params if isinstance(p, Var)]
    shaped = [e for p in params if isinstance(p, Buffer) for e in p.shape]
    shaped += [e for p in params if isinstance(p, Buffer) for e in p.strides or ()]
    sizes = [e for p in params if isinstance(p, Buffer) for e in p.shape]
    direct = _solved(sizes, {*given, *(e for e in shaped if type(e) is Var)})
    dims = dims_of(*shaped)  # also those that are given: what shapes say and what is passed must agree
    for v in (*dims, *dims_of(*exprs)):
        if v.kind == "knob":
            raise LowerError(f"`{v.name}` is a sampled value outside a schedule")
        if v.kind in ("dim", "value") and v not in direct and not any(v is g for g in given):
            if not v.dtype.is_index or not any(v is d for d in dims):
                raise LowerError(
                    f"`{v.name}` is given by no argument",
                    because="the computation uses its value, and no argument has it as a dimension",
                    try_=f"pass `{v.name}` as an argument",
                )
            raise LowerError(
                f"`{v.name}` is determined by no argument",
                because="a symbolic size is solved from a dimension of an argument that is a multiple of it "
                "plus what is known",
                try_=_what_to_pass(sizes, direct, dims),
            )
    return tuple(dims)


def _what_to_pass(sizes: Sequence[Expr], known: set[Var], dims: Sequence[Var]) -> str:
    """The symbols that must be given for all to be known: the others follow from them."""
    wanted: list[Var] = []
    for v in dims:
        if v not in _solved(sizes, {*known, *wanted}):
            wanted.append(v)
    if len(wanted) == 1:
        return f"pass `{wanted[0].name}` as an argument, or a tensor of which it is a dimension"
    return (
        f"pass {' and '.join(f'`{v.name}`' for v in wanted)} as arguments, or tensors of which they are "
        "dimensions"
    )
