"""The nodes of the schedule tree and how they are derived from a state. Knows the state; no bounds, no
text."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.recursion import Steps, run
from ...te.axis import IterVar
from ..state import At, ScheduleState, StageState


@dataclass(frozen=True, slots=True, eq=False)
class ComputeNode:
    """The body of a stage: one element per iteration."""

    stage: StageState


@dataclass(frozen=True, slots=True, eq=False)
class StorageNode:
    """The memory of a stage that is neither argument nor output; lives until the end of the enclosing
    node."""

    stage: StageState


@dataclass(frozen=True, slots=True, eq=False)
class LoopNode:
    """A loop of a stage; ``children`` run in order at each iteration."""

    stage: StageState
    loop: IterVar
    children: tuple[TreeNode, ...]


TreeNode = ComputeNode | StorageNode | LoopNode


def _stage_nodes(
    state: ScheduleState, stage: StageState, made: dict[At, list[TreeNode]]
) -> Steps[tuple[TreeNode, ...]]:
    """The nest of one stage with everything computed inside it; storage first when it needs some."""
    inside: dict[str, list[StageState]] = {}
    for st in state.attached(stage.name):
        assert isinstance(st.attach, At)
        inside.setdefault(st.attach.loop, []).append(st)
    # what a scan does, its update does
    nodes: tuple[TreeNode, ...] = () if stage.is_scan else (ComputeNode(stage),)
    for iv in reversed(stage.leaves):
        producers: list[TreeNode] = []
        for st in inside.get(iv.name, ()):
            producers += yield _stage_nodes(state, st, made)
        nodes = (LoopNode(stage, iv, (*made.get(At(stage.name, iv.name), ()), *producers, *nodes)),)
    return (
        nodes
        if stage.is_output or stage.store is not None or stage.shares or stage.filled_by_others
        else (StorageNode(stage), *nodes)
    )


def tree_of(state: ScheduleState) -> tuple[TreeNode, ...]:
    """The children of the root: every stage at root with its nest, producers first."""
    nodes: list[TreeNode] = []
    made: dict[At, list[TreeNode]] = {}
    for st in state.stages:
        if st.store is not None:
            made.setdefault(st.store, []).append(StorageNode(st))
    stored: dict[str, None] = {}
    for st in state.stages:
        if st.attach is not None or st.is_placeholder:
            continue
        for whole in [state.of(t) for t in st.shares] + (
            [st] if st.filled_by_others and not st.shares else []
        ):
            # it is there before its first rows are written
            if not whole.is_output and not whole.is_placeholder and whole.name not in stored:
                stored[whole.name] = None
                nodes.append(StorageNode(whole))
        nodes.extend(run(_stage_nodes(state, st, made)))
    return tuple(nodes)
