"""``python -m benchmarks.dynamic``: kernels of every shape beside what else one would do, on the same arrays, in turns.

    python -m benchmarks.dynamic                             every suite
    python -m benchmarks.dynamic --suite P1 --quick          a part of the shapes
    python -m benchmarks.dynamic --suite P1 --threads 1 --trials 64       exact shapes tuned too, which takes minutes

A suite is a module with ``ABOUT`` and ``run(options)``, which yields lines. Ratios are times of the other divided by ours:
above 1, ours is faster. Only useful operations count, never padded ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from types import ModuleType

from threadpoolctl import threadpool_limits

import tensorlang as tl

from . import baselines, correctness, dense, dispatch_cost, operators, search_time, traces

SUITES: dict[str, ModuleType] = {"P1": dense, "P2-P4": operators, "P5": dispatch_cost, "P6": correctness, "P7": search_time, "P8": baselines,
                                 "P9": traces}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dynamic", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", nargs="*", choices=list(SUITES), default=list(SUITES))
    parser.add_argument("--quick", action="store_true", help="a part of the shapes")
    parser.add_argument("--threads", type=int, default=tl.num_threads())
    parser.add_argument("--trials", type=int, default=0, help="candidates of each tuned exact shape; 0: the default schedule of the exact shape only")
    parser.add_argument("--seed", type=int, default=0, help="which sizes are sampled")
    options = parser.parse_args(arguments)
    tl.set_num_threads(options.threads)
    with threadpool_limits(options.threads):
        for name in options.suite:
            suite = SUITES[name]
            print(f"\n{name}: {suite.ABOUT}; {options.threads} thread(s)")
            for line in suite.run(options):
                print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
