"""Sizes of a graph: which are the same for every call, and as rows of a table, the form that engines compute
them in. Knows expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import DeclareError
from ..expr import nodes as ast
from ..expr.nodes import Expr, Var
from ..expr.walk import postorder
from ..runtime.size_table import SizeTable

_OPS: dict[type[Expr], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mul: "*",
    ast.FloorDiv: "//",
    ast.FloorMod: "%",
    ast.TruncDiv: "tdiv",
    ast.TruncMod: "tmod",
    ast.Min: "min",
    ast.Max: "max",
    ast.LT: "<",
    ast.LE: "<=",
    ast.EQ: "==",
    ast.NE: "!=",
    ast.And: "and",
    ast.Or: "or",
    ast.Not: "not",
}


class Sizes:
    """A table that is being filled, with the names that dims have in it."""

    def __init__(self) -> None:
        self.table = SizeTable()
        self.names: dict[Var, str] = {}
        self._rows: dict[Expr, int] = {}

    def name(self, dim: Var) -> str:
        """The dim's own name among all, also where two are called the same."""
        found = self.names.get(dim)
        if found is None:
            taken, found = set(self.names.values()), dim.name
            while found in taken:
                found += "_"
            self.names[dim] = found
        return found

    def row(self, e: Expr) -> int:
        """The number of the size's row. Raises DeclareError for what is not arithmetic of sizes."""
        for n in postorder(e, self._rows):
            if n not in self._rows:
                self._rows[n] = self._number(n)
        return self._rows[e]

    def _number(self, e: Expr) -> int:
        if isinstance(e, ast.Const):
            return self.table.add(int(e.value))
        if isinstance(e, Var):
            return self.table.add(self.name(e))
        kids = [self._rows[k] for k in e.children()]
        if isinstance(e, ast.Cast):
            # a table computes in one width: casts between types of sizes change nothing
            return kids[0]
        op = "if" if isinstance(e, ast.Choice) else _OPS.get(type(e))
        if op is None:
            raise DeclareError(
                f"a size of the graph is `{e}`", because=f"{type(e).__name__} is not arithmetic of sizes"
            )
        return self.table.add((op, *kids))


def function(sizes: Sequence[Expr], dims: Sequence[Var]) -> Callable[..., tuple[int, ...]]:
    """``f(*values of dims)`` gives the values of the sizes. Raises DeclareError for a size that depends on
    something else."""
    made = Sizes()
    names = [made.name(d) for d in dims]
    rows = [made.row(e) for e in sizes]
    late = [d for d in made.table.dims(rows) if d not in names]
    if late:
        raise DeclareError(
            f"a size of the graph depends on `{late[0]}`, which is not known", because="no input has it"
        )
    return made.table.function(rows, names)


def same_sizes(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Whether two shapes are the same for every call."""
    return len(a) == len(b) and all(n is m for n, m in zip(a, b, strict=True))
