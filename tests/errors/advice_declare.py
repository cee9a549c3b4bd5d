"""How a person follows the advice given to mistakes_declare: one entry for each ``try``; the declaration is
made again as it says."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import ops, te

K = te.reduce_axis((0, 8), "k")
NAMES: dict[str, Any] = {
    "A": te.placeholder((4, 8), name="A"),
    "I": te.placeholder((8,), "int32", name="I"),
    "np": np,
    "shape": (4, 8),
    "dtype": "float32",
}


def _row(body, **names):
    """Declares a vector of four whose element is ``body(i)``."""
    return te.compute((4,), body, name="C", **names)


def _matrix(body):
    return te.compute((4, 8), body, name="C")


def _sized(*codes):
    """Declares a placeholder of each size that the advice writes out."""
    return lambda a: [te.placeholder((a(code),), name="P") for code in codes]


def _says(words, follow):
    """Follows advice in words alone."""
    return lambda a: (a.says(words), follow(a))


def _size_of_text(a):
    a.says("an int")
    n, m = a("te.var('n')"), a("te.dim('n', 1, 8192)")
    a.says("arithmetic on these")
    for size in (4, n, m, n * 2 + 1):
        te.placeholder((size,), name="P")


def _int_or_floor(a):
    a.says("4 or 5")
    a.says("`//` rounds down")
    for size in (4, 5, 9 // 2, te.var("n") // 2):
        te.placeholder((size,), name="P")


def _wide_size(a):
    a.says(".astype('int32')")
    for size in (a("te.var('n')"), te.var("n", "int8").astype("int32")):
        te.placeholder((size,), name="P")


def _largest_range(a):
    a.says("the largest range")
    P, k = te.placeholder((8,), name="P"), te.reduce_axis((0, 8), name="k")
    a.says("te.if_then_else")
    te.compute((8,), lambda i: te.sum(te.if_then_else(k < i, P[k], 0.0), axis=k), name="C")
    a.says("where= to leave out the rest")
    te.compute((8,), lambda i: te.sum(P[k], axis=k, where=k < i), name="D")


def _own_range(a):
    a.says("te.reduce_axis inside the function of this te.compute")

    def body(i):
        k = te.reduce_axis((0, i + 1), name="k")
        return te.sum(a.C[i, k], axis=k)

    te.compute((4,), body, name="D")


def _axes_of_their_own(a):
    a.says("a te.reduce_axis of its own for each te.compute")
    for T, at in ((a.A, lambda i, k: (i, k)), (a.B, lambda i, k: (k,))):
        k = te.reduce_axis((0, a.N[0]), name="k")
        te.compute((4,), lambda i: te.sum(T[at(i, k)], axis=k), name="C")


def _multiple(a):
    a.says("leave it out, or 8, 16, …")
    for facts in ({}, {"multiple_of": 8}, {"multiple_of": 16}):
        te.dim("m", **facts)


def _no_size(a):
    a("te.var(name, dtype)", name="m")
    a.says("for a value that is not a size")


def _a_part(a):
    a("te.compute(part, lambda i: A[begin + i])", part=(4,), begin=2, A=te.placeholder((8,), name="A"))


def _a_function(a):
    def body(i, j):
        a.says("return")
        return a("A[i, j] + 1", i=i, j=j)

    te.compute((4, 8), body, name="C")


def _a_number(a):
    a.says("a number, a variable, or a tensor element such as")
    for body in (lambda i: 1, lambda i: te.var("n"), lambda i: a.A[i, 0]):
        _row(body)
    _matrix(lambda i, j: a("A[i, j]", i=i, j=j))


def _an_input(a):
    values = a("te.placeholder(shape, dtype)", shape=(8,))
    C = te.compute((4, 8), lambda i, j: a.A[i, j] * values[j], name="C")
    a.says("pass it when the kernel is called")
    tl.compile([a.A, values, C], name="scaled")(np.ones((4, 8), np.float32), np.ones(8, np.float32))


def _parameters(shape, exact):
    def follow(a):
        a.says("one parameter per dimension")
        te.compute(shape, exact, name="C")
        a.says("*indices")
        te.compute(shape, lambda *indices: 0, name="C")

    return follow


def _reduced_or_own(a):
    A, q = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 4), name="q")
    a.says("the parameters of the function")
    _row(lambda i: A[i, 0] + 1.0)
    a.says("te.sum(…, axis=q) to reduce over it")
    _row(lambda i: te.sum(A[q, 0] + 1.0 * i, axis=q))


def _reduce_k(a):
    a.says("te.sum(…, axis=k) to reduce over it")
    _row(lambda i: te.sum(a.A[i, a.k], axis=a.k))
    a.says("the parameters of the function")
    _matrix(lambda i, k: a.A[i, k])


def _reduce_r(a):
    a.says("te.sum(…, axis=r) to reduce over it")
    _row(lambda i: te.sum(a.A[a.r, a.k], axis=[a.k, a.r]))
    a.says("the parameters of the function")
    _row(lambda r: te.sum(a.A[r, a.k], axis=a.k))


OWN = "give the reduction a te.compute of its own, and read that here"


def _own_max(a):
    a.says(OWN)
    M = te.compute((4,), lambda r: te.max(a.A[r, a.k], axis=a.k), name="M")
    te.compute((), lambda: te.sum(M[a.r], axis=a.r), name="C")


def _own_sum(a):
    a.says(OWN)
    S = te.compute((4,), lambda i: te.sum(a.A[i, a.k], axis=a.k), name="S")
    te.compute((4,), lambda i: S[i] / 8.0, name="mean")


def _together(a):
    a.says("one te.comm_reducer over a tuple")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1])),
        lambda p, q: (te.const(0, p), te.min_value(q)),
        name="both",
    )
    _row(lambda i: both((a.A[i, a.k], a.A[i, a.k]), axis=a.k))
    a.says("a te.compute for each")
    _row(lambda i: te.sum(a.A[i, a.k], axis=a.k))
    _row(lambda i: te.max(a.A[i, a.k], axis=a.k))


def _whole_tuple(a):
    a.says("return all of spread((…), axis=…) as it is")
    _row(lambda i: a.best((a.A[i, a.k], a.A[i, a.k]), axis=a.k))


def _one_tag(a):
    a.says("leave one of them out")
    te.compute((4,), lambda i: 0, name="C", tag="dense")
    with te.tag_scope("conv"):
        te.compute((4,), lambda i: 0, name="C")


def _reduction_axis(a):
    a.says("k = te.reduce_axis((0, K), name='k'), then axis=k")
    k = te.reduce_axis((0, 8), name="k")
    _row(lambda i: te.sum(a.A[i, k], axis=k))


def _count_or_ask(a):
    condition = a.names["A"][0, K] > 0
    te.sum(a("cond.astype('int32')", cond=condition), axis=K)
    a.says("te.any or te.all to ask")
    te.any(condition, axis=K)
    te.all(condition, axis=K)


def _maximum(a):
    a.says("te.max(expr, axis=k) with k = te.reduce_axis((0, K))")
    k = te.reduce_axis((0, 8))
    _row(lambda i: te.max(a.A[i, k], axis=k))


def _where(a):
    a.says("te.max(expr, axis=k, where=…, init=…)")
    _row(lambda i: te.max(a.A[i, K], axis=K, where=K > 0, init=0.0))


def _same_type(a):
    a.says(".astype('float32') of what fcombine returns")
    total = te.comm_reducer(
        lambda x, y: (x.astype("float64") + y).astype("float32"), lambda t: te.const(0, t), name="total"
    )
    _row(lambda i: total(a.A[i, K], axis=K))


def _a_tuple(a):
    a.says("return a tuple with one value for each")
    argmax = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda p, q: (te.const(-1, p), te.min_value(q)),
        name="argmax",
    )
    _row(lambda i: argmax((a.k, a.A[i, a.k]), axis=a.k))


def _into_the_source(a):
    a.says("put it into what is reduced")
    _row(lambda i: te.sum(a.A[i, a.k] * a.k, axis=a.k))
    a.says("into a tuple beside it")
    pair = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]),
        lambda p, q: (te.const(0, p), te.const(0, q)),
        name="weighted",
    )
    _row(lambda i: pair((a.A[i, a.k] * a.k, a.k), axis=a.k))


def _whole_bounds(a):
    a.says("int(…)")
    te.reduce_axis((0, int(2.5)), name="k")
    a.says(".astype('int32')")
    te.reduce_axis((0, (te.var("x", "float32") * 2.5).astype("int32")), name="k")


def _divided(a):
    a.says("`//` for the floor, te.truncdiv for C's rounding, or .astype('float32') first")
    for body in (
        lambda i: a.I[i] // 2,
        lambda i: te.truncdiv(a.I[i], 2),
        lambda i: a.I[i].astype("float32") / 2,
    ):
        te.compute((8,), body, name="half")


def _truth(follow):
    """The advice to whoever asked for a truth: ``follow`` uses what suits the mistake, the rest is called
    once."""

    def all_of_it(a):
        te.compute((8,), lambda i: follow(a, i), name="C")
        i = te.var("i")
        a("te.if_then_else(cond, a, b)", cond=i < 3, a=1, b=2)
        a("te.all(c1, c2)", c1=i > 1, c2=i < 3)
        a("te.any(c1, c2)", c1=i > 1, c2=i < 3)
        a.says("te.min / te.max")
        te.min(i, te.max(i, 3))
        assert a("a is b", a=i, b=i)

    return all_of_it


def _choose_or_count(a):
    first, second = a.i < 3, a.i > 1
    a("te.if_then_else(cond, a, b)", cond=first, a=1, b=0) + a("cond.astype('int32')", cond=second)


def _functions(a):
    a.says("te.exp, te.sqrt and so on instead of those of math")
    _row(lambda i: te.exp(a.A[i, 0]) + te.sqrt(a.A[i, 0]))
    a.says(".astype('float32') to convert in the kernel")
    _row(lambda i: a.A[i, 0].astype("float32"))


def _list_or_range(a):
    a.says("te.placeholder for a list indexed by an axis")
    w = te.placeholder((4,), name="w")
    _row(lambda i: a.A[i, 0] * w[i])
    a.says("te.reduce_axis to run over a symbolic range")
    k = te.reduce_axis((0, te.var("n")), name="k")
    _row(lambda i: te.sum(a.A[i, 0] * k, axis=k))


def _line_up(a):
    mean = te.placeholder((4,), name="mean")
    a.says("ops.expand_dims")
    a.A - ops.expand_dims(mean, 1)
    a.says("ops.reshape")
    a.A - ops.reshape(mean, (4, 1))


def _rounded(a):
    a.says("te.round, te.nearbyint or te.floor")
    for f in (te.round, te.nearbyint, te.floor):
        f(a.A[0, 0])


def _element(a):
    _matrix(lambda i, j: a("A[i, j]", i=i, j=j))


FOLLOW = {
    "unknown_dtype": lambda a: te.placeholder((4,), a("'float32'")),
    "dtype_is_a_python_class_without_meaning": lambda a: te.placeholder((4,), a("'float32'")),
    "vector_dtype": lambda a: te.placeholder((4,), name="P", **a.kw("dtype='float32'")),
    "vector_variable": lambda a: te.var("n", **a.kw("dtype='int32'")),
    "size_is_a_float": _int_or_floor,
    "size_is_text": _size_of_text,
    "size_is_none": _size_of_text,
    "size_is_a_list": _size_of_text,
    "size_is_a_tensor": _sized("A.shape[0]"),
    "size_of_a_narrow_type": _wide_size,
    "size_depends_on_an_axis": _largest_range,
    "range_depends_on_another_axis": _own_range,
    "range_depends_on_data": lambda a: te.compute(
        (8,),
        lambda i: te.sum(1.0, axis=a("te.reduce_axis((0, te.min(I[i], largest)))", i=i, largest=9)),
        name="C",
    ),
    "range_of_data_in_two_computes": _axes_of_their_own,
    "size_depends_on_data": lambda a: te.compute((a("te.var('n')"),), lambda i: 0, name="C"),
    "variable_without_a_name": lambda a: (a.says("te.var(…"), te.var(**a.kw("name='x'"))),
    "tensor_named_by_a_number": lambda a: (
        a.says("te.placeholder(…"),
        te.placeholder((4,), **a.kw("name='x'")),
    ),
    "dim_below_zero": _says("te.dim('m', 0, …)", lambda a: te.dim("m", 0, 4)),
    "dim_upside_down": lambda a: a("te.dim('m', 2, 4)"),
    "dim_of_no_multiple": _multiple,
    "dim_with_symbolic_facts": lambda a: a("te.dim('m', 1, 8192, multiple_of=8, hint=128)"),
    "dim_of_a_float_type": _no_size,
    "too_few_indices": _element,
    "too_many_indices": _element,
    "index_negative": lambda a: te.compute((8,), lambda j: a.A[a("A.shape[0] - 1"), j], name="C"),
    "index_is_a_float": _says(
        "te.floor(…).astype('int32')", lambda a: a.A[0, te.floor(te.var("x", "float32") * 2).astype("int32")]
    ),
    "index_is_a_condition": lambda a: (
        a.A[0, a("cond.astype('int32')", cond=te.var("i") < 3)],
        a.says("te.if_then_else"),
        a.A[0, te.if_then_else(te.var("i") < 3, 1, 0)],
    ),
    "index_is_text": _says(
        "an int, an axis, or an element of an integer tensor",
        lambda a: _row(lambda i: a.A[0, 0] + a.A[i, 0] + a.A[a.I[i], 0]),
    ),
    "slice_of_a_tensor": _a_part,
    "ellipsis": _a_part,
    "whole_tensors_and_an_axis": lambda a: (
        a.says("inside te.compute(shape, lambda i, j: …)"),
        _matrix(lambda i, j: a("A[i, j]", i=i, j=j) + i),
    ),
    "arithmetic_on_whole_tensors_in_a_compute": lambda a: (
        _matrix(lambda i, j: a("A[i, j]", i=i, j=j) + 1.0),
        a.says("instead of A"),
    ),
    "whole_tensors_that_do_not_broadcast": _line_up,
    "arithmetic_on_a_row": lambda a: _matrix(lambda i, j: a("A[i, j]", i=i, j=j) * 2),
    "loop_over_a_tensor": lambda a: a("te.compute(A.shape, lambda *i: A(*i) * 2)"),
    "truth_of_a_tensor": lambda a: (a("A is None"), a("len(A.shape)")),
    "returns_nothing": _a_function,
    "returns_the_whole_tensor": _element,
    "returns_a_row": _element,
    "returns_an_empty_tuple": _says(
        "return one or more", lambda a: [_row(lambda i: (0,)), _row(lambda i: (0, 1))]
    ),
    "returns_text": _a_number,
    "returns_an_array": _an_input,
    "no_function": lambda a: a("te.compute(shape, lambda i, j: A[i, j] + 1)"),
    "too_few_parameters": _parameters((4, 4), lambda i, j: 0),
    "too_many_parameters": _parameters((4,), lambda i: 0),
    "parameter_by_keyword": _says(
        "a value for scale in its definition", lambda a: _row(lambda i, *, scale=2: i * scale)
    ),
    "axis_of_another_compute": _reduced_or_own,
    "reduction_axis_not_reduced": _reduce_k,
    "one_of_two_axes_not_reduced": _reduce_r,
    "nested_reduction": _own_max,
    "reduction_in_an_expression": _own_sum,
    "two_different_reductions": _together,
    "part_of_a_tuple_reduction": _whole_tuple,
    "attrs_is_text": lambda a: _row(lambda i: 0, **a.kw("attrs={'layout': 'NCHW'}")),
    "tag_in_a_tag": _one_tag,
    "sum_over_a_data_axis": _reduction_axis,
    "sum_over_axis_number_0": _reduction_axis,
    "sum_over_no_axis": _says("leave the reduction out", lambda a: _row(lambda i: a.A[i, 0])),
    "an_axis_twice": _says("name it once", lambda a: te.sum(a.names["A"][0, a.k], axis=[a.k])),
    "sum_of_conditions": _count_or_ask,
    "all_of_numbers": lambda a: (
        a.says("a comparison, such as"),
        te.all(a("x != 0", x=a.names["A"][0, a.k]), axis=a.k),
    ),
    "maximum_of_one": _maximum,
    "where_without_an_axis": _where,
    "where_is_a_number": lambda a: (
        a.says("a comparison"),
        te.sum(a.names["A"][0, a.k], axis=a.k, **a.kw("where=x != 0", x=a.k % 2)),
    ),
    "combiner_changes_the_type": _same_type,
    "combiner_returns_too_little": _a_tuple,
    "combiner_uses_an_axis": _into_the_source,
    "start_of_a_combiner_is_no_tuple": _a_tuple,
    "range_is_no_pair": lambda a: a("te.reduce_axis((0, 8), name='k')"),
    "range_runs_backwards": lambda a: a("te.reduce_axis((2, 8))"),
    "range_of_floats": _whole_bounds,
    "slash_on_integers": _divided,
    "double_slash_on_floats": lambda a: a("te.floor(a / b)", a=a.names["A"][0, 0], b=2.0),
    "python_if": _truth(lambda a, i: te.if_then_else(i < 3, 1, 2)),
    "python_and": _truth(lambda a, i: te.select(te.all(i > 1, i < 3), 1, 2)),
    "chained_comparison": _truth(lambda a, i: te.select(te.all(i > 1, i < 3), 1, 2)),
    "number_as_a_condition": lambda a: (
        a.says("a comparison, such as"),
        te.if_then_else(a("x != 0", x=a.I[0]), 1, 2),
    ),
    "sum_of_two_conditions": _choose_or_count,
    "literal_that_does_not_fit": lambda a: a("te.const(300, 'int16')"),
    "literal_beyond_every_integer": _says("a float dtype", lambda a: te.const(2**70, "float64")),
    "literal_of_an_expression": _says(
        ".astype('int32'), which converts expressions", lambda a: a.x.astype("int32")
    ),
    "literal_of_text": lambda a: a("te.const(int('1'), 'int32')"),
    "exponential_of_an_integer": lambda a: te.exp(a("x.astype('float32')", x=a.I[0])),
    "bits_of_a_float": lambda a: te.popcount(a("x.astype('int32')", x=a.A[0, 0])),
    "float_and_bits": lambda a: a("x.astype('int32')", x=a.A[0, 0]) & 1,
    "python_math": _functions,
    "numpy_function": _says("te.atan(…)", lambda a: _row(lambda i: te.atan(a.A[i, 0]))),
    "numpy_array_in_a_compute": _an_input,
    "numpy_array_indexed_by_an_axis": _list_or_range,
    "python_range_of_a_symbol": _list_or_range,
    "power_of_two_integers": lambda a: te.compute(
        (8,), lambda i: a("x.astype('float32') ** y", x=a.I[i], y=a.I[i]), name="C"
    ),
    "infinity_of_integers": lambda a: a("te.max_value('int32')"),
    "python_round": _rounded,
}
