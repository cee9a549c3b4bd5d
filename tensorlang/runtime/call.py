"""The native entry: a function CPython calls directly, which reads the arrays itself. Knows CPython's and
numpy's object layout.

One machine-code function serves every kernel (``native.entry``); a kernel adds a descriptor of a few hundred
bytes. Before the first use the structures it relies on are compared with what this interpreter and this numpy
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..interface.signature import Dim, Size
from ..native import entry
from .arguments import Binder
from .arrays import address_of
from .loader import load_functions
from .returned import returning
from .rules import Number

if TYPE_CHECKING:
    from .module import Plan
    from .one_call import Entry
    from .steps import Direct

# Calls that touch fewer bytes and run fewer statements keep the interpreter's lock: giving it up may cost
# more than they take.
RELEASE_BYTES, RELEASE_WORK = 32 << 10, 16 << 10
_FASTCALL, _KEYWORDS = 0x80, 0x02  # METH_…
_I64 = (-(1 << 63), (1 << 63) - 1)
_OUT = sys.intern("out")

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


def native_entry(
    plan: Plan | Direct | Entry, other: Callable[..., Any] | None = None
) -> Callable[..., Any] | None:
    """A builtin function that runs the plan's kernel, or None when it must be called the portable way. Calls
    that it does not take go to ``other``; to the portable path, which makes outputs, unless given."""
    own: list[
        weakref.ref[Callable[..., Any]]
    ] = []  # weak: a cycle would keep the code until the collector comes by
    if other is None:
        other = returning(lambda: own[0](), plan.binder, plan.portable)  # type: ignore[arg-type, return-value]
    parts = describe(plan, other)
    if parts is None or not _ready():
        return None
    made = _new_builtin(ctypes.addressof(_method), parts, None)
    own.append(weakref.ref(made))
    return made  # type: ignore[no-any-return]


def describe(plan: Plan | Direct | Entry, other: Callable[..., Any] | None = None) -> tuple[Any, ...] | None:
    """The ``self`` of a kernel's builtin: the descriptor, then all it points to. None for a signature beyond
    it. Calls that the builtin does not take go to ``other``, the portable path unless given."""
    binder = plan.binder
    signature = plan.signature
    slots = _Slots(d.name for d in signature.dims)
    numbers = {n.index: (n, slots.add()) for n in binder.numbers}
    # checks of bounds report by Python; and the entry binds sizes by axes, not by numbers of their name
    if signature.checks or binder.sizes.named or len(binder.slots) > entry.MAX_BUFFERS:
        return None
    records = _records(binder, numbers, slots)
    programs = [
        (slots[size], _program(size, slots)) for size in list(slots.places) if isinstance(size, tuple)
    ]
    if len(slots.initial) > entry.MAX_SLOTS or any(_depth(x) > entry.MAX_DEPTH for x in slots.places):
        return None
    computed = [w for slot, steps in programs for w in (slot, len(steps) // 2, *steps)]
    bounds = [w for dim in signature.dims for w in _bounds(dim, binder)]
    constant = sum(c for c, factors in signature.work if not factors)
    terms = [(c, factors) for c, factors in signature.work if factors]
    work = [w for c, factors in terms for w in (_bits(c), len(factors), *factors)]
    computed_at = len(slots.initial) + len(records)
    bounds_at = computed_at + len(computed)
    portable, fail = other or plan.portable, plan.fail
    head = entry.Descriptor.words(
        kernel=plan.address,
        context=plan.context,
        portable=id(portable),
        fail=id(fail),
        ndarray=id(np.ndarray),
        none=id(None),
        out=id(_OUT) if binder.outputs == (binder.count - 1,) and _OUT not in binder.names else 0,
        params=len(signature.params),
        dims=len(signature.dims),
        slots=len(slots.initial),
        computed=len(programs),
        computed_at=computed_at,
        bounds_at=bounds_at,
        terms=len(terms),
        terms_at=bounds_at + len(bounds),
        # an engine gives the lock up by itself, plan by plan; a kernel of much fixed work always
        release=_I64[1] if plan.context else 0 if constant >= RELEASE_WORK and not terms else RELEASE_BYTES,
        release_work=_bits(RELEASE_WORK - constant),
    )
    words = [*head, *slots.initial, *records, *computed, *bounds, *work]
    # the descriptor has addresses of objects, which live as long as the tuple that holds them
    return struct.pack(f"={len(words)}q", *words), portable, fail, plan, *(s.dtype for s in binder.slots)


def _records(binder: Binder, numbers: Mapping[int, tuple[Number, int]], slots: _Slots) -> list[int]:
    """One record a parameter, in order; ``numbers`` are those that are no arrays, with their slots."""
    buffers = {s.index: s for s in binder.slots}
    records: list[int] = []
    for index, param in enumerate(binder.signature.params):
        if index in numbers:
            number, place = numbers[index]
            limits = (
                []
                if number.limits is None
                else [max(number.limits[0], _I64[0]), min(number.limits[1], _I64[1])]
            )
            kind = entry.INT if limits else entry.FLOAT
            zeros = {"type": id(number.python), "ndim": 0, "flags": 0, "itemsize": 0, "strided": 0}
            records += _record([place, *limits], kind=kind, **zeros)
            continue
        slot = buffers[index]
        sizes = (*slot.shape, *(slot.strides or ()))
        kind, strided = entry.OUTPUT if param.written else entry.INPUT, int(slot.strides is not None)
        records += _record(
            [slots[size] for size in sizes],
            kind=kind,
            itemsize=slot.dtype.itemsize,
            strided=strided,
            **slot.native(),
        )
    return records


def _bounds(dim: Dim, binder: Binder) -> Sequence[int]:
    highest = _I64[1] if dim.hi is None else dim.hi
    return entry.Bounds.words(lo=_lowest(dim, binder), hi=highest, multiple=dim.multiple_of)


class _Slots:
    """The slots of a call, and what each begins as: dims first, numbers next, then each other size once."""

    def __init__(self, dims: Iterable[str]) -> None:
        self.places: dict[Size, int] = {name: i for i, name in enumerate(dims)}
        self.initial = [entry.UNBOUND] * len(self.places)

    def add(self, value: int = 0) -> int:
        self.initial.append(value)
        return len(self.initial) - 1

    def __getitem__(self, size: Size) -> int:
        if size not in self.places:
            self.places[size] = self.add(size if isinstance(size, int) else entry.UNBOUND)
        return self.places[size]


_STEPS = {
    "+": entry.ADD,
    "-": entry.SUB,
    "*": entry.MUL,
    "//": entry.DIV,
    "%": entry.MOD,
    "min": entry.MIN,
    "max": entry.MAX,
}


def _program(size: Size, slots: _Slots) -> list[int]:
    """The steps of a computed size."""
    if isinstance(size, tuple):
        op, a, b = size
        return [*_program(a, slots), *_program(b, slots), _STEPS[op], 0]
    return [entry.NUMBER, size] if isinstance(size, int) else [entry.SLOT, slots[size]]


def _depth(size: Size) -> int:
    """Numbers that its steps hold at once."""
    return max(_depth(size[1]), 1 + _depth(size[2])) if isinstance(size, tuple) else 1


def _record(sizes: Sequence[int], **fields: int) -> list[int]:
    return [*entry.Record.words(**fields, next=entry.Record.size // 8 + len(sizes)), *sizes]


def _bits(x: float) -> int:
    """A double as a word."""
    return int(struct.unpack("=q", struct.pack("=d", x))[0])


def _lowest(dim: Dim, binder: Binder) -> int:
    """The smallest value to be taken: a stride may be negative, but must have been declared."""
    if dim.name in binder.sizes.lying:
        return entry.UNBOUND + 1 if dim.lo is None else dim.lo
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
        for name in entry.IMPORTS
    }
    code = load_functions({"tensorlang_entry": entry.entry}, imports, opt=1, once=True).keep()
    method = _MethodDef(b"kernel", code.address["tensorlang_entry"], _FASTCALL | _KEYWORDS, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))  # builtins point to it as long as they live
    return method


def layout_holds() -> bool:
    """Whether the structures of ``native.entry`` are those of this interpreter and this numpy."""
    if (
        sys.implementation.name != "cpython"
        or ctypes.sizeof(ctypes.c_void_p) != 8
        or sys.byteorder != "little"
        or object.__basicsize__ != 16
        # objects have another head there, and the entry relies on the lock
        or sysconfig.get_config_var("Py_GIL_DISABLED")
    ):
        return False
    # values that occur nowhere by chance
    word, mark, number, pair = ctypes.c_int64.from_address, b"tensorlang layout", 0.123456789, ("a", "b")
    if (
        ctypes.string_at(id(mark) + entry.Bytes.size, len(mark)) != mark
        or (entry.Tuple.view(id(pair)).count, entry.Tuple.view(id(pair)).item) != (2, id(pair[0]))
        or entry.Float.view(id(number)).bits != _bits(number)
        or entry.Object.view(id(number)).type != id(float)
    ):
        return False
    if np.ndarray.__basicsize__ < entry.NumpyArray.size:
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
        seen = entry.NumpyArray.view(id(a))
        expected = a.__array_interface__["data"][0], a.ndim, id(a.dtype), a.flags.num, id(np.ndarray)
        if (
            (seen.data, seen.ndim, seen.descr, seen.flags, entry.Object.view(id(a)).type) != expected
            or any(word(seen.shape + 8 * i).value != n for i, n in enumerate(a.shape))
            or any(word(seen.strides + 8 * i).value != n for i, n in enumerate(a.strides))
        ):
            return False
    return address_of(base) == base.ctypes.data
