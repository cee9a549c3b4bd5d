"""Files written whole or not at all: aside, then renamed. Knows nothing of what is in them."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from tensorlang.entries import share


def write_whole(path: str | Path, data: str | bytes | Callable[[BinaryIO], object]) -> None:
    """Write a file, so that a reader sees all of it or what was there before; a disk that is full leaves
    nothing new. What is not an ordinary file (a device, a pipe) is written straight. ``data`` may be a
    function that writes to a file. Raises TensorLangError."""
    goal = Path(os.path.realpath(path))  # a link stays a link
    if goal.exists() and not goal.is_file():
        with open(goal, "wb") as file:
            _fill(file, data)
        return
    handle, part = tempfile.mkstemp(prefix=f".{goal.name[:100]}.", suffix=".part", dir=goal.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            _fill(file, data)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(part, 0o666 & ~umask)  # mkstemp makes it private
        os.replace(part, goal)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def _fill(file: BinaryIO, data: str | bytes | Callable[[BinaryIO], object]) -> None:
    if callable(data):
        data(file)
    else:
        file.write(data.encode() if isinstance(data, str) else data)


share(__name__)
