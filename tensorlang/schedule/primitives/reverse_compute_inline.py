"""reverse_compute_inline: an elementwise consumer is written into the stage it reads, which keeps its loops.

``for i.outer: for i.inner: P[i] = f(i)`` and ``for i: C[i] = g(P[i])`` →
``for i.outer: for i.inner: C[i] = g(f(i))``

It is compute_inline of the producer, with the loops of the producer: the schedule made for ``P`` is now that
of ``C``. (TVM's TensorIR has the primitive under this name.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..legality.verdict import Verdict, refuse
from ..state import At, Pending, ScheduleState, StageState, change
from .base import Primitive, check_own_memory
from .compute_inline import ComputeInline
from .fields import StageName
from .reverse_compute_at import mirrored, only_reader, own_place

if TYPE_CHECKING:
    from ..schedule import Stage


@dataclass(frozen=True, slots=True)
class ReverseComputeInline(Primitive):
    """Write ``stage`` into the one stage it reads that it alone reads, at its own place."""

    stage: StageName
    name = "reverse_compute_inline"

    def check(self, state: ScheduleState) -> Verdict:
        verdict = check_own_memory(state, self.stage)
        if not verdict:
            return verdict
        consumer = state.stage(self.stage)
        mark = (self.stage, None)
        if consumer.compute.reduce_axis:
            return refuse(
                f"`{self.stage}` is a reduction: it reads more than one element of a stage", mark=mark
            )
        if (
            consumer.relations
            or consumer.kinds
            or consumer.attach is not None
            or consumer.pending is not None
            or state.attached(self.stage)
        ):
            return refuse(
                f"`{self.stage}` is scheduled already: its loops are to be those of the stage it reads",
                mark=mark,
                try_="reverse_compute_inline before any other primitive of the stage",
            )
        producers = _producers(state, consumer)
        if len(producers) != 1:
            read = (
                f"it reads {' and '.join(f'`{p.name}`' for p in producers)}"
                if producers
                else "it reads arguments only"
            )
            return refuse(
                f"`{self.stage}` must read one computed stage, but {read}",
                mark=mark,
                try_=f"s[{self.stage}].compute_at(reader, loop)",
            )
        return self._fits(state, producers[0], consumer)

    def _fits(self, state: ScheduleState, producer: StageState, consumer: StageState) -> Verdict:
        if producer.pending is not None:
            return refuse(
                f"`{producer.name}` is to be computed at {producer.pending.place}",
                mark=(producer.name, None),
                try_=f"s[{producer.name}].compute_root() first",
            )
        if producer.is_opaque or producer.shares or consumer.within != producer.within:
            return refuse(
                f"`{producer.name}` is an extern or belongs to a scan: its loops are its own",
                mark=(producer.name, None),
            )
        alone = only_reader(state, consumer.name, producer.name, (producer.name, None))
        if not alone:
            return alone
        if own_place(consumer, producer) is None:
            return refuse(
                f"`{consumer.name}` does not read `{producer.name}` at its own place only (one axis per "
                "index)",
                mark=(consumer.name, None),
            )
        if producer.compute.reduce_axis:
            return refuse(
                f"`{producer.name}` is a reduction: its value is complete only after its loops",
                mark=(producer.name, None),
                try_=f"s[{consumer.name}].reverse_compute_at(s[{producer.name}], loop)",
            )
        if producer.tensorized is not None or producer.prefetches or producer.store is not None:
            return refuse(
                f"`{producer.name}` is tensorized, prefetches, or is stored elsewhere than it is computed",
                mark=(producer.name, None),
                try_="reverse_compute_inline before those calls",
            )
        # the value goes the other way, the loops this one: what compute_inline asks has to hold too
        return ComputeInline(producer.name).check(change_roots(state, producer))

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        consumer = state.stage(self.stage)
        (producer,) = _producers(state, consumer)
        same = own_place(consumer, producer)
        assert same is not None
        relations = mirrored(producer, consumer, same)
        inside = [
            _moved(st, producer, consumer, same)
            for st in state.stages
            if any(_hangs(p, producer) for p in _places(st))
        ]
        state = ComputeInline(producer.name).apply(change_roots(state, producer))[0]
        taken = change(
            state.stage(self.stage),
            relations=relations,
            leaves=tuple(same[iv] for iv in producer.leaves),
            attach=producer.attach,
            kinds={same[iv]: kind for iv, kind in producer.kinds.items()},
            # what was said of a loop that cache_write took along stays behind
            pragmas={same[iv]: notes for iv, notes in producer.pragmas.items() if iv in same},
        )
        return state.with_stage(taken, *inside), None

    @staticmethod
    def call(stage: Stage) -> None:
        """Write this elementwise stage into the stage it reads, whose loops it takes over.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[z].reverse_compute_inline()
        >>> print(s.tree())
        root
        └─ loop z.i          0..8
           └─ loop z.j       0..32
              └─ compute z   reads x
        """
        stage.do(ReverseComputeInline(stage.name))


def _producers(state: ScheduleState, consumer: StageState) -> list[StageState]:
    found = {state.of(t).name: state.of(t) for t in consumer.compute.input_tensors}
    return [st for st in found.values() if not st.is_placeholder]


def change_roots(state: ScheduleState, producer: StageState) -> ScheduleState:
    """The state with nothing computed inside the producer: what is will move to the consumer with its
    loops."""
    return state.with_stage(*[change(st, attach=None, store=None) for st in state.attached(producer.name)])


def _places(st: StageState) -> tuple[At | str | None, ...]:
    return (st.attach, st.store, *((st.pending.place, st.pending.store) if st.pending is not None else ()))


def _hangs(place: At | str | None, producer: StageState) -> bool:
    return isinstance(place, At) and place.stage == producer.name


def _moved(st: StageState, producer: StageState, consumer: StageState, same: dict[Any, Any]) -> StageState:
    """A stage whose places inside the producer are now those inside the consumer."""

    def there(place: Any) -> Any:
        if not _hangs(place, producer):
            return place
        return At(consumer.name, next(same[iv].name for iv in producer.leaves if iv.name == place.loop))

    pending = None if st.pending is None else Pending(there(st.pending.place), there(st.pending.store))
    return change(st, attach=there(st.attach), store=there(st.store), pending=pending)
