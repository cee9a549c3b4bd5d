"""Files and processes that a hostile model might reach: an audit hook notes whatever this process opens,
changes or starts outside the places that it may, and the memory that it may take has an end. Knows nothing of
models.

A hook cannot be taken away, so this is for processes of their own. It sees what goes through Python; libraries
written in C that open files by themselves are not seen.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STARTS = (
    "subprocess.",
    "os.system",
    "os.exec",
    "os.spawn",
    "os.posix_spawn",
    "os.fork",
    "socket.",
    "urllib.",
)
FILES = ("open", "os.", "shutil.", "tempfile.", "pathlib.", "glob.", "ctypes.dlopen", "mmap.")
STILL = ("os.putenv", "os.unsetenv", "os.fwalk", "mmap.__new__")  # touch no file by its name
PAIRS = ("os.rename", "os.link", "os.symlink", "shutil.move", "shutil.copyfile", "shutil.copytree")
GIBIBYTE = 1 << 30


class Watch:
    """What was touched elsewhere. ``places`` are folders that may be used besides the interpreter's own and
    those of the project, whose files are read to find out what to do."""

    def __init__(self, places: Iterable[str | Path]) -> None:
        own = (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), ROOT, *sys.path[1:])
        self.read = tuple({os.path.realpath(p) for p in own if p} | {"/proc", "/sys", "/dev/urandom"})
        self.write = tuple(os.path.realpath(p) for p in places)
        self.strays: list[str] = []
        self.on = False
        sys.addaudithook(self._seen)

    def _seen(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on or event in STILL:
            return
        if event.startswith(STARTS):
            self.strays.append(f"{event} {str(arguments)[:200]}")
        elif event.startswith(FILES):
            self.on = False  # what follows asks for real paths, which is not a concern of the hook
            changes = event != "open" or not _reads(arguments)
            try:
                for path in filter(None, map(_path, arguments[: 2 if event in PAIRS else 1])):
                    if not _within(path, self.write) and (changes or not _within(path, self.read)):
                        self.strays.append(f"{event} {path}")
            finally:
                self.on = True

    def __enter__(self) -> Watch:
        self.strays, self.on = [], True
        return self

    def __exit__(self, *_: object) -> None:
        self.on = False


def _reads(arguments: tuple[Any, ...]) -> bool:
    """Whether a file is opened for reading only: the third argument are the flags."""
    return not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)


def _path(x: Any) -> str | None:
    """The real path of an argument that is one: descriptors were opened before."""
    if isinstance(x, str | bytes | os.PathLike):
        return os.path.realpath(os.fsdecode(x).split("\0")[0] or ".")
    return None


def _within(path: str, places: Iterable[str]) -> bool:
    return any(path == p or path.startswith(f"{p}/") for p in places)


def limit(gibibytes: int) -> None:
    """Let allocations beyond this end in MemoryError, not in a machine that swaps."""
    resource.setrlimit(resource.RLIMIT_AS, (gibibytes * GIBIBYTE, resource.getrlimit(resource.RLIMIT_AS)[1]))


class Den:
    """A folder for models, and around it what none may touch: a file and links to it, a pipe, a device."""

    def __init__(self) -> None:
        self._outer = tempfile.TemporaryDirectory()
        outer = Path(self._outer.name)
        self.folder, self.secret = outer / "inside", outer / "secret"
        self.folder.mkdir()
        self.secret.write_bytes(bytes(range(48)))
        (self.folder / "data").write_bytes(bytes(range(48)))
        (self.folder / "below").mkdir()
        (self.folder / "link").symlink_to(self.secret)
        (self.folder / "out").symlink_to(outer)
        (self.folder / "device").symlink_to("/dev/zero")
        (self.folder / "circle").symlink_to("circle")
        os.mkfifo(self.folder / "pipe")

    def model(self, data: bytes) -> Path:
        """A file of these bytes in the folder."""
        path = self.folder / "m.onnx"
        path.write_bytes(data)
        return path

    def end(self) -> None:
        """Remove it all."""
        self._outer.cleanup()
