"""Other tensors in the place of some: what follows reads them, what does not stays as it is."""

from __future__ import annotations

import numpy as np

from tensorlang import te
from tensorlang.te.exchange import exchanged

N = 6
X = te.placeholder((N,), name="x")


def stage(of, name, by=1.0):
    return te.compute((N,), lambda i: of(i) * by + 1.0, name=name)


def value(y):
    x = np.arange(N, dtype="float32")
    return te.reference.evaluate([y], {X: x})[0]


def test_what_follows_is_declared_anew_and_what_does_not_stays():
    a, beside = stage(X, "a"), stage(X, "beside")
    b = te.compute((N,), lambda i: a(i) - beside(i), name="b")
    made = exchanged([b], {a.op: stage(X, "other", 3.0)}.get)
    new_a, new_b, same = made.of([a, b, beside])
    assert new_a.name == "a" and new_b.name == "b" and same is beside
    np.testing.assert_array_equal(value(new_b), 2 * np.arange(N, dtype="float32"))
    np.testing.assert_array_equal(value(b), np.zeros(N, "float32"))


def test_one_that_is_made_of_what_another_replaced():
    a = stage(X, "a")
    b = stage(a, "b")
    between = stage(a, "between")  # of the other b alone, it reads what stands for a
    made = exchanged([b], {a.op: stage(X, "other", 2.0), b.op: stage(between, "other_b", 5.0)}.get)
    (new,) = made.of([b])
    np.testing.assert_array_equal(value(new), ((2 * np.arange(N) + 1) + 1) * 5.0 + 1)


def test_nothing_changes_where_a_scan_reads_it():
    a = te.compute((3, N), lambda t, i: X(i) * 2.0, name="a")
    state = te.placeholder((3, N), name="state")
    first = te.compute((1, N), lambda _, i: a[0, i], name="first")
    update = te.compute((3, N), lambda t, i: state[t - 1, i] + a[t, i], name="update")
    y = te.scan(first, update, state, inputs=[a])
    assert not exchanged([y], {a.op: te.compute((3, N), lambda t, i: X(i), name="other")}.get).tensors
