"""Whole files or none: written aside and renamed, read only when they are ordinary files. Knows nothing of what is in them."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..errors import TensorLangError


def named(path: str | os.PathLike[str], what: str) -> Path:
    """``path`` as a Path. Raises TensorLangError, which says ``what`` was asked, for what names no file."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise TensorLangError(f"{what}({path!r})", because=f"a path is a string or a pathlib.Path, not {type(path).__name__}")
    return Path(path)


def write(files: Mapping[str | Path, bytes], what: str) -> None:
    """Write every file aside, then rename them all, so that a reader sees all of a file or nothing; an error changes none.

    ``what`` is put before the path in messages: ``cannot {what} to {path}``. Raises TensorLangError.
    """
    aside: list[tuple[str, str]] = []
    path: str | Path = ""
    try:
        for path, data in files.items():
            goal = os.path.realpath(path)  # a link stays a link
            _ordinary(goal)
            handle, name = tempfile.mkstemp(prefix=os.path.basename(goal), suffix=".part", dir=os.path.dirname(goal))
            aside.append((name, goal))
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(name, 0o666 & ~umask)  # mkstemp makes it private
        while aside:
            name, path = aside[0]
            os.replace(name, path)
            del aside[0]
    except OSError as error:
        raise TensorLangError(f"cannot {what} to {path}", because=error.strerror or str(error)) from None
    finally:
        for name, _ in aside:
            os.unlink(name)


def _ordinary(path: str) -> None:
    """Raises OSError when something else than an ordinary file has that name: renaming would destroy a device."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise OSError(0, "it is a directory")
    if not stat.S_ISREG(mode):
        raise OSError(0, "it is no ordinary file")


def read(path: str | Path) -> bytes:
    """The contents of an ordinary file. Raises TensorLangError; never waits for a pipe or reads a device without end."""
    try:
        _ordinary(os.fspath(path))
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise TensorLangError(f"cannot load {path}", because=getattr(error, "strerror", None) or str(error)) from None
