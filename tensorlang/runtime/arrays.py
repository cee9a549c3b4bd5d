"""Memory of numpy arrays: where one lies, whether its elements are apart, new ones, arrays of other
libraries. Knows no kernels.

Ways to an address, measured on the same machine: ``a.ctypes.data`` 1100 ns, ``__array_interface__`` 1480 ns,
``addressof(from_buffer)`` 316 ns (not for read-only or empty arrays), the public struct behind
``__array_struct__`` 500 ns.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..errors import CallError

ALLOCATION = 64  # outputs we allocate start on a cache line, so that full-width stores do not straddle two
# bytes below which a start between cache lines costs less than aligning it. Measured (Emerald Rapids, with
# stores of 64 bytes): sums of 12 KiB into new memory take 0.6 µs, aligned 1.5; of 250 KiB 7.0 and 7.8; of 500
# KiB 17.4 and 17.1; (Zen 5) 273 KiB 4.0 and 4.7, 585 13.6 and 15.2, 1015 25.2 and 27.9
_LARGE = 1 << 20
# bytes from which on the C library gives a block back to the system as soon as it is free (glibc's
# DEFAULT_MMAP_THRESHOLD_MAX). The next result of that size finds pages that the kernel has to look for and to
# clear first, which takes as long as to fill them: a join of 95 MB 14.2 ms instead of 5.1
LARGE = 32 << 20
KEPT = 512 << 20  # bytes of large results that are kept at most, in use or not

_blocks: list[Any] = []  # the one used last is the last
_lock = threading.Lock()
_counts = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
_FEW = 1000

_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_pointer_at = ctypes.c_void_p.from_address
# of ``data`` in numpy's public PyArrayInterface: five ints and two pointers
_DATA_OFFSET = 24 + 2 * ctypes.sizeof(ctypes.c_void_p)
_byte = ctypes.c_char.from_buffer
_addressof = ctypes.addressof


def address_of(array: Any) -> int:
    """The address of the first element; also for read-only and empty arrays."""
    try:
        return _addressof(_byte(array))
    except (TypeError, ValueError, BufferError):
        capsule = array.__array_struct__
        return _pointer_at(_capsule_pointer(capsule, None) + _DATA_OFFSET).value or 0


def span(a: Any, start: int) -> tuple[int, int]:
    """The bytes an array lies in, whose first element is at ``start``: from the first to past the last, which
    are equal for an empty one."""
    if not a.size:
        return start, start
    reach = [(n - 1) * stride for n, stride in zip(a.shape, a.strides, strict=True)]
    return start + sum(r for r in reach if r < 0), start + sum(r for r in reach if r > 0) + a.itemsize


def meet(a: Any, b: Any) -> bool:
    """Whether two arrays share a byte; also when that is too hard to tell, which it never is of compact
    ones."""
    try:
        return bool(np.shares_memory(a, b, max_work=10_000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def distinct(a: Any) -> bool:
    """Whether all elements of an array are surely apart: each stride steps over all that the smaller ones
    reach, or, of a few elements, no two have one address."""
    if not a.size:
        return True
    axes = sorted((abs(s), n) for n, s in zip(a.shape, a.strides, strict=True) if n > 1)
    reach = a.itemsize
    for stride, n in axes:
        if stride < reach:
            break
        reach += stride * (n - 1)
    else:
        return True
    if axes[0][0] == 0 or a.size > _FEW:
        return False
    at = np.zeros(1, np.int64)
    for stride, n in axes:
        at = np.add.outer(at, np.arange(n) * stride).ravel()
    return len(np.unique(at)) == a.size


def _references(blocks: list[Any], at: int) -> int:
    raw = blocks[at]
    return sys.getrefcount(raw) if _counts else 0


# to a block that nobody else holds; a version of Python may count its own ones or not
_FREE = _references([np.empty(0, np.uint8)], 0)


def _block(nbytes: int) -> Any:
    """So many bytes, whose content is arbitrary: for a large result those of an earlier one to which nothing
    refers any more, no array, no view and no capsule over it."""
    if not _counts or not LARGE <= nbytes <= KEPT:
        return np.empty(nbytes, np.uint8)
    with _lock:
        for at in range(len(_blocks)):
            if _blocks[at].nbytes == nbytes and _references(_blocks, at) == _FREE:
                _blocks.append(_blocks.pop(at))
                return _blocks[-1]
        raw = np.empty(nbytes, np.uint8)
        _blocks.append(raw)
        while sum(kept.nbytes for kept in _blocks) > KEPT:
            del _blocks[0]  # whoever holds it goes on
        return raw


def empty(shape: Sequence[int], kind: Any) -> Any:
    """A new array whose first element is on a cache line when it is of some size."""
    nbytes = math.prod(shape) * kind.itemsize
    if nbytes < _LARGE:
        return np.empty(shape, kind)
    raw = _block(nbytes + ALLOCATION)
    return np.ndarray(shape, kind, raw, -address_of(raw) % ALLOCATION)


def maker(shape: Sequence[int], kind: Any) -> Callable[[], Any]:
    """What makes such an array again and again, with nothing to decide each time."""
    small = math.prod(shape) * kind.itemsize < _LARGE
    return partial(np.empty if small else empty, shape, kind)


def in_kind_of(like: Any, array: Any, title: str) -> Any:
    """A numpy array as one of the library that ``like`` is of, over the same memory. Raises CallError, which
    begins with ``title``."""
    if isinstance(like, np.ndarray):
        return array
    library = sys.modules.get(type(like).__module__.split(".")[0])
    space = like.__array_namespace__() if hasattr(like, "__array_namespace__") else library
    read = getattr(space, "from_dlpack", None)
    if read is None:
        name = type(like).__qualname__
        raise CallError(
            f"{title} cannot be given as {name}",
            because=f"its library has no from_dlpack, and {name} says of none",
            try_="out_like= an array of a library that has one, or leave it out for numpy's",
        )
    try:
        return read(array)
    except Exception as error:  # the library's own: it may raise what it likes
        raise CallError(
            f"{title} cannot be given as {type(like).__qualname__}",
            because=f"{type(error).__name__}: {error}",
            try_="leave out_like out, and convert what comes back",
        ) from None
