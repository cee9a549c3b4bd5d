"""Computed tensors that the caller names among the arguments although the schedule was not made for them:
they are written out whole.

A stage at the root, or one whose parts together are all of its tensor, writes into the caller's array where
it is computed. An inlined stage gets plain loops of its own: what is named is always written. Knows schedule
states and bounds; no loop IR.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from ..arith.facts import Facts
from ..core.recursion import Steps, run
from ..errors import LowerError
from ..expr import make
from ..expr.linear import poly
from ..expr.nodes import Expr, Var, const_int
from ..expr.walk import preorder, rewrite, substitute
from ..schedule.bounds import bounds_of
from ..schedule.state import INLINED, At, ScheduleState, StageState, change
from ..te.axis import IterVar, dims_of
from ..te.tensor import Tensor, TensorRead


def write_out(state: ScheduleState, args: Sequence[Any]) -> ScheduleState:
    """The same computation with every computed tensor among ``args`` an output.

    Raises LowerError for one whose stage does not compute all of it, or leaves it to several threads.
    """
    named: dict[str, Tensor] = {}
    for a in args:
        stage = state.find(a.op) if isinstance(a, Tensor) else None
        if stage is not None and not (stage.is_placeholder or stage.is_output or stage.shares):
            named[stage.name] = a
    for name, tensor in named.items():
        state = _written(state, state.stage(name), tensor)
    return state


def missing_outputs(state: ScheduleState, args: Sequence[Any]) -> list[Tensor]:
    """The outputs of a schedule that are not among ``args``."""
    declared = [
        t for st in state.stages if st.is_output for t in (st.aliases[0] if st.aliases else st.op).outputs
    ]
    return [t for t in declared if not any(t is a for a in args)]


def _written(state: ScheduleState, stage: StageState, tensor: Tensor) -> ScheduleState:
    if stage.attach == INLINED:
        return state.with_stage(_apart(state, stage, tensor))
    if stage.within is not None:
        raise _refused(
            tensor,
            f"it is recomputed at each iteration of the scan `{stage.within}`",
            f"leave {tensor.name} out",
        )
    if stage.in_part:
        raise _refused(tensor, "only the rows that a scan reads of it are there", f"leave {tensor.name} out")
    if isinstance(stage.attach, At):
        place = f"s[{stage.name}].compute_root(), or leave {tensor.name} out"
        if not run(_whole(state, stage)):
            raise _refused(
                tensor,
                f"it is computed in parts, at {stage.attach.stage}.{stage.attach.loop}, and these may leave "
                "some of it out",
                place,
            )
        shared = next(
            (loop for loop in _parallel(state, stage.attach) if not _disjoint(state, stage, loop)), None
        )
        if shared is not None:
            raise _refused(
                tensor,
                f"iterations of the parallel loop {shared.stage}.{shared.loop} may write the same elements",
                place,
            )
    # the caller's array has the declared layout and outlives the call, so what was asked of the workspace
    # goes
    return state.with_stage(change(stage, is_output=True, scope="global", store=None, align={}))


def _refused(tensor: Tensor, because: str, try_: str) -> LowerError:
    return LowerError(f"argument `{tensor.name}` cannot be written out", because=because, try_=try_)


# -- an inlined stage ----------------------------------------------------------------------------------------


def _apart(state: ScheduleState, stage: StageState, tensor: Tensor) -> StageState:
    """The stage as it was before it was inlined, with plain loops at the root."""

    def body(e: Expr) -> Expr | None:
        if type(e) is not TensorRead:
            return None
        made = state.of(e.tensor)
        if made.attach == INLINED:
            value = made.compute.body[e.tensor.value_index]
            return rewrite(
                substitute(value, dict(zip((a.var for a in made.compute.axis), e.indices, strict=True))), body
            )
        if made.attach is not None:
            raise _refused(
                tensor,
                f"it is inlined, and reads `{made.name}`, which is computed in parts",
                f"s[{made.name}].compute_root(), or leave {tensor.name} out",
            )
        return None

    op = stage.compute.redefined(tuple(rewrite(e, body) for e in stage.compute.body))
    return StageState(stage.name, op, (*op.axis, *op.reduce_axis), is_output=True, aliases=stage.aliases)


# -- a stage computed in parts -------------------------------------------------------------------------------


def _whole(state: ScheduleState, stage: StageState) -> Steps[bool]:
    """Whether all of a stage is computed for sure: it stands at the root, or a stage computed whole reads
    every element."""
    if stage.attach is None and not stage.in_part:
        return True
    for reader in state.readers(stage.name):
        if (yield _whole(state, reader)):
            reads = [
                node
                for e in reader.compute.body
                for node in preorder(e)
                if type(node) is TensorRead and node.tensor.op is stage.key
            ]
            if _everywhere(reader, reads) or any(_everywhere(reader, [read]) for read in reads):
                return True
    return False


def _everywhere(reader: StageState, reads: list[TensorRead]) -> bool:
    """Whether the iterations of all axes of ``reader`` together touch every element, when one iteration
    touches the box around ``reads``: then each index is a number whose digits are axes of its own."""
    shape = reads[0].tensor.shape
    facts = Facts(sizes=frozenset(v for v in dims_of(*shape) if v.kind == "dim"))
    axes = {a.var: a for a in (*reader.compute.axis, *reader.compute.reduce_axis)}
    taken: set[Var] = set()
    for d, size in enumerate(shape):
        ends = [_digits(read.indices[d], axes) for read in reads]
        if any(end is None or end[1] != ends[0][1] for end in ends):  # type: ignore[index]
            return False
        digits = ends[0][1]  # type: ignore[index]
        # an axis in two indices: the diagonal of what both reach
        if taken & set(digits):
            return False
        taken |= set(digits)
        low = functools.reduce(make.min_, (end[0] for end in ends))  # type: ignore[index]
        span = make.add(make.sub(functools.reduce(make.max_, (end[0] for end in ends)), low), 1)  # type: ignore[index]
        # from the smallest step on: each must be no larger than what the smaller ones cover, or there are
        # gaps
        for v, c in sorted(digits.items(), key=lambda item: item[1]):
            if c <= 0 or facts.prove(make.le(c, span)) is not True:
                return False
            span = make.add(span, make.mul(make.sub(axes[v].extent, 1), c))
        if (
            facts.prove(make.le(low, 0)) is not True
            or facts.prove(make.ge(make.add(low, span), size)) is not True
        ):
            return False
    return True


def _digits(index: Expr, axes: dict[Var, IterVar]) -> tuple[Expr, dict[Var, int]] | None:
    """The smallest value of an index that is a sum of axes times constants, and those constants; None for any
    other."""
    low, digits = make.const(0, index.dtype), {}
    for mono, c in poly(index).items():
        if len(mono) == 1 and type(mono[0]) is Var and mono[0] in axes:
            digits[mono[0]] = c
            dom = axes[mono[0]].dom
            assert dom is not None
            low = make.add(low, make.mul(dom.min, c))
        elif any(not isinstance(v, Var) or v in axes for v in mono):
            return None
        else:
            low = make.add(low, make.mul(_product(mono, index), c))
    return low, digits


def _product(mono: tuple[Expr, ...], like: Expr) -> Expr:
    out = make.const(1, like.dtype)
    for factor in mono:
        out = make.mul(out, factor)
    return out


def _parallel(state: ScheduleState, place: At | str | None) -> Iterator[At]:
    """The parallel loops around a place."""
    while isinstance(place, At):
        outer = state.stage(place.stage)
        for iv in outer.leaves:
            if outer.kind(iv) == "parallel":
                yield At(outer.name, iv.name)
            if iv.name == place.loop:
                break
        place = outer.attach


def _disjoint(state: ScheduleState, stage: StageState, loop: At) -> bool:
    """Whether no two iterations of a loop write the same element: in some dimension an iteration ends before
    the next one begins."""
    bounds = bounds_of(state)
    boxes = bounds.touched(stage.key, state.readers(stage.name), loop)
    iv = next(iv for iv in state.stage(loop.stage).leaves if iv.name == loop.loop)
    if const_int(bounds[loop.stage].loops[iv]) == 1:
        return True
    after = {iv.var: make.add(iv.var, 1)}
    return any(
        ends is not None and bounds.facts.prove(make.lt(ends[1], substitute(ends[0], after))) is True
        for ends in boxes or ()
    )
