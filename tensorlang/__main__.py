"""``python -m tensorlang passes``: what the compiler is made of, as tables. Knows the tables; compiles
nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from .passes.pipeline import CHECKED, PIPELINE


def passes() -> str:
    """The passes in the order in which they run, and what each promises."""
    more = [p.name for p in CHECKED.passes if p not in PIPELINE.passes]
    return (
        f"{CHECKED.table()}\n\n{', '.join(more)}: with bounds_check=True only; the others run for every "
        "kernel, from top to bottom."
    )


TABLES: dict[str, Callable[[], str]] = {"passes": passes}


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tensorlang", description="What the compiler is made of.")
    commands = parser.add_subparsers(dest="table", required=True)
    for name, table in TABLES.items():
        commands.add_parser(name, help=(table.__doc__ or "").partition(".")[0].lower())
    print(TABLES[parser.parse_args(argv).table]())
    return 0


if __name__ == "__main__":
    sys.exit(main())
