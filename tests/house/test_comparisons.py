"""``==`` between expressions builds a comparison and has no truth: outside of te, which declares
computations, nobody compares expressions or tuples of them so. What an expression is, is seen by the names of
the fields that hold them, as far as a function passes them on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.source import PACKAGES, none, parsed, python_files, relative

FIELDS = {"indices", "extent", "var", "body", "condition", "sources", "shape", "strides", "dom", "leaves"}
EQUAL = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
TYPES = {"Expr", "Var", "tuple[Expr, ...]", "list[Expr]", "Sequence[Expr]"}
# where what == gives is what is meant, where nodes are the subject, and where no expression comes
AT_HOME = (
    "tensorlang/te/",
    "tensorlang/expr/",
    "tensorlang/arith/",
    "tensorlang/runtime/",
    "tensorlang/native/",
)
ARRAYS = {  # shapes of arrays, of torch's tensors, and of rows of features: numbers
    "a.shape != b.shape",
    "bias.meta['val'].shape != n.meta['val'].shape[1:]",
    "less.shape[axis] == less.size",
    "width != x.shape[-1]",
    "array.shape != wanted",
    "self.base.num_features() == table.shape[1]",
    "slower.shape[1] == 2",
    "self.strides[d] == 1",  # of a window
    "shape == guess.shape",
    "v.data.shape[place] != size",
    "packing.sources == packing.tensors",  # tensors, which are equal when they are the same
}


def comparisons(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The comparisons by ``==``, ``!=`` and ``in`` that have an expression, or a tuple of them, on a side:
    line and text."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    for f in functions:
        nodes = list(ast.walk(f))
        compared = [n for n in nodes if isinstance(n, ast.Compare) and any(type(op) in EQUAL for op in n.ops)]
        names = _holders(f, nodes) if compared else set()
        for n in compared:
            sides = [n.left, *n.comparators]
            for op, a, b in zip(n.ops, sides, sides[1:], strict=False):
                equal = isinstance(op, ast.Eq | ast.NotEq) and (_holds(a, names) or _holds(b, names))
                if equal or (isinstance(op, ast.In | ast.NotIn) and _holds(b, names)):
                    yield n.lineno, ast.unparse(n)


def _holders(f: ast.FunctionDef, nodes: list[ast.AST]) -> set[str]:
    """The names in a function, whose nodes are given, that stand for expressions or tuples of them."""
    names = {a.arg for a in f.args.args if a.annotation is not None and ast.unparse(a.annotation) in TYPES}
    binding = [n for n in nodes if isinstance(n, ast.Assign | ast.comprehension | ast.For)]
    for _ in range(3):  # a name may be given on twice
        for n in binding:
            if isinstance(n, ast.Assign) and _holds(n.value, names):
                names |= {t.id for t in n.targets if isinstance(t, ast.Name)}
            if isinstance(n, ast.comprehension | ast.For):
                if _holds(n.iter, names):
                    names |= {t.id for t in ast.walk(n.target) if isinstance(t, ast.Name)}
                elif (
                    isinstance(n.iter, ast.Attribute)
                    and n.iter.attr == "plain"
                    and isinstance(n.target, ast.Tuple)
                ):
                    names |= {
                        t.id for t in n.target.elts[1:] if isinstance(t, ast.Name)
                    }  # of (tensor, indices)
    return names


def _holds(e: ast.expr, names: set[str]) -> bool:
    if isinstance(e, ast.Attribute):
        return e.attr in FIELDS
    if isinstance(e, ast.Name):
        return e.id in names
    if isinstance(e, ast.Subscript | ast.Starred):
        return _holds(e.value, names)
    if isinstance(e, ast.Tuple | ast.List):
        return any(_holds(x, names) for x in e.elts)
    if isinstance(e, ast.GeneratorExp | ast.ListComp):
        return _holds(e.elt, names)
    return (
        isinstance(e, ast.Call)
        and isinstance(e.func, ast.Name)
        and e.func.id in ("tuple", "list")
        and bool(e.args)
        and _holds(e.args[0], names)
    )


def test_expressions_are_not_compared_by_equals():
    none(
        f"{relative(p)}:{line}: `{text}`: what has no truth is compared; expressions are interned, `is` says whether two are the same"
        for p in python_files(*PACKAGES)
        if not relative(p).startswith(AT_HOME)
        for line, text in comparisons(parsed(p))
        if text not in ARRAYS
    )


@pytest.mark.parametrize(
    "text",
    [
        "def f(out, s):\n place = tuple(a.var for a in out.op.axis)\n return all(indices == place for t, indices in reads_of(out.op).plain)",
        "def f(a, b):\n return a.extent != b.extent",
        "def f(a, b):\n return a.shape[0] == b",
        "def f(index: Expr, others):\n return index == others",
        "def f(axes, v):\n return v in [a.var for a in axes]",
        "def f(stage, loop):\n return loop in stage.leaves",
    ],
)
def test_the_lint_sees(text):
    assert list(comparisons(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "def f(a, b):\n return a.extent is b.extent",
        "def f(a, b):\n return len(a.shape) == 2",
        "def f(a, b):\n return constant(a.extent) == constant(b.extent)",
    ],
)
def test_the_lint_lets_pass(text):
    assert not list(comparisons(ast.parse(text)))
