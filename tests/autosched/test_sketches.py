"""Sketches: every computation has a space, every candidate of it computes the right thing, and there are
never too many of them."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from autosched import SearchTask, best_guess, tune
from autosched.cost_model.features import FeatureSet
from autosched.measure import Measurer
from autosched.search import Evolutionary, Seen, allocate
from autosched.space import Variant, rules, variant, variants_of
from autosched.space.rules import RULES, Answer, Where, rule
from autosched.space.sketch import MAX_SKETCHES, derive, opened
from autosched.space.template import MAX_VARIANTS
from autosched.tuning.session import canonical_trace
from tensorlang import ops, te
from tensorlang.analysis import analyse
from tensorlang.errors import TensorLangError
from tensorlang.recipes import default_schedule

from .workloads import Pretend, conv, matmul, scale

X86 = "llvm -mcpu=haswell -num-cores=2"


def test_every_class_of_a_rule_is_in_the_list():
    folder = Path(rules.__file__).parent
    made = {
        x.name
        for p in folder.glob("*.py")
        for x in ast.parse(p.read_text(encoding="utf-8")).body
        if isinstance(x, ast.ClassDef) and {"applies", "apply"} <= {getattr(f, "name", "") for f in x.body}
    } - {"Rule", "FunctionRule"}
    listed = {type(r).__name__ for r in RULES}
    assert made == listed, f"{made ^ listed}: a rule is a class in space/rules/ and a line in its __init__.py"


def p(*shape: int, name: str = "X") -> te.Tensor:
    """An input."""
    return te.placeholder(shape, name=name)


def computation(name: str) -> list[te.Tensor]:
    """Small, of awkward sizes; inputs first."""
    x, y, w = p(13, 37), p(37, 22, name="Y"), p(22, 37, name="W")
    image, taps, each = p(1, 5, 9, 11), p(10, 5, 3, 3, name="taps"), p(5, 1, 3, 3, name="each")
    return {
        "matmul": lambda: [x, y, ops.matmul(x, y)],
        "dense": lambda: [x, w, ops.dense(x, w, activation=ops.relu)],
        "transposed batch": lambda: [
            a := p(2, 9, 36, name="A"),
            b := p(2, 17, 36, name="B"),
            ops.batch_matmul(a, b, transpose_b=True),
        ],
        "conv": lambda: [image, taps, ops.conv2d(image, taps, padding=1)],
        "depthwise": lambda: [image, each, ops.depthwise_conv2d(image, each, stride=2, padding=1)],
        "softmax": lambda: [x, ops.softmax(x)],
        "layer norm": lambda: [x, ops.layer_norm(x, (37,))],
        "row sums": lambda: [x, ops.sum(x, axis=1)],
        "column sums": lambda: [x, ops.sum(x, axis=0)],
        "whole sum": lambda: [big := p(40_001), ops.sum(big)],
        "argmax": lambda: [x, ops.argmax(x, axis=1)],
        "pool": lambda: [image, ops.max_pool2d(image, 3, 2)],
        "chain": lambda: [x, ops.relu(ops.add(ops.exp(x), x))],
        "transpose": lambda: [x, ops.transpose(x)],
        "pixels": lambda: [x, colours(x)],
    }[name]()


def colours(x: te.Tensor) -> te.Tensor:
    """Three colours of every second pixel, made of the largest of its neighbours."""
    around = lambda i, j: te.max(te.max(x[i, j + 1], x[i + 2, j + 1]), te.max(x[i + 1, j], x[i + 1, j + 2]))
    calm = te.compute((11, 35), lambda i, j: te.min(x[i + 1, j + 1], around(i, j)), name="calm")
    sides = lambda i, j: (calm[2 * i, 2 * j] + calm[2 * i, 2 * j + 2]) * (calm[2 * i + 2, 2 * j] + calm[i, j])
    return te.compute((3, 5, 16), lambda c, i, j: sides(i, j) * (c + 1.0), name="colours")


NAMES = (
    "matmul",
    "dense",
    "transposed batch",
    "conv",
    "depthwise",
    "softmax",
    "layer norm",
    "row sums",
    "column sums",
    "whole sum",
    "argmax",
    "pool",
    "chain",
    "transpose",
    "pixels",
)


def task_of(name: str) -> SearchTask:
    return SearchTask.of(computation(name), name=name)


@pytest.mark.parametrize("name", NAMES)
def test_every_sketch_is_right(name: str) -> None:
    """What the author wrote in a few variants, and one random candidate of the last of them, against the
    reference."""
    task = task_of(name)
    variants = variants_of(task)
    assert 1 <= len(variants) <= MAX_VARIANTS
    assert sum(len(v.domains) for v in variants) > 0
    rng = np.random.default_rng(len(name))
    some = variants[:: max(1, len(variants) // 2)]
    candidates = [(v, row) for v in some for row in v.present()] + [
        (some[-1], row) for row in some[-1].sample_valid(rng, 1)
    ]
    inputs = {
        x: rng.integers(-4, 5, [int(str(e)) for e in x.shape]).astype(np.float32) for x in task.tensors[:-1]
    }
    (right,) = te.reference.evaluate(task.outputs, inputs)
    for v, row in candidates:
        got = tl.build(v.schedule(row), task.tensors)(*inputs.values())
        # sums of small integers are exact; what divides or calls exp is off by some ulp of the largest value
        bound = (
            0
            if name not in ("softmax", "layer norm", "chain")
            else 64 * np.finfo(np.float32).eps * np.abs(right).max()
        )
        assert got.dtype == right.dtype and (np.abs(got - right) <= bound).all(), (v.why, v.decisions(row))


@pytest.mark.parametrize("name", ["matmul", "conv", "softmax", "chain"])
def test_the_first_candidate_is_the_default_schedule(name: str) -> None:
    task = SearchTask.of(computation(name), X86)
    first = variants_of(task)[0]
    own = first.schedule(first.present()[0])
    assert str(tl.lower(own, task.tensors)) == str(
        tl.lower(default_schedule(task.outputs, task.target), task.tensors)
    )
    pretend = Pretend()
    tune(task, trials=1, measurer=pretend, model="random", progress=False)
    assert pretend.traces == [canonical_trace(first.trace_of(first.present()[0]))]


def test_the_default_schedule_is_a_candidate_whatever_the_limits_say() -> None:
    """What is found is never slower than ``tl.compile``: with a model or without, its schedule is measured
    first."""
    task = SearchTask.of(computation("matmul"), X86)
    variants = variants_of(task)
    variants[0].valid = lambda rows: np.zeros(len(rows), np.bool_)  # type: ignore[method-assign]
    for scores in (None, [lambda rows: np.ones(len(rows)) for _ in variants]):
        chosen = allocate(
            variants,
            [Seen(len(v.domains)) for v in variants],
            Evolutionary(),
            2,
            np.random.default_rng(0),
            scores,
        )
        assert chosen[0][0] == 0 and (chosen[0][1] == variants[0].present()[0]).all()


def test_open_sizes_keep_panel_and_tile_of_one_width() -> None:
    task = SearchTask(matmul, (512, 512, 512), X86)
    s = opened(task.schedule(), default_schedule(task.outputs, task.target), Where(task.target))
    assert s.decisions and "transform_layout" in str(s.trace)
    v = Variant(s, task.target)
    for row in v.sample_valid(np.random.default_rng(0), 3):
        width = next(
            d
            for step in s.trace.steps
            if step.name == "transform_layout"
            for _, _, d in step.arguments()["digits"]
            if d
        )
        assert any(
            f"0..{width} " in line and "vectorized" in line for line in v.schedule(row).tree().splitlines()
        )


def test_structures_of_a_matmul() -> None:
    """Packed at root and in blocks, tiled in one level and in two."""
    task = SearchTask(matmul, (512, 512, 512), X86)
    sketches = derive(task.schedule(), Where(task.target))
    texts = [str(x.schedule.trace) for x in sketches]
    assert all(x.rules == ("cache write: C", "multi-level tiling: C.local") for x in sketches)
    packed = [t for t in texts if "transform_layout(B.global" in t]
    assert {"compute_at(B.global" in t for t in packed} == {True, False}
    assert any("depth_k" in t for t in texts) and any("cache_read" not in t for t in texts)
    assert all("vectorize(C.local" in t and "unroll(C.local" in t for t in texts)


def test_structures_of_a_softmax() -> None:
    """All stages in one loop over rows, and apart."""
    task = SearchTask.of([x := p(64, 1000), ops.softmax(x)], X86)
    texts = [str(x.schedule.trace) for x in derive(task.schedule(), Where(task.target))]
    assert any(
        all(f"compute_at(softmax.{part}, at=softmax.i0)" in t for part in ("max", "exp", "sum"))
        for t in texts
    )
    assert any("compute_at(softmax.exp" not in t for t in texts)


def test_what_neighbours_are_read_of_may_be_computed_in_bands() -> None:
    ways = [[p.name for p in v.trace.steps] for v in variants_of(task_of("pixels"))]
    assert any("compute_at" in w and w.count("sample_tile") == 3 for w in ways)  # two widths and a band
    assert any("compute_inline" in w for w in ways)
    assert all("unroll" in w for w in ways)


def test_prime_sizes_have_the_same_sketches_as_round_ones() -> None:
    found = [
        derive(SearchTask(matmul, (n, n, n), X86).schedule(), Where(tl.Target.parse(X86))) for n in (256, 257)
    ]
    assert len(found[0]) == len(found[1])
    for sketches in found:
        heights = [
            d.values.tolist()
            for x in sketches
            for d in Variant(x.schedule, tl.Target.parse(X86)).domains
            if d.name == "tile_i.0"
        ]
        assert list(range(1, 17)) in heights  # every height, not only divisors


@pytest.mark.parametrize("most", [1, 5, MAX_SKETCHES])
def test_the_number_of_sketches_is_bounded(most: int) -> None:
    x = p(64, 64)
    for _ in range(2):  # four reductions, each with several places
        x = ops.softmax(x)
    start = tl.create_schedule(x)
    found = derive(start, Where(tl.Target.parse(X86)), most=most)
    assert 1 <= len(found) <= most
    assert len({x.schedule.trace.to_json() for x in found}) == len(found)
    assert [x.rank for x in found] == sorted(x.rank for x in found)


def test_a_rule_of_the_user_is_asked_first() -> None:
    @rule(applies=lambda s, stage, where: Answer.ALWAYS if stage.name == "B" else Answer.SKIP)
    def in_threes(s: tl.Schedule, stage: tl.Stage, where: Where) -> tl.Schedule:
        stage.split(stage.op.axis[0], s.sample_tile(stage.op.axis[0], candidates=[3, 6, 9], name="threes"))
        return s

    task = SearchTask(scale, (90,), rules=[in_threes])
    names = {d.name for v in variants_of(task) for d in v.domains}
    assert "threes.0" in names
    assert ("in_threes: B",) in [v.why for v in variants_of(task)]
    result = tune(task, trials=8, measurer=Pretend(), model="random", progress=False)
    assert result.best is not None


def test_what_the_limit_of_sketches_leaves_out_is_said() -> None:
    """A rule that is asked last, of stages that have more ways than there may be sketches."""

    @rule(applies=lambda s, stage, where: stage.name == "softmax.sum" and not stage.state.relations)
    def jammed(s: tl.Schedule, stage: tl.Stage, where: Where) -> tl.Schedule:
        row = stage.op.axis[0]
        stage.unroll_and_jam(row, s.sample_tile(row, candidates=[2, 4, 8], name="rows"))
        return s

    x = p(64, 64)
    start, where = tl.create_schedule(ops.softmax(x)), Where(tl.Target.parse(X86))
    all_of_them = derive(start, where, (*RULES, jammed), most=4096)
    assert all_of_them.left_out == () and any("jammed: softmax.sum" in x.rules for x in all_of_them)
    few = derive(start, where, (*RULES, jammed), most=2)
    assert "jammed: softmax.sum" in few.left_out
    assert not {step for x in few for step in x.rules} & set(few.left_out)


def test_a_tune_says_which_rules_no_sketch_has() -> None:
    @rule(applies=lambda s, stage, where: True)
    def odd(s: tl.Schedule, stage: tl.Stage, where: Where) -> list[tl.Schedule]:
        """More ways for one stage than there may be sketches: nothing is left for the other stages."""
        if stage.name != "B":
            return [s]
        found = [s.copy() for _ in range(MAX_SKETCHES + 1)]
        for n, t in enumerate(found):
            t["B"].split("i", n + 2)
        return found

    result = tune(
        SearchTask(scale, (90,), rules=[odd]), trials=2, measurer=Pretend(), model="random", progress=False
    )
    (note,) = [note for note in result.notes if note.startswith(f"in none of the {MAX_SKETCHES} sketches")]
    assert "map: B" in note and note in str(result.report())


def test_rules_that_never_end_are_an_error() -> None:
    @rule(applies=lambda s, stage, where: Answer.ALWAYS if stage.name.startswith("B") else Answer.SKIP)
    def again(s: tl.Schedule, stage: tl.Stage, where: Where) -> tl.Schedule:
        s.cache_write(stage.name, "global")
        return s

    with pytest.raises(TensorLangError, match="do not end"):
        variants_of(SearchTask(scale, (8,), rules=[again]))


def test_places_make_variants(measurer: Measurer) -> None:
    def template(s: tl.Schedule, tensors: list[te.Tensor]) -> None:
        out = tensors[-1]
        s.sample_tile(s[out].op.axis[0], name="unused")
        s[out].vectorize(
            s[out].split(s[out].op.axis[1], s.sample_tile(s[out].op.axis[1], candidates=[4, 8], name="v"))[1]
        )
        s.sample_location(s.stages[1].name, name="place")

    x = p(12, 30)
    mid = te.compute((12, 30), lambda i, j: te.exp(x[i, j]), name="mid")
    out = te.compute((12, 30), lambda i, j: mid[i, j] + mid[i, 29 - j], name="out")
    variants = variants_of(SearchTask.of([x, out], template=template))
    assert [v.base.decisions["place"] for v in variants] == [(0,), (1,), (2,)]
    for v in variants:
        row = v.present()[0]
        assert v.row(v.decisions(row)) is not None
        assert [w.row(v.decisions(row)) is not None for w in variants] == [w is v for w in variants]
    result = tune(
        SearchTask.of([x, out], template=template),
        trials=12,
        seed=2,
        model="random",
        measurer=measurer,
        progress=False,
    )
    assert result.best is not None and not result.failures


def test_too_many_places_are_cut() -> None:
    def template(s: tl.Schedule, tensors: list[te.Tensor]) -> None:
        for st in s.stages[1:-1]:
            s.sample_location(st.name)
        s[tensors[-1]].split(s[tensors[-1]].op.axis[0], s.sample_tile(s[tensors[-1]].op.axis[0], name="t"))

    x = t = p(6, 5, 4)
    for n in range(5):
        t = te.compute((6, 5, 4), lambda i, j, k, t=t: t[i, j, k] + 1.0, name=f"m{n}")
    assert len(variants_of(SearchTask.of([x, t], template=template))) <= MAX_VARIANTS


def test_what_cannot_be_tuned_says_why() -> None:
    x = p(4)
    doubled = te.extern(
        (4,), [x], lambda ins, outs: te.call_packed("double", ins[0], outs[0]), name="doubled"
    )
    with pytest.raises(
        TensorLangError, match=r"doubled: an extern cannot be written as JSON(.|\n)*has no form as text"
    ):
        SearchTask.of([x, doubled])


def test_where_nothing_can_be_decided_there_is_the_default_schedule() -> None:
    x = p(4)
    found = variants_of(SearchTask.of([x, te.compute((1,), lambda i: x[i] + x[i + 1], name="one")]))
    assert [v.why for v in found] == [("default schedule",)] and not found[0].domains
    assert "nothing to tune: no rule decides anything about one (1 loop)" in found.nothing
    assert not variants_of(SearchTask.of(computation("matmul"))).nothing


def test_the_variants_of_a_task_are_analysed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by who looks, guesses and then tunes; features are made for a model that asks, not for a guess."""
    analysed, features = [], []

    class Counted(FeatureSet):
        def __init__(self, *a, **k) -> None:
            features.append(a)
            super().__init__(*a, **k)

    monkeypatch.setattr(variant, "analyse", lambda s: analysed.append(s) or analyse(s))
    monkeypatch.setattr(variant, "FeatureSet", Counted)
    task = SearchTask.of(computation("matmul"), X86)
    found = variants_of(task)
    tune(task, trials=2, measurer=Pretend(), model="random", progress=False)
    assert len(analysed) == len(found) > len(features)  # of what was measured
    measured = len(features)
    best_guess(task)
    assert len(analysed) == len(found)
    assert len(features) == measured
    assert variants_of(SearchTask.of(computation("matmul"), X86)) is not found


def test_rules_of_a_task_are_asked_every_time() -> None:
    """They are the user's code, which may answer otherwise."""
    asked = []

    @rule(applies=lambda s, stage, where: bool(asked.append(stage.name)))
    def never(s, stage, where):
        raise AssertionError

    task = SearchTask(scale, (64,), X86, rules=[never])
    variants_of(task)
    once = len(asked)
    variants_of(task)
    assert len(asked) == 2 * once > 0


def test_a_target_of_another_machine_is_refused_before_anything_starts() -> None:
    task = SearchTask(scale, (64,), "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=4")
    assert variants_of(task)
    with pytest.raises(TensorLangError, match="cannot be measured here"):
        tune(task, trials=2, progress=False)


def test_tuned_conv_end_to_end(measurer: Measurer) -> None:
    result = tune(
        SearchTask(conv, (4, 8, 7, 9)), trials=5, seed=1, model="random", measurer=measurer, progress=False
    )
    assert result.best is not None and not result.failures, result
    scope: dict = {}
    exec(result.task.print_best([result.best]), scope)
    s = scope["apply"](result.task.schedule())
    assert result.schedule is not None and s.tree() == result.schedule.tree()


def test_the_table_of_rules() -> None:
    assert len({r.name for r in RULES}) == len(RULES)


def test_few_dear_elements_are_shared_out() -> None:
    """What the gates of an LSTM cell cost is in their functions, not in how many they are."""
    x = te.placeholder((32, 64), name="x")
    where = Where(tl.Target.parse("llvm -mcpu=haswell -num-cores=2"))

    def shared(y: te.Tensor) -> list[bool]:
        return ["parallel" in x.schedule.tree() for x in derive(tl.create_schedule(y), where)]

    assert shared(ops.relu(x)) == [False]
    assert True in shared(ops.multiply(ops.sigmoid(x), ops.tanh(ops.multiply(ops.sigmoid(x), ops.tanh(x)))))
