"""What it is to be public: every function and class that users call is guarded, so that no plain exception
comes out of it, answers for names that it does not have, and shows itself in a notebook. A class says so
where it is defined (``public``), a module at its end (``close``), and functions of the package are guarded
when they are asked for (``opened``). Knows no room; says nothing of how (see ``boundary``).
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import is_dataclass
from functools import partial
from types import FrameType, ModuleType
from typing import Any, TypeVar

from . import signposts
from .boundary import (
    UnknownModuleError,
    answer,
    guard,
    guard_class,
    label_of,
    missing,
    not_a_function,
    signpost,
)
from .errors import CallError, LowerError, ScheduleError, TargetError, TensorLangError, is_ours
from .lazy import rooms_in
from .protocols import name_fields

T = TypeVar("T")

# what is held against its annotation before a kernel is made; the others are looked at by their functions
SETTINGS = ("bounds_check", "load", "simple", "simple_mode", "times")
# functions of the package by what goes wrong in them
OF_PACKAGE: Mapping[type[TensorLangError], tuple[str, ...]] = {
    LowerError: ("build", "compile", "lower", "view"),
    ScheduleError: ("create_schedule",),
    TargetError: ("cpu", "device"),
    CallError: ("interpret",),
    TensorLangError: (
        "load",
        "load_onnx",
        "load_torch",
        "num_threads",
        "onnx_op",
        "plan_workspace",
        "register_func",
        "register_symbol",
        "release_workspace",
        "set_num_threads",
    ),
}
# methods that only code of ours calls
WITHIN = ("called", "work", "take", "arguments", "perform", "verdict", "do")
# modules of operators and declarations, in which a name may be that another of them does not have
_THERE = ("te", "ops", "topi")
_PACKAGE = "tensorlang"
OBJECTS = "tensorlang.display.objects"


def public(
    error: type[TensorLangError],
    label: str,
    gone: Mapping[str, str] | None = None,
    *,
    eager: bool = False,
    text: str = "",
    page: str = "",
    made: str = "",
) -> Callable[[type[T]], type[T]]:
    """A decorator of public classes. ``error``: what plain exceptions in its methods become; ``label``: how
    users call an object; ``gone``: TVM's names; ``eager``: arguments are held against annotations before each
    call. ``page`` makes what a notebook shows, ``text`` the ``repr``: functions of ``display.objects``, or
    ``module:name``, which are loaded when an object is shown. ``made`` says who makes objects of a class that
    is not called by users."""

    def close_class(cls: type[T]) -> type[T]:
        guard_class(cls, error, label, eager=eager, without=WITHIN)
        answer(cls, label, gone or {})
        if made:
            cls.__made__ = made  # type: ignore[attr-defined]
        if is_dataclass(cls):
            name_fields(cls, label)
        show(cls, text=text, page=page)
        return cls

    return close_class


def show(cls: type, *, text: str = "", page: str = "") -> None:
    """Give a class its ``repr`` and what a notebook shows, where it has none of its own; see ``public``."""
    if text:
        cls.__repr__ = _shown(text)  # type: ignore[assignment]
    if page and "_repr_html_" not in vars(cls):
        cls._repr_html_ = _tried(page)  # type: ignore[attr-defined]


def _shown(place: str) -> Callable[[Any], str]:
    room, _, name = place.rpartition(":")
    return lambda self: str(getattr(importlib.import_module(room or OBJECTS), name)(self))


def _tried(place: str) -> Callable[[Any], str | None]:
    """A notebook goes on with the ``repr`` where a picture cannot be made: None says so."""

    def _repr_html_(self: Any) -> str | None:
        try:
            return _shown(place)(self)
        except Exception:  # a picture is no reason to end a cell
            return None

    return _repr_html_


def close(
    module: str,
    label: str,
    error: type[TensorLangError],
    gone: Mapping[str, str] | None = None,
    lent: Mapping[str, str] | None = None,
    flags: bool = False,
) -> None:
    """Guard the public functions of a module, which answers for what it does not have. Called at its end.
    ``lent`` are names of rooms above it, by their room, which are loaded when they are asked for. ``flags``:
    arguments that are true or false are held against that before each call, as anything is true."""
    here = sys.modules[module]
    rooms_in(here)
    names = getattr(here, "__all__", ())
    eager = {n for f in names for n, k in _annotations(here, f).items() if k == "bool"} if flags else False
    guard(here, names, label, error, eager=eager)
    signpost(here, label, gone or {}, partial(_elsewhere, here=module))
    if lent:
        unknown = here.__getattr__

        def __getattr__(name: str) -> Any:
            if name not in lent:
                return unknown(name)
            room = importlib.import_module(f"{_PACKAGE}.{lent[name]}")
            return guarded(here, name, getattr(room, name, room), label, error)

        here.__getattr__ = __getattr__  # type: ignore[method-assign]


def share(module: str, label: str = "", error: type[TensorLangError] = TensorLangError) -> None:
    """Guard what a module lists, or else has, where code of ours calls it too: functions, and classes of its
    own with what is theirs. Called at its end; users' calls end in errors of ours, and our own calls go on as
    before."""
    here = sys.modules[module]
    label = label or label_of(here)
    made = [n for n, v in vars(here).items() if getattr(v, "__module__", "") == module and n[0] != "_"]
    names = getattr(here, "__all__", made)
    guard(here, names, label, error, direct=True)
    for name in names:
        cls = vars(here)[name]
        if isinstance(cls, type) and f"{cls.__module__}.".startswith(f"{module}."):
            share_class(cls, error)


def share_class(cls: type, error: type[TensorLangError]) -> None:
    """Guard a class of which code of ours makes objects too."""
    if getattr(cls, "_is_protocol", False):
        cls.__init__ = _protocol(cls)  # type: ignore[misc]
    elif cls.__init__ is object.__init__ and cls.__new__ is object.__new__:  # type: ignore[misc]
        cls.__init__ = _empty(cls)  # type: ignore[misc]
    if issubclass(cls, tuple):
        guard(cls, ("__new__",), cls.__name__, error, direct=True)
    guard_class(cls, error, direct=True)


def _protocol(cls: type) -> Callable[..., None]:
    """The constructor of a protocol, which makes no objects but of classes derived from it."""
    asked = [n for n in vars(cls) if not n.startswith("_")]

    def __init__(self: Any, *args: Any, **named: Any) -> None:
        if type(self) is cls:
            raise TensorLangError(
                f"{cls.__name__}(…): it is a protocol, of which no objects are made",
                try_=f"an object of a class of yours with {', '.join(asked)}",
            )
        super(cls, self).__init__(*args, **named)  # type: ignore[arg-type]  # a class that comes as a value

    return __init__


def _empty(cls: type) -> Callable[[Any], None]:
    """A constructor that takes nothing: Python's own takes it with an error of its own."""

    def __init__(self: Any) -> None:
        super(cls, self).__init__()  # type: ignore[arg-type]  # as above

    return __init__


def _annotations(module: ModuleType, name: str) -> Mapping[str, Any]:
    return getattr(vars(module).get(name), "__annotations__", {})


def guarded(
    here: ModuleType,
    name: str,
    found: Any,
    label: str,
    error: type[TensorLangError],
    eager: bool | Collection[str] = False,
) -> Any:
    """A name of another module, called by the label of this one."""
    setattr(here, name, inspect.unwrap(found) if callable(found) else found)
    guard(here, (name,), label, error, eager=eager)
    return vars(here)[name]


def _elsewhere(name: str, here: str) -> dict[str, str]:
    """Where among the modules of operators and declarations there is such a name."""
    for label in _THERE:
        module = importlib.import_module(f"{_PACKAGE}.{label}")
        found = vars(module).get(name)
        if module.__name__ != here and name in module.__all__ and not inspect.ismodule(found):
            return {name: f"{label}.{name}"}
    return {}


def opened(name: str, found: Any) -> Any:
    """A name of the package as users get it: functions are guarded."""
    for error, names in OF_PACKAGE.items():
        if name in names:
            return guarded(
                sys.modules[_PACKAGE], name, found, "tl", error, SETTINGS if error is LowerError else True
            )
    return found


def unimported(name: str, frame: FrameType) -> TensorLangError | None:
    """The error of a user's ``import tensorlang.name``, which is no module; None in code of ours."""
    if is_ours(frame):
        return None
    above, _, last = name.rpartition(".")
    try:
        getattr(sys.modules[above], last)
    except TensorLangError as e:
        return UnknownModuleError(f"no module {name}", because=e.because, legal=e.legal, try_=e.try_)
    except (AttributeError, KeyError):
        return None
    return UnknownModuleError(f"{name} is not a module", try_=f"from {above} import {last}")


def called(module: ModuleType) -> TensorLangError:
    """The error of a module that is called."""
    return not_a_function(module)


def lacking(module: ModuleType, name: str) -> TensorLangError:
    """The error of a name that a module does not have."""
    label = label_of(module)
    return missing(label, name, vars(module), signposts.ROOMS.get(label, {}))


def absent(name: str) -> TensorLangError:
    """The error of a name that the package does not have."""
    return missing("tl", name, sys.modules[_PACKAGE].__all__, signposts.PACKAGE)
