"""Who is timed when, and what counts: turns and rounds of several kernels, and processors that others have."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from autosched.measure import cores, runner, turns
from autosched.measure.rounds import rounds


def test_rounds_go_back_and_forth_and_are_asked_about_on_both_sides() -> None:
    order: list[str] = []
    apart = iter([True, True, False, True, True])
    going = rounds([lambda n=n: float(order.append(n) or ord(n)) for n in "abc"], lambda: next(apart))
    said = list(itertools.islice(going, 4))
    assert "".join(order) == "abccbaabccba"
    assert said == [((97.0, 98.0, 99.0), alone) for alone in (True, False, False, True)]


@pytest.mark.parametrize(
    ("apart", "most", "best"),
    [
        ("yy", 6, 3e-6),  # all processors were there
        ("ynny" + "yy", 6, 1e-6),  # until they are
        ("n", 1, 3e-6),  # a serial kernel asks for none
        ("nyny", 2, 2e-6),  # or so often
    ],
)
def test_what_was_timed_beside_others_is_timed_again(
    apart: str, most: int, best: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search makes its first proposals while the kernel it begins with is timed, which looked twice as slow
    as it is: progress told gains that were none, and what is hopeless was timed with care."""
    here, times = iter(apart), iter([(3e-6, 9e-6, 2e-6), (2e-6,), (1e-6,)])
    monkeypatch.setattr(runner.cores, "apart", lambda threads: next(here) == "y")
    assert statistics.median(runner._undisturbed(lambda: next(times), most)) == best


def test_turns_alternate_and_the_arrays_move_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel takes at first, while its threads wake up and its data are elsewhere, does not count."""
    now = [0.0]
    called: list[tuple[str, int]] = []
    monkeypatch.setattr(turns, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    class Bench:
        place, arguments = 4, ()

        def move(self, place: int) -> None:
            self.place = place

    bench = Bench()

    def kernel(name: str, seconds: float) -> SimpleNamespace:
        def entry() -> None:
            now[0] += seconds if called and called[-1] == (name, bench.place) else 3 * seconds
            called.append((name, bench.place))

        return SimpleNamespace(entry=entry)

    kernels = [kernel("a", 1e-3), kernel("b", 2e-3)]
    found, apart = turns.in_turns(kernels, bench, 1e-3)  # type: ignore[arg-type]
    assert found == [pytest.approx([1e-3] * turns.LEAST), pytest.approx([2e-3] * turns.LEAST)] and apart
    assert called[4:] == [(n, place) for place in (4, 5) for n in "aabbbbaa"]


def test_rounds_in_which_processors_shared_a_core_count_only_without_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Asked before and after each round; others take their places, as long as patience lasts."""
    now, shared = [0.0], [False]
    monkeypatch.setattr(turns, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    bench = SimpleNamespace(place=0, arguments=(), move=lambda place: None)

    def entry() -> None:
        now[0] += 2e-3 if shared[0] else 1e-3

    def answers(text: str) -> Callable[[], bool]:
        order = iter(text)

        def apart() -> bool:
            shared[0] = next(order) == "s"
            return not shared[0]

        return apart

    kernel = SimpleNamespace(entry=entry)
    for text in ("asaaaaa", "ssaaaaa"):
        shared[0] = False
        found, apart = turns.in_turns([kernel], bench, 1e-3, answers(text))  # type: ignore[list-item]
        assert apart and found == [pytest.approx([1e-3] * turns.LEAST)]
    for text in ("asasasasa", "sssssssss"):
        found, apart = turns.in_turns([kernel], bench, 1e-3, answers(text))  # type: ignore[list-item]
        assert not apart and len(found[0]) == turns.PATIENCE * turns.LEAST


def test_threads_are_on_cores_of_their_own_where_they_take_no_longer_than_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One thread shares nothing; of several the answer is the machine's, so the clock is a made-up one. The
    kernels themselves run, whatever they say."""
    cores.apart(2)
    times: dict[object, float] = {cores._kernel(1): 1.0}
    monkeypatch.setattr(cores, "_fastest", lambda call: times[call])
    for together, answer in ((1.0, True), (1.3, True), (1.6, False), (2.0, False)):
        times[cores._kernel(2)] = together
        assert cores.apart(2) is answer and cores.apart(1)
