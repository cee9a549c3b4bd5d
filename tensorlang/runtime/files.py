"""Whole files or none: written aside and renamed, read only when they are ordinary files. Knows nothing of
what is in them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, TypeVar

from ..boundary import check_path, shown
from ..errors import TensorLangError

T = TypeVar("T")


def named(path: str | os.PathLike[str], what: str) -> Path:
    """``path`` as a Path. Raises TensorLangError, which says ``what`` was asked, for what names no file."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise TensorLangError(
            f"{what}({shown(path)})",
            because=f"a path is a string or a pathlib.Path, not {type(path).__name__}",
        )
    check_path(path, f"{what}({{}})")
    return Path(path)


def sealed(mark: bytes, version: int, body: bytes) -> bytes:
    """The bytes of a file: a line that says what it is, a line with the hash of the rest, the rest."""
    return mark + str(version).encode() + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def unsealed(
    path: str | Path,
    data: bytes,
    mark: bytes,
    version: int,
    *,
    what: str,
    again: str,
    others: Mapping[bytes, str] | None = None,
) -> bytes:
    """The body of what ``sealed`` made. Raises TensorLangError for bytes that are not ``what`` they should be
    (``others`` says what to try with files that begin otherwise), and for another version and for a body
    that was changed, where ``again`` says what to do."""
    first, _, rest = data.partition(b"\n")
    if not first.startswith(mark):
        way = next((way for begin, way in (others or {}).items() if first.startswith(begin)), None)
        raise TensorLangError(f"cannot load {path}", because=f"it is not a saved tensorlang {what}", try_=way)
    given = first[len(mark) :].decode("ascii", "replace")
    if given != str(version):
        raise TensorLangError(
            f"cannot load {path}",
            because=f"its format is version {given[:20]}, this is version {version}",
            try_=again,
        )
    digest, _, body = rest.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise changed(path, again)
    return body


def changed(path: str | Path, again: str) -> TensorLangError:
    """A file whose hash is not that of its contents."""
    return TensorLangError(
        f"cannot load {path}",
        because="its contents do not match its hash: the file is torn or was changed",
        try_=again,
    )


def write(files: Mapping[str | Path, bytes], what: str, *, lasting: bool = True) -> None:
    """Write every file aside, then rename them all, so that a reader sees all of a file or nothing; an error
    changes none. Unless ``lasting`` nobody waits for the disk: after a power failure a file may be torn.

    ``what`` is put before the path in messages: ``cannot {what} to {path}``. Raises TensorLangError.
    """
    aside: list[tuple[str, str]] = []
    path: str | Path = ""
    try:
        for path, data in files.items():
            goal = os.path.realpath(path)  # a link stays a link
            _ordinary(goal)
            handle, name = tempfile.mkstemp(
                prefix=os.path.basename(goal), suffix=".part", dir=os.path.dirname(goal)
            )
            aside.append((name, goal))
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                if lasting:
                    os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(
                name, 0o644 & ~umask
            )  # mkstemp makes it private; what others may write is not loaded again
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
    """Raises OSError when something else than an ordinary file has that name: renaming would destroy a
    device."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise OSError(0, "it is a directory")
    if not stat.S_ISREG(mode):
        raise OSError(0, "it is not an ordinary file")


def read(path: str | Path, mine: bool = False) -> bytes:
    """The contents of an ordinary file that is to be run. Raises TensorLangError as ``opened``."""
    with opened(path, mine) as file:
        try:
            return file.read()
        except OSError as error:
            raise TensorLangError(f"cannot load {path}", because=error.strerror or str(error)) from None


def trusted(path: Path, decode: Callable[[bytes], T]) -> T | None:
    """What ``decode`` makes of a file in a cache, which counts as used now; None for no file, for one that
    others may have written, and where ``decode`` raises TensorLangError or ValueError: a cache makes anew
    what it cannot trust, silently."""
    if not path.exists():
        return None
    try:
        found = decode(read(path, mine=True))
    except (TensorLangError, ValueError):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # who makes room removes what was not used for longest
    return found


def opened(path: str | Path, mine: bool = False) -> BinaryIO:
    """An ordinary file that is to be run, for reading. Raises TensorLangError, also when everybody may
    write it, or with ``mine`` (nobody named this file: it lies in a cache) when it is another user's or
    others may write it; never waits for a pipe or reads a device without end."""
    try:
        _ordinary(os.fspath(path))
        file = open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")  # noqa: SIM115
    except (OSError, ValueError) as error:
        raise TensorLangError(
            f"cannot load {path}", because=getattr(error, "strerror", None) or str(error)
        ) from None
    why = _distrust(os.fstat(file.fileno()), mine)  # of what is open, whatever has the name by now
    if why:
        file.close()
        raise TensorLangError(
            f"cannot load {path}",
            because=f"{why}, and it holds machine code",
            try_=f"chmod go-w {path}, if you know who wrote it" if "write" in why else "make it anew",
        )
    return file


def _distrust(status: os.stat_result, mine: bool) -> str:
    """Why a file is not to be run; empty when it may be."""
    if not stat.S_ISREG(status.st_mode):
        return "it is not an ordinary file"
    if mine and status.st_uid not in (0, os.geteuid()):
        return f"it belongs to another user (number {status.st_uid})"
    return "others may write it" if status.st_mode & (0o022 if mine else 0o002) else ""
