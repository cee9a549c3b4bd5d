"""Sketches: schedules with open tile sizes, derived by rules from the outputs backwards, as in Ansor (Zheng et al., OSDI 2020, section
4.1). Knows rules and schedules; nothing of tasks, search or measurement.

A work list holds unfinished sketches. Of each, the last stage about which a rule is certain (it answers ALWAYS) is taken, or else the last
about which a rule has something to say, and every rule that applies gives the sketches that go on. A stage is taken once by a rule, so
the list ends. Ways are given likely ones first; when there are more sketches than ``MAX_SKETCHES``, those with the least sum of places in
those orders stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorlang as tl

from .rules import RULES, Answer, Rule, Where

MAX_SKETCHES = 16
MAX_STAGES = 256  # taken in one sketch: more means that a rule makes stages without end


@dataclass(frozen=True, slots=True)
class Sketch:
    """A schedule with knobs, the rules that made it with the stages they were applied to, and how unlikely the ways taken are."""

    schedule: tl.Schedule
    rules: tuple[str, ...] = ()
    rank: int = 0


def derive(start: tl.Schedule, where: Where, rules: Sequence[Rule] = RULES, most: int = MAX_SKETCHES) -> list[Sketch]:
    """At most ``most`` sketches, likely ones first.

    Raises TensorLangError when a rule makes stages without end.
    """
    level: list[_Open] = [(Sketch(start), frozenset())]
    done: list[Sketch] = []
    for _ in range(MAX_STAGES):
        following: list[_Open] = []
        for sketch, taken in level:
            step = _step(sketch, taken, where, rules)
            if step is None:
                done.append(sketch)
            else:
                following += step
        if not following:
            return _best(done, most)
        kept = {id(x) for x in _best([x for x, _ in following], most)}
        level = [(x, taken) for x, taken in following if id(x) in kept]
    raise tl.TensorLangError("sketches do not end", because=f"after {MAX_STAGES} stages rules still apply: {', '.join(level[0][0].rules[-3:])}, …",
                             try_="a rule must not apply to stages it made itself")


def _step(sketch: Sketch, taken: frozenset[tuple[str, str]], where: Where, rules: Sequence[Rule]) -> list[_Open] | None:
    """What follows from the last stage that a rule has something to say about; None when there is none."""
    s = sketch.schedule
    asked = [(stage, [(r, r.applies(s, stage, where)) for r in rules if (r.name, stage.name) not in taken]) for stage in reversed(s.stages)]
    certain = [(stage, [x]) for stage, answers in asked for x in answers if x[1] is Answer.ALWAYS]
    for stage, answers in (*certain, *asked):
        found: list[_Open] = []
        for rule, answer in answers:
            if answer is Answer.SKIP:
                continue
            made = [x for x in rule.apply(s, stage, where) if len(x.trace) > len(s.trace)]
            after = taken | {(r.name, stage.name) for r, _ in answers}
            found += [(Sketch(x, (*sketch.rules, f"{rule.name}: {stage.name}"), sketch.rank + len(found) + i), after) for i, x in enumerate(made)]
        if found:
            return found
    return None


_Open = tuple[Sketch, frozenset[tuple[str, str]]]


def _best(sketches: list[Sketch], most: int) -> list[Sketch]:
    """The likeliest, without those that make the same calls."""
    different: dict[str, Sketch] = {}
    for x in sorted(sketches, key=lambda x: x.rank):  # stable: of equal rank the first stays first
        different.setdefault(x.schedule.trace.to_json(), x)
    return list(different.values())[:most]


def opened(s: tl.Schedule, made: tl.Schedule, where: Where) -> tl.Schedule:
    """The calls of ``made``, a schedule of plain numbers, repeated on ``s`` with its split factors left open.

    The factor of an axis stays as it is where a layout has it too: a panel and the tile that reads it have one width. The values sampled
    at first are the numbers ``made`` had.
    """
    steps = made.trace.steps
    numbers = {n for p in steps if p.name == "transform_layout" for _, *digit in p.arguments()["digits"] for n in digit}
    kinds = {(a["stage"], a["loop"]): p.name for p in steps for a in [p.arguments()] if p.name in ("vectorize", "unroll", "parallel")}
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
        s.sample_tile(loop, candidates=sorted({factor, lanes, *[lanes * v for v in (1, 2, 3, 4, 6, 8)]}), values=factor, role="vector", name=name)
    else:
        most = max(factor, 16) if kind == "unroll" else max(factor, 64)
        s.sample_tile(loop, max_factor=most, values=factor, role="unroll" if kind == "unroll" else "tile", name=name)
    s.step("split", **{**a, "factor": s.knob(f"{name}.0")})

