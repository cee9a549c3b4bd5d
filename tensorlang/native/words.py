"""The words of native functions beside Python's own: each writes its instructions. A new word is a function
here.

Atomic operations have the names and orders of C11; their first argument is a field or an element.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .emit import Emitter, Place, Value
from .types import Type, i1, ptr

relaxed, acquire, release, acq_rel, seq_cst = "monotonic", "acquire", "release", "acq_rel", "seq_cst"


F = TypeVar("F")
null = None  # the pointer to nothing


class Word:
    """What a native function may call: ``write`` gets the emitter, then the arguments, not yet loaded."""

    def __init__(self, write: Callable[..., Any]) -> None:
        self.write = write
        self.__doc__ = write.__doc__

    if TYPE_CHECKING:

        def __call__(self, *args: Any) -> Any: ...


@Word
def load(f: Emitter, place: Place, order: str) -> Value:
    return f.new(
        place.type, f"load atomic {place.type}, ptr {place.address} {order}, align {place.type.size}"
    )


@Word
def store(f: Emitter, place: Place, x: Any, order: str) -> None:
    value = f.value(x, place.type)
    f.write(f"store atomic {value.type} {value.text}, ptr {place.address} {order}, align {place.type.size}")


def _changing(op: str) -> Word:
    def write(f: Emitter, place: Place, x: Any, order: str) -> Value:
        value = f.value(x, place.type)
        return f.new(place.type, f"atomicrmw {op} ptr {place.address}, {value.type} {value.text} {order}")

    return Word(write)


exchange, fetch_add, fetch_sub, fetch_or = map(_changing, ("xchg", "add", "sub", "or"))


@Word
def compare_exchange(
    f: Emitter, place: Place, expected: Any, new: Any, order: str, failed: str = relaxed
) -> Value:
    """Whether ``expected`` was there, and ``new`` is now."""
    a, b = f.value(expected, place.type), f.value(new, place.type)
    pair = f.new(None, f"cmpxchg ptr {place.address}, {a.type} {a.text}, {b.type} {b.text} {order} {failed}")
    return f.new(i1, f"extractvalue {{ {a.type}, i1 }} {pair.text}, 1")


@Word
def address(f: Emitter, place: Place) -> Value:
    """The pointer to a field or an element."""
    return Value(Type("ptr", 8, place.type), place.address)


@Word
def cast(f: Emitter, to: Any, x: Any) -> Value:
    """A pointer, or a number as one, as a pointer to ``to``: a structure or a number; ``ptr``: to nothing
    known."""
    return Value(to if to is ptr else Type("ptr", 8, to), f.convert(ptr, x).text)


@Word
def local(f: Emitter, of: Any, count: int = 1) -> Value:
    """Memory of this call for ``count`` elements."""
    name = f"%{f.fresh('m')}"
    f.allocas.append(f"  {name} = alloca [{of.size * count} x i8], align 16")
    return Value(Type("ptr", 8, of), name)


@Word
def lshr(f: Emitter, x: Any, bits: Any) -> Value:
    """Shift right as an unsigned number."""
    a, b = f.pair(x, bits)
    return f.new(a.type, f"lshr {a.type} {a.text}, {b.text}")


@Word
def select(f: Emitter, condition: Any, x: Any, y: Any) -> Value:
    """One of two values, both computed: no branch."""
    c = f.value(condition)
    a, b = f.pair(x, y)
    return f.new(a.type, f"select i1 {c.text}, {a.type} {a.text}, {b.type} {b.text}")


def _intrinsic(name: str, more: str = "") -> Callable[..., Value]:
    def write(f: Emitter, x: Any, *others: Any) -> Value:
        a = f.value(x, others[0].type if others and isinstance(others[0], Value) else None)
        values = [a, *(f.value(y, a.type) for y in others)]
        symbol = f"llvm.{name}.{a.type}"
        types = [*(v.type for v in values), *(["i1"] if more else [])]
        f.module.declared[symbol] = f"{a.type} @{symbol}({', '.join(map(str, types))})"
        given = ", ".join([*(f"{v.type} {v.text}" for v in values), *([f"i1 {more}"] if more else [])])
        return f.new(a.type, f"call {a.type} @{symbol}({given})")

    return write


cttz, ctlz = Word(_intrinsic("cttz", "true")), Word(_intrinsic("ctlz", "true"))


def _usual(name: str, python: Callable[..., Any], more: str = "") -> Word:
    """A function of Python's own name, of what is known now or in code."""
    write = _intrinsic(name, more)
    return Word(
        lambda f, *xs: write(f, *xs) if any(isinstance(x, (Value, Place)) for x in xs) else python(*xs)
    )


WORDS: dict[str, Any] = {
    "min": _usual("smin", min),
    "max": _usual("smax", max),
    "abs": _usual("abs", operator.abs, "false"),
    "range": range,
    "len": len,
    "isinstance": isinstance,
    "int": int,
}


class Inline:
    """A native function whose code stands where it is called."""

    def __init__(self, function: Any) -> None:
        self.function = function


def inline(function: F) -> F:
    """Decorator: no call, the code of the function stands where it is used."""
    return Inline(function)  # type: ignore[return-value]


def unrolled(many: Any) -> Any:
    """The loop over these is written out, once for each."""
    return many
