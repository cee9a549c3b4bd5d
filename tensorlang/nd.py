"""Arrays and devices in TVM's words: ``tl.nd.array(x, tl.cpu())`` is a numpy array that also has ``numpy()``
and ``copyto()``.

Kernels take numpy arrays as they are; nothing here is needed for that. There is one device, the CPU. Knows
numpy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import signposts
from .boundary import guard
from .core.dtype import DType
from .core.dtype import dtype as as_dtype
from .core.ndarray import Device, NDArray
from .entries import close
from .errors import TargetError, TensorLangError

__all__ = ["Device", "NDArray", "array", "cpu", "device", "empty"]


def cpu(dev_id: int = 0) -> Device:
    """The CPU as a device, TVM's word for where arrays lie and kernels run; there is no other. Raises
    TargetError for anything but a device number.

    >>> tl.cpu()
    cpu(0)
    """
    if isinstance(dev_id, bool) or not isinstance(dev_id, int) or dev_id < 0:
        raise TargetError(f"cpu({dev_id!r}): a device has a number, from 0", try_="tl.cpu(0)")
    return Device(1, dev_id)


def device(dev_type: Any = "llvm", dev_id: int = 0) -> Device:
    """The device of a target: ``tl.device("llvm", 0)``. Raises TargetError for one that is not the CPU.

    >>> tl.device("llvm")
    cpu(0)
    """
    kind = str(dev_type).split()[0] if str(dev_type).split() else ""
    if kind not in ("llvm", "cpu", "c"):
        raise TargetError(
            f"device({str(dev_type)!r}): no such device",
            because="kernels run on the CPU",
            try_='tl.device("llvm")',
        )
    return cpu(dev_id)


def array(arr: Any, device: Device | None = None) -> NDArray:
    """A copy of ``arr``, compact in C order; Python's floats become float32, as in TVM. Raises
    TensorLangError for what is not an array of numbers."""
    _check_device("array", device)
    try:
        made = np.array(
            arr,
            order="C",
            dtype=None if hasattr(arr, "dtype") or np.asarray(arr).dtype != np.float64 else np.float32,
        )
    except ValueError as e:
        raise TensorLangError(
            "nd.array: numpy makes no array of it", because=str(e), try_="rows of one length"
        ) from None
    if made.dtype.kind in "OSUMm":
        raise TensorLangError(
            f"array of {made.dtype}", because="kernels take numbers", legal="what numpy makes numbers of"
        )
    return made.view(NDArray)


def _check_device(word: str, device: Any) -> None:
    if device is not None and not isinstance(device, Device):
        raise TensorLangError(f"nd.{word}(…, {device!r}): that is not a device", try_="tl.cpu()")


def empty(
    shape: int | Sequence[int], dtype: str | DType = "float32", device: Device | None = None
) -> NDArray:
    """An array that holds anything. Raises TensorLangError for what is no shape or no device."""
    _check_device("empty", device)
    for n in shape if isinstance(shape, list | tuple) else (shape,):
        if not isinstance(n, int | np.integer) or n < 0:
            raise TensorLangError(f"nd.empty({shape!r}): {n!r} is not a size", try_="tl.nd.empty((3, 4))")
    return np.empty(shape, as_dtype(dtype).to_numpy()).view(NDArray)


guard(NDArray, ("asnumpy", "copyfrom", "copyto", "numpy"), "array", TensorLangError)
close(__name__, "tl.nd", TensorLangError, signposts.ND)
