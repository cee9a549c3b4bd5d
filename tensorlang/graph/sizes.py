"""Sizes of a graph as numbers: expressions over dims made into one Python function. Knows expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import DeclareError
from ..expr import nodes as ast
from ..expr.nodes import Expr, Var

_INFIX: dict[type[Expr], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mul: "*",
    ast.FloorDiv: "//",
    ast.FloorMod: "%",
    ast.And: "and",
    ast.Or: "or",
}
_NAMED: dict[type[Expr], str] = {ast.Min: "min", ast.Max: "max", ast.TruncDiv: "tdiv", ast.TruncMod: "tmod"}


def function(sizes: Sequence[Expr], dims: Sequence[Var]) -> Callable[..., tuple[int, ...]]:
    """``f(*values of dims)`` gives the values of the sizes. Raises DeclareError for a size that depends on
    something else."""
    names = {d: f"d{i}" for i, d in enumerate(dims)}
    text = ", ".join(
        f"int({_text(e, names)})" if not isinstance(e, ast.Const) else str(int(e.value)) for e in sizes
    )
    scope = {"tdiv": _tdiv, "tmod": lambda a, b: a - b * _tdiv(a, b)}
    return eval(f"lambda {', '.join(names.values())}: ({text}{',' if sizes else ''})", scope)  # type: ignore[no-any-return]


def _tdiv(a: int, b: int) -> int:
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def _text(e: Expr, names: dict[Var, str]) -> str:
    if isinstance(e, ast.Const):
        return repr(e.value)
    if isinstance(e, Var):
        if e not in names:
            raise DeclareError(
                f"a size of the graph depends on `{e.name}`, which is not known", because="no input has it"
            )
        return names[e]
    if isinstance(e, ast.Cast):
        return f"int({_text(e.a, names)})"
    kids = [_text(k, names) for k in e.children()]
    op = _INFIX.get(type(e))
    if op is not None:
        return f"({kids[0]} {op} {kids[1]})"
    if type(e) in _NAMED:
        return f"{_NAMED[type(e)]}({', '.join(kids)})"
    if isinstance(e, ast.Compare):
        return f"({kids[0]} {e.symbol} {kids[1]})"
    if isinstance(e, ast.Choice):
        return f"({kids[1]} if {kids[0]} else {kids[2]})"
    if isinstance(e, ast.Not):
        return f"(not {kids[0]})"
    raise DeclareError(
        f"a size of the graph is `{e}`", because=f"{type(e).__name__} is no arithmetic of sizes"
    )
