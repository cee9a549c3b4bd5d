"""A schedule as numbers to tune by: statements, buffers, knobs and limits, all as expressions over the knobs.
Knows the schedule's public face (decisions, tree, bounds); nothing of features, models or machines beyond
plain limits.

``analyse(s)`` works the same on a schedule with knobs and on one of numbers; on the latter every amount is a
literal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..errors import counted
from ..expr.nodes import Expr, Var, const_int
from ..schedule.primitives.kind import MAX_LANES, MAX_UNROLL
from ..schedule.relations import Fuse
from ..schedule.schedule import Schedule
from ..schedule.state import Decision
from .nest import Nests
from .quantity import Amount, amount, at_most, ceil_quotient, times
from .sizes import Sizes
from .statement import Statement, statement_of


@dataclass(frozen=True, slots=True)
class Storage:
    """The memory of a stage that is neither argument nor output: its box and bytes, and in which scope it
    lives."""

    name: str
    scope: str
    extents: tuple[Expr, ...]
    bytes: Expr


@dataclass(frozen=True, slots=True)
class Limit:
    """``value <= most``, for the reason ``what``. Candidates beyond a limit are not worth building, or cannot
    be."""

    what: str
    value: Expr
    most: int

    @property
    def condition(self) -> Expr:
        """The limit as a condition."""
        return at_most(self.value, self.most)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of everything is worth trying: vectors of a statement once its unrolled loops are written out,
    vector lanes, bytes of a local buffer and of all global ones. What is written out is what a compiler takes
    time for, and the fastest kernels are short: a register tile of 12 vectors under 9 taps of a window has
    108."""

    written: int = 112
    lanes: int = 256
    local_bytes: int = 16 << 10
    workspace_bytes: int = 1 << 30


class Analysis:
    """What a tuner reads. ``statements`` in the order they run; ``decisions`` with their knobs, in the order
    they were sampled."""

    __slots__ = ("decisions", "statements", "storage")

    def __init__(
        self, statements: tuple[Statement, ...], storage: tuple[Storage, ...], decisions: tuple[Decision, ...]
    ) -> None:
        self.statements = statements
        self.storage = storage
        self.decisions = decisions

    def __repr__(self) -> str:
        names = ", ".join(st.name for st in self.statements)
        return f"<analysis of {names}: {self.flops:,} operations, {counted(len(self.knobs), 'knob')}>"

    @property
    def knobs(self) -> tuple[Var, ...]:
        """The variables of all decisions, in order: the columns of a matrix of candidates."""
        return tuple(k for d in self.decisions for k in d.knobs)

    @property
    def flops(self) -> int:
        """The operations of the declared computation: nothing computed twice, no tails."""
        return sum((const_int(st.points) or 0) * st.work.flops for st in self.statements)

    def limits(self, allowed: Limits | None = None, lanes: int = 8) -> tuple[Limit, ...]:
        """What every candidate must keep to; those that no knob changes are left out, but for what exceeds
        ``allowed``. ``lanes`` is what one vector holds."""
        b = allowed or Limits()
        found: list[Limit] = []

        def holds(limit: Limit) -> bool:
            return (const_int(limit.value) or 0) <= limit.most

        def add(what: str, value: Amount, most: int) -> None:
            limit = Limit(what, amount(value), most)
            if not isinstance(value, int):
                found.append(limit)

        for st in self.statements:
            own = st.loops[st.own :]
            unrolled = [p.extent for p in own if p.kind == "unrolled"]
            wide = [p.extent for p in own if p.kind == "vectorized"]
            for p in own:
                if p.kind == "unrolled":
                    add(f"{st.name}.{p.name}: iterations of an unrolled loop", p.extent, MAX_UNROLL)
            for e in wide:
                add(f"{st.name}: vector lanes", e, min(b.lanes, MAX_LANES))
            if unrolled or wide:
                add(
                    f"{st.name}: vectors written out",
                    times(*unrolled, *[ceil_quotient(e, lanes) for e in wide]),
                    b.written,
                )
        for m in self.storage:
            if m.scope == "local":
                add(f"{m.name}: bytes of a local buffer", m.bytes, b.local_bytes)
            else:
                add(f"{m.name}: bytes of workspace", m.bytes, b.workspace_bytes)
        # what no knob changes is the computation's own, unless somebody said how much there may be
        return tuple(x for x in found if x.value.children() or (allowed and not holds(x)))


def analyse(schedule: Schedule, dims: Mapping[Var, int] | None = None, *, accesses: bool = True) -> Analysis:
    """The statements, storage and decisions of a schedule. ``dims`` gives run-time sizes the values to
    compute with, else their hints. ``accesses=False`` leaves out what the statements touch, which takes most
    of the time."""
    state = schedule.state
    nests = Nests(state, Sizes(dims))
    statements = tuple(statement_of(nests, n, accesses) for n in nests.statements)
    if accesses and any(isinstance(rel, Fuse) for stage in state.stages for rel in stage.relations):
        apart = Nests(state, Sizes(dims), apart=True)
        statements = tuple(
            replace(st, apart=statement_of(apart, n)) if len(n.loops) > len(st.loops) else st
            for st, n in zip(statements, apart.statements, strict=True)
        )
    storage = []
    for stage in nests.storage:
        box = nests.box(stage.op.outputs[0])
        storage.append(
            Storage(stage.name, stage.scope, box, times(*box, sum(t.dtype.bytes for t in stage.op.outputs)))
        )
    return Analysis(statements, tuple(storage), state.decisions)
