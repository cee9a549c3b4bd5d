"""Programs of many heavy reductions: where they are cut, that pieces put together are right, and that
everything that tunes takes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autosched
import tensorlang as tl
from autosched import RecordLog, SearchTask, extract_tasks, tune, tune_tasks
from autosched.cost_model import RandomModel
from autosched.measure import Job, Outcome
from autosched.measure.runner import Workbench
from autosched.records.record import canonical_trace
from autosched.search import Random
from autosched.space import variants_of
from autosched.space.cut import groups, heavy
from autosched.tiers import builder
from autosched.tuning.extract import pieces_of
from autosched.tuning.program import ProgramSession, session_of
from autosched.tuning.transplant import transplant
from tensorlang import ops, te
from tensorlang.recipes import default_schedule

from .chains import Oracle, Tensors, p
from .workloads import Pretend, matmul

N = 32  # N³ iterations are just enough for a product to be heavy


def three_products() -> Tensors:
    """Three layers of one shape."""
    x, *w = p(N, N, name="x"), *[p(N, N, name=f"w{i}") for i in range(3)]
    t = x
    for weight in w:
        t = ops.relu(ops.dense(t, weight))
    return [x, *w, t]


def block() -> Tensors:
    """What a transformer block has: a norm that three products read, scores and values, a residual, a norm, a
    product."""
    x, wq, wk, wv, wo, w1 = p(N, N, name="x"), *[p(N, N, name=n) for n in ("wq", "wk", "wv", "wo", "w1")]
    normed = ops.layer_norm(x, N)
    q, k, v = ops.dense(normed, wq), ops.dense(normed, wk), ops.dense(normed, wv)
    mixed = ops.matmul(ops.softmax(ops.matmul(q, k, transpose_b=True)), v)
    y = ops.add(x, ops.dense(mixed, wo))
    return [x, wq, wk, wv, wo, w1, ops.add(y, ops.relu(ops.dense(ops.layer_norm(y, N), w1)))]


def cut(tensors: Tensors) -> list[list[str]]:
    task = SearchTask.of(tensors)
    return groups(task.schedule(), lambda: default_schedule(task.outputs, task.target))


def test_a_program_is_cut_at_its_heavy_reductions() -> None:
    """Every stage is in one piece; statistics and elementwise stages stay with what they follow."""
    tensors = block()
    found = cut(tensors)
    s = SearchTask.of(tensors).schedule()
    assert sorted(name for stages in found for name in stages) == sorted(
        st.name for st in s.stages if not st.state.is_placeholder
    )
    of = {name: i for i, stages in enumerate(found) for name in stages}
    assert len({of[name] for name in heavy(s)}) == len(heavy(s)) == 7
    assert of["softmax.max"] == of["softmax"] == of["matmul"]
    assert of["layer_norm"] not in {of[name] for name in heavy(s)}  # three products read it
    assert of["add"] == of["dense_3"] == of["layer_norm.mean.sum_1"]


def test_what_moves_elements_on_their_way_to_a_reduction_belongs_to_it() -> None:
    x, a, b, c = p(1, 8, 10, 10, name="x"), *[p(8, 8, 3, 3, name=n) for n in "abc"]
    found = cut(
        [
            x,
            a,
            b,
            c,
            ops.conv2d(ops.conv2d(ops.relu(ops.conv2d(x, a, padding=1)), b, padding=1), c, padding=1),
        ]
    )
    assert found == [
        ["conv2d.pad", "conv2d", "relu"],
        ["conv2d.pad_1", "conv2d_1"],
        ["conv2d.pad_2", "conv2d_2"],
    ]


def test_few_reductions_and_scans_are_not_cut() -> None:
    x, w, v = p(N, N, name="x"), p(N, N, name="w"), p(N, N, name="v")
    two = [x, w, v, ops.dense(ops.dense(x, w), v)]
    assert len(cut(two)) == 1 and extract_tasks(two).tasks[0].tensors == two
    t = x
    for weight in (w, v, w):
        t = ops.dense(t, weight)
    assert len(cut([x, w, v, ops.cumsum(t, axis=0)])) == 1
    assert len(cut([x, w, v, ops.cummax(t, axis=0)[0]])) == 1


def test_cut_finely_statistics_and_what_reads_elsewhere_are_a_piece() -> None:
    """The sums of a norm and the norm; a pool; halves that are taken apart. A move of elements alone is
    none."""
    x, w = p(N, N, name="x"), p(N, N, name="w")
    image, kernel = p(1, 8, 10, 10, name="image"), p(8, 8, 3, 3, name="kernel")

    def pieces(result: te.Tensor, *inputs: te.Tensor) -> list[list[str]]:
        task = SearchTask.of([*inputs, result])
        default = lambda: default_schedule(task.outputs, task.target)
        return groups(task.schedule(), default, finely=True)

    dense = ops.relu(ops.dense(x, w))
    normed = pieces(ops.layer_norm(dense, N), x, w)
    assert len(normed) == 2 and normed[0][-1] == "relu" and normed[1][-1] == "layer_norm"
    pooled = pieces(ops.max_pool2d(ops.conv2d(image, kernel, padding=1), 2, 2), image, kernel)
    assert [found[-1] for found in pooled] == ["conv2d", "max_pool2d"]
    one, other = ops.split(ops.dense(x, w), 2, axis=1)
    halves = pieces(ops.multiply(ops.sigmoid(one), other), x, w)
    assert len(halves) == 2 and halves[1][-1] == "multiply"
    assert len(pieces(ops.reshape(dense, (N * N,)), x, w)) == 1
    assert len(pieces(dense, x, w)) == 1


def test_pieces_that_are_the_same_are_one_task() -> None:
    tasks, weights = extract_tasks(three_products())
    assert list(weights) == [3] and len(tasks) == 1
    pieces = extract_tasks(block())
    assert sorted(pieces.weights)[-1] == 3 and "3 ×" in str(pieces) and pieces.weights == pieces.weights
    x, w, v = p(N, N, name="x"), p(N, N, name="w"), p(N, N, name="v")
    other = extract_tasks([x, w, v, ops.dense(ops.relu(ops.dense(ops.dense(x, w), v)), v)])
    assert sorted(other.weights) == [1, 2]  # one of them has a relu


def test_pieces_put_together_are_right() -> None:
    """Default schedules of the pieces, and the last sketch of each, in all their places."""
    tensors = block()
    oracle = Oracle(tensors, exact=False)
    pieces = extract_tasks(tensors)
    last = {i: variants_of(t)[-1] for i, t in enumerate(pieces.tasks)}
    rng = np.random.default_rng(3)
    for traces in ({}, {i: v.trace_of(row) for i, v in last.items() for row in v.sample_valid(rng, 1)}):
        s = pieces.put_together(traces)
        assert oracle.differs(s.concrete()) <= 1e-3 * np.abs(oracle.right[0]).max()
        assert tl.Trace.from_json(s.trace.to_json()).apply(pieces.program.schedule()).tree() == s.tree()


def test_a_transplant_that_is_refused_changes_nothing() -> None:
    tensors = three_products()
    pieces = extract_tasks(tensors)
    task = pieces.tasks[0]
    part = task.schedule()
    trial = part.copy()
    trial["dense"].split(trial["dense"].op.axis[0], 4)
    whole = pieces.program.schedule()
    _, names = pieces.places[1]
    transplant(trial.trace, part, whole, names, "1/")
    before = whole.tree()
    with pytest.raises(tl.ScheduleError):
        transplant(trial.trace, part, whole, names, "1/")
    assert whole.tree() == before and "i.outer" in before


class Scripted(Pretend):
    """The default schedule of the whole takes a second; so does a piece that nothing was found for; what was
    put together takes ``whole``."""

    def __init__(self, key: str, whole: float) -> None:
        super().__init__()
        self.key, self.whole = key, whole
        self.keys: list[str] = []

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        for job in jobs:
            self.keys.append(job.key)
            made = bool(json.loads(job.trace)["decisions"])
            cost = (
                (self.whole if made else 1.0) if job.key == self.key else 1.0 / (1 + self.keys.count(job.key))
            )
            yield Outcome(job.id, "ok", times=(cost,))


@pytest.mark.parametrize("whole, best", [(0.5, 0.5), (2.0, 1.0)])
def test_tune_cuts_and_never_loses_to_the_default_schedule(tmp_path: Path, whole: float, best: float) -> None:
    """The first and the last word have the whole; trials go to the pieces; the record of the whole
    replays."""
    task = SearchTask.of(three_products())
    m = Scripted(task.exact_key, whole)
    file = tmp_path / "records.jsonl"
    result = tune(task, trials=12, records=file, measurer=m, model="random", progress=False)
    assert m.keys[0] == task.exact_key and m.keys.count(task.exact_key) >= 4
    assert len(set(m.keys)) == 2
    assert result.best is not None and result.best.cost == best and result.begun == 1.0
    assert "cut into 3 pieces, 1 different" in result.notes[0]
    s, tensors = task.apply_best(file)
    assert result.schedule is not None and s.tree() == result.schedule.tree()
    tl.lower(s, tensors)
    before = len(m.keys)
    again = tune(task, trials=12, records=file, measurer=m, model="random", progress=False)
    assert again.measured == 0 and len(m.keys) == before  # everything is known


def default(task: SearchTask) -> str:
    """The trace of what ``tl.compile`` makes."""
    return canonical_trace(default_schedule(task.outputs, task.target).trace)


def test_the_gain_of_a_program_is_that_of_the_whole_in_turns() -> None:
    """What pieces gain, and the whole by itself, is no gain of the whole beside its default schedule: a program
    was told to be 1.63 times as fast whose kernel was 1.16 times as fast."""
    task = SearchTask.of(three_products())

    class Beside(Scripted):
        def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
            for job in jobs:
                (o,) = super().run([job])
                if job.also:
                    beside.append(job)
                    mine, *also = [
                        (0.8, 2.4) if json.loads(t)["decisions"] else (1.0, 3.0) for t in job.traces
                    ]
                    o = replace(o, times=mine, also=tuple(also))
                yield o

    beside: list[Job] = []
    result = tune(task, trials=12, measurer=Beside(task.exact_key, 0.5), model="random", progress=False)
    whole = [job for job in beside if job.key == task.exact_key]
    assert result.best is not None and result.gain == pytest.approx(1.25)
    assert result.gain_interval == pytest.approx((1.25, 1.25))
    assert set.intersection(*({*job.traces} for job in whole)) >= {default(task), result.best.steps}
    assert len({job.process for job in beside}) == len(beside) and len(whole) >= 4  # each in a fresh one


def test_a_program_is_tuned_for_real(tmp_path: Path) -> None:
    """A few trials; what comes out computes what the program says."""
    tensors = block()
    result = tune(
        SearchTask.of(tensors), trials=14, model="random", progress=False, records=tmp_path / "records.jsonl"
    )
    assert result.best is not None and not result.failures, result
    assert result.gain is not None and result.gain >= 1
    oracle = Oracle(tensors, exact=False)
    assert (
        result.schedule is not None
        and oracle.differs(result.schedule) <= 1e-3 * np.abs(oracle.right[0]).max()
    )


def test_tune_tasks_takes_programs_beside_others() -> None:
    program, product = SearchTask.of(three_products(), name="program"), SearchTask(matmul, (48, 48, 48))
    result = tune_tasks(
        [program, product], trials=40, measurer=Pretend(), model="random", batch=8, progress=False
    )
    assert all(r is not None and r.best is not None for r in result.results) and set(result.order) == {0, 1}


def test_extracted_tasks_are_tuned_and_applied(tmp_path: Path) -> None:
    """The way TVM's users know: extract, tune together, apply."""
    tensors = three_products()
    pieces = extract_tasks(tensors)
    tasks, weights = pieces
    log = RecordLog(tmp_path / "records.jsonl")
    tune_tasks(tasks, weights, trials=8, records=log, measurer=Pretend(), model="random", progress=False)
    assert Oracle(tensors, exact=True).differs(pieces.apply_best(log.records)[0]) == 0
    assert Oracle(tensors, exact=True).differs(pieces.apply_best([])[0]) == 0


def test_autotune_takes_programs(tmp_path: Path) -> None:
    @autosched.autotune(trials=6, model="random", cache=tmp_path, measurer=Pretend())
    def layers(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        return ops.dense(ops.dense(ops.dense(x, w), w), w)

    rng = np.random.default_rng(0)
    x, w = [rng.integers(-2, 3, (N, N)).astype(np.float32) for _ in range(2)]
    assert (layers(x, w) == x @ w.T @ w.T @ w.T).all()


def test_the_highest_tier_takes_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        builder,
        "tune",
        lambda task, trials, records, progress: tune(
            task, trials, records, measurer=Pretend(), model="random", progress=progress
        ),
    )
    tensors = three_products()
    request = builder.Request(
        "layers",
        str(tmp_path / "k"),
        {},
        {},
        str(tl.Target.host()),
        trials=6,
        records=str(tmp_path / "records.jsonl"),
    )
    kernel = builder._tuned(request, tensors)
    oracle = Oracle(tensors, exact=True)
    assert (kernel(*oracle.inputs.values()) == oracle.right[0]).all()


def test_rounding_that_a_program_makes_much_of_is_no_wrong_answer() -> None:
    """A softmax of numbers in the thousands turns their last bits into visible differences; a wrong element
    is still seen."""
    x, w, v = p(64, 64, name="x"), p(64, 64, name="w"), p(64, 64, name="v")
    out = ops.softmax(ops.multiply(ops.matmul(ops.matmul(x, w), v), 0.3))
    bench = Workbench([x, w, v, out], None)
    assert 1e-4 < bench.slack()[0] < 0.1
    bench.arrays[out] = bench.right[0] + np.float32(0.9) * bench.slack()[0]
    assert not bench.wrong()
    bench.arrays[out] = bench.right[0].copy()
    bench.arrays[out][3, 4] += 0.5
    assert "[3, 4]" in bench.wrong() and "1 of" in bench.wrong()


def test_a_long_sum_of_equal_terms_may_be_off_by_what_each_is_rounded() -> None:
    """Terms that are alike round alike: numpy's sum by halves and one after the other are 435 ulp apart. A
    term that is missing is still seen."""
    n, d = 5000, 300
    x = p(n, d, name="x")
    i, k = te.reduce_axis((0, n), "i"), te.reduce_axis((0, n), "k")
    m = te.compute((d,), lambda j: te.sum(x[i, j], axis=i), name="m")
    y = lambda k, j: x[k, j] - m[j] / n
    v = te.compute((d,), lambda j: te.sum(y(k, j) * y(k, j), axis=k), name="v")
    bench = Workbench([x, v], None)
    bench.arrays[v] = tl.build(te.create_schedule(v.op), [x, v])(bench.arrays[x])
    assert not bench.wrong()
    a = bench.arrays[x]
    bench.arrays[v] = bench.right[0] - ((a[7] - a.mean(0)) ** 2).astype("float32")
    assert bench.wrong()


def test_a_sum_that_rounding_does_not_touch_has_no_slack() -> None:
    """Sums of small integers are exact in any order: a term too much is seen."""
    x, w = p(16, 64, name="x"), p(64, 16, name="w")
    out = ops.matmul(x, w)
    bench = Workbench([x, w, out], None)
    bench.arrays[out] = bench.right[0].copy()
    bench.arrays[out][3, 4] += 1
    assert "[3, 4]" in bench.wrong() and bench.slack() == [0.0]


def test_a_program_of_two_reductions_is_searched_as_one_and_in_pieces() -> None:
    """The whole, where one may be computed inside the other, has candidates beside its pieces: hardly any
    more when it is slower than they say they will be together."""
    x, w, v = p(N, N, name="x"), p(N, N, name="w"), p(N, N, name="v")
    task = SearchTask.of([x, w, v, ops.dense(ops.relu(ops.dense(x, w)), v)])

    def candidates(fused: float) -> tuple[int, int]:
        session = session_of(task, RecordLog(None), Random(), RandomModel(0), 0, 5.0)
        assert isinstance(session, ProgramSession) and len(session.pieces.places) == 2
        while session.trials < 64:
            for t in session.propose(8):
                cost = 2.0 if t == session.first else 1.0 if ":" in t[:3] else fused
                session.record(t, Outcome(0, "ok", times=(cost,)))
        return len(session.known), session.tried - len(session.known)

    whole, pieces = candidates(2.0)
    assert whole >= 12 and pieces >= 24
    assert candidates(4.0)[0] <= whole // 2


def test_the_whole_is_put_together_of_fine_pieces() -> None:
    x, w = p(N, N, name="x"), p(N, N, name="w")
    tensors = [x, w, ops.softmax(ops.dense(x, w))]
    pieces = pieces_of(SearchTask.of(tensors), finely=True)
    assert len(pieces.tasks) == 2
    made = {i: v.trace_of(v.present()[0]) for i, t in enumerate(pieces.tasks) for v in variants_of(t)[1:2]}
    assert Oracle(tensors, exact=False).differs(pieces.put_together(made).concrete()) <= 1e-5
