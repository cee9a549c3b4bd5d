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
    first = {**entry, "gains": [1.99, 2.0, 2.01], "since": 4.0}
    assert chains.table([first]).splitlines()[-2:] == [
        "over the first defaults, of 1: 4.00, least 4.00",
        "told and true of 1, within 3% or both intervals: 0 within, 0 interval, 1 no",
    ]


def test_what_was_told_is_true_within_a_bound_or_as_far_as_it_is_known() -> None:
    entry = {"claimed": 1.25, "gain": 1.22, "gains": [1.1, 1.2, 1.22, 1.23, 1.3], "interval": None}
    assert chains.agrees(entry) == "within"
    assert chains.agrees({**entry, "gain": 1.15, "interval": (1.2, 1.3)}) == "interval"
    assert chains.agrees({**entry, "gain": 1.0, "gains": [0.9, 1.0, 1.1]}) == "no"
    assert chains.agrees({**entry, "claimed": None, "gain": 1.02}) == "within"


def test_first_defaults_still_apply() -> None:
    """A trace that was kept builds the schedule it was kept of, by today's names."""
    (steps,) = chains.first_default("GMM", 1)
    assert chains.timed("GMM", ["", steps], chains.target_of(1))["ratios"][0] == 1.0


def test_the_first_default_takes_turns_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among those of the others it changed the state of the caches that the default kernel found: of the
    perceptron by 6 %."""
    seen: list[object] = []

    def turn(kernel: object, arrays: list[object]) -> float:
        seen.append(kernel)
        return 1.0

    monkeypatch.setattr(chains, "_turn", turn)
    monkeypatch.setattr(chains, "peak_flops", lambda: 1.0)
    (steps,) = chains.first_default("GMM", 1)
    found = chains.timed("GMM", ["", "", ""], chains.target_of(1), [steps])
    assert found["since"] == 1.0
    default, _, tuned = seen[:3]
    rounds = chains.PLACES * chains.ROUNDS
    assert len(seen) == 5 * rounds and default not in seen[3 * rounds :] and tuned in seen[3 * rounds :]
