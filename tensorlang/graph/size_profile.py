"""Which sizes will come: bounds of open sizes, as ``compile(profile=…)`` takes them, and a program for them.
Knows graphs; nothing of kernels.

A size with one value is a number from there on, in every shape and attribute; one with bounds is a dim that
has them, so kernels are declared with them and calls are checked.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arith.facts import Facts
from ..arith.simplify import simplify_expr
from ..errors import DeclareError
from ..expr.make import const
from ..expr.nodes import Expr, Var, const_int
from ..expr.walk import substitute, variables
from ..te import dim
from .graph import Node, Opaque, Program, Value
from .passes.rewrite import remade

Substitution = Mapping[Var, Expr]
EXAMPLE = 'profile={"batch": (1, 1, 16), "length": 128}, or by inputs {"x": [(1, 1, 8), 3, None]}'


def substitution(graph: Program, dims: Mapping[str, Var], profile: Mapping[str, Any]) -> dict[Var, Expr]:
    """What stands for each dim that the profile speaks of. ``dims`` are those of the graph by the names that
    users know them by. Raises DeclareError for a profile that contradicts the graph or itself.
    """
    found: dict[Var, tuple[Bounds, str]] = {}
    inputs = {v.name: v for v in graph.inputs}
    for name, given in profile.items():
        # a list is the sizes of an input, also where a dim has the same name
        if name in dims and not (name in inputs and isinstance(given, list)):
            _add(found, dims[name], _bounds(repr(name), given), f"{name!r}")
        elif name in inputs:
            _of_input(found, inputs[name], given, {d: n for n, d in dims.items()})
        else:
            legal = f"open sizes {', '.join(dims) or '(none)'}; inputs {', '.join(inputs)}"
            raise DeclareError(
                f"profile: {name!r} is neither an open size nor an input", legal=legal, try_=EXAMPLE
            )
    return {d: _size(d, b, where) for d, (b, where) in found.items() if b is not None}


Bounds = tuple[int, int | None, int] | None  # least, usual, most; None: as it is


def _bounds(where: str, given: Any) -> Bounds:
    """A number, (least, most) or (least, usual, most)."""
    if given is None:
        return None
    numbers = list(given) if isinstance(given, tuple | list) else [given]
    if not all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in numbers) or not (
        1 <= len(numbers) <= 3
    ):
        raise DeclareError(f"profile[{where}] = {given!r} is neither a size nor bounds of one", try_=EXAMPLE)
    numbers = [int(n) for n in numbers]
    if numbers != sorted(numbers) or numbers[0] < 0:
        right = sorted(max(0, n) for n in numbers)
        raise DeclareError(
            f"profile[{where}] = {given!r}: "
            + ("less than 0" if len(numbers) == 1 else "the bounds are not in order"),
            because="sizes are at least 0, and bounds are (least, usual, most)",
            try_=f"{right[0] if len(right) == 1 else tuple(right)}",
        )
    return numbers[0], numbers[1] if len(numbers) == 3 else None, numbers[-1]


def _of_input(found: dict[Var, tuple[Bounds, str]], v: Value, given: Any, names: Mapping[Var, str]) -> None:
    """What the sizes of an input tell of the dims in its shape."""
    shape = v.shape
    if isinstance(v, Opaque) or not isinstance(given, list | tuple) or len(given) != len(shape):
        raise DeclareError(
            f"profile[{v.name!r}] = {given!r} does not have the form of the input",
            because=f"it is {v!r}",
            try_="a list with an entry for each dimension: a size, bounds, or None for what stays open",
        )
    for axis, (n, entry) in enumerate(zip(shape, given, strict=True)):
        where = f"{v.name!r}][{axis}"
        bounds, fixed = _bounds(where, entry), const_int(n)
        if bounds is None:
            continue
        if isinstance(n, Var):
            _add(found, n, bounds, f"{v.name!r}, dimension {axis}")
        # a size such as 2 n: bounds of it would have to be divided, and may not be whole
        elif fixed is None:
            unknown = ", ".join(names.get(d, d.name) for d in sorted(variables(n), key=str))
            raise DeclareError(
                f"profile[{where}]: the size is `{n}`",
                because="bounds are those of dims",
                try_=f"bounds of {unknown}",
            )
        elif not bounds[0] <= fixed <= bounds[2]:
            raise DeclareError(f"profile[{where}] = {entry!r}, and the graph says {fixed}")


def _add(found: dict[Var, tuple[Bounds, str]], d: Var, bounds: Bounds, where: str) -> None:
    """Note bounds of a dim; those given twice hold together."""
    before, first = found.get(d, (None, where))
    if before is not None and bounds is not None:
        low, high = max(before[0], bounds[0]), min(before[2], bounds[2])
        # the later one counts, as long as it lies in both
        usual = next((u for u in (bounds[1], before[1]) if u is not None and low <= u <= high), None)
        if low > high:
            raise DeclareError(
                f"profile: {first} and {where} are the same size, {d.name}",
                because=f"no number is in {before[0]}..{before[2]} and in {bounds[0]}..{bounds[2]}",
            )
        bounds = low, usual, high
    found[d] = (before if bounds is None else bounds), first


def _size(d: Var, bounds: Bounds, where: str) -> Expr:
    """The number or the dim that stands for ``d``."""
    assert bounds is not None
    low, usual, high = bounds
    first, last = d.lo or 0, d.hi
    countable = int(np.iinfo(str(d.dtype)).max)
    if last is None and high > countable:
        raise DeclareError(
            f"profile: {where} is {low if low == high else f'{low}..{high}'}",
            because=f"{d.name} is counted in {d.dtype}, so it is at most {countable}",
        )
    if low < first or (last is not None and high > last) or (low == high and low % d.multiple_of):
        facts = f"at least {first}" + (f", at most {last}" if last is not None else "")
        facts += f", a multiple of {d.multiple_of}" if d.multiple_of > 1 else ""
        raise DeclareError(
            f"profile: {where} is {low if low == high else f'{low}..{high}'}",
            because=f"the graph says that {d.name} is {facts}",
        )
    return const(low, d.dtype) if low == high else dim(d.name, low, high, d.multiple_of, usual, d.dtype)


def replaced(x: Any, sizes: Substitution) -> Any:
    """An attribute or a size with what stands for the dims in it."""
    if isinstance(x, Expr):
        return simplify_expr(substitute(x, sizes), Facts())
    if isinstance(x, list | tuple):
        return type(x)(replaced(y, sizes) for y in x)
    if isinstance(x, np.ndarray) and x.dtype == object:
        # the None keeps numpy from looking into elements that may be sequences themselves
        return np.array([replaced(y, sizes) for y in x.reshape(-1)] + [None], object)[:-1].reshape(x.shape)
    return x


def called_again(graph: Program, sizes: Substitution) -> Program:
    """The program for other sizes: each operator called once more, so that shapes follow. Raises DeclareError
    where an operator refuses them."""
    new = copy.copy(graph)
    found: dict[Value, Value] = {}
    for v in graph.inputs:
        found[v] = _like(v, replaced(list(v.shape), sizes), None)
    new.inputs = [found[v] for v in graph.inputs]
    new.declared = {found[v]: tuple(replaced(list(n), sizes)) for v, n in graph.declared.items()}
    new.nodes = [_again(n, found, sizes) for n in graph.nodes]
    new.outputs = [found.get(v, v) for v in graph.outputs]
    pairs = [(replaced(a, sizes), replaced(b, sizes)) for a, b in graph.assumed]
    for (a, b), (was, _) in zip(pairs, graph.assumed, strict=True):
        # two numbers that differ: this graph was made for the sizes being equal
        if a is not b and const_int(a) is not None and const_int(b) is not None:
            raise DeclareError(f"profile: {was} is {a}, and this part of {graph.name} is for {b}")
    new.assumed = [(a, b) for a, b in pairs if a is not b]
    return new


def _like(v: Value, shape: Sequence[Any], node: Node | None) -> Value:
    if isinstance(v, Opaque):
        return Opaque(v.name, v.what, node, v.declared)
    return Value(v.name, shape, v.dtype, node)


def _again(n: Node, found: dict[Value, Value], sizes: Substitution) -> Node:
    given = [None if v is None else found.get(v, v) for v in n.inputs]
    node = remade(n, given, attrs={k: replaced(x, sizes) for k, x in n.attrs.items()})
    if n.kind == "te":
        shapes = [[simplify_expr(s, Facts()) for s in t.shape] for t in node.results]
    else:
        shapes = [replaced(list(v.shape), sizes) for v in n.outputs]
    node.outputs = [_like(v, shape, node) for v, shape in zip(n.outputs, shapes, strict=True)]
    found.update(zip(n.outputs, node.outputs, strict=True))
    return node
