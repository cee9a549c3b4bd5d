"""``testing``: TVM's comparison of arrays, as its tutorials end. Knows numpy only."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .boundary import signpost

__all__ = ["assert_allclose"]


def assert_allclose(
    actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """Raises AssertionError unless the arrays have one shape and agree within the tolerances."""
    actual, desired = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_allclose(actual.shape, desired.shape)
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=verbose)


signpost(sys.modules[__name__], "tl.testing", {})  # whose AssertionErrors are meant
