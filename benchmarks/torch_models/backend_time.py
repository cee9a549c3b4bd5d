"""``python -m benchmarks.torch_models.backend_time [models]``: how long backends of torch.compile take, from
the graph that dynamo hands over to what is called.

Each way runs in fresh processes with caches of its own: first without anything of the model (cold), then once
more with what the first left there (cached). What a compiler makes once on a machine, precompiled headers or
helpers, is there in both: another graph was compiled before. The ways take turns, and the median of the
rounds counts. The whole time of the first call, with dynamo's tracing and the run itself, is told beside it,
as is how often torch's caches hit. ``--json`` adds the figures to a file. Knows nothing of what the ways are.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..harness.figures import geomean
from .command import Rows, Table, parser, run

MODELS = ("mlp", "resnet18", "mobilenet_v2", "vit_b_32", "bert", "gpt2")
WAYS = ("tensorlang", "inductor", "inductor_frozen")
FIRST = "first"  # the graph that is compiled before
STATES = ("cold", "cached")
WORKER = "benchmarks.torch_models.backend_worker"


def told(python: str, model: str, way: str, threads: int, directory: Path) -> dict[str, Any] | None:
    """What a fresh process tells, which keeps its caches in the directory; None where it failed."""
    env = {
        **os.environ,
        "TENSORLANG_CACHE": str(directory / "tensorlang"),
        "TORCHINDUCTOR_CACHE_DIR": str(directory / "inductor"),
    }
    done = subprocess.run(
        [python, "-m", WORKER, model, way, str(threads)], env=env, capture_output=True, text=True
    )
    if done.returncode:
        print(f"{model}, {way}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(
    python: str, model: str, threads: int, ways: list[str], rounds: int, root: Path
) -> dict[str, Any]:
    """For each state and way the medians of what processes told. Caches are below ``root``, and stay as they
    were."""
    seen: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for way in ways:
        if not (root / way).exists():
            told(python, FIRST, way, threads, root / way)
    before = set(root.rglob("*"))
    for _ in range(rounds):
        for state in STATES:
            for way in ways:
                found = told(python, model, way, threads, root / way)
                if found is not None:
                    seen.setdefault((state, way), []).append(found)
        for path in sorted(set(root.rglob("*")) - before, reverse=True):  # what is in a directory comes first
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    return {
        state: {
            way: {
                "backend": statistics.median(r["backend"] for r in seen[state, way]),
                "whole": statistics.median(r["whole"] for r in seen[state, way]),
                "apart": max(r["apart"] for r in seen[state, way]),
                "hits": seen[state, way][-1]["hits"],
            }
            for way in ways
            if (state, way) in seen
        }
        for state in STATES
    }


def table(rows: Rows, ways: list[str]) -> Table:
    """Milliseconds inside the backend (and of the whole first call), ours ÷ each of the others."""
    others = [w for w in ways if w != "tensorlang"]
    head = f"{'model, threads: state':30}" + "".join(f"{w + ', ms (whole)':>28}" for w in ways)
    head += "".join(f"{'÷ ' + w:>18}" for w in others)
    lines = []
    ratios: dict[tuple[str, str], list[float]] = {}
    for key, row in rows.items():
        for state in STATES:
            at = row[state]
            text = f"{key + ': ' + state:30}"
            for w in ways:
                figures = f"{1e3 * at[w]['backend']:.0f} ({1e3 * at[w]['whole']:.0f})" if w in at else "–"
                text += f"{figures:>28}"
            for w in others:
                if w in at and "tensorlang" in at:
                    ratio = at["tensorlang"]["backend"] / at[w]["backend"]
                    ratios.setdefault((state, w), []).append(ratio)
                    text += f"{ratio:18.3f}"
            lines.append(text)
    end = [
        f"geometric mean, {state}: {geomean(r):.3f} of {w} ({len(r)} models)"
        for (state, w), r in ratios.items()
    ]
    return Table(head, lines, end)


def figures(args: argparse.Namespace, names: list[str]) -> Iterator[tuple[str, Any]]:
    """A row for each model."""
    with tempfile.TemporaryDirectory() as own:
        root = args.caches or Path(own)
        for name in names:
            key = f"{name}, {args.threads}"
            yield key, measured(args.python, name, args.threads, args.ways, args.rounds, root)


def main() -> None:
    command = parser("benchmarks.torch_models.backend_time", __doc__, WAYS)
    command.add_argument("--threads", type=int, default=2)
    command.add_argument("--rounds", type=int, default=3)
    command.add_argument("--caches", type=Path, help="a directory for caches that later runs find prepared")
    run(command, MODELS, figures, table)


if __name__ == "__main__":
    main()
