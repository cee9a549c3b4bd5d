"""Memory that kernels come with: aligned copies of constant data, one for all kernels that read the same.
Knows no signatures.

The key of a copy says what was computed from which bytes, so kernels built from equal weights with equal
packing share it; it is freed with the last kernel that reads it. Of large sources the key has a sample, and
copies are compared.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

# a cache line, and the widest vector
ALIGNMENT = 64
SMALL = 1 << 14  # bytes of sources that are hashed as a whole
SAMPLE = 1024  # elements of others
MOST_ALIKE = 8  # copies of different contents of which the samples are the same

_shared: WeakValueDictionary[str, np.ndarray] = WeakValueDictionary()
_lock = threading.Lock()


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An uninitialised compact array that starts on a cache line."""
    kind = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    raw = np.empty(count + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + count].view(kind).reshape(shape)


def digest(*parts: str | np.ndarray) -> str:
    """One text for the contents of all parts."""
    whole = hashlib.blake2b(digest_size=20)
    for part in parts:
        data = (
            part.encode()
            if isinstance(part, str)
            else np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
            if part.size
            else b""
        )
        shape = "" if isinstance(part, str) else f"{part.dtype}{part.shape}"
        whole.update(f"{len(data)} {shape}\n".encode())
        whole.update(data)
    return whole.hexdigest()


def shared(
    key: str, forms: Sequence[tuple[tuple[int, ...], Any]], fill: Callable[..., Any]
) -> list[np.ndarray]:
    """The copies made under that key, of those shapes and dtypes; when they are not there yet,
    ``fill(*arrays)`` writes them. Nobody may write them afterwards."""
    with _lock:
        result = [_shared.get(f"{key}.{i}") for i in range(len(forms))]
    if all(a is not None for a in result):
        return result  # type: ignore[return-value]
    return _kept(key, _filled(forms, fill))


def shared_of(
    key: str,
    sources: Sequence[np.ndarray],
    forms: Sequence[tuple[tuple[int, ...], Any]],
    fill: Callable[..., Any],
) -> list[np.ndarray]:
    """The same of what ``fill`` makes of these sources, where ``key`` says how. Large ones are not hashed,
    which takes as long as to pack them: what is made of them is compared with what was made of others that
    look like them."""
    if sum(a.nbytes for a in sources) <= SMALL:
        return shared(digest(key, *sources), forms, fill)
    made = _filled(forms, fill)
    start = digest(f"{key} {[a.shape for a in sources]}", *map(_sample, sources))
    for alike in range(MOST_ALIKE):
        found = _kept(f"{start} {alike}", made)
        if all(map(_same, found, made)):
            return found
    return made


def _sample(a: np.ndarray) -> np.ndarray:
    return np.asarray(a.flat[:: max(1, a.size // SAMPLE)])


def _filled(forms: Sequence[tuple[tuple[int, ...], Any]], fill: Callable[..., Any]) -> list[np.ndarray]:
    made = [aligned(shape, kind) for shape, kind in forms]
    fill(*made)
    for array in made:
        array.flags.writeable = False
    return made


def _kept(key: str, made: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What is there under that key: these, unless others were before."""
    with _lock:
        return [_shared.setdefault(f"{key}.{i}", array) for i, array in enumerate(made)]


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two compact arrays of one form have the same bytes."""
    word = np.uint64 if a.nbytes % 8 == 0 else np.uint8
    return a is b or np.array_equal(a.reshape(-1).view(word), b.reshape(-1).view(word))
