"""Walks: each node once, nothing rebuilt without need, substitution at the same time for all variables."""

from __future__ import annotations

from tensorlang import te
from tensorlang.core.dtype import INT32
from tensorlang.expr import make
from tensorlang.expr.deep import height
from tensorlang.expr.nodes import Var
from tensorlang.expr.walk import preorder, rewrite, substitute, variables


def test_preorder_gives_each_node_once_and_parents_first():
    i, j = Var("i", INT32), Var("j", INT32)
    shared = i // 3
    e = make.min_(shared * j, shared)
    nodes = list(preorder(e))
    assert nodes[0] is e
    assert len({id(n) for n in nodes}) == len(nodes)
    at = {id(n): x for x, n in enumerate(nodes)}
    assert at[id(shared)] < at[id(i)]


def test_preorder_survives_deep_trees():
    e = make.const(0.0)
    x = Var("x", make.FLOAT32)
    for _ in range(5000):
        e = make.add(e, x)
    assert sum(1 for _ in preorder(e)) == 5002


def test_each_expression_knows_from_birth_how_deep_it_is():
    i, x = Var("i", INT32), Var("x", make.FLOAT32)
    A = te.placeholder((9, 9), name="A")
    k = te.reduce_axis((0, 9), name="k")
    lanes = make.ramp(i * 2, 1, 8)
    choice = make.if_then_else(i < 3, A[i // 2, 5], te.exp(x) * 2.0)
    for e in (x, lanes, make.not_(lanes < 3), choice, make.cast("int64", i % 3), te.sum(A[i, k], k)):
        below = {}
        for node in reversed(
            list(preorder(e))
        ):  # of what is shared the last is not the deepest: until it rests
            below[node] = 0
        for _ in range(len(below)):
            for node in below:
                below[node] = max((below[c] + 1 for c in node.children()), default=0)
        assert all(height(node) == n for node, n in below.items())
    deep = x
    for _ in range(3000):
        deep = make.add(deep, x)
    assert height(deep) == 3000


def test_variables():
    i, j = Var("i", INT32), Var("i", INT32)
    A = te.placeholder((9,), name="A")
    assert variables(A[i + 1] * 2.0) == frozenset([i])
    assert variables(make.if_then_else(i < j, i, 0)) == frozenset([i, j])
    assert variables(make.const(3)) == frozenset()


def test_substitution_is_simultaneous():
    i, j = Var("i", INT32), Var("j", INT32)
    assert substitute(i * 8 + j, {i: j, j: i}) is j * 8 + i
    assert substitute(i + j, {i: -j}) is make.const(0)
    e = make.min_(i, 4)
    assert substitute(e, {j: i}) is e and substitute(e, {}) is e


def test_substitution_reaches_indices_conditions_and_casts():
    A = te.placeholder((9, 9), name="A")
    i, j = Var("i", INT32), Var("j", INT32)
    e = make.if_then_else(i < 4, A[i, j].astype("float64"), make.cast("float64", i))
    new = substitute(e, {i: j + 1})
    assert new is make.if_then_else(j + 1 < 4, A[j + 1, j].astype("float64"), make.cast("float64", j + 1))


def test_rewrite_returns_the_same_node_when_nothing_changes():
    A = te.placeholder((9,), name="A")
    i = Var("i", INT32)
    e = make.if_then_else(i < 4, A[i] * 2.0, 1.0)
    assert rewrite(e, lambda n: None) is e
    two, three = make.const(2.0), make.const(3.0)
    assert rewrite(e, lambda n: three if n is two else None) is make.if_then_else(i < 4, A[i] * 3.0, 1.0)


def test_rewrite_changes_once_what_alike_choices_are_simplified_to():
    """A choice between two reads that become one is that read, which has moved already."""
    A, B = te.placeholder((9, 9), "int32", name="A"), te.placeholder((9, 9), "int32", name="B")
    i, j = Var("i", INT32), Var("j", INT32)

    def moved(e):
        return A[e.indices[0] + 1, 0] if isinstance(e, te.TensorRead) else None

    for e in (
        te.select(i < 3, A[i, j], A[i, j - 1]),
        te.if_then_else(i < j, te.select(i < 3, A[i, j], A[i, j - 1]), A[i, 0]),
        te.max(te.max(A[i, j], B[i, j]), A[i, j - 1]),
        A[i, j] - A[i, j - 1] + B[i, j],
    ):
        assert rewrite(e, moved) is A[i + 1, 0]
