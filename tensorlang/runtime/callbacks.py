"""Python functions called from kernels: a callback for each way of reading arguments. Knows signatures, no code generators.

The callback reads pointers and extents from the kernel's slots, makes numpy arrays over that memory, and calls the registered function.
What the function raises is kept for the thread and raised again by the call of the kernel.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.dtype import dtype
from ..core.externs import packed
from ..core.signature import Extern

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_raised = threading.local()


def raised() -> BaseException | None:
    """What a Python function raised in the last kernel of this thread, once."""
    found = getattr(_raised, "error", None)
    _raised.error = None
    return found


def callback(e: Extern) -> Any:
    """The callback for calls of ``e``; it must be kept alive as long as a kernel may call it."""
    words = sum(1 + rank for _, _, rank in e.args)

    def run(address: int) -> int:
        try:
            ints = (ctypes.c_int64 * words).from_address(address)
            floats = (ctypes.c_double * words).from_address(address)
            args: list[Any] = []
            at = 0
            for kind, name, rank in e.args:
                if kind == "buffer":
                    args.append(_array(ints[at], name, tuple(ints[at + 1:at + 1 + rank])))
                    at += rank
                else:
                    args.append(floats[at] if kind == "float" else int(ints[at]))
                at += 1
            packed(e.name)(*args)
        except BaseException as error:
            _raised.error = error
            return 1
        return 0

    return _CALLBACK(run)


def _array(pointer: int, name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    kind = dtype(name).to_numpy()
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if size == 0:
        return np.zeros(shape, kind)
    return np.ndarray(shape, kind, (ctypes.c_char * size).from_address(pointer))


def callbacks(externs: Sequence[Extern]) -> dict[str, Any]:
    """A callback for each symbol a kernel needs. Raises TensorLangError for a function that is not registered."""
    for e in externs:
        packed(e.name)
    return {e.symbol: callback(e) for e in externs}


def addresses(made: dict[str, Any]) -> dict[str, int]:
    """The addresses of callbacks."""
    return {symbol: ctypes.cast(f, ctypes.c_void_p).value or 0 for symbol, f in made.items()}
