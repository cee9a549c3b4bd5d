"""Every ``try`` of the golden texts has an entry in the table of its family, which follows it; what is so repaired is accepted."""

from __future__ import annotations

import pytest

from . import (
    advice_call,
    advice_declare,
    advice_dynamic,
    advice_ops,
    advice_products,
    mistakes_call,
    mistakes_declare,
    mistakes_dynamic,
    mistakes_ops,
    mistakes_products,
)
from .advice import Advice
from .scene import mistakes, read

TABLES = {"call": (mistakes_call, advice_call), "ops": (mistakes_ops, advice_ops), "products": (mistakes_products, advice_products),
          "dynamic": (mistakes_dynamic, advice_dynamic), "declare": (mistakes_declare, advice_declare)}
ADVISED = [(family, name) for family in TABLES for name, text in read(family).items() if "\n  try  " in text]


@pytest.mark.parametrize(("family", "name"), ADVISED)
def test_what_is_advised_is_accepted(family: str, name: str) -> None:
    module, table = TABLES[family]
    assert name in table.FOLLOW, f"nobody follows the advice of {name}: add an entry to {table.__name__}"
    advice = Advice(mistakes(module)[name], **table.NAMES)
    table.FOLLOW[name](advice)
    advice.assert_followed()


@pytest.mark.parametrize("family", TABLES)
def test_no_entry_is_left_over(family: str) -> None:
    assert set(TABLES[family][1].FOLLOW) <= {name for f, name in ADVISED if f == family}
