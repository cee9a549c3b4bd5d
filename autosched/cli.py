"""``python -m autosched tune|show|best``: thin. Knows the public names of the package."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections import Counter
from typing import Any

import tensorlang as tl

from .records import RecordLog
from .report import seconds_text
from .task import SearchTask
from .tune import tune


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="autosched", description="Find schedules for tensorlang kernels.")
    sub = parser.add_subparsers(dest="command", required=True)
    t = sub.add_parser("tune", help="search for a schedule")
    t.add_argument("workload", help="module:function that returns the tensors, outputs last")
    t.add_argument("sizes", nargs="*", type=int)
    t.add_argument("--template", required=True, help="module:function(s, tensors)")
    t.add_argument("--target")
    t.add_argument("--trials", type=int, default=64)
    t.add_argument("--records", required=True)
    t.add_argument("--seed", type=int, default=0)
    for name, text in (("show", "what a file of records holds"), ("best", "the best schedule of each task, as Python text")):
        p = sub.add_parser(name, help=text)
        p.add_argument("records")
    given = parser.parse_args(arguments)
    try:
        return {"tune": _tune, "show": _show, "best": _best}[given.command](given)
    except tl.TensorLangError as e:
        print(e, file=sys.stderr)
        return 1


def _named(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as e:
        raise tl.TensorLangError(f"{path!r} names no function", because=str(e), try_="module:function") from None


def _tune(given: argparse.Namespace) -> int:
    task = SearchTask(_named(given.workload), given.sizes, given.target, template=_named(given.template))
    return 0 if tune(task, given.trials, given.records, given.seed).best is not None else 1


def _groups(log: RecordLog) -> list[tuple[str, str]]:
    return list(dict.fromkeys((r.task, r.target) for r in log))


def _show(given: argparse.Namespace) -> int:
    log = RecordLog(given.records)
    for task, target in _groups(log):
        mine, best = log.of(task, target), log.best(task, target)
        found = "nothing worked" if best is None else f"best {seconds_text(best.cost)}"
        print(f"{mine[0].name}  {task}  {target}: {len(mine)} measurements, {found}")
        for status, n in sorted(Counter(r.status for r in mine if not r.ok).items()):
            print(f"  {n} × {status}: {next(r.error for r in mine if r.status == status).splitlines()[0]}")
    for bad in log.bad:
        print(f"skipped {bad}")
    return 0


def _best(given: argparse.Namespace) -> int:
    log = RecordLog(given.records)
    for task, target in _groups(log):
        best = log.best(task, target)
        if best is not None:
            print(f"# {best.name} for {target}: {seconds_text(best.cost)}\n{best.trace().to_python()}")
    return 0
