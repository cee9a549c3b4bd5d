"""Results of ``benchmarks.run`` for a reader: a markdown table for the README, and a picture.

    python -m benchmarks.report FILE.json            prints the table, and draws FILE.png

Works on results as read from JSON only.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .harness.figures import OURS, Entry, figures, geomean, group_name, groups, ours, summaries
from .harness.table import rate, seconds

COLOURS = {"numpy": "#4d77cf", "torch": "#ee4c2c", "torch.compile": "#8c1d04", "onnxruntime": "#7a7a7a", "jax": "#9b59b6", "numba": "#00a3e0",
           "halide": "#c9a227"}
INK, GOOD = "#202020", "#2a9d5c"


def markdown(result: Entry) -> str:
    """Machine, summary, figures, and a table of ratios by suite against each peer."""
    machine, versions = result["machine"], result["versions"]
    caches = ", ".join(f"{level} {size >> 10} KiB" for level, size in machine["caches"].items())
    lines = [f"{machine['cpu']}, {machine['cores']} cores, {', '.join(machine['flags'])}; {caches}; {machine['system']}, Python {machine['python']}. "
             f"{', '.join(f'{name} {v}' for name, v in versions.items() if name != OURS)}. {result['date'][:10]}.", ""]
    lines += ["| suite | weights | threads | cases | geomean | worst | at 1.0× or better |", "|---|---|---|---|---|---|---|"]
    for s in summaries(result):
        if s.compared:
            lines.append(f"| {s.suite} | {s.weights} | {s.threads} | {s.compared} | {s.geomean:.2f}× | {s.worst:.2f}× ({s.worst_case}) "
                         f"| {s.ahead:.0%} |")
    lines += ["", "Geomean of how many times faster than each peer, over the cases it has:", ""]
    lines += _by_peer(result)
    lines += ["", "| what | wanted | found | |", "|---|---|---|---|"]
    lines += [f"| {f.what} | {f.wanted} | {f.found} | {'✓' if f.passed else '–' if f.passed is None else '✗'} |" for f in figures(result)]
    return "\n".join(lines)


def cases_markdown(result: Entry) -> str:
    """A line a case: our time and rate, the share of the bound, the best peer and the ratio."""
    lines = ["| suite | case | threads | ours | rate | of bound | best peer | × best |", "|---|---|---|---|---|---|---|---|"]
    for e in result["cases"]:
        if mine := ours(e):
            name = " ".join(filter(None, (e["name"], e["note"], "packed" if e["weights"] == "packed" else "")))
            part = f"{e['bound'] / mine['median']:.0%}" if "bound" in e else ""
            against = f"{e['best']} | {e['ratio']:.2f} |" if "ratio" in e else "– | – |"
            lines.append(f"| {e['suite']} | {name} | {e['threads']} | {seconds(mine['median'])} | {rate(e, mine['median'])} | {part} | {against}")
    return "\n".join(lines)


def _against(entries: list[Entry], peer: str) -> list[float]:
    return [e["ratios"][peer] for e in entries if peer in e.get("ratios", {})]


def _by_peer(result: Entry) -> Iterator[str]:
    shown = [p for p in COLOURS if any(p in e.get("ratios", {}) for e in result["cases"])]
    yield f"| suite | weights | threads | {' | '.join(shown)} |"
    yield "|---" * (3 + len(shown)) + "|"
    for (suite, weights, threads), entries in groups(result).items():
        values = [_against(entries, p) for p in shown]
        if any(values):
            yield f"| {suite} | {weights} | {threads} | {' | '.join(f'{geomean(v):.2f}' if v else '–' for v in values)} |"


def picture(result: Entry, path: Path) -> Path | None:
    """A row of bars for each group of cases (times faster than each peer, on a logarithmic scale), and rooflines. None without matplotlib
    and when there is nothing to compare."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError:
        return None
    rows = {key: with_ratios for key, entries in groups(result).items() if (with_ratios := [e for e in entries if "best" in e])}
    roofs = [t for t in result["peaks"] if any(ours(e) and str(e["threads"]) == t for e in result["cases"])]
    if not rows and not roofs:
        return None
    heights = [3.0] * len(rows) + [4.2] * bool(roofs)
    figure = plt.figure(figsize=(14, sum(heights) + 1), layout="constrained")
    grid = figure.add_gridspec(len(heights), max(1, len(roofs)), height_ratios=heights)
    for row, (key, entries) in enumerate(rows.items()):
        _bars(figure.add_subplot(grid[row, :]), entries, f"{group_name(*key)}: times faster than each peer (dashes: the best of them)")
    for column, threads in enumerate(roofs):
        _roofline(figure.add_subplot(grid[len(rows), column]), result, threads)
    figure.suptitle(f"tensorlang on {result['machine']['cpu']}, {result['date'][:10]}", x=0.01, ha="left", color=INK)
    figure.savefig(path, dpi=100)
    plt.close(figure)
    return path


def _bars(axes: Any, entries: list[Entry], title: str) -> None:
    peers = [p for p in COLOURS if _against(entries, p)]
    width = 0.8 / max(1, len(peers))
    for n, peer in enumerate(peers):
        at = [(i + (n + 0.5) * width - 0.4, e["ratios"][peer]) for i, e in enumerate(entries) if peer in e["ratios"]]
        axes.bar([x for x, _ in at], [math.log2(r) for _, r in at], width, color=COLOURS[peer], label=peer)
    for i, e in enumerate(entries):
        if "ratio" in e:
            axes.plot([i - 0.42, i + 0.42], [math.log2(e["ratio"])] * 2, color=GOOD if e["ratio"] >= 1 else INK, linewidth=2, linestyle=(0, (2, 1)))
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_ylim(-2.2, 3.4)  # what goes beyond is cut off: the table has the number
    axes.set_yticks(range(-2, 4), ["¼", "½", "1", "2", "4", "8"])
    labels = [f"{e['name']}\n{e['note']}".strip() for e in entries]
    axes.set_xticks(range(len(entries)), labels, fontsize=6.5, rotation=0 if len(entries) < 14 else 30)
    axes.set_xlim(-0.6, len(entries) - 0.4)
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(ncols=len(peers), fontsize=7, loc="upper right", frameon=False)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def _roofline(axes: Any, result: Entry, threads: str) -> None:
    """Operations a second over operations a byte; the peaks are the best of what the suites of this run measured."""
    measured = list(result["peaks"][threads].values())
    flops = max(p["flops"] for p in measured)
    for level, style in (("memory", "-"), ("L3", "--"), ("L2", ":")):
        bandwidth = max(p["triad"][level] for p in measured)
        xs = [2.0 ** n for n in range(-7, 13)]
        axes.plot(xs, [min(flops, x * bandwidth) / 1e9 for x in xs], style, color=INK, linewidth=1, label=f"{level} {bandwidth / 1e9:.0f} GB/s")
    suites = list(dict.fromkeys(e["suite"] for e in result["cases"]))
    palette = ["#2a9d5c", "#4d77cf", "#ee4c2c", "#9b59b6", "#c9a227", "#00a3e0"]
    for suite, colour in zip(suites, palette, strict=False):
        points = [(e["flops"] / (e["read"] + e["written"]), e["flops"] / mine["median"] / 1e9)
                  for e in result["cases"] if e["suite"] == suite and str(e["threads"]) == threads and e["flops"] and (mine := ours(e))]
        axes.plot(*zip(*points, strict=True), "o", color=colour, markersize=4, label=suite) if points else None
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=10)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}" if x >= 1 else f"1/{1 / x:g}")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.set_xlabel("operations a byte")
    axes.set_ylabel("Gop/s")
    axes.set_title(f"roofline, {threads} thread{'s' if threads != '1' else ''}: peak {flops / 1e9:.0f} GFLOP/s", loc="left", fontsize=10)
    axes.grid(color="#eeeeee", linewidth=0.6)
    axes.legend(fontsize=7, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description="A table and a picture of a result file.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--cases", action="store_true", help="a line for each case as well")
    options = parser.parse_args(arguments)
    result = json.loads(options.file.read_text(encoding="utf-8"))
    print(markdown(result))
    if options.cases:
        print("\n" + cases_markdown(result))
    picture(result, options.file.with_suffix(".png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
