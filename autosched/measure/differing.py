"""Which elements of an answer are wrong: further from the right ones than rounding explains. Knows arrays
only.

An answer may be tens of millions of elements. Every temporary of such a size is mapped, faulted in page by
page and given back, which took seconds for an answer that a kernel writes in milliseconds; so blocks are
compared that stay in the cache, and only where something seems off is it asked whether infinities or NaN
agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCK = 1 << 15  # elements: three arrays of them stay in a second cache
BOUND = 64.0  # ulp of the largest element, which sums of products in another order stay within


def largest(right: Any) -> float:
    """The largest finite magnitude of an array, and 1 at least."""
    found = 1.0
    for block in _blocks(right):
        with np.errstate(invalid="ignore"):
            size = float(np.max(np.abs(block), initial=0.0))
        if not np.isfinite(size):
            size = float(np.max(np.abs(block), initial=0.0, where=np.isfinite(block)))
        found = max(found, size)
    return found


def ulp(dtype: Any) -> float:
    """What the last bit of a float of about 1 is."""
    return 2.0**-7 if dtype.name == "bfloat16" else float(np.finfo(dtype).eps)


def differing(got: Any, right: Any, size: float, slack: Any = 0.0) -> Any:
    """Where elements differ, as an array of booleans: integers by more than ``slack``, floats by more than
    ``BOUND`` ulp of ``size`` and ``slack``, which is one for all or each element's own. NaN is right where
    NaN is."""
    if got.dtype.kind in "biu":
        bad: Any = got != right
        return bad & (np.abs(got.astype(np.float64) - right.astype(np.float64)) > slack) if bad.any() else bad
    bound = BOUND * ulp(got.dtype) * size + np.asarray(slack).reshape(-1)
    bad = np.zeros(got.shape, bool)
    flat = bad.reshape(-1)  # a view: what is made here is contiguous
    for n, (a, b) in enumerate(zip(_blocks(got), _blocks(right), strict=True)):
        near = bound if bound.size == 1 else bound[n * BLOCK : n * BLOCK + len(a)]
        with np.errstate(invalid="ignore", over="ignore"):
            far = ~(np.abs(a - b) <= near)
        if far.any():
            far &= ~((a == b) | (np.isnan(a) & np.isnan(b)))
            flat[n * BLOCK : n * BLOCK + len(far)] = far
    return bad


def _blocks(array: Any) -> Any:
    """The elements of an array in order, some at a time. Narrow floats are widened, for the bound may be
    beyond what they hold."""
    flat = array.reshape(-1)
    for at in range(0, flat.size, BLOCK):
        block = flat[at : at + BLOCK]
        yield block if block.dtype.itemsize >= 4 else block.astype(np.float32)
