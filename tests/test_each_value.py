"""By default a test with the mark ``each_value`` runs some of its cases, which show every value of its arguments."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.each_value import shown


@pytest.mark.parametrize("counts", [(1, 1), (2, 5), (3, 3), (6, 2, 2), (4, 3, 2), (2, 3, 2, 2)])
def test_every_value_is_shown_and_none_much_oftener_than_another(counts: tuple[int, ...]) -> None:
    cases = [list(enumerate(case)) for case in product(*map(range, counts))]
    for size in (1, 2):
        values = [list(combinations(case, size)) for case in cases]
        kept = shown(values)
        assert {v for n in kept for v in values[n]} == {v for case in values for v in case}
        assert kept == sorted(set(kept))
    kept = shown(cases)
    assert len(kept) == max(counts)
    for axis, count in enumerate(counts):
        met = [sum(cases[n][axis] == (axis, value) for n in kept) for value in range(count)]
        assert max(met) - min(met) <= 1


@pytest.mark.each_value
@pytest.mark.parametrize("letter", ["x", "y"])
@pytest.mark.parametrize(("one", "other"), [(1, 1), (1, 2), (2, 1)])
def test_a_marked_test(letter: str, one: int, other: int) -> None:
    assert letter in "xy" and one + other < 4


def test_what_is_given_together_is_one_value(request: pytest.FixtureRequest) -> None:
    mine = [item for item in request.session.items if item.path == request.path]
    if request.config.option.markexpr == "not fuzz" and len(mine) > 8:
        ran = [item for item in mine if item.originalname == "test_a_marked_test"]  # type: ignore[attr-defined]
        assert len(ran) == 3
        assert {tuple(i.callspec.params[n] for n in ("one", "other")) for i in ran} == {
            (1, 1),
            (1, 2),
            (2, 1),
        }  # type: ignore[attr-defined]
        assert {i.callspec.params["letter"] for i in ran} == {"x", "y"}  # type: ignore[attr-defined]
