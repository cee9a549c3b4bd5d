"""The text of ``tensorlang/schedule/methods.pyi``: the primitives as methods of ``Stage`` and ``Schedule``,
for type checkers and editors. Cut out of the sources of the primitives in the order of THE table, so that a
signature and its docstring are written once."""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from tensorlang.schedule.primitives import TABLE
from tests.house.source import HOME, parsed

PATH = HOME / "tensorlang" / "schedule" / "methods.pyi"
HEAD = '''"""The primitives as methods, for type checkers and editors; at run time ``schedule.py`` puts the functions
themselves on the handles. Generated: ``pytest tests/house/test_typing.py --refresh-golden`` writes it anew,
and the same test says when it is old."""

'''


def text() -> str:
    """What the file should hold."""
    classes = {"stage": "class StageMethods:\n", "schedule": "class ScheduleMethods:\n"}
    imports: dict[str, set[str]] = {}
    for primitive in TABLE:
        path = Path(inspect.getfile(primitive))
        for call in _calls(path, primitive.__name__):
            classes[primitive.of] += _method(path, call, primitive)
            for name in _named(call):
                imports.setdefault(_module(path, name), set()).add(name)
    lines = [
        f"from {m} import {', '.join(sorted(names))}\n"
        for m, names in sorted(imports.items(), key=lambda row: _order(row[0]))
    ]
    between = next(
        i for i, line in enumerate(lines) if line.startswith("from .")
    )  # the standard library first, then a blank line
    return HEAD + "".join([*lines[:between], "\n", *lines[between:]]) + "\n" + "\n".join(classes.values())


def _calls(path: Path, kind: str) -> list[ast.FunctionDef]:
    """The definitions of ``call`` in the class of a primitive: its overloads and, last, itself."""
    found = next(c for c in parsed(path).body if isinstance(c, ast.ClassDef) and c.name == kind)
    every = [f for f in found.body if isinstance(f, ast.FunctionDef) and f.name == "call"]
    return every[:-1] or every


def _method(path: Path, call: ast.FunctionDef, primitive: type) -> str:
    """One method, as it is written in the file of its primitive: the head of ``call`` and its docstring."""
    overloaded = any(isinstance(d, ast.Name) and d.id == "overload" for d in call.decorator_list)
    args = copy.deepcopy(call.args)
    args.args[0] = ast.arg("self")
    assert call.returns, f"{path.name}: `call` does not say what it returns"
    head = f"    def {primitive.name}({ast.unparse(args)}) -> {ast.unparse(call.returns)}:\n"
    doc = inspect.getdoc(primitive.call)
    assert doc, f"{primitive.__name__}.call has no docstring, which is what help(s[T].{primitive.name}) shows"
    told = "\n".join(f"        {line}".rstrip() for line in doc.splitlines())
    close = "\n        " if "\n" in doc else ""
    return f'{"    @overload" + chr(10) if overloaded else ""}{head}        """{told.lstrip()}{close}"""\n'


def _named(call: ast.FunctionDef) -> Iterator[str]:
    """The names in a signature that must be imported."""
    annotated = [
        a.annotation for a in (*call.args.args[1:], *call.args.kwonlyargs, call.args.vararg) if a is not None
    ]
    for node in (*annotated, call.returns, *call.decorator_list):
        for part in ast.walk(node) if node is not None else ():
            if isinstance(part, ast.Name) and part.id != "staticmethod" and not hasattr(builtins, part.id):
                yield part.id


def _module(path: Path, name: str) -> str:
    """Where the stub imports a name from, which the file of a primitive (one room deeper) imports too."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and any(a.name == name for a in node.names):
            near = (
                f".primitives.{node.module}" if node.level == 1 else "." * (node.level - 1) + str(node.module)
            )
            return near if node.level else str(node.module)
    raise AssertionError(f"{path.name}: the signature of `call` names {name}, which the file does not import")


def _order(module: str) -> tuple[int, str]:
    """The order of imports: the standard library, then the farthest room first."""
    dots = len(module) - len(module.lstrip("."))
    return (-dots if dots else -9, module)
