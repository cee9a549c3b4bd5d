"""One fuzz case: a seed gives a graph and a trace; all oracles must agree, and the trace must survive its
texts.

A failure is a :class:`Failure` that holds a stand-alone script with as few steps as still fail.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorlang as tl
from tensorlang import te
from tensorlang.errors import LowerError, ScheduleError
from tensorlang.schedule.trace import Trace

from . import functions, harness
from .coverage import home_of, wish_of
from .graphs import Graph, random_graph
from .schedules import random_steps

Case = tuple[list[Any], list[Any], dict[str, tuple[int, int]]]


class Failure(AssertionError):
    """What went wrong, and the script that shows it."""


@dataclass(frozen=True)
class Outcome:
    """What one case covered."""

    family: str
    steps: tuple[str, ...]
    interpreted: int
    compiled: int
    refused: bool = False


def declared(graph: Graph) -> Case:
    """The graph of that text."""
    scope: dict[str, Any] = {"te": te, "ops": tl.ops}
    exec(graph.text, scope)
    case: Case = scope["graph"]()
    return case


def schedule_of(outputs: list[Any]) -> tl.Schedule:
    return tl.create_schedule([t.op for t in outputs])


def script(graph: Graph, trace: Trace) -> str:
    """A file that runs the case alone."""
    return "\n".join(
        (
            inspect.getsource(harness),
            inspect.getsource(functions).replace("from __future__ import annotations\n", ""),
            graph.text,
            trace.to_python(),
            "args, outputs, ranges = graph()",
            "s = apply(tl.create_schedule([t.op for t in outputs]))",
            "print(s.tree())",
            "print(tl.lower(s, args, simple=True))",
            f"run(args, outputs, ranges, s, {list(graph.sizes)!r}, each_pass=True)",
            "",
        )
    )


# what no primitive sees: rows known only at a call, tiles of another size, and a size that a layout divides
REFUSED = ("known only at run time", "tail='shift'", "is determined by no argument")


def no_primitive_sees(e: LowerError) -> bool:
    """Whether an error is one of those, by what it says first: what it advises, and the program that it shows,
    may hold the same words."""
    first = str(e).partition("\n")[0]
    return any(why in first for why in REFUSED)


def round_trip(outputs: list[Any], args: list[Any], s: tl.Schedule) -> None:
    """The trace as JSON and as Python text makes the same kernel again."""
    want = str(tl.lower(s, args, simple=True))
    again = Trace.from_json(s.trace.to_json())
    assert again == s.trace, "the trace read back from JSON differs"
    assert str(tl.lower(again.apply(schedule_of(outputs)), args, simple=True)) == want, (
        "the trace replayed from JSON gives another kernel"
    )
    scope: dict[str, Any] = {}
    exec(s.trace.to_python(), scope)
    assert str(tl.lower(scope["apply"](schedule_of(outputs)), args, simple=True)) == want, (
        "the trace replayed from Python gives another kernel"
    )


def problem(graph: Graph, trace: Trace, build: bool = True) -> str | None:
    """What is wrong with a case, or None. A trace that is refused is not wrong."""
    try:
        args, outputs, ranges = declared(graph)
        s = trace.apply(schedule_of(outputs))
        harness.run(args, outputs, ranges, s, graph.sizes, build_it=build, each_pass=True)
        round_trip(outputs, args, s)
    except (ScheduleError, LowerError):
        return None
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return None


def fewer(trace: Trace, fails: Callable[[Trace], bool]) -> Trace:
    """The trace without the steps it can fail without."""
    steps = list(trace.steps)
    again = True
    while again:
        again = False
        for p in reversed(range(len(steps))):
            shorter = Trace(tuple(steps[:p] + steps[p + 1 :]), trace.decisions)
            if fails(shorter):
                del steps[p]
                again = True
    return Trace(tuple(steps), trace.decisions)


def check(
    seed: int,
    *,
    build: bool = True,
    interpret: bool = True,
    family: str | None = None,
    most: int = 15,
    thorough: bool = True,
    seconds: float | None = None,
) -> Outcome:
    """Run one case. Raises Failure with a script; refusals are part of the game.

    Each seed wishes for a pair of primitives (see coverage). ``thorough`` verifies after every pass, watches
    for races and replays the trace; else the kernel is verified after lowering and after the last pass.
    ``seconds`` limits the build.
    """
    rng = random.Random(seed)
    wish = wish_of(seed)
    graph = random_graph(rng, family or home_of(wish, rng))
    args, outputs, ranges = declared(graph)
    s = schedule_of(outputs)
    trace = s.trace
    try:
        steps = tuple(random_steps(s, rng, most, wish))
        trace = s.trace
        interpreted, compiled = harness.run(
            args,
            outputs,
            ranges,
            s,
            graph.sizes,
            build_it=build,
            interpret_it=interpret,
            thorough=thorough,
            seconds=seconds,
        )
        if thorough:
            round_trip(outputs, args, s)
    except LowerError as e:
        if not no_primitive_sees(e):
            raise Failure(f"seed {seed} ({graph.family}): {e}\n{script(graph, s.trace)}") from e
        return Outcome(graph.family, steps, 0, 0, True)
    except Exception as e:
        trace = s.trace
        first = problem(graph, trace, build)
        if first is not None:
            trace = fewer(trace, lambda t: (problem(graph, t, build) or "")[:12] == first[:12])
        what = problem(graph, trace, build) or f"{type(e).__name__}: {e}"
        raise Failure(f"seed {seed} ({graph.family}): {what}\n{script(graph, trace)}") from e
    return Outcome(graph.family, steps, interpreted, compiled)
