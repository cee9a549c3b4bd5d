"""How long each ready-made operator takes to compile with its default schedule: declaration, schedule,
passes, LLVM, loading.

``python -m benchmarks.ops_compile_time`` prints the median over builds in milliseconds, slowest first.
The calls are those of ``tests/ops/examples.py``, one for every public operator.
"""

from __future__ import annotations

import statistics
import time

import tensorlang as tl
from tensorlang import ops
from tests.ops.examples import EXAMPLES

LIMIT = 0.3  # seconds that a user does not notice


def main(builds: int = 3) -> None:
    """Print the table."""
    rows = []
    for name, declare in EXAMPLES.items():
        if not hasattr(ops, name):
            continue
        seconds = []
        for _ in range(builds):
            start = time.perf_counter()
            args = declare()
            tl.compile(args)
            seconds.append(time.perf_counter() - start)
        rows.append((statistics.median(seconds), name))
    rows.sort(reverse=True)
    print(f"default schedule to loaded kernel, {len(rows)} operators; median of {builds} builds")
    for s, name in rows:
        print(f"  {name:<30} {s * 1e3:8.1f} ms{'   over the limit' if s > LIMIT else ''}")
    print(
        f"  {'median':<30} {statistics.median(s for s, _ in rows) * 1e3:8.1f} ms; "
        f"{sum(s > LIMIT for s, _ in rows)} over {LIMIT:g} s"
    )


if __name__ == "__main__":
    main()
