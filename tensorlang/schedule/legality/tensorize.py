"""Whether the inner loops of a stage are what a tensor intrinsic computes, and where its operands lie. Knows
te and bounds.

The loops from the named one inwards stand for the intrinsic's axes, in order. The bodies must be the same
expression, where each operand of the intrinsic is one tensor read at a corner (which the outer loops decide)
plus the intrinsic's own index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...expr import make
from ...expr.nodes import Cast, Const, Expr, Var, const_int
from ...expr.walk import substitute, variables
from ...te.axis import REDUCE, IterVar
from ...te.reducers import Reduce
from ...te.tensor import ComputeOp, Tensor, TensorRead
from ...te.tensor_intrin import TensorIntrin, declared
from ..bounds import bounds_of
from ..state import INLINED, ScheduleState, StageState


@dataclass(frozen=True, slots=True)
class Operand:
    """A box of a tensor: ``corner`` has one index per dimension, ``dims`` names for each of the intrinsic's
    dimensions that of the tensor."""

    tensor: Tensor
    corner: tuple[Expr, ...]
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """Where the operands lie; ``outer_reduce`` when reduction loops stand around the intrinsic."""

    inputs: tuple[Operand, ...]
    output: Operand
    outer_reduce: bool


def mismatched(state: ScheduleState, pending: bool = False) -> Iterator[tuple[StageState, str]]:
    """The tensorized stages whose loops are not those of their intrinsics any more, with the reasons; those
    that wait for a place only if ``pending``, for they are checked once they have it."""
    for st in map(state.stage, state.links.tensorized):
        why = other_than(state, st) if pending or st.pending is None else None
        if why is not None:
            yield st, why


def other_than(state: ScheduleState, st: StageState) -> str | None:
    """Why the loops of a tensorized stage are not those of its intrinsic any more; None where they are."""
    assert st.tensorized is not None
    loop, name = st.tensorized
    if st.attach == INLINED:
        return "it would be inlined, without loops of its own"
    intrin = declared(name)
    position = next((p for p, iv in enumerate(st.leaves) if iv.name == loop), None)
    if position is None:
        return f"loop {st.name}.{loop} is gone"
    why = f"{name} is not declared any more" if intrin is None else match(state, st, position, intrin)
    return why if isinstance(why, str) else None


def match(state: ScheduleState, stage: StageState, position: int, intrin: TensorIntrin) -> Match | str:
    """The match of the loops from ``position`` inwards with an intrinsic, or why there is none."""
    b = bounds_of(state)[stage.name]
    op, pattern = stage.compute, intrin.op
    # loops of one iteration stand in nobody's way
    inner = [iv for iv in stage.leaves[position:] if const_int(b.loops[iv]) != 1]
    why = _in_the_way(state, stage, position, inner)
    if why:
        return why
    axes = [a for a in (*pattern.axis, *pattern.reduce_axis) if const_int(a.extent) != 1]
    data, reduced = [iv for iv in inner if iv.kind != REDUCE], [iv for iv in inner if iv.kind == REDUCE]
    wanted = [a for a in axes if a.kind != REDUCE], [a for a in axes if a.kind == REDUCE]
    for mine, theirs, word in ((data, wanted[0], "data"), (reduced, wanted[1], "reduction")):
        if [const_int(b.loops[iv]) for iv in mine] != [const_int(a.extent) for a in theirs]:
            return (
                f"its {word} loops run {' x '.join(str(b.loops[iv]) for iv in mine) or 'not at all'}, "
                f"those of {intrin.name} {' x '.join(str(a.extent) for a in theirs) or 'not at all'}"
            )
    own = frozenset(iv.var for iv in inner)
    # a guard inside would need the intrinsic for some elements only
    if any(variables(g) & own for g in bounds_of(state).guards(stage)):
        return "the tiles do not divide the extents: an intrinsic has no tails"
    pairs = [*zip(data, wanted[0], strict=True), *zip(reduced, wanted[1], strict=True)]
    loop_of: dict[Var, Expr] = {a.var: iv.var for iv, a in pairs}
    for a in (*pattern.axis, *pattern.reduce_axis):
        loop_of.setdefault(a.var, make.const(0, a.dtype))
    sides = _element(stage.name, op, intrin)
    if isinstance(sides, str):
        return sides
    mine_e, theirs_e = sides
    found: dict[Tensor, Operand] = {}
    why = _same(substitute(mine_e, b.value), substitute(theirs_e, loop_of), own, found)
    if why:
        return why
    corner = _split(tuple(b.value[a.var] for a in op.axis), tuple(loop_of[a.var] for a in pattern.axis), own)
    if corner is None:
        return f"{stage.name} does not write a box in the order of {intrin.name}"
    output = Operand(op.outputs[0], *corner)
    outer_reduce = any(iv.kind == REDUCE and const_int(b.loops[iv]) != 1 for iv in stage.leaves[:position])
    return Match(tuple(found[t] for t in intrin.inputs), output, outer_reduce)


def _in_the_way(
    state: ScheduleState, stage: StageState, position: int, inner: Sequence[IterVar]
) -> str | None:
    """Why the loops from ``position`` inwards cannot become one call: they run otherwise than one after the
    other, or hold other stages."""
    for iv in inner:
        if stage.kind(iv) != "serial":
            return f"loop {stage.name}.{iv.name} is {stage.kind(iv)}"
    if any(
        position <= p
        for st in state.attached(stage.name)
        for p, iv in enumerate(stage.leaves)
        if iv.name == getattr(st.attach, "loop", None)
    ):
        return f"other stages are computed inside {stage.name}.{stage.leaves[position].name}"
    return None


def _element(name: str, op: ComputeOp, intrin: TensorIntrin) -> tuple[Expr, Expr] | str:
    """What an element of each is, without the reduction around it, or why the reductions differ."""
    first, theirs_body = op.body[0], intrin.op.body[0]
    if isinstance(first, Reduce) != isinstance(theirs_body, Reduce):
        return f"one of {name} and {intrin.name} is a reduction, the other is not"
    mine_e, theirs_e = first, theirs_body
    if isinstance(first, Reduce) and isinstance(theirs_body, Reduce):
        if (
            first.reducer is not theirs_body.reducer
            or first.condition is not None
            or first.init is not None
            or len(first.sources) != 1
        ):
            return f"{name} reduces with {first.reducer.name}, {intrin.name} with {theirs_body.reducer.name}"
        mine_e, theirs_e = first.sources[0], theirs_body.sources[0]
    return mine_e, theirs_e


def _same(mine: Expr, theirs: Expr, own: frozenset[Var], found: dict[Tensor, Operand]) -> str | None:
    if isinstance(theirs, TensorRead):
        if not isinstance(mine, TensorRead) or mine.dtype is not theirs.dtype:
            return f"`{mine}` is not an element of a {theirs.dtype} tensor, as `{theirs}` is"
        where = _split(mine.indices, theirs.indices, own)
        if where is None:
            return f"`{mine}` is not a box read in the order of `{theirs}`"
        operand = Operand(mine.tensor, *where)
        old = found.setdefault(theirs.tensor, operand)
        # one operand of the intrinsic may stand twice in its declaration, and is one pointer
        if old != operand and (
            old.tensor is not operand.tensor
            or old.dims != operand.dims
            or any(a is not b for a, b in zip(old.corner, operand.corner, strict=True))
        ):
            return f"`{theirs.tensor.name}` would be two different boxes"
        return None
    if (
        type(mine) is not type(theirs)
        or mine.dtype is not theirs.dtype
        or len(mine.children()) != len(theirs.children())
    ):
        return f"`{mine}` is not of the form of `{theirs}`"
    if isinstance(mine, Const):
        return None if mine is theirs else f"`{mine}` is not `{theirs}`"
    if isinstance(mine, Cast) or mine.children():
        if getattr(mine, "name", None) != getattr(theirs, "name", None):
            return f"`{mine}` is not of the form of `{theirs}`"
        for a, b in zip(mine.children(), theirs.children(), strict=True):
            why = _same(a, b, own, found)
            if why:
                return why
        return None
    return None if mine is theirs else f"`{mine}` is not `{theirs}`"


def _split(
    mine: tuple[Expr, ...], theirs: tuple[Expr, ...], own: frozenset[Var]
) -> tuple[tuple[Expr, ...], tuple[int, ...]] | None:
    """(corner, dims) when some dimensions of ``mine``, in order, move as ``theirs`` do and the others stand
    still."""
    # the corner is where all loops of the intrinsic begin
    zero: dict[Var, Expr] = {v: make.const(0, v.dtype) for v in own}
    moving = [d for d, i in enumerate(mine) if variables(i) & own]
    pattern = [d for d, i in enumerate(theirs) if variables(i) & own]
    if len(moving) != len(pattern) or len(mine) < len(theirs):
        return None
    dims: list[int] = []
    at = 0
    for d in range(len(theirs)):
        if d in pattern:
            dims.append(moving[at])
            at += 1
        else:
            # a dimension of one element: any that stands still will do, by convention the one before the next
            # moving
            dims.append(-1)
    still = [d for d in range(len(mine)) if d not in moving]
    for p in range(len(dims)):
        if dims[p] == -1:
            if not still:
                return None
            dims[p] = still.pop()
    corner = tuple(substitute(i, zero) for i in mine)
    for d, i in enumerate(theirs):
        if d in pattern and make.sub(make.sub(mine[dims[d]], corner[dims[d]]), i) is not make.const(
            0, i.dtype
        ):
            return None
    return corner, tuple(dims)
