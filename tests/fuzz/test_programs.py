"""Random programs of many stages, and chains of ops over open sizes, through ``tl.compile``: right, or refused by
an error of ours. ``python -m tests.fuzz.programs`` runs many."""

from __future__ import annotations

import importlib
import os
from collections import Counter

import numpy as np
import pytest

from tests.fuzz import open_sizes
from tests.fuzz.programs import run

ROUNDS = int(os.environ.get("TENSORLANG_FUZZ_ROUNDS", "0"))


@pytest.mark.parametrize("chunk", range(4))
def test_random_programs(chunk: int) -> None:
    ended: Counter[str] = Counter()
    for seed in range(10 * chunk, 10 * chunk + 10):
        run(seed, ended)
    assert ended["programs"] >= 8


def test_chains_over_open_sizes() -> None:
    ended: Counter[str] = Counter()
    for seed in range(10):
        open_sizes.run(seed, ended)
    assert ended["programs"] >= 6 and ended["right"] > 30


def test_what_numpy_does_not_say_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = 54  # which ends with a product
    monkeypatch.setitem(open_sizes._WORDS, "product", lambda a, b: np.zeros(0, a.dtype))
    # not ``one_open``, whose arena all kernels of this process would have from here on
    ended: Counter[str] = Counter()
    with pytest.raises(AssertionError):
        open_sizes.run(seed, ended)
    assert not ended["programs"]
    assert "product" in open_sizes.Chain(seed).text()


def test_a_plain_exception_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not taken for a refusal, though users would see an error of ours."""
    recipe = importlib.import_module("tensorlang.recipes.default_schedule")
    monkeypatch.setattr(recipe, "inline", recipe._known_as)  # which takes other arguments
    with pytest.raises(TypeError, match="_known_as"):
        run(0, Counter())
    monkeypatch.delenv("TENSORLANG_DEBUG")
    ended: Counter[str] = Counter()
    run(0, ended)
    assert any("not with these arguments" in kind for kind in ended)


@pytest.mark.fuzz
@pytest.mark.skipif(not ROUNDS, reason="TENSORLANG_FUZZ_ROUNDS is not set")
@pytest.mark.parametrize("chunk", range(max(1, ROUNDS // 50)))
def test_more_programs(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORLANG_ISOLATE", "1")
    for n in range(50):
        run(1_000_000 + chunk * 50 + n, Counter())


# programs that were wrong once: spare rows of a tile could not be told of its loops alone (hoist_guards)
@pytest.mark.parametrize("seed", [28143])
def test_programs_that_were_wrong(seed: int) -> None:
    ended: Counter[str] = Counter()
    run(seed, ended)
    assert ended["right"]
