"""``testing``: TVM's comparison of arrays, as its tutorials end. Knows numpy only."""

from __future__ import annotations

from typing import Any

import numpy as np

from .entries import close
from .errors import TensorLangError

__all__ = ["assert_allclose"]


class MismatchError(TensorLangError, AssertionError):
    """Arrays that should agree do not."""


def assert_allclose(
    actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """Raises an AssertionError unless the arrays have one shape and agree within the tolerances, and
    TensorLangError for what are no arrays of numbers."""
    actual, desired = np.asanyarray(actual), np.asanyarray(desired)
    if np.shape(actual) != np.shape(desired):
        raise MismatchError(f"assert_allclose: the shapes are {actual.shape} and {desired.shape}")
    try:
        np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=verbose)
    except AssertionError as e:
        raise MismatchError("assert_allclose: the arrays differ", because=str(e).strip()) from None


close(__name__, "tl.testing", TensorLangError)
