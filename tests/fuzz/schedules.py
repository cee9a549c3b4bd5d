"""Random sequences of legal primitives on a schedule, and random calls that are mostly not legal. Knows the public schedule only."""

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
from tensorlang.schedule.schedule import Schedule
from tensorlang.schedule.state import INLINED, StageState

FACTORS = (1, 2, 3, 4, 5, 7, 8, 8, 16, 16, 32, 100)
MAX_COPIES = 24  # of a statement by unrolled loops of one stage


class Sampler:
    """Makes random steps on ``s``; a refused one leaves it as it was and is counted."""

    def __init__(self, s: Schedule, rng: random.Random) -> None:
        self.s = s
        self.rng = rng
        self.refused: Counter[str] = Counter()

    # -- what there is -----------------------------------------------------------------------------------------------

    def stages(self) -> list[StageState]:
        return [st for st in self.s.state.stages if not st.is_placeholder and st.attach != INLINED]

    def extent(self, st: StageState, loop: Any) -> int | None:
        """The present number of turns of a loop; None when a run-time size decides it."""
        chosen = {k: make.const(v, k.dtype) for d in self.s.state.decisions for k, v in zip(d.knobs, d.values, strict=True)}
        return const_int(substitute(bounds_of(self.s.state)[st.name].loops[loop], chosen))

    def stage_with_loops(self, least: int = 1) -> StageState:
        found = [st for st in self.stages() if len(st.leaves) >= least]
        if not found:
            raise ScheduleError("nothing to schedule")
        return self.rng.choice(found)

    # -- steps -------------------------------------------------------------------------------------------------------

    def split(self) -> None:
        st = self.stage_with_loops()
        loop = self.rng.choice(st.leaves)
        if self.rng.random() < 0.7:
            self.s[st.name].split(loop.name, factor=self.rng.choice(FACTORS))
        else:
            self.s[st.name].split(loop.name, nparts=self.rng.choice((1, 2, 3, 4, 7, 50)))

    def tile(self) -> None:
        st = self.stage_with_loops(2)
        x, y = sorted(self.rng.sample(range(len(st.leaves)), 2))
        self.s[st.name].tile(st.leaves[x].name, st.leaves[y].name, self.rng.choice(FACTORS), self.rng.choice(FACTORS))

    def fuse(self) -> None:
        st = self.stage_with_loops(2)
        n = min(len(st.leaves), self.rng.choice((2, 2, 3)))
        p = self.rng.randint(0, len(st.leaves) - n)
        self.s[st.name].fuse(*[iv.name for iv in st.leaves[p:p + n]])

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
        self.s[st.name].parallel(st.leaves[0].name if self.rng.random() < 0.6 else self.rng.choice(st.leaves).name)

    def compute_at(self) -> None:
        movable = [(st, self.s.legal_places(st.name)) for st in self.stages() if not st.is_output]
        movable = [(st, places) for st, places in movable if places]
        if not movable:
            raise ScheduleError("nothing can move")
        st, places = self.rng.choice(movable)
        target, loop = self.rng.choice(places)
        self.s[st.name].compute_at(self.s[target], self.s[target].loop(loop))

    def compute_root(self) -> None:
        self.s[self.stage_with_loops().name].compute_root()

    def compute_inline(self) -> None:
        self.s[self.stage_with_loops().name].compute_inline()

    def cache_read(self) -> None:
        state = self.s.state
        sources = [st for st in state.stages if st.attach != INLINED and state.readers(st.name)]
        source = self.rng.choice(sources)
        readers = [r.name for r in state.readers(source.name)]
        some = self.rng.sample(readers, self.rng.randint(1, len(readers)))
        tensor = self.s.tensor(source.name, self.rng.randrange(len(source.op.outputs)))
        self.s.cache_read(tensor, self.rng.choice(("local", "global")), some)

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

    WEIGHTS = {"split": 5, "tile": 2, "fuse": 3, "reorder": 4, "vectorize": 4, "unroll": 3, "parallel": 2, "compute_at": 5,
               "compute_root": 1, "compute_inline": 1, "cache_read": 2, "cache_write": 2, "sample_tile": 1}

    def step(self) -> str | None:
        """One random step; its name, or None when it was refused."""
        name = self.rng.choices(list(self.WEIGHTS), list(self.WEIGHTS.values()))[0]
        made = len(self.s.trace)
        try:
            getattr(self, name)()
        except ScheduleError:
            self.refused[name] += 1
        return name if len(self.s.trace) > made else None


def random_steps(s: Schedule, rng: random.Random, most: int = 15) -> list[str]:
    """Up to ``most`` random legal steps; their names in order."""
    sampler = Sampler(s, rng)
    wanted = rng.randint(0, most)
    made: list[str] = []
    for _ in range(3 * wanted):
        if len(made) >= wanted:
            break
        name = sampler.step()
        if name is not None:
            made.append(name)
    return made


# --- calls that are mostly wrong -------------------------------------------------------------------------------------------------

def random_call(s: Schedule, rng: random.Random, foreign: list[Any]) -> Callable[[], Any]:
    """A primitive with arguments drawn without thought: other stages' loops, wild numbers, wrong types."""
    stages = s.state.stages
    names = [st.name for st in stages]
    loops = [iv for st in stages if not st.is_placeholder for iv in st.all_loops()]
    things = [*loops, *[iv.name for iv in loops], *foreign, "nowhere", 3, None]
    numbers = [0, -1, 1, 2, 3, 8, 1000, 2**31, 2**70, None, "4", 2.5, True, s.knob("no.0"), s.knob("nothing"), *foreign]

    def thing() -> Any:
        return rng.choice(loops) if loops and rng.random() < 0.5 else rng.choice(things)

    def number() -> Any:
        return rng.choice(numbers)

    stage = s[rng.choice(names)]
    other = rng.choice([s[rng.choice(names)], s[rng.choice(names)], rng.choice(names), *foreign])
    key = rng.choice([*names, *[st.op.outputs[0] for st in stages], "nowhere", *foreign])
    return rng.choice((
        lambda: stage.split(thing(), factor=number(), nparts=rng.choice((None, None, number())), tail=rng.choice(("auto", "auto", "mask", "wild"))),
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
        lambda: s.cache_read(key, rng.choice(("local", "global", "shared", None)), [rng.choice(names) for _ in range(rng.randint(0, 3))]),
        lambda: s.cache_write(key, rng.choice(("local", "global", "wild", 3))),
        lambda: s.sample_tile(thing(), rng.choice((1, 2, 0, 9, -1)), max_factor=rng.choice((1, 16, 0, 5000)),
                              candidates=rng.choice((None, (), (2, 4), (0,), (2, "x"))), values=rng.choice((None, 1, (2, 2), 99)),
                              name=rng.choice((None, None, "t")), role=rng.choice(("tile", "wild"))),
        lambda: s.step(rng.choice(("split", "vectorize", "nonsense", "compute_at")), stage=rng.choice(names), loop=rng.choice(("i", "j"))),
        lambda: s[key],
    ))
