"""Where a stage may be computed: inside a loop that encloses every one of its readers. Knows the state; calls
nothing that users call.

Calls come in any order: a place that encloses not all readers yet, while each of them could still be moved
there, is kept as the stage's pending placement, and the stage stays at root until that is legal (``settle``).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from ...expr.walk import preorder
from ...te.reducers import Reduce
from ...te.tensor import ComputeOp, TensorRead
from ..links import changed, reads
from ..state import INLINED, At, Pending, ScheduleState, StageState, change
from .cache_stages import instead_of_output
from .verdict import YES, Verdict, refuse


def chain(state: ScheduleState, stage: StageState) -> Iterator[tuple[StageState, int]]:
    """The places around a stage, innermost first: (stage, position of the last enclosing loop)."""
    place = stage.attach
    while isinstance(place, At):
        outer = state.stage(place.stage)
        yield outer, next(p for p, iv in enumerate(outer.leaves) if iv.name == place.loop)
        place = outer.attach


def encloses(state: ScheduleState, target: StageState, position: int, reader: StageState) -> bool:
    """Whether ``reader`` runs inside loop number ``position`` of ``target``."""
    if reader.name == target.name:
        return True
    return any(outer.name == target.name and p >= position for outer, p in chain(state, reader))


def stays_outside(state: ScheduleState, readers: list[StageState], target: StageState) -> StageState | None:
    """A stage that no call can bring into the loops of ``target``, among these readers and what reads
    them; None when all could be moved or inlined there: every way from them to an output leads through
    ``target``."""
    todo, seen = list(readers), {target.name}
    while todo:
        st = todo.pop()
        if st.name in seen:
            continue
        seen.add(st.name)
        after = state.readers(st.name)
        # none of these can be moved into a loop
        if st.is_output or st.is_opaque or not after or (st.shares and st.within is None):
            return st
        todo += after
    return None


def place_verdict(
    state: ScheduleState, stage: StageState, target: StageState, loop: str, hope: bool = False
) -> Verdict:
    """Whether ``stage`` may be computed at that loop of ``target``; with ``hope`` a refusal says whether
    later calls could make it legal."""
    mark = (target.name, loop)
    # `legal` is a function in what follows: verdicts are asked for far more often than their texts are read
    verdict = _may_move(state, stage, mark)
    if not verdict:
        return verdict
    if target.attach == INLINED or target.is_placeholder or (not target.leaves and target.is_opaque):
        why = "is inlined" if target.attach == INLINED else "is an argument"
        return refuse(f"`{target.name}` {why} and has no loops", legal=lambda: legal_text(state, stage))
    if target.name == stage.name:
        return refuse(
            f"`{stage.name}` cannot be computed inside itself",
            mark=mark,
            legal=lambda: legal_text(state, stage),
        )
    position = next((p for p, iv in enumerate(target.leaves) if iv.name == loop), None)
    if position is None:
        leaves = ", ".join(iv.name for iv in target.leaves)
        gone = f"`{loop}` is no longer a loop of `{target.name}`"
        return refuse(
            gone if target.loop(loop) is not None else f"`{target.name}` has no loop `{loop}`",
            mark=(target.name, None),
            legal=f"the loops of {target.name}: {leaves}",
        )
    if stage.is_opaque:
        return refuse(f"`{stage.name}` is {stage.what.partition(':')[0]}: it runs whole, at root", mark=mark)
    if stage.shares and stage.within is None:
        return refuse(
            f"`{stage.name}` writes the first rows of the scan `{stage.shares[0].name}`, once, before it "
            "runs",
            mark=mark,
        )
    readers = state.readers(stage.name)
    if not readers:
        return refuse(f"nothing reads `{stage.name}`", mark=mark)
    # the one rule: whoever reads it must run inside the loop, since outside only the last iteration's part is
    # left
    outside = [r for r in readers if not encloses(state, target, position, r)]
    if not outside:
        if position < target.first_init() or not _begins_with(state, target, stage):
            return YES
        return refuse(
            f"the initial values of `{target.name}` read `{stage.name}`, before loop {target.name}.{loop}",
            mark=mark,
            legal=lambda: legal_text(state, stage),
            try_=f"a loop of {target.name} outside of those it reduces",
        )
    names = ", ".join(f"`{r.name}`" for r in outside)
    also = " also" if len(readers) > len(outside) else ""
    reads, runs = ("reads", "runs") if len(outside) == 1 else ("read", "run")
    why = f"{names}{also} {reads} `{stage.name}` and {runs} outside loop {target.name}.{loop}"
    # each of them may still be moved in or inlined, in any order of calls, as in TVM
    if hope and stays_outside(state, outside, target) is None:
        return refuse(why, mark=mark, try_=_enter(outside[0], target, loop), pending=True)
    return refuse(
        why,
        mark=mark,
        legal=lambda: legal_text(state, stage),
        try_=_instead(stage, target, readers, outside[0]),
    )


def _begins_with(state: ScheduleState, reader: StageState, stage: StageState) -> bool:
    """Whether initial values of a reduction read a stage."""
    first = reader.op.body[0] if isinstance(reader.op, ComputeOp) else None
    init = (first.init or ()) if isinstance(first, Reduce) else ()
    return any(
        isinstance(e, TensorRead) and state.of(e.tensor).name == stage.name for i in init for e in preorder(i)
    )


def _may_move(state: ScheduleState, stage: StageState, mark: tuple[str, str]) -> Verdict:
    """Whether a stage may be computed at any loop at all."""
    if stage.is_placeholder:
        return refuse(
            f"`{stage.name}` is an argument: it is not computed",
            mark=mark,
            try_=f"s.cache_read({stage.name}, 'local', [reader]) and compute_at of that",
        )
    if stage.is_output:
        return refuse(
            f"`{stage.name}` is an output: the caller wants all of it",
            mark=mark,
            try_=instead_of_output(
                state, stage.name, then=f"and compute_at of that at a loop of {stage.name}"
            ),
        )
    if stage.attach == INLINED:
        return refuse(f"`{stage.name}` is inlined: it is computed nowhere", mark=mark)
    return YES


def _instead(
    stage: StageState, target: StageState, readers: tuple[StageState, ...], outside: StageState
) -> str:
    if target in readers:
        return (
            f"s[{stage.name}].compute_inline(), or keep {stage.name} where it is and "
            f"s.cache_read({stage.name}, 'local', [{target.name}]) there"
        )
    if not outside.is_output:
        return f"move {outside.name} there first: s[{outside.name}].compute_at(s[{target.name}], …)"
    return f"a loop of {'its reader' if len(readers) == 1 else 'a stage around its readers'}"


def _enter(reader: StageState, target: StageState, loop: str) -> str:
    inline = "" if reader.compute.reduce_axis or reader.shares else f" or s[{reader.name}].compute_inline()"
    return (
        f"s[{reader.name}].compute_at(s[{target.name}], {loop}), or a loop inside "
        f"it{',' if inline else ''}{inline}"
    )


def legal_places(state: ScheduleState, stage: StageState, in_vectors: bool = True) -> list[tuple[str, str]]:
    """Every (stage, loop) where ``stage`` may be computed, besides root; those inside vector loops, where
    it is computed for all lanes at once, come last, if at all."""
    found: list[tuple[str, str]] = []
    # behind the others: numbers of places that a trace holds stay what they were when a loop is vectorized
    lanes: list[tuple[str, str]] = []
    for target in state.stages:
        if target.is_placeholder or target.attach == INLINED:
            continue
        wide = in_lanes(state, target)
        for iv in target.leaves:
            wide = wide or target.kind(iv) == "vectorized"
            if place_verdict(state, stage, target, iv.name):
                (lanes if wide else found).append((target.name, iv.name))
    return found + lanes if in_vectors else found


def in_lanes(state: ScheduleState, stage: StageState) -> bool:
    """Whether a stage is computed inside a vector loop of another."""
    around = [outer.kind(iv) for outer, p in chain(state, stage) for iv in outer.leaves[: p + 1]]
    return "vectorized" in around


def pending_places(state: ScheduleState, stage: StageState) -> list[tuple[str, str, str]]:
    """Every (stage, loop) that later calls could make legal, with what stands against it now."""
    result = []
    for target in state.stages:
        for iv in target.leaves if not target.is_placeholder and target.attach != INLINED else ():
            verdict = place_verdict(state, stage, target, iv.name, hope=True)
            if verdict.pending:
                result.append((target.name, iv.name, verdict.reason))
    return result


def legal_text(state: ScheduleState, stage: StageState) -> str:
    """The legal places as a person reads them."""
    # a part of a scan reads its state, which is there in its loop alone
    places = [*([] if stage.within else ["root"]), *[f"{s}.{loop}" for s, loop in legal_places(state, stage)]]
    return ", ".join(places[:12]) + (f", … ({len(places) - 12} more)" if len(places) > 12 else "")


_AT_ONCE = {"parallel": "parallel: its threads", "vectorized": "vectorized: its lanes"}


def store_verdict(state: ScheduleState, stage: StageState, place: At) -> Verdict:
    """Whether the memory of an attached stage may be made at ``place``: a loop around the one it is computed
    at, with no parallel or vector loop between, whose iterations would share it."""
    mark = (place.stage, place.loop)
    if not isinstance(stage.attach, At):
        return refuse(
            f"`{stage.name}` is computed at root, and its memory is made there",
            mark=mark,
            try_=lambda: _computed_within(state, stage, place),
        )
    between: tuple[str, str, str] | None = None
    for outer, p in chain(state, stage):
        for q in range(p, -1, -1):
            iv = outer.leaves[q]
            if outer.name == place.stage and iv.name == place.loop:
                if between is None:
                    return YES
                name, loop, kind = between
                return refuse(
                    f"loop {name}.{loop} between storage and computation is {_AT_ONCE[kind]} would share the "
                    "memory",
                    mark=mark,
                    try_=f"s[{stage.name}].store_at(s[{name}], {loop}), or another loop that is {kind}",
                )
            if outer.kind(iv) in _AT_ONCE:
                # the innermost is named: it is the one that a user can move
                between = between or (outer.name, iv.name, outer.kind(iv))
    return refuse(
        f"loop {place.stage}.{place.loop} is not around the place where `{stage.name}` is computed",
        mark=mark,
        legal=lambda: ", ".join(
            f"{o.name}.{iv.name}" for o, p in chain(state, stage) for iv in reversed(o.leaves[: p + 1])
        ),
        try_=lambda: _computed_within(state, stage, place),
    )


def _computed_within(state: ScheduleState, stage: StageState, place: At) -> str:
    """What makes room for memory at ``place``: the stage computed there, or at a loop inside of it."""
    if stage.is_output:
        then = f"and compute_at and store_at of that at loops of {stage.name}"
        return instead_of_output(state, stage.name, then=then)
    target = state.stage(place.stage)
    position = next((p for p, iv in enumerate(target.leaves) if iv.name == place.loop), 0)
    places = legal_places(state, stage)
    inside = [iv.name for iv in target.leaves[position:] if (target.name, iv.name) in places]
    if inside:
        return f"s[{stage.name}].compute_at(s[{target.name}], {inside[-1]}) first"
    others = ", ".join(f"{name}.{loop}" for name, loop in places[:12])
    return f"compute_at and store_at of it at {others}" if others else ""


def _shaken(state: ScheduleState, before: ScheduleState) -> dict[str, None]:
    """The attached stages, and those that wait, whose legality a change may have touched: they changed, run
    or are to run inside loops of such a stage, or are read there."""
    fresh = changed(before, state)
    within: dict[str, None] = dict.fromkeys([st.name for st in fresh])
    todo = list(within)
    for name in todo:  # grows on the way
        inside = [n for n in state.links.attached.get(name, ()) if n not in within]
        within.update(dict.fromkeys(inside))
        todo += inside
    found = dict(within)
    for name in within:
        found.update(dict.fromkeys(reads(state, state.stage(name))))
    for st in fresh:
        if st.name in before.position:
            found.update(dict.fromkeys(reads(before, before.stage(st.name))))
    waits = state.links.pending
    found.update(
        dict.fromkeys(
            [n for n in waits if (w := state.stage(n).pending) is not None and w.place.stage in within]
        )
    )
    return {n: None for n in found if state.stage(n).host is not None or state.stage(n).pending is not None}


def pending_verdict(state: ScheduleState, stage: StageState) -> Verdict:
    """Why a stage that waits is not at its place yet, and which call would help."""
    assert stage.pending is not None
    place = stage.pending.place
    return place_verdict(state, stage, state.stage(place.stage), place.loop, hope=True)


def settle(
    state: ScheduleState, before: ScheduleState
) -> tuple[ScheduleState, tuple[StageState, Verdict] | None]:
    """Every pending placement that is legal now made, and every stage whose place is not legal any more made
    to wait for it; in ``before``, which ``state`` came from, neither was to be done. Readers come first: what
    they read may follow them. With it the first stage at a place that no later call could make legal, if
    there is one."""
    bad: tuple[StageState, Verdict] | None = None
    # consumers first: where a stage may be depends on where its readers are
    todo = [(-state.position[name], name) for name in _shaken(state, before)]
    heapify(todo)
    last = ""
    while todo:
        p, name = heappop(todo)
        # it may have been put in the queue several times
        if name == last:
            continue
        last, st = name, state.stage(name)
        moved = _settled(state, st)
        if moved is not st:
            was, state = state, state.with_stage(moved)
            for name in _shaken(state, was):
                # only producers that come later in this order: those before are settled
                if state.position[name] < -p:
                    heappush(todo, (-state.position[name], name))
        if moved.pending is None:
            assert isinstance(moved.attach, At)
            verdict = place_verdict(state, moved, state.stage(moved.attach.stage), moved.attach.loop)
            if verdict and moved.store is not None:
                verdict = store_verdict(state, moved, moved.store)
        else:
            verdict = pending_verdict(state, moved)
        if not verdict and not verdict.pending:
            bad = moved, verdict
    return state, bad


def _settled(state: ScheduleState, st: StageState) -> StageState:
    """An attached or pending stage, put where it is to be if that is legal, else to its start if it may
    be one day."""
    if st.pending is not None:
        return (
            change(st, attach=st.pending.place, store=st.pending.store, pending=None)
            if pending_verdict(state, st)
            else st
        )
    assert isinstance(st.attach, At)
    if place_verdict(state, st, state.stage(st.attach.stage), st.attach.loop, hope=True).pending:
        return change(st, attach=start_of(state, st), store=None, pending=Pending(st.attach, st.store))
    return st


def start_of(state: ScheduleState, stage: StageState) -> At | None:
    """Where a stage is computed when nobody has said anything: at root, or in the loop of the scan it is part
    of."""
    return None if stage.within is None else At(stage.within, state.stage(stage.within).leaves[-1].name)
