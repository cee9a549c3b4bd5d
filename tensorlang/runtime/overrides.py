"""Inputs with defaults: constants of an engine that a call may give in their place. Knows engines; which
graph takes them as inputs is for whoever compiled the engine to say.

Constants are folded into others and packed, so a call that gives one needs other kernels: those of an engine
in which it is an input. There is one for each set of names that was given or asked for, and calls that give
none of them pay nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import CallError

if TYPE_CHECKING:
    from .engine import Engine

Names = tuple[str, ...]
Make = Callable[[Names], tuple["Engine", Mapping[str, np.ndarray]]]
MAX_ENGINES = 64
SHOWN = 8  # names in a print


class Overrides:
    """``names`` may be given to the engine ``owner``; ``defaults`` has what those are otherwise that one of
    the ``engines`` takes. ``make`` compiles one and tells its defaults; None where there is no model."""

    def __init__(self, owner: str, names: Names, make: Make | None = None) -> None:
        self.owner, self.names, self.make = owner, names, make
        self.defaults: dict[str, np.ndarray] = {}
        self.engines: dict[Names, Engine] = {}
        self._lock = threading.Lock()

    def __str__(self) -> str:
        some = [n if self._there([n]) is None else f"{n} (compiled)" for n in self.names[:SHOWN]]
        more = len(self.names) - len(some)
        return ", ".join(some) + (f" and {more} others" if more else "")

    def taking(self, owner: Engine, named: Mapping[str, Any]) -> tuple[Engine, Mapping[str, Any]]:
        """The engine for a call with these arguments by name, and what it is called with. Raises
        CallError."""
        given = {n for n in self.names if n in named}
        if not given:
            return owner, named
        names = self._there(given) or self._made(given, owner)
        left = {n: self.defaults[n] for n in names if n not in given}
        return self.engines[names], {**named, **left} if left else named

    def prepare(self, names: Collection[str], owner: Engine) -> None:
        """Have an engine that takes these."""
        if names and self._there(names) is None:
            self._made(names, owner)

    def _there(self, given: Collection[str]) -> Names | None:
        """The fewest names with an engine that takes all of these."""
        found = [names for names in list(self.engines) if set(names).issuperset(given)]
        return min(found, key=len, default=None)

    def _made(self, given: Collection[str], owner: Engine) -> Names:
        names = tuple(n for n in self.names if n in given)
        with self._lock:
            if names in self.engines:
                return names
            if self.make is None:
                raise CallError(
                    f"{self.owner}: {', '.join(names)} cannot be given to an engine of this file",
                    because="it is a constant in it; as an input it takes other kernels, and they are "
                    "compiled of the model",
                    try_=f"model.compile(overridable={list(names)!r}).save(path), and load that",
                )
            engine, defaults = self.make(names)
            if engine.output_names != owner.output_names:
                raise CallError(
                    f"{self.owner}: {', '.join(names)} cannot be given",
                    because="the graph has got other outputs since it was read, and it is read again for "
                    "this",
                    try_=f"model.with_inputs({', '.join(map(repr, names))}) before the change",
                )
            while len(self.engines) >= MAX_ENGINES:
                del self.engines[next(iter(self.engines))]
            self.defaults.update(defaults)
            self.engines[names] = engine
        return names
