"""The benchmarks of models run; nothing is asked of their figures."""

from __future__ import annotations

from benchmarks.models import times


def test_a_chain_of_small_operators_is_right_and_reported(monkeypatch):
    monkeypatch.setattr(times, "OPERATORS", 5)
    assert times.chain(2).startswith(f"5 operators on {times.ELEMENTS} elements")
