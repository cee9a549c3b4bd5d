"""reverse_compute_at: a consumer moves into the loops of its producer.

``for i.outer: for i.inner: P`` and ``for i: C reads P[i]`` with s[C].reverse_compute_at(s[P], i.outer) →
``for i.outer: { for i.inner: P; for i.rest: C }``

The loops around both are the consumer's, cut like the producer's; the producer is computed in them. So the
consumer must read one element of the producer at its own place: the region an iteration needs and the region
an iteration makes are then the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...expr.nodes import Expr, Var
from ...expr.walk import preorder
from ...te.axis import REDUCE, IterVar
from ...te.tensor import TensorRead
from ..legality.places import place_verdict
from ..legality.verdict import YES, Verdict, refuse
from ..relations import Fuse, Relation, Singleton, Split
from ..state import At, ScheduleState, StageState, change
from .base import Primitive, check_loop, check_parent, check_stage, fresh_loop_name, position
from .fields import LoopName, StageName

if TYPE_CHECKING:
    from ..python_text import Writer
    from ..schedule import Stage


@dataclass(frozen=True, slots=True)
class ReverseComputeAt(Primitive):
    """Compute ``stage`` inside ``loop`` of ``at``, one of the stages it reads."""

    stage: StageName
    at: StageName
    loop: LoopName
    name = "reverse_compute_at"

    def check(self, state: ScheduleState) -> Verdict:
        for verdict in (check_stage(state, self.stage), check_loop(state, self.at, self.loop)):
            if not verdict:
                return verdict
        for check in (self._check_roots, self._check_readers, self._check_consumer, self._check_loops):
            verdict = check(state)
            if not verdict:
                return verdict
        return YES

    def _stages(self, state: ScheduleState) -> tuple[StageState, StageState, tuple[str, str]]:
        """The consumer, which moves, the producer, whose loops it gets, and where a message points."""
        return state.stage(self.stage), state.stage(self.at), (self.at, self.loop)

    def _check_roots(self, state: ScheduleState) -> Verdict:
        """Both are stages with loops of their own, in no other stage."""
        consumer, producer, mark = self._stages(state)
        if producer.is_output:
            return refuse(
                f"`{self.at}` is an output: the caller wants all of it",
                mark=mark,
                try_=f"one te.compute of both, lambda …: ({self.at}'s, {self.stage}'s), for one nest; or "
                f"leave {self.stage} at root",
            )
        if producer.is_opaque and not producer.is_scan:
            return refuse(f"`{self.at}` is an extern: it has no loops", mark=mark)
        if (
            producer.is_scan
            or producer.shares
            or consumer.is_scan
            or consumer.shares
            or consumer.attach is not None
        ):
            return refuse(
                f"`{self.at}` or `{self.stage}` belongs to a scan or is computed inside another stage",
                mark=mark,
            )
        if producer.attach is not None:
            return refuse(f"`{self.at}` is computed inside another stage already", mark=mark)
        for st in (producer, consumer):
            if st.pending is not None:
                return refuse(
                    f"`{st.name}` is to be computed at {st.pending.place}",
                    mark=mark,
                    try_=f"s[{st.name}].compute_root() first",
                )
        return YES

    def _check_readers(self, state: ScheduleState) -> Verdict:
        return only_reader(state, self.stage, self.at, (self.at, self.loop))

    def _check_consumer(self, state: ScheduleState) -> Verdict:
        """The consumer reads each element at its own place, and nothing has been said of its loops."""
        consumer, producer, _ = self._stages(state)
        if consumer.relations or consumer.kinds or state.attached(self.stage):
            return refuse(
                f"`{self.stage}` is scheduled already: its loops are to be those of `{self.at}`",
                mark=(self.stage, None),
                try_="reverse_compute_at before any other primitive of the stage",
            )
        if consumer.compute.reduce_axis:
            return refuse(
                f"`{self.stage}` is a reduction: it reads more than one element of `{self.at}`",
                mark=(self.stage, None),
                try_=f"s[{self.at}].compute_at(s[{self.stage}], loop)",
            )
        if own_place(consumer, producer) is None:
            return refuse(
                f"`{self.stage}` does not read `{self.at}` at its own place only (one axis per index)",
                mark=(self.stage, None),
                try_=f"s[{self.at}].compute_at(s[{self.stage}], loop)",
            )
        return YES

    def _check_loops(self, state: ScheduleState) -> Verdict:
        """The loops around the place may hold two stages: what is in them is complete at each iteration."""
        _, producer, mark = self._stages(state)
        for iv in producer.leaves[: position(producer, self.loop) + 1]:
            if iv.kind == REDUCE:
                return refuse(
                    f"loop {self.at}.{iv.name} reduces: `{self.at}` is not complete inside it", mark=mark
                )
            if producer.kind(iv) in ("vectorized", "unrolled"):
                return refuse(f"loop {self.at}.{iv.name} is {producer.kind(iv)}", mark=mark)
        for inside in state.attached(self.at):
            if isinstance(inside.attach, At) and position(producer, inside.attach.loop) <= position(
                producer, self.loop
            ):
                return refuse(
                    f"`{inside.name}` is computed at {self.at}.{inside.attach.loop}, a loop that becomes one "
                    f"of `{self.stage}`",
                    mark=mark,
                    try_=f"move {inside.name} afterwards",
                )
        return YES

    def apply(self, state: ScheduleState) -> tuple[ScheduleState, Any]:
        consumer, producer = state.stage(self.stage), state.stage(self.at)
        same = own_place(consumer, producer)
        assert same is not None
        outer = producer.leaves[: position(producer, self.loop) + 1]
        relations = mirrored(producer, consumer, same)
        ours = [same[iv] for iv in outer]
        rest = [same[iv] for iv in producer.leaves[len(outer) :] if iv.kind != REDUCE]
        kinds = {same[iv]: producer.kinds[iv] for iv in outer if iv in producer.kinds}
        consumer = change(consumer, relations=relations, leaves=(*ours, *rest), kinds=kinds)
        # the outer loops are the consumer's now, with what was said of them
        kept = {k: v for k, v in producer.kinds.items() if all(k is not iv for iv in outer)}
        producer = change(producer, attach=At(self.stage, ours[-1].name), kinds=kept)
        state = state.with_stage(consumer, producer)
        # the checks above are the rules of compute_at, seen from the other stage
        assert place_verdict(state, producer, consumer, ours[-1].name)
        return state, None

    def python(self, w: Writer) -> None:
        w.line(w.placing(self, self.stage, self.at, self.loop))
        w.renewed(self.stage, self.at, layout=True)

    @staticmethod
    def call(stage: Stage, parent: Stage, loop: IterVar | str) -> None:
        """Compute this stage inside ``loop`` of ``parent``, a stage it reads element by element.

        >>> x = te.placeholder((8, 32), name="x")
        >>> y = te.compute((8, 32), lambda i, j: x[i, j] * 2, name="y")
        >>> z = te.compute((8, 32), lambda i, j: y[i, j] + 1, name="z")
        >>> s = te.create_schedule(z)
        >>> s[z].reverse_compute_at(s[y], "i")
        >>> print(s.tree())
        root
        └─ loop z.i             0..8
           ├─ storage y         float32[1, 32]  global  128 B
           ├─ loop y.i          0..1
           │  └─ loop y.j       0..32
           │     └─ compute y   reads x
           └─ loop z.j          0..32
              └─ compute z      reads y
        """
        check_parent("reverse_compute_at", stage, parent)
        stage.do(ReverseComputeAt(stage.name, parent.name, parent.loop_name("reverse_compute_at", loop)))


def only_reader(state: ScheduleState, reader: str, producer: str, mark: tuple[str, str | None]) -> Verdict:
    """Whether ``reader`` alone reads ``producer``."""
    readers = [r.name for r in state.readers(producer)]
    if readers == [reader]:
        return YES
    others = [f"`{r}`" for r in readers if r != reader]
    also = f"{', '.join(others)} read{'s' if len(others) == 1 else ''} it too"
    if len(others) == len(readers):
        also = f"`{reader}` does not read it"
    return refuse(f"`{producer}` must be read by `{reader}` alone, but {also}", mark=mark)


def mirrored(
    producer: StageState, consumer: StageState, same: dict[IterVar, IterVar]
) -> tuple[Relation, ...]:
    """The producer's relations of data loops as relations of the consumer; ``same``, axis to axis at first,
    gets every loop made."""
    relations: list[Relation] = []
    work = consumer
    for rel in producer.relations:
        # the consumer has no such loops
        if rel.children[0].kind == REDUCE:
            continue
        made = tuple(
            IterVar(Var(fresh_loop_name(work, c.name), c.dtype, "loop"), None, c.kind) for c in rel.children
        )
        same.update(zip(rel.children, made, strict=True))
        new: Relation
        if isinstance(rel, Split):
            new = Split(same[rel.parent], made[0], made[1], rel.factor, rel.nparts, rel.tail)
        elif isinstance(rel, Singleton):
            new = Singleton(made[0])
        else:
            new = Fuse(same[rel.outer], same[rel.inner], made[0])
        relations.append(new)
        work = change(work, relations=tuple(relations))
    return tuple(relations)


def own_place(consumer: StageState, producer: StageState) -> dict[IterVar, IterVar] | None:
    """The consumer's axis for each axis of the producer, when it reads exactly the element at its own
    place."""
    by_var = {a.var: a for a in consumer.compute.axis}
    result: dict[IterVar, IterVar] | None = None
    for e in consumer.compute.body:
        for node in preorder(e):
            if type(node) is TensorRead and node.tensor.op is producer.key:
                here = _match(producer.compute.axis, node.indices, by_var)
                if here is None or (result is not None and any(result[a] is not here[a] for a in here)):
                    return None
                result = here
    if result is None or len(result) != len(by_var):
        return None
    return result


def _match(
    axes: tuple[IterVar, ...], indices: tuple[Expr, ...], by_var: dict[Var, IterVar]
) -> dict[IterVar, IterVar] | None:
    out: dict[IterVar, IterVar] = {}
    for a, i in zip(axes, indices, strict=True):
        # every index one axis, over the whole of the producer: each element is read by exactly one iteration
        if type(i) is not Var or i not in by_var or by_var[i].extent is not a.extent:
            return None
        out[a] = by_var[i]
    return out if len({id(v) for v in out.values()}) == len(out) else None
