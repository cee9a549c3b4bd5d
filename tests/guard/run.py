"""``python -m tests.guard.run --seed S --count N``: random (graph, schedule) pairs compiled and run between
guard pages.

Each pair is built twice, as users build it and with every temporary in a guarded block, and runs with its
arrays at the start and at the end of their pages. Before each run a line ``@ seed …`` is printed: the last
one names the run that killed the process.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import tensorlang as tl
from tensorlang.errors import LowerError
from tensorlang.te import reference
from tests.fuzz import harness

from .arena import Arena, nothing_on_the_stack
from .pairs import pair


def run_pair(
    arena: Arena,
    args: list[Any],
    outputs: list[Any],
    ranges: dict[str, tuple[int, int]],
    s: tl.Schedule,
    sizes: Any,
    name: str,
) -> int:
    """All runs of one pair; how many there were. A result that differs raises AssertionError."""
    arena.serve_kernels()
    runs = 0
    final = tl.lower(s, args, "k")
    if harness.count(final) > harness.BIG:
        return 0
    users = tl.build(final)
    with nothing_on_the_stack():
        all_guarded = tl.build(final)
    for one in sizes:
        values, dims = harness.arrays(args, ranges, one)
        if harness.refused(final, users, args, values, dims):
            continue
        want = reference.evaluate(
            outputs, {t: v for t, v in zip(args, values, strict=True) if t.name in ranges}, dims
        )
        values, want, real = harness.placed(s, args, outputs, values, want)
        for at_end in (False, True):
            arena.place(at_end)
            for how, kernel in (("as built", users), ("all temporaries guarded", all_guarded)):
                print(f"@ {name} sizes {one} arrays at the {'end' if at_end else 'start'}, {how}", flush=True)
                with arena.copies(values) as got:
                    kernel(*got)
                    harness.compare(how, want, outputs, args, got, one, real)
                runs += 1
    return runs


def run_seed(arena: Arena, seed: int, family: str | None = None) -> int:
    """The pair that a seed of the fuzzer gives."""
    graph, args, outputs, ranges, s = pair(seed, family)
    try:
        return run_pair(arena, args, outputs, ranges, s, graph.sizes, f"seed {seed} ({graph.family})")
    except LowerError:
        return 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--family")
    options = parser.parse_args(argv)
    arena = Arena()
    runs = pairs = 0
    for seed in range(options.seed, options.seed + options.count):
        made = run_seed(arena, seed, options.family)
        runs += made
        pairs += made > 0
    print(f"{pairs} pairs, {runs} runs between guard pages, none touched a byte outside")
    return 0


if __name__ == "__main__":
    sys.exit(main())
