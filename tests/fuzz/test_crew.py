"""The processes that cases run in: what ends one is told with its seed, and the next case goes on."""

from __future__ import annotations

import os

import pytest

from . import crew


def half(seed: int) -> int:
    """A case that now and then ends its process."""
    if seed == 2:
        os.abort()
    if seed == 3:
        os._exit(7)
    return seed // 2


@pytest.mark.parametrize("jobs", (1, 2))
def test_a_case_that_ends_its_process_is_told_and_the_rest_goes_on(jobs: int) -> None:
    told = dict(crew.outcomes(half, range(6), jobs))
    assert [told[seed] for seed in (0, 1, 4, 5)] == [0, 0, 2, 2]
    assert told[2] == crew.Died("the process ended with SIGABRT") and told[3] == crew.Died(
        "the process ended with code 7"
    )


def test_no_cases() -> None:
    assert not list(crew.outcomes(half, ()))
