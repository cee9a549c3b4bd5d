"""Boxes and arrows as SVG, from the top to the bottom. Knows geometry and text; nothing of what is drawn.

Layers by longest paths, crossings reduced by medians of neighbours (Sugiyama, Tagawa and Toda, "Methods for
Visual Understanding of Hierarchical System Structures", 1981), arrows that skip layers bend around what
stands there. All text is escaped. Colours are variables, so pages in light and dark have one drawing.
"""

from __future__ import annotations

import html
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from .text import cut

CHARACTER, LINE, PAD = 6.7, 15, 9  # pixels
GAP_X, GAP_Y = 18, 30
MOST_CHARACTERS = 34
SWEEPS, MOVES = 8, 12
MOST_DRAWN = 400  # boxes; of more nobody sees anything

STYLE = """
.tl{--bg:#fff;--ink:#1c2330;--soft:#5b6675;--line:#9aa4b2;--box:#f4f6fa;--edge:#cdd4de;--accent:#1f6feb;--hot:#e8590c;
color:var(--ink);background:var(--bg)}
@media (prefers-color-scheme:dark){.tl{--bg:#14181f;--ink:#e6eaf0;--soft:#9aa7b8;--line:#65728a;--box:#1f2630;
--edge:#3a4556;--accent:#6ea8ff;--hot:#ff8a3d}}
.tl text{fill:var(--ink);font:11px ui-monospace,Menlo,Consolas,monospace}
.tl .soft{fill:var(--soft)}.tl .title{font-weight:700}
.tl .box{fill:var(--box);stroke:var(--edge)}.tl .end{fill:var(--bg);stroke:var(--accent)}
.tl .arrow{fill:none;stroke:var(--line);stroke-width:1.2}.tl .head{fill:var(--line)}.tl .heat{fill:var(--hot)}
""".replace("\n", "")


FULL = 0.45  # opacity of the hottest box: text on it is read in light and dark


@dataclass(frozen=True)
class Box:
    """``title`` and ``lines`` of text; ``about`` is shown when one points at it. Boxes of a ``group`` have
    one colour; the ends of a drawing are round; ``heat`` from 0 to 1 fills it."""

    title: str
    lines: tuple[str, ...] = ()
    about: str = ""
    group: int | None = None
    end: bool = False
    heat: float = 0.0

    @property
    def width(self) -> float:
        return CHARACTER * max(len(cut(t, MOST_CHARACTERS)) for t in (self.title, *self.lines)) + 2 * PAD + 6

    @property
    def height(self) -> float:
        return LINE * (1 + len(self.lines)) + 10


Arrow = tuple[int, int, str]  # from a box to a box, and its label


def drawing(boxes: Sequence[Box], arrows: Sequence[Arrow], style: bool = True) -> str:
    """The SVG of boxes with arrows from earlier ones to later ones; with its ``style`` unless the page has
    it."""
    return _Layout(boxes, arrows).svg(style)


class Flow:
    """Boxes in their order, with arrows from those that make values to those that read them."""

    def __init__(self) -> None:
        self._boxes: list[Box] = []
        self._arrows: list[Arrow] = []
        self._makers: dict[Hashable, int] = {}

    def add(self, box: Box, read: Mapping[Any, str], made: Iterable[Hashable] = ()) -> None:
        """A box, the values it reads with a label for each, and those it makes. What no box made has no
        arrow."""
        to = len(self._boxes)
        self._arrows += [(self._makers[v], to, about) for v, about in read.items() if v in self._makers]
        self._makers.update(dict.fromkeys(made, to))
        self._boxes.append(box)

    def svg(self, style: bool = True) -> str:
        """The ``drawing``."""
        return drawing(self._boxes, self._arrows, style)


# a notebook is light or dark whatever the system is: its own ink, see-through, and colours of middle tone
_INSIDE = (
    "<style>.tl-in .tl{--bg:transparent;--ink:currentColor;--soft:#808890;--line:#808890;"
    "--box:rgba(128,128,128,.12);--edge:rgba(128,128,128,.45);--accent:#2f7fd1;--hot:#e8590c}</style>"
)


def notebook(picture: str, summary: str, text: str) -> str:
    """What a notebook shows: a picture, which is HTML, and below it a text that unfolds; the text alone where
    there is no picture."""
    shown = f'<div style="max-height:36em;overflow:auto">{picture}</div>' if picture else ""
    begin = "<details>" if picture else "<details open>"
    body = f"<summary>{html.escape(summary)}</summary><pre>{html.escape(text)}</pre>"
    return f'{_INSIDE}<div class="tl-in">{shown}{begin}{body}</details></div>'


class _Layout:
    """Every box, and every layer that an arrow skips, is a point with neighbours above and below."""

    def __init__(self, boxes: Sequence[Box], arrows: Sequence[Arrow]) -> None:
        self.boxes = boxes
        ranks = self._ranks(boxes, arrows)
        self.layers: list[list[int]] = [[] for _ in range(max(ranks, default=0) + 1)]
        self.wide = [b.width for b in boxes]
        self.above: list[list[int]] = [[] for _ in boxes]
        self.below: list[list[int]] = [[] for _ in boxes]
        for i, r in enumerate(ranks):
            self.layers[r].append(i)
        self.paths: list[tuple[list[int], str]] = []
        for a, b, about in dict.fromkeys(arrows):
            path = [a]
            for r in range(ranks[a] + 1, ranks[b]):
                path.append(len(self.wide))
                self.wide.append(4.0)
                self.above.append([])
                self.below.append([])
                self.layers[r].append(path[-1])
            path.append(b)
            for x, y in pairwise(path):
                self.below[x].append(y)
                self.above[y].append(x)
            self.paths.append((path, about))
        self._order()
        self._move()

    @staticmethod
    def _ranks(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> list[int]:
        """The layer of each box: below all before it; what follows from no input stands where it is read."""
        ranks, moved = [0] * len(boxes), [b.end for b in boxes]
        for a, b, _ in sorted(arrows, key=lambda e: e[1]):
            ranks[b] = max(ranks[b], ranks[a] + 1)
            moved[b] |= moved[a]
        begins = {b for _, b, _ in arrows}
        readers: dict[int, list[int]] = {}
        for a, b, _ in arrows:
            readers.setdefault(a, []).append(b)
        for a in sorted(readers, reverse=True):
            if not moved[a] or a not in begins:
                ranks[a] = min(ranks[b] for b in readers[a]) - 1
        return ranks

    def _order(self) -> None:
        at = [0] * len(self.wide)
        for layer in self.layers:
            _number(layer, at)
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            near = self.above if down else self.below
            for layer in self.layers[1:] if down else self.layers[-2::-1]:
                wanted = {v: median([at[n] for n in near[v]]) if near[v] else at[v] for v in layer}
                layer.sort(key=wanted.__getitem__)
                _number(layer, at)

    def _move(self) -> None:
        """Places from left to right: near to the neighbours, and apart."""
        self.x = [0.0] * len(self.wide)
        for layer in self.layers:
            at = 0.0
            for v in layer:
                self.x[v] = at + self.wide[v] / 2
                at += self.wide[v] + GAP_X
        for i in range(MOVES):
            near = self.above if i % 2 == 0 else self.below
            for layer in self.layers if i % 2 == 0 else self.layers[::-1]:
                self._spread(layer, [_mean([self.x[n] for n in near[v]], self.x[v]) for v in layer])
        left = min((self.x[v] - self.wide[v] / 2 for v in range(len(self.wide))), default=0)
        self.x = [x - left + PAD for x in self.x]

    def _spread(self, layer: list[int], wanted: list[float]) -> None:
        """As near to what is wanted as the order and the widths allow: between packed from the left and
        packed from the right."""
        lefts, rights = list(wanted), list(wanted)
        for k in range(1, len(layer)):
            lefts[k] = max(wanted[k], lefts[k - 1] + self._apart(layer[k - 1], layer[k]))
        for k in range(len(layer) - 2, -1, -1):
            rights[k] = min(wanted[k], rights[k + 1] - self._apart(layer[k], layer[k + 1]))
        for v, a, b in zip(layer, lefts, rights, strict=True):
            self.x[v] = (a + b) / 2

    def _apart(self, a: int, b: int) -> float:
        return (self.wide[a] + self.wide[b]) / 2 + GAP_X

    def svg(self, style: bool) -> str:
        tops, y = [], float(PAD)
        tall = [
            max((self.boxes[v].height for v in layer if v < len(self.boxes)), default=0)
            for layer in self.layers
        ]
        for h in tall:
            tops.append(y)
            y += h + GAP_Y
        rank = {v: r for r, layer in enumerate(self.layers) for v in layer}
        width = max((x + w / 2 for x, w in zip(self.x, self.wide, strict=True)), default=0) + PAD
        parts = [
            f'<svg class="tl" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {y:.0f}" '
            f'width="{width:.0f}" height="{y:.0f}">'
        ]
        if style:
            parts += [f"<style>{STYLE}</style>", '<rect width="100%" height="100%" style="fill:var(--bg)"/>']
        for path, about in self.paths:
            parts.append(self._arrow(path, tops, tall, rank, about))
        parts += [self._box(b, self.x[i], tops[rank[i]]) for i, b in enumerate(self.boxes)]
        return "".join([*parts, "</svg>"])

    def _arrow(
        self, path: list[int], tops: list[float], tall: list[float], rank: dict[int, int], about: str
    ) -> str:
        first, last = path[0], path[-1]
        x, y = self.x[first], tops[rank[first]] + self.boxes[first].height
        text = [f"M{x:.1f} {y:.1f}"]
        for v in path[1:]:
            to, end = self.x[v], tops[rank[v]] - (4 if v == last else 0)
            half = (y + end) / 2
            text.append(f"C{x:.1f} {half:.1f} {to:.1f} {half:.1f} {to:.1f} {end:.1f}")
            x, y = to, end
            if v != last:
                y = end + tall[rank[v]]
                text.append(f"L{x:.1f} {y:.1f}")
        head = f'<path class="head" d="M{x - 3.5:.1f} {y - 2:.1f}h7l-3.5 6z"/>'
        return f'<g><title>{html.escape(about)}</title><path class="arrow" d="{"".join(text)}"/>{head}</g>'

    def _box(self, b: Box, x: float, y: float) -> str:
        left, w, h = x - b.width / 2, b.width, b.height
        kind, round_ = ("end", h / 2) if b.end else ("box", 4)
        rect = f'x="{left:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{round_:.0f}"'
        parts = [f'<g><title>{html.escape(b.about)}</title><rect class="{kind}" {rect}/>']
        if b.heat > 0:
            parts.append(f'<rect class="heat" {rect} style="opacity:{min(1.0, b.heat) * FULL:.2f}"/>')
        if b.group is not None:
            colour = f"hsl({b.group * 137 % 360} 55% 50%)"  # neighbouring numbers have unlike colours
            parts.append(
                f'<rect x="{left:.1f}" y="{y:.1f}" width="5" height="{h:.1f}" rx="2" style="fill:{colour}"/>'
            )
        for k, text in enumerate((b.title, *b.lines)):
            place = f'x="{x:.1f}" y="{y + LINE * (k + 1):.1f}" text-anchor="middle"'
            shown = html.escape(cut(text, MOST_CHARACTERS))
            kind = "title" if not k else "soft" if b.heat <= 0 else "plain"
            parts.append(f'<text class="{kind}" {place}>{shown}</text>')
        return "".join([*parts, "</g>"])


def _number(layer: Sequence[int], at: list[int]) -> None:
    """Note the places of what stands in a layer."""
    for i, v in enumerate(layer):
        at[v] = i


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
