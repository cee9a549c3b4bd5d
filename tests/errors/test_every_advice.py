"""Every ``try`` of the golden texts has an entry in the table of its family, which follows it, or is followed
by test_advice; what is so repaired is accepted."""

from __future__ import annotations

from importlib import import_module

import pytest

from .advice import Advice
from .scene import GOLDEN, mistakes, read
from .test_advice import FOLLOWED, WORDS

TABLES = {
    f: (import_module(f".mistakes_{f}", __package__), import_module(f".advice_{f}", __package__))
    for f in sorted(p.stem for p in GOLDEN.glob("*.txt"))
}
ADVISED = [(family, name) for family in TABLES for name, text in read(family).items() if "\n  try  " in text]
MADE = {name for name, _ in FOLLOWED} | {name for name, *_ in WORDS}


@pytest.mark.parametrize(
    ("family", "name"),
    [case for case in ADVISED if case[1] not in MADE or case[1] in TABLES[case[0]][1].FOLLOW],
)
def test_what_is_advised_is_accepted(family: str, name: str) -> None:
    module, table = TABLES[family]
    assert name in table.FOLLOW, f"nobody follows the advice of {name}: add an entry to {table.__name__}"
    advice = Advice(mistakes(module)[name], **table.NAMES)
    table.FOLLOW[name](advice)
    advice.assert_followed()


@pytest.mark.parametrize("family", TABLES)
def test_no_entry_is_left_over(family: str) -> None:
    assert set(TABLES[family][1].FOLLOW) <= {name for f, name in ADVISED if f == family}
