"""How a person follows the advice given to mistakes_schedule, but for the calls that test_advice makes: one
entry for each ``try``."""

from __future__ import annotations

from typing import Any

import tensorlang as tl
from tensorlang import te

from .mistakes_schedule import _chain, _matmul

NAMES: dict[str, Any] = {"C": _matmul()[1]}


def _says(words, follow):
    """Follows advice in words alone."""
    return lambda a: (a.says(words), follow(a))


def _axis_now(use):
    """Takes the loop of the mistake's call anew from ``s[T].op.axis``."""
    return lambda a: (
        a.says("s[T].op.axis gives the axes as they are now; cache_write renews those of the cached stage"),
        use(a, a.s),
    )


def _factors(a):
    a.says("an int, a te.var of an integer type, or a knob of s.sample_tile")
    for make in (lambda s: 8, lambda s: te.var("f"), lambda s: s.sample_tile(s["C"].op.axis[0])):
        s, C = _matmul()
        s[C].split(s[C].op.axis[0], make(s))


def _one_of_two(a):
    for words, cut in (("split(axis, factor=8)", {"factor": 8}), ("split(axis, nparts=4)", {"nparts": 4})):
        a.says(words)
        s, C = _matmul()
        s[C].split(C.op.axis[0], **cut)


def _halves(a):
    a.says("split it before, and run its halves in different ways")
    s, C = _matmul()
    outer, inner = s[C].split(C.op.axis[1], factor=8)
    s[C].unroll(outer)
    s[C].vectorize(inner)


def _constant_factor(annotate, axis):
    def follow(a):
        loop = a.C.op.axis[axis]
        a.says(f"split {loop.var.name} by a constant factor and take the inner half")
        annotate(a.s[a.C], a.s[a.C].split(loop, factor=4)[1])

    return follow


def _of_a_tile(a):
    a.says("split i by a constant factor and take the inner half")
    s, _, _, S, _ = _chain(te.var("n"))
    s[S].vectorize(s[S].split(S.op.axis[0], factor=8)[1])
    a.says("compute_at first so that its extent is that of a tile")
    a.s[a.S].compute_at(a.s[a.C], a.s[a.C].split(a.C.op.axis[0], factor=8)[0])
    a.s[a.S].vectorize(a.S.op.axis[0])


def _before_or_not(a):
    a.says("schedule it before")
    s, _, _, S, _ = _chain()
    s[S].split(S.op.axis[0], 4)
    s[S].compute_inline()
    a.says("do not inline it")
    s, _, _, S, _ = _chain()
    s[S].split(S.op.axis[0], 4)


def _without_strides(a):
    a.says("te.placeholder without strides")
    A = te.placeholder((8, 8), name="A")
    s = te.create_schedule(te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="C").op)
    s[A].transform_layout(lambda i, j: [j, i])


CUT = "a permutation of axes, with axes cut as i // 16 and i % 16"


def _permuted(a):
    a.says(CUT)
    a.s[a.P].transform_layout(lambda i, j: [j, i // 16, i % 16])


def _merged(a):
    _permuted(a)
    a.says("merged as y * 56 + x for an x of 56 values")
    s, _, P, *_ = _chain()
    s[P].transform_layout(lambda y, x: [y * 16 + x])


def _cached_output(a):
    cached = a("s.cache_write(C, 'local')")
    a.says("and compute_at of that at a loop of C")
    a.s[cached].compute_at(a.s[a.C], a.s[a.C].op.axis[0])


def _cached_argument(a):
    copy = a("s.cache_read(A, 'local', [reader])", reader=a.P)
    a.says("and compute_at of that")
    a.s[copy].compute_at(a.s[a.P], a.P.op.axis[0])


def _both_results(a):
    a.says("one te.compute of both, lambda …: (B's, C's)")
    A = te.placeholder((8,), name="A")
    both = te.compute((8,), lambda i: (A[i] + 1.0, (A[i] + 1.0) * 2.0))
    tl.lower(te.create_schedule(both[0].op), [A, *both])


def _stored(outer):
    """Memory at a loop of C once the stage is computed where the advice says."""

    def follow(a):
        i, j = a.C.op.axis
        a("s[S].compute_at(s[C], j)", j=j)
        a.s[a.S].store_at(a.s[a.C], i if outer else j)

    return follow


def _stored_inside(a):
    i, j = a.C.op.axis
    a("s[S].store_at(s[C], j)", j=j)
    a.says("another loop that is vectorized")
    s, _, _, S, C = _chain()
    s[S].compute_at(s[C], C.op.axis[1])
    s[S].store_at(s[C], C.op.axis[0])


FOLLOW = {
    "store_around_a_vector_loop": _stored_inside,
    "store_at_of_a_stage_at_root": _stored(outer=True),
    "store_at_inside_the_computation": _stored(outer=False),
    "compute_at_of_an_output": _cached_output,
    "compute_at_of_an_argument": _cached_argument,
    "schedule_of_a_placeholder": _says(
        "pass the outputs of a te.compute", lambda a: te.create_schedule(_matmul()[1].op)
    ),
    "schedule_of_nothing": lambda a: a("te.create_schedule(C.op)"),
    "schedule_of_a_number": lambda a: (a.says("with C = te.compute(…)"), a("te.create_schedule(C.op)")),
    "loop_of_another_stage": _axis_now(lambda a, s: s[a.P].split(s[a.P].op.axis[0], 4)),
    "loop_of_another_computation": _axis_now(lambda a, s: s[a.C].vectorize(s[a.C].op.axis[1])),
    "axis_after_cache_write": _axis_now(lambda a, s: s[a.CC].split(s[a.CC].op.axis[0], 4)),
    "reorder_of_strangers": _axis_now(lambda a, s: s[a.C].reorder(*s[a.C].op.axis[::-1])),
    "compute_at_with_the_loop_of_another": _axis_now(
        lambda a, s: s[a.S].compute_at(s[a.C], s[a.C].op.axis[0])
    ),
    "split_by_a_float": _factors,
    "split_by_a_symbol": _factors,
    "split_by_factor_and_nparts": _one_of_two,
    "fuse_of_a_loop_with_itself": _says("name each loop once", lambda a: a.s[a.C].fuse(*a.C.op.axis)),
    "reorder_names_a_loop_twice": _says("name each loop once", lambda a: a.s[a.C].reorder(a.j, a.i)),
    "vectorize_and_unroll": _halves,
    "vectorize_a_symbolic_extent": _constant_factor(lambda stage, loop: stage.vectorize(loop), 1),
    "unroll_a_symbolic_extent": _constant_factor(lambda stage, loop: stage.unroll(loop), 0),
    "vectorize_a_symbolic_extent_that_can_move": _of_a_tile,
    "vectorize_a_custom_reduction": _says(
        "vectorize a data loop", lambda a: a.s[a.index].vectorize(a.index.op.axis[0])
    ),
    "compute_at_a_stage_that_does_not_read": _says(
        "a loop of its reader", lambda a: a.s[a.S].compute_at(a.s[a.C], a.C.op.axis[0])
    ),
    "compute_at_a_tensor": lambda a: a("s[S].compute_at(s[C], loop)", loop=a.C.op.axis[0]),
    "inline_an_output_that_reads_a_stage": lambda a: a("s[P].compute_inline()"),
    "inline_a_reduction": lambda a: a("s[R].compute_at(reader, loop)", reader=a.s[a.C], loop=a.C.op.axis[0]),
    "split_of_an_inlined_stage": _before_or_not,
    "reverse_compute_at_of_the_reader_of_an_output": _both_results,
    "reverse_compute_at_of_a_reduction": lambda a: a("s[P].compute_at(s[C], loop)", loop=a.C.op.axis[0]),
    "layout_of_an_input_that_fills_its_padding": _says(
        "no pad_value", lambda a: a.s[a.A].transform_layout(lambda i, j: [i // 7, j, i % 7])
    ),
    "layout_with_an_axis_separator": _says(
        "the same map without it", lambda a: a.s[a.P].transform_layout(lambda i, j: [i, j])
    ),
    "layout_of_an_input_with_strides": _without_strides,
    "layout_that_forgets_an_axis": _permuted,
    "layout_of_too_many_indices": lambda a: a.s[a.P].transform_layout(a("lambda i, j: [j, i]")),
    "layout_that_mixes_axes": _merged,
}
