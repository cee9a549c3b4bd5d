"""Strategies on predicted times: the same world for every arm, runs that go on where they ended, the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.autosched import strategies


def test_a_world_has_one_time_for_each_candidate_and_a_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strategies, "LOOKS", (2, 4))
    file = tmp_path / "found.jsonl"
    arms = ["evolution", "random"]
    found = strategies.compare(["GMM"], 1, arms, file)
    assert [e["arm"] for e in found] == arms and found[0]["default"] == found[1]["default"]
    for e in found:
        assert 0 < e["best"]["4"] <= e["best"]["2"] <= e["default"]
    other = strategies.World("GMM", 1)
    first = next(iter(strategies.World("GMM", 0).variants))
    steps = first.trace_of(first.present()[0]).to_json()
    assert other.true(steps) == strategies.World("GMM", 1).true(steps) != found[0]["default"]
    monkeypatch.setattr(strategies, "searched", lambda *_: pytest.fail("was searched before"))
    assert strategies.compare(["GMM"], 1, arms, file) == found


def test_the_table_is_against_the_first_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = lambda arm, seconds: {
        "task": "a",
        "seed": 0,
        "arm": arm,
        "best": {str(n): seconds for n in strategies.LOOKS},
        "processor": 2.0,
    }
    text = strategies.table([entry("evolution", 1.0), entry("random", 1.5)])
    assert "1.000 1.000–1.000" in text.splitlines()[1] and "1.500 1.500–1.500" in text.splitlines()[2]
