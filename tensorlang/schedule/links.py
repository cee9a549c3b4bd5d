"""Who reads whom, and who is computed in whose loops: tables by name that a state keeps, and that follow a
change without being made anew.

One primitive changes a stage or two. A table made again from all stages at every primitive would make a
schedule of n stages cost n². Knows stages by name and what they read; nothing of loops.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable
from itertools import compress
from operator import is_not
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .state import ScheduleState, StageState

Rows = dict[str, tuple[str, ...]]


class Links:
    """``readers`` and ``attached`` by stage name, in the order of the stages; ``tensorized`` the stages that
    are, ``pending`` those that wait for a place."""

    __slots__ = ("attached", "pending", "readers", "tensorized")

    def __init__(
        self, readers: Rows, attached: Rows, tensorized: tuple[str, ...], pending: tuple[str, ...]
    ) -> None:
        self.readers = readers
        self.attached = attached
        self.tensorized = tensorized
        self.pending = pending

    @staticmethod
    def of(state: ScheduleState) -> Links:
        """The tables of a state whose history is not known."""
        readers: dict[str, list[str]] = {}
        attached: dict[str, list[str]] = {}
        for st in state.stages:
            for name in reads(state, st):
                readers.setdefault(name, []).append(st.name)
            if st.host is not None:
                attached.setdefault(st.host, []).append(st.name)
        return Links(
            {n: tuple(r) for n, r in readers.items()},
            {n: tuple(r) for n, r in attached.items()},
            tuple(st.name for st in state.stages if st.tensorized is not None),
            tuple(st.name for st in state.stages if st.pending is not None),
        )

    def after(self, before: ScheduleState, state: ScheduleState) -> Links:
        """The tables of ``state``, which came from ``before``, whose tables these are."""
        readers, attached, tensorized, pending = self.readers, self.attached, self.tensorized, self.pending
        for new in changed(before, state):
            old = before.stage(new.name) if new.name in before.position else None
            if (
                old is None
                or old.op is not new.op
                or (old.attach != new.attach and reads(before, old) != reads(state, new))
            ):
                readers = _moved(
                    readers, new.name, () if old is None else reads(before, old), reads(state, new), state
                )
            was = None if old is None else old.host
            if was != new.host:
                attached = _moved(
                    attached,
                    new.name,
                    () if was is None else (was,),
                    () if new.host is None else (new.host,),
                    state,
                )
            if (old is not None and old.tensorized is not None) != (new.tensorized is not None):
                tensorized = tuple(st.name for st in state.stages if st.tensorized is not None)
            if (old is not None and old.pending is not None) != (new.pending is not None):
                pending = tuple(st.name for st in state.stages if st.pending is not None)
        return Links(readers, attached, tensorized, pending)


def changed(before: ScheduleState, state: ScheduleState) -> list[StageState]:
    """The stages of ``state`` that are new or not as they were ``before``."""
    known = state.changed_since(before)
    if known is not None:
        return [state.stage(n) for n in sorted(set(known), key=state.position.__getitem__)]
    # the same stages in the same places: compared side by side, by identity
    if before.order is state.order:
        return list(compress(state.stages, map(is_not, state.stages, before.stages)))
    return sorted(set(state.stages).difference(before.stages), key=lambda st: state.position[st.name])


def reads(state: ScheduleState, stage: StageState) -> tuple[str, ...]:
    """The stages that a stage reads, each once; an inlined one is gone from the graph and reads nothing."""
    if stage.is_inlined:
        return ()
    return tuple(dict.fromkeys([state.of(t).name for t in stage.op.input_tensors]))


def _moved(rows: Rows, name: str, out_of: Iterable[str], into: Iterable[str], state: ScheduleState) -> Rows:
    """``rows`` with ``name`` taken out of some and put into others. A row may hold a thousand names: one
    input of as many stages."""
    new, left, entered = dict(rows), dict.fromkeys(out_of), dict.fromkeys(into)
    # a row that stays as it was is not copied
    for row in left.keys() - entered.keys():
        old = new.get(row, ())
        at = old.index(name) if name in old else len(old)
        new[row] = (*old[:at], *old[at + 1 :])
    for row in entered.keys() - left.keys():
        old = new.get(row, ())
        at = bisect(old, state.position[name], key=state.position.__getitem__)
        new[row] = (*old[:at], name, *old[at:])
    return new
