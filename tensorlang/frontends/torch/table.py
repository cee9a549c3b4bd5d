"""The table of ATen operators: a function and a line for each. Knows no operator, and no torch.

An operator is a function of te tensors with the parameters of ATen's schema in their order: what torch says,
in the words of ``tensorlang.ops``. Tensors come as te tensors, lists of them as lists, sizes as numbers or
expressions, dtypes by name. What says where and how memory lies (device, layout, memory format) is no
parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ... import te
from ...errors import DeclareError
from ...expr.make import as_expr
from ...expr.nodes import const_int

Function = Callable[..., Any]


@dataclass(frozen=True)
class Operator:
    """``name``: torch's, with the overload; ``fn``: its te; ``whole``: it makes operators of the graph;
    ``strided``: it also takes the strides of its first tensor in torch's memory, as ``lies``;
    ``apart``: complex numbers come as two tensors, each made by a node of its own."""

    name: str
    fn: Function
    whole: bool = False
    strided: bool = False
    apart: bool = False


OPERATORS: dict[str, Operator] = {}
# the same for calls that take or make complex numbers: see ``complex_numbers``
OF_COMPLEX: dict[str, Operator] = {}
# of programs that are wholly ours: what is as large as elements say, and what is drawn by chance
OF_PROGRAMS: dict[str, Operator] = {}


class Complex:
    """A tensor of complex numbers as operators see it: ``pairs`` has the two parts of each in a dimension
    more, the last one. In a graph it is what holds the pairs. ``parts`` are the two tensors of its parts,
    where somebody made them; who asks for them has them instead of the pairs."""

    def __init__(self, pairs: Any, parts: tuple[Any, Any] | None = None) -> None:
        self.pairs = pairs
        self.parts = parts


def part_of(pairs: Any, p: int) -> Any:
    """The first numbers of pairs, or the second ones."""
    return te.compute(pairs.shape[:-1], lambda *i: pairs(*i, p), name="imag" if p else "real")


class Apart:
    """Stands for complex numbers that come as two tensors."""


def aten(*names: str, whole: bool = False, strided: bool = False) -> Callable[[Function], Function]:
    """Register a function of te tensors as these operators; ``add.Tensor`` is ``aten.add.Tensor``, and those
    of torch's ``prims`` say so, as do those of other packages: ``package::operator``."""

    return _register(OPERATORS, names, whole, strided)


def of_complex(*names: str, apart: bool = False) -> Callable[[Function], Function]:
    """Register a function as these operators where they take or make complex numbers, ``Complex`` among its
    arguments and results."""
    return _register(OF_COMPLEX, names, False, False, apart)


def of_program(*names: str) -> Callable[[Function], Function]:
    """Register a function, as ``graph_op`` does, as these operators where a program is wholly ours. Its first
    parameter also has ``host`` for functions of arrays, ``said`` for the shapes and dtypes of results."""
    return _register(OF_PROGRAMS, names, True, False)


def _register(
    table: dict[str, Operator], names: tuple[str, ...], whole: bool, strided: bool, apart: bool = False
) -> Callable[[Function], Function]:
    def add(fn: Function) -> Function:
        for name in names:
            full = name if "." in name else f"{name}.default"
            full = full if full.startswith("prims.") or "::" in full else f"aten.{full}"
            full = full.replace("::", ".")
            table[full] = Operator(full, fn, whole, strided, apart)
        return fn

    return add


def graph_op(*names: str) -> Callable[[Function], Function]:
    """Register a function that makes operators of a graph: its first parameter calls a function of te tensors
    on values, as ``Graph.call`` does; the others are ATen's, tensors as values. Of an operator of one result
    it returns the value, of another for each result a function that makes it, of which those are called whose
    results somebody reads: ``asked`` of the first parameter has their numbers."""
    return aten(*names, whole=True)


def needs(holds: bool, otherwise: str) -> None:
    """Raises DeclareError, about a call that an operator does not serve, unless this holds."""
    if not holds:
        raise DeclareError(otherwise)


def known(n: Any, what: str) -> int:
    """A size that must be a number. Raises DeclareError, which says ``what`` it is, for an open one."""
    found = n if isinstance(n, int) else const_int(as_expr(n))
    if found is None:
        raise DeclareError(f"{what} of open size")
    return found


class Placed:
    """A function of te tensors with its arguments in place: for each the name of an attribute, None for a
    tensor, ``Complex`` for one of pairs, ``Apart`` for two of its parts, and for a list of tensors a tuple
    that says the same of each, False where there is none. ``kept`` are the numbers of the results that
    somebody reads, None for all."""

    def __init__(self, fn: Function, order: tuple[Any, ...], kept: tuple[int, ...] | None = None) -> None:
        self.fn = fn
        self.order = order
        self.kept = kept
        self.__name__ = fn.__name__

    def __call__(self, *tensors: Any, **attrs: Any) -> Any:
        given = iter(tensors)
        made = self.fn(*(_argument(what, given, attrs) for what in self.order))
        return _of_pairs(made) if self.kept is None else tuple(_of_pairs(made[i]) for i in self.kept)


def _argument(what: Any, given: Iterator[Any], attrs: dict[str, Any]) -> Any:
    if isinstance(what, str):
        return attrs[what]
    if isinstance(what, tuple):
        return [None if there is False else _argument(there, given, attrs) for there in what]
    if what is Apart:
        return Complex(None, (next(given), next(given)))
    return Complex(next(given)) if what is Complex else next(given)


def _of_pairs(made: Any) -> Any:
    return made.pairs if isinstance(made, Complex) else made
