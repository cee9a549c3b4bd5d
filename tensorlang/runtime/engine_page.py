"""An engine as one page of HTML in which nothing is loaded from anywhere: its kernels with what flows between
them, where the time of a call goes, and what lies in the arena when. Knows engines' programs; no graphs.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..core import drawing
from ..core.drawing import STYLE, Box, Flow
from .engine_profile import EngineProfile, Row, operators_of, table_of
from .program import Host, Program
from .steps import Run
from .timing import seconds_text

if TYPE_CHECKING:
    from .engine import Engine

WIDTH, LANE = 900, 260  # pixels of the picture of the arena
ROOM, LETTER = 18, 7  # pixels around a name that is written into a buffer, and of one of its letters

_PAGE = """
body.tl{font:14px/1.5 system-ui,sans-serif;max-width:72em;margin:auto;padding:1em 1.5em}
.tl h1{font-size:1.4em}.tl h2{font-size:1.1em;margin:1.8em 0 .5em}.tl p{color:var(--soft);margin:.3em 0}
.tl table{border-collapse:collapse}.tl td,.tl th{padding:.1em 1em .1em 0;text-align:left;white-space:nowrap}
.tl th{color:var(--soft);font-weight:600}.tl td.n{text-align:right;font-variant-numeric:tabular-nums}
.tl .bar{background:var(--hot);height:.7em;min-width:1px}
.tl pre{background:var(--box);padding:.8em;overflow:auto;max-height:30em}
.tl .wide{overflow:auto;max-height:44em;border:1px solid var(--edge)}
.tl>svg{max-width:100%;height:auto}.tl .live{stroke:var(--bg);stroke-width:.5}
""".replace("\n", "")


def page(engine: Engine, profile: EngineProfile | None, dims: Mapping[str, int], reasons: str) -> str:
    """The page. ``reasons`` says why each kernel is what it is; a ``profile`` is that of a call with these
    ``dims``."""
    p = engine.program
    title = html.escape(p.name)
    sizes = ", ".join(f"{d} = {n}" for d, n in dims.items())
    parts = [f"<h1>{title}</h1>", f"<p>{html.escape(repr(engine).strip('<>'))}</p>"]
    if profile is not None:
        parts += [f"<h2>Where the time goes{_for(sizes)}</h2>", _times(profile)]
    parts += ["<h2>Kernels, and what flows between them</h2>", kernels(engine, profile, reasons, False)]
    for run in (s for s in engine.steps if isinstance(s, Run)):
        parts += [f"<h2>The arena over time{_for(sizes)}</h2>", _arena(run, dims)]
    parts += ["<h2>All kernels in order</h2>", f'<pre tabindex="0">{html.escape(table_of(engine))}</pre>']
    if reasons:
        parts += ["<h2>Why each is what it is</h2>", f'<pre tabindex="0">{html.escape(reasons)}</pre>']
    head = f'<head><meta charset="utf-8"><title>{title}</title><style>{STYLE}{_PAGE}</style></head>'
    return f'<!DOCTYPE html><html lang="en">{head}<body class="tl">{"".join(parts)}</body></html>\n'


def _for(sizes: str) -> str:
    return f" ({html.escape(sizes)})" if sizes else ""


def _times(profile: EngineProfile) -> str:
    rows = sorted(profile.rows, key=lambda r: -r.seconds)
    lines = "".join(_time(r, profile.seconds or 1.0) for r in rows)
    head = "".join(f"<th>{h}</th>" for h in ("operators", "makes", "time", "share", "", "bytes", "GB/s"))
    summary = f"<p>One run {seconds_text(profile.seconds)}, medians of {profile.runs} runs.</p>"
    return f"{summary}{_wide('where the time goes', f'<table><tr>{head}</tr>{lines}</table>')}"


def _time(r: Row, whole: float) -> str:
    share = r.seconds / whole
    cells = [f"<td>{html.escape(t)}</td>" for t in (r.operators[:60], r.makes[:40])]
    cells += [f'<td class="n">{t}</td>' for t in (seconds_text(r.seconds), f"{100 * share:.1f} %")]
    cells.append(f'<td><div class="bar" style="width:{120 * share:.1f}px"></div></td>')
    cells += [f'<td class="n">{t}</td>' for t in (f"{r.bytes:,}", f"{r.bandwidth:.1f}")]
    return f"<tr>{''.join(cells)}</tr>"


def kernels(engine: Engine, profile: EngineProfile | None, reasons: str, style: bool) -> str:
    """The drawing of the kernels; the more of the time one takes, the fuller it is."""
    p = engine.program
    if len(p.kernels) > drawing.MOST_DRAWN:
        return f"<p>{len(p.kernels)} kernels are too many for a drawing.</p>"
    heat = _heat(p, profile)
    why = _why(reasons)
    flow = Flow()

    def labelled(values: Iterable[int | None]) -> dict[int, str]:
        return {v: p.forms([v]) for v in values if v is not None}

    for v in p.inputs:
        flow.add(Box(p.values[v].name, (_form(p, v),), f"input {p.forms([v])}", end=True), {}, [v])
    for step in p.steps:
        if isinstance(step, Host):
            flow.add(Box(step.name, ("a function of arrays",)), labelled(step.inputs), step.outputs)
            continue
        for n in step:
            k = p.kernels[n]
            lines = tuple(_form(p, v) for v in k.outputs[:3])
            name = operators_of(engine, k.code)
            box = Box(name, lines, why.get(n, name), k.code, heat=heat.get(n, 0.0))
            flow.add(box, labelled(k.inputs), k.outputs)
    for name, v in zip(p.output_names, p.outputs, strict=False):
        flow.add(Box(name, (_form(p, v),), f"output {p.forms([v])}", end=True), labelled([v]))
    return _wide("kernels, and what flows between them", flow.svg(style))


def _wide(label: str, inside: str) -> str:
    """What may be wider than the window; keys move it."""
    return f'<div class="wide" tabindex="0" role="region" aria-label="{label}">{inside}</div>'


def _form(p: Program, v: int) -> str:
    return p.forms([v]).removeprefix(f"{p.values[v].name}: ")


def _heat(p: Program, profile: EngineProfile | None) -> dict[int, float]:
    """The share of each kernel in the time of the longest."""
    order = [n for s in p.steps for n in ([None] if isinstance(s, Host) else s)]
    if profile is None or len(profile.rows) != len(order):
        return {}
    most = max(r.seconds for r in profile.rows) or 1.0
    return {n: r.seconds / most for n, r in zip(order, profile.rows, strict=True) if n is not None}


def _why(reasons: str) -> dict[int, str]:
    """The part of the reasons that speaks of each kernel."""
    found: dict[int, str] = {}
    now = -1
    for line in reasons.splitlines():
        if line.startswith("kernel "):
            now += 1
            found[now] = line
        elif line.startswith("    ") and now >= 0:
            found[now] += f"\n{line.strip()}"
    return found


def _arena(run: Run, dims: Mapping[str, int]) -> str:
    """What lies where, from kernel to kernel."""
    outputs = set(run.program.outputs)
    inner = [v for v in run.made if v not in outputs]
    shapes = run.numbers([dims[d] for d in run.dims])[1]
    lives = run.lives(inner, shapes)
    offsets, size = run.placed(inner, shapes)
    if not size:
        return "<p>No value lies in it.</p>"
    steps = len(run.kernels)
    across, up = WIDTH / steps, LANE / size
    rects = []
    for i, (v, life, at) in enumerate(zip(inner, lives, offsets, strict=True)):
        about = (
            f"{run.program.forms([v])}: {life.size:,} bytes at {at:,}, kernels {life.first} to {life.last}"
        )
        place = (
            f'x="{life.first * across:.1f}" y="{LANE - (at + life.size) * up:.1f}" '
            f'width="{(life.last + 1 - life.first) * across:.1f}" height="{max(life.size * up, 0.5):.1f}"'
        )
        fill = f"fill:hsl({i * 137 % 360} 50% 65%)"
        rects.append(f'<rect class="live" {place} style="{fill}"><title>{html.escape(about)}</title></rect>')
        wide, high = (life.last + 1 - life.first) * across, life.size * up
        name = run.program.values[v].name
        if high >= ROOM and wide >= LETTER * len(name) + ROOM:
            x, y = life.first * across + 6, LANE - (at + life.size / 2) * up + 4
            rects.append(
                f'<text x="{x:.1f}" y="{y:.1f}" style="fill:#111;font:12px sans-serif;pointer-events:none">'
                f"{html.escape(name)}</text>"
            )
    frame = f'<rect class="box" width="{WIDTH}" height="{LANE}"/>'
    summary = f"<p>{size:,} bytes; kernels from left to right, addresses from bottom to top.</p>"
    box = f'viewBox="0 0 {WIDTH} {LANE}" width="{WIDTH}" height="{LANE}"'
    return f'{summary}<svg class="tl" xmlns="http://www.w3.org/2000/svg" {box}>{frame}{"".join(rects)}</svg>'


def notebook(engine: Engine) -> str:
    """What a notebook shows of an engine."""
    return drawing.notebook(kernels(engine, None, "", True), repr(engine), table_of(engine))
