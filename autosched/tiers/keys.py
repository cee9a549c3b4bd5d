"""What a piece of code is made from, as one name: everything that would make other code, or none. Knows no
files and no kernels.

The parts are written as JSON, a list in which order and nesting count, and hashed with SHA-256: (8, 16) and
(16, 8) differ, as do (1, 23) and (12, 3).
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import tensorlang as tl
from tensorlang.analysis import ROOFLINE, cost_of

FORMAT = 1


@dataclass(frozen=True)
class Environment:
    """What compiles, and for what: the package with a digest of its sources (a version may stand for many
    states of them), LLVM, the processor with the instruction sets in use, and the flags of the target."""

    package: str
    sources: str
    llvm: str
    cpu: str
    features: tuple[str, ...]
    flags: str

    @staticmethod
    def of(target: tl.Target | None = None) -> Environment:
        """This package, for a target (this machine)."""
        from importlib.metadata import version

        t = target or tl.Target.host()
        return Environment(
            tl.__version__,
            _sources(),
            f"llvmlite {version('llvmlite')}",
            f"{t.triple} {t.mcpu}",
            tuple(sorted(t.instruction_sets)),
            f"{t} cost={table.digest}" if (table := cost_of(t)) != ROOFLINE else str(t),
        )


@dataclass(frozen=True)
class Key:
    """One piece of code: a digest of the computation with its sizes left open, the sizes by name, a digest of
    the constants that are baked in, and how it was made (``compile``, or ``tune`` and how long)."""

    computation: str
    sizes: tuple[tuple[str, int], ...]
    constants: str
    how: str
    environment: Environment

    def parts(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "format": FORMAT,
            "sizes": [list(s) for s in self.sizes],
            **{f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("environment", "sizes")},
            "environment": {**asdict(self.environment), "features": list(self.environment.features)},
        }

    @property
    def place(self) -> str:
        """The part of a file's name that does not depend on the environment."""
        return combined([self.computation, self.sizes, self.constants, self.how])[:20]

    @property
    def name(self) -> str:
        """The name of all of it."""
        return f"{self.place}-{combined(self.parts())[:20]}"

    def differs(self, found: Mapping[str, Any]) -> str:
        """Why code with these parts is not the one that is wanted; empty when it is."""
        wanted = self.parts()
        mine, its = {**wanted, **wanted["environment"]}, {**found, **_mapping(found.get("environment"))}
        words = {
            "format": "its format is version",
            "computation": "it computes something else:",
            "sizes": "it is for the sizes",
            "constants": "it has other constants:",
            "how": "it was made in another way:",
            "package": "it was made by tensorlang",
            "sources": "it was made by other sources:",
            "llvm": "it was made by",
            "cpu": "it was made for",
            "features": "it was made for a processor with",
            "flags": "it was made for the target",
        }
        for part, said in words.items():
            if its.get(part) != mine[part]:
                return f"{said} {_text(its.get(part))}, not {_text(mine[part])}"
        # all that has words is equal: what is left are parts that another version wrote beside them
        return "" if combined(found) == combined(wanted) else "it has parts that are not known here"


def combined(parts: Any) -> str:
    """SHA-256 of plain data, in hexadecimal digits."""
    return hashlib.sha256(
        json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    ).hexdigest()


def _mapping(x: Any) -> Mapping[str, Any]:
    return x if isinstance(x, Mapping) else {}


def _text(x: Any) -> str:
    text = " ".join(map(str, x)) if isinstance(x, list | tuple) else str(x)
    return text if len(text) <= 60 else text[:57] + "…"


@functools.cache
def _sources() -> str:
    """A digest of the package's own files."""
    root = Path(tl.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        # the path too: a module that moved leaves the texts as they were
        digest.update(f"{file.relative_to(root)}\n".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:20]
