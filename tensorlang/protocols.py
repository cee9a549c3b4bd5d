"""What Python's own syntax gets from objects that have no answer to it: ``f[0]``, ``for q in f``,
``len(engine)``, ``s + 1``, ``timing < 3``, ``task.trials = 3``, ``pickle.dumps(s)``; and elements where there
are some.

``refuse`` gives a class those methods of a table that it lacks; each raises an error of ours that is a
TypeError too, so that whoever tries and falls back (``operator.length_hint``, numpy) goes on as before. What
would make an object pass for an iterator or a number is left to Python's own TypeError; ``with f:`` and, of
what people take for a function, ``s(a, b)`` are refused. ``fix`` refuses assignments to attributes that a
user writes down; what copies, pickles or patches objects goes by ``setattr`` and is let through. Knows errors
only.
"""

from __future__ import annotations

import functools
import inspect
import opcode
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from types import FrameType
from typing import Any, NoReturn, SupportsIndex, TypeVar

from .errors import TensorLangError, is_ours

E = TypeVar("E")
K = TypeVar("K")

NO_WITH = "has nothing to close: it is used without a with"
ELEMENTS, NUMBER, ORDER = "has no elements", "is not a number", "has no order"
UNCALLED = "is not a function"
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
# what the guides call objects of a class, where that is not the class's own name in lower case
CALLED = {
    "DynamicKernel": "kernel",
    "RecordLog": "log",
    "SearchTask": "task",
    "ShapeProfile": "profile",
    "TasksResult": "result",
    "TuneReport": "report",
    "TuneResult": "result",
}


class UnsupportedError(TensorLangError, TypeError):
    """What Python's syntax asks of an object that has no answer to it."""


class NoWithError(UnsupportedError, AttributeError):
    """What ``with`` asks of an object that has nothing to close; for ``hasattr`` it has no such method."""


class NoElementError(TensorLangError, IndexError):
    """An element beyond the last."""


class NoEntryError(TensorLangError, KeyError):
    """A name that a mapping does not have."""


class NoNameError(TensorLangError, AttributeError):
    """A name that a list, a tuple or a mapping of ours does not have."""


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
    if not _own(cls, "__enter__"):  # one of the two makes no context manager: that which ``with`` asks first
        entered = _refusal("__enter__", f"with {word}", NO_WITH, instead.get("__enter__"), NoWithError)
        setattr(cls, "__exit__" if sys.version_info >= (3, 14) else "__enter__", Asked(entered))
    if "__call__" in instead and not _own(cls, "__call__"):
        cls.__call__ = _refusal("__call__", f"{word}({{x}})", UNCALLED, instead["__call__"])  # type: ignore[method-assign, operator]
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
        there = f"the first is {of}[0], the last {of}[{last}]" if last > 0 else f"there is only {of}[0]"
        raise NoElementError(
            f"{of}[{index}] of {len(items)}", because=there if items else "it has none"
        ) from None
    except TypeError:
        raise UnsupportedError(
            f"{of}[{index!r}]", legal="whole numbers from 0, and slices", try_=f"{of}[0]" if items else None
        ) from None


class Listed(list[E]):
    """A list, called ``of`` by users, that says how many there are when it is asked for another, and takes
    elements of a ``kind`` only, where there is one; ``instead`` is how they are made."""

    of = ""
    kind: type = object
    instead: str | None = None

    def __init__(
        self, of: Any = "list", items: Iterable[E] = (), kind: type = object, instead: str | None = None
    ) -> None:
        if not isinstance(of, str):  # type(x)(items), as of any list
            of, items = "list", of
        super().__init__(items)
        self.of = of
        if kind is not object:
            self.kind, self.instead = kind, instead

    def _checked(self, how: str, item: Any) -> Any:
        if not isinstance(item, self.kind):
            raise UnsupportedError(
                f"{self.of}.{how}({_shown(item)}): it lists {self.kind.__name__}s",
                because=f"{_a(type(item).__name__)} came",
                try_=self.instead,
            )
        return item

    def append(self, item: E) -> None:
        list.append(self, self._checked("append", item))

    def insert(self, index: SupportsIndex, item: E) -> None:
        list.insert(self, index, self._checked("insert", item))

    def extend(self, items: Iterable[E]) -> None:
        added = [*items]
        for item in added:
            self._checked("extend", item)
        list.extend(self, added)

    def __setitem__(self, index: Any, item: Any) -> None:
        for one in item if isinstance(index, slice) else [item]:
            self._checked("__setitem__", one)
        list.__setitem__(self, index, item)

    def __getattr__(self, name: str) -> NoReturn:
        raise no_name(self.of, name, "a list")

    def __getitem__(self, index: Any) -> Any:
        try:
            return list.__getitem__(self, index)
        except (IndexError, TypeError):
            return element(self.of, [*self], index)

    def copy(self) -> Listed[E]:
        return Listed(self.of, self, self.kind, self.instead)


class Row(tuple[E, ...]):
    """A tuple, called ``of`` by users, that says how many there are when it is asked for another."""

    of = ""

    def __new__(cls, of: Any, items: Iterable[E] = ()) -> Row[E]:
        if not isinstance(of, str):  # type(x)(items), as of any tuple
            of, items = "tuple", of
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

    def __setitem__(self, index: Any, item: Any) -> NoReturn:
        raise UnsupportedError(
            f"{self.of}[{_shown(index)}] = …: it is a tuple, which stays as it was made",
            try_=f"list({self.of}), a list of one's own",
        )

    def __getattr__(self, name: str) -> NoReturn:
        raise no_name(self.of, name, "a tuple, which stays as it was made")


class Entries(dict[K, E]):
    """A mapping by names, called ``of`` by users, that says which there are when it is asked for another."""

    of = ""

    def __init__(self, of: Any = "mapping", items: Mapping[K, E] | None = None) -> None:
        if not isinstance(of, str):  # type(x)(items), as of any mapping
            of, items = "mapping", of
        super().__init__(items or {})
        self.of = of

    def __missing__(self, name: object) -> NoReturn:
        raise NoEntryError(
            f"{self.of}[{_shown(name)}]: there is none of that name",
            legal=", ".join([*map(repr, self)][:MOST_SHOWN]) or f"{self.of} is empty",
        )

    def __getattr__(self, name: str) -> NoReturn:
        raise no_name(self.of, name, "a mapping", f"{self.of}[{name!r}]" if name in self else None)


class Results(Entries[str, E]):
    """The outputs of a call by name: made in each, so it takes no more than a dict does."""

    of = "engine.run(…)"
    __slots__ = ()
    __init__ = dict.__init__  # type: ignore[assignment]


def name_answers(o: Any, of: str, *names: str) -> None:
    """Let attributes of an object, tuples or mappings, say what there is when they are asked for more; ``of``
    is what users call the object, which may be frozen."""
    for name in names:
        value = getattr(o, name)
        kind: Any = _KINDS.get(type(value))
        if kind is not None:
            object.__setattr__(o, name, kind(f"{of}.{name}", value))


_KINDS: dict[type, Any] = {tuple: Row, list: Listed, dict: Entries}


def name_fields(cls: Any, label: str) -> None:
    """Let the fields of a dataclass that are tuples, lists or mappings say what there is, see above."""
    of, made = _written(label), cls.__init__
    kinds = ("tuple[", "list[", "dict[", "Mapping[", "Sequence[")
    names = [f.name for f in fields(cls) if str(f.type).startswith(kinds)]

    @functools.wraps(made)
    def __init__(self: Any, *args: Any, **named: Any) -> None:
        made(self, *args, **named)
        name_answers(self, of, *names)

    cls.__init__ = __init__


class Elements:
    """An attribute that is a list of public elements, whatever list is put there. See ``Listed``."""

    def __init__(self, of: str, kind: type = object, instead: str | None = None) -> None:
        self.of = of
        self.kind = kind
        self.instead = instead

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
        o.__dict__[self.name] = (
            items if type(items) is Listed else Listed(self.of, items, self.kind, self.instead)
        )


class Asked:
    """A method that is refused when it is looked up, which ``with`` does before it calls any."""

    def __init__(self, refused: Callable[..., NoReturn]) -> None:
        self.refused = refused

    def __get__(self, o: Any, cls: type | None = None) -> NoReturn:
        if o is None:
            raise AttributeError("of a class, not of an object")
        self.refused(o)
        raise AssertionError


def no_name(of: str, name: str, kind: str, instead: str | None = None) -> AttributeError:
    """The error of an attribute that elements called ``of`` do not have. Python's own for what it asks."""
    if name.startswith("_") or name == "of":
        return AttributeError(name)
    has = "names in brackets" if kind == "a mapping" else "indices, slices, len, for loops"
    return NoNameError(
        f"{of} has no {name!r}", because=f"it is {kind}", legal=None if instead else has, try_=instead
    )


def is_function(value: Any) -> bool:
    """Whether it can be called: an object whose calls are refused cannot."""
    call = inspect.getattr_static(type(value), "__call__", None)
    return callable(value) and not hasattr(call, "refuses")


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
        if is_ours(sys._getframe(1)):  # nearly always, and as quickly found out as anything
            return put(self, name, value)  # type: ignore[no-any-return]
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
    if label in CALLED:
        return CALLED[label]
    return (
        label
        if label == label.lower() or not label.isidentifier()
        else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", label).lower()
    )


def _own(cls: type, name: str) -> bool:
    """Whether a class has a method of that name from elsewhere than ``object``."""
    return any(name in vars(c) for c in cls.__mro__ if c is not object)


def _refusal(
    name: str, written: str, why: str, instead: str | None, kind: type[TensorLangError] = UnsupportedError
) -> Callable[..., Any]:
    def refused(self: Any, *args: Any) -> NoReturn:
        cls = type(self)
        raise kind(
            f"{written.format(x=_shown(args[0]) if args else '')}: {_a(cls.__name__)} {why}",
            legal=None if instead else lambda: _offered(cls),
            try_=instead,
        )

    refused.__name__ = name
    refused.refuses = True  # type: ignore[attr-defined]
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
