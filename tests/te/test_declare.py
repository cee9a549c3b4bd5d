"""What a user declares: shapes, dtypes and names as they come out, and every mistake with its message."""

from __future__ import annotations

import pytest

from tensorlang import te
from tensorlang.core.dtype import FLOAT32, INT32, INT64
from tensorlang.errors import DeclareError
from tensorlang.expr import make
from tensorlang.expr.nodes import const_int
from tensorlang.te.axis import dims_of
from tensorlang.te.graph import inputs, operations
from tensorlang.te.reducers import SUM, Reduce
from tensorlang.te.tensor import ComputeOp, PlaceholderOp, TensorSlice, tensors_read


def shape_of(t):
    return tuple(const_int(s) for s in t.shape)


A = te.placeholder((4, 8), name="A")
I = te.placeholder((8,), "int32", "I")
k = te.reduce_axis((0, 8), "k")


# --- what comes out -------------------------------------------------------------------------------------------------------------

def test_placeholder():
    assert A.name == "A" and A.dtype is FLOAT32 and shape_of(A) == (4, 8) and A.ndim == 2
    assert type(A.op) is PlaceholderOp and A.op.outputs == (A,) and A.op.output(0) is A and A.op.num_outputs == 1
    assert repr(A) == "Tensor(A: float32[4, 8])"
    assert te.placeholder(5).ndim == 1 and te.placeholder((), "int8").shape == ()
    assert te.placeholder((0, 3)).shape[0] is make.const(0)


def test_compute_takes_its_axis_names_from_the_function():
    C = te.compute((4, 8), lambda row, col: A[row, col] * 2.0, name="C")
    assert type(C.op) is ComputeOp and [a.name for a in C.op.axis] == ["row", "col"] and C.op.reduce_axis == ()
    assert [const_int(a.extent) for a in C.op.axis] == [4, 8] and {a.kind for a in C.op.axis} == {"data"}
    assert str(C.op.body[0]) == "A[row, col] * 2.0"
    D = te.compute((4, 8), lambda *i: A(*i) + 1.0)
    assert [a.name for a in D.op.axis] == ["i0", "i1"]
    E = te.compute((4, 8), lambda i, *rest: A(i, *rest))
    assert [a.name for a in E.op.axis] == ["i", "i1"]


def test_compute_of_rank_zero_of_a_number_and_of_a_tensor():
    s = te.compute((), lambda: 3)
    assert s.shape == () and s.dtype is INT32
    assert te.compute((2,), lambda i: s).op.input_tensors == (s,)
    assert te.compute((8,), lambda i: A[1][i]).op.input_tensors == (A,)


def test_compute_with_several_outputs():
    S, D = te.compute((8,), lambda i: (I[i] + 1, A[0, i]), name="both")
    assert S.op is D.op and (S.value_index, D.value_index) == (0, 1) and (S.dtype, D.dtype) == (INT32, FLOAT32)
    assert (S.name, D.name) == ("both.v0", "both.v1")


def test_notes_are_kept():
    C = te.compute((4,), lambda i: A[i, 0], tag="injective", attrs={"layout": "NCHW"})
    assert C.op.tag == "injective" and C.op.attrs == {"layout": "NCHW"}


def test_reduction():
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C")
    (body,) = C.op.body
    assert type(body) is Reduce and body.reducer is SUM and C.op.reduce_axis == (k,) and body.condition is None
    assert [str(s) for s in body.start()] == ["0.0"]
    assert str(body) == "sum(A[i, k], axis=[k])"
    assert (te.max(A[0, k], axis=k).start()[0].value, te.min(A[0, k], axis=k).start()[0].value) == (float("-inf"), float("inf"))
    assert te.max(I[k], axis=k).start()[0].value == -2**31
    assert te.sum(I[k], axis=k, init=3).start()[0] is make.const(3)
    assert str(te.sum(I[k], axis=[k], where=k > 2)) == "sum(I[k], axis=[k], where=2 < k)"


def test_min_and_max_without_axes_are_elementwise():
    i = te.var("i")
    assert te.max(i, 0) is make.max_(i, 0) and te.min(A[0, i], 1.0) is make.min_(A[0, i], 1.0)


def test_custom_reducer_substitutes():
    best = te.comm_reducer(lambda x, y: (te.select(x[1] < y[1], y[0], x[0]), te.max(x[1], y[1])),
                           lambda a, b: (0, te.min_value(b)), name="best")
    index, value = te.compute((4,), lambda i: best((k.var, A[i, k]), axis=k), name="argmax")
    assert (index.dtype, value.dtype) == (INT32, FLOAT32)
    first, second = index.op.body
    assert first.reducer is second.reducer and (first.index, second.index) == (0, 1)
    i = te.var("i")
    assert str(first.reducer.combine((i, A[0, 0]), (i + 1, A[0, 1]))[1]) == "max(A[0, 0], A[0, 1])"


def test_reduce_axis_with_a_begin_and_symbols():
    n = te.var("n")
    r = te.reduce_axis((2, n), "r")
    assert r.dom[0] is make.const(2) and r.extent is n - 2 and r.kind == "reduce" and r.name == "r"
    assert te.reduce_axis((0, make.const(5, "int64"))).dtype is INT32
    assert te.reduce_axis((0, te.var("m", "int64"))).dtype is INT64
    assert const_int(te.reduce_axis((3, 3)).extent) == 0


def test_symbolic_sizes():
    n, m = te.size_var("n"), te.dim("m", 1, 64, multiple_of=4, hint=16)
    assert (n.lo, n.hi, n.kind) == (0, None, "dim")
    assert (m.lo, m.hi, m.multiple_of, m.hint) == (1, 64, 4, 16)
    assert te.var("alpha", "float32").kind == "value"
    B = te.placeholder((n, m * 2 + 1), name="B")
    assert dims_of(*B.shape) == (n, m)
    C = te.compute((n,), lambda i: B[i, m], name="C")
    assert C.shape == (n,) and C.op.axis[0].extent is n


def test_elements():
    i = te.var("i")
    assert A[i, 3] is A(i, 3)
    assert type(A[i]) is TensorSlice and A[i][3] is A[i, 3] and repr(A[i]) == "A[i, …]"
    assert (I[i] + A[0, I[i]]).dtype is FLOAT32
    assert tensors_read((A[0, I[i]],)) == (A, I)


def test_graph_orders_producers_before_consumers():
    B = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((4, 8), lambda i, j: B[i, j] * A[i, j], name="C")
    D = te.compute((4, 8), lambda i, j: C[i, j] + B[i, j], name="D")
    assert operations([D.op]) == (A.op, B.op, C.op, D.op)
    assert operations([D.op, B.op]) == operations([B.op, D.op]) == operations([D.op])
    assert inputs([D]) == (A,)


def test_redefining_keeps_the_tensors():
    B = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="B")
    new = B.op.redefined((make.const(0.0),))
    assert new.outputs == (B,) and B.op is not new and new.axis == B.op.axis and new.input_tensors == ()


# --- mistakes -------------------------------------------------------------------------------------------------------------------

other = te.reduce_axis((0, 8), "other")
foreign = te.compute((4,), lambda q: A[q, 0]).op.axis[0]

MISTAKES = {
    "unknown dtype": (lambda: te.placeholder((4,), "float31"), r"unknown dtype 'float31'", "one of bool, int8"),
    "vector dtype": (lambda: te.placeholder((4,), "float32x4"), r"dtype float32x4 is a vector", "dtype='float32'"),
    "negative size": (lambda: te.placeholder((4, -1), name="P"), r"placeholder 'P', dimension 1: the size is -1", "never negative"),
    "float size": (lambda: te.placeholder((4.0,), name="P"), r"placeholder 'P', dimension 0: 4.0 is no size", "float32; a size is an int32 or int64"),
    "text size": (lambda: te.placeholder(("n",), name="P"), r"placeholder 'P', dimension 0: 'n' is no size", "te.var"),
    "narrow size": (lambda: te.placeholder((te.var("n", "int8"),)), r"dimension 0: n is no size", "int8; a size is an int32 or int64"),
    "negative compute size": (lambda: te.compute((-4,), lambda i: 0, name="C"), r"compute 'C', dimension 0: the size is -4", "never negative"),
    "nameless variable": (lambda: te.var(""), r"te.var\(name=''\): a name is text, and not empty", ""),
    "dim below zero": (lambda: te.dim("m", -1, 4), r"dim\('m', lo=-1\): a size is never negative", "te.dim|dim"),
    "dim upside down": (lambda: te.dim("m", 4, 2), r"dim\('m', 4, 2\): the upper bound is below", ""),
    "dim divisor": (lambda: te.dim("m", multiple_of=0), r"multiple_of=0\): needs a positive number", ""),
    "dim hint": (lambda: te.dim("m", 1, 8, hint=9), r"hint=9\): the hint lies outside 1..8", ""),
    "too few indices": (lambda: A(1), r"A\[1\]: 1 index, 2 indices needed", "shape \\(4, 8\\)"),
    "too many indices": (lambda: A[1, 2, 3], r"A\[1, 2, 3\]: 3 indices, 2 indices needed", "shape \\(4, 8\\)"),
    "index too large": (lambda: A[0, 8], r"A\[0, 8\]: index 1 is 8, out of range 0..8", "shape \\(4, 8\\)"),
    "index negative": (lambda: A[-1, 0], r"A\[-1, 0\]: index 0 is -1, out of range 0..4", "count from the end"),
    "index float": (lambda: A[0, 1.5], r"A\[0, 1.5\]: index 1 is float32, not an integer", "astype"),
    "index bool": (lambda: A[0, k < 3], r"index 1 is bool, not an integer", ""),
    "slice": (lambda: A[0, 1:3], r"a slice is not an element", "one element at a time"),
    "index text": (lambda: A["x", 0], r"cannot make an expression of 'x'", ""),
    "no result": (lambda: te.compute((4,), lambda i: None, name="C"), r"compute 'C': the function returned None", "the expression of one element"),
    "whole tensor": (lambda: te.compute((4,), lambda i: A, name="C"), r"compute 'C': the function returned the whole tensor A", r"A\[i, j\]"),
    "empty result": (lambda: te.compute((4,), lambda i: (), name="C"), r"compute 'C': the function returned an empty tuple", "one output"),
    "text result": (lambda: te.compute((4,), lambda i: "x", name="C"), r"cannot make an expression of 'x'", ""),
    "too few parameters": (lambda: te.compute((4, 4), lambda i: 0, name="C"), r"compute 'C': the function takes 1 index, the shape has 2 dimensions", "per dimension"),
    "too many parameters": (lambda: te.compute((4,), lambda i, j: 0, name="C"), r"the function takes 2 indices, the shape has 1", "per dimension"),
    "foreign axis": (lambda: te.compute((4,), lambda i: A[foreign, 0] + 1.0, name="C"),
                     r"compute 'C': uses the axis `q`, which is not its own", "its axes are i"),
    "loose reduction axis": (lambda: te.compute((4,), lambda i: A[i, k], name="C"), r"uses the axis `k`, which is not its own", "te.sum"),
    "reduction axis of another": (lambda: te.compute((4,), lambda i: te.sum(A[i, k], axis=other)), r"uses the axis `k`", "its axes are i, other"),
    "nested reduction": (lambda: te.compute((4,), lambda i: te.sum(te.sum(A[i, k], axis=k), axis=other)),
                         r"a reduction inside an expression: sum\(A\[i, k\], axis=\[k\]\)", "its own te.compute"),
    "reduction in an expression": (lambda: te.compute((4,), lambda i: te.sum(A[i, k], axis=k) + 1.0, name="C"),
                                   r"a reduction inside an expression", "below `compute 'C'`"),
    "different reductions": (lambda: te.compute((4,), lambda i: (te.sum(A[i, k], axis=k), te.max(A[i, k], axis=k)), name="C"),
                             r"compute 'C': its outputs are not one reduction", "te.comm_reducer"),
    "sum over a data axis": (lambda: te.compute((4,), lambda i: te.sum(A[i, 0], axis=i)), r"sum\(axis=i\): not a reduction axis", "te.reduce_axis"),
    "sum over a number": (lambda: te.sum(A[0, 0], axis=0), r"sum\(axis=0\): not a reduction axis", "te.reduce_axis"),
    "axis twice": (lambda: te.sum(A[0, k], axis=[k, k]), r"sum\(axis=\[k, k\]\): an axis is named twice", ""),
    "condition is a number": (lambda: te.sum(A[0, k], axis=k, where=k + 1), r"a condition is a bool, not int32", ""),
    "start values": (lambda: te.sum(A[0, k], axis=k, init=(1.0, 2.0)), r"2 start value\(s\) for 1 source", ""),
    "combiner changes type": (lambda: te.comm_reducer(lambda x, y: x.astype("float64") + y, lambda t: 0)(A[0, k], axis=k),
                              r"reduce: fcombine gives float64 for float32", "astype"),
    "range is no pair": (lambda: te.reduce_axis(8), r"reduce_axis\(8\): the range is a pair", "te.reduce_axis"),
    "range backwards": (lambda: te.reduce_axis((8, 2)), r"reduce_axis\(\(8, 2\)\): the range runs backwards", ""),
    "range of floats": (lambda: te.reduce_axis((0, 2.5)), r"bounds are integers, not float32", ""),
    "integer division": (lambda: te.compute((8,), lambda i: I[i] / 2), r"`/` on integers: I\[i\] / 2", "`//` for the floor"),
    "float floor division": (lambda: A[0, 0] // 2.0, r"`//` needs integers, got float32", "te.floor"),
    "division by zero": (lambda: te.compute((8,), lambda i: I[i] // 0), r"division by zero: I\[i\] // 0", ""),
    "if": (lambda: te.compute((8,), lambda i: 1 if i < 3 else 2), r"the truth of `i < 3` is not known", "te.if_then_else"),
    "and": (lambda: te.compute((8,), lambda i: te.select(i > 1 and i < 3, 1, 2)), r"the truth of `1 < i`", "te.all"),
    "number as condition": (lambda: te.if_then_else(I[0], 1, 2), r"`if_then_else` needs conditions, got int32", "x != 0"),
    "literal does not fit": (lambda: te.const(300, "int8"), r"const\(300, 'int8'\): out of range", "wider"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    do, what, more = MISTAKES[name]
    with pytest.raises(DeclareError, match=what) as caught:
        do()
    shown = str(caught.value)
    assert caught.match(more)
    assert "test_declare.py:" in shown  # the place in the user's own code
    assert " at 0x" not in shown and "<class" not in shown


def test_a_refused_declaration_leaves_nothing_behind():
    before = A.op.outputs, A.shape
    with pytest.raises(DeclareError):
        te.compute((4,), lambda i: A[i])
    assert (A.op.outputs, A.shape) == before
