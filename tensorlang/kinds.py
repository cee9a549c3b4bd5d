"""Annotations as kinds of values: whether a value is of one, and how it is called. Knows Python's types."""

from __future__ import annotations

import collections.abc
import numbers
import operator
import os
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from .errors import TensorLangError
from .protocols import is_function


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of the kind that an annotation names. What cannot be known fits."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if kind is None or kind is type(None):
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, k) for k in inner)
    if origin is Literal:
        return value in inner
    if kind is float:
        return isinstance(value, numbers.Real) and not isinstance(value, bool)
    if kind is int:
        return not isinstance(value, bool) and _whole(value)
    if kind is bool:
        return (
            isinstance(value, bool)
            or type(value).__name__ == "bool"
            or (isinstance(value, numbers.Integral) and value in (0, 1))
        )
    if kind is Path:
        return isinstance(value, os.PathLike)
    if origin is collections.abc.Callable:
        return is_function(value)
    if origin in (collections.abc.Sequence, list, tuple):
        if isinstance(value, list | tuple):
            return origin is tuple or all(fits(v, inner[0]) for v in value[:1000])
        if type(value).__module__.partition(".")[0] in (__package__, "autosched"):
            return False  # A[i] is an element, and a tensor no list
        return not isinstance(value, str | bytes | Mapping) and hasattr(value, "__getitem__")
    if origin in (collections.abc.Mapping, dict):
        return isinstance(value, Mapping)
    if origin is None and isinstance(kind, type) and kind.__module__ != "typing":  # of TextIO there are none
        protocol = getattr(kind, "_is_protocol", False)
        return all(hasattr(value, n) for n in _asked(kind)) if protocol else isinstance(value, kind)
    return True


def by_type(kind: Any) -> bool:
    """Whether the type of a value says whether it fits, of a class or several."""
    if isinstance(kind, types.UnionType):
        return all(map(by_type, kind.__args__))
    return kind in (str, None, types.NoneType) or (
        isinstance(kind, type)
        and typing.get_origin(kind) is None
        and kind not in (float, int, bool, Path)
        and not getattr(kind, "_is_protocol", False)
    )


def _asked(kind: Any) -> list[str]:
    """The methods by which a protocol knows its objects; none for any other class."""
    if not getattr(kind, "_is_protocol", False):
        return []
    return sorted(n for c in kind.__mro__ for n in vars(c) if callable(vars(c)[n]) and _named(c, n))


def _named(cls: type, name: str) -> bool:
    return getattr(cls, "_is_protocol", False) and (not name.startswith("_") or name == "__index__")


def _whole(value: Any) -> bool:
    try:
        operator.index(value)
    except (TypeError, TensorLangError):
        return False
    return True


def described(kind: Any) -> str:
    """An annotation in words."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(described(k) for k in inner))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    words = {
        int: "an int",
        float: "a number",
        str: "text",
        bool: "True or False",
        Path: "a path",
        None: "None",
    }
    if kind is type(None):
        return "None"
    if origin is collections.abc.Callable:
        return "a function"
    if _asked(kind):
        return f"an object with {', '.join(_asked(kind))}"
    if origin in (collections.abc.Sequence, list, tuple):
        known = inner and isinstance(inner[0], type) and inner[0] is not Any
        either = inner and typing.get_origin(inner[0]) in (typing.Union, types.UnionType)
        return (
            f"a list of {inner[0].__name__}s"
            if known
            else f"a list, each {described(inner[0])}"
            if either
            else "a list"
        )
    if origin in (collections.abc.Mapping, dict):
        return "a mapping"
    return words.get(kind) or with_article(getattr(kind, "__name__", str(kind)))


def with_article(word: str) -> str:
    """A word behind `a` or `an`."""
    return f"{'an' if word[:1].lower() in 'aeiou' or word == 'ndarray' else 'a'} {word}"
