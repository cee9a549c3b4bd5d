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

from .harness.figures import OURS, YARDSTICK, Entry, figures, geomean, groups, ours, ratios, spread, summaries
from .harness.table import kibibytes, rate, seconds
from .harness.table import threads as threads_text

COLOURS = {
    "numpy": "#4d77cf",
    "torch": "#ee4c2c",
    "torch.compile": "#8c1d04",
    "onnxruntime": "#7a7a7a",
    "openvino": "#b5651d",
    "jax": "#9b59b6",
    "numba": "#00a3e0",
    "halide": "#c9a227",
}
INK, GOOD = "#202020", "#2a9d5c"


def markdown(result: Entry) -> str:
    """Machine, summary, figures, and a table of ratios by suite against each peer."""
    machine, versions = result["machine"], result["versions"]
    caches = ", ".join(f"{level} {size >> 10} KiB" for level, size in machine["caches"].items())
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, {', '.join(machine['flags'])}; {caches}; "
        f"{machine['system']}, Python {machine['python']}. "
        f"{', '.join(f'{name} {v}' for name, v in versions.items() if name not in (OURS, YARDSTICK))}. "
        f"{result['date'][:10]}.",
        "",
    ]
    lines += [
        "| suite | weights | threads | cases | geomean | worst | at 1.0× or better |",
        "|---|---|---|---|---|---|---|",
    ]
    for s in summaries(result):
        if s.compared:
            lines.append(
                f"| {s.suite} | {s.weights} | {s.threads} | {s.compared} | {s.geomean:.2f}× | {s.worst:.2f}× "
                f"({s.worst_case}) "
                f"| {s.ahead:.0%} |"
            )
    lines += ["", "Geomean of how many times faster than each peer, over the cases it has:", ""]
    lines += _by_peer(result)
    lines += ["", "| what | wanted | found | |", "|---|---|---|---|"]
    lines += [
        f"| {f.what} | {f.wanted} | {f.found} | {'✓' if f.passed else '–' if f.passed is None else '✗'} |"
        for f in figures(result)
    ]
    return "\n".join(lines)


def cases_markdown(result: Entry) -> str:
    """A line a case: our time and rate, the share of the bound, the best peer and the ratio."""
    lines = [
        "| suite | case | threads | ours | rate | of bound | code | best peer | × best | interval |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for e in result["cases"]:
        if mine := ours(e):
            name = " ".join(
                filter(None, (e["name"], e["note"], "packed" if e["weights"] == "packed" else ""))
            )
            part = f"{e['bound'] / mine['median']:.0%}" if "bound" in e else ""
            low, high = spread(e) if "runs" in e else (0, 0)
            against = (
                f"{e['best']} | {e['ratio']:.2f} | {f'{low:.2f}…{high:.2f}' if high else ''} |"
                if "ratio" in e
                else "– | – | |"
            )
            lines.append(
                f"| {e['suite']} | {name} | {e['threads']} | {seconds(mine['median'])} | "
                f"{rate(e, mine['median'])} | {part} | {kibibytes(mine)} | {against}"
            )
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
            yield (
                f"| {suite} | {weights} | {threads} | "
                f"{' | '.join(f'{geomean(v):.2f}' if v else '–' for v in values)} |"
            )


def picture(result: Entry, path: Path) -> Path | None:
    """For each number of threads bars of how many times faster than each peer, and a roofline. None without
    matplotlib and when there is nothing to compare.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError:
        return None
    threads = sorted(
        {e["threads"] for e in result["cases"] if "best" in e and str(e["threads"]) in result["peaks"]}
    )
    if not threads:
        return None
    figure = plt.figure(figsize=(14, 3.6 * len(threads) + 4.6), layout="constrained")
    grid = figure.add_gridspec(len(threads) + 1, len(threads), height_ratios=[3.6] * len(threads) + [4.4])
    for row, count in enumerate(threads):
        _bars(figure.add_subplot(grid[row, :]), result, count)
        _roofline(figure.add_subplot(grid[len(threads), row]), result, str(count))
    figure.suptitle(
        f"tensorlang on {result['machine']['cpu']}, {result['date'][:10]}", x=0.01, ha="left", color=INK
    )
    figure.savefig(path, dpi=100)
    plt.close(figure)
    return path


def _bars(axes: Any, result: Entry, threads: int) -> None:
    """Geomeans by peer for each suite, a dot for each case; what goes beyond the axis is cut off, the table
    has the number."""
    suites = {
        key[:2]: entries
        for key, entries in groups(result).items()
        if key[2] == threads and any("best" in e for e in entries)
    }
    peers = [p for p in COLOURS if any(_against(entries, p) for entries in suites.values())]
    width = 0.84 / (len(peers) + 1)
    for n, peer in enumerate(["best", *peers]):
        found = [
            ratios(entries) if peer == "best" else _against(entries, peer) for entries in suites.values()
        ]
        bars = [(i + (n + 0.5) * width - 0.42, values) for i, values in enumerate(found) if values]
        label = "best peer of each case" if peer == "best" else peer
        axes.bar(
            [x for x, _ in bars],
            [math.log2(geomean(v)) for _, v in bars],
            0.9 * width,
            color=COLOURS.get(peer, GOOD),
            label=label,
        )
        dots = [(x, math.log2(v)) for x, values in bars for v in values]
        axes.plot([x for x, _ in dots], [y for _, y in dots], ".", color=INK, markersize=2.5, alpha=0.6)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_ylim(-2.3, 4.3)
    axes.set_yticks(range(-2, 5), ["¼", "½", "1", "2", "4", "8", "16"])
    axes.set_xticks(
        range(len(suites)),
        [suite + (",\npacked" if weights == "packed" else "") for suite, weights in suites],
        fontsize=9,
    )
    axes.set_xlim(-0.55, len(suites) - 0.45)
    axes.set_title(
        f"{threads_text(threads)}: times faster than each peer (bars: geomean, dots: cases)",
        loc="left",
        fontsize=10,
    )
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(
        ncols=len(peers) + 1,
        fontsize=8,
        loc="lower right",
        bbox_to_anchor=(1, 0.99),
        frameon=False,
        borderaxespad=0,
    )
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def _roofline(axes: Any, result: Entry, threads: str) -> None:
    """Operations a second over operations a byte; the peaks are the best of what the suites of this run
    measured."""
    measured = list(result["peaks"][threads].values())
    flops = max(p["flops"] for p in measured)
    for level, style in (("memory", "-"), ("L3", "--"), ("L2", ":")):
        bandwidth = max(p["triad"][level] for p in measured)
        xs = [2.0**n for n in range(-7, 13)]
        axes.plot(
            xs,
            [min(flops, x * bandwidth) / 1e9 for x in xs],
            style,
            color=INK,
            linewidth=1,
            label=f"{level} {bandwidth / 1e9:.0f} GB/s",
        )
    suites = list(dict.fromkeys(e["suite"] for e in result["cases"]))
    palette = ["#2a9d5c", "#4d77cf", "#ee4c2c", "#9b59b6", "#c9a227", "#00a3e0"]
    for suite, colour in zip(suites, palette, strict=False):
        points = [
            (e["flops"] / (e["read"] + e["written"]), e["flops"] / mine["median"] / 1e9)
            for e in result["cases"]
            if e["suite"] == suite and str(e["threads"]) == threads and e["flops"] and (mine := ours(e))
        ]
        axes.plot(
            *zip(*points, strict=True), "o", color=colour, markersize=4, label=suite
        ) if points else None
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=10)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}" if x >= 1 else f"1/{1 / x:g}")
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.set_xlabel("operations a byte")
    axes.set_ylabel("Gop/s")
    axes.set_title(
        f"roofline, {threads_text(int(threads))}: peak {flops / 1e9:.0f} GFLOP/s", loc="left", fontsize=10
    )
    axes.grid(color="#eeeeee", linewidth=0.6)
    axes.legend(fontsize=7, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report", description="A table and a picture of a result file."
    )
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
