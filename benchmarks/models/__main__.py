"""``python -m benchmarks.models [model …]``: real models beside onnxruntime, OpenVINO and MNN.

Each runtime in a process of its own, called in turns; for each size the largest difference of the answers
from onnxruntime's over their scale, the time from file to first answer, and medians of a call. The figure
that counts is the best peer's time over ours, of rounds in which the processors were cores of their own: a
hypervisor may give two of them one core for a while, and then two threads are no faster than one. With
``--cold`` the caches are emptied before each call: a model that is one of many on its machine.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import time
from pathlib import Path
from typing import Any

import tensorlang as tl
from autosched.measure import cores
from tensorlang.peers.answers import Difference, difference
from tensorlang.peers.runtimes import OURS, RUNTIMES, installed
from tensorlang.peers.turns import race

from ..harness.figures import geomean
from .cases import CASES, inputs_of
from .fetch import path

RESULTS = Path(__file__).parents[1] / "results" / "models.json"


def differences(file: str, cases: list[dict[str, Any]]) -> list[float]:
    """The largest difference from onnxruntime over the scale of the answer, for each case; NaN without it."""
    if "onnxruntime" not in installed():
        return [math.nan] * len(cases)
    ours, theirs = (RUNTIMES[name](file, 1) for name in (OURS, "onnxruntime"))
    found = []
    for inputs in cases:
        mine, other = ours(inputs), theirs(inputs)
        found.append(max(_part(difference(mine[n], b)) for n, b in other.items()))
    return found


def _part(d: Difference) -> float:
    """A difference over its scale."""
    return math.inf if d.apart else d.largest / max(d.scale, 1e-9)


def rows(model: str, threads: list[int], rounds: int, cold: bool = False) -> list[dict[str, Any]]:
    """The rows of one model; they are printed as they come."""
    file = path(model)
    if file is None:
        print(f"{model}: not fetched, python -m benchmarks.models.fetch")
        return []
    cases = inputs_of(model, tl.load_onnx(file))
    made = []
    for inputs, part in zip(cases, differences(str(file), cases), strict=True):
        shape = " ".join(str(list(a.shape)) for a in inputs.values())
        for n in threads:
            tl.set_num_threads(n)
            here = functools.partial(cores.apart_after_a_pause, n)
            found = {r.name: r for r in race(str(file), inputs, installed(), n, rounds, 0.05, here, cold)}
            ours = found[OURS]
            peers = [r.median for r in found.values() if r is not ours and not r.error]
            best = min(peers, default=math.nan) / ours.median
            text = "  ".join(f"{r.name} {1e3 * r.median:.3f} ms" for r in found.values() if not r.error)
            print(f"{model:<14} {shape:<40} {n} threads: {best:.2f}×  {part:.0e}  {text}", flush=True)
            times = {r.name: r.error or [r.median, r.ready] for r in found.values()}
            made.append({"model": model, "shape": shape, "threads": n, "ratio": best, "difference": part})
            made[-1]["caches"] = "cold" if cold else "warm"
            made[-1]["seconds of a call, from file to answer"] = times
            made[-1]["rounds that count"] = f"{sum(ours.counted)} of {len(ours.counted)}"
    return made


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models")
    parser.add_argument("models", nargs="*", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cold", action="store_true", help="empty the caches before each call")
    parser.add_argument("--out", type=Path, help=f"where the figures go, for example {RESULTS}")
    given = parser.parse_args()
    every = [r for m in given.models or CASES for r in rows(m, given.threads, given.rounds, given.cold)]
    for n in given.threads:
        ratios = [r["ratio"] for r in every if r["threads"] == n and r["ratio"] > 0]
        if ratios:
            print(
                f"{n} threads: the best peer's time over ours, geometric mean {geomean(ratios):.2f}, lowest "
                f"{min(ratios):.2f}"
            )
    if given.out:
        head = {"date": time.strftime("%Y-%m-%d"), "runtimes": installed(), "rows": every}
        given.out.write_text(json.dumps(head, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
