"""``python -m benchmarks.run``: this project beside what a user would pick instead, on the same work, in
turns, in one process a suite.

    python -m benchmarks.run                                    everything: a quarter of an hour on two cores
    python -m benchmarks.run --quick   a part of the cases, without torch.compile: two minutes
    python -m benchmarks.run --suite matmul conv --threads 1 --peers numpy torch
    python -m benchmarks.run --suite conv --threads 2 --weights packed --into FILE.json   a piece of a run
    python -m benchmarks.run --again --into FILE.json           one more run, beside those the file has

Prints tables of ratios, checks every result against numpy before it is timed, and writes a JSON file and a
picture under ``benchmarks/results/``. Exits with 1 when a result of ours was wrong. Peers that are not
installed are left out with a note.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from .harness import machine, table
from .harness.measure import ROUNDS
from .harness.merge import DifferentError, merged
from .harness.peer import environment
from .peers import OURS, PEERS
from .report import picture
from .suites import SUITES

FORMAT = 1
RESULTS = Path(__file__).parent / "results"
BUDGET = 2.5  # seconds of a case
QUICK_BUDGET, QUICK_ROUNDS, QUICK_WITHOUT = (
    0.4,
    7,
    {"torch.compile"},
)  # its C++ compiler takes longer than a quick run should


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    console = Console(width=options.width)
    peers = list(dict.fromkeys([OURS, *options.peers]))
    result = _empty(peers, options)
    try:
        if options.into and options.into.exists():
            result = merged(json.loads(options.into.read_text(encoding="utf-8")), result)
        for suites in (
            [options.suite] if options.quick else [[s] for s in options.suite]
        ):  # to import the peers takes as long as a quick suite
            for threads in options.threads:
                piece = _empty(peers, options)
                entries = _run(suites, threads, peers, options, piece)
                result = merged(result, piece, options.again)
                if options.into:  # what was measured stays when the rest is not
                    save(result, options.into)
                for suite in suites:
                    table.show_cases(
                        console,
                        [e for e in entries if e["suite"] == suite],
                        peers,
                        f"{suite}, {table.threads(threads)}",
                    )
    except DifferentError as error:
        print(f"{options.into} was not measured like this, and stays as it is: {error}", file=sys.stderr)
        return 2
    table.show_summary(console, result)
    _write(result, options, console)
    return int(
        any(e["peers"][OURS]["status"] in ("wrong", "failed") for e in result["cases"] if OURS in e["peers"])
    )


def _empty(peers: list[str], options: argparse.Namespace) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "date": machine.now(),
        "machine": machine.describe(),
        "versions": {},
        "peers": peers,
        "options": {
            "quick": options.quick,
            "budget": options.budget,
            "rounds": options.rounds,
            "case": options.case,
            "seed": options.seed,
        },
        "peaks": {},
        "cases": [],
        "seconds": 0,
    }


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run", description="The project beside its peers."
    )
    parser.add_argument("--suite", nargs="+", action="extend", choices=SUITES)
    parser.add_argument(
        "--threads", nargs="+", action="extend", type=int, help="numbers of threads (default 1 2)"
    )
    parser.add_argument("--peers", nargs="+", action="extend", choices=PEERS)
    parser.add_argument("--case", help="only cases with this in their name")
    parser.add_argument(
        "--weights",
        choices=("call", "packed"),
        help="only cases with weights given at the call, or packed beforehand",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the suite of shapes that are drawn (default 0)"
    )
    parser.add_argument("--quick", action="store_true", help="a part of the cases, and a short look at each")
    parser.add_argument(
        "--budget", type=float, help=f"seconds of a case (default {BUDGET}, quick {QUICK_BUDGET})"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        help=f"turns a peer has in a case at most (default {ROUNDS}, quick {QUICK_ROUNDS}); a third at least",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--json", type=Path, help=f"where to write the result (default {RESULTS.name}/ by date)"
    )
    where.add_argument(
        "--into",
        type=Path,
        metavar="FILE",
        help="add the result to this one, measured on the same machine with the same packages; "
        "cases that it has are replaced",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="with --into: one more run of the cases that FILE has; their ratios stand side by side, and a "
        "case fails only when the whole 95 %% interval over its runs lies below what is wanted",
    )
    parser.add_argument("--width", type=int, help="columns of the tables")
    options = parser.parse_args(arguments)
    if options.again and options.into is None:
        parser.error("--again adds a run to a result: name its file with --into FILE")
    options.suite, options.threads = options.suite or list(SUITES), options.threads or [1, 2]
    if options.peers is None:
        options.peers = [p for p in PEERS if not (options.quick and p in QUICK_WITHOUT)]
    if options.budget is None:
        options.budget = QUICK_BUDGET if options.quick else BUDGET
    if options.rounds is None:
        options.rounds = QUICK_ROUNDS if options.quick else ROUNDS
    return options


def _run(
    suites: list[str], threads: int, peers: list[str], options: argparse.Namespace, result: dict[str, Any]
) -> list[dict[str, Any]]:
    """The entries of some suites, measured in a process of their own, added to the result."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.harness.worker",
        *suites,
        "--threads",
        str(threads),
        "--peers",
        *peers,
        "--budget",
        str(options.budget),
        "--rounds",
        str(options.rounds),
        "--seed",
        str(options.seed),
    ]
    command += ["--quick"] if options.quick else []
    command += ["--case", options.case] if options.case else []
    command += ["--weights", options.weights] if options.weights else []
    begin = time.perf_counter()
    entries: list[dict[str, Any]] = []
    surroundings = os.environ | environment(threads)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=surroundings, cwd=Path(__file__).parents[1]
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("{"):
                continue  # what a peer prints
            said = json.loads(line)
            if "case" in said:
                entries.append(said["case"])
                _progress(
                    f"{said['case']['suite']}, {table.threads(threads)}: {len(entries)} "
                    f"{said['case']['name']}"
                )
            elif "versions" in said:
                result["versions"] |= said["versions"]
            else:
                result["peaks"].setdefault(str(threads), {})[" ".join(suites)] = said["peaks"]
                for e, bound in zip(entries, said["bounds"], strict=True):
                    e |= bound
    _progress("")
    if process.returncode:  # a peer has taken the process with it: what was measured until then is kept
        print(
            f"{', '.join(suites)} on {table.threads(threads)}: the process ended with {process.returncode} "
            "after "
            f"{entries[-1]['name'] if entries else 'the start'}",
            file=sys.stderr,
        )
    result["cases"] += entries
    result["seconds"] += round(time.perf_counter() - begin)
    return entries


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)


def _write(result: dict[str, Any], options: argparse.Namespace, console: Console) -> None:
    path = (
        options.into
        or options.json
        or RESULTS / f"{result['date'][:10]}-{'quick' if options.quick else 'full'}.json"
    )
    save(result, path)
    console.print(f"{path}, {result['seconds']} s")
    drawn = picture(result, path.with_suffix(".png"))
    console.print(str(drawn) if drawn else "no picture: matplotlib is not installed, or nothing was compared")


def save(result: dict[str, Any], path: Path) -> None:
    """At once or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(dumps(result), encoding="utf-8")
    new.replace(path)


def dumps(result: dict[str, Any]) -> str:
    """JSON with a line a case, so that a diff of two results can be read; six digits are more than is
    known."""

    def short(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.6g}")
        if isinstance(value, dict):
            return {k: short(v) for k, v in value.items()}
        return [short(v) for v in value] if isinstance(value, list) else value

    head = json.dumps(short({k: v for k, v in result.items() if k != "cases"}), indent=1)
    cases = ",\n  ".join(json.dumps(short(e), ensure_ascii=False) for e in result["cases"])
    return f'{head[:-2]},\n "cases": [\n  {cases}\n ]\n}}\n'


if __name__ == "__main__":
    sys.exit(main())
