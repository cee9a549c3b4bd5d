"""Docstrings of public names say what is raised where something is: in their own lines, or in a function of their
file that they call."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from typing import Any

from .test_examples import EXAMPLES, public

SAYS = re.compile(r"\b(raise[sd]?|refuse[sd]?|errors?)\b", re.IGNORECASE)
LEAST = 60  # characters


def plain(thing: Any) -> Any:
    """The function that a user calls, as it was written; None for anything else."""
    thing = getattr(thing, "__func__", thing)  # of a class
    thing = getattr(thing, "fget", thing)  # of a property
    thing = getattr(thing, "func", thing)  # of a cached one
    thing = inspect.unwrap(thing) if callable(thing) else thing
    return thing if inspect.isfunction(thing) and thing.__name__ != "<lambda>" else None


@functools.cache
def functions_of(file: str) -> dict[str, ast.FunctionDef]:
    """The functions that a file defines at its top, and the methods of its classes."""
    with open(file, encoding="utf-8") as f:
        tree = ast.parse(f.read())
    return {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}


def raises(node: ast.AST) -> bool:
    """Whether a function has a line that raises something of its own: not what it caught, nor what only says
    that a class is abstract."""
    for n in ast.walk(node):
        if isinstance(n, ast.Raise) and n.exc is not None:
            made = n.exc.func if isinstance(n.exc, ast.Call) else n.exc
            name = made.attr if isinstance(made, ast.Attribute) else getattr(made, "id", "")
            if name.endswith("Error") and name not in ("NotImplementedError", "AttributeError"):
                return True
    return False


def refuses(f: Any) -> bool:
    """Whether a function raises itself, or by a private function of its file that it calls."""
    node = ast.parse(textwrap.dedent(inspect.getsource(f)))
    here = functions_of(inspect.getsourcefile(f))
    called = {n.func for n in ast.walk(node) if isinstance(n, ast.Call)}
    names = {c.id if isinstance(c, ast.Name) else getattr(c, "attr", "") for c in called}
    return raises(node) or any(raises(here[n]) for n in names if n.startswith("_") and n in here)


FUNCTIONS = {n: (plain(x), inspect.getdoc(x) or "") for n, x in public() if plain(x) is not None}


def test_what_raises_says_so():
    silent = [n for n, (f, doc) in FUNCTIONS.items() if refuses(f) and not SAYS.search(doc)]
    assert not silent, "raise, and do not say what: " + ", ".join(silent)


def test_docstrings_say_something():
    assert not [n for n, (_, doc) in FUNCTIONS.items() if not doc]
    functions = [n for n, (_, doc) in FUNCTIONS.items() if n.count(".") == 1 and len(doc) < LEAST]
    assert not functions, "say little: " + ", ".join(functions)


def test_the_test_sees_what_raises():
    by_name = {n: f for n, (f, _) in FUNCTIONS.items()}
    for n in ("te.dim", "te.placeholder", "tl.Trace.apply", "te.Tensor.as_expr"):
        assert refuses(by_name[n]), n
    assert not refuses(by_name["te.Tensor.ndim"])
    assert len(FUNCTIONS) > 500 and len(EXAMPLES) > 190


UNITS = {
    "seconds": r"\bseconds?\b",
    "timeout": r"\bseconds?\b",
    "interval": r"\bseconds?\b",
    "period": r"\bseconds?\b",
    "budget": r"\b(seconds?|bytes|calls|trials|measurements)\b",
    "nbytes": r"\bbytes\b",
    "workspace": r"\b(bytes|[KMG]i?B)\b",
    "memory": r"\b(bytes|[KMG]i?B)\b",
    "angle": r"\b(radians?|degrees?)\b",
    "flops": r"\b(operations?|FLOPs?)\b",
}


def test_numbers_have_units():
    """A parameter that is so many of something: of what, in the words of its function or of the class."""
    bare = [
        f"{n}({parameter}=)"
        for n, (f, doc) in FUNCTIONS.items()
        for parameter in inspect.signature(f).parameters
        if parameter in UNITS and not re.search(UNITS[parameter], doc)
    ]
    assert not bare, "a number of what? " + ", ".join(bare)


SOURCES = {  # names that stand for an algorithm of a publication, and who wrote that
    "tl.Schedule.rfactor": "Suriana",
    "tl.Schedule.winograd": "Lavin",
    "autosched.tune": "Ansor",
    "autosched.best_guess": "Ansor",
    "autosched.tune_tasks": "Ansor",
    "autosched.tune_dynamic": "DietCode",
    "ops.group_norm": "Wu and He",
    "ops.layer_norm": "Kiros and Hinton",
    "ops.rotary_embedding": "Su et al",
}


def test_algorithms_name_their_source():
    silent = [n for n, who in SOURCES.items() if who not in FUNCTIONS[n][1]]
    assert not silent, "whose is it? " + ", ".join(silent)
