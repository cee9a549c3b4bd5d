"""``Schedule`` and ``Stage``: the user's handles. Each call builds a primitive, checks it, applies it,
records it.

Nothing here knows what any primitive does. The state is a value, so ``copy`` is free and a refused call
changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

from .. import signposts
from ..boundary import answer
from ..core.names import free_name
from ..core.text import type_of
from ..entries import public
from ..errors import DeclareError, ScheduleError, user_location
from ..expr.nodes import Expr, Var, const_int
from ..protocols import Entries, Listed, Row
from ..te.axis import IterVar, exact
from ..te.inside import Span, refuse_reads_outside, span_of
from ..te.tensor import ComputeOp, Operation, Tensor
from .bounds import bounds_of
from .legality.places import legal_places, pending_places, pending_verdict, settle
from .legality.tensorize import mismatched
from .legality.verdict import Verdict, refuse
from .primitives import BY_NAME, TABLE
from .primitives.base import Primitive, sizes_called
from .primitives.fields import Factor, Knob, Size, mistyped
from .state import ScheduleState, StageState
from .trace import Decisions, Trace, primitive_of
from .tree.printer import draw

if TYPE_CHECKING:  # the primitives, each in its own file, are installed below; the stub is made of them
    from .methods import ScheduleMethods, StageMethods
else:
    ScheduleMethods = StageMethods = object

RESHAPING = ("split", "fuse", "reorder")  # they cut the loops of a stage and put them in order
PLACING = ("compute_at", "store_at", "reverse_compute_at")  # they name another stage
StageKey = Tensor | Operation | str | tuple[Tensor, ...]


# the steps before, or None, and the last one: to add one costs the same however many there are
Steps = tuple[Any, Primitive]


class Schedule(ScheduleMethods):
    """How a computation is carried out. Made by :func:`create_schedule`; ``s[T]`` is the stage that computes
    ``T``."""

    def __init__(
        self, state: ScheduleState, outputs: tuple[Operation, ...], steps: Steps | None = None
    ) -> None:
        self._state = state
        self._outputs = outputs
        self._steps = steps

    # -- reading ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> ScheduleState:
        """The present state, a value: later calls make another and leave this one as it is."""
        return self._state

    @property
    def outputs(self) -> tuple[Operation, ...]:
        """The operations the schedule was created for, in the order in which they were given."""
        return Row("s.outputs", self._outputs)

    @property
    def stages(self) -> Listed[Stage]:
        """A handle for every stage, producers first: those of arguments too."""
        return Listed("s.stages", [Stage(self, st.name) for st in self._state.stages])

    @property
    def trace(self) -> Trace:
        """The calls made so far and the sampled values: what prints, saves and replays a schedule.

        >>> y = ops.relu(te.placeholder((8, 4), name="x"))
        >>> s = te.create_schedule(y)
        >>> _ = s[y].split("i1", factor=2)
        >>> print(s.trace)
          1  split(relu, i1, factor=2)
        """
        notes = {}
        steps = self._all_steps()
        for name, why in self.pending.items():
            by = [
                n
                for n, p in enumerate(steps)
                if getattr(p, "stage", None) == name
                and p.name in ("compute_at", "sample_location", "tensorize")
            ]
            notes[by[-1] if by else len(steps) - 1] = f"pending: {name} at {why}"
        return Trace(steps, {d.name: d.values for d in self._state.decisions}, notes)

    def _all_steps(self) -> tuple[Primitive, ...]:
        found: list[Primitive] = []
        rest = self._steps
        while rest is not None:
            rest, p = rest
            found.append(p)
        return tuple(reversed(found))

    @property
    def decisions(self) -> dict[str, tuple[int, ...]]:
        """The sampled values by name, as they are now.

        >>> y = ops.relu(te.placeholder((8, 4), name="x"))
        >>> s = te.create_schedule(y)
        >>> rows = s.sample_tile(y.op.axis[0], values=2, name="rows")
        >>> s.decisions
        {'rows': (2,)}
        """
        return Entries("s.decisions", {d.name: d.values for d in self._state.decisions})

    def copy(self) -> Schedule:
        """Another schedule in the same state. Free: states are shared.

        >>> y = ops.relu(te.placeholder((8, 4), name="x"))
        >>> s = te.create_schedule(y)
        >>> other = s.copy()
        >>> other[y].vectorize("i1")
        >>> len(s.trace.steps), len(other.trace.steps)
        (0, 1)
        """
        return Schedule(self._state, self._outputs, self._steps)

    def __deepcopy__(self, memo: Any) -> Schedule:
        return self.copy()

    __copy__ = copy

    def normalize(self) -> Schedule:
        """The schedule itself: it is always in normal form. For TVM's sake."""
        return self

    def tree(self) -> str:
        """The schedule tree as text: loops, storage and computations with true extents and bytes, as
        ``print(s)`` shows it."""
        return draw(self._state)

    def __str__(self) -> str:
        return self.tree()

    def stage_name(self, key: StageKey) -> str:
        """The name of the stage of a tensor, operation or its tensors. Raises ScheduleError for others."""
        if isinstance(key, tuple) and key and all(isinstance(t, Tensor) and t.op is key[0].op for t in key):
            key = key[0]
        if isinstance(key, Tensor | Operation):
            op = key.op if isinstance(key, Tensor) else (key.outputs[0].op if key.outputs else key)
            stage = self._state.find(op)
            if stage is None:
                raise ScheduleError(
                    f"s[{op.name}]: not part of this schedule",
                    because="nothing the schedule was created for is computed from it",
                    legal=", ".join(self._state.order),
                )
            return stage.name
        if isinstance(key, str) and key in self._state.position:
            return key
        shown = repr(key) if isinstance(key, str | int | float) else type_of(key)
        raise ScheduleError(f"s[{shown}]: no such stage", legal=", ".join(self._state.order))

    def __getitem__(self, key: StageKey) -> Stage:
        return Stage(self, self.stage_name(key))

    def tensor(self, name: str, index: int = 0) -> Tensor:
        """Output ``index`` of the stage of that name. Raises ScheduleError for a name of none."""
        return self._state.stage(self.stage_name(name)).op.outputs[index]

    def knob(self, name: str) -> Knob:
        """A sampled value by name (as in ``"tile_i.0"``), to be passed where a primitive takes a number."""
        return Knob(name)

    def size(self, name: str) -> Size:
        """A size of the program by name, known at the call, to be passed where ``split`` takes a number."""
        return Size(name)

    @overload
    def legal_places(self, tensor: StageKey, *, pending: Literal[False] = False) -> list[tuple[str, str]]: ...
    @overload
    def legal_places(self, tensor: StageKey, *, pending: Literal[True]) -> list[tuple[str, str, str]]: ...
    def legal_places(
        self, tensor: StageKey, *, pending: bool = False
    ) -> list[tuple[str, str]] | list[tuple[str, str, str]]:
        """Every (stage, loop) at which the stage may be computed, besides root; never raises for a legal key.
        Those inside vector loops come last.

        ``pending=True``: instead those that later calls could make legal, as (stage, loop, what stands
        against it now).

        >>> x = te.placeholder((8, 4), name="x")
        >>> y, z = ops.relu(x), ops.tanh(x)
        >>> s = te.create_schedule(w := ops.add(y, z))
        >>> s.legal_places(y)
        [('add', 'i0'), ('add', 'i1')]
        """
        stage = self._state.stage(self.stage_name(tensor))
        return pending_places(self._state, stage) if pending else legal_places(self._state, stage)

    @property
    def pending(self) -> dict[str, str]:
        """The stages that wait for a place that is not legal yet, as ``{"T": "O.i: `M` also reads `T` and
        runs outside loop O.i"}``, and those whose loops were cut after they were tensorized.

        ``tl.lower`` and ``tl.build`` take a schedule once nothing waits.
        """
        places = {
            st.name: f"{st.pending.place}: {pending_verdict(self._state, st).reason}"
            for n in self._state.links.pending
            if (st := self._state.stage(n)).pending is not None
        }
        return places | {
            st.name: f"tensorize({', '.join(st.tensorized or ())}): {why}"
            for st, why in mismatched(self._state)
        }

    # -- changing --------------------------------------------------------------------------------------------

    def verdict(self, p: Primitive) -> tuple[Verdict, ScheduleState | None, Any]:
        """The verdict on a primitive, and the state and result it would give."""
        verdict = mistyped(p)
        if verdict:
            verdict = p.check(self._state)
        if not verdict and not verdict.pending:
            return verdict, None, None
        state, result = p.apply(self._state)
        state, bad = settle(state, self._state)
        if bad is not None:
            stage, why = bad
            return (
                refuse(
                    lambda: f"`{stage.name}` would be left at a place that is not legal: {why.reason}",
                    mark=why.mark,
                    try_=f"move {stage.name} first: s[{stage.name}].compute_root()",
                ),
                None,
                None,
            )
        broken = self._broken(p, state)
        if broken is not None:
            stage, reason = broken
            return (
                refuse(
                    f"`{stage.name}` is tensorized and would not be what its intrinsic computes: {reason}",
                    mark=(stage.name, None),
                    try_=f"tensorize {stage.name} last, after every split, reorder and compute_at",
                ),
                None,
                None,
            )
        return verdict, state, result

    def _broken(self, p: Primitive, state: ScheduleState) -> tuple[StageState, str] | None:
        """A tensorized stage that ``p`` would make another than its intrinsic, where no later call would
        help: once its own loops are cut or put in another order, the next ``tensorize`` may."""
        found = list(mismatched(state))
        before = {st.name for st, _ in mismatched(self._state, pending=True)} if found else ()
        own = getattr(p, "stage", None) if p.name in RESHAPING else None
        return next(((st, why) for st, why in found if st.name not in before and st.name != own), None)

    def perform(self, p: Primitive) -> Any:
        """Check, apply and record one primitive. Raises ScheduleError when it is refused; then nothing has
        changed."""
        verdict, state, result = self.verdict(p)
        if state is None:
            raise self._refusal(p, verdict)
        self._state = state
        self._steps = (self._steps, p)
        return result

    def _refusal(self, p: Primitive, verdict: Verdict) -> ScheduleError:
        before = self._state
        tree = (lambda: draw(before, mark=verdict.mark)) if verdict.mark else None
        where = user_location()
        step = f"step {len(self._all_steps()) + 1} of the trace"
        return ScheduleError(
            lambda: f"{p}: not legal",
            because=verdict.because,
            tree=tree,
            legal=verdict.legal,
            try_=verdict.try_,
            at=f"{where}, {step}" if where else step,
        )

    def step(self, primitive: str, **arguments: Any) -> Any:
        """One primitive by name with plain data, as traces store it. Raises ScheduleError when it is refused
        or the data is none."""
        try:
            p = primitive_of(primitive, arguments)
        except ValueError as e:
            raise ScheduleError(f"a step `{primitive}` of a wrong type", because=str(e)) from None
        return self.perform(p)

    def can(self, primitive: str, *args: Any, **kwargs: Any) -> Verdict:
        """Whether ``s[stage].primitive(...)`` (stage first) or ``s.primitive(...)`` would be legal. Answers,
        and never raises for a refusal.

        ``s.can("compute_at", P, C, loop)``, ``s.can("split", C, i, factor=8)``. The answer is true or false
        and holds the reason. It is false, and its ``pending`` true, when the call would be taken and a stage
        wait for its place, or for another intrinsic.

        >>> y = ops.relu(te.placeholder((8, 4), name="x"))
        >>> s = te.create_schedule(y)
        >>> bool(s.can("split", y, "i0", factor=2)), s.can("vectorize", y, "i7").because
        (True, '`relu` has no loop `i7`')
        """
        if not args and not kwargs and getattr(BY_NAME.get(primitive), "of", "stage") == "stage":
            raise ScheduleError(
                f"s.can({primitive!r}): the stage is missing", try_=f"s.can({primitive!r}, T, …)"
            )
        trial = self.copy()
        try:
            if BY_NAME.get(primitive) is None or BY_NAME[primitive].of == "stage":
                others = [
                    trial[a] if primitive in PLACING and isinstance(a, Tensor | Operation) else a
                    for a in args[1:]
                ]
                getattr(trial[args[0]], primitive)(*others, **kwargs)
            else:
                getattr(trial, primitive)(*args, **kwargs)
        except ScheduleError as e:
            return refuse(e.because or e.what, legal=e.legal, try_=e.try_)
        before = [st.name for st, _ in mismatched(self._state)]
        for st, why in mismatched(trial._state):
            if st.name not in before:
                return refuse(f"`{st.name}` would wait to be tensorized again: {why}", pending=True)
        for st in map(trial._state.stage, trial._state.links.pending):
            if st.name not in self._state.position or self._state.stage(st.name).pending != st.pending:
                return pending_verdict(trial._state, st)
        return Verdict(True)

    def replay(self, trace: Trace, *, symbolic: bool | None = None) -> Schedule:
        """Apply the steps of a trace on top of this schedule; all or nothing.

        >>> y = ops.relu(te.placeholder((8, 4), name="x"))
        >>> s = te.create_schedule(y)
        >>> s[y].vectorize("i1")
        >>> s.fresh().replay(s.trace).tree() == s.tree()
        True
        """
        trial = self.copy()
        if symbolic is not None:
            trial._state = ScheduleState(trial._state.stages, trial._state.decisions, symbolic)
        for p in trace.steps:
            values = trace.decisions.get(getattr(p, "decision", ""))
            if values is not None:
                p = type(p)(**{**p.arguments(), "values": values})
            trial.perform(p)
        self.take(trial)
        return self

    def take(self, other: Schedule) -> None:
        """Become what ``other``, a copy that went on, has become."""
        self._state, self._steps = other._state, other._steps

    def fresh(self, *, symbolic: bool = True) -> Schedule:
        """A schedule of the same computation with no step made. This one stays as it is."""
        return Schedule(ScheduleState.initial(self._outputs, symbolic), self._outputs)

    def concrete(self, decisions: Decisions | None = None) -> Schedule:
        """The schedule with every sampled value a number, these or its own. Raises ScheduleError for others.

        >>> y = ops.relu(te.placeholder((8, 4), name="x"))
        >>> s = te.create_schedule(y)
        >>> _ = s[y].split("i0", s.sample_tile(y.op.axis[0], values=2, name="rows"))
        >>> s.concrete({"rows": (4,)}).decisions
        {'rows': (4,)}
        """
        if not (self._state.decisions and self._state.symbolic) and decisions in (None, {}):
            return self
        return self.fresh(symbolic=False).replay(self.trace.with_decisions(decisions or {}))

    def free_decision(self, preferred: str) -> str:
        """``preferred``, or ``preferred_1`` and so on when a decision has that name."""
        return free_name(preferred, [d.name for d in self._state.decisions])

    def owner(self, loop: IterVar) -> StageState:
        """The stage a loop belongs to, by the loop or its name. Raises ScheduleError for a loop of none."""
        if isinstance(loop, IterVar):
            for st in self._state.stages:
                if isinstance(st.op, ComputeOp) and st.has(loop):
                    return st
        raise ScheduleError(
            f"{f'`{loop.name}`' if isinstance(loop, IterVar) else type(loop).__name__} is not a loop of this "
            "schedule",
            try_="a loop that s[T].op.axis, split or fuse returned",
        )


class Stage(StageMethods):
    """``s[T]``: one stage of a schedule. Its methods are the stage primitives; each returns the new loops, in
    TVM's order."""

    __slots__ = ("_schedule", "name")

    def __init__(self, schedule: Schedule, name: str) -> None:
        self._schedule = schedule
        self.name = name

    @property
    def schedule(self) -> Schedule:
        """The schedule this is a stage of, so that ``s[T].schedule is s``."""
        return self._schedule

    @property
    def state(self) -> StageState:
        """The stage's present state, a value: its loops, where they came from, its place, its memory."""
        return self._schedule.state.stage(self.name)

    @property
    def op(self) -> ComputeOp:
        """The present definition: ``s[T].op.axis``, ``s[T].op.reduce_axis``, ``s[T].op.body`` (of an argument
        its PlaceholderOp)."""
        return self.state.op  # type: ignore[return-value]  # that of an argument has no axes, and else what a compute has

    @property
    def leaf_iter_vars(self) -> tuple[IterVar, ...]:
        """The loops as they are now, outermost first.

        >>> y = ops.relu(te.placeholder((8, 4), name="x"))
        >>> s = te.create_schedule(y)
        >>> _ = s[y].split("i1", factor=2)
        >>> [loop.name for loop in s[y].leaf_iter_vars]
        ['i0', 'i1.outer', 'i1.inner']
        """
        return Row("leaf_iter_vars", self.state.leaves)

    @property
    def all_iter_vars(self) -> tuple[IterVar, ...]:
        """Axes and every loop ever made, those that were split or fused since among them."""
        return Row("all_iter_vars", self.state.all_loops())

    def loop(self, name: str) -> IterVar:
        """The loop or axis of that name. Raises ScheduleError when there is none."""
        result = self.state.loop(name)
        if result is None:
            raise ScheduleError(
                f"s[{self.name}].loop({name!r}): `{self.name}` has no such loop", legal=self._loops
            )
        return result

    def _loops(self) -> str:
        names = ", ".join(iv.name for iv in self.state.leaves)
        return (
            f"the loops of {self.name}: {names}" if names else f"{self.name} is an argument: it has no loops"
        )

    def __repr__(self) -> str:
        return f"Stage({self.name}: {', '.join(iv.name for iv in self.state.leaves) or 'no loops'})"

    def loop_name(self, call: str, loop: IterVar | str) -> str:
        """The name of a loop that must be one of this stage; ``call`` is for the error."""
        if isinstance(loop, str):
            return loop
        if isinstance(loop, IterVar):
            if self.state.has(loop):
                return loop.name
            raise ScheduleError(
                f"s[{self.name}].{call}({loop.name}): not a loop of `{self.name}`",
                because=self._foreign(loop),
                legal=self._loops,
                try_="s[T].op.axis gives the axes as they are now; cache_write renews those of the cached "
                "stage",
            )
        raise ScheduleError(
            f"s[{self.name}].{call}({loop if isinstance(loop, int) else type(loop).__name__}): not a loop",
            because="a loop is what s[T].op.axis, s[T].op.reduce_axis, split or fuse returned",
            legal=self._loops,
        )

    def _foreign(self, loop: IterVar) -> str:
        for st in self._schedule.state.stages:
            if isinstance(st.op, ComputeOp) and st.has(loop):
                return f"it is a loop of `{st.name}`"
        return "it belongs to no stage of this schedule"

    def number(self, call: str, value: Any) -> Any:
        """An int or exact quotient, size or knob, as primitives store it. Raises ScheduleError for others."""
        if value is None or isinstance(value, Knob | Size):
            return value
        if type(value) is Var and value.kind == "knob":
            return Knob(value.name)
        if type(value) is Var and value.kind in ("dim", "value") and value.dtype.is_index:
            known = any(v is value for v in sizes_called(self._schedule.state, value.name))
            return Size(value.name, None if known else value)
        try:
            return exact(None if isinstance(value, bool) else value).__index__()
        except (AttributeError, TypeError, DeclareError):
            raise ScheduleError(
                f"s[{self.name}].{call}: "
                f"{value if isinstance(value, float | str | Expr) else type(value).__name__} is not an int",
                because="a loop is cut by a number, or by a size that is known at the call",
                try_="an int, a te.var of an integer type, or a knob of s.sample_tile",
            ) from None

    def bind(self, loop: IterVar | str, thread: Any) -> NoReturn:
        """TVM's way to give a loop to threads of a GPU. Raises ScheduleError."""
        raise ScheduleError(
            f"s[{self.name}].bind({getattr(loop, 'name', loop)}, …): there are no threads of a GPU here",
            try_=f"s[{self.name}].parallel(loop) for the threads of the CPU, s[{self.name}].vectorize(loop) "
            "for its lanes",
        )

    def do(self, p: Primitive) -> Any:
        """Check, apply and record a primitive of this stage; what every method of a stage ends in. Raises
        ScheduleError when it is refused; then nothing has changed."""
        return self._schedule.perform(p)

    @overload
    def tile(
        self, x: IterVar | str, y: IterVar | str, x_factor: Factor, y_factor: Factor
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]: ...
    # s[C].tile(*s[C].op.axis, x_factor=…, y_factor=…): how many axes there are, checkers do not know
    @overload
    def tile(
        self, *loops: IterVar | str, x_factor: Factor, y_factor: Factor
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]: ...
    def tile(  # type: ignore[misc]  # *loops are x and y
        self, x: IterVar | str, y: IterVar | str, x_factor: Factor, y_factor: Factor
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split both loops and put the inner halves inside; returns (x.outer, y.outer, x.inner, y.inner)."""
        trial = self._schedule.copy()[self.name]  # all or nothing: three steps, one call
        xo, xi = trial.split(x, x_factor)
        yo, yi = trial.split(y, y_factor)
        trial.reorder(xo, yo, xi, yi)
        self._schedule.take(trial._schedule)
        return xo, yo, xi, yi


for _p in TABLE:  # a primitive is a method of the handle it works on
    _handle = Stage if _p.of == "stage" else Schedule
    _p.call.__name__, _p.call.__qualname__ = _p.name, f"{_handle.__name__}.{_p.name}"
    setattr(_handle, _p.name, _p.call)
public(ScheduleError, "s", signposts.SCHEDULE, text="plain", page="schedule")(Schedule)


public(ScheduleError, "s[T]", signposts.STAGE)(Stage)
answer(Verdict, "verdict", {}, often=True)


def _parts(state: ScheduleState) -> dict[Operation, Span]:
    """Where the axes run of the stages that are not computed whole."""
    spans: dict[Operation, Span] = {}
    for st in state.stages:
        if st.in_part:
            b = bounds_of(state)[st.name]
            spans[st.op] = span_of(st.compute)
            for a, low, extent in zip(st.compute.axis, b.low, b.extent, strict=True):
                begin, n = const_int(low), const_int(extent)
                spans[st.op][a.var] = (
                    (0, None) if begin is None else (begin, None if n is None else begin + n - 1)
                )
    return spans


def create_schedule(outputs: Tensor | Operation | Iterable[Tensor | Operation]) -> Schedule:
    """A schedule for the computation of these outputs (a tensor, its ``.op``, or a list of either): every
    stage at root, plain loops. Raises ScheduleError for what computes nothing.

    >>> A = te.placeholder((8, 8), name="A")
    >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
    >>> s = te.create_schedule(B.op)
    >>> print(s.tree())
    root
    └─ loop B.i          0..8
       └─ loop B.j       0..8
          └─ compute B   reads A
    """
    listed = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
    ops: dict[Operation, None] = {}
    for o in listed:
        if not isinstance(o, Tensor | Operation):
            raise ScheduleError(
                f"create_schedule({o if isinstance(o, int | str) else type(o).__name__}): not a tensor or "
                "operation",
                try_="te.create_schedule(C.op) with C = te.compute(…)",
            )
        ops[o.op if isinstance(o, Tensor) else o] = None
    if not ops:
        raise ScheduleError(
            "create_schedule([]): no outputs",
            because="a schedule says how something is computed",
            try_="te.create_schedule(C.op)",
        )
    for op in ops:
        if not isinstance(op, ComputeOp):
            raise ScheduleError(
                f"create_schedule({op.name}): a placeholder is not computed",
                try_="pass the outputs of a te.compute",
            )
    state = ScheduleState.initial(ops)
    refuse_reads_outside(
        (st.op for st in state.stages if st.within is None), _parts(state)
    )  # iterations of a scan begin later than their axes
    return Schedule(state, tuple(ops))
