"""A name for what a kernel says: two kernels have the same one only where all but names is the same. Knows
the loop IR by the fields of its nodes, so that nothing of a new one is left out; nothing of what reads it.

Variables and buffers are told apart by when they are met, and count with all that is known of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from ..core.dtype import DType
from ..expr.nodes import Const, Expr, Var
from .buffer import Buffer
from .stmt import Func, Stmt

_PLAIN = frozenset((str, int, float, bool, type(None)))


class Unknown(Exception):
    """Something that no text stands for."""


def digest(func: Func, *more: str) -> str | None:
    """The name of a kernel, and of ``more``; None where something in it cannot be told in text. Not of its
    name, nor of those in it."""
    text = _Text()
    try:
        parts = [text.of(x) for x in (func.params, func.dims, func.outputs, func.constants, func.updates)]
        parts += [text.of(x) for x in (func.attrs, func.needs, func.body)]
    except Unknown:
        return None
    whole = "\n".join([*more, *text.lines, *parts])
    return hashlib.sha256(whole.encode()).hexdigest()[:32]


def text_of(s: Stmt, known: Sequence[object]) -> str | None:
    """What a statement says, apart from names; what is ``known`` is told by its place there. None where
    something in it cannot be told in text."""
    text = _Text()
    try:
        for x in known:
            text.of(x)
        return "\n".join([text.of(s), *text.lines])
    except Unknown:
        return None


class _Text:
    """What was met, each in a line of its own, and known by its number after that."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: dict[int, str] = {}
        self._held: list[Any] = []  # what is known by its address must live

    def of(self, x: Any) -> str:
        """The text for a field."""
        known = self._known.get(id(x))  # of what is held, so that no address is another's
        if known is not None:
            return known
        kind = type(x)
        if kind in _PLAIN:
            return repr(x)
        if isinstance(x, tuple):
            return f"({' '.join([self.of(y) for y in x])})"
        if kind is DType:
            return x.name  # type: ignore[no-any-return]
        if isinstance(x, Stmt):
            return self._statement(x)
        if isinstance(x, Var):
            fields = [self.of(f) for f in (x.dtype, x.kind, x.lo, x.hi, x.multiple_of, x.hint, x.assumed)]
        elif isinstance(x, Const):
            fields = [str(x.dtype), repr(x.value)]
        elif isinstance(x, Buffer):
            fields = [self.of(f) for f in (x.dtype, x.scope, x.shape, x.strides)]
        elif isinstance(x, Expr) and type(x)._fields:
            fields = [str(x.dtype), *[self.of(getattr(x, f)) for f in type(x)._fields]]
        else:
            raise Unknown(type(x).__name__)
        number = self._known[id(x)] = f"%{len(self.lines)}"
        self._held.append(x)
        self.lines.append(f"{type(x).__name__}[{' '.join(fields)}]")
        return number

    def _statement(self, s: Stmt) -> str:
        """The text of a statement. What is within loops, buffers and values is told in a loop, not by a call
        for each: a network that sorts 64 elements is hundreds of values, each within the last."""
        heads = []
        inner: Stmt | None = s
        while inner is not None:
            s, inner = inner, None
            fields = []
            slots: tuple[str, ...] = type(s).__slots__  # type: ignore[attr-defined]
            for slot in slots:
                value = getattr(s, slot)
                if slot == "body" and isinstance(value, Stmt):
                    inner = value
                else:
                    fields.append(self.of(value))
            heads.append(f"{type(s).__name__}[{' '.join(fields)}")
        return " ".join(heads) + "]" * len(heads)
