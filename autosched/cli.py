"""``python -m autosched tune|show|best|compare|merge|doctor``: thin. Knows the package's public names."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import tensorlang as tl
from tensorlang.errors import counted

from .doctor import examine
from .records import Record, RecordLog, best_of, merge
from .reporting.units import measurements_text, seconds_text
from .search import STRATEGIES
from .task import SearchTask
from .tune import tune


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status: 0 when it did what was asked, 1 when not, 2 for a wrong
    command."""
    given = _parser().parse_args(arguments)
    try:
        return COMMANDS[given.command](given)
    except tl.TensorLangError as e:
        print(e, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("what was measured is in the records", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="autosched",
        description="Find fast schedules for tensorlang kernels by search and measurement.",
        epilog="exit status: 0 when it did what was asked, 1 when not, 2 for a wrong command",
    )
    parser.add_argument("--version", action="version", version=f"autosched of tensorlang {tl.__version__}")
    sub = parser.add_subparsers(dest="command", required=True, metavar="|".join(COMMANDS))

    def command(name: str, does: str, example: str) -> argparse.ArgumentParser:
        return sub.add_parser(
            name,
            help=does,
            description=f"{does[0].upper()}{does[1:]}.",
            epilog=f"example: autosched {example}",
        )

    t = command(
        "tune",
        "search for a fast schedule and append every measurement to a file",
        "tune kernels.py:matmul 512 512 512 --trials 200 --records matmul.jsonl --html matmul.html",
    )
    _tune_arguments(t)
    s = command(
        "show",
        "what files of records hold: tasks, measurements, the best, what failed and why",
        "show matmul.jsonl",
    )
    b = command(
        "best",
        "the best schedule of each task as Python text, ready to paste",
        "best matmul.jsonl --task matmul",
    )
    for p in (s, b):
        p.add_argument("records", nargs="+", help="files of records")
        p.add_argument("--task", help="only tasks whose name or key begins with this")
    c = command(
        "compare",
        "two files of records: for each task of both, which has the faster schedule, and by how much",
        "compare before.jsonl after.jsonl",
    )
    c.add_argument("records", nargs=2, help="the files; gains are those of the second over the first")
    c.add_argument("--task", help="only tasks whose name or key begins with this")
    m = command(
        "merge",
        "several files of records as one, each record once",
        "merge a.jsonl b.jsonl -o all.jsonl --keep 10",
    )
    m.add_argument("records", nargs="+", help="files of records")
    m.add_argument("--output", "-o", required=True, help="the file to write; may be one of the inputs")
    m.add_argument(
        "--keep",
        type=int,
        help="only so many of the fastest candidates of each task and target, with all their measurements",
    )
    d = command(
        "doctor",
        "whether this machine can tune, and how well: packages, processors, load, a trial measurement",
        "doctor matmul.jsonl",
    )
    d.add_argument("records", nargs="*", help="files of records to check as well")
    return parser


def _tune_arguments(t: argparse.ArgumentParser) -> None:
    t.add_argument(
        "workload",
        help="file.py:function or module:function; called with the sizes, it returns the kernel's tensors, "
        "outputs last",
    )
    t.add_argument("sizes", nargs="*", type=int, metavar="size", help="the arguments of the function")
    t.add_argument(
        "--template",
        help="file.py:function or module:function(s, tensors) that samples sizes; rules derive schedules "
        "without one",
    )
    t.add_argument(
        "--target", help='a target in TVM\'s form, such as "llvm -mcpu=znver3" (default: this processor)'
    )
    t.add_argument(
        "--trials",
        type=int,
        default=64,
        help="candidates, those already in the records included (default: 64)",
    )
    t.add_argument("--seconds", type=float, help="end when this time is over")
    t.add_argument("--patience", type=int, help="end when this many candidates have brought no gain")
    t.add_argument(
        "--records",
        required=True,
        help="a file of JSON lines: appended to, and what it holds is not measured again",
    )
    t.add_argument("--seed", type=int, default=0, help="of all random choices (default: 0)")
    t.add_argument(
        "--strategy",
        choices=sorted(STRATEGIES),
        default="evolutionary",
        help="how candidates are chosen (default: evolutionary)",
    )
    t.add_argument(
        "--timeout",
        type=float,
        default=20.0,
        help="seconds to build a candidate, and as many to run it (default: 20)",
    )
    t.add_argument("--html", help="write the report, a page of its own, to this file")


def _named(path: str) -> Any:
    place, _, name = path.rpartition(":")
    if not place or not name:
        raise tl.TensorLangError(
            f"{path!r} names no function",
            because="a file or module, a colon and a function are needed",
            try_=f"{path.strip(':')}:matmul",
        )
    if "" not in sys.path:
        sys.path.insert(0, "")  # as python -m does
    try:
        return getattr(_module(place), name)
    except (ImportError, AttributeError, ValueError, OSError, SyntaxError) as e:
        raise tl.TensorLangError(
            f"{path!r} names no function", because=str(e), try_="kernels.py:matmul or package.kernels:matmul"
        ) from None


def _module(place: str) -> ModuleType:
    """A module by the path of its file or by its name."""
    if not place.endswith(".py"):
        return importlib.import_module(place)
    spec = importlib.util.spec_from_file_location(Path(place).stem, place)
    assert spec is not None and spec.loader is not None  # of a .py file
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(spec.name)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:  # what failed is not a module, as after an import that failed
        del sys.modules[spec.name]
        if before is not None:
            sys.modules[spec.name] = before
        raise
    return module


def _tune(given: argparse.Namespace) -> int:
    if given.html and (Path(given.html).is_dir() or not Path(given.html).absolute().parent.is_dir()):
        raise tl.TensorLangError(
            f"cannot write the report to {given.html}",
            because="it is a directory" if Path(given.html).is_dir() else "its directory is not there",
            try_="--html report.html; nothing was searched",
        )
    template = None if given.template is None else _named(given.template)
    func = _named(given.workload)
    task = SearchTask(func, given.sizes, given.target, template=template)
    result = tune(
        task,
        given.trials,
        given.records,
        given.seed,
        strategy=given.strategy,
        seconds=given.seconds,
        patience=given.patience,
        timeout=given.timeout,
    )
    if given.html:
        result.report().save(given.html)
    return 0 if result.best is not None else 1


def _groups(
    paths: Sequence[str], name: str | None
) -> tuple[dict[tuple[str, str], list[Record]], list[RecordLog]]:
    logs = [_log(path) for path in paths]
    groups: dict[tuple[str, str], list[Record]] = {}
    for r in (r for log in logs for r in log):
        if name is None or r.name.startswith(name) or r.task.startswith(name):
            groups.setdefault((r.task, r.target), []).append(r)
    if not groups:
        held = sum(len(log) for log in logs)
        bad = [b for log in logs for b in log.bad]
        what = f"{counted(held, 'record')}, none of a task {name!r}" if held else "no records"
        raise tl.TensorLangError(
            f"{', '.join(paths)}: {what}",
            because=f"{counted(len(bad), 'line')} skipped, the first {bad[0]}" if bad else None,
        )
    return groups, logs


def _log(path: str) -> RecordLog:
    if not Path(path).exists():
        raise tl.TensorLangError(f"cannot read records from {path}", because="there is no such file")
    return RecordLog(path)


def _show(given: argparse.Namespace) -> int:
    groups, logs = _groups(given.records, given.task)
    for (task, target), mine in groups.items():
        best = best_of(mine, task, target)
        found = "nothing worked" if best is None else f"best {seconds_text(best.cost)}"
        print(f"{mine[0].name}  {task}  {target}: {measurements_text(mine)}, {found}")
        for status, n in sorted(Counter(r.status for r in mine if not r.ok).items()):
            why = next(r.error for r in mine if r.status == status)
            print(f"  {n} × {status}: {why.splitlines()[0] if why else 'no reason given'}")
    for bad in (b for log in logs for b in log.bad):
        print(f"skipped {bad}")
    return 0


def _best(given: argparse.Namespace) -> int:
    status = 1
    for (task, target), mine in _groups(given.records, given.task)[0].items():
        best = best_of(mine, task, target)
        if best is None:
            print(f"# {mine[0].name} for {target}: nothing worked\n")
            continue
        try:
            text = best.trace().to_python(numbers=True)
        except tl.ScheduleError as e:
            print(f"# {best.name} for {target}: {' '.join(str(e).split())}\n")
            continue
        print(
            f"# {best.name} for {target}: {seconds_text(best.cost)}; s is a fresh schedule of it, as of "
            f"te.create_schedule\n{text}"
        )
        status = 0
    return status


def _compare(given: argparse.Namespace) -> int:
    first, second = (_bests(path, given.task) for path in given.records)
    both = [key for key in first if key in second]
    if not both:
        raise tl.TensorLangError(
            f"{' and '.join(given.records)}: no task of both",
            because=f"{counted(len(first), 'task')} here, {counted(len(second), 'task')} there",
            try_="records of the same computation, sizes and target",
        )
    gains = []
    for key in both:
        (old, n_old), (new, n_new) = first[key], second[key]
        gains.append(old.cost / new.cost)
        apart = old.interval[0] > new.interval[1] or new.interval[0] > old.interval[1]
        text = f"{seconds_text(old.cost)} of {n_old}, {seconds_text(new.cost)} of {n_new}: {gains[-1]:.2f}×"
        print(f"{new.name}  {key[0]}  {key[1]}: {text}" + ("" if apart else ", within the noise"))
    mean = statistics.geometric_mean(gains)
    print(f"geometric mean of {counted(len(gains), 'task')}: {mean:.2f}×")
    left = len(first) + len(second) - 2 * len(both)
    if left:
        print(f"{counted(left, 'task')} of one file only")
    return 0


def _bests(path: str, task: str | None) -> dict[tuple[str, str], tuple[Record, int]]:
    """The best record of each task and target of a file, and how many candidates were measured."""
    found = {}
    for key, mine in _groups([path], task)[0].items():
        best = best_of(mine, *key)
        if best is not None:
            found[key] = best, len({r.steps for r in mine})
    return found


def _merge(given: argparse.Namespace) -> int:
    n, bad = merge([_log(p).path or p for p in given.records], given.output, given.keep)
    for b in bad:
        print(f"skipped {b}")
    of = "" if given.keep is None else f" (of the {given.keep} fastest of each task and target)"
    print(f"{counted(n, 'record')}{of} in {given.output}")
    return 0


def _doctor(given: argparse.Namespace) -> int:
    good = True
    for finding in examine(given.records):
        good = good and finding.good
        print(finding, flush=True)
    return 0 if good else 1


COMMANDS = {
    "tune": _tune,
    "show": _show,
    "best": _best,
    "compare": _compare,
    "merge": _merge,
    "doctor": _doctor,
}
