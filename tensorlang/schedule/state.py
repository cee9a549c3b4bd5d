"""The immutable state of a schedule: stages with their loops, relations and places. Knows te; holds no
behaviour of primitives.

A stage keeps its tensors for life and may change its *definition* (``StageState.op``): cache_write,
cache_read and compute_inline redefine stages, and no reader has to change. Stages and loops are named
uniquely, so that a trace can speak of them as text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from operator import attrgetter
from typing import Any, NamedTuple

from ..core.names import NameSupply, free_name
from ..errors import ScheduleError
from ..expr.nodes import Var
from ..te.axis import REDUCE, IterVar
from ..te.extern import OpaqueOp
from ..te.graph import operations
from ..te.scan import ScanOp
from ..te.scatter import ScatterOp
from ..te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from .links import Links
from .relations import Relation


@dataclass(frozen=True, slots=True)
class At:
    """Computed inside that loop of that stage."""

    stage: str
    loop: str

    def __str__(self) -> str:
        return f"{self.stage}.{self.loop}"


@dataclass(frozen=True, slots=True)
class Pending:
    """A place that later calls may make legal, and where the memory is to be made once it is."""

    place: At
    store: At | None = None


class Ahead(NamedTuple):
    """What a stage asks for in each iteration of ``loop``: what it touches of ``tensor`` ``offset``
    iterations of the loop ``of`` later, into the cache ``level``."""

    tensor: Tensor
    loop: str
    of: str
    offset: int
    share: bool
    level: int

    def renamed(self, now: dict[str, str]) -> Ahead:
        """The same where loops that are gone are those they are ``now``."""
        return self._replace(loop=now.get(self.loop, self.loop), of=now.get(self.of, self.of))


INLINED = "inlined"
NAME = attrgetter("name")


@dataclass(frozen=True, slots=True, eq=False)
class StageState:
    """One stage. ``leaves`` are its loops from outermost to innermost; ``kinds`` annotates some of them;
    ``attach`` is None (root), ``At`` or ``INLINED``; ``store`` is where its memory is made when that is not
    where it is computed. ``pending`` is a place that was asked for and is not legal yet: until then the stage
    is at root (in the loop of its scan). ``init_at`` is the loop before which a reduction's initial values
    are written, ``align`` the padding of strides per data axis. ``prefetches`` are what is asked for
    ahead of its use; ``tensorized`` is (loop, intrinsic). ``aliases`` are operations whose tensors the stage
    held before a change of layout. ``shares`` are the tensors whose memory its outputs are (parts of a
    scan); ``within`` is the scan it runs inside. ``double`` says that it is computed one iteration
    ahead, into two copies of its memory. ``in_part``: at root it computes what is read and no more, for the
    whole is not there (see ScanOp.in_part). ``names`` are those that its loops ever had, once someone asked
    (``used``)."""

    name: str
    op: Operation
    leaves: tuple[IterVar, ...] = ()
    relations: tuple[Relation, ...] = ()
    kinds: dict[IterVar, str] = field(default_factory=dict)
    attach: At | str | None = None
    store: At | None = None
    pending: Pending | None = None
    scope: str = "global"
    init_at: str | None = None
    align: dict[int, tuple[int, int]] = field(default_factory=dict)
    pragmas: dict[IterVar, tuple[tuple[str, Any], ...]] = field(default_factory=dict)
    tensorized: tuple[str, str] | None = None
    prefetches: tuple[Ahead, ...] = ()
    is_output: bool = False
    aliases: tuple[Operation, ...] = ()
    shares: tuple[Tensor, ...] = ()
    within: str | None = None
    double: bool = False
    in_part: bool = False
    names: frozenset[str] | None = None
    _places: dict[str, int] | None = field(default=None, init=False)

    @property
    def key(self) -> Operation:
        """The operation the stage's tensors belong to; only a change of layout, which makes new tensors,
        changes it."""
        return self.op.outputs[0].op if self.op.outputs else self.op

    @property
    def host(self) -> str | None:
        """The stage in whose loops it is computed; None at root."""
        return self.attach.stage if isinstance(self.attach, At) else None

    @property
    def is_inlined(self) -> bool:
        return self.attach == INLINED

    @property
    def is_placeholder(self) -> bool:
        return isinstance(self.op, PlaceholderOp)

    @property
    def is_opaque(self) -> bool:
        return isinstance(self.op, OpaqueOp)

    @property
    def is_scan(self) -> bool:
        return isinstance(self.op, ScanOp)

    @property
    def what(self) -> str:
        """What a stage that is left alone is, in words."""
        return self.op.kind if isinstance(self.op, OpaqueOp) else ""

    @property
    def updates(self) -> tuple[Tensor, ...]:
        """The arguments that the stage changes in place."""
        return (self.op.start,) if isinstance(self.op, ScatterOp) and self.op.inplace else ()

    @property
    def filled_by_others(self) -> bool:
        """Whether other stages write the first elements of its memory, which is there before them."""
        return isinstance(self.op, ScanOp | ScatterOp)

    @property
    def compute(self) -> ComputeOp:
        assert isinstance(self.op, ComputeOp)
        return self.op

    def all_loops(self) -> tuple[IterVar, ...]:
        """Axes first, then every loop made by a relation, in order of making."""
        if not isinstance(self.op, ComputeOp):
            return ()
        made = [c for r in self.relations for c in r.children]
        return (*self.op.axis, *self.op.reduce_axis, *made)

    def used(self) -> frozenset[str]:
        """The names its loops ever had."""
        if self.names is None:
            # looked up once: hundreds of splits of one loop would each look through all loops made before
            object.__setattr__(self, "names", frozenset([iv.name for iv in self.all_loops()]))
        assert self.names is not None
        return self.names

    def place_of(self, name: str) -> int | None:
        """The position of the present loop of that name, outermost first; None where there is none. They are
        listed once: each primitive asks several times, and a stage may have hundreds of loops."""
        if self._places is None:
            object.__setattr__(self, "_places", dict(zip(map(NAME, self.leaves), count(), strict=False)))
        assert self._places is not None
        return self._places.get(name)

    def loop(self, name: str) -> IterVar | None:
        """The loop or axis of that name."""
        place = self.place_of(name)
        if place is not None:
            return self.leaves[place]
        return next((iv for iv in reversed(self.all_loops()) if iv.name == name), None)

    def has(self, loop: IterVar) -> bool:
        """Whether it is an axis or a loop of the stage, now or before."""
        return self.loop(loop.name) is loop or any(iv is loop for iv in self.all_loops())

    def kind(self, iv: IterVar) -> str:
        return self.kinds.get(iv, "serial")

    def first_init(self) -> int:
        """Position of the loop before which the initial values of a reduction are written."""
        outermost = self.first_reduce()
        asked = None if self.init_at is None else self.place_of(self.init_at)
        return outermost if asked is None else min(asked, outermost)

    def first_reduce(self) -> int:
        """Position of the outermost reduction loop, or the number of loops when there is none."""
        for p, iv in enumerate(self.leaves):
            if iv.kind == REDUCE:
                return p
        return len(self.leaves)


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """A sampled value: ``knobs`` are its variables, ``values`` what was chosen, ``bounds`` inclusive limits
    of each, ``role`` what it is for."""

    name: str
    role: str
    knobs: tuple[Var, ...]
    values: tuple[int, ...]
    bounds: tuple[tuple[int, int], ...]
    candidates: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The steps that led to a state: those before, the stages that the last one changed, and their number."""

    before: History | None
    changed: tuple[str, ...]
    length: int


class ScheduleState:
    """All stages, producers first, and the decisions. A value: the methods give new states, which share what
    did not change."""

    __slots__ = (
        "__weakref__",
        "_bounds",
        "_earlier",
        "_history",
        "_links",
        "_named",
        "_of",
        "_origin",
        "_stages",
        "decisions",
        "order",
        "position",
        "symbolic",
    )

    def __init__(
        self, stages: tuple[StageState, ...], decisions: tuple[Decision, ...] = (), symbolic: bool = True
    ) -> None:
        self.order: tuple[str, ...] = tuple([st.name for st in stages])
        self.position = spaced(self.order)
        self.decisions = decisions
        self.symbolic = symbolic
        self._of: dict[str, StageState] = dict(zip(self.order, stages, strict=True))
        self._stages: tuple[StageState, ...] | None = stages
        self._named: dict[Operation, str] | None = None
        self._bounds: Any = None  # the regions of this state (see schedule.bounds)
        self._earlier: Any = None  # those of a state that it came from, to be brought up to date
        self._links: Links | None = None
        self._origin: ScheduleState | None = None  # whose tables are to be brought up to date
        self._history = History(None, (), 0)

    def _next(self, *fresh: StageState) -> ScheduleState:
        """A state that differs in these stages; new ones are not placed yet. Tables are copied whole, which
        takes microseconds for a thousand stages; to go through them stage by stage would take many more."""
        new = object.__new__(ScheduleState)
        new.order, new.position, new.decisions = self.order, self.position, self.decisions
        new.symbolic, new._named = self.symbolic, self._named
        new._of, new._stages = self._of, self._stages
        if fresh:
            new._of, new._stages = self._of.copy(), None
            new._of.update([(st.name, st) for st in fresh])
            known = new._named
            # another layout, or a new stage: what was read before is still found
            if known is not None and any(st.key not in known for st in fresh):
                new._named = {**known, **{k: st.name for st in fresh for k in (*st.aliases, st.key)}}
        new._bounds, new._earlier = None, self._bounds or self._earlier
        new._links, new._origin = None, self if self._links is not None else self._origin
        new._history = History(self._history, tuple([st.name for st in fresh]), self._history.length + 1)
        return new

    def bare(self) -> ScheduleState:
        """The same state without its regions, for them to hold. Were they to hold the state itself, each
        would keep the other alive, and the states of a long schedule would wait for the collector of
        cycles."""
        new = self._next()
        new._history, new._links, new._earlier, new._origin = self._history, self.links, None, None
        return new

    @staticmethod
    def initial(outputs: Iterable[Operation], symbolic: bool = True) -> ScheduleState:
        """Every stage at root, one loop per axis, in the order of its axes."""
        wanted = list(outputs)
        names = NameSupply()
        stages = []
        for op in operations(wanted):
            leaves = (*op.axis, *op.reduce_axis) if isinstance(op, ComputeOp) else ()
            stages.append(
                StageState(names.fresh(op.name), op, leaves, is_output=any(op is w for w in wanted))
            )
        state = ScheduleState(tuple(stages), symbolic=symbolic)
        for st in stages:
            if isinstance(st.op, ScanOp):
                state = state._bind_scan(st, st.op)
            if isinstance(st.op, ScatterOp):
                state = state._bind_scatter(st, st.op)
        return state

    def _bind_scatter(self, st: StageState, op: ScatterOp) -> ScheduleState:
        """One memory for the result and what it starts from."""
        start = self.of(op.start)
        if not op.inplace:
            return self.with_stage(replace(start, shares=op.outputs))
        others = [r.name for r in self.readers(start.name) if r.name != st.name]
        if others or op.start in op.updates().input_tensors:
            raise ScheduleError(
                f"`{st.name}` updates `{start.name}` in place, and `{(others or [st.name])[0]}` reads it",
                because="it would depend on their order what is read",
                try_=f"read `{st.name}`, or inplace=False",
            )
        return self.with_stage(replace(st, shares=(op.start,)))

    def _bind_scan(self, st: StageState, op: ScanOp) -> ScheduleState:
        """The parts of a scan: one memory for state, start, update and result; what hangs on the state runs
        inside its loop."""
        shared: dict[Operation, dict[int, Tensor]] = {}
        for i, parts in enumerate(zip(op.init, op.update, op.state, strict=True)):
            for t in parts:
                shared.setdefault(t.op, {})[t.value_index] = op.outputs[i]
        inside, in_part = op.dependent(), op.in_part()
        changed = []
        for other in self.stages:
            fields: dict[str, Any] = {}
            mine = shared.get(other.key)
            if mine is not None:
                if len(mine) != len(other.op.outputs) or other.is_output or other.shares:
                    raise ScheduleError(
                        f"`{other.name}` cannot be part of the scan `{st.name}`",
                        because="its memory is that of the scan, but it is an output, part of another scan, "
                        "or has other outputs",
                        try_="give the scan a te.compute of its own that copies it",
                    )
                fields["shares"] = tuple(mine[i] for i in range(len(mine)))
            if any(other.key is o for o in inside):
                fields.update(attach=At(st.name, op.axis[0].name), within=st.name)
            elif any(other.key is o for o in in_part) and not other.is_output:
                fields["in_part"] = all(
                    any(r.key is o for o in (*inside, *in_part))
                    for r in self.stages
                    if r.op is not op and any(t.op is other.key for t in r.op.input_tensors)
                )
            if fields:
                changed.append(replace(other, **fields))
        return self.with_stage(*changed)

    @property
    def stages(self) -> tuple[StageState, ...]:
        """Producers first."""
        if self._stages is None:
            self._stages = tuple([self._of[name] for name in self.order])
        return self._stages

    def stage(self, name: str) -> StageState:
        return self._of[name]

    def find(self, op: Operation) -> StageState | None:
        """The stage that computes the tensors of an operation, now or before a change of layout; None when
        none does."""
        if self._named is None:
            self._named = {k: st.name for st in self.stages for k in (*st.aliases, st.key)}
        name = self._named.get(op)
        return None if name is None else self.stage(name)

    def of(self, tensor: Tensor) -> StageState:
        """The stage that computes a tensor."""
        result = self.find(tensor.op)
        if result is None:
            raise KeyError(tensor.op)
        return result

    def present(self, thing: Any) -> Any:
        """A tensor as it is laid out now; anything else as it is."""
        stage = self.find(thing.op) if isinstance(thing, Tensor) else None
        return thing if stage is None else stage.op.outputs[thing.value_index]

    def with_stage(self, *changed: StageState) -> ScheduleState:
        """These stages in place of those of the same names."""
        return self._next(*changed)

    def insert_before(self, name: str, stage: StageState) -> ScheduleState:
        """One more stage, just before another."""
        return self._insert(self._index(name), stage)

    def insert_after(self, name: str, stage: StageState) -> ScheduleState:
        """One more stage, just after another."""
        return self._insert(self._index(name) + 1, stage)

    def _index(self, name: str) -> int:
        return bisect_left(self.order, self.position[name], key=self.position.__getitem__)

    def _insert(self, at: int, stage: StageState) -> ScheduleState:
        new = self._next(stage)
        new.order = (*self.order[:at], stage.name, *self.order[at:])
        low = self.position[self.order[at - 1]] if at else self.position[self.order[0]] - 2 * GAP
        high = self.position[self.order[at]] if at < len(self.order) else low + 2 * GAP
        new.position = (
            {**self.position, stage.name: (low + high) // 2} if high - low > 1 else spaced(new.order)
        )
        return new

    def with_decision(self, decision: Decision) -> ScheduleState:
        new = self._next()
        new.decisions = (*self.decisions, decision)
        return new

    def decision(self, name: str) -> Decision | None:
        return next((d for d in reversed(self.decisions) if d.name == name), None)  # mostly a late one

    def changed_since(self, before: ScheduleState) -> list[str] | None:
        """The names of the stages that are new or not as they were in a state that this one came from; None
        for other states."""
        found: list[str] = []
        step, start = self._history, before._history
        while step.length > start.length and step.before is not None:
            found += step.changed
            step = step.before
        return found if step is start else None

    @property
    def links(self) -> Links:
        """Who reads whom, and who is computed in whose loops."""
        if self._links is None:
            origin, self._origin = self._origin, None
            known = None if origin is None else origin._links
            self._links = Links.of(self) if origin is None or known is None else known.after(origin, self)
        return self._links

    def readers(self, name: str) -> tuple[StageState, ...]:
        """The stages that read outputs of a stage; inlined ones are gone from the graph and do not count."""
        return tuple([self.stage(n) for n in self.links.readers.get(name, ())])

    def free_name(self, preferred: str) -> str:
        """``preferred``, or ``preferred_1`` and so on when a stage has that name."""
        return free_name(preferred, self.position)

    def free_names(self) -> Callable[[str], str]:
        """The same of several new stages, none of which gets a name that another has got."""
        taken = set(self.position)

        def named(preferred: str) -> str:
            name = free_name(preferred, taken)
            taken.add(name)
            return name

        return named

    def attached(self, name: str) -> tuple[StageState, ...]:
        """The stages computed inside loops of that stage, producers first."""
        return tuple([self.stage(n) for n in self.links.attached.get(name, ())])


GAP = 1 << 40  # between the numbers of neighbours: room for those that come between them


def spaced(order: Sequence[str]) -> dict[str, int]:
    """Numbers that increase in this order."""
    return dict(zip(order, range(0, len(order) * GAP, GAP), strict=True))


def change(stage: StageState, **fields: Any) -> StageState:
    """A copy with other fields; what its loops were called is passed again, or is looked up when asked
    for."""
    if "relations" in fields or "op" in fields:
        fields.setdefault("names", None)
    return replace(stage, **fields)
