"""What an engine shows of itself: its kernels as a table, and where the time of a call goes. Knows engines'
programs; compiles nothing.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.dtype import dtype
from ..core.text import columns, cut
from ..entries import public, show
from ..errors import CallError
from .program import Host
from .steps import Arrays, Run
from .timing import seconds_text

if TYPE_CHECKING:
    from .engine import Engine

RUNS = 3, 200  # least and most
SHOWN = 24  # rows of a printed profile
_DIGEST = re.compile(r"_[0-9a-f]{40}$")


@dataclass(frozen=True)
class Row:
    """A kernel, or a function of arrays: the operators in it, the first value it makes, the median of its
    ``seconds`` in a run, and the ``bytes`` of what it reads and writes."""

    operators: str
    makes: str
    seconds: float
    bytes: int

    @property
    def bandwidth(self) -> float:
        """GB/s."""
        return self.bytes / self.seconds / 1e9 if self.seconds else 0.0


@public(CallError, "EngineProfile")
@dataclass(frozen=True, repr=False)
class EngineProfile:
    """The rows in the order in which they run; ``seconds`` is their sum, each the median of ``runs`` runs.
    Prints as a table, the slowest first."""

    rows: tuple[Row, ...]
    runs: int

    @property
    def seconds(self) -> float:
        return sum(r.seconds for r in self.rows)

    def __str__(self) -> str:
        rows = sorted(self.rows, key=lambda r: -r.seconds)
        lines = [("operators", "makes", "time", "share", "GB/s")]
        for r in rows[:SHOWN]:
            figures = seconds_text(r.seconds), self._share(r.seconds), f"{r.bandwidth:.1f}"
            lines.append((cut(r.operators, 48), cut(r.makes, 40), *figures))
        rest = sum(r.seconds for r in rows[SHOWN:])
        if rest:
            lines.append((f"{len(rows) - SHOWN} others", "", seconds_text(rest), self._share(rest), ""))
        end = f"one run {seconds_text(self.seconds)}, medians of {self.runs} runs"
        return f"{columns(lines)}\n{end}"

    def _share(self, seconds: float) -> str:
        return f"{100 * seconds / self.seconds if self.seconds else 0:.1f} %"


show(EngineProfile, text="plain", page="engine_profile")


def profiled(engine: Engine, arrays: Arrays, dims: Mapping[str, int], seconds: float) -> EngineProfile:
    """The profile of calls on these inputs, made for about so long."""
    times: dict[Any, list[float]] = {}
    rows: dict[Any, tuple[str, str, int]] = {}

    def watch(e: Engine, step: Run | Host, arrays: Arrays, dims: dict[str, int], outs: Any) -> None:
        if isinstance(step, Run):
            for i, t in enumerate(step.timed(arrays, dims)):
                times.setdefault((id(step), i), []).append(t)
                if (id(step), i) not in rows:
                    rows[id(step), i] = _kernel_row(e, step, i, dims)
            return
        start = time.perf_counter()
        e.take(step, arrays, dims, outs)
        times.setdefault((id(step), 0), []).append(time.perf_counter() - start)
        rows[id(step), 0] = step.name, e.program.values[step.outputs[0]].name, 0

    end, runs = time.perf_counter() + seconds, 0
    while runs < RUNS[0] or (time.perf_counter() < end and runs < RUNS[1]):
        engine.work(dict(arrays), dict(dims), {}, watch)
        runs += 1
    made = [Row(ops, makes, statistics.median(times[key]), size) for key, (ops, makes, size) in rows.items()]
    return EngineProfile(tuple(made), runs)


def _kernel_row(e: Engine, run: Run, i: int, dims: Mapping[str, int]) -> tuple[str, str, int]:
    p, k = run.program, run.kernels[i]
    numbers = p.sizes.function([n for v in (*k.inputs, *k.outputs) for n in p.values[v].shape], list(dims))
    flat = iter(numbers(*dims.values()))
    total = sum(e.constants[c].nbytes for c in k.constants)
    for v in (*k.inputs, *k.outputs):
        count = dtype(p.values[v].dtype).bytes
        for _ in p.values[v].shape:
            count *= next(flat)
        total += count
    return operators_of(e, k.code), p.values[k.outputs[0]].name, total


def operators_of(e: Engine, code: int) -> str:
    """The name of a kernel without the digest that tells it from others."""
    return _DIGEST.sub("", e.codes[code].signature.name)


def table_of(e: Engine) -> str:
    """The kernels of an engine in the order in which they run, and what stands between them."""
    p = e.program
    weights = sum({id(a): a.nbytes for a in e.constants}.values())
    rows = []
    for step in p.steps:
        if isinstance(step, Host):
            rows.append((f"  {step.name}", "a function of arrays", p.forms(step.outputs)))
            continue
        for n in step:
            k = p.kernels[n]
            size = sum(e.constants[c].nbytes for c in k.constants)
            constants = f"{size / 1024:.0f} kB of constants" if size else ""
            rows.append((f"  {cut(operators_of(e, k.code), 60)}", constants, p.forms(k.outputs)))
    text = [repr(e), f"  {weights / 2**20:.1f} MB of constants", *columns(rows).splitlines()]
    if e.overrides is not None:
        text.append(f"  may be given too: {e.overrides}")
    if p.rest is not None:
        text.append("  then what follows is compiled when a call shows it")
    return "\n".join(text)
