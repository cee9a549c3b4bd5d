"""The table of ONNX operators: a function and a line for each. Knows no operator.

Most are functions of te tensors (``te_op``): what ONNX says, in the words of ``tensorlang.ops``. Inputs come
by position (None for one left out), attributes by name; a function that has a parameter ``opset`` gets the
version of the operator set, one with ``results`` how many outputs the node names. ``values`` are the
positions of inputs whose elements must be known while the graph is made, such as the target of a Reshape:
these come as lists of numbers and size expressions. An operator that te cannot say gets the importer
(``graph_op``). ``stored`` are the positions of a zero point, of a weight and of the weight's zero point,
and the axis that the last goes along: constants of these are taken from each other ahead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MANY = 2**31 - 1


def one(x: Any) -> Any:
    """A value that is one number, be it given as a list of it."""
    return x[0] if isinstance(x, list) else x


@dataclass(frozen=True)
class Operator:
    """``attributes``: their names; ``values``: see above; ``whole``: it gets the importer and the node."""

    name: str
    fn: Callable[..., Any]
    values: tuple[int, ...] = ()
    whole: bool = False
    attributes: tuple[str, ...] = field(default=())
    tells: tuple[str, ...] = ()
    inputs: tuple[int, int] = (0, MANY)  # least and most
    required: tuple[str, ...] = ()  # attributes without a default
    stored: tuple[int | None, int, int, int | None] | None = None


class Placed:
    """A function of te tensors of which some arguments are numbers: they are attributes ``input<i>``."""

    def __init__(self, fn: Callable[..., Any], places: tuple[int, ...]) -> None:
        self.fn = fn
        self.places = places
        self.__name__ = fn.__name__

    def __call__(self, *tensors: Any, **attrs: Any) -> Any:
        given = list(tensors)
        for i in self.places:
            given[i] = attrs.pop(f"input{i}")
        return self.fn(*given, **attrs)


OPERATORS: dict[tuple[str, str], Operator] = {}
ONNX, MICROSOFT = "", "com.microsoft"
_TOLD = ("opset", "results")


def te_op(
    *names: str,
    values: tuple[int, ...] = (),
    domain: str = ONNX,
    stored: tuple[int | None, int, int, int | None] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of te tensors as the operators of these names."""

    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(fn).parameters.values()
        # the signature is the declaration: nothing about an operator is written twice
        words = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        own = [p for p in words if p.name not in _TOLD]
        places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        most = MANY if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(places)
        for name in names:
            OPERATORS[domain, name] = Operator(
                name,
                fn,
                values,
                False,
                tuple(p.name for p in own),
                tuple(p.name for p in words if p.name in _TOLD),
                (sum(p.default is p.empty for p in places), most),
                tuple(p.name for p in own if p.default is p.empty),
                stored,
            )
        return fn

    return add


def graph_op(*names: str, domain: str = ONNX) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of (importer, node), which returns the node's outputs, as these operators."""

    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            OPERATORS[domain, name] = Operator(name, fn, whole=True)
        return fn

    return add


def plain(fn: Callable[..., Any], *names: str, domain: str = ONNX, **attributes: Any) -> None:
    """Register an operator of ``tensorlang.ops`` that means exactly what ONNX says. ``attributes`` are those
    it has, under the names that ``fn`` has too, with ONNX's defaults."""

    def same(*inputs: Any, **given: Any) -> Any:
        return fn(*inputs, **{**attributes, **given})

    # a function of its own for each name, since the table reads signatures, and that of ``fn`` has options
    # that are no attributes
    same.__name__ = fn.__name__
    kinds = inspect.Parameter
    words = [kinds(n, kinds.KEYWORD_ONLY, default=x) for n, x in attributes.items()]
    same.__signature__ = inspect.Signature([kinds("inputs", kinds.VAR_POSITIONAL), *words])  # type: ignore[attr-defined]
    te_op(*names, domain=domain)(same)
