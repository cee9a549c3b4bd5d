"""Files of records: append with one write a line, load what can be read and say what cannot, find the best. Knows records and
files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import tensorlang as tl

from .record import Record

MAX_LINE = 4 << 20  # bytes: a line longer than this is not a record of ours


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no record, where it stands and why."""

    file: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.why}"


class RecordLog:
    """A file of records. Reading takes what it can; ``bad`` lists the rest. Nothing is written before the first ``append``."""

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)
        self.records: list[Record] = []
        self.bad: list[BadLine] = []
        if self.path is not None and self.path.exists():
            self.records, self.bad = load(self.path)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def append(self, record: Record) -> None:
        """Keep one record: in one write at the end of the file, so that processes may share it and a kill leaves no half line
        inside.

        Raises TensorLangError when the file cannot be written; the record is kept in memory all the same.
        """
        self.records.append(record)
        if self.path is None:
            return
        line = (record.to_json() + "\n").encode()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                size = os.fstat(fd).st_size
                if size and os.pread(fd, 1, size - 1) != b"\n":  # a writer died in the middle of its line
                    line = b"\n" + line
                if os.write(fd, line) != len(line):
                    raise OSError("the disk is full")
            finally:
                os.close(fd)
        except OSError as e:
            raise tl.TensorLangError(f"cannot write records to {self.path}", because=str(e)) from None

    def of(self, task: str, target: str) -> list[Record]:
        """The records of one task on one target."""
        return [r for r in self.records if r.task == task and r.target == target]

    def best(self, task: str, target: str) -> Record | None:
        """The fastest right one."""
        return best_of(self.records, task, target)


def load(path: str | Path) -> tuple[list[Record], list[BadLine]]:
    """The records of a file and the lines that are none. Raises TensorLangError when the file cannot be read at all."""
    records: list[Record] = []
    bad: list[BadLine] = []
    try:
        with open(path, "rb") as f:
            for number, raw in enumerate(f, 1):
                if not raw.strip():
                    continue
                try:
                    if len(raw) > MAX_LINE:
                        raise ValueError(f"{len(raw)} bytes long")
                    records.append(Record.from_json(raw.decode()))
                except (ValueError, TypeError, KeyError, RecursionError) as e:
                    bad.append(BadLine(str(path), number, str(e) or type(e).__name__))
    except OSError as e:
        raise tl.TensorLangError(f"cannot read records from {path}", because=str(e)) from None
    return records, bad


def best_of(records: str | Path | Sequence[Record] | Iterable[Record], task: str, target: str) -> Record | None:
    """The fastest right record of a task on a target. Several measurements of one trace count together: the median of all times."""
    listed = load(records)[0] if isinstance(records, str | Path) else records
    together: dict[str, Record] = {}
    for r in listed:
        if r.ok and r.task == task and r.target == target:
            known = together.get(r.steps)
            together[r.steps] = r if known is None else _joined(known, r)
    return min(together.values(), key=lambda r: r.cost, default=None)


def _joined(a: Record, b: Record) -> Record:
    return replace(a, times=(*a.times, *b.times))
