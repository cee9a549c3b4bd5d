"""Any operator: default schedules of representative shapes, replayed with sizes open. Knows traces and times;
no operators.

What a careful hand writes for 64 rows of 1000 differs from what it writes for 1000 rows of 7: widths of
vectors, tiles, whether to pack, where to share work out. A trace of the one replays on the open computation
wherever it is legal there (its tails become guards and masks), and is then right for every size; which is
fastest where is measured. Schedules tuned for a representative shape (``records``) count among them.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import recipes, te
from tensorlang.analysis import constant

from ...records import Record, RecordLog, best_of
from ...task import SearchTask
from ...tuning.adopted import Adopted
from ..declaration import Declaration
from ..growth import Term, terms_of
from ..kernel_times import are_seconds, times
from ..plan import UNSERVED, Measured
from . import conv, products
from .base import Box, Options, Settings
from .generic import LABEL, facts, generic

PER_DIM = {1: 9, 2: 5, 3: 3}  # representative sizes of each dim, by how many dims there are
MOST = 25  # representative shapes
POINTS = 48  # shapes at which the variants are measured
# seconds of a call that is not worth waiting for: larger shapes take after the largest that are measured
SLOW = 10e-3
# times the fastest: a variant that is measured roughly there, for it will hardly be picked near there
HOPELESS = 1.6
FAR, LOST = (
    4.0,
    3,
)  # times the fastest, at this many shapes in a row: a variant that is not timed at larger ones
GAIN = 0.002  # by which a variant must speed up the whole to be kept
KEPT = 12
ALLOCATION = b"tensorlang_alloc"  # in the code of a kernel that allocates in a call
COMPILING = 10.0  # seconds of making variants; what is not made by then is left out

Steps = tuple[tuple[str, int], ...]  # (dim, step) for each axis that is computed in whole tiles
Made = tuple[tuple[str, str], tl.Schedule, list[te.Tensor], Steps]


def variants(decl: Declaration, box: Box, settings: Settings) -> Options | None:
    """The family, None when no schedule but the generic one is worth having."""
    base = generic(decl, box, settings)
    dims = base.dims
    if not all(d in box for d in dims):
        return None
    modules: dict[tuple[str, str], tl.Module] = {}
    steps: dict[tuple[str, str], Steps] = {}
    end = time.perf_counter() + COMPILING
    for label, schedule, tensors, counted in schedules(decl, box, settings, dims):
        if time.perf_counter() > end:
            break
        try:
            module = tl.build(
                schedule, tensors, decl.target, name=decl.short_name, constants=decl.values(tensors)
            )
        except tl.TensorLangError:
            continue  # legal step by step, but not to be lowered with sizes open
        # several short rows at a time, opened to long ones, may be more than has room on the stack
        allocates = ALLOCATION in module.object_code and ALLOCATION not in base.like.object_code
        if tuple(d.name for d in module.signature.dims) == dims and not allocates:
            modules[label], steps[label] = module, counted
    modules[LABEL] = base.like  # last: what is as fast is the one without conditions
    outputs = [t for t in decl.stated(facts(box, settings.opt)) if not isinstance(t.op, te.PlaceholderOp)]
    steps[LABEL] = _steps(recipes.default_schedule(outputs, decl.target))
    if len(modules) == 1:
        return None
    what = [
        "variants",
        decl.key,
        sorted(decl.constants),
        [list(x) for x in modules],
        {d: list(box[d]) for d in dims},
    ]
    shapes, seconds = _known(settings, what, len(modules)) or _measured(
        decl, box, settings, dims, list(modules.values()), what
    )
    keep = _worth(seconds)
    labels = [label for i, label in enumerate(modules) if i in keep]
    routes = [modules[label] for label in labels]
    plans = Measured(
        tuple(labels),
        tuple(shapes),
        tuple(tuple(row[i] for i in keep) for row in seconds),
        tuple(_least(m) for m in routes),
        tuple(tuple((dims.index(d), n) for d, n in steps.get(label, ())) for label in labels),
        _terms(base.like),
    )
    return Options("variants", base.like, dims, routes, plans, len(routes) - 1, len(modules))


def _terms(module: tl.Module) -> tuple[Term, ...]:
    """The products of sizes that its work is made of."""
    return terms_of(
        [at for _, at in module.signature.work if all(slot < len(module.signature.dims) for slot in at)]
    )


def _steps(schedule: tl.Schedule) -> Steps:
    """What the loops of the result count its open sizes in."""
    found = []
    for stage in schedule.stages:
        open_ = (
            {a: name for a in stage.op.axis if isinstance(name := products.size_of(a), str)}
            if stage.state.is_output
            else {}
        )
        for relation in stage.state.relations:
            factor = getattr(relation, "factor", None)
            step = None if factor is None or relation.parents[0] not in open_ else constant(factor)
            if step is not None:
                found.append((open_[relation.parents[0]], step))
    return tuple(found)


def _least(module: tl.Module) -> tuple[int, ...]:
    """The sizes a kernel takes at least."""
    return tuple(d.lo or 0 for d in module.signature.dims)


def schedules(decl: Declaration, box: Box, settings: Settings, dims: Sequence[str]) -> Iterator[Made]:
    """(name and what it is, schedule, tensors, steps in which it counts sizes) of each different schedule
    that is legal with sizes open, for all sizes in the box or for all from some on."""

    def stated(least: Mapping[str, int]) -> list[te.Tensor]:
        if any(n > box[d][1] for d, n in least.items()):
            return []
        raised = {
            d: (max(lo, -(-least.get(d, 0) // decl.dims[d].multiple_of) * decl.dims[d].multiple_of), hi)
            for d, (lo, hi) in box.items()
        }
        return decl.stated(facts(raised, {d: max(settings.opt[d], raised[d][0]) for d in box}))

    for family in (products, conv):
        for t in family.schedules_of(stated, decl.target, list(decl.constants), tl.num_threads()):
            yield (t.name, f"register tiles of {t.name}"), t.schedule, t.tensors, t.steps
    seen: set[str] = set()
    tuned = None if settings.records is None else RecordLog(settings.records)
    for shape in representatives(box, dims, settings.opt, multiples_of(decl)):
        fixed = decl.fixed(shape)
        outputs = [t for t in fixed if not isinstance(t.op, te.PlaceholderOp)]
        traces = [
            (
                "as for",
                recipes.default_schedule(outputs, decl.target, constants=list(decl.values(fixed))).trace,
            )
        ]
        best = None if tuned is None else _best(tuned, SearchTask.of(fixed, decl.target))
        if best is not None:
            traces.append(("tuned for", best.trace()))
        for word, trace in traces:
            if trace.to_json() in seen:
                continue
            seen.add(trace.to_json())
            tensors = decl.stated(facts(box, shape))
            schedule = _replayed(trace, tensors)
            if schedule is None:
                continue
            description = (
                f"the {'default' if word == 'as for' else 'tuned'} schedule of "
                f"{', '.join(f'{d}={n}' for d, n in shape.items())}"
            )
            named = f"{word} {'×'.join(str(shape[d]) for d in dims)}", description
            yield named, schedule, tensors, _steps(schedule)


def _replayed(trace: tl.Trace, tensors: Sequence[te.Tensor]) -> tl.Schedule | None:
    """The schedule that a trace of known sizes makes of open ones; None where one of its steps needed to know
    them."""
    schedule = tl.create_schedule([t for t in tensors if not isinstance(t.op, te.PlaceholderOp)])
    try:
        trace.apply(schedule)
    except tl.ScheduleError:
        return None
    return None if schedule.pending else schedule


def _best(log: RecordLog, task: SearchTask) -> Record | None:
    return best_of(Adopted(task).own(log), task.workload_key, str(task.target))


def representatives(
    box: Box, dims: Sequence[str], opt: Mapping[str, int], multiples: Mapping[str, int]
) -> list[dict[str, int]]:
    """Sizes far apart, in proportion: the expected ones first."""
    count = PER_DIM.get(len(dims), 2)
    grids = [_spread(box[d], count, multiples[d]) for d in dims]
    every = [dict(zip(dims, row, strict=True)) for row in itertools.product(*grids)]
    if len(every) > MOST:
        every = [every[i] for i in sorted(np.random.default_rng(0).permutation(len(every))[:MOST])]
    first = {d: _spread((opt[d], opt[d]), 1, multiples[d])[0] for d in dims}
    return [first, *(s for s in every if s != first)]


def multiples_of(decl: Declaration) -> dict[str, int]:
    """By what each dim counts."""
    return {name: d.multiple_of for name, d in decl.dims.items()}


def _spread(span: tuple[int, int], count: int, by: int) -> list[int]:
    """Sizes from the least to the most, in proportion, none of them zero."""
    least, most = max(by, -(-span[0] // by) * by), max(by, span[1] // by * by)
    return sorted({max(by, round(x / by) * by) for x in np.geomspace(least, most, count)})


def _points(box: Box, dims: Sequence[str], multiples: Mapping[str, int]) -> list[dict[str, int]]:
    """Shapes to measure at, smallest first: log-uniform, and the corners of what is small."""
    rng = np.random.default_rng(1)
    rows = [rng.permutation(_spread(box[d], POINTS, multiples[d])) for d in dims]
    picked = {tuple(int(r[i % len(r)]) for r in rows) for i in range(POINTS)}
    picked.add(tuple(int(min(r)) for r in rows))
    return [
        dict(zip(dims, s, strict=True))
        for s in sorted(picked, key=lambda s: float(np.prod(np.array(s, dtype=float))))
    ]


def _measured(
    decl: Declaration,
    box: Box,
    settings: Settings,
    dims: Sequence[str],
    modules: Sequence[tl.Module],
    what: Any,
) -> tuple[list[tuple[int, ...]], list[tuple[float, ...]]]:
    """Seconds of every module at every point, measured now."""
    shapes: list[tuple[int, ...]] = []
    seconds: list[tuple[float, ...]] = []
    points = _points(box, dims, multiples_of(decl))
    least = [_least(m) for m in modules]
    lost = [0] * len(modules)
    for shape in points:
        args = [
            a.copy() for a in decl.arrays(shape)
        ]  # wherever numpy puts them, as those of callers: a variant may care for lines
        sizes = tuple(shape[d] for d in dims)
        taken = [
            i
            for i in range(len(modules))
            if all(a <= n for a, n in zip(least[i], sizes, strict=True)) and lost[i] < LOST
        ]
        found = times(
            {i: functools.partial(modules[i].entry, *args) for i in taken},
            settings.seconds / len(points),
            HOPELESS,
        )
        for i in taken[:-1]:  # the last takes every size
            lost[i] = lost[i] + 1 if found[i] > FAR * min(found.values()) else 0
        shapes.append(sizes)
        seconds.append(tuple(found.get(i, UNSERVED) for i in range(len(modules))))
        if min(found.values()) > SLOW:
            break
    settings.tables.write(what, {"shapes": shapes, "seconds": seconds})
    return shapes, seconds


def _known(
    settings: Settings, what: Any, count: int
) -> tuple[list[tuple[int, ...]], list[tuple[float, ...]]] | None:
    table = settings.tables.read(what)
    if table is None:
        return None
    try:
        shapes, seconds = [tuple(s) for s in table["shapes"]], [tuple(s) for s in table["seconds"]]
        sound = len(shapes) == len(seconds) > 0 and all(len(s) == count and are_seconds(s) for s in seconds)
        sound = sound and all(type(n) is int and n >= 0 for s in shapes for n in s)
    except (KeyError, TypeError):
        sound = False
    if not sound:
        settings.tables.misses.append("its contents make no sense")
        return None
    return shapes, seconds


def _worth(seconds: Sequence[Sequence[float]]) -> list[int]:
    """The variants to keep, the generic one among them: greedily, those that speed up the whole the most."""
    log = np.log(np.maximum(np.array(seconds), 1e-9))
    keep = [log.shape[1] - 1]
    now = log[:, -1]
    while len(keep) < min(KEPT, log.shape[1]):
        gains = [float((now - np.minimum(now, log[:, i])).mean()) for i in range(log.shape[1])]
        best = int(np.argmax(gains))
        if gains[best] < GAIN:
            break
        keep.append(best)
        now = np.minimum(now, log[:, best])
    return sorted(keep)
