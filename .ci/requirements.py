"""Prints the requirements of this project, one a line, with another package in the place of xgboost.

    python .ci/requirements.py dev --xgboost xgboost-cpu

`xgboost` on Linux brings a CUDA communication library of hundreds of MB; `xgboost-cpu` is the same module
without it. pip cannot be told to take one for the other, so whoever wants the small one installs this list
and then the project with `--no-deps`.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path


def requirements(extras: list[str], xgboost: str) -> list[str]:
    """The base requirements and those of the extras (which may name each other), in order, each once."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    found: dict[str, None] = {}

    def take(lines: list[str]) -> None:
        for line in lines:
            inner = re.fullmatch(rf"{project['name']}\[(.*)\]", line)
            if inner:
                for extra in inner[1].split(","):
                    take(project["optional-dependencies"][extra.strip()])
            else:
                found[re.sub(r"^xgboost(?=[^\w-]|$)", xgboost, line)] = None

    take(project["dependencies"])
    for extra in extras:
        take(project["optional-dependencies"][extra])
    return list(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("extras", nargs="*")
    parser.add_argument("--xgboost", default="xgboost")
    options = parser.parse_args()
    print("\n".join(requirements(options.extras, options.xgboost)))
