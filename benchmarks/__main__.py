"""``python -m benchmarks [name …]``: runs the named scripts of this folder, or all of them, each printing its
own table.

A script takes part by having ``main()`` without arguments. Ratios within one run are what counts; times
differ by machine. ``benchmarks.run`` and ``benchmarks.report``, the comparison with peers, have command lines
of their own.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

COMMANDS = ("run", "report")


def main(names: list[str]) -> int:
    known = sorted(
        m.name
        for m in pkgutil.iter_modules([str(Path(__file__).parent)])
        if not m.name.startswith("_") and not m.ispkg and m.name not in COMMANDS
    )
    unknown = [n for n in names if n not in known]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    for name in names or known:
        script = importlib.import_module(f"benchmarks.{name}")
        if hasattr(script, "main"):
            print(f"\n=== {name}\n", flush=True)
            script.main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
