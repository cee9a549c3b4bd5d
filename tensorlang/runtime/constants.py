"""Memory that kernels come with: aligned copies of constant data, one for all kernels that read the same.
Knows no signatures.

The key of a copy says what was computed from which bytes, so kernels built from equal weights with equal
packing share it; it is freed with the last kernel that reads it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

ALIGNMENT = 64

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
    made = [aligned(shape, kind) for shape, kind in forms]
    fill(*made)
    with _lock:
        for array in made:
            array.flags.writeable = False
        return [_shared.setdefault(f"{key}.{i}", array) for i, array in enumerate(made)]
