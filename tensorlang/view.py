"""``tl.view(s, args)`` and ``f.view()``: what the compiler makes of a schedule, as one page: the tree, bytes
and reuse of each loop, loop IR and assembly side by side, the kernel below the roof of the machine, what each
pass changed, LLVM. Nothing is loaded from anywhere; every part is reached by keys. Knows lowering, building
and analysis; draws with the room of pictures."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from .analysis import Statement, analyse
from .build import build, lower
from .codegen import Instruction, Located, located
from .core.text import bytes_text
from .display import Raw, box, code, details, escape, folded, page, table, tree_svg
from .display.linked import SCRIPT, Row, chooser, ends, linked
from .display.plots import roof
from .entries import public
from .errors import TensorLangError
from .expr.nodes import Expr, const_int
from .loopir.stmt import Func
from .passes.base import Hook, Pass
from .roofline import position
from .runtime import Module, files
from .schedule.schedule import Schedule
from .target import Target, as_target
from .te.tensor import Tensor

Steps = Sequence[tuple[str, str]]  # of each pass its name and the text of what it made
ROOM = 120_000  # bytes, of the 500,000 of a page, for what passes changed
SECONDS = 0.2  # of measuring
_LOOP = re.compile(r"\s*for (\S+) in ")
_LINE = attrgetter("line")
_VECTOR = re.compile(r"%[xyz]mm(\d+)|\b[vqz](\d{1,2})\b")


class _Loop(NamedTuple):
    """A loop of the loop IR: its variable, its first line, from 1, and its last."""

    name: str
    first: int
    last: int

    def button(self, words: str) -> Raw:
        """HTML that marks it."""
        return Raw(chooser(words, self.first, self.last))


@public(TensorLangError, "View", eager=True)
class View:
    """The page: ``save(path)`` writes it, a notebook shows it, ``html`` is its text."""

    def __init__(self, title: str, sections: Sequence[tuple[str, str]]) -> None:
        links = "".join(f'<a href="#s{n}">{escape(name)}</a>' for n, (name, _) in enumerate(sections))
        body = "".join(f'<h2 id="s{n}">{escape(name)}</h2>{text}' for n, (name, text) in enumerate(sections))
        self.title = title
        self.body = box(title, f"<nav>{links}</nav>", body)
        self.html = page(title, self.body, SCRIPT)

    def save(self, path: str | Path) -> None:
        """Write the page. Raises TensorLangError when it cannot be written."""
        files.write({files.named(path, "View.save"): self.html.encode()}, "save the page")

    def __repr__(self) -> str:
        return f"<view of {self.title}: {len(self.html) // 1000} kB; v.save('view.html') writes it>"

    def _repr_html_(self) -> str:
        return self.body


def view(
    schedule: Schedule,
    args: Sequence[Any],
    target: str | Target | None = None,
    *,
    name: str = "main",
    arrays: Sequence[Any] = (),
) -> View:
    """A page that shows how a schedule becomes machine code: ``tl.view(s, [A, B, C]).save("view.html")``.

    It holds the schedule tree; for each loop what one run of it touches and how often each byte is used;
    loop IR and assembly side by side, where a click (or the arrow keys) on a loop marks its instructions and
    one on an instruction its line; instructions, vector registers and spills of each loop; what each pass of
    the compiler changed (lines with + and -); LLVM. With ``arrays``, the inputs of a call, the kernel is
    timed, a fifth of a second, and drawn below the roof of this machine. At most 500 kB: long texts are cut.
    Raises LowerError and TargetError as ``build`` does, CallError for arrays that do not fit.
    """
    func, steps = watched(lambda hooks: lower(schedule, args, name, hooks=hooks))
    kernel = build(func, target=target)
    return page_of(kernel, func, as_target(target), "default", schedule, args, steps, arrays)


def watched(lowering: Callable[[tuple[Hook, ...]], Func]) -> tuple[Func, Steps]:
    """What is lowered with a hook, and the text of the loop IR at first and after each pass."""
    steps: list[tuple[str, str]] = []

    def hook(p: Pass, after: Func, seconds: float) -> None:
        steps.append((p.name, str(after)))

    return lowering((hook,)), steps


def page_of(
    kernel: Module,
    func: Func,
    target: Target,
    math: str,
    schedule: Schedule | None,
    args: Sequence[Any],
    steps: Steps,
    arrays: Sequence[Any],
) -> View:
    """The page of a kernel that was made of ``func``, and that by these steps. Without a schedule there is
    no tree."""
    code_of = located(func, target, math)
    loops = _loops(code_of.lines)
    facts = None if schedule is None else analyse(schedule)
    sections = []
    if schedule is not None and facts is not None:
        sections.append(("schedule tree", tree_svg(schedule.tree())))
        sections.append(("bytes and reuse", _reuse(facts.statements, loops, target)))
    rows = [Row(i.text, i.line, bool(i.moved)) for i in code_of.code]
    sections.append(("loop IR and assembly", linked(code_of.lines, rows)))
    sections.append(("instructions and registers", _registers(code_of, loops, target)))
    if facts is not None:
        sections.append(("roofline", _roofline(kernel, facts.flops, args, arrays)))
    if steps:
        sections.append(("loop IR of the schedule", folded(steps[0][1])))
        sections.append(("passes", _passes(steps)))
    sections.append(("LLVM", details("show LLVM", code(kernel.get_source("ll")))))
    return View(f"{kernel.name} for {kernel.target}", sections)


def _loops(lines: Sequence[str]) -> list[_Loop]:
    found = enumerate(zip(lines, ends(lines), strict=True), 1)
    return [_Loop(m[1], n, last) for n, (text, last) in found if (m := _LOOP.match(text))]


def _reuse(statements: Sequence[Statement], loops: Sequence[_Loop], target: Target) -> str:
    """What one run of each loop touches, and how often each byte of that is used. A loop whose name no other
    has in the loop IR is marked by a button."""
    times = Counter(x.name for x in loops)
    alone = {x.name: x for x in loops if times[x.name] == 1}
    rows = []
    for st in statements:
        for level, loop in enumerate(st.loops):
            touched = {a.tensor: _number(a.touched(level)) for a in st.accesses}
            whole, inside = sum(touched.values()), _number(st.extent(level))
            used = inside * sum(a.bytes * a.count for a in st.accesses)
            words = f"{loop.stage}.{loop.name}"
            shown = alone.get(loop.name) if level >= st.own else None
            rows.append(
                (
                    words if shown is None else shown.button(words),
                    st.name if not level else "",
                    loop.kind,
                    _number(loop.extent),
                    ", ".join(f"{t} {bytes_text(n)}" for t, n in touched.items()),
                    _fits(whole, target),
                    _times(used / max(whole, 1)),
                )
            )
    heads = ("loop", "statement", "kind", "iterations", "one run touches", "", "each byte is used")
    return table(rows, heads)


def _times(n: float) -> str:
    text = f"{n:,.3g}"
    return "once" if text == "1" else f"{text} times"


def _number(e: Expr | int) -> int:
    n = e if isinstance(e, int) else const_int(e)
    return 0 if n is None else n


def _fits(n: int, target: Target) -> str:
    levels = (("L1", target.l1_bytes), ("L2", target.l2_bytes), ("L3", target.l3_bytes))
    return next((f"fits {name}" for name, size in levels if n <= size), "fits no cache")


def _registers(made: Located, loops: Sequence[_Loop], target: Target) -> str:
    """Instructions, vector registers and moves to and from the stack: of the kernel and of each loop."""
    real = sorted((i for i in made.code if not i.is_label), key=_LINE)
    rows: list[tuple[object, ...]] = [("the kernel", *_counts(real))]
    for loop in loops:
        inner = [x for x in loops if loop.first < x.first <= loop.last]
        words = made.lines[loop.first - 1].strip().rstrip(":")
        mine = real[bisect_left(real, loop.first, key=_LINE) : bisect_right(real, loop.last, key=_LINE)]
        own = "" if inner else "innermost"
        rows.append((loop.button(words), *_counts(mine), own))
    note = f"<div>There are {target.vector_registers} vector registers of {target.vector_bits} bits.</div>"
    return table(rows, ("loop", "instructions", "vector registers", "spills", "reloads", "")) + note


def _counts(mine: Sequence[Instruction]) -> tuple[int, int, int, int]:
    vectors = {m[1] or m[2] for i in mine for m in _VECTOR.finditer(i.text)}
    moved = [i.moved for i in mine]
    return len(mine), len(vectors), moved.count("spill"), moved.count("reload")


def _roofline(kernel: Module, flops: int, args: Sequence[Any], arrays: Sequence[Any]) -> str:
    """The kernel below the roof, if there is something to time it on."""
    if not arrays:
        return "<div>tl.view(s, args, arrays=[a, b]), or f.view(a, b), times the kernel and draws it.</div>"
    timing = kernel.benchmark(*arrays, seconds=SECONDS)
    if not flops:
        return f"<div>{escape(timing)}; its operations are not known, for its sizes are open.</div>"
    p = position([a for a in args if isinstance(a, Tensor)], flops, timing.median)
    return f"{roof(p)}<div>{escape(timing)}: {escape(p)}</div>"


def _passes(steps: Steps) -> str:
    """What each pass changed."""
    made, idle, room = "", [], ROOM
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
