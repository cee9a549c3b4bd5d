"""Schedules watched while the interpreter runs them."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te


def program(vector: bool = False):
    A = te.placeholder((4, 6), name="A")
    B = te.compute((4, 6), lambda i, j: A[i, j] * 2.0, name="B")
    s = te.create_schedule(B.op)
    i, j = B.op.axis
    if vector:
        s[B].vectorize(s[B].split(j, 4)[1])
    else:
        s[B].reorder(j, i)
    return s, [A, B], np.arange(24, dtype=np.float32).reshape(4, 6)


def test_every_write_is_told_in_order():
    s, args, a = program()
    seen = []
    run = tl.interpret(s, args, [a], on_write=seen.append)
    assert [w.index for w in seen] == [(i, j) for j in range(6) for i in range(4)]
    assert [w.value for w in seen] == [2 * a[w.index] for w in seen]
    assert seen[5].loops == {"j": 1, "i": 1} and str(seen[5]).split()[1:5] == ["write", "B[1,", "1]", "="]
    assert (run.arrays["B"] == 2 * a).all() and not run.stopped
    assert (run.order("A") + 1 == run.order("B")).all()
    assert (np.argsort(run.order("B").ravel())[:4] == [0, 6, 12, 18]).all()


@pytest.mark.parametrize("simple", [True, False])
def test_lanes_are_told_one_by_one_and_masked_ones_are_not(simple):
    s, args, a = program(vector=True)
    run = tl.interpret(s, args, [a], simple=simple)
    assert len(run.writes) == 24 and (run.arrays["B"] == 2 * a).all()
    assert {w.index for w in run.writes} == {(i, j) for i in range(4) for j in range(6)}


def test_until_a_number_of_writes_or_a_condition():
    s, args, a = program()
    run = tl.interpret(s, args, [a], until=3)
    assert run.stopped and (run.arrays["B"] != 0).sum() == 2 and len(run.writes) == 3  # one of them wrote 0
    run = tl.interpret(s, args, [a], until=lambda w: w.index == (3, 1))
    assert run.writes[-1].index == (3, 1) and len(run.writes) == 8
    assert "stopped" in str(run) and "B[3, 1] = 38.0" in str(run)


def test_reductions_and_workspace_are_seen():
    A = te.placeholder((3, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    T = te.compute((3,), lambda i: te.sum(A[i, k], axis=k), name="T")
    C = te.compute((3,), lambda i: T[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    run = tl.interpret(s, [A, C], [np.ones((3, 4), np.float32), np.zeros(3, np.float32)])
    assert run.arrays["C"].tolist() == [5, 5, 5]
    assert sum(w.buffer == "T" for w in run.writes) == 3 * 5  # begun, then added to


def test_open_sizes_are_solved():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    assert (
        tl.interpret(te.create_schedule(B.op), [A, B], [np.zeros(5, np.float32)]).arrays["B"].tolist()
        == [1] * 5
    )


def test_what_is_wrong_is_said():
    s, args, a = program()
    for bad in ([], [a, a, a], [a[:2]], [a.astype(int)]):
        with pytest.raises(tl.CallError, match="interpret"):
            tl.interpret(s, args, bad)
    with pytest.raises(tl.CallError, match="until=0"):
        tl.interpret(s, args, [a], until=0)
    with pytest.raises(tl.CallError, match="legal     A, B"):
        tl.interpret(s, args, [a]).order("C")
    with pytest.raises(KeyError, match="mine"):
        tl.interpret(s, args, [a], on_write=lambda w: {}["mine"])


def test_the_picture_has_a_cell_for_each_element():
    s, args, a = program()
    page = tl.interpret(s, args, [a])._repr_html_()
    assert page.count("<rect x=") == 48 and "when B is touched" in page and len(page) < 50_000
    big = te.placeholder((100, 100), name="X")
    Y = te.compute((100, 100), lambda i, j: big[i, j], name="Y")
    run = tl.interpret(te.create_schedule(Y.op), [big, Y], [np.zeros((100, 100), np.float32)], until=1)
    assert "too many to draw" in run._repr_html_()
