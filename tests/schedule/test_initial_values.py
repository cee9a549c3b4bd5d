"""Stages that the initial values of a reduction read: they are needed before the loops that it reduces."""

from collections.abc import Callable

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.schedule import Schedule


def _computation() -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """``B`` of ``X``, and ``C``, the sums of the rows of ``A`` and of what ``B`` has for them."""
    a, x = te.placeholder((8, 16), name="A"), te.placeholder((8,), name="X")
    b = te.compute((8,), lambda i: x[i] + 1.0, name="B")
    k = te.reduce_axis((0, 16), "k")
    return a, x, te.compute((8,), lambda i: te.sum(a[i, k], axis=k, init=b[i]), name="C")


def _at_row(s: Schedule) -> None:
    s["B"].compute_at(s["C"], "i")


def _at_tile(s: Schedule) -> None:
    outer, inner = s["C"].split("i", 4)
    s["C"].reorder(outer, "k", inner)
    s["B"].compute_at(s["C"], outer)


@pytest.mark.parametrize("schedule", [_at_row, _at_tile])
def test_they_are_computed_outside_of_the_reduction(schedule: Callable[[Schedule], None]) -> None:
    a, x, c = _computation()
    s = te.create_schedule(c.op)
    schedule(s)
    rng = np.random.default_rng(1)
    given = [rng.integers(-9, 9, shape).astype("float32") for shape in ((8, 16), (8,))]
    want = given[0].sum(1) + given[1] + 1
    read = np.zeros(8, "float32")
    interpret(tl.lower(s, [a, x, c]), *given, read)
    np.testing.assert_array_equal(read, want)
    np.testing.assert_array_equal(tl.build(s, [a, x, c])(*given), want)


def _in_reduction(s: Schedule) -> None:
    s["B"].compute_at(s["C"], "k")


def _behind_reduction(s: Schedule) -> None:
    s["C"].reorder("k", "i")
    s["B"].compute_at(s["C"], "i")


def _reordered(s: Schedule) -> None:
    s["B"].compute_at(s["C"], "i")
    s["C"].reorder("k", "i")


def _begun_further_out(s: Schedule) -> None:
    s["B"].compute_at(s["C"], "i")
    s["C"].decompose_reduction("i")


@pytest.mark.parametrize("schedule", [_in_reduction, _behind_reduction, _reordered, _begun_further_out])
def test_a_place_where_they_come_too_late_is_refused(schedule: Callable[[Schedule], None]) -> None:
    """They were read before they were computed."""
    *_, c = _computation()
    s = te.create_schedule(c.op)
    with pytest.raises(tl.ScheduleError, match="the initial values of `C` read `B`"):
        schedule(s)
