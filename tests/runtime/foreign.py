"""Arrays of another library, as far as a kernel sees one: numpy arrays behind ``__dlpack__``, made by hand so
that each export is counted."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from tensorlang.runtime.dlpack import _DLTensor, _Versioned

_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_GetName", ctypes.pythonapi))
_at = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_NEW, _OLD = b"dltensor_versioned", b"dltensor"
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class _Unversioned(ctypes.Structure):
    _fields_ = (("tensor", _DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Foreign:
    """``array`` as another library would hold it. ``bfloat``: it is bfloat16. ``versioned``: whether it
    speaks DLPack 1. ``exported`` and ``freed`` count exports and calls of their deleters. ``kept``, a list,
    gets the capsules: a destructor in Python cannot run while numpy raises an error."""

    live: dict[int, Any] = {}  # memory of exports, by the address of their structure

    def __init__(
        self, array: Any, *, bfloat: bool = False, versioned: bool = True, kept: list[Any] | None = None
    ) -> None:
        self.array, self.bfloat, self.versioned, self.kept = array, bfloat, versioned, kept
        self.exported = self.freed = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, *, stream: Any = None, **kw: Any) -> Any:
        if kw and not self.versioned:
            raise TypeError("an exporter from before versions")
        a = self.array
        if any(s % a.itemsize for s in a.strides):
            raise BufferError("strides are not whole elements")
        managed: Any = (
            _Versioned(1, 0, None, 0, 0 if a.flags.writeable else 1) if self.versioned else _Unversioned()
        )
        t = managed.tensor
        t.data, t.device_type, t.device_id, t.ndim = a.__array_interface__["data"][0], 1, 0, a.ndim
        t.code, t.bits, t.lanes = (4 if self.bfloat else _CODES[a.dtype.kind]), 8 * a.itemsize, 1
        shape, strides = (
            (ctypes.c_int64 * a.ndim)(*a.shape),
            (ctypes.c_int64 * a.ndim)(*[s // a.itemsize for s in a.strides]),
        )
        t.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        t.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))

        def delete(at: int) -> None:
            self.freed += 1
            del Foreign.live[at]

        deleter = _DELETER(delete)
        managed.deleter = ctypes.cast(deleter, ctypes.c_void_p).value
        at = ctypes.addressof(managed)
        Foreign.live[at] = (managed, a, shape, strides, deleter, self)
        self.exported += 1
        capsule = _new(at, _NEW if self.versioned else _OLD, ctypes.cast(_destroy, ctypes.c_void_p))
        if self.kept is not None:
            self.kept.append(capsule)
        return capsule


@_DESTRUCTOR
def _destroy(capsule: int) -> None:
    """Of a capsule nobody has taken over: frees what it holds."""
    name = _name(capsule)
    if name not in (_NEW, _OLD):
        return
    at = _at(capsule, name)
    managed = (_Versioned if name == _NEW else _Unversioned).from_address(at)
    ctypes.cast(managed.deleter, _DELETER)(at)


def bfloat16(x: Any) -> Any:
    """An array of bfloat16 as ml_dtypes has it."""
    return np.asarray(x, np.float32).astype(ml_dtypes.bfloat16)
