"""Where a program of many heavy reductions is cut: groups of stages, each around one reduction or around
those that the default schedule computes in one nest. Knows rules and schedules; nothing of tasks, search or
measurement.

Every heavy reduction begins a group. What follows it element by element, and the statistics taken of it (the
sums of a softmax, of a norm), belong to it; what only moves elements about on their way to one reduction
(padding, a transposition, heads) belongs to that. Of two groups the later one takes what needs both. What is
left, such as a norm of the input that several products read, is a group by itself.

Cut finely, a program of one heavy reduction has pieces too: the statistics taken of it, and whatever reads it
elsewhere than at its own place, are a group of their own, its tail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import constant, operations, reads_of

from .rules.rule import iterations
from .rules.tiling import PACKED, at_own_place

LIGHT = 0.01  # of all iterations: a reduction with less is not worth a task
TOGETHER = 2  # heavy reductions that are searched in one task, unless cut finely


def heavy(s: tl.Schedule) -> list[str]:
    """The reductions of a fresh schedule that read elements again for other results and that a share of the
    work is in, producers first."""
    reductions = [
        st
        for st in s.stages
        if isinstance(st.op, te.ComputeOp) and not st.state.is_opaque and st.op.reduce_axis
    ]
    total = sum(iterations(st) for st in reductions)
    return [st.name for st in reductions if iterations(st) >= max(PACKED, LIGHT * total) and _reads_again(st)]


def _reads_again(stage: tl.Stage) -> bool:
    return any(
        a.var not in used
        for used in reads_of(stage.op).everywhere
        for a in stage.op.axis
        if constant(a.extent) != 1
    )


def groups(s: tl.Schedule, default: Callable[[], tl.Schedule], finely: bool = False) -> list[list[str]]:
    """The stages of a fresh schedule by groups, each in order, producers first; one group when there is
    nothing to cut: a program of few heavy reductions, unless it is cut ``finely``, or one with a scan or an
    extern in it. ``default`` makes the default schedule of the same computation."""
    stages = [st.name for st in s.stages if not st.state.is_placeholder]
    anchors = heavy(s)
    if len(anchors) <= (0 if finely else TOGETHER) or any(
        s[name].state.is_opaque or s[name].state.shares for name in stages
    ):
        return [stages]
    of = _assigned(s, stages, anchors, finely)
    _join_nests(of, default())
    _join_strays(s, of, anchors, finely)
    found: dict[str, list[str]] = {}
    for name in stages:
        found.setdefault(of[name], []).append(name)
    return list(found.values())


def _assigned(s: tl.Schedule, stages: Sequence[str], anchors: Sequence[str], finely: bool) -> dict[str, str]:
    """The group of each stage, named by the reduction or the stage that began it."""
    ahead = _ahead(s, stages, set(anchors))
    begun = {name: i for i, name in enumerate(stages)}
    of: dict[str, str] = {name: name for name in anchors}
    tails: dict[str, str] = {}  # of a group, and of a tail itself
    for name in stages:
        if name in of:
            continue
        stage = s[name]
        before = [p for p in dict.fromkeys(s.state.of(t).name for t in stage.op.input_tensors) if p in of]
        beside = any(at_own_place(stage, s[p]) for p in before)
        follows = bool(stage.op.reduce_axis) or beside
        if not follows and len(ahead[name]) == 1 and "" not in ahead[name]:
            (of[name],) = ahead[name]
        else:
            of[name] = max((of[p] for p in before), key=begun.__getitem__, default=name)
            if finely and before and (stage.op.reduce_axis or not beside):
                of[name] = tails.setdefault(of[name], name)
                tails[of[name]] = of[name]
    return of


def _ahead(s: tl.Schedule, stages: Sequence[str], anchors: set[str]) -> dict[str, set[str]]:
    """The heavy reductions that a stage's elements come to by way of elementwise stages; "" for whatever else
    they come to."""
    result: dict[str, set[str]] = {}
    for name in reversed(stages):
        mine: set[str] = {""} if s[name].state.is_output else set()
        for r in s.state.readers(name):
            mine |= {r.name} if r.name in anchors else {""} if r.compute.reduce_axis else result[r.name]
        result[name] = mine
    return result


def _join_nests(of: dict[str, str], default: tl.Schedule) -> None:
    """Groups that the default schedule computes in one nest become one."""
    for st in default.stages:
        place, host = st.state.attach, st.name
        while place is not None and not isinstance(place, str):
            host, place = place.stage, default[place.stage].state.attach
        if st.name in of and host in of and of[st.name] != of[host]:
            former, new = of[st.name], of[host]
            of.update({name: new for name, group in of.items() if group == former})


def _join_strays(s: tl.Schedule, of: dict[str, str], anchors: Sequence[str], finely: bool) -> None:
    """A group without a heavy reduction (cut finely, without any) that one group alone reads belongs to that
    one; one that computes nothing, to what it reads."""
    order = list(of)
    for group in reversed(list(dict.fromkeys(of.values()))):
        members = [name for name in of if of[name] == group]
        if any(name in anchors or (finely and s[name].op.reduce_axis) for name in members):
            continue
        if finely and not any(operations(s[name].op.body) for name in members):
            read = [s.state.of(t).name for name in members for t in s[name].op.input_tensors]
            last = max((name for name in read if of.get(name, group) != group), key=order.index, default="")
            of.update(dict.fromkeys(members, of[last]) if last else {})
            continue
        if any(s[name].state.is_output for name in members):
            continue
        readers = {of[r.name] for name in members for r in s.state.readers(name)} - {group}
        if len(readers) == 1:
            (reader,) = readers
            of.update(dict.fromkeys(members, reader))
