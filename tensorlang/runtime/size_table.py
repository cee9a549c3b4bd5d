"""Sizes of a whole program over its dims: rows of a table in which each refers to earlier ones, so that what
many sizes share is computed once. Plain data; knows nothing else.

A row is a number, the name of a dim, or ``(op, row, row …)``. Truth is 1 or 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..interface.signature import Size

Row = Any  # int | str | tuple[str, int, ...]

_LARGEST = (1 << 63) - 1
_TEXT = {
    "+": "{0} + {1}",
    "-": "{0} - {1}",
    "*": "{0} * {1}",
    "//": "{0} // {1} if {1} else 0",  # a branch that is not taken may divide by zero
    "%": "{0} % {1} if {1} else 0",
    "min": "min({0}, {1})",
    "max": "max({0}, {1})",
    "tdiv": "tdiv({0}, {1})",
    "tmod": "{0} - {1} * tdiv({0}, {1}) if {1} else 0",
    "<": "int({0} < {1})",
    "<=": "int({0} <= {1})",
    "==": "int({0} == {1})",
    "!=": "int({0} != {1})",
    "and": "int(bool({0} and {1}))",
    "or": "int(bool({0} or {1}))",
    "not": "int(not {0})",
    "if": "{1} if {0} else {2}",
}
_COUNTS = {op: text.count("{0}") and 1 + ("{1}" in text) + ("{2}" in text) for op, text in _TEXT.items()}
_OF_SIGNATURES = ("+", "-", "*", "//", "%", "min", "max")


class SizeTable:
    """Rows, each there once."""

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self.rows: list[Row] = []
        self._numbers: dict[Row, int] = {}
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> int:
        """The number of a row."""
        found = self._numbers.get(row)
        if found is None:
            found = self._numbers[row] = len(self.rows)
            self.rows.append(row)
        return found

    def to_json(self) -> list[Any]:
        return self.rows

    @staticmethod
    def from_json(data: Any, dims: Sequence[str]) -> SizeTable:
        """The table, each row checked. Raises ValueError."""
        if not isinstance(data, list):
            raise ValueError("the sizes are not a list")
        table = SizeTable()
        for i, row in enumerate(data):
            table.rows.append(_checked(row, i, dims))
        return table

    def needed(self, wanted: Sequence[int]) -> list[int]:
        """The rows that these depend on, and they, in order."""
        found: set[int] = set()
        work = list(wanted)
        while work:
            i = work.pop()
            if i not in found:
                found.add(i)
                row = self.rows[i]
                if isinstance(row, tuple):
                    work += row[1:]
        return sorted(found)

    def dims(self, wanted: Sequence[int]) -> list[str]:
        """The dims that these rows depend on."""
        rows = (self.rows[i] for i in self.needed(wanted))
        return list(dict.fromkeys(r for r in rows if isinstance(r, str)))

    def function(self, wanted: Sequence[int], dims: Sequence[str]) -> Callable[..., tuple[int, ...]]:
        """``f(*values of dims)`` gives the values of these rows."""
        names = {d: f"d{i}" for i, d in enumerate(dims)}
        lines = [f"def f({', '.join(names.values())}):"]
        for i in self.needed(wanted):
            row = self.rows[i]
            if isinstance(row, tuple):
                text = _TEXT[row[0]].format(*(f"s{j}" for j in row[1:]))
            else:
                text = names[row] if isinstance(row, str) else str(row)
            lines.append(f"    s{i} = {text}")
        lines.append(f"    return ({''.join(f's{i}, ' for i in wanted)})")
        scope: dict[str, Any] = {"tdiv": _tdiv}
        exec("\n".join(lines), scope)  # operators from the table above, numbers, and names made here
        return scope["f"]  # type: ignore[no-any-return]

    def size(self, i: int, depth: int = 8) -> Size | None:
        """A row as a size of a signature; None when it has no such form, or a long one."""
        row = self.rows[i]
        if not isinstance(row, tuple):
            return row
        if row[0] not in _OF_SIGNATURES or not depth:
            return None
        parts = [self.size(j, depth - 1) for j in row[1:]]
        return None if None in parts else (row[0], *parts)


def _checked(row: Any, count: int, dims: Sequence[str]) -> Row:
    if type(row) is int and abs(row) <= _LARGEST:
        return row
    if isinstance(row, str) and row in dims:
        return row
    if isinstance(row, list) and row and row[0] in _TEXT and len(row) == 1 + _COUNTS[row[0]]:
        if all(type(j) is int and 0 <= j < count for j in row[1:]):
            return tuple(row)
    raise ValueError(f"{str(row)[:40]} is not a size")


def _tdiv(a: int, b: int) -> int:
    return 0 if b == 0 else a // b if (a < 0) == (b < 0) else -(-a // b)
