"""The source tree as the house tests see it: files, modules and the imports written in them. Nothing is
executed."""

from __future__ import annotations

import ast
import functools
import gc
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("tensorlang", "autosched")
_FOUND = importlib.util.find_spec(PACKAGES[0])
assert _FOUND is not None and _FOUND.origin is not None
HOME = Path(_FOUND.origin).resolve().parents[1]  # of the packages: ROOT, or where they are installed


def place(top: str) -> Path:
    """The directory of a package, or of what stands beside the packages in the tree."""
    return (HOME if top in PACKAGES else ROOT) / top


@functools.cache
def python_files(*tops: str) -> tuple[Path, ...]:
    return tuple(sorted(p for top in tops for p in place(top).rglob("*.py") if "__pycache__" not in p.parts))


@functools.cache
def parsed(path: Path) -> ast.Module:
    """All stay: a search for cycles among two million nodes, again and again, takes four fifths of the time."""
    text, enabled = path.read_text(encoding="utf-8"), gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text, str(path))
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def relative(path: Path) -> str:
    return path.relative_to(HOME if path.is_relative_to(HOME) else ROOT).as_posix()


def module_name(path: Path) -> str:
    parts = list(Path(relative(path)).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def modules() -> dict[str, Path]:
    """Every module of the packages by its dotted name."""
    return {module_name(p): p for p in python_files(*PACKAGES)}


@dataclass(frozen=True)
class Import:
    """``target`` is the dotted module imported (the deepest that is one), ``names`` what is taken from it."""

    target: str
    names: tuple[str, ...]
    line: int
    lazy: bool  # inside a function
    typing: bool  # under `if TYPE_CHECKING:`


def imports(path: Path) -> Iterator[Import]:
    """The imports of a file, relative ones made absolute. `from . import make` is an import of the module
    `make`."""
    me = module_name(path).split(".")
    package = me if path.name == "__init__.py" else me[:-1]

    def visit(node: ast.AST, lazy: bool, typing: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            inner = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, (), child.lineno, lazy, typing)
            elif isinstance(child, ast.ImportFrom):
                base = package[: len(package) - child.level + 1] if child.level else []
                target = ".".join([*base, *([child.module] if child.module else [])])
                plain = []
                for alias in child.names:
                    if f"{target}.{alias.name}" in modules():
                        yield Import(f"{target}.{alias.name}", (), child.lineno, lazy, typing)
                    else:
                        plain.append(alias.name)
                if plain:
                    yield Import(target, tuple(plain), child.lineno, lazy, typing)
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                yield from visit(child, inner, True)
            else:
                yield from visit(child, inner, typing)

    yield from visit(parsed(path), False, False)


def none(problems: Iterator[str]) -> None:
    """Fail with all the problems at once, one a line."""
    found = list(problems)
    assert not found, "\n" + "\n".join(found)
