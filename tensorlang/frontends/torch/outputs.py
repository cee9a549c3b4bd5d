"""Memory of results, written again once nobody holds them. Knows arrays; no graphs and no tensors.

A large array comes from the system page by page, and the first write to each page costs microseconds: a fifth
of a training step of convolutions. What a call returns is therefore remembered here, and a later call writes
there when everybody has let go of it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence

import numpy as np

LEAST = 1 << 17  # bytes: the C library has smaller ones at hand
MOST = 1 << 28  # bytes of all that is kept in this process; beyond it all is let go
IN_FLIGHT = 4  # arrays for one result
_ALL: weakref.WeakSet[Outputs] = weakref.WeakSet()
Form = tuple[tuple[int, ...], np.dtype]


class Outputs:
    """Arrays of these shapes and types, for the results of one engine."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self.forms = tuple(forms)
        self.kept: list[list[np.ndarray]] = [[] for _ in self.forms]
        _ALL.add(self)

    def arrays(self) -> list[np.ndarray]:
        """An array for each result, which nobody else has."""
        return [
            self._array(shape, kind, kept) for (shape, kind), kept in zip(self.forms, self.kept, strict=True)
        ]

    def _array(self, shape: tuple[int, ...], kind: np.dtype, kept: list[np.ndarray]) -> np.ndarray:
        for i in range(len(kept)):
            # another than ours holds it as long as somebody has the tensor or a view of it
            references, a = _at(kept, i)
            if references == _ALONE:
                return a
        a = np.empty(shape, kind)
        if a.nbytes >= LEAST and len(kept) < IN_FLIGHT:
            # all of it, not the oldest: which engine is called next is not known
            if a.nbytes + sum(o.nbytes for o in _ALL) > MOST:
                forget()
            kept.append(a)
        return a

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        return sum(a.nbytes for kept in self.kept for a in kept)


def worthwhile(forms: Sequence[Form]) -> bool:
    """Whether a result is large enough to be kept."""
    return any(int(np.prod(shape, dtype=np.int64)) * kind.itemsize >= LEAST for shape, kind in forms)


def forget() -> None:
    """Let go of all arrays."""
    for outputs in list(_ALL):
        for kept in outputs.kept:
            kept.clear()


def _at(kept: list[np.ndarray], i: int) -> tuple[int, np.ndarray]:
    """An array and how many references there are to it. It is taken out meanwhile: of threads that ask
    together, the second finds one reference more. It goes back to its place, since the one that was written
    last may still be in a cache."""
    try:
        a = kept.pop(i)
    except IndexError:  # another thread has the last one
        return 0, np.empty(0)
    references = sys.getrefcount(a)
    kept.insert(i, a)
    return references, a


_ALONE = _at([np.empty(0)], 0)[0]  # versions of Python count differently
