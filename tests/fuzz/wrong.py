"""Sequences of calls that are mostly wrong, and traces with something changed: what is accepted is right, the
rest is a ScheduleError.

``python -m tests.fuzz.wrong --count 20000`` runs many and prints how they ended.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
from collections import Counter
from typing import Any

import tensorlang as tl
from tensorlang.errors import LowerError, ScheduleError
from tensorlang.schedule.primitives import TABLE
from tensorlang.schedule.trace import Trace

from . import crew, harness
from .check import declared, schedule_of
from .graphs import Graph, random_graph
from .schedules import random_call, random_steps

LARGEST = 16  # a number in a schedule that is still run


def calls(s: tl.Schedule, rng: random.Random, foreign: list[Any], ended: Counter[str]) -> None:
    """Up to ten wild calls: each is legal, or raises ScheduleError and leaves the state as it was."""
    for _ in range(rng.randint(1, 10)):
        state, made = s.state, len(s.trace)
        call = random_call(s, rng, foreign)
        try:
            call()
        except ScheduleError as e:
            assert str(e), "an error says something"
            assert s.state is state and len(s.trace) == made, "a refused call changes nothing"
            ended["calls refused"] += 1
        else:
            ended["calls accepted"] += 1


def changed(text: str, rng: random.Random) -> str:
    """The JSON of a trace with a few things in it replaced, left out, doubled or exchanged."""
    data = json.loads(text)
    steps = data["steps"]
    words = [v for _, arguments in steps for v in arguments.values() if isinstance(v, str)] or ["i"]
    wild = [
        0,
        1,
        -1,
        2,
        3,
        5,
        8,
        70,
        2**40,
        None,
        True,
        2.5,
        "i",
        "nowhere",
        [],
        ["i", "j"],
        {},
        {"knob": "no.0"},
        *words,
    ]
    for _ in range(rng.randint(1, 3)):
        if not steps:
            steps.append([rng.choice(TABLE).name, {"stage": "T1"}])
        p = rng.randrange(len(steps))
        name, arguments = steps[p]
        match rng.randrange(8):
            case 0:
                del steps[p]
            case 1:
                steps.insert(rng.randint(0, len(steps)), [name, dict(arguments)])
            case 2:
                q = rng.randrange(len(steps))
                steps[p], steps[q] = steps[q], steps[p]
            case 3:
                steps[p] = [rng.choice([*(t.name for t in TABLE), "nonsense", 3]), arguments]
            case 4 if arguments:
                del arguments[rng.choice(list(arguments))]
            case 5:
                data["decisions"] = {
                    k: rng.choice(([], [1], [3, 5], [0], ["x"], 4)) for k in data["decisions"]
                }
            case _ if arguments:
                arguments[rng.choice(list(arguments))] = rng.choice(wild)
    return json.dumps(data)


def numbers(trace: Trace) -> list[int]:
    """All numbers in a trace."""
    found: list[int] = []

    def look(x: Any) -> None:
        if isinstance(x, list | tuple):
            for y in x:
                look(y)
        elif isinstance(x, dict):
            look(list(x.values()))
        elif isinstance(x, int):
            found.append(x)

    look(json.loads(trace.to_json()))
    return found


def right(graph: Graph, case: Any, s: tl.Schedule, ended: Counter[str]) -> None:
    """Lower what was accepted, and interpret it when it is small."""
    args, outputs, ranges = case
    if max(numbers(s.trace), default=0) > LARGEST:
        s.tree()
        ended["too large to run"] += 1
        return
    try:
        harness.run(args, outputs, ranges, s, graph.sizes, build_it=False, thorough=False)
        ended["right"] += 1
    except LowerError as e:
        assert any(
            x in str(e)
            for x in (
                "known only at run time",
                "copies",
                "unroll",
                "tail=",
                "tensorize(",
                "waits for its place",
            )
        ), f"refused at lowering only: {e}"
        ended["refused at lowering"] += 1


def sequence(seed: int) -> Counter[str]:
    """One sequence: wild calls after a few legal ones, or a changed trace. Every third schedule that came of
    it is run."""
    rng = random.Random(seed)
    graph = random_graph(rng)
    case = declared(graph)
    s = schedule_of(case[1])
    ended: Counter[str] = Counter(sequences=1)
    random_steps(s, rng, 6)
    if seed % 2:
        other = declared(random_graph(rng))[1][0]
        calls(s, rng, [other, other.op, *other.op.axis, object()], ended)
    else:
        fresh = schedule_of(case[1])
        state = fresh.state
        try:
            Trace.from_json(changed(s.trace.to_json(), rng)).apply(fresh)
            ended["traces accepted"] += 1
        except ScheduleError as e:
            assert str(e) and fresh.state is state and not fresh.trace.steps, (
                "a refused trace changes nothing"
            )
            ended["traces refused"] += 1
        s = fresh
    if seed % 6 < 2:
        right(graph, case, s, ended)
    return ended


def one(seed: int) -> Counter[str] | str:
    """One sequence; the text of what went wrong."""
    try:
        return sequence(seed)
    except Exception as e:
        return f"{type(e).__name__}: {e}"


def main(argv: list[str] | None = None) -> int:
    """Run; the exit code is 1 when something other than ScheduleError was raised, or something accepted was
    wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    options = parser.parse_args(argv)
    total: Counter[str] = Counter()
    bad = 0
    for seed, got in crew.outcomes(one, range(options.seed, options.seed + options.count), options.jobs):
        if isinstance(got, Counter):
            total.update(got)
        else:
            bad += 1
            print(f"seed {seed}: {got}", flush=True)
    print(dict(total), f"{bad} failure(s)")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
