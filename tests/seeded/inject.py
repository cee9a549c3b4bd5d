"""A mutant is one function of the compiler with one piece of its text replaced; here it is put in place, for
the life of a process.

The new code object takes the place of the old one inside the function, so whoever imported the function under
any name gets the mutant. A piece that does not occur exactly once is an error: the table then needs a line
for the source as it is now. How the source is broken into lines does not matter.
"""

from __future__ import annotations
import __future__

import importlib
import inspect
import re
import textwrap
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """``where`` is ``module:function`` or ``module:Class.method`` below ``tensorlang``; ``first`` names the
    checks that are tried first."""

    name: str
    where: str
    old: str
    new: str
    first: tuple[str, ...]

    def function(self) -> FunctionType:
        module, _, path = self.where.partition(":")
        found: Any = importlib.import_module(f"tensorlang.{module}")
        for part in path.split("."):
            found = inspect.getattr_static(found, part)
        if isinstance(found, staticmethod):
            found = found.__func__
        found = inspect.unwrap(found)
        assert isinstance(found, FunctionType), f"{self.where} is {type(found).__name__}"
        return found

    def mutated(self) -> CodeType:
        """The code of the function with the replacement made."""
        f = self.function()
        text = textwrap.dedent(inspect.getsource(f))
        text = text[text.index("def ") :]  # without decorators: the function is registered already
        mutant, count = re.subn(_in_any_layout(self.old), lambda _: self.new, text)
        if count != 1:
            raise LookupError(f"mutant `{self.name}`: {self.old!r} occurs {count} times in {self.where}")
        code = compile(mutant, f"<mutant {self.name}>", "exec", flags=__future__.annotations.compiler_flag)
        (inner,) = [c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == f.__code__.co_name]
        if inner.co_freevars != f.__code__.co_freevars:
            raise LookupError(f"mutant `{self.name}`: {self.where} is a closure")
        return inner

    def apply(self) -> None:
        """From here on the process has the bug."""
        self.function().__code__ = self.mutated()


def _in_any_layout(text: str) -> str:
    """A pattern for ``text`` with spaces and line breaks anywhere between its words and signs, and a comma
    before what closes a bracket."""
    pieces = re.findall(r"\w+|[^\w\s]", text)
    return r"\s*".join((r",?\s*" if piece in ")]}" else "") + re.escape(piece) for piece in pieces)
