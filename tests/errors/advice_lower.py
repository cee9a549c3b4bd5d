"""How a person follows the advice given to mistakes_lower, but for the calls that test_advice makes: one
entry for each ``try``."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import te

from .mistakes_lower import _chain, _diamond

NAMES: dict[str, Any] = {}


def _lowered(words, arguments):
    """Follows words by lowering the mistake's schedule with other arguments."""

    def follow(a):
        a.says(words)
        tl.lower(a.s if "s" in a.names else te.create_schedule(a.C.op), arguments(a))

    return follow


def _tensors(a):
    a.says("the tensors of te.placeholder and te.compute, in the order of the call")
    tl.lower(a.s, [a.A, a.C])


def _hidden(a):
    a.says("pass `m` and `n` as arguments")
    f = tl.build(te.create_schedule(a.C.op), [a.A, a.C, a.m, a.n])
    assert (f(np.ones(6, np.float32), 2, 3) == 2.0).all()
    a.says("tensors of which they are dimensions")
    B = te.placeholder((a.n, a.m), name="B")
    D = te.compute(a.C.shape, lambda i: a.A[i] + B[i // a.m, i % a.m], name="D")
    tl.lower(te.create_schedule(D.op), [a.A, B, D])


def _one_tells_the_other(a):
    a.says("pass `m` as an argument, or a tensor of which it is a dimension")
    tl.lower(te.create_schedule(a.C.op), [a.A, a.C, a.m])
    D = te.compute((a.m,), lambda i: a.A[i], name="D")
    tl.lower(te.create_schedule(D.op), [a.A, D])


def _cut_after_the_move(a):
    a.says("split it by a constant after the last compute_at of P, and take the inner half")
    P = te.compute((a.n, 64), lambda i, j: a.A[i, j] + 1.0, name="P")
    C = te.compute((64, a.n), lambda j, i: P[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[P].compute_at(s[C], C.op.axis[1])
    s[P].compute_root()
    s[P].vectorize(s[P].split(P.op.axis[0], factor=8)[1])
    tl.lower(s, [a.A, C])


def _small_factor(a):
    a.says("split j by a small factor and vectorize the inner half")
    s = te.create_schedule(a.C.op)
    s[a.P].compute_at(s[a.C], a.C.op.axis[0])
    s[a.P].vectorize(s[a.P].split(a.P.op.axis[1], factor=8)[1])
    s[a.S].compute_at(s[a.C], a.C.op.axis[0])
    tl.lower(s, [a.A, a.C])


def _at_root_or_left_out(a):
    tl.lower(a.s, [a.A, a.C])
    a.says("or leave P out")
    a("s[P].compute_root()")
    tl.lower(a.s, [a.A, a.P, a.C])


def _copied_constant(a):
    s, A, P, C = _chain()
    copy = a("s.cache_read(A, 'global', readers)", s=s, A=A, readers=[P])
    a.says("transform_layout of the copy")
    s[copy].transform_layout(lambda i, j: [j, i])
    tl.build(s, [C], constants={A: np.zeros((64, 16), np.float32)})


def _with_its_reader(a):
    """Brings the reader that keeps ``waiting`` at root to its place, or inlines it, or takes ``waiting``
    back."""
    for follow in (
        "s[S].compute_at(s[C], i)",
        "s[S].compute_at(s[C], j)",
        "s[S].compute_inline()",
        "s[P].compute_root()",
    ):
        s, A, P, S, C = _diamond()
        s[P].compute_at(s[C], C.op.axis[0])
        i, j = C.op.axis
        eval(follow, {"s": s, "S": S, "P": P, "C": C, "i": i, "j": j})
        tl.lower(s, [A, C])
        a.says("or a loop inside it" if "j)" in follow else follow)


FOLLOW = {
    "argument_computed_in_parts": _at_root_or_left_out,
    "argument_computed_by_several_threads": _at_root_or_left_out,
    "constant_in_another_layout": _copied_constant,
    "a_stage_still_waits_for_its_place": _with_its_reader,
    "a_reader_moved_away_from_its_producer": _with_its_reader,
    "no_schedule": lambda a: a(a.text),
    "argument_missing": lambda a: (
        a.says("add A to the list of arguments"),
        (lambda s, A, _, C: tl.lower(s, [C, A]))(*_chain()),
    ),
    "output_missing": lambda a: (
        a.says("add C to the list of arguments"),
        (lambda s, A, _, C: tl.lower(s, [A, C]))(*_chain()),
    ),
    "argument_given_twice": _lowered("name each argument once", lambda a: [a.A, a.C]),
    "number_given_twice": _lowered("name each argument once", lambda a: [a.alpha, a.C]),
    "argument_is_a_number": _tensors,
    "argument_is_an_array": lambda a: (
        a.says("the tensors of te.placeholder and te.compute, in the order of the call"),
        (lambda s, A, _, C: tl.lower(s, [A, C]))(*_chain()),
    ),
    "argument_is_an_operation": lambda a: (
        a.says("C.output(0), the tensor that it makes"),
        (lambda s, A, _, C: tl.lower(s, [A, C.op.output(0)]))(*_chain()),
    ),
    "arguments_not_in_a_list": lambda a: a(a.text),
    "variable_missing": _lowered("pass `alpha` as an argument", lambda a: [a.A, a.C, a.alpha]),
    "size_that_no_argument_determines": _lowered("pass `n` as an argument", lambda a: [a.A, a.C, a.n]),
    "size_hidden_in_a_product": _hidden,
    "two_sizes_hidden_in_a_sum": _one_tells_the_other,
    "vector_loop_that_lost_its_constant_extent": _cut_after_the_move,
    "too_many_lanes_where_the_stage_ended": _small_factor,
}
