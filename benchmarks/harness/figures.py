"""What a result says: shares of the roofline, summaries by suite, and the figures the project sets itself,
each passed or failed by the data.

Works on results as read from JSON only.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from scipy.special import stdtrit

Entry = dict[str, Any]
OURS = "tensorlang"
YARDSTICK = "tensorlang f32"
CUBES = {f"{n}x{n}x{n}": f"{n}³" for n in (1024, 2048)}
LISTED, OTHERS = 0.95, 0.9  # under which no case lies: of the suite of what fell behind once, of the others
LONG = 1e-3  # seconds from which two threads must pay
COMPUTE = ("matmul", "conv", "attention", "int8")
BANDWIDTH = (
    "softmax",
    "layer_norm",
    "batch_norm_relu",
    "gelu",
    "sum_last",
    "sum_first",
    "max_last",
    "max_first",
    "transpose",
)


@dataclass(frozen=True)
class Figure:
    """``passed`` is None when the data says nothing about it."""

    what: str
    wanted: str
    found: str
    passed: bool | None


def ours(entry: Entry) -> Entry | None:
    """Our times of a case, or None when there are none."""
    mine = entry["peers"].get(OURS)
    return mine if mine is not None and mine["status"] == "ok" else None


def share(entry: Entry) -> float | None:
    """Part of the roofline bound: 1 is as fast as this machine can."""
    mine = ours(entry)
    return entry["bound"] / mine["median"] if mine and "bound" in entry else None


def geomean(values: Iterable[float]) -> float:
    values = list(values)
    return math.exp(statistics.fmean(math.log(v) for v in values)) if values else math.nan


def ratios(entries: Iterable[Entry]) -> list[float]:
    return [e["ratio"] for e in entries if "ratio" in e]


def groups(result: Entry) -> dict[tuple[str, str, int], list[Entry]]:
    """The cases by suite, class of weights and number of threads: what is compared like for like."""
    found: dict[tuple[str, str, int], list[Entry]] = {}
    for e in result["cases"]:
        found.setdefault((e["suite"], e["weights"], e["threads"]), []).append(e)
    return found


def group_name(suite: str, weights: str, threads: int) -> str:
    return (
        f"{suite}, {threads} "
        f"thread{'s' if threads > 1 else ''}{', packed weights' if weights == 'packed' else ''}"
    )


@dataclass(frozen=True)
class Summary:
    """Of the ratios against the best peer in the cases of one suite, class of weights and number of
    threads."""

    suite: str
    weights: str
    threads: int
    cases: int
    compared: int
    geomean: float
    worst: float
    worst_case: str
    ahead: float  # share of cases at 1.0 or better


def summaries(result: Entry) -> list[Summary]:
    found = []
    for (suite, weights, threads), entries in groups(result).items():
        with_ratio = [e for e in entries if "ratio" in e]
        if not with_ratio:
            found.append(Summary(suite, weights, threads, len(entries), 0, math.nan, math.nan, "", math.nan))
            continue
        worst = min(with_ratio, key=lambda e: e["ratio"])
        values = ratios(with_ratio)
        found.append(
            Summary(
                suite,
                weights,
                threads,
                len(entries),
                len(values),
                geomean(values),
                worst["ratio"],
                f"{worst['name']} {worst['note']}".strip(),
                sum(v >= 1 for v in values) / len(values),
            )
        )
    return found


def figures(result: Entry) -> list[Figure]:
    """Every figure, in the order of the project's table, for each class of weights and number of threads
    apart."""
    found = []
    for (suite, weights, threads), entries in groups(result).items():
        if suite in RULES:
            name = group_name(suite, weights, threads)
            found += [
                Figure(f"{name}: {f.what}" if f.what else name, f.wanted, f.found, f.passed)
                for f in RULES[suite](entries)
            ]
    return [*found, *_threads(result["cases"]), *_compile(result["cases"])]


def spread(entry: Entry) -> tuple[float, float]:
    """The 95 % interval of a case's ratio over its separate runs (Student's t of the logarithms); the ratio
    itself after one run."""
    runs = [math.log(r) for r in entry.get("runs", [entry["ratio"]])]
    if len(runs) < 2:
        return entry["ratio"], entry["ratio"]
    middle = statistics.fmean(runs)
    width = stdtrit(len(runs) - 1, 0.975) * statistics.stdev(runs) / math.sqrt(len(runs))
    return math.exp(middle - width), math.exp(middle + width)


def _ahead(mean: float, least: float) -> Callable[[list[Entry]], list[Figure]]:
    """Geomean, cases at 1.0 or better, and a floor under every case."""

    def rule(entries: list[Entry]) -> list[Figure]:
        entries = [e for e in entries if "ratio" in e]
        values = ratios(entries)
        wanted = f"geomean ≥ {mean}× the best peer, ≥ 1.0× in ≥ 90 % of cases"
        floor = f"no case whose 95 % interval over separate runs lies under {least}×"
        if not values:
            return [Figure("", wanted, "no data", None), Figure("floor", floor, "no data", None)]
        good = sum(v >= 1 for v in values) / len(values)
        under = [e for e in entries if spread(e)[1] < least]
        worst = min(entries, key=lambda e: e["ratio"])
        return [
            Figure(
                "",
                wanted,
                f"{geomean(values):.2f}×, {good:.0%} of {len(values)} cases",
                geomean(values) >= mean and good >= 0.9,
            ),
            Figure(
                "floor",
                floor,
                f"{len(under)} of {len(values)} cases, lowest {worst['ratio']:.2f}× ({worst['name']})",
                not under,
            ),
        ]

    return rule


def _matmul(entries: list[Entry]) -> list[Figure]:
    big = [
        (name, part)
        for e in entries
        if (name := CUBES.get(e["name"])) and e["threads"] == 1 and (part := share(e)) is not None
    ]
    return [
        *_ahead(1.03, OTHERS)(entries),
        *(Figure(name, "≥ 85 % of the measured peak", f"{part:.0%}", part >= 0.85) for name, part in big),
    ]


def _memory(entries: list[Entry]) -> list[Figure]:
    named = [e for e in entries if e["op"] in BANDWIDTH]
    large = {e["name"]: s for e in named if e["note"] == "memory" and (s := share(e)) is not None}
    wanted = "≥ 0.85 of the bandwidth bound out of cache"
    if not large:
        return [Figure("bandwidth", wanted, "no data", None), *_ahead(1.15, OTHERS)(entries)]
    worst = min(large, key=lambda n: large[n])
    reached = sum(s >= 0.85 for s in large.values())
    return [
        Figure(
            "bandwidth",
            wanted,
            f"{reached} of {len(large)} cases, worst {large[worst]:.2f} ({worst})",
            reached == len(large),
        ),
        *_ahead(1.15, OTHERS)(entries),
    ]


def _int8(entries: list[Entry]) -> list[Figure]:
    values = [e["ratios"][YARDSTICK] for e in entries if YARDSTICK in e.get("ratios", {})]
    wanted = "≥ 1.5× our own f32 in operations a second"
    found = f"geomean {geomean(values):.2f}×, worst {min(values):.2f}×" if values else "no data"
    return [
        *_ahead(1.15, OTHERS)(entries),
        Figure("beside f32", wanted, found, min(values) >= 1.5 if values else None),
    ]


def _threads(entries: list[Entry]) -> list[Figure]:
    """Our own time on one thread over that on two, by case, where it is bound by operations and takes long
    enough."""
    times: dict[tuple[str, ...], dict[int, Entry]] = {}
    for e in entries:
        if e["suite"] in COMPUTE and ours(e):
            times.setdefault((e["suite"], e["name"], e["weights"]), {})[e["threads"]] = e
    values = {
        " ".join(key): ours(t[1])["median"] / ours(t[2])["median"]
        for key, t in times.items()  # type: ignore[index]
        if {1, 2} <= set(t) and ours(t[1])["median"] >= LONG and t[1].get("limit") == "operations"
    }  # type: ignore[index]
    wanted = "≥ 1.8× on compute-bound cases of 1 ms and more"
    if not values:
        return [Figure("two threads against one", wanted, "no data", None)]
    worst = min(values, key=lambda n: values[n])
    reached = sum(v >= 1.8 for v in values.values())
    text = f"{reached} of {len(values)} cases, worst {values[worst]:.2f}× ({worst})"
    return [Figure("two threads against one", wanted, text, reached == len(values))]


def _compile(entries: list[Entry]) -> list[Figure]:
    seconds = {f"{e['suite']} {e['name']}": mine["prepare"] for e in entries if (mine := ours(e))}
    if not seconds:
        return []
    worst = max(seconds, key=lambda n: seconds[n])
    return [
        Figure(
            "declaring and compiling an operator",
            "≤ 0.3 s",
            f"{seconds[worst]:.2f} s at most ({worst}), median {statistics.median(seconds.values()):.2f} s",
            seconds[worst] <= 0.3,
        )
    ]


RULES: dict[str, Callable[[list[Entry]], list[Figure]]] = {
    "matmul": _matmul,
    "conv": _ahead(1.15, OTHERS),
    "depthwise": _ahead(1.15, OTHERS),
    "memory": _memory,
    "attention": _ahead(1.15, OTHERS),
    "int8": _int8,
    "floor": _ahead(1.15, LISTED),
    "drawn": _ahead(1.15, OTHERS),
}
