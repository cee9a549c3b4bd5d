"""Files of records: append with one write a line, load what can be read and say what cannot, find the best.
Knows records and files."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tensorlang as tl
from tensorlang.boundary import check_path
from tensorlang.entries import public
from tensorlang.errors import counted
from tensorlang.protocols import element

from ..whole_files import write_whole
from .ranking import ranked
from .record import Record
from .replay import replay

MAX_LINE = 1 << 20  # bytes: a line longer than this is not a record of ours
BEGIN = b'{"task":'  # of every line


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not a record, where it stands and why."""

    file: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.why}"


@public(
    tl.TensorLangError,
    "RecordLog",
    eager=True,
    text="autosched.reporting.objects:log",
    page="autosched.reporting.objects:log_page",
)
class RecordLog:
    """A file of records. Reading takes what it can; ``bad`` lists the rest. Nothing is written before
    ``open`` or the first ``append``, which make the file, and its folder where there is none. Raises
    TensorLangError for a file that has lines and no record.

    >>> log = autosched.RecordLog(None)
    >>> len(log)
    0
    """

    def __init__(self, path: str | Path | None) -> None:
        self.path = None if path is None else Path(path)
        if self.path is not None:
            check_path(self.path, "RecordLog({})")
        self.records: list[Record] = []
        self.bad: list[BadLine] = []
        self.unwritten: list[bytes] = []  # lines that the file did not take yet
        self._own: set[bytes] = set()  # digests of lines written here, not read again
        self._read = self._lines = 0  # how far the file was read, in bytes and lines
        self._torn = False  # the last line had no end
        self.refresh()
        if self.path is not None and (why := self._foreign(self.path)):
            raise tl.TensorLangError(
                f"{self.path} is not a file of records",
                because=why,
                try_="a file that tune(task, records=…) wrote, or another name for a new one",
            )

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Record:
        """A record, the first is 0; a slice gives a list of them."""
        return element("log", self.records, index)  # type: ignore[no-any-return]

    def open(self) -> None:
        """Make sure that the file can be written. Raises TensorLangError when it cannot."""
        if self.path is not None:
            with self._appending() as fd:
                os.fstat(fd)

    def append(self, record: Record) -> None:
        """Keep one record: in one write at the end of the file, so that processes may share it and a kill
        leaves no half line inside.

        Raises TensorLangError when the file cannot be written; the record is kept in memory all the same, and
        written with the next.
        """
        self.records.append(record)
        if self.path is None:
            return
        self.unwritten.append((record.to_json() + "\n").encode())
        with self._appending() as fd:
            size = os.fstat(fd).st_size
            # a writer died in the middle of its line
            torn = bool(size) and os.pread(fd, 1, size - 1) != b"\n"
            while self.unwritten:
                line = self.unwritten[0]
                if os.write(fd, b"\n" * torn + line) != len(line) + torn:
                    raise OSError("the disk is full")
                self._own.add(_digest(line))
                del self.unwritten[0]
                torn = False

    @contextmanager
    def _appending(self) -> Iterator[int]:
        assert self.path is not None
        if why := self._foreign(self.path):
            raise tl.TensorLangError(
                f"{self.path} is not a file of records, and nothing is appended to it",
                because=why,
                try_="another name, such as records='matmul.jsonl'",
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                yield fd
            finally:
                os.close(fd)
        except OSError as e:
            raise tl.TensorLangError(
                f"cannot write records to {self.path}",
                because=str(e),
                try_="another file, or records=None to keep them in memory",
            ) from None

    def _foreign(self, path: Path) -> str | None:
        """Why a file is of somebody else, None where it is not: it has lines, and none is a record, nor the
        beginning of one that a kill cut off."""
        if self.records or not self.bad or self._own or self._cut_off(path):
            return None
        return f"line {self.bad[0].line}: {self.bad[0].why}"

    @staticmethod
    def _cut_off(path: Path) -> bool:
        with open(path, "rb") as f:
            return f.read(len(BEGIN)) == BEGIN

    def refresh(self) -> list[Record]:
        """Take in what others have appended since; returns it. Raises TensorLangError when the file cannot be
        read."""
        # a device may have no end
        if self.path is None or not self.path.exists() or self.path.is_char_device():
            return []
        new, bad, self._read, self._lines, self._torn = _read(
            self.path, self._read, self._lines, self._torn, self._own
        )
        self.records += new
        self.bad += bad
        return new

    def of(self, task: str, target: str) -> list[Record]:
        """The records of one task on one target, in the order of the file."""
        return [r for r in self.records if r.task == task and r.target == target]

    def best(self, task: str, target: str) -> Record | None:
        """The fastest right record of a task on a target; None where none succeeded."""
        return best_of(self.records, task, target)


def load(path: str | Path) -> tuple[list[Record], list[BadLine]]:
    """The records of a file and the lines that are none. Raises TensorLangError when the file cannot be read
    at all."""
    return _read(Path(path))[:2]


def _read(
    path: Path, offset: int = 0, number: int = 0, torn: bool = False, own: set[bytes] | None = None
) -> tuple[list[Record], list[BadLine], int, int, bool]:
    """The records and bad lines of a file from an offset on, and how far it was read. Lines of which ``own``
    has the digest are left out; a line beyond ``MAX_LINE`` is never held in memory."""
    records: list[Record] = []
    bad: list[BadLine] = []
    check_path(path, "cannot read records from {}")
    try:
        with open(path, "rb") as f:
            f.seek(offset)
            if torn and f.read(1) != b"\n":  # the end of a line that is known
                f.seek(offset)
            while raw := f.readline(MAX_LINE + 1):
                number, size = number + 1, len(raw)
                while not raw.endswith(b"\n") and (more := f.readline(MAX_LINE)):
                    size, raw = size + len(more), more
                torn = not raw.endswith(b"\n")
                if size > MAX_LINE:
                    bad.append(
                        BadLine(str(path), number, f"{size} bytes long; a record has at most {MAX_LINE}")
                    )
                elif own and _digest(raw) in own:
                    own.discard(_digest(raw))
                elif raw.strip():
                    try:
                        records.append(Record.from_json(raw.decode()))
                    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as e:
                        bad.append(BadLine(str(path), number, shortened(str(e)) or type(e).__name__))
            return records, bad, f.tell(), number, torn
    except OSError as e:
        raise tl.TensorLangError(f"cannot read records from {path}", because=e.strerror or str(e)) from None


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line.rstrip(b"\n"), digest_size=16).digest()


def best_of(records: str | Path | Iterable[Record], task: str, target: str) -> Record | None:
    """The fastest right record of a task on a target."""
    listed = load(records)[0] if isinstance(records, str | Path) else records
    return next(iter(ranked(listed, task, target)), None)


def apply_best(
    listed: Sequence[Record],
    task: str,
    target: str,
    name: str,
    schedule: tl.Schedule,
    refused: Sequence[str] = (),
    bad: Sequence[BadLine] = (),
) -> tl.Schedule:
    """The fastest right record that replays on a fresh schedule of the task; records that do not are passed
    over, as those were that ``refused`` tells of.

    Raises TensorLangError when there is none, and says what the records and the ``bad`` lines hold instead.
    """
    refused = list(refused)
    for r in ranked(listed, task, target):
        try:
            return replay(r.steps, schedule)
        except tl.ScheduleError as e:
            refused.append(shortened(str(e)))
    mine = [r for r in listed if r.task == task]
    why = [
        f"{n} × {status}"
        for status, n in sorted(Counter(r.status for r in mine if r.target == target and not r.ok).items())
    ]
    others = dict.fromkeys(r.target for r in mine if r.target != target)
    why += [f"measured for {t} only" for t in others]
    why += [f"{counted(len(refused), 'record')} cannot be replayed: {refused[0]}"] if refused else []
    why += [f"{counted(n, 'record')} of other tasks"] if (n := len(listed) - len(mine)) else []
    why += [f"{counted(len(bad), 'line')} skipped, the first {bad[0]}"] if bad else []
    raise tl.TensorLangError(
        f"no measured schedule of {name} for {target}",
        because="\n".join(why) or "there are no records",
        try_="autosched.tune(task, records=…) first, with the same sizes and target",
    )


def shortened(text: str, most: int = 400) -> str:
    """What a file made somebody say, in one line that cannot fill a screen."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]} …"


def merge(
    inputs: Sequence[str | Path], output: str | Path, keep: int | None = None
) -> tuple[int, list[BadLine]]:
    """Write the records of several files to one, each once; ``keep``: distilled to this many of the fastest
    of each task and target, with all measurements of these. Returns how many were written, and the lines that
    were skipped.

    The output is written beside its place and renamed, so it may be one of the inputs. Raises TensorLangError
    when a file cannot be read or written, for an output that is there and holds something else than records,
    and for a ``keep`` below one.
    """
    if keep is not None and keep < 1:
        raise tl.TensorLangError(
            f"merge(keep={keep}): of each task at least one candidate is kept", try_="keep=10"
        )
    check_path(output, "cannot write records to {}")
    if Path(output).is_dir():
        raise tl.TensorLangError(f"cannot write records to {output}", because="it is a directory")
    if Path(output).exists():
        RecordLog(output)  # what is no file of records is not written over
    found: dict[str, Record] = {}
    bad: list[BadLine] = []
    for path in inputs:
        records, skipped = load(path)
        found.update((r.to_json(), r) for r in records)
        bad += skipped
    if keep is not None:
        groups = dict.fromkeys((r.task, r.target) for r in found.values())
        kept = {r.identity for task, target in groups for r in ranked(found.values(), task, target)[:keep]}
        found = {line: r for line, r in found.items() if r.ok and r.identity in kept}
    try:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        write_whole(output, "".join(line + "\n" for line in found))
    except OSError as e:
        raise tl.TensorLangError(f"cannot write records to {output}", because=e.strerror or str(e)) from None
    return len(found), bad
