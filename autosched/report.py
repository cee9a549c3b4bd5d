"""The report of a tune: curve, best schedule as Python, why it is fast, what failed; as text, as HTML in one file, as a picture. Knows
results; decides nothing.
"""

from __future__ import annotations

import html
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorlang as tl

from .plot import tuning_curve
from .progress import seconds_text
from .roofline import Position, position

if TYPE_CHECKING:
    from .tune import TuneResult

WEIGHTS = 8  # features shown
POINTS = 400  # corners of the curve in HTML
LONG = 2000  # characters of a reason
CODE = 100_000  # characters of a schedule


class TuneReport:
    """What a tune found and how. ``print(report)``, ``report.save("tune.html")``, ``report.plot()``; a notebook shows it by itself."""

    def __init__(self, result: TuneResult) -> None:
        self.result = result

    @property
    def python(self) -> str:
        """The best schedule as a function that a person can paste; empty when nothing worked."""
        best = self.result.best
        return "" if best is None else best.trace().to_python()

    @cached_property
    def roofline(self) -> Position | None:
        """Where the best stands below the roof of this machine, which is measured when it is first asked for."""
        r = self.result
        return None if r.best is None or not r.flops else position(r.tensors, r.flops, r.best.cost)

    @property
    def curve(self) -> list[tuple[int, float]]:
        """(measurements, best seconds) wherever the best fell, and the end."""
        points: list[tuple[int, float]] = []
        for n, cost in enumerate(self.result.history, 1):
            if cost < float("inf") and (not points or cost < points[-1][1]):
                points.append((n, cost))
        if points and points[-1][0] < len(self.result.history):
            points.append((len(self.result.history), points[-1][1]))
        return points

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What there is to say, each with its title."""
        r = self.result
        rows = [("task", f"{r.task.name}  {r.task.workload_key}"), ("target", str(r.task.target)),
                ("trials", f"{r.trials}, {r.measured} measured now in {r.seconds:.1f} s ({r.measured / max(r.seconds, 1e-9):.1f} a second)")]
        if r.best is None:
            rows.append(("best", "no candidate worked"))
        else:
            low, high = r.best.interval
            rows.append(("best", f"{seconds_text(r.best.cost)} (median of {len(r.best.times)}; {seconds_text(low)} to {seconds_text(high)})  "
                                 f"{r.gflops:.1f} GFLOP/s"))
        if self.roofline is not None:
            rows.append(("roofline", str(self.roofline)))
        if r.weights:
            rows.append(("cost model", ", ".join(f"{name} {share:.0%}" for name, share in list(r.weights.items())[:WEIGHTS])))
        rows += [("note", note) for note in r.notes]
        return rows

    @property
    def failures(self) -> list[tuple[str, int, str]]:
        """(outcome, how many, an example) of what failed, the most frequent first."""
        r = self.result
        return [(status, n, r.reasons[status][:LONG]) for status, n in sorted(r.failures.items(), key=lambda kv: (-kv[1], kv[0]))]

    def __str__(self) -> str:
        width = max(len(title) for title, _ in self.facts)
        lines = [f"{title:<{width}}  {text}" for title, text in self.facts]
        lines += [f"{'curve':<{width}}  " + ", ".join(f"{n}: {seconds_text(c)}" for n, c in self.curve)] if self.curve else []
        lines += [f"{'failed':<{width}}  {n} × {status}: {why.splitlines()[0] if why else ''}" for status, n, why in self.failures]
        return "\n".join([*lines, "", self.python] if self.python else lines)

    def plot(self, axes: Any = None) -> Any:
        """The tuning curve on matplotlib axes (new ones unless given); returns them. Raises TensorLangError without matplotlib."""
        return tuning_curve(self.curve, self.result.flops, self.result.task.name, axes)

    def to_html(self) -> str:
        """One page without links to anything, at most 500 kB."""
        e = html.escape
        facts = "".join(f"<tr><th>{e(t)}<td>{e(x[:LONG])}" for t, x in self.facts)
        failed = "".join(f"<tr><td>{n}<td>{e(status)}<td><pre>{e(why)}</pre>" for status, n, why in self.failures)
        code = self.python if len(self.python) <= CODE else self.python[:CODE] + "\n# … cut: the records have it all\n"
        parts = [f"<h1>{e(self.result.task.name)}</h1><table>{facts}</table>"]
        if self.curve:
            parts.append(f"<h2>Best so far</h2>{_svg(self.curve, self.result.flops)}")
        if code:
            parts.append(f"<h2>Best schedule</h2><pre class=code>{e(code)}</pre>")
        parts.append(f"<h2>What failed</h2><table>{failed}</table>" if failed else "<h2>What failed</h2><p>Nothing.</p>")
        return f"<section class=autosched><style>{_STYLE}</style>{''.join(parts)}</section>"

    def save(self, path: str | Path) -> None:
        """Write the page. Raises TensorLangError when it cannot be written."""
        page = (f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(self.result.task.name)}</title></head>'
                f"<body>{self.to_html()}</body></html>\n")
        try:
            Path(path).write_text(page, encoding="utf-8")
        except OSError as e:
            raise tl.TensorLangError(f"cannot write the report to {path}", because=str(e)) from None

    def _repr_html_(self) -> str:
        return self.to_html()


_STYLE = (".autosched{font:14px/1.45 system-ui,sans-serif;max-width:60em;margin:auto}.autosched h1{font-size:1.4em}.autosched h2{font-size:1.1em}"
          ".autosched th{text-align:left;vertical-align:top;padding-right:1em;white-space:nowrap}.autosched td{vertical-align:top;padding-right:1em}"
          ".autosched pre{margin:0;white-space:pre-wrap}.autosched pre.code{background:#f4f4f6;padding:.8em;overflow-x:auto}")


def _svg(curve: list[tuple[int, float]], flops: float) -> str:
    """The curve as a staircase: GFLOP/s over measurements, or seconds when no operations are counted."""
    step = -(-len(curve) // POINTS)
    points = [*curve[:-1:step], curve[-1]]
    values = [flops / c / 1e9 if flops else c * 1e3 for _, c in points]
    width, height, left, bottom = 640, 240, 60, 30
    last, top = points[-1][0], max(values)

    def x(n: float) -> float:
        return left + (width - left - 10) * n / max(last, 1)

    def y(v: float) -> float:
        return (height - bottom) - (height - bottom - 10) * v / top

    path = f"M{x(points[0][0]):.1f} {y(values[0]):.1f}"
    for (n, _), v in zip(points[1:], values[1:], strict=True):
        path += f"H{x(n):.1f}V{y(v):.1f}"
    ticks = "".join(f'<line x1="{left}" x2="{width - 10}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#ddd"/>'
                    f'<text x="{left - 6}" y="{y(v) + 4:.1f}" text-anchor="end">{v:.3g}</text>' for v in (0, top / 2, top))
    ends = "".join(f'<text x="{x(n):.1f}" y="{height - 10}" text-anchor="middle">{n}</text>' for n in (1, last))
    return (f'<svg viewBox="0 0 {width} {height}" width="{width}" font-size="12" role="img" aria-label="best so far">{ticks}{ends}'
            f'<path d="{path}" fill="none" stroke="#1f6feb" stroke-width="2"/>'
            f'<text x="{width - 10}" y="{height - 10}" text-anchor="end">{"GFLOP/s" if flops else "ms"} over measurements</text></svg>')
