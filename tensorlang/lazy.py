"""Public names that load their room when they are asked for (PEP 562): importing the package costs next to
nothing, and who reads records or calls a saved kernel never loads the compiler. Modules of a package answer
who calls them as a function (``ops.quantize(x)``) or asks for what they lack.

A package says in one table which file has which name, and imports the same names for type checkers; a house
test compares the two. What a name becomes when it is loaded, and what is said of one that is not there, is
listed by the module ``entries`` of the package. Knows no room.
"""

from __future__ import annotations

import importlib
import opcode
import sys
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from types import FrameType, ModuleType
from typing import Any, NoReturn


class Room(ModuleType):
    """A module that says what it has to who takes it for a function."""

    def __call__(self, *args: Any, **named: Any) -> NoReturn:
        raise _entries(self).called(self)


def rooms_in(package: ModuleType) -> None:
    """Let the modules of a package, and theirs, answer so."""
    for value in list(vars(package).values()):
        if type(value) is ModuleType and value.__name__.startswith(f"{package.__name__}."):
            value.__class__ = Room
            lacking = partial(_lacking, value)
            own = vars(value).setdefault("__getattr__", lacking)
            if hasattr(own, "otherwise"):  # of ``core.renamed``, which has no words for the rest
                own.otherwise = lacking
            rooms_in(value)


def _lacking(module: ModuleType, name: str) -> NoReturn:
    if name.startswith("_"):  # Python and notebooks ask for many
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    raise _entries(module).lacking(module, name)


class _Package(Room):
    """A package with public functions that are named as the files they are in (``build``): to import the file
    leaves the function in its place."""

    __places__: Mapping[str, str]

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in self.__places__):
            super().__setattr__(name, value)
            if isinstance(value, ModuleType):
                rooms_in(self)

    def __dir__(self) -> Iterable[str]:
        return sorted({*super().__dir__(), *self.__places__})


_IMPORT_NAME = opcode.opmap["IMPORT_NAME"]


class _Absent:
    """Asked last for a module of the package: what a user's ``import`` does not find is reported like any
    other unknown name. Whoever looks for modules by other ways learns as in Python that there is none."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """None, which says that there is none. Raises ImportError for the ``import`` of a user."""
        if not name.startswith(f"{self.package}."):
            return
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
            if frame.f_code.co_name == "_handle_fromlist":  # ``from tensorlang import name``
                return
            frame = frame.f_back
        if frame is not None and frame.f_code.co_code[frame.f_lasti] == _IMPORT_NAME:
            wrong = _entries(self.package).unimported(name, frame)
            if wrong is not None:
                raise wrong


def offer(package: str, names: Mapping[str, Collection[str]], rooms: Collection[str] = ()) -> None:
    """Let a package load its names when they are asked for: ``names`` by the module of the package that has
    them, and ``rooms``, modules that are public themselves."""
    places = {name: room for room, here in names.items() for name in here}
    module = sys.modules[package]
    module.__class__ = _Package
    module.__dict__["__places__"] = places

    def __getattr__(name: str) -> Any:
        if name in places:
            home = importlib.import_module(f"{package}.{places[name]}")
            found = _entries(package).opened(name, getattr(home, name))
            setattr(module, name, found)
            return found
        if name in rooms:
            return importlib.import_module(f"{package}.{name}")
        if name.startswith("_"):  # Python and notebooks ask for many
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        raise _entries(package).absent(name)

    module.__getattr__ = __getattr__  # type: ignore[method-assign]
    sys.meta_path.append(_Absent(package))  # type: ignore[arg-type]  # the protocol's other ways are old


def _entries(package: str | ModuleType) -> Any:
    name = package if isinstance(package, str) else package.__name__.partition(".")[0]
    return importlib.import_module(f"{name}.entries")
