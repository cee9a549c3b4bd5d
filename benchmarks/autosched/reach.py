"""How many trials it takes to be as good as thousands would be: the fastest of the first 8, 16, … trials of a
pool (see ``pools``) and the fastest of all, timed in turns by processes that know nothing of the search: by
single looks, the fastest of two thousand is the luckiest. Knows autosched's public names and the suite."""

from __future__ import annotations

import statistics
from typing import Any

from autosched import SearchTask
from autosched.records.record import canonical_trace
from autosched.space import variants_of

from .chains import said
from .suites import declared
from .worlds import Pool

AFTER = (1, 8, 16, 32, 64, 128, 256)  # trials
BEST = 3  # of all, of which the fastest in turns counts
PROCESSES = 3
ENOUGH = 0.95
MANY = 1000  # trials that make a long search
Entry = dict[str, Any]


def reached(pool: Pool) -> Entry:
    """For each number of trials, the share of the best speed that the fastest until then has, and the first
    number with enough of it."""
    variants = variants_of(SearchTask.of(declared(pool.name), pool.target, name=pool.name))
    order = sorted(range(len(pool.seconds)), key=lambda n: pool.seconds[n])
    first = [next(k for k in order if pool.trials[k] < n) for n in AFTER]
    steps = [
        canonical_trace(variants[pool.variants[k]].trace_of(pool.rows[k])) for k in [*first, *order[:BEST]]
    ]
    told, _ = said(pool.name, list(dict.fromkeys(["", *steps])), pool.target, PROCESSES)
    place = {s: i for i, s in enumerate(dict.fromkeys(["", *steps]))}
    gains = [statistics.median(t["ratios"][place[s]] for t in told) for s in steps]
    shares = {n: g / max(gains[-BEST:]) for n, g in zip(AFTER, gains, strict=False)}
    return {
        "task": pool.name,
        "trials": max(pool.trials) + 1,
        "gain": max(gains[-BEST:]),
        "shares": {str(n): round(s, 4) for n, s in shares.items()},
        "enough": next((n for n, s in shares.items() if s >= ENOUGH), None),
    }


def table(entries: list[Entry]) -> str:
    """A line a task."""
    lines = [f"{'task':<20}{'trials':>7}{'gain':>7}" + "".join(f"{f'after {n}':>11}" for n in AFTER)]
    for e in entries:
        shares = "".join(f"{e['shares'][str(n)]:>11.2f}" for n in AFTER)
        lines.append(f"{e['task']:<20}{e['trials']:>7}{e['gain']:>7.2f}{shares}")
    middle = [statistics.median(e["shares"][str(n)] for e in entries) for n in AFTER]
    lines.append(f"{'median':<34}" + "".join(f"{m:>11.2f}" for m in middle))
    return "\n".join(lines)
