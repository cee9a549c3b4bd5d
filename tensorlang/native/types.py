"""Types of native functions: numbers, pointers, and structures with named fields that machine code and Python
both read.

A ``Struct`` is a table of fields. Each lies at the next multiple of its size, or where ``at`` says. In a
native function a variable of the class's name is a pointer to one; ``Struct.view`` reads and writes the same
memory from Python.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar


class Type:
    """A type by its LLVM name and size in bytes; of a pointer also what it points to: a Type, a Block or a
    Struct class, if known."""

    __slots__ = ("name", "of", "size")

    def __init__(self, name: str, size: int, of: Any = None) -> None:
        self.name, self.size, self.of = name, size, of

    def __repr__(self) -> str:
        return self.name


class Block:
    """Memory for ``count`` elements inside a structure or a global. Like an array of C it is used by its
    address."""

    def __init__(self, of: Any, count: int) -> None:
        self.of, self.count, self.size = of, count, of.size * count


if TYPE_CHECKING:  # to the checker of types they are Python's numbers
    i1 = bool
    i8 = int
    i32 = int
    i64 = int
    f64 = float
    ptr = Any
    Array = list
else:
    i1, i8, i32, i64 = Type("i1", 1), Type("i8", 1), Type("i32", 4), Type("i64", 8)
    f64, ptr = Type("double", 8), Type("ptr", 8)

    class Array:
        """A pointer to elements: ``Array[i64]``, ``Array[Line]``."""

        def __class_getitem__(cls, of: Any) -> Type:
            return Type("ptr", 8, of)


_CTYPES: dict[str, Any] = {
    "i8": ctypes.c_uint8,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "double": ctypes.c_double,
    "ptr": ctypes.c_int64,
}


_BY_NAME: dict[str, Any] = {t.name: t for t in (i1, i8, i32, i64, f64, ptr)} if not TYPE_CHECKING else {}


def resolve(annotation: Any, scope: dict[str, Any]) -> Any:
    """The type that an annotation, a text under ``from __future__ import annotations``, stands for; None for
    nothing. Structures and functions are used by pointers."""
    found = eval(annotation, scope) if isinstance(annotation, str) else annotation  # our own source
    return found if found is None or isinstance(found, Type) else Type("ptr", 8, found)


def at(offset: int | None = None, of: Any = None, count: int = 1) -> Any:
    """A field that does not follow the one before, or one that is an array of ``count`` elements."""
    return offset, None if of is None else Block(of, count)


class Struct:
    """A structure: the annotations of a subclass are its fields; ``size`` makes it larger than they need."""

    fields: ClassVar[dict[str, tuple[Any, int]]]
    size: ClassVar[int]

    def __init_subclass__(cls, size: int = 0) -> None:
        scope, end = vars(sys.modules[cls.__module__]), 0
        cls.fields = {}
        for name, annotation in cls.__annotations__.items():
            offset, block = vars(cls).get(name, (None, None))
            kind = block or resolve(annotation, scope)
            step = 1 if block else kind.size
            offset = -(-end // step) * step if offset is None else offset
            if offset < end:
                raise TypeError(f"{cls.__name__}.{name} lies on the field before")
            cls.fields[name] = (kind, offset)
            end = offset + kind.size
        cls.size = max(size, end)

    @classmethod
    def view(cls, address: int) -> View:
        """The structure at an address of this process, for reading and writing from Python."""
        return View(cls, address)

    @classmethod
    def words(cls, **values: int) -> list[int]:
        """A structure of eight-byte fields as its words, every field given by name."""
        names = [name for name, (kind, _) in cls.fields.items() if kind.size]
        if sorted(values) != sorted(names):
            raise TypeError(f"{cls.__name__} takes {', '.join(names)}")
        return [values[name] for name in names]


class View:
    """A Struct in memory, by attributes."""

    __slots__ = ("_address", "_struct")

    def __init__(self, struct: type[Struct], address: int) -> None:
        object.__setattr__(self, "_struct", struct)
        object.__setattr__(self, "_address", address)

    def _field(self, name: str) -> Any:
        kind, _ = self._struct.fields[name]
        return _CTYPES[kind.name].from_address(self.address_of(name))

    def address_of(self, name: str, index: int = 0) -> int:
        """The address of a field, or of an element of one that is an array."""
        kind, offset = self._struct.fields[name]
        return int(self._address + offset + (index * kind.of.size if isinstance(kind, Block) else 0))

    def __getattr__(self, name: str) -> Any:
        if name not in self._struct.fields:
            raise AttributeError(name)
        return self._field(name).value

    def __setattr__(self, name: str, value: int) -> None:
        self._field(name).value = value


class Global:
    """Zeroed memory of a module, on a cache line of its own: a Struct and ``more`` bytes behind it. Used by
    its address, like a Block."""

    def __init__(self, name: str, of: type[Struct], more: int = 0) -> None:
        self.name, self.of, self.size = name, of, of.size + more

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class CFunction:
    """A function of C or LLVM that the module imports; ``result`` is None for none, ``text`` its
    declaration."""

    def __init__(self, result: str, symbol: str, params: list[str]) -> None:
        self.symbol, self.variadic = symbol, "..." in params
        self.result, self.kinds = _BY_NAME.get(result), [_BY_NAME[p] for p in params if p != "..."]
        self.text = f"{result} @{symbol}({', '.join(params)})"

    if TYPE_CHECKING:

        def __call__(self, *args: Any) -> Any: ...


class CFunctions:
    """Functions of C and LLVM by name: after ``c = CFunctions("i32 sched_getcpu()", "void free(ptr)")``
    native functions call ``c.free(p)``. A dot in a name of LLVM's is written as an underscore."""

    def __init__(self, *declarations: str) -> None:
        self._known = {}
        for text in declarations:
            result, symbol, params = re.fullmatch(r"(\w+) ([\w.]+)\((.*)\)", text).groups()  # type: ignore[union-attr]
            self._known[symbol.replace(".", "_")] = CFunction(
                result, symbol, params.split(", ") if params else []
            )

    def __iter__(self) -> Iterator[str]:
        """The symbols."""
        return (function.symbol for function in self._known.values())

    def __getattr__(self, name: str) -> CFunction:
        try:
            return self._known[name]
        except KeyError:
            raise AttributeError(f"{name} is not declared") from None
