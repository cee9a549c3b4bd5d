"""Dispatch on the type of a node: a table from type to function, looked up once per type. Knows no node
classes.

A visitor names only the types it treats; a type without an entry of its own is served by the entry of its
nearest base.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class TypeTable:
    """``table = TypeTable("name")``, then ``@table.on(Add, Mul)`` before each function, then
    ``table(node)(visitor, node)``."""

    __slots__ = ("_cache", "_entries", "name")

    def __init__(self, name: str, base: TypeTable | None = None) -> None:
        self.name = name
        self._entries: dict[type, Callable[..., Any]] = dict(base._entries) if base else {}
        self._cache: dict[type, Callable[..., Any]] = {}

    def on(self, *types: type) -> Callable[[F], F]:
        def register(function: F) -> F:
            for t in types:
                self._entries[t] = function
            self._cache.clear()
            return function

        return register

    def find(self, kind: type) -> Callable[..., Any] | None:
        """The function for nodes of that type, or None."""
        result = self._cache.get(kind)
        if result is None:
            for base in kind.__mro__:
                if base in self._entries:
                    result = self._cache[kind] = self._entries[base]
                    break
        return result

    def __call__(self, node: object) -> Callable[..., Any]:
        result = self._cache.get(type(node)) or self.find(type(node))
        if result is None:
            raise TypeError(f"{self.name}: no rule for {type(node).__name__}")
        return result
