"""What the command lines of the benchmarks of torch models share: which models, which ways, and the file that
figures are added to. Knows the cases; nothing of what is measured."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cases import CASES

Rows = dict[str, dict[str, Any]]


@dataclass
class Table:
    """Figures as text: the names of the columns, a line or more for each row, and what follows from all."""

    head: str
    lines: list[str]
    end: list[str]

    def __str__(self) -> str:
        return "\n".join([self.head, *self.lines, *self.end])


def parser(
    prog: str, about: str | None, ways: Sequence[str], known: Collection[str] = CASES
) -> argparse.ArgumentParser:
    """A command line that takes models, of those that are ``known``, ways, a Python and a file."""
    made = argparse.ArgumentParser(prog=prog, description=about)
    made.add_argument("names", nargs="*", metavar="model", help=", ".join(known))
    made.add_argument("--ways", nargs="+", default=list(ways))
    made.add_argument("--python", default=sys.executable, help="what runs the processes")
    made.add_argument("--json", type=Path, help="the file that figures are added to")
    return made


def run(
    command: argparse.ArgumentParser,
    models: Iterable[str],
    measured: Callable[[argparse.Namespace, list[str]], Iterator[tuple[str, Any]]],
    table: Callable[[Rows, list[str]], Table],
    known: Collection[str] = CASES,
) -> None:
    """Measure the models that are asked for, ``models`` where none is: each row is told and kept as it
    comes, and all at the end, those of the file too."""
    args = command.parse_args()
    wrong = [n for n in args.names if n not in known]
    if wrong:
        command.error(f"no model {wrong[0]}; there are {', '.join(known)}")
    rows: Rows = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    for key, row in measured(args, args.names or list(models)):
        rows[key] = row
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1) + "\n")
        print("\n".join(table({key: row}, args.ways).lines), flush=True)
    print(table(rows, args.ways))
