"""``python -m tensorlang passes``: what the compiler is made of, as tables; ``calibrate``: what work takes
on this machine; ``inspect``, ``run``, ``bench`` and the like of models (``commands``). Knows the tables."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence

from . import __version__ as VERSION
from . import calibrate, migrate
from . import commands as models
from .errors import TensorLangError
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
    parser = argparse.ArgumentParser(
        prog="tensorlang",
        description="Models, kernels and the compiler, from the shell.",
        epilog="examples: tensorlang run model.onnx; tensorlang bench model.onnx; tensorlang passes; "
        "tensorlang doctor; tensorlang migrate old.py",
    )
    parser.add_argument("--version", action="version", version=f"tensorlang {VERSION}")
    commands = parser.add_subparsers(dest="table", metavar="command", required=True)
    for name, table in TABLES.items():
        commands.add_parser(name, help=(table.__doc__ or "").partition(".")[0].lower())
    command = commands.add_parser(
        "calibrate", help="measure this machine's table of costs, in a second or two"
    )
    command.add_argument(
        "file", nargs="?", help="where to write it; left out: where every schedule of yours finds it"
    )
    commands.add_parser("migrate", help="rewrite programs for TVM, and list what is left")
    command = commands.add_parser("doctor", help="what is installed, set and measured on this machine")
    command.add_argument("rest", nargs=argparse.REMAINDER, help="files of records to check as well")
    models.add(commands)
    given_all = list(sys.argv[1:] if argv is None else argv)
    if given_all[:1] == ["migrate"]:  # which has options and help of its own
        return migrate.main(given_all[1:])
    given = parser.parse_args(given_all)
    if given.table == "doctor":  # of the package that stands on this one
        return subprocess.call([sys.executable, "-m", "autosched", "doctor", *given.rest])
    if given.table in models.COMMANDS:
        return models.serve(given.table, given)
    if given.table == "calibrate":
        try:
            costs, path = calibrate.saved(given.file)
        except TensorLangError as e:
            print(e, file=sys.stderr)
            return 1
        use = f"compile with TENSORLANG_COST={path}" if given.file else "schedules for this machine go by it"
        print(f"{path}: {costs.digest}; {use}")
        return 0
    print(TABLES[given.table]())
    return 0


if __name__ == "__main__":
    sys.exit(main())
