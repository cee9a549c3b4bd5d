"""``python -m tests.fuzz.run --count 20000 --seed S``: many cases, a table of what they covered, and a script
for every failure."""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.plain import let_pass

from . import crew
from .check import Failure, Outcome, check
from .coverage import report

SLOW = 5.0  # seconds of the processor that a build may take


def one(seed: int, family: str | None, build: bool) -> Outcome | str:
    """One case, every second interpreted too, every eighth thorough; the text of its failure."""
    try:
        return check(
            seed,
            family=family,
            build=build,
            interpret=seed % 2 == 0 or not build,
            thorough=seed % 8 == 0,
            seconds=SLOW,
        )
    except Failure as e:
        return str(e)
    except BaseException as e:  # a bug of the fuzzer itself
        return f"seed {seed}: {type(e).__name__}: {e}"


def table(outcomes: Iterable[Outcome]) -> str:
    """Cases by family, and the pairs of primitives they had."""
    cases = list(outcomes)
    families = Counter(o.family for o in cases)
    return "\n".join(
        (
            f"{len(cases)} cases: {sum(o.compiled > 0 for o in cases)} (graph, schedule) pairs compiled, {sum(o.interpreted > 0 for o in cases)} interpreted; "
            f"{sum(o.interpreted for o in cases)} interpreted runs, {sum(o.compiled for o in cases)} compiled runs, "
            f"{sum(o.refused for o in cases)} refused at lowering",
            "families    " + "  ".join(f"{k} {v}" for k, v in families.most_common()),
            report(o.steps for o in cases),
        )
    )


def main(argv: list[str] | None = None) -> int:
    """Run; the exit code is 1 when something failed."""
    let_pass()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--family")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--no-build", action="store_true", help="interpreter only")
    parser.add_argument(
        "--out", type=Path, help="a directory for the scripts of failures (default: print them)"
    )
    parser.add_argument("--stop", type=int, default=10, help="give up after so many failures")
    options = parser.parse_args(argv)
    work = functools.partial(one, family=options.family, build=not options.no_build)
    good: list[Outcome] = []
    bad: list[str] = []
    start = time.perf_counter()
    for seed, result in crew.outcomes(work, range(options.seed, options.seed + options.count), options.jobs):
        if isinstance(result, Outcome):
            good.append(result)
            if options.out is not None and len(good) % 1000 == 0:
                options.out.mkdir(parents=True, exist_ok=True)
                (options.out / "coverage.txt").write_text(
                    f"{table(good)}\n{len(bad)} failure(s), {time.perf_counter() - start:.1f} s\n"
                )
            continue
        bad.append(result if isinstance(result, str) else f"seed {seed}: {result.why}")
        head, _, text = bad[-1].partition('\n"""')
        print(f"\n=== failure {len(bad)}: {head}", flush=True)
        if options.out is not None:
            options.out.mkdir(parents=True, exist_ok=True)
            file = options.out / f"failure_{head.split()[1].rstrip(':')}.py"
            file.write_text(f'# {" ".join(head.splitlines())}\n"""{text}')
            print(f"    {file}")
        else:
            print(f'"""{text}')
        if len(bad) >= options.stop:
            break
    print(table(good))
    print(f"{len(bad)} failure(s), {time.perf_counter() - start:.1f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
