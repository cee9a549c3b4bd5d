"""Compiled kernels on the disk. Knows files and what decides a kernel's code; no graphs.

A kernel is found by the hash of everything that decides its code, so what is found needs no comparison. Files
are hashed, written aside and renamed; a torn one, or one that somebody else may have written, is a miss.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from .. import options
from ..analysis import cost_of
from ..errors import TensorLangError
from ..runtime import files
from ..runtime.codes import KernelCode, from_bytes, to_bytes
from ..runtime.helper_file import remembered
from ..target import Target

MOST = 20_000  # kernels kept; then the half that was not used for longest goes


@functools.cache
def _sources() -> str:
    """A digest of the package's own files: a version may stand for many states of them."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(f"{file.relative_to(root)}\n".encode())
        # by contents: dates of files differ between installations of the same version
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:20]


@functools.cache
def environment(target: Target) -> str:
    """What compiles, and for what: sources, LLVM, the processor with its instruction sets, the cost table."""
    from importlib.metadata import version

    sets = " ".join(sorted(target.instruction_sets))
    return f"{_sources()} llvmlite {version('llvmlite')} {target.triple} {target} {sets} {cost_of(target)}"


def digest(text: str) -> str:
    """A name for all that the text says."""
    return hashlib.sha256(text.encode()).hexdigest()[:40]


@functools.cache
def _warn_once(directory: Path, why: str) -> None:
    warnings.warn(
        f"compiled kernels are not kept in {directory} ({why}); TENSORLANG_CACHE=… names another directory, "
        "TENSORLANG_CACHE=0 none",
        stacklevel=2,
    )


class Cache:
    """Kernels in a directory: ``where`` is one, None the user's (or what TENSORLANG_CACHE says), False
    none."""

    def __init__(self, where: str | os.PathLike[str] | bool | None = None) -> None:
        if where is None or where is True:
            asked = options.cache()
            where = (options.user_directory("cache") or False) if asked is None else asked
        self.directory = None if where is False else files.named(where, "cache") / "kernels"  # type: ignore[arg-type]

    def _path(self, key: str) -> Path:
        assert self.directory is not None
        # in 256 directories: one with all of them would be slow to list
        return self.directory / key[:2] / f"{key}.kernel"

    def get(self, key: str) -> KernelCode | None:
        """The kernel of that name, None when there is none to be trusted."""
        return None if self.directory is None else files.trusted(self._path(key), from_bytes)

    def put(self, key: str, code: KernelCode) -> None:
        """Keep a kernel. A directory that cannot be written keeps none."""
        if self.directory is not None:
            self._write(self._path(key), to_bytes(code), "keep a kernel")

    def _write(self, path: Path, data: bytes, what: str) -> None:
        assert self.directory is not None
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # nobody waits for the disk: a file that a power failure tore is a miss
            files.write({path: data}, what, lasting=False)
        except (OSError, TensorLangError) as e:
            _warn_once(self.directory, getattr(e, "strerror", None) or "it cannot be written")

    def helpers(self) -> AbstractContextManager[None]:
        """A context in which engines are made: helpers that they load come from here where another process
        has left them, and are left here where none has."""
        if self.directory is None:
            return contextlib.nullcontext()
        return remembered(
            self.directory / "helpers", lambda path, data: self._write(path, data, "keep helpers")
        )

    def seen(self, key: str) -> bool:
        """Whether the kernels of a program of that name were compiled once: most will be here."""
        return self.directory is not None and self._mark(key).exists()

    def note(self, key: str) -> None:
        """The kernels of a program of that name have been compiled."""
        if self.directory is not None:
            with contextlib.suppress(OSError):
                self._mark(key).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._mark(key).touch()

    def _mark(self, key: str) -> Path:
        return self._path(key).with_suffix(".program")

    def make_room(self) -> None:
        """Remove the older half of too many files."""
        if self.directory is None:
            return
        kept: list[tuple[float, Any]] = []
        for file in self.directory.glob("*/*.*"):
            with contextlib.suppress(OSError):
                kept.append((file.stat().st_mtime, file))
        if len(kept) > MOST:
            # half of them, or every kernel from now on would list the directory again
            for _, file in sorted(kept)[: len(kept) // 2]:
                with contextlib.suppress(OSError):
                    file.unlink()
