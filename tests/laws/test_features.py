"""The law of columns for what the cost model sees: features of a row equal those of the schedule replayed
with it, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import SearchTask
from autosched.cost_model.features import BLOCKS, FeatureSet
from autosched.cost_model.features.estimate import SCALE, traffic
from autosched.cost_model.features.handed import handed
from autosched.space import Variant, variants_of
from tensorlang import Target, te
from tensorlang.analysis import Statement, analyse, compile_columns, cost_of
from tensorlang.errors import ScheduleError

from .spaces import SKETCHED, SPACES

TARGETS = ("llvm -mcpu=haswell -num-cores=4", "llvm -mcpu=skylake-avx512 -num-cores=1")


@pytest.mark.each_value
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
            concrete = FeatureSet(analyse(v.schedule(row)), v.target, BLOCKS, v.feature_set.order, v.declared)
        except ScheduleError:
            continue
        numbers = compile_columns(concrete.exprs, ())(np.empty((1, 0)))
        assert concrete.names == v.feature_set.names
        assert dict(zip(concrete.names, numbers[0].tolist(), strict=True)) == dict(
            zip(concrete.names, raw.tolist(), strict=True)
        )
        assert (FeatureSet.scaled(numbers)[0] == seen[: len(numbers[0])]).all()


def test_every_feature_is_also_compared_with_the_start() -> None:
    """The second half of the columns is how far each is from the candidate that a search starts from: the
    present row of the first variant."""
    variants = variants_of(SearchTask.of(SKETCHED["matmul"](), TARGETS[0]))
    first = FeatureSet.scaled(
        compile_columns(variants[0].feature_set.exprs, variants[0].analysis.knobs)(variants[0].present())
    )
    assert not variants[0].features(variants[0].present())[:, first.shape[1] :].any()
    for v in variants[1:]:
        table = v.features(v.sample_valid(np.random.default_rng(0), 3))
        seen, against = np.split(table, 2, axis=1)
        assert table.shape[1] == len(v.feature_names) == len(set(v.feature_names))
        assert (against == seen - first).all() and against.any()


@pytest.mark.parametrize("inside", [False, True])
def test_fused_loops_touch_what_they_did_one_by_one(inside: bool) -> None:
    """What a statement touches from each loop inwards, its strides and its traffic through the caches are the
    same whether loops are fused or not, also of what is computed inside of them."""

    def statements(fused: bool) -> list[Statement]:
        x, y = te.placeholder((256, 512), name="x"), te.placeholder((512, 384), name="y")
        k = te.reduce_axis((0, 512), "k")
        z = te.compute((256, 384), lambda i, j: te.sum(x[i, k] * y[k, j], k), name="z")
        s = te.create_schedule(z.op)
        local = s.cache_write(z, "local")
        i, j = s[z].op.axis
        io, ii = s[z].split(i, factor=7)
        jo, ji = s[z].split(j, factor=16)
        s[z].reorder(io, jo, ii, ji)
        at = s[z].fuse(io, jo) if fused else jo
        s[local].compute_at(s[z], at)
        a, b = s[local].op.axis
        s[local].reorder(s[local].op.reduce_axis[0], a, b)
        if inside and fused:
            s[local].fuse(a, b)
        return [st.unfused for st in analyse(s).statements]

    target = Target.parse("llvm -mcpu=znver4 -num-cores=2")
    read = lambda es: compile_columns(list(es), ())(np.empty((1, 0)))[0].tolist() if es else []
    for one, other in zip(statements(True), statements(False), strict=True):
        assert len(one.loops) == len(other.loops) and one.name == other.name
        assert read([p.extent for p in one.loops]) == read([p.extent for p in other.loops])
        for a, b in zip(one.accesses, other.accesses, strict=True):
            assert [read(e) for e in a.extents] == [read(e) for e in b.extents]
            assert read(a.strides) == read(b.strides)
        assert read(traffic(one, target).values()) == read(traffic(other, target).values())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["serial", "parallel", "vectorize", "unroll"])
@pytest.mark.parametrize("loop", [0, 1])
def test_a_stage_without_elements_has_features(kind: str, loop: int, target: str) -> None:
    x = te.placeholder((0, 0), name="x")
    y = te.compute((0, 0), lambda i, j: x[i, j] * 2.0, name="y")
    s = te.create_schedule(y.op)
    if kind != "serial":
        getattr(s[y], kind)(y.op.axis[loop])
    found = FeatureSet(analyse(s), Target.parse(target), BLOCKS)
    numbers = compile_columns(found.exprs, ())(np.empty((1, 0)))
    assert np.isfinite(numbers).all() and (numbers >= 0).all()


def test_a_program_with_an_empty_stage_is_tuned() -> None:
    def program() -> list[te.Tensor]:
        x, y = te.placeholder((0,), name="x"), te.placeholder((3, 20), name="y")
        empty = te.compute((0,), lambda i: te.max(x[i], 1.0), name="empty")
        return [x, y, empty, te.compute((3, 20), lambda i, j: y[i, j] * 2.0, name="full")]

    for v in variants_of(SearchTask(program, (), TARGETS[0])):
        assert np.isfinite(v.features(v.present())).all()


@pytest.mark.parametrize("name", SKETCHED)
def test_features_of_sketches_equal_the_replayed_schedule(name: str) -> None:
    """Every variant the rules derive keeps the law, and what keeps to its limits is accepted."""
    target = Target.parse(TARGETS[0])
    rng = np.random.default_rng(5)
    for v in variants_of(SearchTask.of(SKETCHED[name](), target)):
        rows = np.concatenate([v.present(), v.sample_valid(rng, 2)])
        exprs = compile_columns(v.feature_set.exprs, v.analysis.knobs)(rows)
        for row, raw in zip(rows, exprs, strict=True):
            concrete = FeatureSet(analyse(v.schedule(row)), v.target, BLOCKS, v.feature_set.order, v.declared)
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


@pytest.mark.parametrize(("inside", "cores", "lines"), [(False, 2, 512), (True, 2, 0), (False, 1, 0)])
def test_what_another_core_has_written_is_counted(inside: bool, cores: int, lines: int) -> None:
    """A copy of 64 × 128 floats is made by all threads, and each of two then reads all of it, of which the
    other one wrote a half; or each thread makes it for itself."""
    x, y = te.placeholder((64, 128), name="x"), te.placeholder((32, 64), name="y")
    k = te.reduce_axis((0, 64), "k")
    z = te.compute((32, 128), lambda i, j: te.sum(y[i, k] * x[k, j], k), name="z")
    s = te.create_schedule(z.op)
    copy = s.cache_read(x, "global", [z])
    s[z].parallel(z.op.axis[0])
    if inside:
        s[copy].compute_at(s[z], z.op.axis[0])
    else:
        s[copy].parallel(s[copy].op.axis[0])
    target = Target.parse(f"llvm -mcpu=haswell -num-cores={cores}")
    analysis = analyse(s)
    found = compile_columns(handed(analysis.statements, target), ())(np.empty((1, 0)))[0]
    assert sum(found) * cost_of(target).remote_rate == pytest.approx(lines * 64 // 2 * SCALE, rel=0.02)
