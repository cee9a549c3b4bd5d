"""Axes of one name: two reduce axes without a name, or a data axis `k` beside a reduce axis "k". Every call
is about the axis it is given."""

from __future__ import annotations

import gc

import pytest

import tensorlang as tl
from autosched.space.rules import Where
from autosched.space.sketch import derive
from tensorlang import te
from tensorlang.errors import DeclareError
from tensorlang.recipes import default_schedule
from tensorlang.te import serialize
from tests.fuzz.harness import run


def sums():
    """Two unnamed reduce axes."""
    A = te.placeholder((4, 6, 10), name="A")
    first, second = te.reduce_axis((0, 6)), te.reduce_axis((0, 10))
    return (
        [A, te.compute((4,), lambda i: te.sum(A[i, first, second], axis=[first, second]), name="C")],
        first,
        second,
    )


def product():
    """A data axis and a reduce axis, both called `k`."""
    A, B = te.placeholder((5, 7), name="A"), te.placeholder((7, 12), name="B")
    r = te.reduce_axis((0, 7), name="k")
    return [A, B, te.compute((5, 12), lambda i, k: te.sum(A[i, r] * B[r, k], axis=r), name="C")], r


def right(s, tensors) -> None:
    """numpy, the interpreter and compiled code agree."""
    run(tensors, tensors[-1:], dict.fromkeys("AB", (-4, 5)), s, [{}])


def splits_second(s, C, first, second):
    outer, inner = s[C].split(second, 5)
    assert s[C].leaf_iter_vars == (*C.op.axis, first, outer, inner)


def splits_parts(s, C, first, second):
    s[C].split(second, nparts=5)
    assert first in s[C].leaf_iter_vars and second not in s[C].leaf_iter_vars


def unrolls_second(s, C, first, second):
    s[C].unroll(second)
    assert s[C].state.kinds == {second: "unrolled"}


def factors_second(s, C, first, second):
    partial = s.rfactor(C, second)
    assert [a.extent for a in partial.op.axis] == [10, 4] and [a.extent for a in partial.op.reduce_axis] == [
        6
    ]


def reorders(s, C, first, second):
    s[C].reorder(second, first)
    assert s[C].leaf_iter_vars == (*C.op.axis, second, first)


def fuses(s, C, first, second):
    fused = s[C].fuse(first, second)
    assert s[C].leaf_iter_vars == (*C.op.axis, fused)


def annotates(s, C, first, second):
    s[C].pragma(second, "auto_unroll_max_step", 16)
    assert list(s[C].state.pragmas) == [second]


def caches_and_places(s, C, first, second):
    acc = s.cache_write(C, "local")
    copy = s.cache_read(s.tensor("A"), "local", [acc])
    s[copy].compute_at(s[acc], second)
    assert s[copy].state.attach.loop == second.name != first.name


CALLS = [
    splits_second,
    splits_parts,
    unrolls_second,
    factors_second,
    reorders,
    fuses,
    annotates,
    caches_and_places,
]


@pytest.mark.parametrize("call", CALLS, ids=lambda f: f.__name__)
def test_a_call_is_about_the_axis_it_is_given(call):
    tensors, first, second = sums()
    s = te.create_schedule(tensors[-1].op)
    call(s, tensors[-1], first, second)
    right(s, tensors)
    again = te.create_schedule(tensors[-1].op).replay(s.trace)
    assert again.tree() == s.tree() and str(tl.lower(again, tensors)) == str(tl.lower(s, tensors))


def test_a_data_axis_beside_a_reduce_axis():
    tensors, r = product()
    C = tensors[-1]
    s = te.create_schedule(C.op)
    outer, lanes = s[C].split(C.op.axis[1], 4)
    s[C].reorder(outer, r, lanes)
    s[C].vectorize(lanes)
    assert s[C].leaf_iter_vars == (C.op.axis[0], outer, r, lanes)
    right(s, tensors)


def test_the_tree_and_the_program_use_the_same_names():
    tensors, first, second = sums()
    s = te.create_schedule(tensors[-1].op)
    s[tensors[-1]].reorder(second, first)
    lines = [
        line.split()[1] for line in str(tl.lower(s, tensors)).splitlines() if line.strip().startswith("for ")
    ]
    assert lines == ["i", "rv_1", "rv"] and [iv.name for iv in s[tensors[-1]].leaf_iter_vars] == lines


@pytest.mark.parametrize("make", [sums, product])
def test_default_schedule_and_sketches_take_them(make):
    tensors = make()[0]
    right(default_schedule(tensors[-1:]), tensors)
    sketches = derive(te.create_schedule(tensors[-1].op), Where(tl.Target.parse("llvm")))
    assert sketches
    for sketch in sketches:
        right(sketch.schedule.concrete(), tensors)


def test_names_and_places_survive_json():
    tensors, *_ = sums()
    read = serialize.from_json(serialize.to_json(tensors))
    assert [a.name for a in read[-1].op.reduce_axis] == ["rv", "rv_1"]
    assert serialize.key_of(read) == serialize.key_of(tensors)


def test_names_in_a_file_that_has_two_axes_of_one_name():
    tensors, *_ = sums()
    old = serialize.to_json(tensors).replace('"rv_1"', '"rv"')
    assert [a.name for a in serialize.from_json(old)[-1].op.reduce_axis] == ["rv", "rv_1"]


def test_axes_in_python_lists():
    tensors, first, second = sums()
    C = tensors[-1]
    (i,) = C.op.axis
    loops = [first, second, i]
    assert [loops.index(a) for a in loops] == [0, 1, 2] and second in loops[1:] and second not in [first, i]
    loops.remove(second)
    assert (
        loops == [first, i]
        and loops.count(first) == 1
        and [a for a in (first, second) if a != first] == [second]
    )
    wide = te.reduce_axis((0, te.var("n", "int64")))
    assert wide not in [first, second] and wide in [first, wide]


def test_inside_a_declaration_equality_is_a_question_about_values():
    A = te.placeholder((3, 3), name="A")
    with pytest.raises(DeclareError, match="the truth of `i == j`"):
        te.compute((3, 3), lambda i, j: A[i, j] if i == j else 0.0)
    eye = te.compute((3, 3), lambda i, j: te.if_then_else(i == j, A[i, j], 0.0))
    right(te.create_schedule(eye.op), [A, eye])
    with pytest.raises(DeclareError):
        bool(te.var("n") == te.var("m"))


def test_an_axis_shared_by_operations_keeps_one_name():
    A = te.placeholder((6, 10), name="A")
    first, second = te.reduce_axis((0, 6)), te.reduce_axis((0, 10))
    rows = te.compute((6,), lambda i: te.sum(A[i, second], axis=second), name="rows")
    whole = te.compute((), lambda: te.sum(A[first, second] * rows[first], axis=[first, second]), name="whole")
    s = te.create_schedule(whole.op)
    s[rows].split(second, 5)
    s[whole].split(second, 3)
    assert len(s[rows].leaf_iter_vars) == 3 and first in s[whole].leaf_iter_vars
    right(s, [A, whole])


def test_the_order_of_sums_does_not_change_when_an_axis_is_renamed():
    A = te.placeholder((40,), name="A")
    a, b = te.reduce_axis((0, 3)), te.reduce_axis((0, 4))
    before = b + a + 1
    text = te.compute((5,), lambda i: te.sum(A[i + b + a + 1], axis=[b, a]))
    assert b + a + 1 is before and a.name != b.name
    del text
    gc.collect()
    assert (b + a + 1) is before
