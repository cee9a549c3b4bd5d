"""Which cases of a test run by default where all combinations of its arguments take long: of two arguments as many
as show every value of each, of three and more as many as show every pair of values. The others run by ``make fuzz``.
Knows no test.

A test asks for it by the mark ``each_value``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import combinations

import pytest


def shown(cases: Sequence[Sequence[Hashable]]) -> list[int]:
    """The numbers of the cases, each a list of values, that together have every value; in order.

    >>> shown([(i, j) for i in "abc" for j in "xy"])
    [0, 3, 4]
    """
    used: Counter[Hashable] = Counter()
    wanted = {value for case in cases for value in case}
    kept: list[int] = []
    while wanted:
        # the most that are new, then those that were used least: so that all values of one argument do not
        # meet the same value of another
        best = min(
            (n for n in range(len(cases)) if n not in kept),
            key=lambda n: (
                -sum(value in wanted for value in cases[n]),
                sum(used[value] for value in cases[n]),
                n,
            ),
        )
        kept.append(best)
        used.update(cases[best])
        wanted.difference_update(cases[best])
    return sorted(kept)


def values_of(case: pytest.Function) -> list[Hashable]:
    """What a case shows: a value for each ``parametrize``, where what is given together is one; or their pairs."""
    values: list[Hashable] = []
    for mark in case.iter_markers("parametrize"):
        names = mark.args[0]
        names = tuple(n.strip() for n in names.split(",")) if isinstance(names, str) else tuple(names)
        # the objects are those of the list that all cases share
        values.append((names, tuple(id(case.callspec.params[n]) for n in names)))
    return values if len(values) < 3 else list(combinations(values, 2))


def leave_the_others(items: Sequence[pytest.Item]) -> None:
    """Mark the other cases ``fuzz``."""
    tests: dict[str, list[pytest.Function]] = {}
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and item.get_closest_marker("each_value")
            and not item.get_closest_marker("fuzz")
        ):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        kept = set(shown([values_of(case) for case in cases]))
        for n, case in enumerate(cases):
            if n not in kept:
                case.add_marker("fuzz")
