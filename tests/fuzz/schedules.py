"""Random sequences of legal primitives on a schedule, and random calls that are mostly not legal. Knows the
public schedule only."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from tensorlang.errors import ScheduleError
from tensorlang.expr import make
from tensorlang.expr.nodes import const_int
from tensorlang.expr.walk import substitute
from tensorlang.schedule.bounds import bounds_of
from tensorlang.schedule.legality.tensorize import mismatched
from tensorlang.schedule.primitives import BY_NAME
from tensorlang.schedule.schedule import Schedule
from tensorlang.schedule.state import INLINED, At, StageState
from tensorlang.te.axis import REDUCE

from .draw import drawn, wild
from .functions import DOUBLE, GEMV

FACTORS = (1, 2, 3, 4, 5, 7, 8, 8, 16, 16, 32, 100)
WIDER = {
    "int8": "int32",
    "uint8": "int16",
    "int16": "int32",
    "int32": "int64",
    "float16": "float32",
    "bfloat16": "float32",
    "float32": "float64",
}
EARLY = {"tensorize", "reverse_compute_at", "reverse_compute_inline", "compute_inline", "transform_layout"}
MAX_COPIES = 24  # of a statement by unrolled loops of one stage
NEEDS = {  # what a refused step may lack
    "store_at": ("compute_at",),
    "compute_root": ("compute_at",),
    "reorder": ("split",),
    "fuse": ("split",),
    "set_scope": ("cache_write", "cache_read"),
    "storage_align": ("cache_write", "cache_read"),
    "compute_at": ("cache_write", "cache_read"),
    "compute_inline": ("cache_read", "cache_write"),
    "reverse_compute_at": ("cache_write",),
    "reverse_compute_inline": ("cache_write",),
    "double_buffer": ("compute_at",),
    "sample_location": ("cache_write",),
    "transform_layout": ("cache_write",),
}


class Sampler:
    """Makes random steps on ``s``; a refused one leaves it as it was and is counted."""

    def __init__(self, s: Schedule, rng: random.Random) -> None:
        self.s = s
        self.rng = rng
        self.refused: Counter[str] = Counter()

    # -- what there is ---------------------------------------------------------------------------------------

    def stages(self) -> list[StageState]:
        return [st for st in self.s.state.stages if not st.is_placeholder and st.attach != INLINED]

    def extent(self, st: StageState, loop: Any) -> int | None:
        """The present number of iterations of a loop; None when a run-time size decides it."""
        chosen = {
            k: make.const(v, k.dtype)
            for d in self.s.state.decisions
            for k, v in zip(d.knobs, d.values, strict=False)
        }
        return const_int(substitute(bounds_of(self.s.state)[st.name].loops[loop], chosen))

    def stage_with_loops(self, least: int = 1, axes: int = 0) -> StageState:
        found = [s for s in self.stages() if len(s.leaves) >= least and (not axes or s.compute.axis)]
        if not found:
            raise ScheduleError("nothing to schedule")
        return self.rng.choice(found)

    # -- steps -----------------------------------------------------------------------------------------------

    def split(self) -> None:
        st = self.stage_with_loops()
        loop = self.rng.choice(st.leaves)
        tail = self.rng.choices(
            ("auto", "guard", "peel", "shift"), (7, 1, 2, 1 if loop.kind != "reduce" else 0)
        )[0]
        if self.rng.random() < 0.7:
            self.s[st.name].split(loop.name, factor=self.rng.choice(FACTORS), tail=tail)
        else:
            self.s[st.name].split(loop.name, nparts=self.rng.choice((1, 2, 3, 4, 7, 50)), tail=tail)

    def tile(self) -> None:
        st = self.stage_with_loops(2)
        x, y = sorted(self.rng.sample(range(len(st.leaves)), 2))
        self.s[st.name].tile(
            st.leaves[x].name, st.leaves[y].name, self.rng.choice(FACTORS), self.rng.choice(FACTORS)
        )

    def fuse(self) -> None:
        st = self.stage_with_loops(2)
        n = min(len(st.leaves), self.rng.choice((2, 2, 3)))
        p = self.rng.randint(0, len(st.leaves) - n)
        self.s[st.name].fuse(*[iv.name for iv in st.leaves[p : p + n]])

    def reorder(self) -> None:
        st = self.stage_with_loops(2)
        some = self.rng.sample(st.leaves, self.rng.randint(2, len(st.leaves)))
        self.s[st.name].reorder(*[iv.name for iv in some])

    def vectorize(self) -> None:
        st = self.stage_with_loops()
        loop = st.leaves[-1] if self.rng.random() < 0.5 else self.rng.choice(st.leaves)
        n = self.extent(st, loop)
        if n is not None and n > (16 if self.rng.random() < 0.9 else 64):
            _, inner = self.s[st.name].split(loop.name, factor=self.rng.choice((2, 3, 4, 8, 16)))
            loop = inner
        self.s[st.name].vectorize(loop.name)

    def unroll(self) -> None:
        st = self.stage_with_loops()
        loop = self.rng.choice(st.leaves)
        n = self.extent(st, loop)
        copies = 1
        for iv in st.leaves:
            if st.kind(iv) == "unrolled":
                copies *= self.extent(st, iv) or 1
        if n is not None and n * copies > MAX_COPIES:
            return
        self.s[st.name].unroll(loop.name)

    def parallel(self) -> None:
        st = self.stage_with_loops()
        self.s[st.name].parallel(
            st.leaves[0].name if self.rng.random() < 0.6 else self.rng.choice(st.leaves).name
        )

    def compute_at(self) -> None:
        """To a legal place, or now and then to one that later calls could make legal."""
        ahead = self.rng.random() < 0.3
        movable = [
            (
                st,
                [p[:2] for p in self.s.legal_places(st.name, pending=True)]
                if ahead
                else self.s.legal_places(st.name),
            )
            for st in self.stages()
            if not st.is_output
        ]
        movable = [(st, places) for st, places in movable if places]
        if not movable:
            raise ScheduleError("nothing can move")
        st, places = self.rng.choice(movable)
        target, loop = self.rng.choice(places)
        self.s[st.name].compute_at(self.s[target], self.s[target].loop(loop))

    def settle(self) -> None:
        """A place for every stage that waits: its readers brought there, or else the stage sent home."""
        for _ in range(3 * len(self.s.state.stages)):
            pending = [st for st in self.s.state.stages if st.pending is not None]
            if not pending:
                return
            st = pending[-1]
            assert st.pending is not None
            place = st.pending.place
            outside = [
                r for r in self.s.state.readers(st.name) if r.name != place.stage and r.attach != place
            ]
            moved = False
            if outside and self.rng.random() < 0.8:
                target = self.s[place.stage]
                moved = any(
                    self.s.can("compute_at", r.name, target, place.loop)
                    and self.s[r.name].compute_at(target, place.loop) is None
                    for r in outside
                )
            if not moved and st.within is not None:
                self.s.sample_location(st.name, value=0)
            elif not moved:
                self.s[st.name].compute_root()

    def compute_root(self) -> None:
        self.s[self.stage_with_loops().name].compute_root()

    def compute_inline(self) -> None:
        self.s[self.stage_with_loops().name].compute_inline()

    def cache_read(self) -> None:
        state = self.s.state
        sources = [st for st in state.stages if st.attach != INLINED and state.readers(st.name)]
        if not sources:
            raise ScheduleError("nothing is read")
        source = self.rng.choice(sources)
        readers = [r.name for r in state.readers(source.name)]
        some = self.rng.sample(readers, self.rng.randint(1, len(readers)))
        tensor = self.s.tensor(source.name, self.rng.randrange(len(source.op.outputs)))
        # not drawn: seeds keep their schedules
        wide = WIDER.get(tensor.dtype.name, "") if len(state.stages) % 3 == 0 else ""
        self.s.cache_read(tensor, self.rng.choice(("local", "global")), some, wide)

    def cache_write(self) -> None:
        self.s.cache_write(self.stage_with_loops().name, self.rng.choice(("local", "local", "global")))

    def sample_tile(self) -> None:
        st = self.stage_with_loops()
        loop = self.rng.choice(st.leaves)
        parts = self.rng.choice((1, 1, 2))
        candidates = self.rng.choice((None, None, (2, 4, 8, 16)))
        got = self.s.sample_tile(loop, parts, max_factor=self.rng.choice((4, 8, 16)), candidates=candidates)
        knobs = got if isinstance(got, tuple) else (got,)
        name = loop.name
        for knob in knobs:
            outer, _ = self.s[st.name].split(name, factor=knob)
            name = outer.name

    def sample_categorical(self) -> None:
        st = self.stage_with_loops()
        knob = self.s.sample_categorical(self.rng.choice(((1, 2, 4), (3, 5), (8,))))
        self.s[st.name].split(
            self.rng.choice(st.leaves).name, **{self.rng.choice(("factor", "nparts")): knob}
        )

    def sample_location(self) -> None:
        movable = [st for st in self.stages() if not st.is_output]
        if not movable:
            raise ScheduleError("nothing can move")
        st = self.rng.choice(movable)
        self.s.sample_location(st.name, value=self.rng.randint(0, len(self.s.legal_places(st.name))))

    def reverse_compute_at(self) -> None:
        """Consumers into the loops of what they read: loops with no consumer of their own first, then any two
        stages."""
        state = self.s.state
        near = [
            (st, at)
            for st in self.stages()
            for at in self.stages()
            if at is not st
            and at.leaves
            and not at.is_output
            and any(t.op is at.op or t in at.op.outputs for t in st.op.input_tensors)
        ]
        fit = [
            (st, at)
            for st, at in near
            if not st.relations
            and not st.kinds
            and st.attach is None
            and at.attach is None
            and [r.name for r in state.readers(at.name)] == [st.name]
        ]
        if not near:
            raise ScheduleError("no stage reads another")
        st, target = self.rng.choice(fit if fit and self.rng.random() < 0.9 else near)
        loops = [iv for iv in target.leaves if iv.kind != REDUCE] or list(target.leaves)
        self.s[st.name].reverse_compute_at(
            self.s[target.name], self.rng.choice(loops[:2] if self.rng.random() < 0.6 else loops).name
        )

    def reverse_compute_inline(self) -> None:
        """A consumer into the one stage it reads; those that are refused for their place are tried too."""
        self.s[self.rng.choice(self.stages()).name].reverse_compute_inline()

    def double_buffer(self) -> None:
        """Of a stage inside a loop, mostly: elsewhere it changes nothing."""
        inside = [st for st in self.stages() if isinstance(st.attach, At)]
        self.s[
            self.rng.choice(inside if inside and self.rng.random() < 0.9 else self.stages()).name
        ].double_buffer()

    def rfactor(self) -> None:
        found = [
            (st, iv)
            for st in self.stages()
            for iv in st.leaves
            if iv.kind == REDUCE and (self.extent(st, iv) or 99) <= 40
        ]
        if not found:
            raise ScheduleError("nothing is reduced")
        st, iv = self.rng.choice(found)
        self.s.rfactor(st.name, iv.name, self.rng.randint(0, len(st.compute.axis)))

    def set_scope(self) -> None:
        self.s[self.stage_with_loops().name].set_scope(self.rng.choice(("local", "global")))

    def store_at(self) -> None:
        attached = [st for st in self.stages() if isinstance(st.attach, At)]
        if not attached:
            raise ScheduleError("nothing is attached")
        st = self.rng.choice(attached)
        assert isinstance(st.attach, At)
        target = self.s.state.stage(st.attach.stage)
        self.s[st.name].store_at(self.s[target.name], self.rng.choice(target.leaves).name)

    def storage_align(self) -> None:
        st = self.stage_with_loops(axes=1)
        self.s[st.name].storage_align(
            self.rng.choice(st.compute.axis).name, self.rng.choice((1, 4, 8, 13)), self.rng.choice((0, 0, 3))
        )

    def transform_layout(self) -> None:
        inputs = [
            st
            for st in self.s.state.stages
            if st.is_placeholder and len(st.op.outputs[0].shape) > 0 and not st.shares
        ]
        if inputs and self.rng.random() < 0.3:
            st = self.rng.choice(inputs)
            extents: list[Any] = list(st.op.outputs[0].shape)
        else:
            st = self.stage_with_loops(axes=1)
            extents = [a.extent for a in st.compute.axis]
        rank, cut = len(extents), self.rng.choice((2, 3, 4, 8))
        order = self.rng.sample(range(rank), rank)
        split = self.rng.randrange(rank) if self.rng.random() < 0.6 else None
        size = const_int(extents[order[-1]])
        merge = rank > 1 and order[-1] != split and size is not None and size > 0 and self.rng.random() < 0.3

        def index_map(*i: Any) -> list[Any]:
            out = [i[d] // cut if d == split else i[d] for d in order]
            if merge:  # the last two as one number
                last = out.pop()
                out[-1] = out[-1] * size + last
            return out if split is None else [*out, i[split] % cut]

        pad = self.rng.choice((None, None, 3)) if not st.is_placeholder else None
        self.s[st.name].transform_layout(index_map, pad_value=pad)

    def decompose_reduction(self) -> None:
        st = self.stage_with_loops()
        self.s[st.name].decompose_reduction(self.rng.choice(st.leaves).name)

    def columns(self) -> None:
        """The lanes of a vector along an outer axis, over reductions written out: reads at a distance, side
        by side."""
        found = [
            st
            for st in self.stages()
            if st.compute.reduce_axis and any(iv.kind != REDUCE for iv in st.leaves)
        ]
        if not found:
            raise ScheduleError("nothing is reduced")
        st = self.rng.choice(found)
        copies = 1
        for iv in st.leaves:
            n = self.extent(st, iv) if iv.kind == REDUCE else None
            if n is not None and n * copies <= MAX_COPIES:
                self.s[st.name].unroll(iv.name)
                copies *= n
        loop = next(iv for iv in st.leaves if iv.kind != REDUCE)
        n = self.extent(st, loop)
        if n is None or n > 16:
            _, loop = self.s[st.name].split(loop.name, factor=self.rng.choice((4, 8, 16)))
        self.s[st.name].vectorize(loop.name)

    def pragma(self) -> None:
        st = self.stage_with_loops()
        self.s[st.name].pragma(
            self.rng.choice(st.leaves).name, "auto_unroll_max_step", self.rng.choice((4, 16, 64))
        )

    def prefetch(self) -> None:
        st = self.stage_with_loops()
        tensors = [t for t in st.op.input_tensors if self.s.state.stage(t.op.name).attach != INLINED]
        if not tensors:
            raise ScheduleError("nothing is read")
        loop, ahead = self.rng.choice(st.leaves).name, self.rng.choice((0, 1, 2, 5))
        self.s[st.name].prefetch(self.rng.choice(tensors), loop, ahead, share=self.rng.random() < 0.3)

    def tensorize(self) -> None:
        """Give a stage the innermost loops of an intrinsic, by splits if need be, and ask for it. All or
        nothing."""
        rng = self.rng
        stages = [st for st in self.stages() if st.leaves and not st.is_opaque and len(st.compute.axis) == 2]
        rng.shuffle(stages)
        for st in stages:
            t = str(st.op.outputs[0].dtype)
            if len(st.compute.reduce_axis) == 1 and rng.random() < 0.9:
                sizes = [(rows, columns, it) for rows, columns, kind, it in GEMV.values() if kind == t]
                names = (st.compute.axis[1].name, st.compute.reduce_axis[0].name)
            elif not st.compute.reduce_axis:
                sizes = [(n, 0, it) for n, kind, it in DOUBLE.values() if kind == t]
                names = (st.compute.axis[1].name,)
            else:
                continue
            rng.shuffle(sizes)
            for rows, columns, intrin in sizes:
                trial = self.s.copy()
                try:
                    inner = [
                        trial[st.name].split(loop, factor=n)[1].name
                        for loop, n in zip(names, (rows, columns), strict=False)
                    ]
                    rest = [iv.name for iv in trial.state.stage(st.name).leaves if iv.name not in inner]
                    trial[st.name].reorder(*rest, *inner)
                    trial[st.name].tensorize(inner[0], intrin)
                except ScheduleError:
                    continue
                for step in trial.trace.steps[len(self.s.trace) :]:
                    self.s.perform(step)
                return
        raise ScheduleError("no intrinsic fits")

    WEIGHTS = {
        "split": 10,
        "tile": 4,
        "fuse": 6,
        "reorder": 8,
        "vectorize": 8,
        "unroll": 6,
        "parallel": 4,
        "compute_at": 10,
        "compute_root": 2,
        "compute_inline": 2,
        "cache_read": 4,
        "cache_write": 5,
        "sample_tile": 2,
        "sample_categorical": 1,
        "sample_location": 1,
        "reverse_compute_at": 2,
        "rfactor": 3,
        "set_scope": 1,
        "store_at": 4,
        "storage_align": 1,
        "transform_layout": 2,
        "decompose_reduction": 2,
        "pragma": 1,
        "reverse_compute_inline": 1,
        "double_buffer": 2,
        "columns": 2,
    }

    def choices(self) -> tuple[list[str], list[int]]:
        """What may be drawn and how often: the steps with a weight, and every primitive of the table that has
        no method here."""
        others = [name for name in BY_NAME if not hasattr(self, name)]
        return [*self.WEIGHTS, *others], [*self.WEIGHTS.values(), *(2 for _ in others)]

    def step(self, name: str | None = None) -> bool:
        """One random step, or one of that name; whether anything was done."""
        name = name or self.rng.choices(*self.choices())[0]
        made = len(self.s.trace)
        before = self.s.copy()
        try:
            getattr(self, name, lambda: drawn(self.s, BY_NAME[name], self.rng))()
        except ScheduleError:
            self.refused[name] += 1
        if any(mismatched(self.s.state, pending=True)):  # legal; nothing here would find what fits now
            self.s._state, self.s._steps = before._state, before._steps
            self.refused[name] += 1
        return len(self.s.trace) > made

    def wanted(self, name: str, tries: int = 8) -> bool:
        """A step of that name, with other arguments when it is refused, and with what it needs made first."""
        for n in range(tries):
            if self.step(name):
                return True
            if n % 3 == 2 and name in NEEDS:
                self.step(self.rng.choice(NEEDS[name]))
        return False


def random_steps(s: Schedule, rng: random.Random, most: int = 15, wish: tuple[str, ...] = ()) -> list[str]:
    """Up to ``most`` random legal steps, those of ``wish`` among them if they can be; the names of the
    primitives made, in order."""
    sampler = Sampler(s, rng)
    wanted = rng.randint(0, most)
    todo = rng.sample(wish, len(wish))
    if EARLY & set(wish) and rng.random() < 0.7:  # little is left of what they need when much has been done
        if "tensorize" in wish and rng.random() < 0.7:
            todo.sort(key=lambda name: name != "tensorize")  # popped last
        while todo:
            sampler.wanted(todo.pop())
    for n in range(3 * wanted):
        if len(s.trace) >= wanted:
            break
        if todo and rng.random() < len(todo) / max(1, wanted - n):
            sampler.wanted(todo.pop())
        else:
            sampler.step()
    for name in reversed(todo):
        sampler.wanted(name)
    sampler.settle()
    return [p.name for p in s.trace.steps]


# --- calls that are mostly wrong ----------------------------------------------------------------------------


def random_call(s: Schedule, rng: random.Random, foreign: list[Any]) -> Callable[[], Any]:
    """A primitive with arguments drawn without thought: other stages' loops, wild numbers, wrong types."""
    stages = s.state.stages
    names = [st.name for st in stages]
    loops = [iv for st in stages if not st.is_placeholder for iv in st.all_loops()]
    things = [*loops, *[iv.name for iv in loops], *foreign, "nowhere", 3, None]
    numbers = [
        0,
        -1,
        1,
        2,
        3,
        8,
        1000,
        2**31,
        2**70,
        None,
        "4",
        2.5,
        True,
        s.knob("no.0"),
        s.knob("nothing"),
        *foreign,
    ]

    def thing() -> Any:
        return rng.choice(loops) if loops and rng.random() < 0.5 else rng.choice(things)

    def number() -> Any:
        return rng.choice(numbers)

    stage = s[rng.choice(names)]
    other = rng.choice([s[rng.choice(names)], s[rng.choice(names)], rng.choice(names), *foreign])
    key = rng.choice([*names, *[st.op.outputs[0] for st in stages], "nowhere", *foreign])
    return rng.choice(
        (
            lambda: stage.split(
                thing(),
                factor=number(),
                nparts=rng.choice((None, None, number())),
                tail=rng.choice(("auto", "auto", "mask", "wild")),
            ),
            lambda: stage.split(thing(), nparts=number()),
            lambda: stage.tile(thing(), thing(), number(), number()),
            lambda: stage.fuse(*[thing() for _ in range(rng.randint(0, 3))]),
            lambda: stage.reorder(*[thing() for _ in range(rng.randint(0, 4))]),
            lambda: stage.vectorize(thing()),
            lambda: stage.unroll(thing()),
            lambda: stage.parallel(thing()),
            lambda: stage.compute_at(other, thing()),
            lambda: stage.compute_root(),
            lambda: stage.compute_inline(),
            lambda: s.cache_read(
                key,
                rng.choice(("local", "global", "shared", None)),
                [rng.choice(names) for _ in range(rng.randint(0, 3))],
            ),
            lambda: s.cache_write(key, rng.choice(("local", "global", "wild", 3))),
            lambda: s.sample_tile(
                thing(),
                rng.choice((1, 2, 0, 9, -1)),
                max_factor=rng.choice((1, 16, 0, 5000)),
                candidates=rng.choice((None, (), (2, 4), (0,), (2, "x"))),
                values=rng.choice((None, 1, (2, 2), 99)),
                name=rng.choice((None, None, "t")),
                role=rng.choice(("tile", "wild")),
            ),
            lambda: s.step(
                rng.choice(("split", "vectorize", "nonsense", "compute_at")),
                stage=rng.choice(names),
                loop=rng.choice(("i", "j")),
            ),
            lambda: wild(s, BY_NAME[rng.choice(list(BY_NAME))], rng),
            lambda: s[key],
            lambda: s.rfactor(key, thing(), rng.choice((0, 1, -1, 7))),
            lambda: stage.reverse_compute_at(other, thing()),
            lambda: stage.reverse_compute_inline(),
            lambda: stage.double_buffer(),
            lambda: stage.store_at(other, thing()),
            lambda: stage.set_scope(rng.choice(("local", "global", "shared", None))),
            lambda: stage.storage_align(thing(), rng.choice((0, 1, 8, -3)), rng.choice((0, 1, -1))),
            lambda: stage.decompose_reduction(thing()),
            lambda: stage.pragma(
                thing(),
                rng.choice(("auto_unroll_max_step", "unroll_explicit", "wild")),
                rng.choice((None, 0, 16, -1, 10**6)),
            ),
            lambda: stage.transform_layout(
                rng.choice(
                    (
                        lambda *i: i[::-1],
                        lambda i: [i],
                        lambda *i: [*i[:1]],
                        lambda *i: [x // 3 for x in i],
                        lambda i, j: [i, j // 4, j % 4],
                        lambda i, j: i + j,
                        lambda *i: 3,
                    )
                )
            ),
            lambda: s.sample_categorical(
                rng.choice(((1, 2), (), (0,), (2, "x"))), value=rng.choice((None, 2, 77))
            ),
            lambda: s.sample_location(key, value=rng.choice((None, 0, 1, 50, -1))),
        )
    )
