"""A Python function of te tensors as a graph: it is called once, and each operator of ``tensorlang.ops`` that
it calls, and each ``a + b`` of whole tensors, becomes a node. Knows programs and the boundary of public
functions, through which such calls go; no operator.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from typing import Any

from .. import boundary
from ..te import Tensor
from .graph import Program, Value, listed

OPERATORS = ("tensorlang.ops", "tensorlang.te.whole")
OWN = ("op", "name", "outputs")  # words of Program.call, which an operator may have too


def trace(graph: Program, fn: Callable[..., Any], values: list[Value]) -> list[Value]:
    """The results of ``fn`` of these values, with its operators as nodes of the graph. Where it declares
    something by ``te.compute`` itself, all of it is one node."""
    known = {v.tensor: v for v in values}
    before = len(graph.nodes)
    watch = _Watch(graph, known)
    boundary.WATCHERS.append(watch)
    try:
        made = fn(*(v.tensor for v in values))
        return [watch.value(t) for t in listed(made)]
    except _Declared:
        del graph.nodes[before:]
    finally:
        boundary.WATCHERS.remove(watch)
    return listed(graph.call(fn, *values))


class _Declared(Exception):
    """A tensor was met that no operator made."""


class _Watch:
    """Makes nodes of the calls of one thread. ``known`` are the tensors that stand for values."""

    def __init__(self, graph: Program, known: dict[Tensor, Value]) -> None:
        self.graph = graph
        self.known = known
        self.thread = threading.get_ident()
        self.inside = False  # of an operator, which calls others

    def __call__(self, f: Callable[..., Any], args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        if self.inside or threading.get_ident() != self.thread or not f.__module__.startswith(OPERATORS):
            return NotImplemented
        try:
            given = inspect.signature(f).bind(*args, **named)
        except TypeError:
            return NotImplemented  # the call itself says what is wrong
        self.inside = True
        try:
            made = self._node(f, given.arguments)
        finally:
            self.inside = False
        return tuple(map(self._tensor, made)) if isinstance(made, tuple) else self._tensor(made)

    def value(self, t: Any) -> Value:
        """What a tensor stands for."""
        found = self.known.get(t) if isinstance(t, Tensor) else None
        if found is None:
            raise _Declared
        return found

    def _tensor(self, v: Value) -> Tensor:
        self.known[v.tensor] = v
        return v.tensor

    def _node(self, f: Callable[..., Any], given: Mapping[str, Any]) -> Any:
        values: list[Value] = []
        layout = {k: self._placed(x, values) for k, x in given.items()}
        attrs = {k: x for k, x in layout.items() if not _places(x) and k not in OWN}
        layout = {k: x for k, x in layout.items() if k not in attrs}
        first = list(inspect.signature(f).parameters.values())[: len(layout)]
        plain = all(isinstance(x, _Place) for x in layout.values()) and list(layout) == [
            p.name for p in first
        ]
        fn = f if plain and all(p.kind is not p.VAR_POSITIONAL for p in first) else _Spread(f, layout)
        return self.graph.call(fn, *values, op=f.__name__.strip("_"), **attrs)

    def _placed(self, x: Any, values: list[Value]) -> Any:
        """An argument with the places of inputs for its tensors."""
        if isinstance(x, Tensor):
            values.append(self.value(x))
            return _Place(len(values) - 1)
        if type(x) in (list, tuple):
            return type(x)(self._placed(y, values) for y in x)
        return x


class _Place(int):
    """The place of a tensor among the inputs of a node."""


def _places(x: Any) -> bool:
    return isinstance(x, _Place) or (type(x) in (list, tuple) and any(map(_places, x)))


class _Spread:
    """A function of tensors that calls an operator with each where it stood: in a list, or behind a word."""

    def __init__(self, f: Callable[..., Any], layout: Mapping[str, Any]) -> None:
        self.f = f
        self.layout = dict(layout)
        self.__name__ = f.__name__

    def __call__(self, *tensors: Any, **attrs: Any) -> Any:
        def filled(x: Any) -> Any:
            if isinstance(x, _Place):
                return tensors[x]
            return type(x)(map(filled, x)) if _places(x) else x

        given = inspect.signature(self.f).bind_partial()
        given.arguments = {**{k: filled(x) for k, x in self.layout.items()}, **attrs}
        order = list(inspect.signature(self.f).parameters)
        given.arguments = dict(sorted(given.arguments.items(), key=lambda pair: order.index(pair[0])))
        return self.f(*given.args, **given.kwargs)
