"""The law of columns for what the cost model sees: features of a row equal those of the schedule replayed
with it, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import SearchTask
from autosched.cost_model.features import BLOCKS, FeatureSet
from autosched.space import Variant, variants_of
from tensorlang import Target
from tensorlang.analysis import analyse, compile_columns
from tensorlang.errors import ScheduleError

from .spaces import SKETCHED, SPACES

TARGETS = ("llvm -mcpu=haswell -num-cores=4", "llvm -mcpu=skylake-avx512 -num-cores=1")


@pytest.mark.parametrize(
    "name", ["matmul", "fused matmul", "conv at out", "conv at local", "fused chunks", "row sums"]
)
@pytest.mark.parametrize("target", TARGETS)
def test_features_equal_the_replayed_schedule(name: str, target: str) -> None:
    s = SPACES[name]()
    v = Variant(s, Target.parse(target))
    rows = v.sample(np.random.default_rng(3), 40)
    table, exprs = v.features(rows), compile_columns(v.feature_set.exprs, v.analysis.knobs)(rows)
    assert np.isfinite(table).all() and (exprs >= 0).all()
    for row, raw, seen in zip(rows, exprs, table, strict=True):
        try:
            concrete = FeatureSet(analyse(v.schedule(row)), v.target, BLOCKS, v.feature_set.order)
        except ScheduleError:
            continue
        numbers = compile_columns(concrete.exprs, ())(np.empty((1, 0)))
        assert concrete.names == v.feature_set.names
        assert dict(zip(concrete.names, numbers[0].tolist(), strict=True)) == dict(
            zip(concrete.names, raw.tolist(), strict=True)
        )
        assert (FeatureSet.scaled(numbers)[0] == seen).all()


@pytest.mark.parametrize("name", SKETCHED)
def test_features_of_sketches_equal_the_replayed_schedule(name: str) -> None:
    """Every variant the rules derive keeps the law, and what keeps to its limits is accepted."""
    target = Target.parse(TARGETS[0])
    rng = np.random.default_rng(5)
    for v in variants_of(SearchTask.of(SKETCHED[name](), target)):
        rows = np.concatenate([v.present(), v.sample_valid(rng, 2)])
        exprs = compile_columns(v.feature_set.exprs, v.analysis.knobs)(rows)
        for row, raw in zip(rows, exprs, strict=True):
            concrete = FeatureSet(analyse(v.schedule(row)), v.target, BLOCKS, v.feature_set.order)
            numbers = compile_columns(concrete.exprs, ())(np.empty((1, 0)))
            assert dict(zip(concrete.names, numbers[0].tolist(), strict=True)) == dict(
                zip(concrete.names, raw.tolist(), strict=True)
            ), v.why


def test_limits_hold_whatever_is_replayed() -> None:
    """A row that keeps to the limits is one the primitives accept."""
    for make in SPACES.values():
        v = Variant(make(), Target.parse(TARGETS[0]))
        for row in v.sample_valid(np.random.default_rng(1), 10):
            v.schedule(row)
