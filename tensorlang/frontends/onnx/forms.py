"""What is opaque, made into values: sequences, optionals, and arrays of any number of dimensions.

The *form* of a thing tells what it is without its elements: an array of whole numbers, 0 for nothing, 1 with
the number of dimensions and the type for an array, 2 with the length and the forms of its parts for a
sequence. A graph that must know it ends with it, and goes on once for each form that occurs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.dtype import KNOWN as TYPES
from ...errors import CallError
from ...graph import Graph, Opaque, Value
from . import narrow

if TYPE_CHECKING:
    from .importer import Importer

KINDS = (*TYPES, *narrow.WIDE)
# a form is numbers, since a graph can ask for an array's elements and for nothing else
NOTHING, ARRAY, SEQUENCE = 0, 1, 2


def form(g: Graph, v: Opaque) -> Value:
    """The form as a value."""
    return g.host(_form, [v], [([None], "int64")], "Form", what=v.what)[0]


def _form(x: Any, what: str) -> np.ndarray:
    return np.array(list(_numbers(x, what)), np.int64)


def _numbers(x: Any, what: str) -> Iterator[int]:
    if x is None:
        yield NOTHING
    elif isinstance(x, list | tuple):
        yield from (SEQUENCE, len(x))
        for part in x:
            yield from _numbers(part, what)
    else:
        a = np.asarray(x)
        if a.dtype.name not in KINDS:
            raise CallError(f"a {what} is given as {type(x).__name__} of {a.dtype}")
        yield from (ARRAY, a.ndim, KINDS.index(a.dtype.name))


def opened(c: Importer, v: Opaque, numbers: Sequence[int]) -> Any:
    """What is opaque as a value, a list or None, for its form. Sizes are open."""
    arrays: list[tuple[int, str]] = []
    tree = _tree(iter(numbers), arrays)
    if not arrays:
        return tree
    results: list[Any] = [kind if kind in narrow.WIDE else ([None] * rank, kind) for rank, kind in arrays]
    found = c.g.host(_leaves, [v], results, "Open")
    values = []
    for leaf, (rank, _) in zip(found, arrays, strict=True):
        if isinstance(leaf, Opaque):
            # of few bits: it stays opaque until something asks for its numbers
            leaf.declared = (None,) * rank
        values.append(c.widened(leaf) if isinstance(leaf, Opaque) else leaf)
    return mapped(tree, values.__getitem__)


def _tree(numbers: Iterator[int], arrays: list[tuple[int, str]]) -> Any:
    """Lists of the numbers of arrays."""
    which = next(numbers)
    if which == SEQUENCE:
        return [_tree(numbers, arrays) for _ in range(next(numbers))]
    if which == NOTHING:
        return None
    arrays.append((next(numbers), KINDS[next(numbers)]))
    return len(arrays) - 1


def _leaves(x: Any) -> tuple[Any, ...]:
    return tuple(np.asarray(leaf) if isinstance(leaf, np.generic) else leaf for leaf in leaves(x))


def leaves(x: Any) -> Iterator[Any]:
    """What is in sequences in sequences; None is nothing."""
    if isinstance(x, list | tuple):
        for part in x:
            yield from leaves(part)
    elif x is not None:
        yield x


def mapped(x: Any, f: Callable[[Any], Any]) -> Any:
    """The same sequences with ``f`` of what is in them; None stays."""
    if isinstance(x, list):
        return [mapped(part, f) for part in x]
    return None if x is None else f(x)


def packed(c: Importer, x: Any) -> Value:
    """A list of values, or None, as one opaque value."""
    values = list(leaves(x))
    numbers = {id(v): i for i, v in enumerate(values)}
    tree = mapped(x, lambda v: numbers[id(v)])

    def pack(*arrays: Any) -> Any:
        # in a tuple: a list alone would be taken for several results
        return (mapped(tree, arrays.__getitem__),)

    what = "optional" if x is None else "sequence"
    return c.g.host(pack, [c.shown(v) for v in values], [what], "Pack")[0]
