"""What of a schedule depends on constants alone: computed once when the kernel is built, and read by the
kernel as it stands.

A stage at the root that reads nothing but constants (a packed copy of weights, a Winograd transform of them)
is cut out of the schedule: the kernel reads its result as memory it comes with. So is a table that reads
nothing at all, as the angles of a Fourier transform are. Knows schedule states; never arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import DeclareError, LowerError
from ..expr.nodes import const_int
from ..expr.walk import variables
from ..schedule.state import INLINED, At, ScheduleState, StageState
from ..te.compute import TABLE
from ..te.graph import operations
from ..te.serialize import key_of
from ..te.tensor import ComputeOp, PlaceholderOp, Tensor

LONGEST_TABLE = 1 << 20  # elements that a kernel holds of a table: more are computed by each call


@dataclass(frozen=True)
class Packing:
    """One stage computed ahead: ``state`` computes ``tensors`` from ``sources``, which are constants."""

    state: ScheduleState
    sources: tuple[Tensor, ...]
    tensors: tuple[Tensor, ...]


def split_constants(
    state: ScheduleState, constants: Sequence[Tensor]
) -> tuple[ScheduleState, tuple[Packing, ...]]:
    """The schedule that is left for the kernel, and what is computed ahead; a constant that is read as it is
    needs no computation and is a Packing whose tensor is its source.

    ``state`` holds no symbolic choices. A constant that it does not read takes no part. Raises LowerError for
    one that is no placeholder or has a symbolic size.
    """
    for t in constants:
        _check(t)
    fixed = _fixed(state, [t for t in constants if state.find(t.op) is not None])
    if not fixed:
        return state, ()
    packings: list[Packing] = []
    left: list[StageState] = []
    for stage in state.stages:
        if stage.name not in fixed:
            left.append(stage)
        elif stage.attach is None and any(r.name not in fixed for r in state.readers(stage.name)):
            packings.append(_packing(state, stage))
            left.append(StageState(stage.name, _given(stage), aliases=stage.aliases))
    return ScheduleState(tuple(left), state.decisions, state.symbolic), tuple(packings)


def ahead(packings: Iterable[Packing]) -> list[Tensor]:
    """What is computed ahead, in order."""
    return [t for p in packings for t in p.tensors]


def alike(some: Iterable[Packing], others: Iterable[Packing]) -> bool:
    """Whether both compute the same values, in the same order and layout; how does not matter."""
    a, b = ahead(some), ahead(others)
    return len(a) == len(b) and all(map(_same, a, b))


def _same(a: Tensor, b: Tensor) -> bool:
    if a is b:
        return True
    try:
        return key_of([a]) == key_of([b])
    except DeclareError:  # of what has no form as text nobody knows
        return False


def check_constants(constants: Iterable[Tensor], outputs: Iterable[Any]) -> None:
    """Raises LowerError for a constant that no output depends on, as they are declared: what they are turned
    into may not read all of them."""
    if not (constants := list(constants)):
        return
    ops = operations(getattr(t, "op", t) for t in outputs)
    inputs = [t for op in ops if isinstance(op, PlaceholderOp) for t in op.outputs]
    for t in constants:
        if isinstance(t, Tensor) and isinstance(t.op, PlaceholderOp) and not any(t is i for i in inputs):
            raise LowerError(
                f"constant `{t.name}` is not part of this computation",
                because="nothing it computes depends on it",
                legal=", ".join(i.name for i in inputs),
            )


def _check(t: Tensor) -> None:
    name = getattr(t, "name", repr(t))
    if not isinstance(t, Tensor) or not isinstance(t.op, PlaceholderOp):
        raise LowerError(
            f"constant `{name}` is not a placeholder",
            because="only an input can be given a value ahead of the call",
            try_="constants={W: array} with W = te.placeholder(…)",
        )
    if any(const_int(n) is None for n in t.shape):
        raise LowerError(
            f"constant `{name}` has a symbolic size: ({', '.join(map(str, t.shape))})",
            because="its value, and so its shape, is known when the kernel is built",
            try_=f"declare `{name}` with the sizes of its array",
        )


def _fixed(state: ScheduleState, constants: Iterable[Tensor]) -> set[str]:
    """Names of the stages that depend on constants, on nothing else, and are computed apart from the rest."""
    given = {state.of(t).name for t in constants}
    fixed = set(given)
    for stage in state.stages:  # producers first
        if isinstance(stage.op, ComputeOp) and not (
            stage.is_output or stage.is_opaque or stage.shares or stage.within or stage.in_part
        ):
            inputs = [state.of(t).name for t in stage.op.input_tensors]
            read = all(n in fixed for n in inputs) if inputs else _is_table(stage.op)
            if read and not _asks_sizes(stage.op):
                fixed.add(stage.name)
    while True:  # what is computed inside a loop of the rest belongs to the rest, and so does what reads it
        out = {
            n
            for n in fixed - given
            if _held(state.stage(n), fixed)
            or any(state.of(t).name not in fixed for t in state.stage(n).op.input_tensors)
        }
        if not out:
            return fixed
        fixed -= out


def _is_table(op: ComputeOp) -> bool:
    """Whether a stage that reads nothing is a table that a kernel holds."""
    sizes = [const_int(n) for t in op.outputs for n in t.shape]
    return op.tag == TABLE and None not in sizes and math.prod(n or 0 for n in sizes) <= LONGEST_TABLE


def _asks_sizes(op: ComputeOp) -> bool:
    """Whether a stage needs sizes that the call tells: weights that are repeated for each of a batch."""
    own = {a.var for a in (*op.axis, *op.reduce_axis)}
    sizes = (n for t in op.outputs for n in t.shape)
    return any(variables(e) - own for e in (*sizes, *(a.extent for a in op.reduce_axis), *op.body))


def _held(stage: StageState, fixed: set[str]) -> bool:
    places = [p for p in (stage.attach, stage.store) if isinstance(p, At)]
    return any(p.stage not in fixed for p in places)


def _given(stage: StageState) -> PlaceholderOp:
    """The stage's tensors as something that is simply there."""
    first = stage.op.outputs[0]
    op = PlaceholderOp(stage.op.name, first.shape, first.dtype)
    op.outputs = stage.op.outputs  # readers know these tensors
    return op


def _packing(state: ScheduleState, stage: StageState) -> Packing:
    """The part of the schedule that makes this stage, with it as the output."""
    if stage.is_placeholder:
        return Packing(state, stage.op.outputs, stage.op.outputs)
    needed = {stage.name}
    for st in reversed(state.stages):
        if st.name in needed:
            needed |= {state.of(t).name for t in st.op.input_tensors}
        elif isinstance(st.attach, At) and st.attach.stage in needed:
            needed.add(st.name)
    kept = [st for st in state.stages if st.name in needed and st.attach != INLINED]
    stages = tuple(
        replace(st, is_output=True, scope="global") if st.name == stage.name else st for st in kept
    )
    sources = tuple(t for st in stages if st.is_placeholder for t in st.op.outputs)
    return Packing(ScheduleState(stages, (), False), sources, stage.op.outputs)
