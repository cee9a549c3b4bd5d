"""The helpers that a process loads, on the disk for the next one. Knows their object code by name; the name
says all that decides it, so what is found is right or never asked for."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from ..native import object_code
from . import files

MARK = b"tensorlang helpers "
VERSION = 1
_seen: dict[Path, set[str]] = {}  # names in files


@contextlib.contextmanager
def remembered(path: Path, write: Callable[[Path, bytes], None]) -> Iterator[None]:
    """A context in which helpers are loaded: as they are in the file, and where it lacks some it is written
    anew."""
    if path not in _seen:
        found = files.trusted(path, functools.partial(_decoded, path)) or {}
        object_code.adopt(found)
        _seen[path] = set(found)
    yield
    kept = object_code.kept()
    if not _seen[path].issuperset(kept):
        _seen[path].update(kept)
        write(path, _written(kept))


def _written(codes: dict[str, bytes]) -> bytes:
    table = json.dumps([[name, len(code)] for name, code in codes.items()]).encode()
    return files.sealed(MARK, VERSION, b"\n".join([table, *codes.values()]))


def _decoded(path: Path, data: bytes) -> dict[str, bytes]:
    """Raises TensorLangError and ValueError for what is none."""
    body = files.unsealed(path, data, MARK, VERSION, what="file of helpers", again="remove it")
    table, _, code = body.partition(b"\n")
    found, at = {}, 0
    for name, length in json.loads(table):
        found[name], at = code[at : at + length], at + length + 1
    return found
