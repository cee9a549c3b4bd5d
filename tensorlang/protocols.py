"""What Python's own syntax gets from objects that have no answer to it: ``f[0]``, ``for q in f``,
``len(engine)``, ``s + 1``, ``timing < 3``, ``pickle.dumps(s)``; and elements where there are some.

``refuse`` gives a class those methods of a table that it lacks; each raises an error of ours that is a
TypeError too, so that whoever tries and falls back (``operator.length_hint``, numpy) goes on as before. What
would make an object pass for a function, an iterator, a context manager or a number is left to Python's own
TypeError. Knows errors only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from .errors import TensorLangError

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


def refuse(cls: type, label: str, instead: Mapping[str, str]) -> None:
    """Give a class the methods of syntax that it lacks, each a refusal. ``label`` is what users call an
    object; ``instead`` what to try, by method, and under "pickle" where objects, which never change or copy
    themselves, are not pickled."""
    word = label if label == label.lower() else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", label).lower()
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
    names = [n for n in dir(cls) if not n.startswith("_")]
    names.sort(key=lambda n: not callable(getattr(cls, n, None)))
    return f".{', .'.join(names[:MOST_SHOWN])}{', …' if len(names) > MOST_SHOWN else ''}" if names else ""


def _shown(x: Any) -> str:
    text = repr(x) if isinstance(x, int | float | str) else "…"
    return text if len(text) <= 40 else "…"


def _a(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"
