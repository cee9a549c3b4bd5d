"""What Python's own syntax gets from objects that have no answer to it: ``f[0]``, ``len(engine)``, ``s + 1``,
``with log:``, ``f"{timing:.2f}"``, ``task.trials = 3``.

Python says such things by a TypeError of its own unless the class has a method for it. ``refuse`` gives a
class those methods that it lacks, from one table; each raises an error of ours that is a TypeError too, so
that whoever tries and falls back (``operator.length_hint``, numpy) goes on as before. ``has`` tells an
ability from a refusal. Knows errors only.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeGuard, TypeVar

from .errors import TensorLangError, is_ours

E = TypeVar("E")

ELEMENTS, NUMBER, ORDER = "has no elements", "is not a number", "has no order"
FUNCTION, CONTEXT = "is not called", "is not a context manager"
# method → how it is written, and why it is refused; {o} is the object, {x} what stands beside it
SYNTAX: dict[str, tuple[str, str]] = {
    "__getitem__": ("{o}[{x}]", f"{ELEMENTS}, to be indexed or for a loop"),
    "__setitem__": ("{o}[{x}] = …", "takes no assignment to parts of it"),
    "__delitem__": ("del {o}[{x}]", "loses no parts by del"),
    "__len__": ("len({o})", ELEMENTS),
    "__next__": ("next({o})", "is not an iterator"),
    "__call__": ("{o}(…)", FUNCTION),
    "__enter__": ("with {o}", CONTEXT),
    "__exit__": ("with {o}", CONTEXT),
    "__neg__": ("-{o}", NUMBER),
    "__pos__": ("+{o}", NUMBER),
    "__invert__": ("~{o}", NUMBER),
    "__abs__": ("abs({o})", NUMBER),
    "__round__": ("round({o})", NUMBER),
    "__int__": ("int({o})", NUMBER),
    "__float__": ("float({o})", NUMBER),
    "__complex__": ("complex({o})", NUMBER),
    "__index__": ("{o} as an index", NUMBER),
    "__array_ufunc__": ("a function of numpy of {o}", NUMBER),
    "__instancecheck__": ("isinstance(…, {o})", "is not a class"),
    "__lt__": ("{o} < {x}", ORDER),
    "__le__": ("{o} <= {x}", ORDER),
    "__gt__": ("{o} > {x}", ORDER),
    "__ge__": ("{o} >= {x}", ORDER),
}
_SIGNS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "lshift": "<<",
    "rshift": ">>",
    "and": "&",
    "or": "|",
    "xor": "^",
}
for _name, _sign in _SIGNS.items():
    SYNTAX[f"__{_name}__"] = (f"{{o}} {_sign} {{x}}", NUMBER)
    SYNTAX[f"__r{_name}__"] = (f"{{x}} {_sign} {{o}}", NUMBER)
MOST_SHOWN = 8
HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
READ = "is read, not changed"
ANOTHER = "make another, with the value that it should have"


class UnsupportedError(TensorLangError, TypeError):
    """What Python's syntax asks of an object that has no answer to it."""


class UnsettableError(TensorLangError, AttributeError):
    """A name of an object that is not there to be set, or may only be read."""


class NoElementError(TensorLangError, IndexError):
    """An element beyond the last."""


def refuse(cls: type, label: str, instead: dict[str, str] | None = None, fields: bool = True) -> None:
    """Give a class the methods of syntax that it lacks, each a refusal. ``label`` is what users call an
    object; ``instead`` what to try, by method, or under "copy" where objects are their own copies and are not
    pickled, under "pickle" where they are only not pickled. Without ``fields`` setting attributes is left as
    it is: for what is made by the thousand."""
    word = label if label == label.lower() else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", label).lower()
    said = instead or {}
    counted = _own(cls, "__iter__") or _own(cls, "__len__")
    if not _own(cls, "__bool__") and not _own(cls, "__len__"):
        cls.__bool__ = lambda self: True  # type: ignore[attr-defined]  # by __len__, else
    for name in SYNTAX:
        if not _own(cls, name) and not (name == "__len__" and counted):
            setattr(cls, name, _refusal(name, word, said.get(name)))
    if cls.__hash__ is None:  # type: ignore[unreachable]  # Python's word for a class whose objects change
        cls.__hash__ = _refusal("__hash__", word, None)  # type: ignore[unreachable]
    if cls.__format__ is object.__format__:
        cls.__format__ = _formatted(word)  # type: ignore[assignment, method-assign]
    if not hasattr(cls.__delattr__, "__refuses__"):
        cls.__delattr__ = _guarded(cls.__delattr__, word, "del {o}.{n}")  # type: ignore[assignment]
    if fields and not hasattr(cls.__setattr__, "__refuses__"):
        if not _own(cls, "__setstate__"):
            cls.__setstate__ = _taken  # type: ignore[attr-defined]
        cls.__setattr__ = _guarded(cls.__setattr__, word, "{o}.{n} = …")  # type: ignore[assignment]
    if "copy" in said:
        cls.__copy__ = cls.__deepcopy__ = lambda self, memo=None: self  # type: ignore[attr-defined]
    if "copy" in said or "pickle" in said:
        kept = said.get("copy") or said["pickle"]
        cls.__reduce_ex__ = _refusal("__reduce_ex__", word, kept)  # type: ignore[assignment]


def has(value: Any, name: str) -> bool:
    """Whether an object has a method of Python's syntax that does not just refuse."""
    return hasattr(value, name) and not hasattr(getattr(type(value), name, None), "__refused__")


def function(value: Any) -> TypeGuard[Callable[..., Any]]:
    """Whether it can be called."""
    return callable(value) and has(value, "__call__")


def element(of: str, items: Sequence[E], index: Any) -> Any:
    """``items[index]``; an error of ours where there is none, or the index is no number."""
    try:
        return items[index]
    except IndexError:
        last = len(items) - 1
        raise NoElementError(
            f"{of}[{index}] of {len(items)}",
            because="it has none yet" if last < 0 else f"the first is {of}[0], the last {of}[{last}]",
        ) from None
    except TypeError:
        raise UnsupportedError(
            f"{of}[{index!r}]", legal="whole numbers from 0, and slices", try_=f"{of}[0]"
        ) from None


class Listed(list[E]):
    """A list, called ``of`` by users, that says how many there are when it is asked for another."""

    def __init__(self, of: str, items: Iterable[E]) -> None:
        super().__init__(items)
        self.of = of

    def __getitem__(self, index: Any) -> Any:
        return element(self.of, [*self], index)


def _own(cls: type, name: str) -> bool:
    """Whether a class has a method of that name from elsewhere than ``object``."""
    return any(name in vars(c) for c in cls.__mro__ if c is not object)


def _refusal(name: str, word: str, instead: str | None) -> Callable[..., Any]:
    written, why = SYNTAX.get(name) or _OTHERS[name]

    def refused(self: Any, *args: Any, **named: Any) -> NoReturn:
        text = _ufunc(args) if name == "__array_ufunc__" else written
        x = _shown(args[0]) if args and "{x}" in text else ""
        cls = type(self)
        raise UnsupportedError(
            f"{text.format(o=word, x=x)}: {_a(cls.__name__)} {why}",
            legal=None if instead else lambda: _offered(cls),
            try_=instead,
        )

    refused.__name__ = name
    refused.__refused__ = True  # type: ignore[attr-defined]
    return refused


_OTHERS = {
    "__hash__": ("hash({o})", "may change, and is no key and no member of a set"),
    "__reduce_ex__": ("pickle of {o}", "is not pickled"),
}


def _ufunc(args: tuple[Any, ...]) -> str:
    sign = _NUMPY.get(args[0].__name__)
    return sign or f"np.{args[0].__name__}({{o}})"


_NUMPY = {
    "add": "array + {o}",
    "subtract": "array - {o}",
    "multiply": "array * {o}",
    "divide": "array / {o}",
    "matmul": "array @ {o}",
}


def _formatted(word: str) -> Callable[[Any, str], str]:
    def __format__(self: Any, spec: str) -> str:
        try:
            return format(str(self), spec)
        except ValueError:
            raise UnsupportedError(
                f"{{{word}:{spec}}}: {_a(type(self).__name__)} {NUMBER}", legal=lambda: _offered(type(self))
            ) from None

    return __format__


def _guarded(method: Callable[..., None], word: str, written: str) -> Callable[..., None]:
    """``__setattr__`` or ``__delattr__`` that says what cannot be set. Code of ours, and classes that users
    derive, set what they like."""
    setting = "=" in written

    def change(self: Any, name: str, *value: Any) -> None:
        frame = sys._getframe(1)
        if not frame.f_code.co_filename.startswith(HERE) and name[:1] != "_" and not is_ours(frame):
            refused(self, name)
            try:
                return method(self, name, *value)
            except AttributeError:
                raise _unsettable(word, written, self, name, READ, ANOTHER) from None
        return method(self, name, *value)

    def refused(self: Any, name: str) -> None:
        cls = type(self)
        if not _is_ours(cls):
            return
        if not hasattr(cls, name) and name not in getattr(self, "__dict__", ()):
            verb = "set" if setting else "deleted"
            raise _unsettable(word, written, self, name, f"has no {name!r} to be {verb}")
        if not setting:
            raise _unsettable(word, written, self, name, "is nothing without it")
        if not hasattr(self, "__dict__"):  # nor are those with slots changed by others
            raise _unsettable(word, written, self, name, READ, ANOTHER)

    change.__refuses__ = True  # type: ignore[attr-defined]
    return change


def _unsettable(
    word: str, written: str, of: Any, name: str, why: str, try_: str | None = None
) -> UnsettableError:
    cls = type(of)
    return UnsettableError(
        f"{written.format(o=word, n=name)}: {_a(cls.__name__)} {why}",
        legal=None if try_ else lambda: _offered(cls),
        try_=try_,
    )


def _taken(self: Any, state: Any) -> None:
    """What copy and pickle do with the fields of an object, which are not set by attribute."""
    for part in state if isinstance(state, tuple) else (state,):
        for name, value in (part or {}).items():
            object.__setattr__(self, name, value)


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in (__package__, "autosched")


def _offered(cls: type) -> str:
    """What objects of a class have, the methods first."""
    names = [n for n in dir(cls) if not n.startswith("_") and n not in _INNER]
    names.sort(key=lambda n: not callable(getattr(cls, n, None)))
    return f".{', .'.join(names[:MOST_SHOWN])}{', …' if len(names) > MOST_SHOWN else ''}" if names else ""


_INNER = ("called", "work", "take", "perform", "verdict", "do")


def _shown(x: Any) -> str:
    if isinstance(x, int | float | str):
        text = repr(x)
        return text if len(text) <= 40 else "…"
    return str(getattr(x, "name", "…")) if _is_ours(type(x)) else "…"


def _a(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"


class Answering(type):
    """The class of public classes, which answers for names that a class lacks: ``tl.Trace.load``. They say by
    ``__absent__`` what is near."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        raise cls.__absent__(name)  # type: ignore[attr-defined]

    def __getitem__(cls, index: Any) -> NoReturn:
        raise UnsupportedError(
            f"{cls.__name__}[{_shown(index)}]: a class {ELEMENTS}", legal=lambda: _offered(cls)
        )
