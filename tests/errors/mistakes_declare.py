"""Mistakes of declaring what to compute. Each function makes one; its last statement is refused with a
DeclareError."""

from __future__ import annotations

import math

import numpy as np

from tensorlang import te

from .scene import Scene


def _matrix():
    return te.placeholder((4, 8), name="A")


def _indices():
    return te.placeholder((8,), "int32", name="I")


# --- names, types, sizes ------------------------------------------------------------------------------------


def unknown_dtype(t: Scene):
    te.placeholder((4,), "float31")


def dtype_is_a_python_class_without_meaning(t: Scene):
    te.placeholder((4,), dict)


def vector_dtype(t: Scene):
    te.placeholder((4,), "float32x4", name="P")


def vector_variable(t: Scene):
    te.var("n", "int32x4")


def negative_size(t: Scene):
    te.placeholder((4, -1), name="P")


def size_is_a_float(t: Scene):
    te.placeholder((4.5,), name="P")


def size_is_text(t: Scene):
    te.placeholder(("n",), name="P")


def size_is_none(t: Scene):
    te.placeholder((None, 4), name="P")


def size_is_a_tensor(t: Scene):
    te.placeholder((t.watch(_matrix()), 4), name="P")


def size_is_a_list(t: Scene):
    te.placeholder(([4, 4],), name="P")


def size_of_a_narrow_type(t: Scene):
    te.placeholder((te.var("n", "int8"),), name="P")


def size_depends_on_an_axis(t: Scene):
    te.compute((8,), lambda i: te.placeholder((i,), name="P")[0], name="C")


def range_depends_on_another_axis(t: Scene):
    A = t.watch(_matrix())
    C = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="C")
    k = te.reduce_axis((0, C.op.axis[1] + 1), name="k")
    te.compute((4,), lambda i: te.sum(C[i, k], axis=k), name="D")


def range_depends_on_data(t: Scene):
    I = _indices()
    te.compute((8,), lambda i: te.sum(1.0, axis=te.reduce_axis((0, I[i]), name="k")), name="C")


def range_of_data_in_two_computes(t: Scene):
    N, A, B = _indices(), _matrix(), te.placeholder((4,), name="B")
    k = te.reduce_axis((0, N[0]), name="k")
    te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C")
    te.compute((1,), lambda i: te.sum(B[k], axis=k), name="D")


def size_depends_on_data(t: Scene):
    te.compute((t.watch(_indices())[0],), lambda i: 0, name="C")


def negative_size_of_a_compute(t: Scene):
    te.compute((-4,), lambda i: 0, name="C")


def variable_without_a_name(t: Scene):
    te.var("")


def tensor_named_by_a_number(t: Scene):
    te.placeholder((4,), name=3)


def name_and_dtype_swapped(t: Scene):
    te.placeholder((4,), "A", "float32")


def dim_below_zero(t: Scene):
    te.dim("m", -1, 4)


def dim_upside_down(t: Scene):
    te.dim("m", 4, 2)


def dim_of_no_multiple(t: Scene):
    te.dim("m", multiple_of=0)


def dim_that_no_size_fits(t: Scene):
    te.dim("m", 9, 15, multiple_of=16)


def dim_with_a_wild_hint(t: Scene):
    te.dim("m", 1, 8, hint=9)


def dim_with_symbolic_facts(t: Scene):
    te.dim("m", 1, te.var("n"))


def dim_of_a_float_type(t: Scene):
    te.dim("m", 1, 8, dtype="float32")


# --- elements -----------------------------------------------------------------------------------------------


def too_few_indices(t: Scene):
    t.watch(_matrix())(1)


def too_many_indices(t: Scene):
    t.watch(_matrix())[1, 2, 3]


def index_out_of_range(t: Scene):
    t.watch(_matrix())[0, 8]


def index_negative(t: Scene):
    t.watch(_matrix())[-1, 0]


def index_is_a_float(t: Scene):
    t.watch(_matrix())[0, te.var("x", "float32") * 2]


def index_is_a_condition(t: Scene):
    t.watch(_matrix())[0, te.var("i") < 3]


def index_is_text(t: Scene):
    t.watch(_matrix())["x", 0]


def slice_of_a_tensor(t: Scene):
    t.watch(_matrix())[0, 1:3]


def ellipsis(t: Scene):
    t.watch(_matrix())[..., 0]


def whole_tensors_and_an_axis(t: Scene):
    A = t.watch(_matrix())
    te.compute((4, 8), lambda i, j: A + i, name="C")


def arithmetic_on_whole_tensors_in_a_compute(t: Scene):
    A = t.watch(_matrix())
    te.compute((4, 8), lambda i, j: A + 1.0, name="C")


def whole_tensors_that_do_not_broadcast(t: Scene):
    A = t.watch(_matrix())
    A - te.placeholder((4,), name="mean")


def arithmetic_on_a_row(t: Scene):
    A = t.watch(_matrix())
    A[0] * 2


def loop_over_a_tensor(t: Scene):
    for _ in t.watch(_matrix()):
        pass


def truth_of_a_tensor(t: Scene):
    if t.watch(_matrix()):
        pass


# --- computes -----------------------------------------------------------------------------------------------


def returns_nothing(t: Scene):
    A = t.watch(_matrix())

    def body(i, j):
        A[i, j] + 1

    te.compute((4, 8), body, name="C")


def returns_the_whole_tensor(t: Scene):
    A = t.watch(_matrix())
    te.compute((4, 8), lambda i, j: A, name="C")


def returns_a_row(t: Scene):
    A = t.watch(_matrix())
    te.compute((4,), lambda i: A[i], name="C")


def returns_an_empty_tuple(t: Scene):
    te.compute((4,), lambda i: (), name="C")


def returns_text(t: Scene):
    te.compute((4,), lambda i: "x", name="C")


def returns_an_array(t: Scene):
    te.compute((4,), lambda i: np.zeros(4), name="C")


def no_function(t: Scene):
    A = t.watch(_matrix())
    te.compute((4, 8), A, name="C") if not callable(A) else te.compute((4,), A[0, 0], name="C")


def too_few_parameters(t: Scene):
    te.compute((4, 4), lambda i: 0, name="C")


def too_many_parameters(t: Scene):
    te.compute((4,), lambda i, j: 0, name="C")


def parameter_by_keyword(t: Scene):
    te.compute((4,), lambda i, *, scale: i * scale, name="C")


def wrong_number_of_names(t: Scene):
    te.compute((4, 4), lambda *i: 0, name="C", varargs_names=["n"])


def axis_of_another_compute(t: Scene):
    A = _matrix()
    other = t.watch(te.compute((4,), lambda q: A[q, 0], name="other"))
    te.compute((4,), lambda i: A[other.op.axis[0], 0] + 1.0, name="C")


def reduction_axis_not_reduced(t: Scene):
    A, k = _matrix(), te.reduce_axis((0, 8), "k")
    te.compute((4,), lambda i: A[i, k], name="C")


def one_of_two_axes_not_reduced(t: Scene):
    A, k, r = _matrix(), te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 4), "r")
    te.compute((4,), lambda i: te.sum(A[r, k], axis=k), name="C")


def nested_reduction(t: Scene):
    A, k, r = _matrix(), te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 4), "r")
    te.compute((), lambda: te.sum(te.max(A[r, k], axis=k), axis=r), name="C")


def reduction_in_an_expression(t: Scene):
    A, k = _matrix(), te.reduce_axis((0, 8), "k")
    te.compute((4,), lambda i: te.sum(A[i, k], axis=k) / 8.0, name="mean")


def two_different_reductions(t: Scene):
    A, k = _matrix(), te.reduce_axis((0, 8), "k")
    te.compute((4,), lambda i: (te.sum(A[i, k], axis=k), te.max(A[i, k], axis=k)), name="C")


def part_of_a_tuple_reduction(t: Scene):
    A, k = _matrix(), te.reduce_axis((0, 8), "k")
    best = te.comm_reducer(
        lambda x, y: (te.max(x[0], y[0]), te.min(x[1], y[1])),
        lambda a, b: (te.min_value(a), te.max_value(b)),
        name="spread",
    )
    te.compute((4,), lambda i: best((A[i, k], A[i, k]), axis=k)[0], name="C")


def attrs_is_text(t: Scene):
    te.compute((4,), lambda i: 0, name="C", attrs="NCHW")


def tag_in_a_tag(t: Scene):
    with te.tag_scope("conv"):
        te.compute((4,), lambda i: 0, name="C", tag="dense")


# --- reductions ---------------------------------------------------------------------------------------------


def sum_over_a_data_axis(t: Scene):
    A = t.watch(_matrix())
    te.compute((4,), lambda i: te.sum(A[i, 0], axis=i), name="C")


def sum_over_axis_number_0(t: Scene):
    te.sum(t.watch(_matrix())[0, 0], axis=0)


def sum_over_no_axis(t: Scene):
    te.sum(t.watch(_matrix())[0, 0], axis=[])


def an_axis_twice(t: Scene):
    k = te.reduce_axis((0, 8), "k")
    te.sum(t.watch(_matrix())[0, k], axis=[k, k])


def sum_of_conditions(t: Scene):
    k = te.reduce_axis((0, 8), "k")
    te.sum(t.watch(_matrix())[0, k] > 0, axis=k)


def all_of_numbers(t: Scene):
    k = te.reduce_axis((0, 8), "k")
    te.all(t.watch(_matrix())[0, k], axis=k)


def maximum_of_one(t: Scene):
    te.max(t.watch(_matrix())[0, 0])


def where_without_an_axis(t: Scene):
    te.max(t.watch(_matrix())[0, 0], 0.0, where=te.var("i") > 0)


def where_is_a_number(t: Scene):
    k = te.reduce_axis((0, 8), "k")
    te.sum(t.watch(_matrix())[0, k], axis=k, where=k % 2)


def two_start_values_for_one_sum(t: Scene):
    k = te.reduce_axis((0, 8), "k")
    te.sum(t.watch(_matrix())[0, k], axis=k, init=(1.0, 2.0))


def start_value_depends_on_the_axis(t: Scene):
    A, k = t.watch(_matrix()), te.reduce_axis((0, 8), "k")
    te.sum(A[0, k], axis=k, init=A[1, k])


def combiner_changes_the_type(t: Scene):
    k = te.reduce_axis((0, 8), "k")
    te.comm_reducer(lambda x, y: x.astype("float64") + y, lambda t: te.const(0, t), name="total")(
        t.watch(_matrix())[0, k], axis=k
    )


def combiner_returns_too_little(t: Scene):
    A, k = t.watch(_matrix()), te.reduce_axis((0, 8), "k")
    te.comm_reducer(
        lambda x, y: te.max(x[1], y[1]), lambda a, b: (te.const(-1, a), te.min_value(b)), name="argmax"
    )((k, A[0, k]), axis=k)


def combiner_uses_an_axis(t: Scene):
    A, k = t.watch(_matrix()), te.reduce_axis((0, 8), "k")
    te.comm_reducer(lambda x, y: x + y * k, lambda t: te.const(0, t), name="weighted")(A[0, k], axis=k)


def start_of_a_combiner_is_no_tuple(t: Scene):
    A, k = t.watch(_matrix()), te.reduce_axis((0, 8), "k")
    te.comm_reducer(lambda x, y: (x[0], te.max(x[1], y[1])), lambda a, b: te.const(0, a), name="argmax")(
        (k, A[0, k]), axis=k
    )


def range_is_no_pair(t: Scene):
    te.reduce_axis(8, name="k")


def range_runs_backwards(t: Scene):
    te.reduce_axis((8, 2), name="k")


def range_of_floats(t: Scene):
    te.reduce_axis((0, 2.5), name="k")


# --- expressions --------------------------------------------------------------------------------------------


def slash_on_integers(t: Scene):
    I = t.watch(_indices())
    te.compute((8,), lambda i: I[i] / 2, name="half")


def double_slash_on_floats(t: Scene):
    t.watch(_matrix())[0, 0] // 2.0


def division_by_zero(t: Scene):
    I = t.watch(_indices())
    te.compute((8,), lambda i: I[i] % 0, name="C")


def python_if(t: Scene):
    te.compute((8,), lambda i: 1 if i < 3 else 2, name="C")


def python_and(t: Scene):
    te.compute((8,), lambda i: te.select(i > 1 and i < 3, 1, 2), name="C")


def chained_comparison(t: Scene):
    te.compute((8,), lambda i: te.select(1 < i < 3, 1, 2), name="C")


def number_as_a_condition(t: Scene):
    te.if_then_else(t.watch(_indices())[0], 1, 2)


def sum_of_two_conditions(t: Scene):
    i = te.var("i")
    (i < 3) + (i > 1)


def literal_that_does_not_fit(t: Scene):
    te.const(300, "int8")


def literal_of_text(t: Scene):
    te.const("1", "int32")


def literal_beyond_every_integer(t: Scene):
    te.const(2**70, "int64")


def literal_of_an_expression(t: Scene):
    x = t.watch(_matrix())[0, 0]
    te.const(x, "int32")


def exponential_of_an_integer(t: Scene):
    te.exp(t.watch(_indices())[0])


def bits_of_a_float(t: Scene):
    te.popcount(t.watch(_matrix())[0, 0])


def float_and_bits(t: Scene):
    t.watch(_matrix())[0, 0] & 1


def python_math(t: Scene):
    A = t.watch(_matrix())
    te.compute((4,), lambda i: math.exp(A[i, 0]), name="C")


def numpy_function(t: Scene):
    A = t.watch(_matrix())
    te.compute((4,), lambda i: np.arctan(A[i, 0]), name="C")


def numpy_array_in_a_compute(t: Scene):
    A, w = t.watch(_matrix()), np.ones(8)
    te.compute((4,), lambda i: A[i, 0] * w, name="C")


def numpy_array_indexed_by_an_axis(t: Scene):
    A, w = t.watch(_matrix()), [1.0, 2.0, 3.0, 4.0]
    te.compute((4,), lambda i: A[i, 0] * w[i], name="C")


def python_range_of_a_symbol(t: Scene):
    list(range(te.var("n")))


def power_of_two_integers(t: Scene):
    I = t.watch(_indices())
    te.compute((8,), lambda i: I[i] ** I[i], name="C")


def infinity_of_integers(t: Scene):
    te.infinity("int32")


def python_round(t: Scene):
    round(t.watch(_matrix())[0, 0])
