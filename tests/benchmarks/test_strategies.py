"""Strategies in worlds learnt of pools: one time for each candidate, runs that go on where they ended, figures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from autosched import SearchTask
from autosched.measure import Job
from autosched.search import Seen
from autosched.space import variants_of
from benchmarks.autosched import __main__ as command
from benchmarks.autosched import strategies, worlds
from benchmarks.autosched.arms import ARMS
from benchmarks.autosched.sprinkled import Sprinkled
from benchmarks.autosched.suites import declared
from benchmarks.autosched.worlds import Looks, Pool, World

TARGET = "llvm -mcpu=znver3 -num-cores=2"


@pytest.fixture(scope="module")
def pool() -> Pool:
    """Some candidates of a norm, each as slow as its first knob is far from 8."""
    variants = variants_of(SearchTask.of(declared("layer norm"), TARGET, name="layer norm"))
    found = Pool("layer norm", TARGET, [], [], [], [])
    for i, v in enumerate(variants):
        for row in v.sample_valid(np.random.default_rng(i), 12):
            found.variants.append(i)
            found.rows.append(row.tolist())
            found.trials.append(len(found.rows))
            found.seconds.append(1e-5 * (1.0 + abs(np.log2(row[0] / 8.0))))
    return found


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worlds, "ROUNDS", 20)
        patch.setattr(strategies, "LOOKS", (2, 8))
        yield


@pytest.fixture(scope="module")
def world(pool: Pool) -> World:
    return World(pool)


def test_a_world_has_one_time_for_each_candidate(pool: Pool, world: World) -> None:
    v = world.variants[1]
    rows = v.sample_valid(np.random.default_rng(99), 4)
    traces = [v.trace_of(row).to_json() for row in rows]
    times = [world.true(t, 0) for t in traces]
    assert times == [World(pool).true(t, 0) for t in traces]
    place = pool.variants.index(1)
    measured = v.trace_of(np.array(pool.rows[place])).to_json()
    assert world.true(measured, 0) == world.true(measured, 1)  # what was seen is so in every world
    looks = Looks(world, 3)
    job = Job(0, "", "", TARGET, traces[0])
    seen = [next(iter(looks.run([job]))).times for _ in range(2)]
    assert seen[0] != seen[1] and list(looks.times) == [traces[0]]
    assert all(abs(t / looks.times[traces[0]] - 1) < 0.2 for t in (*seen[0], *seen[1]))


def test_pools_are_what_they_were_when_they_are_read(pool: Pool, tmp_path: Path) -> None:
    worlds.save([pool], tmp_path / "pools.xz")
    assert worlds.load(tmp_path / "pools.xz") == {"layer norm": pool}


def test_a_run_goes_on_where_it_ended(pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worlds.save([pool], tmp_path / "pools.xz")
    file, arms = tmp_path / "found.jsonl", ["all", "random"]
    found = strategies.compare([], 1, arms, tmp_path / "pools.xz", file, trials=8)
    assert [e["arm"] for e in found] == arms and found[0]["best"][0] == found[1]["best"][0]
    assert all(e["best"] == sorted(e["best"], reverse=True) and len(e["best"]) == 8 for e in found)
    monkeypatch.setattr(strategies, "searched", lambda *_: pytest.fail("was searched before"))
    assert strategies.compare([], 1, arms, tmp_path / "pools.xz", file, trials=8) == found


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_searches(world: World, arm: str) -> None:
    """And leaves nothing exchanged behind."""
    before = {at: getattr(*at) for at in ARMS[arm].patches}
    for e in strategies.searched(world, 0, arm, 20):
        assert len(e["best"]) >= 8
    assert before == {at: getattr(*at) for at in ARMS[arm].patches}


def test_tiles_are_whole_where_only_such_are_tried() -> None:
    """Also those that the author of a schedule wrote. Of a product of prime sizes single rows are left, and
    vectors where there is nothing that divides."""
    task = SearchTask.of(declared("prime product"), TARGET, name="prime product")
    assert max(variants_of(task)[0].present()[0]) > 1
    for v in ARMS["whole tiles only"].space(task):
        kept = [d.values.tolist() for d in v.domains]
        assert all({1, 251, 257, 263} >= set(x) or 1 not in x for x in kept) and [1] in kept
        assert all(n in x for n, x in zip(v.present()[0], kept, strict=True))


def test_collections_of_measurements_have_random_candidates() -> None:
    v = variants_of(SearchTask.of(declared("GMM"), TARGET, name="GMM"))[1]
    seen, score = Seen(len(v.domains)), lambda rows: -np.abs(np.log2(rows / 7.0)).sum(axis=1)
    for share in (0.0, 0.5):
        said = score(Sprinkled(share).propose(v, 24, np.random.default_rng(3), score, seen))
        best = round(24 * (1 - share))
        assert len(said) == 24 and (np.diff(said[:best]) <= 0).all()
    assert said[12:].mean() < said[:12].min() - 1


def test_figures_are_against_the_first_arm() -> None:
    entry = lambda arm, task, best: {"task": task, "seed": 0, "arm": arm, "best": best, "processor": 2.0}
    fast = [4.0, 3.0, 2.0, 2.0, 1.5, 1.5, 1.0, 1.0]
    slow = [4.0, 4.0, 4.0, 3.0, 3.0, 2.0, 2.0, 2.0]
    found = [entry(a, t, b) for t in ("a", "b") for a, b in (("all", fast), ("random", slow))]
    first, other = strategies.judged(found)
    assert first["slower"]["8"] == first["slower"]["2"] == [1.0, 1.0, 1.0]
    assert other["slower"]["8"] == pytest.approx([2.0] * 3) and other["trials"] == pytest.approx([3 / 8] * 3)
    assert first["trials"] == pytest.approx([7 / 8] * 3)
    text = strategies.table([first, other])
    assert "1.000 1.000–1.000" in text.splitlines()[1] and "2.000 2.000–2.000" in text.splitlines()[2]


def test_what_is_measured_is_merged_into_the_results(tmp_path, monkeypatch):
    """Other arms and other sections were measured before, and stay."""
    row = lambda arm, runs: {"arm": arm, "runs": runs}
    file = tmp_path / "autosched_strategies.json"
    assert strategies.merged(file, "arms", [row("all", 1)]) == {"arms": [row("all", 1)]}
    before = {
        "date": "then",
        "machine": {},
        "arms": [row("all", 1), row("random", 1)],
        "parts": [row("x", 1)],
    }
    file.write_text(json.dumps(before))
    now = [row("annealing", 2), row("all", 2)]
    arms = [row("all", 2), row("random", 1), row("annealing", 2)]
    assert strategies.merged(file, "arms", now) == {"arms": arms, "parts": [row("x", 1)]}
    assert strategies.merged(file, "new", now) == {
        "arms": before["arms"],
        "parts": before["parts"],
        "new": now,
    }
    # and so the command does; it searches nothing where it is told no arm
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    monkeypatch.setattr(strategies, "judged", lambda found: now)
    monkeypatch.setattr(strategies, "table", lambda rows: "")
    asked = []
    monkeypatch.setattr(strategies, "compare", lambda tasks, seeds, arms, *files: asked.append(arms) or [])
    command.main(["strategies", "--arm", "--section", "parts"])
    written = json.loads(file.read_text())
    assert asked == [[]] and written["date"] != "then" and written["arms"] == before["arms"]
    assert written["parts"] == [row("x", 1), *now]
