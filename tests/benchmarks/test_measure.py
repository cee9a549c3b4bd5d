"""Turns and ratios on a clock of the test's own: what is computed from times, with times that are known."""

from __future__ import annotations

import pytest

from benchmarks.harness import measure
from benchmarks.harness.measure import LEAST, ROUNDS, SLOW_ROUNDS, Samples, take_turns


class Clock:
    """A clock that only runs move; ``work`` gives a run that takes so long, call by call."""

    def __init__(self):
        self.now = 0.0
        self.settled = 0

    def __call__(self):
        return self.now

    def work(self, seconds):
        def run():
            self.now += seconds

        return run

    def settle(self):
        self.settled += 1

    def turns(self, runs, budget=100.0, **more):
        return take_turns(runs, budget=budget, clock=self, processor_clock=self, settle=self.settle, **more)


def test_a_turn_is_long_enough_for_the_clock_and_divided_by_its_calls():
    clock = Clock()
    samples = clock.turns({"quick": clock.work(1e-4), "long": clock.work(0.5)})
    assert samples["quick"].calls == 100
    assert samples["quick"].median == pytest.approx(1e-4)
    assert samples["long"].calls == 1


def test_all_have_a_turn_each_round_after_the_one_before_has_settled():
    clock = Clock()
    samples = clock.turns({"a": clock.work(1e-3), "b": clock.work(2e-3)})
    assert {name: sorted(s.seconds) for name, s in samples.items()} == {
        "a": list(range(ROUNDS)),
        "b": list(range(ROUNDS)),
    }
    assert clock.settled == 2 * ROUNDS


def test_a_spent_budget_ends_the_rounds_but_leaves_a_third():
    clock = Clock()
    assert len(clock.turns({"a": clock.work(1.0)}, budget=3.0)["a"].seconds) == LEAST * ROUNDS == 5
    assert 5 < len(clock.turns({"a": clock.work(1.0)}, budget=10.0)["a"].seconds) < ROUNDS


def test_who_is_far_behind_has_few_turns():
    clock = Clock()
    samples = clock.turns({"fast": clock.work(0.01), "near": clock.work(0.19), "far": clock.work(0.21)})
    assert [len(samples[n].seconds) for n in ("fast", "near", "far")] == [ROUNDS, ROUNDS, SLOW_ROUNDS]


def test_a_ratio_is_the_median_of_rounds_so_that_a_slow_moment_of_the_machine_cancels():
    ours = Samples(seconds={0: 1.0, 1: 10.0, 2: 1.0})
    theirs = Samples(seconds={0: 2.0, 1: 20.0, 2: 2.0})
    assert measure.ratio(ours, theirs) == (2.0, (2.0, 2.0))
    assert measure.ratio(ours, Samples(seconds={2: 3.0}))[0] == 3.0, "only rounds both took part in"


def test_processor_time_is_seen_so_that_hidden_threads_are():
    clock = Clock()
    busy = take_turns(
        {"two": clock.work(0.1)},
        budget=1.0,
        clock=clock,
        processor_clock=lambda: 2 * clock.now,
        settle=clock.settle,
    )
    assert busy["two"].busy == pytest.approx([2.0] * len(busy["two"].busy))


def test_settling_ends():
    start = measure.time.perf_counter()
    measure.settle()
    assert measure.time.perf_counter() - start < 60  # a bound on hanging, not on speed
