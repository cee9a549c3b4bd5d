"""The bench of programs of several reductions: what a process times, and its table."""

from __future__ import annotations

import pytest

from benchmarks.autosched import chains


def test_kernels_are_timed_in_turns_and_in_several_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every turn has each kernel once, in the other order every second time; no place of an array is another's."""
    seen: list[tuple[object, tuple[int, ...]]] = []

    def turn(kernel: object, arrays: list[object]) -> float:
        at = tuple(a.__array_interface__["data"][0] % chains.PAGE // chains.LINE for a in arrays)  # type: ignore[attr-defined]
        seen.append((kernel, at))
        return 1.0 + len({k for k, _ in seen})

    monkeypatch.setattr(chains, "_turn", turn)
    monkeypatch.setattr(chains, "ROUNDS", 2)
    monkeypatch.setattr(chains, "peak_flops", lambda: 1.0)
    found = chains.timed("two products", ["", ""])
    assert len(found["times"]) == 2 and found["ratios"][0] == 1.0
    first, second = seen[0][0], seen[1][0]
    assert first is not second and [k for k, _ in seen[:4]] == [first, second, second, first]
    places = list(dict.fromkeys(at for _, at in seen))
    assert len(places) == chains.PLACES and all(len(set(at)) == len(at) for at in places)


def test_the_table_has_what_was_told_and_what_is_true() -> None:
    entry = {
        "program": "two products",
        "stages": 5,
        "tasks": 1,
        "derive": 0.1,
        "tune": 6.0,
        "default": 2e-4,
        "found": 1e-4,
        "share": 0.5,
        "claimed": 2.25,
        "gain": 2.0,
        "self": 1.01,
    }
    nothing = {**entry, "program": "mlp", "failures": {"crash": 1}}
    del nothing["gain"]
    text = chains.table([entry, {**entry, "gain": 0.5}, nothing])
    assert "2.25       2.00       1.01" in text and "nothing worked" in text
    assert text.endswith("geometric mean of 2: 1.00, least 0.50")
