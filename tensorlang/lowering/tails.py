"""What ``split(tail=…)`` asks of the loops, once all is known: refused here when it cannot be had, else a
note on the outer loop for the passes (``guard``, ``mask``: one body, its test stays; ``peel``: the last
iterations are a loop of their own).

``shift`` is in the relation itself (``schedule.state.Split.values``): the last tile begins earlier and
computes some elements again. ``zeros`` has no test at all (``schedule.bounds``): beyond the end of a sum of
products one factor is the zeros that a padded layout holds. Knows stages and their relations, not what
lowering writes.
"""

from __future__ import annotations

from ..arith.conditions import conjuncts
from ..arith.facts import Facts
from ..errors import LowerError
from ..expr import make
from ..expr.nodes import Cast, Expr, IfThenElse, Mul, Var, const_int
from ..expr.walk import substitute
from ..schedule.bounds import Bounds
from ..schedule.relations import Split
from ..schedule.state import StageState
from ..te.axis import REDUCE, IterVar
from ..te.reducers import Reduce
from ..te.tensor import ComputeOp, TensorRead
from .lanes import in_range


def check_tails(stage: StageState, bounds: Bounds) -> None:
    """Raises LowerError for a tail that the loops of the stage, as they are now, do not allow."""
    for rel in stage.relations:
        if isinstance(rel, Split) and rel.tail == "mask":
            _check_mask(stage, rel)
        elif isinstance(rel, Split) and rel.tail == "shift":
            _check_shift(stage, rel)
        elif isinstance(rel, Split) and rel.tail == "zeros":
            _check_zeros(stage, rel, bounds)


def tail_note(stage: StageState, loop: IterVar) -> tuple[tuple[str, str], ...]:
    """The note for a loop that is the outer half of a split."""
    tails = [r.tail for r in stage.relations if isinstance(r, Split) and r.outer is loop]
    return tuple(("tail", t) for t in tails if t in ("guard", "mask", "peel"))


def _check_mask(stage: StageState, rel: Split) -> None:
    if not any(stage.kind(iv) == "vectorized" for iv in _made_of(stage, rel.inner)):
        raise LowerError(
            f"{stage.name}.{rel.parent.name} is split with tail='mask', but no loop of {rel.inner.name} is a "
            "vector",
            because="a mask is made of the lanes of a vector",
            try_=f"vectorize {rel.inner.name}, or tail='guard'",
        )


def _counts_once(stage: StageState) -> bool:
    """Whether what a reduction takes twice counts as once, as in the least of all."""
    once = ("min", "max", "and", "or")
    return all(isinstance(e, Reduce) and e.reducer.kind in once for e in stage.compute.body)


def _check_shift(stage: StageState, rel: Split) -> None:
    what = f"{stage.name}.{rel.parent.name} is split with tail='shift'"
    why = "the last tile begins earlier, so some elements are computed twice"
    once = type(stage.op) is ComputeOp and _counts_once(stage)
    if rel.parent.kind == REDUCE and not once:
        raise LowerError(what, because=f"{why}; in a reduction they would count twice", try_="tail='guard'")
    if type(stage.op) is not ComputeOp or stage.tensorized is not None:
        raise LowerError(
            what,
            because=f"{why}; a scan, an extern and an intrinsic are not free to do that",
            try_="tail='guard'",
        )
    outer = _made_of(stage, rel.outer)
    last = max(p for p, iv in enumerate(stage.leaves) if iv in outer)
    for iv in stage.leaves[:last]:
        if iv.kind == REDUCE and not once:
            raise LowerError(
                what,
                because=f"{why}; inside the reduction loop {iv.name} their sums would grow twice",
                try_=f"reorder {iv.name} inside {rel.outer.name}",
            )
    if stage.first_init() <= last and stage.compute.reduce_axis and not once:
        raise LowerError(
            what,
            because=f"{why}; their sums would grow twice from initial values written once, outside "
            f"{rel.outer.name}",
            try_=f"decompose_reduction at a loop inside {rel.outer.name}, or tail='guard'",
        )
    # of one tile the elements are apart; those of several tiles, where those are inside, are not
    apart = [iv for iv in _made_of(stage, rel.inner) if stage.kind(iv) == "parallel"]
    for iv in [*outer, *(iv for iv in apart if stage.leaves.index(iv) < last)]:
        if stage.kind(iv) in ("parallel", "vectorized"):
            raise LowerError(
                what,
                because=f"{why}; with {iv.name} {stage.kind(iv)} they would be written at the same time",
                try_=f"tail='peel', or another loop than {iv.name}",
            )


def _check_zeros(stage: StageState, rel: Split, bounds: Bounds) -> None:
    known = bounds[stage.name]
    at, end = known.counts[rel.parent], known.loops[rel.parent]
    if rel.parent.kind == REDUCE and bounds.facts.prove(make.lt(at, end)) is True:
        return  # whole tiles
    sums = stage.compute.body[0]
    facts = bounds.known_at(stage.attach)
    for g in bounds.guards(stage):
        facts = facts.assume(g)
    if (
        rel.parent.kind != REDUCE
        or not isinstance(sums, Reduce)
        or sums.reducer.kind != "add"
        or len(sums.sources) != 1
        or sums.condition is not None
    ):
        why = "only a sum may go on behind its end, where what it adds is zero"
    elif not _is_zero(sums.sources[0], facts.assume(make.ge(at, end)), bounds, known.value):
        why = f"nothing says that what is added behind the end of {rel.parent.name} is zero: no factor, of \
whole numbers, is read from the padding of a transformed layout"
    elif not all(
        in_range(substitute(read, known.value), facts, bounds)  # type: ignore[arg-type]
        for read in stage.compute.reads
    ):
        why = f"behind the end of {rel.parent.name} it would read beyond a tensor"
    else:
        return
    raise LowerError(
        f"{stage.name}.{rel.parent.name} is split with tail='zeros'",
        because=why,
        try_="cache_read of both factors, with transform_layout that cuts the axis as this split does",
    )


def _is_zero(e: Expr, facts: Facts, bounds: Bounds, value: dict[Var, Expr]) -> bool:
    """Whether a product of whole numbers is zero by what is known, since a factor lies in padding."""
    if e.dtype.is_float:  # zero times infinity is no number
        return False
    if type(e) is Cast:
        return _is_zero(e.a, facts, bounds, value)
    if type(e) is Mul:
        return any(_is_zero(x, facts, bounds, value) for x in (e.a, e.b))
    if type(e) is not TensorRead:
        return False
    made = bounds.state.of(e.tensor)
    # what is made of constants is an input here, whose tensor knows how it was computed
    op = e.tensor.op if made.is_placeholder else made.op
    body = op.body[e.tensor.value_index] if isinstance(op, ComputeOp) else None
    if not isinstance(op, ComputeOp) or type(body) is not IfThenElse or const_int(body.b) != 0:
        return False
    place = {a.var: substitute(i, value) for a, i in zip(op.axis, e.indices, strict=True)}
    return any(facts.prove(substitute(c, place)) is False for c in conjuncts(body.cond))


def _made_of(stage: StageState, loop: IterVar) -> dict[IterVar, None]:
    """The innermost loops that ``loop`` became by later splits and fuses."""
    found: dict[IterVar, None] = {loop: None}
    for rel in stage.relations:
        # relations are in the order of their making, so one pass finds all descendants
        if any(p in found for p in rel.parents):
            found.update(dict.fromkeys(rel.children))
    return {iv: None for iv in stage.leaves if iv in found}
