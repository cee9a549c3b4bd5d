"""What a call accepts: one table of rules for arrays, one for numbers, one for dims. Knows signatures and
numpy arrays, nothing of machine code.

A rule says what must hold, how the native entry sees it (``native``: a word of ``native.entry.Record``), and
what an error says. The portable path asks the rules one by one; the first that does not hold is the mistake.
Inputs of an engine will be checked by the same rules.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.dtype import dtype
from ..errors import CallError
from ..interface.signature import Dim, Param, Size, show
from . import dlpack
from .arrays import distinct

C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400  # numpy's flags
_INT32 = (1 << 31) - 1


class Slot:
    """A parameter that is an array, and the rules for it."""

    def __init__(self, kernel: str, index: int, param: Param) -> None:
        kind = dtype(param.dtype)
        lanes = (kind.lanes,) if kind.lanes > 1 else ()  # a vector type is held as one more axis of its lanes
        self.index, self.param, self.output, self.written = index, param, param.output, param.written
        self.title = f"{kernel}: argument {index + 1}, {param.name},"
        self.dtype = kind.to_numpy()
        self.shape: tuple[Size, ...] = param.shape + lanes
        self.ndim = len(self.shape)
        self.axes = tuple(enumerate(self.shape))
        self.strides = None if param.strides is None else param.strides + ((1,) if lanes else ())
        self.fixed = tuple((i, n) for i, n in self.axes if isinstance(n, int))
        self.constant = tuple(self.shape) if len(self.fixed) == self.ndim else None
        self.rules = tuple(rule for rule in ARRAYS if rule.concerns(self))
        self.rest = tuple(rule for rule in self.rules if not rule.seen(self))
        self.flags = self.native()["flags"]

    def taken(self, a: Any) -> Any:
        """The array of an argument. Raises CallError for the first rule that does not hold."""
        foreign = not isinstance(a, np.ndarray) and dlpack.exports(a)
        if foreign:
            a = dlpack.array_of(a, self.title, self.param.dtype)
        self.check(a, self.rules, foreign)
        return a

    def check(self, a: Any, rules: Sequence[Rule], foreign: bool = False) -> None:
        """Raises CallError for the first of these rules that does not hold."""
        for rule in rules:
            if not rule.holds(self, a):
                what, because, try_ = rule.says(self, a)
                if foreign and rule.name == "type":
                    try_ = f"{self.param.name} converted to {self.param.dtype}"
                raise CallError(f"{self.title} {what}", because=because, try_=try_)

    def native(self) -> dict[str, int]:
        """The words of its record that the rules fill."""
        words = {"flags": 0}
        for rule in self.rules:
            if isinstance(rule.native, int):
                words["flags"] |= rule.native
            elif rule.native is not None:
                words[rule.name] = rule.native(self)
        return words


Said = tuple[str, str | None, str | None]  # what, because, try


class Rule(NamedTuple):
    """``native`` is the flag of numpy's that the native entry asks for, or gives the word of the rule's name
    in its record; None: it sees it in sizes, or does not take such arrays."""

    name: str
    concerns: Callable[[Slot], bool]
    holds: Callable[[Slot, Any], bool]
    says: Callable[[Slot, Any], Said]
    native: Callable[[Slot], int] | int | None = None

    def seen(self, slot: Slot) -> bool:
        """Whether a glance at a plain array of numpy's tells."""
        if self.name == "sizes":
            return slot.constant is not None
        return self.native is not None or self.name in ("array", "plain")


def _always(slot: Slot) -> bool:
    return True


def _no_array(slot: Slot, a: Any) -> Said:
    try_ = None
    if slot.output:
        try_ = "pass an array to write to, or leave all outputs out to have them allocated"
    elif isinstance(a, (list, tuple)) or (
        hasattr(a, "__array__")
        and not isinstance(a, np.generic)
        and type(a).__module__.partition(".")[0] != __package__.partition(".")[0]  # a declaration has none
    ):
        try_ = f"np.asarray({slot.param.name}, {_numpy_name(slot)})"
    kinds = f"an array of {slot.param.dtype}, numpy's or one with __dlpack__"
    return "is not an array", f"it must be {kinds}, not {_type_name(a)}", try_


def _masked(slot: Slot, a: Any) -> Said:
    return (
        "is a masked array",
        "a kernel would use the masked elements too",
        f"pass {slot.param.name}.filled(value)",
    )


def _other_dtype(slot: Slot, a: Any) -> Said:
    name, wanted = slot.param.name, slot.param.dtype
    try_: str | None
    swapped = a.dtype.newbyteorder() == slot.dtype
    got = f"{a.dtype.name} in the other byte order ({a.dtype.str})" if swapped else a.dtype.name
    if slot.output:
        try_ = f"allocate it as np.empty(shape, {_numpy_name(slot)})"
    elif wanted.startswith("bfloat") and a.dtype == np.uint16:
        try_ = (
            f"{name}.view({_numpy_name(slot)}) if it holds the bits of bfloat16, {name}.astype(…) if it "
            "holds numbers"
        )
    elif a.dtype.kind in "biufO" or a.dtype.name == "bfloat16":
        try_ = f"{name}.astype({_numpy_name(slot)})"
    elif a.dtype.kind == "c":  # parts of it may do
        try_ = f"{name}.real.astype({_numpy_name(slot)})"
    else:
        try_ = f"one field: {name}[{(a.dtype.names or ('name',))[0]!r}]" if a.dtype.kind == "V" else None
    return f"has dtype {got}, declared {wanted}", None, try_


def _other_rank(slot: Slot, a: Any) -> Said:
    axes = f"{a.ndim} {'axis' if a.ndim == 1 else 'axes'}"
    return (
        f"has {axes}, declared with {slot.ndim}",
        f"its shape is {a.shape}, declared {shown(slot.shape)}",
        None,
    )


def _sizes_fit(slot: Slot, a: Any) -> bool:
    shape = a.shape
    for axis, size in slot.fixed:  # noqa: SIM110  all(…) takes four times as long, at every call
        if shape[axis] != size:
            return False
    return True


def _other_size(slot: Slot, a: Any) -> Said:
    axis, size = next((i, n) for i, n in slot.fixed if n != a.shape[i])
    return shape_of(slot, a), f"axis {axis} is {a.shape[axis]}, not {size}", None


def _read_only(slot: Slot, a: Any) -> Said:
    how = "an output of" if slot.output else "updated by"
    more = ", or leave the outputs out to have them allocated" if slot.output else ""
    return "is read-only", f"it is {how} the kernel", f"pass a writable array{more}"


def _scattered(slot: Slot, a: Any) -> Said:
    name = slot.param.name
    strides = [a.itemsize]
    for n in reversed(a.shape[1:]):
        strides.append(strides[-1] * max(1, n))
    if slot.written:
        binds = f"{{{name}: te.decl_buffer({name}.shape, {name}.dtype, strides='any')}}"
        try_ = f"write to a compact array and copy from it, or build with binds={binds}"
    else:
        try_ = (
            f"np.ascontiguousarray({name}), or te.placeholder(..., strides='any') for a kernel that "
            "takes strided arrays"
        )
    return (
        "is not compact in C order",
        f"its strides are {a.strides}, {tuple(reversed(strides))} are needed",
        try_,
    )


def _unaligned(slot: Slot, a: Any) -> Said:
    step = a.dtype.alignment
    strides = f", its strides are {a.strides}" if any(s % step for s in a.strides) else ""
    because = f"elements of {a.dtype.name} start at multiples of {step} bytes{strides}"
    return "is not aligned", because, None if slot.written else f"{slot.param.name}.copy()"


def _on_itself(slot: Slot, a: Any) -> Said:
    try_ = "pass an array of separate elements, or leave the outputs out to have them allocated"
    return (
        "has elements that share memory",
        f"its strides are {a.strides} bytes for the shape {a.shape}",
        try_,
    )


ARRAYS = (
    Rule("array", _always, lambda s, a: isinstance(a, np.ndarray), _no_array),
    Rule("plain", _always, lambda s, a: not isinstance(a, np.ma.MaskedArray), _masked),
    Rule("type", _always, lambda s, a: a.dtype == s.dtype, _other_dtype, lambda s: id(s.dtype)),
    Rule("ndim", _always, lambda s, a: a.ndim == s.ndim, _other_rank, lambda s: s.ndim),
    Rule("sizes", lambda s: bool(s.fixed), _sizes_fit, _other_size),
    Rule("writeable", lambda s: s.written, lambda s, a: a.flags.writeable, _read_only, WRITEABLE),
    Rule("compact", lambda s: s.strides is None, lambda s, a: a.flags.c_contiguous, _scattered, C_CONTIGUOUS),
    Rule("aligned", _always, lambda s, a: a.flags.aligned or not a.size, _unaligned, ALIGNED),
    Rule("distinct", lambda s: s.written and s.strides is not None, lambda s, a: distinct(a), _on_itself),
)


class Number:
    """A parameter that is a number: what Python's it is, its range, and how it travels (``code`` of
    struct)."""

    def __init__(self, kernel: str, index: int, param: Param) -> None:
        kind = dtype(param.dtype)
        self.index, self.param, self.dtype = index, param, param.dtype
        self.title = f"{kernel}: argument {index + 1}, {param.name},"
        self.python: type = float if kind.is_float else bool if kind.is_bool else int
        self.code = "d" if kind.is_float else "Q" if kind.name == "uint64" else "q"
        self.limits = None if kind.is_float else (0, 1) if kind.is_bool else kind.limits()

    def taken(self, value: Any) -> Any:
        """The number of an argument. Raises CallError for what is none, and for one beyond the range."""
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if self.python is bool and isinstance(value, (bool, np.bool_)):
            return bool(value)
        if self.limits is None:
            if isinstance(value, (int, float, np.integer, np.floating)):
                return self._as_float(value)
            raise self._none(value, "a number")
        try:
            whole = operator.index(value)
        except TypeError:
            raise self._none(value, "a whole number") from None
        if not self.limits[0] <= whole <= self.limits[1]:
            raise CallError(
                f"{self.title} is out of the range of {self.dtype}",
                because=f"{whole} is not in {self.limits[0]} … {self.limits[1]}",
            )
        return whole

    def _as_float(self, value: Any) -> float:
        try:
            return float(value)
        except OverflowError:
            raise CallError(f"{self.title} is too large for {self.dtype}") from None

    def _none(self, value: Any, needed: str) -> CallError:
        return CallError(
            f"{self.title} is not {needed}",
            because=f"it must be {needed} ({self.dtype}), not {_type_name(value)}",
        )


class DimRule(NamedTuple):
    """What a dim is declared to be, if the rule ``concerns`` it; ``says`` what it is not, why, what to
    try."""

    concerns: Callable[[Dim], bool]
    holds: Callable[[Any, int], bool]  # of a dim that the rule concerns
    says: Callable[[Dim], Said]


DIMS = (  # the native entry asks the same of its Bounds
    DimRule(
        lambda d: d.lo is not None,
        lambda d, n: n >= d.lo,
        lambda d: ("is too small", f"is declared at least {d.lo}", None),
    ),
    DimRule(
        lambda d: d.hi == _INT32,
        lambda d, n: n <= _INT32,
        lambda d: ("is too large", "is counted in 32 bits", f"declare it te.var({d.name!r}, 'int64')"),
    ),
    DimRule(
        lambda d: d.hi is not None and d.hi != _INT32,
        lambda d, n: n <= d.hi,
        lambda d: ("is too large", f"is declared at most {d.hi}", None),
    ),
    DimRule(
        lambda d: d.multiple_of != 1,
        lambda d, n: n % d.multiple_of == 0,
        lambda d: (f"is not a multiple of {d.multiple_of}", "is declared so", None),
    ),
)


def shape_of(slot: Slot, a: Any) -> str:
    return f"has shape {a.shape}, declared {shown(slot.shape)}"


def shown(shape: Any) -> str:
    return f"({', '.join(show(s) for s in shape)}{',' if len(shape) == 1 else ''})"


def _numpy_name(slot: Slot) -> str:
    """What a user writes for the dtype of a parameter's arrays."""
    return f"{'ml_dtypes' if slot.param.dtype.startswith('bfloat') else 'np'}.{slot.dtype}"


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
