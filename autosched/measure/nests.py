"""Object code of the nests that candidates share, in the directory of a tuner: all builders of a search find
there what one has compiled. Knows files only.

A file is written beside its name and renamed, so that another builder finds it whole or not at all. Who makes
room in the directory removes the oldest; what is used stays young.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

SUFFIX = ".nest"


class Nests:
    """What is kept in ``directory``, by name. A tuner has one directory, for one version of the compiler."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._written = 0  # bytes since they were asked for

    def _file(self, name: str) -> Path:
        return self.directory / f"{name}{SUFFIX}"

    def get(self, name: str) -> bytes | None:
        """What was put, None where it is there no more."""
        file = self._file(name)
        try:
            code = file.read_bytes()
            os.utime(file)
        except OSError:
            return None
        return code

    def put(self, name: str, code: bytes) -> None:
        """Keep it. Where the directory is full it is compiled again next time."""
        file = self._file(name)
        part = file.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            part.write_bytes(code)
            part.rename(file)
            self._written += len(code)

    def taken(self) -> int:
        """Bytes that were written since this was asked last."""
        written, self._written = self._written, 0
        return written
