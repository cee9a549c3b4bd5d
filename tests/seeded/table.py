"""``python -m tests.seeded.table``: every seeded bug and who caught it. With ``--fuzz N`` also which of N
seeds of the fuzzer finds it first."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from .hunt import hunt, order
from .mutants import MUTANTS


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fuzz", type=int, default=0, help="seeds of the fuzzer to try alone")
    parser.add_argument("--only", default="", help="mutants whose name holds this")
    options = parser.parse_args(argv)
    clean = hunt(None, order(()))
    if clean is not None:
        print(f"the compiler as it is does not pass: {clean}")
        return 1
    by: Counter[str] = Counter()
    alive = 0
    chosen = [m for m in MUTANTS if options.only in m.name]
    for m in chosen:
        found = hunt(m, order(m.first), range(60))
        line = f"{m.name:<66} {m.where:<58} "
        if found is None:
            alive += 1
            line += "ALIVE"
        else:
            by[found.by] += 1
            line += f"{found.by:<28} {found.check:<24} {found.said[:60] if 'Error' in found.by else ''}"
        if options.fuzz:
            alone = hunt(m, (), range(options.fuzz))
            line += f"  fuzz: {alone.tried if alone else 'no'}"
        print(line, flush=True)
    print(
        f"\n{len(chosen)} seeded bugs, {len(chosen) - alive} caught: "
        + ", ".join(f"{who} {n}" for who, n in by.most_common())
    )
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
