"""What a user declares: shapes, dtypes and names as they come out. The mistakes and their messages are in
tests/errors."""

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
from tensorlang.te.tensor import ComputeOp, PlaceholderOp, TensorSlice, reads_in


def shape_of(t):
    return tuple(const_int(s) for s in t.shape)


A = te.placeholder((4, 8), name="A")
I = te.placeholder((8,), "int32", "I")
k = te.reduce_axis((0, 8), "k")


# --- what comes out -----------------------------------------------------------------------------------------


def test_placeholder():
    assert A.name == "A" and A.dtype is FLOAT32 and shape_of(A) == (4, 8) and A.ndim == 2
    assert (
        type(A.op) is PlaceholderOp and A.op.outputs == (A,) and A.op.output(0) is A and A.op.num_outputs == 1
    )
    assert repr(A) == "Tensor(A: float32[4, 8])"
    assert te.placeholder(5).ndim == 1 and te.placeholder((), "int8").shape == ()
    assert te.placeholder((0, 3)).shape[0] is make.const(0)


def test_compute_takes_its_axis_names_from_the_function():
    C = te.compute((4, 8), lambda row, col: A[row, col] * 2.0, name="C")
    assert (
        type(C.op) is ComputeOp and [a.name for a in C.op.axis] == ["row", "col"] and C.op.reduce_axis == ()
    )
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
    assert (
        S.op is D.op and (S.value_index, D.value_index) == (0, 1) and (S.dtype, D.dtype) == (INT32, FLOAT32)
    )
    assert (S.name, D.name) == ("both.v0", "both.v1")


def test_notes_are_kept():
    C = te.compute((4,), lambda i: A[i, 0], tag="injective", attrs={"layout": "NCHW"})
    assert C.op.tag == "injective" and C.op.attrs == {"layout": "NCHW"}


def test_reduction():
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C")
    (body,) = C.op.body
    assert (
        type(body) is Reduce and body.reducer is SUM and C.op.reduce_axis == (k,) and body.condition is None
    )
    assert [str(s) for s in body.start()] == ["0.0"]
    assert str(body) == "sum(A[i, k], axis=[k])"
    assert (te.max(A[0, k], axis=k).start()[0].value, te.min(A[0, k], axis=k).start()[0].value) == (
        float("-inf"),
        float("inf"),
    )
    assert te.max(I[k], axis=k).start()[0].value == -(2**31)
    assert te.sum(I[k], axis=k, init=3).start()[0] is make.const(3)
    assert str(te.sum(I[k], axis=[k], where=k > 2)) == "sum(I[k], axis=[k], where=2 < k)"


def test_min_and_max_without_axes_are_elementwise():
    i = te.var("i")
    assert te.max(i, 0) is make.max_(i, 0) and te.min(A[0, i], 1.0) is make.min_(A[0, i], 1.0)


def test_custom_reducer_substitutes():
    best = te.comm_reducer(
        lambda x, y: (te.select(x[1] < y[1], y[0], x[0]), te.max(x[1], y[1])),
        lambda a, b: (0, te.min_value(b)),
        name="best",
    )
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
    assert (I[i].astype("float32") + A[0, I[i]]).dtype is FLOAT32
    assert [r.tensor for r in reads_in((A[0, I[i]],))] == [A, I]


@pytest.mark.parametrize(
    "bad, why",
    [
        ("x", "index 0"),
        (1.5, "not an integer"),
        (True, "not an integer"),
        (4, "out of range"),
        (-1, "out of range"),
    ],
)
def test_a_bad_index_is_refused_before_the_others_come(bad, why):
    A = te.placeholder((4, 5, 6), name="A")
    with pytest.raises(DeclareError, match=why):
        A[bad]
    i = te.var("i")
    with pytest.raises(DeclareError, match=why.replace("0", "1")):
        A[i][bad if bad != 4 else 5]


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


def test_a_refused_declaration_leaves_nothing_behind():
    before = A.op.outputs, A.shape
    with pytest.raises(DeclareError):
        te.compute((4,), lambda i: A[i])
    assert (A.op.outputs, A.shape) == before
