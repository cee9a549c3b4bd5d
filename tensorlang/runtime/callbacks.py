"""Python functions called from kernels: a callback for each way of reading arguments. Knows signatures, no
code generators.

The callback reads pointers and extents from the kernel's slots, makes numpy arrays over that memory, and
calls the registered function. What the function raises is kept and raised again by the call of the kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.dtype import dtype
from ..interface.externs import packed
from ..interface.signature import Extern

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


class Callbacks:
    """The callbacks of one kernel, kept alive as long as it may call them, and what they raised.

    A kernel with callbacks runs without the interpreter's lock: threads of a parallel loop ask for it while
    the caller waits for them. Raises TensorLangError for a function that is not registered.
    """

    __slots__ = ("_errors", "_made")

    def __init__(self, externs: Sequence[Extern]) -> None:
        for e in externs:
            packed(e.name)
        self._errors: list[BaseException] = []
        self._made = {e.symbol: callback(e, self._errors) for e in externs}

    def addresses(self) -> dict[str, int]:
        """The address of each callback by symbol."""
        return {symbol: ctypes.cast(f, ctypes.c_void_p).value or 0 for symbol, f in self._made.items()}

    def raised(self) -> BaseException | None:
        """The first error since the last question."""
        result = self._errors[0] if self._errors else None
        self._errors.clear()
        return result


def callback(e: Extern, errors: list[BaseException]) -> Any:
    """The callback for calls of ``e``; what it raises is put into ``errors``."""
    words = sum(1 + rank * (2 if kind == "view" else 1) for kind, _, rank in e.args)

    def run(address: int) -> int:
        try:
            ints = (ctypes.c_int64 * words).from_address(address)
            floats = (ctypes.c_double * words).from_address(address)
            args: list[Any] = []
            at = 0
            for kind, name, rank in e.args:
                if kind == "buffer":
                    args.append(_array(ints[at], name, tuple(ints[at + 1 : at + 1 + rank])))
                    at += rank
                elif kind == "view":
                    args.append(
                        _view(
                            ints[at],
                            name,
                            tuple(ints[at + 1 : at + 1 + rank]),
                            tuple(ints[at + 1 + rank : at + 1 + 2 * rank]),
                        )
                    )
                    at += 2 * rank
                else:
                    args.append(floats[at] if kind == "float" else int(ints[at]))
                at += 1
            packed(e.name)(*args)
        except BaseException as error:
            errors.append(error)
            return 1
        return 0

    return _CALLBACK(run)


def _array(pointer: int, name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    kind = dtype(name).to_numpy()
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if size == 0:
        return np.zeros(shape, kind)
    memory: Any = (ctypes.c_char * size).from_address(pointer)
    return np.ndarray(shape, kind, memory)


def _view(pointer: int, name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low, size = (
        sum(r for r in reach if r < 0),
        dtype(name).bytes,
    )  # the first element lies above those that negative strides lead to
    whole = _array(pointer + low * size, name, (1 + sum(map(abs, reach)),))
    return np.lib.stride_tricks.as_strided(whole[-low:], shape, tuple(s * size for s in strides))
