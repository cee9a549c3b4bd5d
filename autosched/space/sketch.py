"""Sketches: schedules with open tile sizes, derived by rules from the outputs backwards, as in Ansor (Zheng
et al., OSDI 2020, section 4.1). Knows rules and schedules; nothing of tasks, search or measurement.

The stages are visited last first, in rounds until no rule has anything left to say: at first only by what is
certain (a rule answers ALWAYS), then by everything. At a stage every open sketch is tried, and every rule
that applies gives the sketches that go on. A rule takes a stage once, so that the rounds end. Ways are given
likely ones first, and they are made only when they are among the ``MAX_SKETCHES`` likeliest: those with the
least sum of places in those orders. Each further stage that is not scheduled in its likeliest way counts
``APART`` more, so that every way of every stage comes before all pairs of ways, and time grows with the
number of stages, not with the product of their ways.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tensorlang as tl

from .rules import RULES, Answer, Rule, Where

MAX_SKETCHES = 16
MAX_ROUNDS = 64  # through all stages: more means that a rule makes stages without end
APART = 4  # places in the order of ways that a second stage scheduled unlikely counts beyond its own


@dataclass(frozen=True, slots=True)
class Sketch:
    """A schedule with knobs, the rules that made it with the stages they were applied to, and how unlikely
    the ways taken are."""

    schedule: tl.Schedule
    rules: tuple[str, ...] = ()
    rank: int = 0


class Sketches(list[Sketch]):
    """Sketches, likely ones first. ``left_out`` names what the limit of their number cut off, as
    ``"rule: stage"``: rules that apply to a stage, and that no sketch here has taken there."""

    left_out: tuple[str, ...] = ()


def derive(
    start: tl.Schedule, where: Where, rules: Sequence[Rule] = RULES, most: int = MAX_SKETCHES
) -> Sketches:
    """At most ``most`` sketches, likely ones first; ``left_out`` of the result says which rules that cut off.

    Raises TensorLangError when a rule makes stages without end.
    """
    level: list[_Open] = [(Sketch(start), frozenset())]
    cut: dict[str, None] = {}
    for _ in range(MAX_ROUNDS):
        # inlining and other certain steps first: what is left to decide is then smaller, and the same in
        # every sketch
        after = _round(level, where, rules, most, cut, certain=True)
        if after == level:
            after = _round(level, where, rules, most, cut, certain=False)
        if after == level:
            result = _different([x for x, _ in level])
            result.left_out = tuple(cut.keys() - {step for x in result for step in x.rules})
            return result
        level = after
    raise tl.TensorLangError(
        "sketches do not end",
        because=f"after {MAX_ROUNDS} rounds rules still apply: {', '.join(level[0][0].rules[-3:])}, …",
        try_="a rule must not apply to stages it made itself",
    )


_Open = tuple[Sketch, frozenset[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class _Ways:
    """The sketches that go on from one at a stage, made as they are asked for; ``steps`` are the rules."""

    made: Iterator[_Open]
    steps: tuple[str, ...]


def _round(
    level: list[_Open], where: Where, rules: Sequence[Rule], most: int, cut: dict[str, None], certain: bool
) -> list[_Open]:
    """Every stage once, last first. ``cut`` gets the rules of which ways were not asked for, or not kept."""
    # consumers before producers: where a producer may be computed depends on the loops of its reader
    for name in reversed(list(dict.fromkeys(st.name for x, _ in level for st in x.schedule.state.stages))):
        ways = [_ways(x, taken, name, where, rules, certain) for x, taken in level]
        if any(w is not None for w in ways):
            level = _likeliest(level, ways, most)
            if len(level) == most:
                cut.update((step, None) for w in ways if w is not None for step in w.steps)
    return level


def _ways(
    sketch: Sketch,
    taken: frozenset[tuple[str, str]],
    name: str,
    where: Where,
    rules: Sequence[Rule],
    certain: bool,
) -> _Ways | None:
    """How a sketch may go on at a stage, made one by one as they are asked for; None when no rule has
    anything to say."""
    s = sketch.schedule
    # another sketch has made this stage
    if name not in s.state.position:
        return None
    answers = [(r, r.applies(s, s[name], where)) for r in rules if (r.name, name) not in taken]
    chosen = [r for r, answer in answers if answer is Answer.ALWAYS][:1] or (
        [] if certain else [r for r, answer in answers if answer is Answer.APPLY]
    )
    if not chosen:
        return None
    after = taken | {(r.name, name) for r in chosen}
    made = (
        (Sketch(x, (*sketch.rules, f"{rule.name}: {name}")), after)
        for rule in chosen
        for x in rule.apply(s, s[name], where)
        # a rule that made no call has nothing to add: its sketch would be the one before
        if len(x.trace) > len(s.trace)
    )
    return _Ways(made, tuple(f"{rule.name}: {name}" for rule in chosen))


def _likeliest(level: list[_Open], ways: Sequence[_Ways | None], most: int) -> list[_Open]:
    """The sketches that go on, likeliest first; one that no way goes on from stays as it is."""
    result: list[_Open] = []
    heap = [
        (x.rank, i, 0) for i, (x, _) in enumerate(level)
    ]  # the rank of the next way of sketch i, which is its n-th
    while heap and len(result) < most:
        rank, i, n = heapq.heappop(heap)
        before, options = level[i], ways[i]
        made = next(options.made, None) if options is not None else None
        if made is not None:
            result.append((Sketch(made[0].schedule, made[0].rules, rank), made[1]))
            # the next way of the same sketch: its rank is known before it is made, so that only those that
            # are kept are made
            heapq.heappush(heap, (before[0].rank + n + 1 + (APART if before[0].rank else 0), i, n + 1))
        elif n == 0:
            result.append(before)
    return result


def _different(sketches: list[Sketch]) -> Sketches:
    """Those that do not make the same calls as one before."""
    found: dict[tl.Trace, Sketch] = {}
    for x in sketches:
        found.setdefault(x.schedule.trace, x)
    return Sketches(found.values())


def opened(s: tl.Schedule, made: tl.Schedule, where: Where) -> tl.Schedule:
    """The calls of ``made``, a schedule of plain numbers, repeated on ``s`` with its split factors left open.

    The factor of an axis stays as it is where a layout has it too: a panel and the tile that reads it have
    one width. The values sampled at first are the numbers ``made`` had.
    """
    steps = made.trace.steps
    numbers = {
        n
        for p in steps
        if p.name == "transform_layout"
        for _, *digit in p.arguments()["digits"]
        for n in digit
    }
    kinds = {
        (a["stage"], a["loop"]): p.name
        for p in steps
        for a in [p.arguments()]
        if p.name in ("vectorize", "unroll", "parallel")
    }
    for p in steps:
        a = p.arguments()
        fixed = a.get("factor") in numbers and not str(a["loop"]).endswith(".outer")
        if p.name == "split" and isinstance(a["factor"], int) and not fixed and a["factor"] <= 1024:
            _open(s, a, kinds, where)
        else:
            s.step(p.name, **a)
    return s


def _open(s: tl.Schedule, a: dict[str, object], kinds: dict[tuple[str, str], str], where: Where) -> None:
    stage, factor = s[str(a["stage"])], int(a["factor"])  # type: ignore[call-overload]
    trial = s.copy()
    _, inner = trial.step("split", **a)
    kind = kinds.get((stage.name, inner.name), "serial")
    loop = stage.loop(str(a["loop"]))
    name = s.free_decision(f"{stage.name}.{loop.name}")
    if kind == "vectorize":
        lanes = where.lanes(stage)
        s.sample_tile(
            loop,
            candidates=sorted({factor, lanes, *[lanes * v for v in (1, 2, 3, 4, 6, 8)]}),
            values=factor,
            role="vector",
            name=name,
        )
    else:
        most = max(factor, 16) if kind == "unroll" else max(factor, 64)
        s.sample_tile(
            loop, max_factor=most, values=factor, role="unroll" if kind == "unroll" else "tile", name=name
        )
    s.step("split", **{**a, "factor": s.knob(f"{name}.0")})
