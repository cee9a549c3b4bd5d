"""``python -m benchmarks.torch_models [names] --threads 1 2``: latency of models under torch.compile.

Each way to compile has a process of its own; they are asked in turn, one call each. On a busy machine
``--clock processor`` counts the time of one thread alone; of two it says nothing, for those who wait count as
well. A table shows milliseconds and ratios, and names every model below 0.9 of the best of the others;
``--json`` adds the figures to a file. Knows nothing of what the ways are.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from .cases import CASES
from .command import parser, run
from .ways import measured, table

WAYS = ("eager", "inductor_frozen", "tensorlang")


def figures(args: argparse.Namespace, names: list[str]) -> Iterator[tuple[str, Any]]:
    """A row for each model and number of threads."""
    for name in names:
        for threads in args.threads:
            yield (
                f"{name}, {threads}",
                measured(args.python, name, threads, args.ways, args.seconds, args.calls, args.clock),
            )


def main() -> None:
    command = parser("benchmarks.torch_models", __doc__, WAYS)
    command.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    command.add_argument("--seconds", type=float, default=4.0, help="of calls, for each model")
    command.add_argument("--calls", type=int, default=200)
    command.add_argument("--clock", choices=("wall", "processor"), default="wall")
    run(command, CASES, figures, table)


if __name__ == "__main__":
    main()
