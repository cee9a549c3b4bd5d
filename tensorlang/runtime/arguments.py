"""Arguments of a call: a fast check that says yes or no, and a slow one that finds the mistake and words it.

Knows signatures and numpy arrays, nothing of machine code. ``Binder.bind`` takes the values of a call and
returns them in the form of the machine-code entry; when the fast check says no, ``mistakes.explain`` goes
over everything again, one fact at a time, and either raises the CallError or returns what the fast check was
too strict for.

Ways to the address of an array, measured on the same machine: ``a.ctypes.data`` 1100 ns,
``__array_interface__`` 1480 ns, ``addressof(from_buffer)`` 316 ns (not for read-only or empty arrays), the
public struct behind ``__array_struct__`` 500 ns.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.dtype import DType, dtype
from ..core.signature import Param, Signature, Size, evaluate, names_in, solved
from ..errors import TensorLangError
from .mistakes import distinct, explain

C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
ALLOCATION = 64  # outputs we allocate start on a cache line, so that full-width stores do not straddle two
_LARGE = 4096  # below this an unaligned start costs less than aligning it

_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_pointer_at = ctypes.c_void_p.from_address
_DATA_OFFSET = 24 + 2 * ctypes.sizeof(
    ctypes.c_void_p
)  # of ``data`` in numpy's public PyArrayInterface: five ints and two pointers
_byte = ctypes.c_char.from_buffer
_addressof = ctypes.addressof
_new = tuple.__new__


def address_of(array: Any) -> int:
    """The address of the first element; also for read-only and empty arrays."""
    try:
        return _addressof(_byte(array))
    except (TypeError, ValueError, BufferError):
        capsule = array.__array_struct__
        return _pointer_at(_capsule_pointer(capsule, None) + _DATA_OFFSET).value or 0


class Bound(NamedTuple):
    """Values of a call as the entry wants them. ``keep`` holds the arrays alive; ``outputs`` are those made
    for this call."""

    buffers: bytes
    scalars: bytes
    keep: Sequence[Any]
    outputs: tuple[Any, ...] = ()


class Slot:
    """What the fast check needs to know of one parameter."""

    __slots__ = (
        "axes",
        "constant",
        "dtype",
        "flags",
        "index",
        "ndim",
        "output",
        "param",
        "shape",
        "strides",
        "written",
    )

    def __init__(self, index: int, param: Param) -> None:
        self.index = index
        self.param = param
        self.output = param.output
        self.written = param.written
        kind = dtype(param.dtype)
        self.dtype = kind.to_numpy()
        # A vector type is held as one more axis of its lanes.
        self.shape: tuple[Size, ...] = param.shape + ((kind.lanes,) if kind.lanes > 1 else ())
        self.ndim = len(self.shape)
        self.strides = None if param.strides is None else param.strides + ((1,) if kind.lanes > 1 else ())
        self.flags = (
            ALIGNED | (C_CONTIGUOUS if self.strides is None else 0) | (WRITEABLE if param.written else 0)
        )
        self.constant = tuple(self.shape) if all(isinstance(x, int) for x in self.shape) else None
        self.axes = tuple(enumerate(self.shape))


class Binder:
    """The checks of one signature, prepared once."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        params = signature.params
        self.count = len(params)
        self.slots = tuple(Slot(i, p) for i, p in enumerate(params) if p.kind == "buffer")
        # for the fast check: unpacking a tuple costs less than reading as many attributes
        self.rows = tuple(
            (s.index, s.output, s.dtype, s.flags, s.constant, s.ndim, s.axes, s.strides) for s in self.slots
        )
        self.outputs = tuple((k, s) for k, s in enumerate(self.slots) if s.output)
        self.written = tuple((k, s) for k, s in enumerate(self.slots) if s.written)
        self.scalars: tuple[tuple[int, str, str, type, tuple[int, int] | None], ...] = tuple(
            (i, p.dtype, *_scalar_plan(dtype(p.dtype))) for i, p in enumerate(params) if p.kind == "scalar"
        )
        self.given = tuple(
            i for i, p in enumerate(params) if not p.output
        )  # parameters of a call that leaves outputs out
        self.dims = signature.dims
        self._pack_buffers = struct.Struct(f"={len(self.slots)}q").pack
        self._pack_scalars = struct.Struct(
            "=" + "q" * len(self.dims) + "".join(code for _, _, code, _, _ in self.scalars)
        ).pack
        named = {p.name for p in params if p.kind == "scalar" and not dtype(p.dtype).is_float}
        self.derived = (*self._derive(False, named), *self._derive(True, named))
        bare = {
            size for s in self.slots for size in (*s.shape, *(s.strides or ())) if isinstance(size, str)
        } | named
        bare |= {name for *_, name in self.derived}
        for dim in self.dims:
            if dim.name not in bare:
                raise TensorLangError(
                    f"kernel {signature.name}: dim {dim.name} cannot be solved from the arguments",
                    because=f"no argument has an axis of size {dim.name}",
                    try_=f"add an argument with such an axis, or a scalar argument named {dim.name}",
                )
        known = {d.name for d in self.dims} | named
        for s in self.slots:
            for size in (*s.shape, *(s.strides or ())):
                for name in names_in(size):
                    if name not in known:
                        raise TensorLangError(
                            f"kernel {signature.name}: {s.param.name} has the unknown dim {name}"
                        )
        # Dims and sizes given by a scalar parameter of their name are left to the slow check.
        used = {
            name for s in self.slots for size in (*s.shape, *(s.strides or ())) for name in names_in(size)
        } | {d.name for d in self.dims}
        self.named = {p.name for p in params if p.name in named & used}
        self.simple = not self.named
        self.compact = all(s.strides is None for s in self.slots)
        sizes = {name for s in self.slots for size in s.shape for name in names_in(size)} | named
        self.lying = {d.name for d in self.dims} - sizes  # dims that only strides tell

    def _derive(self, outputs: bool, named: set[str]) -> tuple[tuple[int, int, Size, str], ...]:
        """(slot, axis, size, dim) for each dim that only a computed size tells, in an order in which it does;
        of a call that leaves its outputs out, or of one that passes them."""
        slots = [(k, s) for k, s in enumerate(self.slots) if outputs or not s.output]
        known = dict.fromkeys(
            {size for _, s in slots for size in s.shape if isinstance(size, str)} | named, 2
        )  # any number will do here
        found: list[tuple[int, int, Size, str]] = []
        more = True
        while more:
            more = False
            for k, s in slots:
                for axis, size in s.axes:
                    told = _alone(size, known) if isinstance(size, tuple) else None
                    if told is not None:
                        found.append((k, axis, size, told))
                        known[told] = 2
                        more = True
        return tuple(found)

    def bind(self, args: Sequence[Any]) -> Bound:
        """The arguments in machine form. Raises CallError; touches no array."""
        make = len(args) != self.count and len(args) == len(self.given)
        if make:  # outputs are left out
            given, args = args, [None] * self.count
            for index, value in zip(self.given, given, strict=True):
                args[index] = value
        bound = self._quick(args, make) if self.simple and len(args) == self.count else None
        if bound is None:
            arrays, dims, numbers = explain(self, args, allocate=empty if make else None)
            bound = self._pack([address_of(a) for a in arrays], dims, numbers, arrays, make)
        return bound

    def _pack(
        self,
        pointers: Sequence[int],
        dims: Sequence[int],
        numbers: Sequence[Any],
        keep: Sequence[Any],
        make: bool,
    ) -> Bound:
        """Machine form of checked values."""
        made = tuple([keep[k] for k, slot in enumerate(self.slots) if slot.output]) if make else ()
        return _new(Bound, (self._pack_buffers(*pointers), self._pack_scalars(*dims, *numbers), keep, made))

    def _quick(self, args: Sequence[Any], make: bool) -> Bound | None:
        """The machine form of plainly right arguments, else None. With ``make``, outputs are None and made
        here."""
        dims: dict[str, int] = {}
        later = False
        pointers: list[int] = []
        keep: list[Any] = []
        for index, output, kind, flags, constant, ndim, axes, strides in self.rows:
            if make and output:
                pointers.append(0)
                keep.append(None)
                continue
            a = args[index]
            if type(a) is not np.ndarray or a.dtype is not kind or a.flags.num & flags != flags:
                return None
            shape = a.shape
            if shape != constant:
                if constant is not None or len(shape) != ndim:
                    return None
                for axis, size in axes:
                    if size.__class__ is str:
                        if dims.setdefault(size, shape[axis]) != shape[axis]:
                            return None
                    elif size.__class__ is int:
                        if size != shape[axis]:
                            return None
                    else:
                        later = True
            if strides is not None:
                for declared, stride in zip(strides, a.strides, strict=True):
                    elements, rest = divmod(stride, a.itemsize)
                    if rest or (declared.__class__ is int and declared != elements):
                        return None
                    if declared.__class__ is str and dims.setdefault(declared, elements) != elements:
                        return None
                    later = later or declared.__class__ is tuple
            pointers.append(address_of(a))
            keep.append(a)
        for k, axis, size, name in self.derived:
            if name not in dims and keep[k] is not None:
                told = (
                    solved(size, keep[k].shape[axis], dims)
                    if all(n in dims or n == name for n in names_in(size))
                    else None
                )
                if told is None:
                    return None
                dims[name] = told[1]
        if len(dims) != len(self.dims):
            return None
        if later and not all(
            evaluate(size, dims) == n
            for a, slot in zip(keep, self.slots, strict=True)
            if a is not None and slot.constant is None
            for size, n in zip(slot.shape, a.shape, strict=True)
        ):
            return None
        if later and not all(
            evaluate(size, dims) * a.itemsize == n
            for a, slot in zip(keep, self.slots, strict=True)
            if a is not None and slot.strides is not None
            for size, n in zip(slot.strides, a.strides, strict=True)
        ):
            return None
        values = []
        for dim in self.dims:
            n = dims[dim.name]
            if (
                (dim.lo is not None and n < dim.lo)
                or (dim.hi is not None and n > dim.hi)
                or n % dim.multiple_of
            ):
                return None
            values.append(n)
        numbers = []
        for index, _, _, python, limits in self.scalars:
            value: Any = args[index]
            if type(value) is not python:
                return None
            if limits is not None and not limits[0] <= value <= limits[1]:  # type: ignore[operator]
                return None
            numbers.append(value)
        spans = None if make or self.compact else [span(a) for a in keep]
        for k, slot in self.written:
            if make:
                if slot.strides is not None or slot.param.updated:
                    return None
                shape = slot.constant or tuple([evaluate(size, dims) for size in slot.shape])
                if shape and min(shape) < 0:
                    return None
                try:
                    a = keep[k] = empty(shape, slot.dtype)
                except (MemoryError, ValueError):
                    return None
                pointers[k] = address_of(a)
                continue
            if spans is not None:
                low, high = spans[k]
                if any(j != k and low < up and down < high for j, (down, up) in enumerate(spans)):
                    return None
                if slot.strides is not None and not distinct(keep[k]):
                    return None
                continue
            start = pointers[k]
            end = start + keep[k].nbytes
            for j, at in enumerate(pointers):
                if at < end and j != k and start < at + keep[j].nbytes:
                    return None
        return self._pack(pointers, values, numbers, keep, make)


def _alone(size: Size, known: Mapping[str, int]) -> str | None:
    """The one dim of a size that is not known, when the value of the size tells it."""
    unknown = [n for n in dict.fromkeys(names_in(size)) if n not in known]
    if len(unknown) != 1:
        return None
    told = solved(size, evaluate(size, {**known, unknown[0]: 2}), known)
    return None if told is None else told[0]


def span(a: Any) -> tuple[int, int]:
    """The bytes an array lies in: from the first to past the last, which are equal for an empty one."""
    low = high = address_of(a)
    if not a.size:
        return low, low
    for n, stride in zip(a.shape, a.strides, strict=True):
        if stride < 0:
            low += (n - 1) * stride
        else:
            high += (n - 1) * stride
    return low, high + a.itemsize


def _scalar_plan(kind: DType) -> tuple[str, type, tuple[int, int] | None]:
    """Struct code of the slot, the Python type the fast check takes, and its range."""
    if kind.is_float:
        return "d", float, None
    if kind.is_bool:
        return "q", bool, (0, 1)
    return ("Q" if kind.name == "uint64" else "q"), int, kind.limits()


def empty(shape: Sequence[int], kind: Any) -> Any:
    """A new array whose first element is on a cache line when it is of some size."""
    nbytes = math.prod(shape) * kind.itemsize
    if nbytes < _LARGE:
        return np.empty(shape, kind)
    raw = np.empty(nbytes + ALLOCATION, np.uint8)
    start = -address_of(raw) % ALLOCATION
    return raw[start : start + nbytes].view(kind).reshape(shape)
