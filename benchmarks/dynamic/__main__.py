"""``python -m benchmarks.dynamic``: kernels of every shape beside what else one would do, on the same arrays,
in turns.

    python -m benchmarks.dynamic                             every suite
    python -m benchmarks.dynamic --suite P1 --quick          a part of the shapes
    python -m benchmarks.dynamic --suite P1 --threads 1 --trials 64   exact shapes tuned too: minutes
    python -m benchmarks.dynamic --suite P9 --case softmax --into FILE.json       a piece, added to FILE

Ratios are times of the other divided by ours: above 1, ours is faster. Only useful operations count, never
padded ones. At the end stands which of the wanted lines were reached; everything goes to one JSON file, with
the machine. Exits with 1 when something of ours was wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

import tensorlang as tl

from ..harness import machine
from ..harness.merge import differences
from ..run import RESULTS, save
from . import baselines, correctness, dense, dispatch_cost, operators, search_time, traces
from .figures import Figure
from .proof import judged

FORMAT = 1
PACKAGES = ("numpy", "torch", "onnxruntime", "scikit-learn")


@dataclass(frozen=True)
class Suite:
    """``run(options)`` yields lines and figures."""

    about: str
    run: Callable[[Any], Iterator[str | Figure]]


SUITES = {
    "P1": Suite(dense.ABOUT, dense.run),
    **{
        name: Suite(operators.ABOUT[name], lambda options, name=name: operators.run(name, options))
        for name in ("P2", "P3", "P4")
    },
    "P5": Suite(dispatch_cost.ABOUT, dispatch_cost.run),
    "P6": Suite(correctness.ABOUT, correctness.run),
    "P7": Suite(search_time.ABOUT, search_time.run),
    "P8": Suite(baselines.ABOUT, baselines.run),
    "P9": Suite(traces.ABOUT, traces.run),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dynamic",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--suite", nargs="*", choices=list(SUITES), default=list(SUITES))
    parser.add_argument("--case", help="only layers, operators and traces with this in their name")
    parser.add_argument("--quick", action="store_true", help="a part of the shapes")
    parser.add_argument("--threads", type=int, default=tl.num_threads())
    parser.add_argument(
        "--trials",
        type=int,
        default=0,
        help="candidates of each tuned exact shape; 0: none is tuned but for P7",
    )
    parser.add_argument("--seed", type=int, default=0, help="which sizes are sampled")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--json", type=Path, help=f"where to write the result (default {RESULTS.name}/ by date)"
    )
    where.add_argument(
        "--into",
        type=Path,
        metavar="FILE",
        help="add to this result of the same machine; figures that it has are replaced",
    )
    options = parser.parse_args(arguments)
    result = _empty()
    path = (
        options.into
        or options.json
        or RESULTS / f"dynamic-{result['date'][:10]}-{'quick' if options.quick else 'full'}.json"
    )
    if options.into and path.exists():
        old = json.loads(path.read_text(encoding="utf-8"))
        if wrong := differences(
            {**old, "options": result["options"]}, result
        ):  # quick figures are marked one by one
            print(f"{path} stays as it is: {'; '.join(wrong)}", file=sys.stderr)
            return 2
        result = {
            **result,
            "versions": old["versions"] | result["versions"],
            "cases": old["cases"],
            "seconds": old["seconds"],
        }
    tl.set_num_threads(options.threads)
    with threadpool_limits(options.threads):
        for name in options.suite:
            _run(name, options, result)
            save(result, path)  # what was measured stays when the rest is not
    print("\nwhat was wanted")
    for verdict in judged(result["cases"]):
        print(verdict)
    print(f"{path}, {result['seconds']} s")
    return int(any(v.line.suite == "P6" and not v.passed for v in judged(result["cases"])))


def _empty() -> dict[str, Any]:
    versions = {p: v for p in PACKAGES if (v := machine.version(p))}
    return {
        "format": FORMAT,
        "date": machine.now(),
        "machine": machine.describe(),
        "versions": versions,
        "options": {"quick": False},
        "proof": [],
        "cases": [],
        "seconds": 0,
    }


def _run(name: str, options: argparse.Namespace, result: dict[str, Any]) -> None:
    """A suite, printed and added to the result."""
    print(f"\n{name}: {SUITES[name].about}; {options.threads} thread(s)")
    begin = time.perf_counter()
    cases = {(e["suite"], e["threads"], e["case"], e["name"]): e for e in result["cases"]}
    for said in SUITES[name].run(options):
        print(said, flush=True)
        if isinstance(said, Figure):
            entry = {"suite": name, "threads": options.threads, "quick": options.quick, **said.to_json()}
            cases[name, options.threads, said.case, said.name] = entry
    result["cases"] = sorted(cases.values(), key=lambda e: (e["suite"], e["threads"]))
    result["seconds"] += round(time.perf_counter() - begin)
    result["proof"] = [v.to_json() for v in judged(result["cases"])]


if __name__ == "__main__":
    sys.exit(main())
