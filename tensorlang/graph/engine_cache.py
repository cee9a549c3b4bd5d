"""Whole engines on the disk, for those who can say what decides one, weights included, without compiling it.
Knows files and engines; no graphs.

An engine that another process has left spares passes, regions, lowering and packing: its weights are mapped.
What is noted beside it is whatever its maker needs to call it. Files are as large as weights, so there is a
limit for all together, and the half that was not used for longest goes.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import options
from ..errors import TensorLangError
from ..runtime import files
from ..runtime.engine import Engine
from ..runtime.engine_file import pack
from ..runtime.engine_parts import contents_of
from ..target import as_target
from .kernel_cache import Cache, digest, environment

MOST_BYTES = 4 << 30  # of all engines
LARGEST = 1 << 30  # bytes of weights of one
MARK, VERSION = b"tensorlang notes ", 1
_APART = ("TENSORLANG_CACHE", "XDG_CACHE_HOME")  # where things are kept decides nothing
_writing: list[threading.Thread] = []


def name_of(text: str) -> str:
    """A name for an engine for this machine that this text decides, with all that decides how the text is
    compiled."""
    # settings change what is compiled: each combination has engines of its own
    said = {k: v for k, v in options.settings().items() if k not in _APART}
    return digest(f"{environment(as_target(None))} {said} {text}")


class _Remembered:
    """What is still known of where an engine came from, which is whole."""

    def __init__(self, reasons: str) -> None:
        self.reasons = reasons

    def explain(self) -> str:
        return self.reasons

    def later(self, value: Any, dims: Mapping[str, int]) -> Engine:
        raise AssertionError("nothing is left to compile")

    def otherwise(self, apart: Sequence[int], dims: Mapping[str, int]) -> Engine:
        raise AssertionError("nothing is left to compile")


class Engines:
    """Engines and notes in the directory of a cache of kernels."""

    def __init__(self, cache: Cache) -> None:
        self.directory = None if cache.directory is None else cache.directory.parent / "engines"

    def find(self, name: str) -> tuple[Engine, Any] | None:
        """An engine with the notes beside it, None when there is none to be trusted."""
        found = self.noted(name)
        if self.directory is None or found is None:
            return None
        try:
            # a file of this user's, as the directory is
            engine = Engine.load(self._path(name, "engine"), mine=True)
        except TensorLangError:
            return None
        reasons, notes = found
        engine.source = _Remembered(reasons)
        return engine, notes

    def keep(self, name: str, engine: Engine, notes: Any) -> None:
        """Keep an engine, if it is whole: one that compiles the rest at a call, or that calls Python, is not.
        What it holds now is kept; writing it goes on for a while."""
        program = engine.program
        size = sum(a.nbytes for a in engine.constants)
        if self.directory is None or program.rest or program.otherwise or size > LARGEST:
            return
        with contextlib.suppress(TensorLangError):
            data = self._sealed(name, [engine.explain(), notes])
            data[self._path(name, "engine")] = pack(contents_of(engine))
            # beside the first calls: writing a gigabyte of weights takes seconds
            _written(threading.Thread(target=self._write, args=(data,)))

    def noted(self, name: str) -> Any:
        """What was noted under a name; None for nothing, or nothing to be trusted."""
        if self.directory is None:
            return None
        path = self._path(name, "notes")

        def decode(data: bytes) -> Any:
            return json.loads(files.unsealed(path, data, MARK, VERSION, what="note", again="remove it"))

        return files.trusted(path, decode)

    def note(self, name: str, notes: Any) -> None:
        """Keep notes alone."""
        if self.directory is not None:
            self._write(self._sealed(name, notes))

    def _path(self, name: str, kind: str) -> Path:
        assert self.directory is not None
        return self.directory / f"{name}.{kind}"

    def _sealed(self, name: str, notes: Any) -> dict[str | Path, bytes]:
        return {self._path(name, "notes"): files.sealed(MARK, VERSION, json.dumps(notes).encode())}

    def _write(self, data: Mapping[str | Path, bytes]) -> None:
        """A directory that cannot be written keeps nothing, which the cache of kernels has said."""
        assert self.directory is not None
        with contextlib.suppress(OSError, TensorLangError):
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            files.write(data, "keep an engine")
            self._make_room()

    def _make_room(self) -> None:
        assert self.directory is not None
        found = []
        for notes in self.directory.glob("*.notes"):
            with contextlib.suppress(OSError):
                both = [p for p in (notes, notes.with_suffix(".engine")) if p.exists()]
                found.append((notes.stat().st_mtime, sum(p.stat().st_size for p in both), both))
        if sum(size for _, size, _ in found) > MOST_BYTES:
            for _, _, both in sorted(found)[: (len(found) + 1) // 2]:
                for p in both:
                    with contextlib.suppress(OSError):
                        p.unlink()


def _written(thread: threading.Thread) -> None:
    _writing[:] = [t for t in _writing if t.is_alive()]
    _writing.append(thread)
    thread.start()


def finish() -> None:
    """Wait until what is kept is written."""
    for thread in list(_writing):
        thread.join()
