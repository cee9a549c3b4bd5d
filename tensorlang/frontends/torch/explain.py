"""A report of what became of a function: its graphs, where it breaks and what to write there, what stays in
torch, and how long regions take. Knows dynamo's explanations and the backend; nothing of engines within.
"""

from __future__ import annotations

import linecache
import re
import sysconfig
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ...entries import public
from ...errors import TensorLangError, counted
from ...runtime import files
from . import backend, region, report, traced
from .advice import OUTSIDE, advice_for
from .monitor import Monitor

_LIBRARIES = (
    Path(__file__).parents[2],  # ours
    *{Path(p) for n, p in sysconfig.get_paths().items() if n.endswith(("lib", "stdlib"))},
)


@dataclass(frozen=True)
class Break:
    """Where dynamo ends a graph: ``file`` and ``line``, the ``text`` of that line, what it says, and what to
    write in its place."""

    file: str
    line: int
    text: str
    reason: str
    advice: str

    def __str__(self) -> str:
        return (
            f"{Path(self.file).name}:{self.line}: {self.text}\n      {self.reason}\n      try {self.advice}"
        )


@public(TensorLangError, "explanation", text="plain")
@dataclass(repr=False)
class Explanation:
    """What ``tensorlang.torch.explain`` tells; prints as text, is a table in a notebook, ``save`` writes one
    page of HTML."""

    name: str
    graphs: list[backend.Compiled]
    breaks: list[Break]
    guards: dict[str, int]
    recompiled: list[str]
    times: list[tuple[str, int, float, float]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def left(self) -> dict[str, tuple[int, str]]:
        """Operators that run in torch: how many, and why."""
        pairs = [pair for g in self.graphs for pair in g.left.values()]
        return {name: (n, why) for (name, why), n in Counter(pairs).items()}

    @property
    def head(self) -> list[str]:
        """What became of it, in a few lines."""
        nodes, taken = sum(g.nodes for g in self.graphs), sum(g.taken for g in self.graphs)
        regions = [r for g in self.graphs for r in g.regions]
        head = [
            f"{counted(len(self.graphs), 'graph')} of {counted(nodes, 'operator')}, "
            f"{counted(len(self.breaks), 'break')}",
            f"{counted(taken, 'operator')} in {counted(len(regions), 'region')}, {nodes - taken} in torch; "
            f"{self.seconds:.2f} s to compile",
        ]
        head += [] if self.graphs else ["no graph: Python runs the function as it is"]
        head += [f"a graph stays in torch: {g.reason}" for g in self.graphs if g.reason]
        head += [f"a region stays in torch: {r.counts.reason}" for r in regions if r.counts.reason]
        return head

    def sections(self) -> list[tuple[str, list[str]]]:
        """Titles with their lines."""
        left = [f"{n} × {op}: {why or 'torch does it as well'}" for op, (n, why) in self.left.items()]
        times = [
            f"{what}, {counted(count, 'operator')}: eager {1e6 * eager:.0f} µs, here {1e6 * here:.0f} µs, "
            f"{eager / here:.2f}×"
            for what, count, eager, here in self.times
        ]
        guards = [f"{n} × {kind}" for kind, n in self.guards.items()]
        return [
            (self.name, self.head),
            ("breaks", [str(b) for b in self.breaks]),
            ("operators in torch", left),
            ("regions", times),
            ("guards", guards),
            ("compiled again", self.recompiled),
        ]

    def __str__(self) -> str:
        lines = []
        for title, body in self.sections():
            if body:
                lines += [title, *(f"  {line}" for line in body)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return report.shown(self)

    def save(self, path: str | Path) -> None:
        """Write the report as one page of HTML. Raises TensorLangError when it cannot be written."""
        files.write({files.named(path, "save"): report.page(self).encode()}, "save the report")


def explained(fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Explanation:
    """The report on ``fn(*args)``, which is called a few times."""
    breaks, explanation = breaks_of(fn, args, kwargs)
    name = getattr(fn, "__qualname__", type(fn).__name__)
    torch._dynamo.reset()
    if explanation is None:  # and would not get further now
        return Explanation(name, [], breaks, {}, [])
    with backend.noted() as graphs, region.watched() as calls, Monitor() as seen:
        torch.compile(fn, backend=backend.tensorlang)(*args, **kwargs)
    return Explanation(
        name,
        graphs,
        breaks,
        dict(Counter(_guard(g) for g in explanation.out_guards or ()).most_common(8)),
        [str(f) for f in seen],
        [_timed(i, r, given) for i, (r, given) in enumerate(calls.items()) if not r.counts.reason],
        sum(g.to_compile for g in graphs),
    )


def breaks_of(fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Break], Any]:
    """Where graphs of ``fn(*args)`` break, each place once, in the order in which they come, and dynamo's own
    explanation; None where dynamo fails."""
    first = _first(fn, args, kwargs)  # before dynamo skips what breaks within try, which it does for good
    torch._dynamo.reset()
    try:
        with traced.explained():  # dynamo's explanation has a backend of its own
            explanation = torch._dynamo.explain(fn)(*args, **kwargs)
    except Exception as error:
        fn(*args, **kwargs)  # which may raise by itself
        failed = _failure(error)
        return first if failed.line in [b.line for b in first] else [*first, failed], None
    breaks = [_break(r.reason, r.user_stack) for r in explanation.break_reasons] + first
    named = {(b.file, b.line): b for b in reversed(breaks)}  # in the words of the explanation
    return [named.pop(place) for b in first + breaks if (place := (b.file, b.line)) in named], explanation


def _failure(error: Exception) -> Break:
    """Where dynamo itself fails, with what it says of it."""
    words = str(error)
    places = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]
    places += [(f, int(n)) for f, n in re.findall(r'File "(.+?)", line (\d+)', words)]
    # the innermost line of the program: those behind it are dynamo's
    file, line = next((place for place in reversed(places) if _own(place[0])), ("?", 0))
    reason = f"dynamo fails: {type(error).__name__}: {words.strip().partition(chr(10))[0]}"
    return Break(file, line, linecache.getline(file, line).strip(), reason, OUTSIDE)


def _break(reason: Any, stack: Sequence[Any]) -> Break:
    """Where the innermost frame of the program stands, and what torch says."""
    words = str(reason)
    # a break inside a library is the doing of the line that calls it
    frame = next((f for f in reversed(stack) if _own(f.filename)), stack[-1] if stack else None)
    file, line = (frame.filename, frame.lineno or 0) if frame else ("?", 0)
    text = (linecache.getline(file, line) or (frame.line or "" if frame else "")).strip()
    said = words.splitlines()[0] if words else ""
    if said.startswith("generic_jump"):  # dynamo's word
        said = f"a branch on the value of a tensor ({said})"
    return Break(file, line, text, said, advice_for(words, text))


def _first(fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[Break]:
    """The first break, which dynamo's explanation leaves out where no operator comes before it, and within
    ``try``, where dynamo skips the whole function. ``fullgraph=True`` would let some breaks pass, ``int(x)``
    for one."""
    torch._dynamo.reset()
    try:
        with torch._dynamo.error_on_graph_break(True), traced.explained():
            torch.compile(fn, backend="eager")(*args, **kwargs)
    except torch._dynamo.exc.TorchDynamoException as error:
        return [_break(getattr(error, "msg", str(error)), getattr(error, "real_stack", None) or ())]
    return []


def _own(file: str) -> bool:
    """Whether a file is the program's: none of Python's library, and of no package that is installed."""
    path = Path(file)
    return path.exists() and not any(path.is_relative_to(place) for place in _LIBRARIES)


def _guard(guard: Any) -> str:
    make = getattr(guard.create_fn, "func", guard.create_fn)  # of a functools.partial
    return str(getattr(make, "__name__", make)).lower().replace("_", " ")


def _timed(i: int, r: region.Region[Any], args: tuple[Any, ...]) -> tuple[str, int, float, float]:
    eager, here = r.timed(args)
    return f"region {i}", r.counts.nodes, eager, here
