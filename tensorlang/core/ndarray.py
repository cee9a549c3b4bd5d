"""An array and a device in TVM's words. On the ground floor because registered functions get such arrays.
Knows numpy only."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import TensorLangError


class Device(NamedTuple):
    """A place where arrays lie and kernels run: this CPU."""

    device_type: int = 1
    device_id: int = 0

    @property
    def exist(self) -> bool:
        """Whether there is such a device."""
        return True

    def sync(self) -> None:
        """Nothing to wait for: a call returns when its outputs are written."""

    def __repr__(self) -> str:
        return f"cpu({self.device_id})"


class NDArray(np.ndarray[Any, Any]):
    """A numpy array with the words of TVM's: ``numpy``, ``asnumpy``, ``copyfrom``, ``copyto``, ``device``.
    Results of arithmetic are of it too."""

    @property
    def device(self) -> Device:  # type: ignore[override]
        """Where it lies."""
        return Device()

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy as a plain numpy array."""
        return np.array(self)

    asnumpy = numpy

    def copyfrom(self, source: Any) -> NDArray:
        """Take the elements of an array of the same shape."""
        np.copyto(self, source)
        return self

    def copyto(self, target: Any) -> Any:
        """Write the elements into another array, or give a copy on a device. Raises TensorLangError for an
        array of another shape."""
        if isinstance(target, Device):
            return self.copy()
        try:
            np.copyto(target, self)
        except (TypeError, ValueError) as e:
            raise TensorLangError(
                f"copyto: the elements do not fit: {e}", try_="x.copyto(tl.nd.empty(x.shape, str(x.dtype)))"
            ) from None
        return target
