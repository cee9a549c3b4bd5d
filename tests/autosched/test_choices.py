"""Reducers of the user's that choose one of two tuples, as argmax in TVM's tutorials: they are tasks as any other, and
searched in vectors: right for ties, NaN, and what is computed before it is compared."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from autosched import SearchTask, tune
from autosched.space import variants_of
from tensorlang import te
from tensorlang.te import serialize

from .workloads import Pretend

X86 = "llvm -mcpu=haswell -num-cores=2"


def chooser(largest: bool = True) -> object:
    def combine(a: tuple[te.Expr, ...], b: tuple[te.Expr, ...]) -> tuple[te.Expr, ...]:
        keep = a[1] >= b[1] if largest else a[1] <= b[1]
        return tuple(te.select(keep, x, y) for x, y in zip(a, b, strict=True))

    start = te.min_value if largest else te.max_value
    return te.comm_reducer(combine, lambda t, u: (te.const(-1, t), start(u)), name="choose")


def best_of_rows(
    m: int, n: int, dtype: str = "float32", largest: bool = True, biased: bool = False
) -> list[te.Tensor]:
    """The place and the value of the best of each row, of what is read or of what is made of it."""
    x, bias, k = (
        te.placeholder((m, n), dtype, "x"),
        te.placeholder((n,), dtype, "bias"),
        te.reduce_axis((0, n), "k"),
    )
    scores = te.compute((m, n), lambda i, j: te.max(x[i, j] * 3 + bias[j], 0), name="scores") if biased else x
    made = te.compute(
        (m,), lambda i: chooser(largest)((te.cast("int32", k.var), scores[i, k]), axis=k), name="T"
    )
    return [x, *([bias] if biased else []), *made]


def _taken_apart(task: SearchTask) -> list:
    return [v for v in variants_of(task) if "choices: T" in v.why]


@pytest.mark.parametrize(
    ("dtype", "largest", "biased"),
    [("float32", True, False), ("int8", False, False), ("float32", True, True), ("float32", False, True)],
)
def test_every_sketch_is_right(dtype: str, largest: bool, biased: bool) -> None:
    tensors = best_of_rows(37, 130, dtype, largest, biased)
    task, rng = SearchTask.of(tensors, X86), np.random.default_rng(4)
    found = _taken_apart(task)
    assert len(found) > 1 and all(v.domains for v in found)
    x = rng.integers(-9, 9, (37, 130)).astype(dtype)
    if dtype == "float32":
        x[3, 7] = x[5, :] = np.nan
        x[9] = np.inf
    given = [x, *([rng.integers(-2, 3, 130).astype(dtype)] if biased else [])]
    right = te.reference.evaluate(tensors[-2:], dict(zip(tensors, given, strict=False)))
    for v in found:
        for row in [*v.present(), *v.sample_valid(rng, 1)]:
            got = tl.build(v.schedule(row), tensors)(*given)
            for g, w in zip(got, right, strict=True):
                assert np.array_equal(g, w, equal_nan=dtype == "float32"), (v.why, v.decisions(row))


def test_the_default_schedule_comes_first() -> None:
    task = SearchTask.of(best_of_rows(64, 1000), X86)
    pretend = Pretend()
    tune(task, trials=1, measurer=pretend, model="random", progress=False)
    assert "split_choice" in pretend.traces[0]


def test_what_is_looked_for_is_kept_where_it_is_computed() -> None:
    """Written into the search for the extreme and into that for its place, it could be rounded in two ways."""
    found = _taken_apart(SearchTask.of(best_of_rows(64, 1000, biased=True), X86))
    assert found
    for v in found:
        assert "inline: scores" not in v.why and any(w.startswith("map: scores") for w in v.why)


def test_short_rows_are_reduced_as_they_are() -> None:
    assert not _taken_apart(SearchTask.of(best_of_rows(64, 9), X86))


def test_reducers_have_no_names_of_the_users_inside() -> None:
    """A task of one could not be made: the sides of its reducer were taken for names."""
    a, b = best_of_rows(6, 20), best_of_rows(6, 20)
    names = serialize.form_and_names(a)[1]
    other = serialize.renamed(a, [f"other{n}" for n in range(len(names))])
    assert serialize.form_of(a) == serialize.form_of(b) == serialize.form_of(other)
    assert serialize.form_of(a) != serialize.form_of(best_of_rows(6, 20, largest=False))
    assert other[0].name.startswith("other") and not any("hs" in n for n in names)
    x = np.random.default_rng(0).integers(-4, 5, (6, 20)).astype("float32")
    for one, two in zip(tl.compile(a)(x), tl.compile(other)(x), strict=True):
        assert np.array_equal(one, two)
