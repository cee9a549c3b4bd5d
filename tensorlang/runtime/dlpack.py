"""Arrays of other libraries through DLPack (https://dmlc.github.io/dlpack, ``dlpack.h`` 0.2 to 1.x), without
a copy. Knows no kernels.

numpy reads what it has a dtype for. bfloat16, which ml_dtypes adds, it does not: that is read here, from the
C structures. Memory lives as long as the array: it holds the capsule, and the capsule's own destructor gives
the memory back, once, since nobody has taken it over. An export without a version cannot say that it is
read-only (as jax's arrays are), so it is taken for read-only, as numpy does.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..core.dtype import dtype
from ..errors import CallError

CPU = 1
_DEVICES = {
    1: "the CPU",
    2: "a CUDA device",
    3: "CUDA's pinned memory",
    4: "an OpenCL device",
    7: "a Vulkan device",
    8: "a Metal device",
    9: "a VPI device",
    10: "a ROCm device",
    11: "ROCm's pinned memory",
    13: "CUDA's managed memory",
    14: "a oneAPI device",
    15: "a WebGPU device",
    16: "a Hexagon device",
}
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_READ_ONLY = 1  # bit of ``flags``


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Memory:
    """What numpy asks for an address, and keeps alive by."""

    __slots__ = ("__array_interface__", "capsule")

    def __init__(self, capsule: Any, interface: dict[str, Any]) -> None:
        self.capsule = capsule
        self.__array_interface__ = interface


def exports(x: Any) -> bool:
    """Whether an object speaks DLPack."""
    return hasattr(type(x), "__dlpack__") and hasattr(type(x), "__dlpack_device__")


def array_of(x: Any, title: str, wanted: str) -> Any:
    """The array behind ``x``, over its memory; bfloat16 is taken where it is ``wanted``.

    Raises CallError, which begins with ``title``, for memory of another device and for what no kernel takes.
    """
    try:
        device = int(x.__dlpack_device__()[0])
        if device != CPU:
            raise CallError(
                f"{title} is not in the CPU's memory",
                because=f"DLPack says it is on {_DEVICES.get(device, f'device {device}')}",
                try_="copy it to the CPU first",
            )
        # torch's: the imaginary part of a conjugate is a view of what it is the negative of
        negated = getattr(x, "is_neg", None)
        if negated is not None and negated():
            raise CallError(
                f"{title} is the negative of what lies in its memory",
                because="a view says so, and DLPack does not hand that on",
                try_="x.resolve_neg()",
            )
        if not wanted.startswith("bfloat"):
            try:
                return np.from_dlpack(x)
            except (RuntimeError, BufferError):  # a dtype numpy has not; the second since numpy 2.5
                pass
        return _read(_capsule(x), title, wanted)
    except CallError:
        raise
    except Exception as error:  # the exporter's own: it may raise what it likes
        raise CallError(
            f"{title} cannot be read through DLPack", because=f"{type(error).__name__}: {error}"
        ) from None


def _capsule(x: Any) -> Any:
    try:
        return x.__dlpack__(max_version=(1, 0))
    except TypeError:  # an exporter from before versions
        return x.__dlpack__()


def _read(capsule: Any, title: str, wanted: str) -> Any:
    read_only = True
    if _is_capsule(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise CallError(
                f"{title} cannot be read through DLPack",
                because=f"it comes in version {managed.major}.{managed.minor}, not 1.x",
            )
        tensor, read_only = managed.tensor, bool(managed.flags & _READ_ONLY)
    elif _is_capsule(capsule, b"dltensor"):
        tensor = _DLTensor.from_address(_pointer(capsule, b"dltensor"))
    else:
        raise CallError(
            f"{title} cannot be read through DLPack", because="its __dlpack__ gives no capsule of a tensor"
        )
    code, bits, lanes = tensor.code, tensor.bits, tensor.lanes
    name = f"{_CODES.get(code, f'of DLPack code {code}, ')}{bits}{f'x{lanes}' if lanes != 1 else ''}"
    if wanted.startswith("bfloat") and (code, bits, lanes) == (4, 16, 1):
        shape = tuple(tensor.shape[: tensor.ndim])
        step, strides = 2, [0] * tensor.ndim
        for d in reversed(range(tensor.ndim)):
            strides[d] = 2 * tensor.strides[d] if tensor.strides else step
            step *= shape[d]
        at = ((tensor.data or 0) + tensor.byte_offset) if 0 not in shape else 0
        if not at:
            return np.empty(shape, dtype(wanted).to_numpy())
        held = np.asarray(
            _Memory(
                capsule,
                {
                    "version": 3,
                    "typestr": "<u2",
                    "shape": shape,
                    "strides": tuple(strides),
                    "data": (at, read_only),
                },
            )
        )
        return held.view(dtype(wanted).to_numpy())
    raise CallError(f"{title} has dtype {name}, declared {wanted}", try_=f"an array of {wanted}")
