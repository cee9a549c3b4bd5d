"""The native entry: a function CPython calls directly, which reads the arrays itself. Knows CPython's and
numpy's object layout.

One machine-code function serves every kernel (``call_text``); a kernel adds a descriptor of a few hundred
bytes. Before the first use the offsets it relies on are compared with what this interpreter and this numpy
say of a few objects; where they differ, or where a signature is beyond the descriptor, calls take the
portable path.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.dtype import dtype
from ..core.signature import Dim
from . import call_text as words
from .arguments import Binder, address_of
from .loader import compile_text
from .returned import returning

if TYPE_CHECKING:
    from .module import Plan

# Calls that touch fewer bytes and run fewer statements keep the interpreter's lock: giving it up may cost
# more than they take.
RELEASE_BYTES, RELEASE_WORK = 32 << 10, 16 << 10
_I64 = (-(1 << 63), (1 << 63) - 1)

_lock = threading.Lock()
_new_builtin = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
_method: Any = None  # the PyMethodDef once made; False where native calls cannot work


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def native_entry(plan: Plan) -> Callable[..., Any] | None:
    """A builtin function that runs the plan's kernel, or None when it must be called the portable way."""
    own: list[
        weakref.ref[Callable[..., Any]]
    ] = []  # weak: a cycle would keep the code until the collector comes by
    parts = describe(plan, returning(lambda: own[0](), plan.binder, plan.portable))  # type: ignore[arg-type, return-value]
    if parts is None or not _ready():
        return None
    entry = _new_builtin(ctypes.addressof(_method), parts, None)
    own.append(weakref.ref(entry))
    return entry  # type: ignore[no-any-return]


def describe(plan: Plan, other: Callable[..., Any] | None = None) -> tuple[Any, ...] | None:
    """The ``self`` of a kernel's builtin: the descriptor, then all it points to. None for a signature beyond
    it. Calls that the builtin does not take go to ``other``, the portable path unless given."""
    binder = plan.binder
    signature = plan.signature
    slots = len(signature.dims) + len(binder.scalars)
    if (
        signature.checks
        or not binder.simple
        or len(binder.slots) > words.MAX_BUFFERS
        or slots > words.MAX_SLOTS
    ):
        return None
    dim_slot = {d.name: i for i, d in enumerate(signature.dims)}
    buffers = {s.index: s for s in binder.slots}
    scalar_slot = {s[0]: len(signature.dims) + k for k, s in enumerate(binder.scalars)}
    constant = sum(c for c, factors in signature.work if not factors)
    terms = [(c, factors) for c, factors in signature.work if factors]
    release = 0 if constant >= RELEASE_WORK and not terms else RELEASE_BYTES
    portable, fail = other or plan.portable, plan.fail
    keep: list[Any] = [portable, fail, plan]
    head = [
        plan.address,
        id(portable),
        id(fail),
        len(signature.params),
        len(signature.dims),
        release,
        id(np.ndarray),
        id(None),
        len(terms),
        _bits(RELEASE_WORK - constant),
    ]
    body: list[int] = []
    for index, param in enumerate(signature.params):
        slot = buffers.get(index)
        if slot is None:
            kind = dtype(param.dtype)
            if kind.is_float:
                body += [words.FLOAT, id(float), scalar_slot[index], 0, 0, 0, words.RECORD]
            else:
                lo, hi = kind.limits()
                python = bool if kind.is_bool else int
                body += [
                    words.INT,
                    id(python),
                    scalar_slot[index],
                    max(lo, _I64[0]),
                    min(hi, _I64[1]),
                    0,
                    words.RECORD,
                ]
            continue
        keep.append(slot.dtype)
        body += [
            words.OUTPUT if param.written else words.INPUT,
            id(slot.dtype),
            slot.ndim,
            slot.flags,
            slot.dtype.itemsize,
            int(slot.strides is not None),
            words.RECORD + 2 * (slot.ndim + len(slot.strides or ())),
        ]
        for size in (*slot.shape, *(slot.strides or ())):
            if isinstance(size, tuple):  # a computed size: the portable path evaluates it
                return None
            body += [words.DIM, dim_slot[size]] if isinstance(size, str) else [words.CONSTANT, size]
    for dim in signature.dims:
        body += [_lowest(dim, binder), _I64[1] if dim.hi is None else dim.hi, dim.multiple_of]
    for c, factors in terms:
        body += [_bits(c), len(factors), *factors]
    return struct.pack(f"={len(head) + len(body)}q", *head, *body), *keep


def _bits(x: float) -> int:
    """A double as a word."""
    return int(struct.unpack("=q", struct.pack("=d", x))[0])


def _lowest(dim: Dim, binder: Binder) -> int:
    """The smallest value to be taken: a stride may be negative, but must have been told."""
    if dim.name in binder.lying:
        return words.UNBOUND + 1 if dim.lo is None else dim.lo
    return max(0, dim.lo or 0)


def _ready() -> bool:
    global _method
    if _method is None:
        with _lock:
            if _method is None:
                _method = _start() if layout_holds() else False
    return _method is not False


def _start() -> Any:
    imports = {
        name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
        for name in words.IMPORTS
    }
    code = compile_text(words.text(), ["tensorlang_entry"], imports, opt=1).keep()
    method = _MethodDef(b"kernel", code.address["tensorlang_entry"], 0x80, None)  # METH_FASTCALL
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))  # builtins point to it as long as they live
    return method


def layout_holds() -> bool:
    """Whether the offsets of ``call_text`` are those of this interpreter and this numpy."""
    if (
        sys.implementation.name != "cpython"
        or ctypes.sizeof(ctypes.c_void_p) != 8
        or sys.byteorder != "little"
        or object.__basicsize__ != 16
        or sysconfig.get_config_var("Py_GIL_DISABLED")
    ):
        return False
    pointer, word, int32 = (
        ctypes.c_void_p.from_address,
        ctypes.c_int64.from_address,
        ctypes.c_int32.from_address,
    )
    mark, number, pair = b"tensorlang layout", 0.123456789, ("a", "b")
    if (
        ctypes.string_at(id(mark) + words.BYTES_DATA, len(mark)) != mark
        or pointer(id(pair) + words.TUPLE_ITEMS).value != id(pair[0])
        or ctypes.c_double.from_address(id(number) + words.FLOAT_VALUE).value != number
        or pointer(id(number) + words.TYPE_AT).value != id(float)
    ):
        return False
    if np.ndarray.__basicsize__ < words.ARRAY_FLAGS + 4:
        return False
    base = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
    frozen = base.copy()
    frozen.flags.writeable = False
    samples = (
        base,
        base[1:, ::2],
        base.T,
        frozen,
        np.zeros((0, 3), np.int64),
        np.zeros((), np.uint8),
        np.arange(7, dtype=">i4"),
    )
    for a in samples:
        at = id(a)
        shape, strides = pointer(at + words.SHAPE).value or 0, pointer(at + words.STRIDES).value or 0
        if (
            pointer(at + words.DATA).value != a.__array_interface__["data"][0]
            or int32(at + words.ND).value != a.ndim
            or pointer(at + words.DESCR).value != id(a.dtype)
            or int32(at + words.ARRAY_FLAGS).value != a.flags.num
            or any(word(shape + 8 * i).value != n for i, n in enumerate(a.shape))
            or any(word(strides + 8 * i).value != n for i, n in enumerate(a.strides))
            or pointer(at + words.TYPE_AT).value != id(np.ndarray)
        ):
            return False
    return address_of(base) == base.ctypes.data
