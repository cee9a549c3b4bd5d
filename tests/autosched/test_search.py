"""Strategies and mutators: valid rows, never twice, the same in every process, better than chance; and the
sharing out among variants."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

import autosched
import tensorlang as tl
from autosched import SearchTask, tune
from autosched.records.record import canonical, canonical_trace
from autosched.search import STRATEGIES, Evolutionary, Exhaustive, Random, Seen, allocate
from autosched.search.allocation import NEW
from autosched.search.roles import MUTATIONS, mutate, mutate_rows
from autosched.search.strategy import ByFeatures, known_score, known_scores
from autosched.space import Variant, variants_of
from autosched.templates import matmul as matmul_template

from .workloads import Pretend, matmul, scale, scale_template

X86 = "llvm -mcpu=haswell -num-cores=2"


def variant(n: int = 256) -> Variant:
    return variants_of(SearchTask(matmul, (n, n, n), X86, template=matmul_template))[0]


def closeness(rows: Any) -> Any:
    """A score whose best row is known: every knob near 7."""
    return -np.abs(np.log2(rows / 7.0)).sum(axis=1)


@pytest.mark.parametrize("role", MUTATIONS)
@pytest.mark.parametrize("values", [[1], [3, 5], list(range(1, 65)), [4, 8, 16, 24, 32]])
def test_mutations_stay_in_the_domain_and_do_something(role: str, values: list[int]) -> None:
    rng = np.random.default_rng(1)
    domain = np.array(values)
    column = rng.choice(domain, 500)
    new = mutate(rng, role, domain, column)
    assert np.isin(new, domain).all()
    if len(values) > 1:
        assert (new != column).mean() > 0.3


def test_mutation_changes_as_many_knobs_as_asked() -> None:
    v, rng = variant(), np.random.default_rng(2)
    rows = v.sample(rng, 4000)
    before = rows.copy()
    changed = (mutate_rows(rng, v, rows, 1.5) != rows).sum(axis=1).mean()
    assert (rows == before).all()
    assert 0.8 < changed <= 1.6  # some mutations give the value there was


@pytest.mark.parametrize("name", STRATEGIES)
def test_proposals_are_new_valid_and_different(name: str) -> None:
    v, rng = variant(), np.random.default_rng(4)
    seen = Seen(len(v.domains))
    seen.add(v.sample_valid(rng, 50), rng.random(50))
    for _ in range(3):
        rows = STRATEGIES[name]().propose(v, 24, rng, closeness, seen)
        assert len(rows) == 24 and v.valid(rows).all()
        assert len(np.unique(rows, axis=0)) == 24 and len(seen.fresh(rows)) == 24
        seen.add(rows, -closeness(rows))


def test_a_guided_strategy_is_nearer_to_the_best_than_chance() -> None:
    v = variant()
    guided, chance = (
        -closeness(how.propose(v, 16, np.random.default_rng(5), closeness, Seen(len(v.domains)))).max()
        for how in (Evolutionary(), Random())
    )
    assert guided < 0.7 * chance


def test_annealing_is_evolution_for_one_version_more() -> None:
    """It found what evolution does, in three times the processor time."""
    with pytest.warns(DeprecationWarning, match="Annealing is now autosched.search.Evolutionary"):
        assert autosched.search.Annealing is Evolutionary  # type: ignore[attr-defined]
    task = SearchTask(matmul, (64, 64, 64), X86, template=matmul_template)
    found = [Pretend(), Pretend()]
    with pytest.warns(DeprecationWarning, match="strategy='annealing'. is now strategy='evolutionary'"):
        tune(task, trials=8, strategy="annealing", measurer=found[0], progress=False)
    tune(task, trials=8, measurer=found[1], progress=False)
    assert found[0].traces == found[1].traces


def test_survivors_matter() -> None:
    v = variant()

    def best(how: Evolutionary, seen: Seen) -> float:
        return float(
            np.mean(
                [
                    closeness(how.propose(v, 8, np.random.default_rng(s), closeness, seen)).max()
                    for s in range(6)
                ]
            )
        )

    empty, known = Seen(len(v.domains)), Seen(len(v.domains))
    good = Evolutionary().propose(v, 32, np.random.default_rng(9), closeness, empty)
    known.add(good, -closeness(good))
    few = Evolutionary(population=128, generations=2)
    assert best(few, known) > best(few, empty)


def test_exhaustive_gives_every_candidate_once_in_order() -> None:
    (v,) = variants_of(SearchTask(scale, (20,), X86, template=scale_template))
    rng, seen = np.random.default_rng(0), Seen(1)
    rows = Exhaustive().propose(v, 100, rng, None, seen)
    assert rows.ravel().tolist() == list(range(1, 21))
    v = variant(12)
    total = Exhaustive(block=97).propose(v, 500, rng, None, Seen(len(v.domains)))
    assert len(np.unique(total, axis=0)) == len(total) == 500 and v.valid(total).all()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_small_space_ends_whatever_the_strategy(strategy: str) -> None:
    task = SearchTask(scale, (20,), X86, template=scale_template)
    pretend = Pretend()
    assert (
        tune(task, trials=100, strategy=strategy, model="random", measurer=pretend, progress=False).trials
        == 20
    )
    assert len(set(pretend.traces)) == 20


def test_every_variant_has_its_turn_until_a_model_believes_in_some() -> None:
    variants = variants_of(SearchTask(matmul, (512, 512, 512), X86))
    seen = [Seen(len(v.domains)) for v in variants]
    rng = np.random.default_rng(6)
    first = allocate(variants, seen, Evolutionary(), 40, rng, None)
    assert len(first) == 40 and {i for i, _ in first} == set(range(len(variants)))
    assert [i for i, _ in first[: len(variants)]] == list(range(len(variants)))
    for i, row in first:
        seen[i].add(row[None, :], [1.0 + i])
    scores = [lambda rows, i=i: np.full(len(rows), -float(i)) for i in range(len(variants))]
    after = allocate(variants, seen, Evolutionary(population=128, generations=1), 20, rng, scores)
    assert len(after) == 20
    assert {i for i, _ in after} == {0}  # what the model believes in
    for i, row in after:
        assert len(seen[i].fresh(row[None, :])) == 1


def test_a_search_that_knows_something_still_begins_with_the_default_schedule() -> None:
    variants = variants_of(SearchTask(matmul, (512, 512, 512), X86))
    seen = [Seen(len(v.domains)) for v in variants]
    scores = [lambda rows, i=i: np.full(len(rows), float(i)) for i in range(len(variants))]
    found = allocate(
        variants, seen, Evolutionary(population=64, generations=1), 16, np.random.default_rng(0), scores
    )
    assert found[0][0] == 0 and (found[0][1] == variants[0].present()[0]).all()
    # then what is believed in, of each variant a few: nothing was measured of any
    per = Counter(i for i, _ in found)
    assert len(found) == 16 and len(per) >= 7 and per[len(variants) - 1] == NEW
    for s, v in zip(seen, variants, strict=True):
        s.add(v.present(), [1.0])
    found = allocate(
        variants, seen, Evolutionary(population=64, generations=1), 16, np.random.default_rng(0), scores
    )
    assert Counter(i for i, _ in found) == {len(variants) - 1: 16}


def test_a_variant_without_knobs_is_one_candidate() -> None:
    task = SearchTask(scale, (64,), X86)
    v = Variant(task.schedule(), task.target)
    rng, seen = np.random.default_rng(0), Seen(0)
    assert v.size == 1 and v.features(v.present()).shape == (1, len(v.feature_names))
    for how in STRATEGIES.values():
        rows = how().propose(v, 5, rng, lambda rows: np.zeros(len(rows)), seen)
        assert rows.shape == (1, 0)
    seen.add(rows, [1.0])
    for how in STRATEGIES.values():
        assert not len(how().propose(v, 5, rng, lambda rows: np.zeros(len(rows)), seen))


SCRIPT = """
from tests.autosched.workloads import Pretend, conv, matmul
from autosched import SearchTask, tune
from autosched.templates import matmul as template
pretend = Pretend(fail=True)
X86 = "llvm -mcpu=haswell -num-cores=2"
tune(SearchTask(conv, (8, 16, 14, 14), X86), trials=48, seed=11, measurer=pretend, progress=False)
tune(SearchTask(matmul, (96, 80, 64), X86, template=template), trials=24, seed=11, measurer=pretend, progress=False)
print("\\n".join(pretend.traces))
"""


def test_features_of_rows_that_are_asked_for_in_every_round_are_made_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    v = variants_of(SearchTask(matmul, (20, 30, 40)))[1]
    rows = v.sample_valid(np.random.default_rng(0), 9)
    right, made = v.features(rows), []
    monkeypatch.setattr(
        Variant, "features", lambda self, rows: (made.append(len(rows)), right[: len(rows)])[1]
    )
    assert (v.remembered(rows[:6]) == right[:6]).all() and (v.remembered(rows[5::-1]) == right[5::-1]).all()
    assert made == [6] and v.remembered(rows[:0]).shape == (0, right.shape[1])
    score = ByFeatures(lambda table: table[:, 0], v)
    assert (known_score(score, rows[:6]) == right[:6, 0]).all() and made == [6]
    assert (known_score(lambda rows: rows[:, 0], rows) == rows[:, 0]).all()  # of a score of anybody's own
    assert (v.some == v.some).all() and v.valid(v.some).all()


def test_one_model_is_asked_once_about_all_variants() -> None:
    variants = variants_of(SearchTask(matmul, (24, 36, 48)))[:4]
    rows = [v.sample_valid(np.random.default_rng(0), n) for n, v in zip((5, 0, 3, 7), variants, strict=True)]
    asked: list[int] = []

    def predict(table: Any) -> Any:
        asked.append(len(table))
        return table[:, 0] - table[:, 1]

    scores = [ByFeatures(predict, v) for v in variants]
    together = known_scores(scores, rows)
    assert asked == [sum(map(len, rows))]
    for score, r, told in zip(scores, rows, together, strict=True):
        assert len(told) == len(r) and (not len(r) or (told == known_score(score, r)).all())
    assert [len(x) for x in known_scores(scores, [r[:0] for r in rows])] == [0, 0, 0, 0]
    other = ByFeatures(lambda table: table[:, 2], variants[0])  # another model: each is asked
    mixed = known_scores([other, *scores[1:]], rows)
    assert (mixed[0] == known_score(other, rows[0])).all() and (mixed[3] == together[3]).all()
    own = known_scores([lambda rows: rows[:, 0]], [rows[0]])
    assert (own[0] == rows[0][:, 0]).all()


def test_sketches_templates_and_search_are_the_same_in_every_process() -> None:
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for seed in ("1", "77")
    ]
    texts = [r.communicate()[0] for r in runs]
    assert [r.returncode for r in runs] == [0, 0]
    assert texts[0].count("\n") >= 72
    assert texts[0] == texts[1]


def test_the_one_text_of_a_trace_is_that_of_its_document() -> None:
    v = variant(24)
    traces = [v.trace_of(row) for row in v.sample(np.random.default_rng(0), 3)]
    for trace in (*traces, tl.Trace((), {})):
        assert canonical_trace(trace) == canonical(json.loads(trace.to_json()))
