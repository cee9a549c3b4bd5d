"""The rule that makes convolutions transforms and products: when it is asked, what comes out of it, and how it
is switched off."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from autosched import SearchTask
from autosched.measure import Job, builder, runner
from autosched.search import Evolutionary, Seen, allocate
from autosched.space import Variant, variants_of
from autosched.space.rules import Where
from autosched.space.sketch import derive
from tensorlang import ops, te
from tensorlang.errors import TensorLangError

HOST = tl.Target.host()


def block(channels=32, outputs=16, side=13, layout="NCHW"):
    first = layout == "NCHW"
    x = te.placeholder((1, channels, side, side) if first else (1, side, side, channels), name="x")
    w = te.placeholder((outputs, channels, 3, 3) if first else (3, 3, channels, outputs), name="w")
    shape = (1, outputs, side, side) if first else (1, side, side, outputs)
    old = te.placeholder(shape, name="old")
    return [x, w, old, ops.relu(ops.add(ops.conv2d(x, w, padding=1, layout=layout), old))]


def volume(batch=1, channels=32, outputs=16, planes=5, side=9, taps=3, padding=1):
    x = te.placeholder((batch, channels, planes, side, side), name="x")
    w = te.placeholder((outputs, channels, taps, 3, 3), name="w")
    return [x, w, ops.relu(ops.conv3d(x, w, padding=padding))]


def sketches(tensors, target=HOST):
    return derive(SearchTask.of(tensors).schedule(), Where(target))


def with_winograd(found):
    return [x for x in found if any(r.startswith("winograd") for r in x.rules)]


@pytest.mark.parametrize(
    "tensors",
    [
        pytest.param(block(), id="NCHW"),
        pytest.param(block(layout="NHWC"), id="NHWC"),
        pytest.param(volume(), id="volume"),
        pytest.param(volume(batch=2, taps=2), id="volumes"),
        pytest.param(volume(planes=9, side=10, taps=1), id="planes alone"),
        pytest.param(volume(planes=40, side=4, padding=(1, 0, 0)), id="a tile a plane"),
    ],
)
def test_sketches_by_winograd_are_right_with_any_numbers(tensors):
    rng = np.random.default_rng(1)
    inputs = [rng.integers(-3, 4, [int(str(n)) for n in t.shape]).astype("float32") for t in tensors[:-1]]
    (right,) = te.reference.evaluate([tensors[-1]], dict(zip(tensors, inputs, strict=False)))
    found = with_winograd(sketches(tensors))
    assert {p.tile for x in found for p in x.schedule.trace.steps if p.name == "winograd"} == {2, 4}
    for x in found[:2]:
        v = Variant(x.schedule, HOST)
        for row in (*v.present(), *v.sample_valid(rng, 1)):
            again = tl.Trace.from_json(v.schedule(row).trace.to_json()).apply(
                te.create_schedule(tensors[-1].op)
            )
            off = np.abs(tl.build(again, tensors)(*inputs) - right).max()
            exact = any(p.name == "winograd" and p.tile == 2 for p in x.schedule.trace.steps)
            assert off <= (0 if exact else 2e-5 * np.abs(right).max())


def test_tiles_of_all_planes_of_a_volume_are_counted_as_one_axis():
    """Of a plane of 9 × 9 there are nine tiles of 4 × 4, fewer than a tile of registers has."""
    x = with_winograd(sketches(volume()))[0]
    point, other, image, tiles, outputs = x.schedule["conv3d.products"].op.axis
    assert [int(str(a.extent)) for a in (point, other, image, tiles, outputs)] == [6, 6, 1, 5 * 9, 16]
    # the data of planes beyond both ends is there too
    assert int(str(x.schedule["conv3d.data"].op.axis[3].extent)) == (5 + 2) * 9


def test_a_search_may_leave_the_default_of_a_volume_for_larger_tiles():
    variants = variants_of(SearchTask.of(volume(channels=64, outputs=64, planes=6, side=14)))
    assert {tile for v in variants for _, tile in v.algorithm} == {2, 4}
    without = variants_of(SearchTask.of(volume(channels=64, outputs=64), without=["winograd"]))
    assert not any(r.startswith("winograd") for v in without for r in v.why)


def test_neither_few_channels_nor_other_types_are_proposed():
    assert not with_winograd(sketches(block(channels=3, outputs=64, side=40)))
    x, w = (te.placeholder(n, "float64", name="x") for n in ((1, 32, 16, 16), (32, 32, 3, 3)))
    assert not with_winograd(sketches([x, w, ops.conv2d(x, w)]))


def test_what_large_tiles_round_is_no_wrong_answer(tmp_path):
    """Long sums were off by more than other orders of summation are; a term that is missing is still seen."""
    x, w = te.placeholder((1, 512, 8, 8), name="x"), te.placeholder((16, 512, 3, 3), name="w")
    task = SearchTask.of([x, w, ops.conv2d(x, w, padding=1)])
    v = next(v for v in variants_of(task) if ("winograd", 4) in v.algorithm)
    job = Job(1, task.graph, task.exact_key, str(task.target), v.trace_of(v.present()[0]).to_json())
    quiet = lambda phase: None
    assert builder.build(job, str(tmp_path), quiet).status == "built"
    assert runner.run(job, str(tmp_path), quiet).status == "ok"
    bench = runner._workbenches.pop(job.key)
    tl.load(builder.kernel_file(job, str(tmp_path)), mine=True)(*bench.arguments)
    assert "should be" in bench.wrong() and not bench.wrong(lambda: True)
    (out,) = bench.outputs
    bench.arrays[out][0, 3, 4, 5] += 1.0  # the least that a term is
    assert "1 of" in bench.wrong(lambda: True)
    first = variants_of(task)[0].trace.to_json()
    assert runner._filters(job.trace) and not runner._filters(first)


def test_a_task_may_do_without():
    task = SearchTask.of(block(), without=["winograd"])
    assert not any(r.startswith("winograd") for v in variants_of(task) for r in v.why)
    with pytest.raises(TensorLangError, match="no rule of that name"):
        variants_of(SearchTask.of(block(), without=["wino"]))
    with pytest.raises(tl.TensorLangError, match=r"rules=\[…, 3\]"):
        variants_of(SearchTask.of(block(), rules=[3]))


def test_a_transposition_is_made_in_tiles():
    """An epilogue that reads with channels innermost and writes them outermost."""
    x, y = te.placeholder((6, 7, 40), name="x"), te.placeholder((40, 6, 7), name="y")
    out = te.compute((40, 6, 7), lambda o, i, j: te.exp(x[i, j, o]) + y[o, i, j], name="out")
    found = sketches([x, y, out])
    inputs = [np.random.default_rng(2).random(s, dtype=np.float32) for s in ((6, 7, 40), (40, 6, 7))]
    for s in found:
        loops = [iv.name for iv in s.schedule["out"].leaf_iter_vars]
        assert loops == ["o.outer", "i.j.fused.outer", "o.inner", "i.j.fused.inner"]
        got = tl.build(s.schedule.concrete(), [x, y, out])(*inputs)
        assert np.allclose(got, np.exp(inputs[0].transpose(2, 0, 1)) + inputs[1], rtol=1e-6)


def test_each_algorithm_is_measured_first_whatever_a_model_believes():
    """A model that has learnt of loop nests scores a variant of another algorithm last."""
    variants = variants_of(SearchTask.of(block()))
    seen = [Seen(len(v.domains)) for v in variants]
    scores = [lambda rows, v=v: np.full(len(rows), -float(bool(v.algorithm))) for v in variants]
    chosen = allocate(
        variants, seen, Evolutionary(population=16, generations=1), 6, np.random.default_rng(0), scores
    )
    assert [sorted(variants[i].algorithm) for i, _ in chosen[:3]] == [
        [],
        [("winograd", 4)],
        [("winograd", 2)],
    ]
    assert all(np.array_equal(row, variants[i].present()[0]) for i, row in chosen[:3])
    for i, row in chosen:
        seen[i].add(row[None, :], [1.0])
    after = allocate(
        variants, seen, Evolutionary(population=16, generations=1), 6, np.random.default_rng(0), scores
    )
    assert not variants[after[0][0]].algorithm
