"""Every seeded bug is caught by the suite, and the compiler as it is passes all that catches them."""

from __future__ import annotations

import os

import pytest

from .checks import CHECKS
from .hunt import hunt, order
from .mutants import MUTANTS

ROUNDS = os.environ.get("TENSORLANG_FUZZ_ROUNDS")


def test_the_compiler_as_it_is_passes() -> None:
    assert hunt(None, list(CHECKS), range(5)) is None


def test_the_bugs_are_many_and_named_apart() -> None:
    assert len(MUTANTS) >= 60 and len({m.name for m in MUTANTS}) == len(MUTANTS)
    assert len({m.where.partition(":")[0].partition(".")[0] for m in MUTANTS}) >= 7, (
        "rooms of the house with a bug in them"
    )
    assert all(c in CHECKS for m in MUTANTS for c in m.first)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name.replace(" ", "-"))
def test_caught(mutant: object) -> None:
    mutant.mutated()  # type: ignore[attr-defined]  # a LookupError: the source has changed, the table has not
    found = hunt(mutant, order(mutant.first), range(20))  # type: ignore[arg-type, attr-defined]
    assert found is not None, f"nobody notices that {mutant.name}"  # type: ignore[attr-defined]
    assert found.by != "hang" or "iteration" in mutant.name, found  # type: ignore[attr-defined]


@pytest.mark.fuzz
@pytest.mark.skipif(ROUNDS is None, reason="make fuzz")
def test_many_are_caught_by_random_programs_alone() -> None:
    caught = [m.name for m in MUTANTS if hunt(m, (), range(60)) is not None]
    assert len(caught) >= 0.4 * len(MUTANTS), sorted({m.name for m in MUTANTS} - set(caught))
