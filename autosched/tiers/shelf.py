"""Specialised code on disk: one file for each key, written aside and renamed, and read with suspicion. Knows
keys and saved kernels.

A file is a saved kernel (``Module.save``: hashed as a whole, with the machine it needs) that carries the
parts of its key as one of its texts. Whatever is not exactly what is wanted is a miss with a reason: absent,
torn, changed, of another machine, made by another version, renamed, another user's, or for others to write.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorlang as tl

from .keys import Key

TEXT = "key"  # the text of a saved kernel that holds the parts of its key


@dataclass(frozen=True)
class Found:
    """A kernel and the seconds it took to make, or None and why."""

    module: tl.Module | None
    seconds: float = 0.0
    why: str = ""


class Shelf:
    """A directory of kernels, of at most ``limit`` bytes: the files longest not used go first."""

    def __init__(self, directory: str | Path, limit: int = 256 << 20) -> None:
        self.directory = Path(directory)
        self.limit = limit
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise tl.TensorLangError(
                f"cannot keep kernels in {directory}",
                because=e.strerror or str(e),
                try_="a directory that can be written",
            ) from None

    def path(self, key: Key) -> Path:
        """Where the kernel of a key is, or will be."""
        return self.directory / f"{key.name}.kernel"

    def has(self, key: Key) -> bool:
        """Whether there is such a file; what it is worth is known when it is read."""
        return self.path(key).exists()

    def read(self, key: Key) -> Found:
        """The kernel of a key."""
        path = self.path(key)
        if not path.exists():
            return Found(None, why=self._absent(key))
        result = read(path, key)
        if result.module is not None:
            with contextlib.suppress(OSError):
                path.touch()
        return result

    def discard(self, key: Key) -> None:
        """Remove the kernel of a key."""
        with contextlib.suppress(OSError):
            self.path(key).unlink()

    def sweep(self) -> int:
        """Remove what is beyond the limit; the bytes that are left."""
        listed = []
        for file in self.directory.glob("*.kernel"):
            with contextlib.suppress(OSError):
                listed.append((file.stat().st_mtime, file.stat().st_size, file))
        total = sum(size for _, size, _ in listed)
        for _, size, file in sorted(listed):
            if total <= self.limit:
                break
            with contextlib.suppress(OSError):
                file.unlink()
                total -= size
        return total

    def _absent(self, key: Key) -> str:
        """Why there is no file: perhaps there is one for another environment."""
        others = sorted(self.directory.glob(f"{key.place}-*.kernel"))
        return (read(others[-1], key).why or "absent") if others else "absent"


def read(path: Path, key: Key) -> Found:
    """The kernel in a file, if it is the key's."""
    try:
        module = tl.load(path, mine=True)
    except tl.TensorLangError as e:
        because = e.because() if callable(e.because) else e.because
        return Found(None, why=str(because or e.what))
    try:
        document = json.loads(module.get_source(TEXT))
        parts, seconds = document["parts"], float(document["seconds"])
    except tl.TensorLangError:
        return Found(None, why="it holds no key")
    except (ValueError, KeyError, TypeError) as e:
        return Found(None, why=f"its key makes no sense: {type(e).__name__}")
    why = key.differs(parts) if isinstance(parts, dict) else "its key makes no sense"
    return Found(None, why=why) if why else Found(module, seconds)


def write(path: Path, kernel: tl.Module, parts: dict[str, Any], seconds: float) -> None:
    """Leave a kernel in a file, with the parts of its key and the seconds it took to make. Raises
    TensorLangError when it cannot be written."""
    text = json.dumps({"parts": parts, "seconds": seconds})
    marked = tl.Module(
        kernel.object_code,
        kernel.signature,
        {TEXT: lambda: text},
        kernel.target,
        "it is only to be saved",
        kernel.constants,
        kernel.features,
    )
    marked.save(path, sources=True)
