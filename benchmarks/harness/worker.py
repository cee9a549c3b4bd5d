"""One process of a run: suites at one number of threads, all peers in turns. Prints a line of JSON a case on
its standard output.

``python -m benchmarks.harness.worker SUITE … --threads N``; the environment must be ``peer.environment(N)``
from the start.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import machine, measure, peaks
from .case import Array, Case, problem
from .peer import Peer, Prepared

Entry = dict[str, Any]


def started(
    peers: Mapping[str, Callable[[], Peer]], names: Iterable[str], threads: int
) -> tuple[dict[str, Peer], dict[str, str]]:
    """(peers that are there, notes on those that are not)."""
    there, notes = {}, {}
    for name in names:
        try:
            peer = peers[name]()
            peer.start(threads)
        except ImportError as error:
            notes[name] = f"not installed ({error})"
        else:
            there[name] = peer
    return there, notes


def run_case(
    case: Case,
    peers: Mapping[str, Peer],
    notes: Mapping[str, str],
    ours: str,
    take_turns: Callable[[dict[str, Callable[[], object]]], dict[str, measure.Samples]],
) -> Entry:
    """A case as data: for each peer its times, or why there are none. Only right results are timed."""
    arrays = case.inputs()
    expected = case.reference(*arrays.values())
    results: dict[str, Entry] = {name: {"status": "skipped", "note": note} for name, note in notes.items()}
    there: dict[str, Prepared] = {}  # kept until the end: they own the arrays that are written
    for name, peer in peers.items():
        reason = peer.unsupported(case)
        if reason is not None:
            results[name] = {"status": "skipped", "note": reason}
            continue
        prepared, results[name] = _prepare(peer, case, arrays, expected)
        if prepared is not None:
            there[name] = prepared
    samples = take_turns({name: prepared.run for name, prepared in there.items()})
    for name, found in samples.items():
        first, third = found.quartiles
        results[name] |= {
            "median": found.median,
            "quartiles": [first, third],
            "rounds": len(found.seconds),
            "calls": found.calls,
            "busy": round(statistics.median(found.busy), 2),
            "counted": peers[name].counted,
        }
    entry: Entry = {
        "suite": case.suite,
        "name": case.name,
        "op": case.op,
        "weights": case.weights,
        "note": case.note,
        "flops": case.flops,
        "read": case.read,
        "written": case.written,
        "arguments": [[a.name, list(a.shape), a.dtype] for a in case.arguments],
        "peers": results,
    }
    if ours in samples:
        entry |= compared(samples, [n for n in samples if n != ours and peers[n].counted], ours)
    return entry


def compared(samples: Mapping[str, measure.Samples], others: list[str], ours: str) -> Entry:
    """Ours against each other and against the best of those that count, by rounds."""
    entry: Entry = {
        "ratios": {name: measure.ratio(samples[ours], samples[name])[0] for name in samples if name != ours}
    }
    if others:
        best = min(others, key=lambda n: samples[n].median)
        value, around = measure.ratio(samples[ours], samples[best])
        entry |= {"best": best, "ratio": value, "ratio_quartiles": list(around)}
    return entry


def _prepare(
    peer: Peer, case: Case, arrays: dict[str, Array], expected: Array
) -> tuple[Prepared | None, Entry]:
    start = time.perf_counter()
    try:
        prepared = peer.prepare(case, arrays)
        seconds = time.perf_counter() - start if prepared.seconds is None else prepared.seconds
        wrong = problem(case, prepared.result(), expected)
    except (
        Exception
    ) as error:  # whatever a peer does, the others are measured, and the table says what happened
        return None, {
            "status": "failed",
            "note": f"{type(error).__name__}: "
            f"{str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:300],
        }
    if wrong is not None:
        return None, {"status": "wrong", "note": wrong}
    return prepared, {"status": "ok", "prepare": round(seconds, 4)} | (
        {} if prepared.code is None else {"code": prepared.code}
    )


def main(arguments: list[str]) -> None:
    from ..peers import OURS, PEERS
    from ..suites import SUITES, of

    parser = argparse.ArgumentParser()
    parser.add_argument("suites", nargs="+", choices=SUITES)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--peers", nargs="+", default=list(PEERS))
    parser.add_argument("--budget", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=measure.ROUNDS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--case", help="only cases with this in their name")
    parser.add_argument("--weights", choices=("call", "packed"))
    parser.add_argument("--seed", type=int, default=0, help="of the shapes that are drawn")
    options = parser.parse_args(arguments)
    peers, notes = started(PEERS, options.peers, options.threads)
    caches = machine.caches()
    found = peaks.measure(options.threads, caches, options.rounds)
    _say({"versions": {name: machine.version(peer.package) for name, peer in peers.items() if peer.package}})
    cases = [
        c
        for suite in options.suites
        for c in of(suite, options.seed)
        if (c.quick or not options.quick)
        and (options.case or "") in c.name
        and options.weights in (None, c.weights)
    ]
    for case in cases:
        entry = run_case(
            case,
            peers,
            notes,
            OURS,
            lambda runs: measure.take_turns(runs, budget=options.budget, rounds=options.rounds),
        )
        _say({"case": entry | {"threads": options.threads}})
        gc.collect()
    found = found.best(
        peaks.measure(options.threads, caches, options.rounds)
    )  # again: what disturbed the first is over
    _say({"peaks": found.as_json(), "bounds": [found.bound(c) for c in cases]})


def _say(what: Entry) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
