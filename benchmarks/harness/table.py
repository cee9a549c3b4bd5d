"""Results in the terminal: a table for each suite and number of threads, then summaries and figures. Works on
results as read from JSON only."""

from __future__ import annotations

import statistics
from typing import Any

from rich.console import Console
from rich.table import Table

from .figures import OURS, Entry, figures, ours, share, spread, summaries

QUIET = 0.9  # of a processor on one thread: with less somebody else had the rest


def seconds(value: float) -> str:
    """Three digits and a unit."""
    unit, scale = next(
        ((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)) if value >= s), ("ns", 1e-9)
    )
    number = value / scale
    return f"{number:.{2 if number < 10 else 1 if number < 100 else 0}f} {unit}"


def show_cases(console: Console, entries: list[Entry], peers: list[str], title: str) -> None:
    """One row a case: our time, rate and share of the bound, then how many times faster we are than each peer
    (1.20: by a fifth).

    The spread is the 95 % interval over separate runs, or the quartiles within the only one. Below it, why
    cells are empty. Peers that take part in no case have no column.
    """
    peers = [p for p in peers if any(e["peers"][p]["status"] != "skipped" for e in entries)]
    table = Table(title=f"{title}: times faster than each peer", title_justify="left", pad_edge=False)
    table.add_column("case")
    for name in ("ours", "rate", "of bound", "code", "best peer", "× best", "spread"):
        table.add_column(name, justify="right")
    shown = [p for p in peers if p != OURS]
    for name in shown:
        table.add_column(f"× {name}", justify="right")
    for e in entries:
        table.add_row(*_row(e), *(_cell(e, name) for name in shown))
    console.print(table)
    for note in notes(entries):
        console.print(f"  {note}", style="dim", highlight=False, markup=False)


def threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def _row(e: Entry) -> list[str]:
    mine, part = ours(e), share(e)
    label = " ".join(filter(None, (e["name"], e["note"], "packed" if e["weights"] == "packed" else "")))
    if mine is None:
        return [label, f"[red]{e['peers'][OURS]['status']}[/red]" if OURS in e["peers"] else "–", *[""] * 6]
    low, high = spread(e) if "runs" in e else e.get("ratio_quartiles", (0, 0))
    return [
        label,
        seconds(mine["median"]),
        rate(e, mine["median"]),
        f"{part:.0%}" if part else "",
        kibibytes(mine),
        e.get("best", "–"),
        _coloured(e["ratio"]) if "ratio" in e else "–",
        f"{low:.2f}…{high:.2f}" if "ratio" in e else "",
    ]


def kibibytes(mine: Entry) -> str:
    """The machine code of a kernel."""
    return f"{mine['code'] / 1024:.1f} KiB" if "code" in mine else ""


def rate(e: Entry, time: float) -> str:
    """GFLOP/s of cases bound by operations, GB/s of the others."""
    return (
        f"{e['flops'] / time / 1e9:.1f} GF/s"
        if e.get("limit") == "operations"
        else f"{(e['read'] + e['written']) / time / 1e9:.1f} GB/s"
    )


def _cell(e: Entry, name: str) -> str:
    peer = e["peers"].get(name)
    if peer is None or peer["status"] == "skipped":
        return "–"
    if peer["status"] != "ok":
        return f"[red]{peer['status']}[/red]"
    return _coloured(e["ratios"][name]) if name in e.get("ratios", {}) else seconds(peer["median"])


def _coloured(value: float) -> str:
    colour = "green" if value >= 1 else "yellow" if value >= 0.85 else "red"
    return f"[{colour}]{value:.2f}[/{colour}]"


def notes(entries: list[Entry]) -> list[str]:
    """Each reason for an empty cell once; whoever was wrong, failed, or used more threads than it was
    allowed; a machine that was not quiet."""
    found: dict[str, None] = {}
    for e in entries:
        for name, peer in e["peers"].items():
            if peer["status"] == "skipped":
                found[f"{name}: {peer['note']}"] = None
            elif peer["status"] != "ok":
                found[f"{name} {peer['status']} in {e['name']}: {peer['note']}"] = None
            elif peer.get("busy", 0) > e["threads"] + 0.5:
                found[f"{name} used more than {threads(e['threads'])}"] = None
    shares = [mine["busy"] for e in entries if (mine := ours(e)) and e["threads"] == 1 and "busy" in mine]
    if shares and statistics.median(shares) < QUIET:
        found[
            f"the machine was busy with something else: we had {statistics.median(shares):.0%} of a "
            "processor; measure again"
        ] = None
    return list(found)


def show_summary(console: Console, result: dict[str, Any]) -> None:
    """Geomean, worst and share of cases ahead, by suite; then every figure with its verdict."""
    table = Table(title="against the best peer of each case", title_justify="left", pad_edge=False)
    for name in ("suite", "weights", "threads", "cases", "geomean", "worst", "in", "≥ 1.0×"):
        table.add_column(name, justify="left" if name in ("suite", "weights", "in") else "right")
    for s in summaries(result):
        if s.compared:
            table.add_row(
                s.suite,
                s.weights,
                str(s.threads),
                f"{s.compared} of {s.cases}",
                _coloured(s.geomean),
                _coloured(s.worst),
                s.worst_case,
                f"{s.ahead:.0%}",
            )
        else:
            table.add_row(s.suite, s.weights, str(s.threads), f"0 of {s.cases}", "–", "–", "", "–")
    console.print(table)
    table = Table(title="figures", title_justify="left", pad_edge=False)
    for name in ("what", "wanted", "found", ""):
        table.add_column(name)
    for f in figures(result):
        table.add_row(
            f.what,
            f.wanted,
            f.found,
            {True: "[green]pass[/green]", False: "[red]fail[/red]", None: "–"}[f.passed],
        )
    console.print(table)
