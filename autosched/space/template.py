"""Variants of a task: what its template gives, or the sketches that rules derive. Knows tasks, sketches and
variants.

A template is a plain function ``template(s, tensors)`` that makes schedule calls with ``s.sample_*``: it runs
once, with the sampled values left symbolic. Each place that ``s.sample_location`` may choose makes a variant,
for a place is structure and no number.
"""

from __future__ import annotations

import itertools
from weakref import WeakKeyDictionary

import tensorlang as tl
from tensorlang.core.collector import uncollected
from tensorlang.errors import counted

from ..task import SearchTask
from .rules import RULES, Where, chosen
from .sketch import MAX_SKETCHES, Sketches, derive, opened
from .variant import Variant

MAX_VARIANTS = 32  # of one task
NAMED = 4  # rules that a note names


class Variants(list[Variant]):
    """Variants, the default schedule first; ``left_out`` says what the limits of their number
    cut off, a line each; ``nothing``, why there is nothing to decide but that schedule, else empty."""

    left_out: tuple[str, ...] = ()
    nothing: str = ""


# of the last task, by the number of sketches: who guesses, looks and then tunes has it analysed once
_last: WeakKeyDictionary[SearchTask, dict[int, Variants]] = WeakKeyDictionary()


def variants_of(task: SearchTask, most: int = MAX_SKETCHES) -> Variants:
    """The variants to search, at most ``MAX_VARIANTS``, of at most ``most`` sketches. Without a template, the
    first is the default schedule with its tile sizes left open. Asked again of the same task, the answer is
    the same, unless a template or rules of the task's own take part, which are the user's code.

    Raises TensorLangError for a template that samples nothing.
    """
    with uncollected():  # schedules and their analyses are small objects, and all of them stay
        return _kept(task, most)


def _kept(task: SearchTask, most: int) -> Variants:
    """Those made before, where there are any."""
    if task.template is not None or task.rules:
        return _made(task, most)
    known = _last.get(task)
    if known is None:
        # the spaces of large programs are large: of one task at a time
        _last.clear()
        known = _last[task] = {}
    if most not in known:
        # a limit that leaves nothing out is as good as another
        whole = next((v for v in known.values() if not v.left_out and len(v) <= most), None)
        known[most] = whole or _made(task, most)
    return known[most]


def _made(task: SearchTask, most: int) -> Variants:
    derived = (
        Sketches()
        if task.template is not None
        else derive(
            task.schedule(), Where(task.target), chosen(task.name, task.rules, RULES, task.without), most
        )
    )
    found = _sketches(task, derived) if task.template is None else [_template(task)]
    placed = [(why, p) for why, s in found for p in placements(s)]
    declared = int(task.flops)
    variants = Variants()
    for why, s in placed[:MAX_VARIANTS]:
        variants.append(
            Variant(s, task.target, task.limits, why, declared, variants[0] if variants else None)
        )
    variants.left_out = (*_said(derived.left_out), *_more(len(placed) - MAX_VARIANTS))
    if task.template is None and len(variants) == 1 and not variants[0].domains:
        variants.nothing = _nothing(variants[0].base)
    return variants


def _said(steps: tuple[str, ...]) -> list[str]:
    """What the limit of sketches left out, in words."""
    named = ", ".join(sorted(steps)[:NAMED]) + (
        f" and {len(steps) - NAMED} more" if len(steps) > NAMED else ""
    )
    return [f"in none of the {MAX_SKETCHES} sketches there may be: {named}"] if steps else []


def _more(places: int) -> list[str]:
    return (
        [f"{places} more places of stages than the {MAX_VARIANTS} variants there may be"]
        if places > 0
        else []
    )


def _template(task: SearchTask) -> tuple[tuple[str, ...], tl.Schedule]:
    assert task.template is not None
    s = task.schedule()
    returned = task.template(s, task.tensors)
    if isinstance(returned, tl.Schedule):
        s = returned
    if s.pending:
        raise tl.TensorLangError(
            f"{task.name}: the template leaves {', '.join(s.pending)} waiting",
            because="; ".join(s.pending.values()),
            try_="the calls that make the place legal, or compute_root",
        )
    if not s.decisions:
        raise tl.TensorLangError(
            f"{task.name}: the template samples nothing",
            because="there is exactly one candidate",
            try_="s.sample_tile(loop, …) where the template has a number",
        )
    return ("template",), s


def _sketches(task: SearchTask, derived: Sketches) -> list[tuple[tuple[str, ...], tl.Schedule]]:
    default = task.default_schedule()
    known = opened(task.schedule(), default, Where(task.target))
    result = [(("default schedule",), known), *[(x.rules, x.schedule) for x in derived]]
    if not any(s.decisions for _, s in result) and len({s.trace.to_json() for _, s in result}) == 1:
        return result[:1]
    return result


def _nothing(s: tl.Schedule) -> str:
    """That no rule knows what to do with the stages of a computation, such as a number or a scan."""
    parts = ", ".join(f"{st.name} ({_kind(st)})" for st in s.stages if not st.state.is_placeholder)
    return f"nothing to tune: no rule decides anything about {parts}; the default schedule is kept"


def _kind(stage: tl.Stage) -> str:
    st = stage.state
    return st.what if st.is_opaque else counted(len(stage.leaf_iter_vars), "loop")


def placements(s: tl.Schedule) -> list[tl.Schedule]:
    """The schedule with each combination of the places its ``sample_location`` calls may choose; those that
    later calls do not fit are left out. What the schedule has now comes first."""
    places = {d.name: d.bounds[0] for d in s.state.decisions if d.role == "location"}
    if not places:
        return [s]
    found = [s]
    now = tuple(s.decisions[name][0] for name in places)
    for values in itertools.islice(
        itertools.product(*[range(lo, hi + 1) for lo, hi in places.values()]), 4 * MAX_VARIANTS
    ):
        if values == now:
            continue
        trace = s.trace.with_decisions({name: (v,) for name, v in zip(places, values, strict=True)})
        try:
            placed = trace.apply(s.fresh())
        except tl.ScheduleError:
            continue
        if not placed.pending:
            found.append(placed)
    return found[:MAX_VARIANTS]
