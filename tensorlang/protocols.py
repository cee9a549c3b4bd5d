"""What Python's own syntax gets from objects that have no answer to it: ``f[0]``, ``for q in f``,
``len(engine)``, ``s + 1``, ``timing < 3``, ``task.trials = 3``, ``pickle.dumps(s)``; and elements where there
are some.

``refuse`` gives a class those methods of a table that it lacks; each raises an error of ours that is a
TypeError too, so that whoever tries and falls back (``operator.length_hint``, numpy) goes on as before. What
would make an object pass for a function, an iterator, a context manager or a number is left to Python's own
TypeError. ``fix`` refuses assignments to attributes that a user writes down; what copies, pickles or patches
objects goes by ``setattr`` and is let through. Knows errors only.
"""

from __future__ import annotations

import inspect
import opcode
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn, SupportsIndex, TypeVar

from .errors import TensorLangError, is_ours

E = TypeVar("E")

ELEMENTS, NUMBER, ORDER = "has no elements", "is not a number", "has no order"
# method → how it is written, and why it is refused; {o} is the object, {x} what stands beside it
SYNTAX: dict[str, tuple[str, str]] = {
    "__getitem__": ("{o}[{x}]", f"{ELEMENTS}, to be indexed or for a loop"),
    "__setitem__": ("{o}[{x}] = …", "takes no assignment to parts of it"),
    "__len__": ("len({o})", ELEMENTS),
    "__lt__": ("{o} < {x}", ORDER),
    "__le__": ("{o} <= {x}", ORDER),
    "__gt__": ("{o} > {x}", ORDER),
    "__ge__": ("{o} >= {x}", ORDER),
}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"}
for _name, _sign in {**_SIGNS, "matmul": "@"}.items():
    SYNTAX[f"__{_name}__"] = (f"{{o}} {_sign} {{x}}", NUMBER)
    SYNTAX[f"__r{_name}__"] = (f"{{x}} {_sign} {{o}}", NUMBER)
MOST_SHOWN = 8


class UnsupportedError(TensorLangError, TypeError):
    """What Python's syntax asks of an object that has no answer to it."""


class NoElementError(TensorLangError, IndexError):
    """An element beyond the last."""


class NoEntryError(TensorLangError, KeyError):
    """A name that a mapping does not have."""


class FixedError(TensorLangError, AttributeError):
    """An assignment to an attribute of an object, which is what it was made."""


def refuse(cls: type, label: str, instead: Mapping[str, str]) -> None:
    """Give a class the methods of syntax that it lacks, each a refusal. ``label`` is what users call an
    object; ``instead`` what to try, by method, and under "pickle" where objects, which never change or copy
    themselves, are not pickled."""
    word = _written(label)
    counted = _own(cls, "__iter__") or _own(cls, "__len__")
    if not _own(cls, "__bool__") and not counted:
        cls.__bool__ = lambda self: True  # type: ignore[attr-defined]  # by __len__, else
    for name, (written, why) in SYNTAX.items():
        if not _own(cls, name) and not (name == "__len__" and counted):
            setattr(cls, name, _refusal(name, written.replace("{o}", word), why, instead.get(name)))
    if "pickle" in instead:
        if not _own(cls, "__deepcopy__"):  # which never changes
            cls.__copy__ = cls.__deepcopy__ = lambda self, memo=None: self  # type: ignore[attr-defined]
        kept = _refusal("__reduce_ex__", f"pickle of {word}", "is not pickled", instead["pickle"])
        cls.__reduce_ex__ = kept  # type: ignore[method-assign, assignment]


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
            f"{of}[{index!r}]", legal="whole numbers from 0, and slices", try_=f"{of}[0]" if items else None
        ) from None


class Listed(list[E]):
    """A list, called ``of`` by users, that says how many there are when it is asked for another."""

    def __init__(self, of: str, items: Iterable[E] = ()) -> None:
        super().__init__(items)
        self.of = of

    def __getitem__(self, index: Any) -> Any:
        try:
            return list.__getitem__(self, index)
        except (IndexError, TypeError):
            return element(self.of, [*self], index)

    def copy(self) -> Listed[E]:
        return Listed(self.of, self)


class Row(tuple[E, ...]):
    """A tuple, called ``of`` by users, that says how many there are when it is asked for another."""

    of: str

    def __new__(cls, of: str, items: Iterable[E] = ()) -> Row[E]:
        new = super().__new__(cls, items)
        new.of = of
        return new

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.of, tuple(self)

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        try:
            return tuple.__getitem__(self, index)
        except (IndexError, TypeError):
            return element(self.of, tuple(self), index)


class Entries(dict[str, E]):
    """A mapping by names, called ``of`` by users, that says which there are when it is asked for another."""

    def __init__(self, of: str, items: Mapping[str, E] | None = None) -> None:
        super().__init__(items or {})
        self.of = of

    def __missing__(self, name: object) -> NoReturn:
        raise NoEntryError(
            f"{self.of}[{_shown(name)}]: there is none of that name",
            legal=", ".join([*map(repr, self)][:MOST_SHOWN]) or f"{self.of} is empty",
        )


class Elements:
    """An attribute that is a list of public elements, whatever list is put there."""

    def __init__(self, of: str) -> None:
        self.of = of

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, o: Any, cls: type | None = None) -> Any:
        if o is None:
            return self
        try:
            return o.__dict__[self.name]
        except KeyError:
            raise AttributeError(self.name) from None

    def __set__(self, o: Any, items: Iterable[Any]) -> None:
        o.__dict__[self.name] = items if type(items) is Listed else Listed(self.of, items)


class Gone:
    """A name that people look up in a class and that is not there; ``wrong`` makes the error. For ``hasattr``
    there is none."""

    def __init__(self, wrong: Callable[[], TensorLangError]) -> None:
        self.wrong = wrong

    def __get__(self, o: Any, cls: type | None = None) -> NoReturn:
        raise self.wrong()


def names_of(cls: type) -> list[str]:
    """The names that a class has."""
    return [n for n in dir(cls) if not isinstance(inspect.getattr_static(cls, n, None), Gone)]


_WRITTEN = (opcode.opmap["STORE_ATTR"], opcode.opmap["DELETE_ATTR"])


def written_by_user(frame: FrameType) -> bool:
    """Whether a frame is of a user's code that says ``o.x = …`` or ``del o.x``: not what copies, pickles,
    restores or patches objects by ``setattr``."""
    return not is_ours(frame) and frame.f_code.co_code[frame.f_lasti] in _WRITTEN


def fix(cls: type, label: str, instead: Mapping[str, str]) -> None:
    """Refuse assignments to attributes that a user writes down; ``instead`` says what to try, by attribute.
    Classes that users derive are theirs, and so is a method of one object: it will be called."""
    put: Any = cls.__setattr__
    drop: Any = cls.__delattr__
    home = cls.__module__.partition(".")[0]

    def refused(self: Any, name: str) -> bool:
        return (
            type(self).__module__.partition(".")[0] == home
            and not name.startswith("_")
            and written_by_user(sys._getframe(2))
        )

    def __setattr__(self: Any, name: str, value: Any) -> None:
        method = callable(value) and callable(inspect.getattr_static(cls, name, None))
        if not method and refused(self, name):
            raise fixed(f"{_written(label)}.{name} = …", _a(cls.__name__), name, instead)
        put(self, name, value)

    def __delattr__(self: Any, name: str) -> None:
        if refused(self, name):
            raise fixed(f"del {_written(label)}.{name}", _a(cls.__name__), name, {})
        drop(self, name)

    cls.__setattr__ = __setattr__  # type: ignore[method-assign, assignment]
    cls.__delattr__ = __delattr__  # type: ignore[method-assign, assignment]


def fixed(what: str, whose: str, name: str, instead: Mapping[str, str]) -> TensorLangError:
    """The error of an assignment to an attribute."""
    return FixedError(
        f"{what}: {whose} takes no assignment to its attributes",
        because="it stays as it was made; nothing would read what is written here",
        try_=instead.get(name),
    )


def _written(label: str) -> str:
    """How an object may be called in code."""
    return (
        label
        if label == label.lower() or not label.isidentifier()
        else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", label).lower()
    )


def _own(cls: type, name: str) -> bool:
    """Whether a class has a method of that name from elsewhere than ``object``."""
    return any(name in vars(c) for c in cls.__mro__ if c is not object)


def _refusal(name: str, written: str, why: str, instead: str | None) -> Callable[..., Any]:
    def refused(self: Any, *args: Any) -> NoReturn:
        cls = type(self)
        raise UnsupportedError(
            f"{written.format(x=_shown(args[0]) if args else '')}: {_a(cls.__name__)} {why}",
            legal=None if instead else lambda: _offered(cls),
            try_=instead,
        )

    refused.__name__ = name
    return refused


def _offered(cls: type) -> str:
    """What objects of a class have, the methods first."""
    names = [n for n in names_of(cls) if not n.startswith("_")]
    names.sort(key=lambda n: not callable(getattr(cls, n, None)))
    return f".{', .'.join(names[:MOST_SHOWN])}{', …' if len(names) > MOST_SHOWN else ''}" if names else ""


def _shown(x: Any) -> str:
    text = repr(x) if isinstance(x, int | float | str) else "…"
    return text if len(text) <= 40 else "…"


def _a(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"
