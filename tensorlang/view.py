"""``tl.view(s, args)``: what the compiler makes of a schedule, as one page: the tree, the loop IR after each
pass with what the pass changed, LLVM and assembly. Nothing is loaded from anywhere; every part is opened by
keys. Knows lowering and building; draws with the room of pictures."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from .build import build, lower
from .display import box, code, details, escape, folded, tree_svg
from .errors import TensorLangError
from .loopir.stmt import Func
from .passes.base import Pass
from .schedule.schedule import Schedule
from .target import Target

MOST = 500_000  # bytes of a page
_PAGE = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
    "<style>body{{max-width:76em;margin:1em auto;padding:0 1em}}nav a{{margin-right:1.2em;color:inherit}}"
    "h2{{font:600 16px system-ui,sans-serif}}svg{{max-width:100%}}</style>"
    "<title>{title}</title></head><body>{body}</body></html>\n"
)


class View:
    """The page: ``save(path)`` writes it, a notebook shows it, ``html`` is its text."""

    def __init__(self, title: str, sections: Sequence[tuple[str, str]]) -> None:
        links = "".join(f'<a href="#s{n}">{escape(name)}</a>' for n, (name, _) in enumerate(sections))
        body = "".join(f'<h2 id="s{n}">{escape(name)}</h2>{text}' for n, (name, text) in enumerate(sections))
        self.title = title
        self.body = box(title, f"<nav>{links}</nav>", body)
        self.html = _PAGE.format(title=escape(title), body=self.body)

    def save(self, path: str | Path) -> None:
        """Write the page. Raises TensorLangError when it cannot be written."""
        try:
            Path(path).write_text(self.html, encoding="utf-8")
        except OSError as e:
            raise TensorLangError(f"view: cannot write {path}", because=e.strerror or str(e)) from None

    def __repr__(self) -> str:
        return f"<view of {self.title}: {len(self.html) // 1000} kB; v.save('view.html') writes it>"

    def _repr_html_(self) -> str:
        return self.body


def view(
    schedule: Schedule, args: Sequence[Any], target: str | Target | None = None, *, name: str = "main"
) -> View:
    """A page that shows how a schedule becomes machine code: ``tl.view(s, [A, B, C]).save("view.html")``.

    It holds the schedule tree, the loop IR of the schedule, what each pass of the compiler changed (lines
    with + and -), the loop IR that is left, LLVM and assembly; at most 500 kB, long texts are cut. Raises
    LowerError and TargetError as ``build`` does.
    """
    steps: list[tuple[str, str]] = []

    def hook(p: Pass, func: Func, seconds: float) -> None:
        steps.append((p.name, str(func)))

    func = lower(schedule, args, name, hooks=(hook,))
    kernel = build(func, target=target)
    sections = [
        ("schedule tree", tree_svg(schedule.tree())),
        ("loop IR of the schedule", folded(steps[0][1])),
        ("passes", _passes(steps)),
        ("loop IR after all passes", folded(str(func))),
        ("LLVM", details("show LLVM", code(kernel.get_source("ll")))),
        ("assembly", details("show assembly", code(kernel.get_source("asm")))),
    ]
    return View(f"{name} for {kernel.target}", sections)


def _passes(steps: Sequence[tuple[str, str]]) -> str:
    """What each pass changed."""
    made, idle, room = "", [], MOST // 2
    for (_, before), (name, after) in pairwise(steps):
        if before == after:
            idle.append(name)
            continue
        lines = [
            line
            for line in difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
            if not line.startswith(("---", "+++"))
        ]
        part = details(f"{name}: {_count(lines)}", code("\n".join(lines)))
        room -= len(part)
        made += part if room > 0 else details(f"{name}: {_count(lines)}", "<div>too long to show</div>")
    return made + f"<div>no change by: {escape(', '.join(idle))}</div>"


def _count(lines: Sequence[str]) -> str:
    more, less = sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)
    return f"{more} lines new, {less} gone"
