"""Each mistake is refused with the golden message and changes nothing. ``pytest tests/errors
--refresh-golden`` writes the texts anew."""

from __future__ import annotations

import pytest

from tensorlang.errors import CallError, DeclareError, LowerError, ScheduleError, TensorLangError

from . import (
    mistakes_call,
    mistakes_declare,
    mistakes_dynamic,
    mistakes_lower,
    mistakes_ops,
    mistakes_products,
    mistakes_schedule,
    mistakes_traces,
)
from .scene import mistakes, play, read, write

FAMILIES = {
    "declare": (mistakes_declare, DeclareError),
    "schedule": (mistakes_schedule, ScheduleError),
    "traces": (mistakes_traces, ScheduleError),
    "lower": (mistakes_lower, LowerError),
    "call": (mistakes_call, CallError),
    "ops": (mistakes_ops, DeclareError),
    "products": (mistakes_products, DeclareError),
    "dynamic": (mistakes_dynamic, TensorLangError),
}
CASES = [(family, name) for family, (module, _) in FAMILIES.items() for name in mistakes(module)]


@pytest.fixture(scope="module")
def golden(request):
    if request.config.getoption("--refresh-golden"):
        for family, (module, error) in FAMILIES.items():
            write(family, {name: play(f, error) for name, f in mistakes(module).items()})
    return {family: read(family) for family in FAMILIES}


@pytest.mark.parametrize(("family", "name"), CASES)
def test_message(golden, family, name):
    module, error = FAMILIES[family]
    assert play(mistakes(module)[name], error) == golden[family].get(
        name, "no golden text: pytest --refresh-golden"
    )


def test_no_golden_text_is_left_over(golden):
    assert [(family, name) for family in FAMILIES for name in golden[family]] == CASES


def test_there_are_many():
    assert len(CASES) >= 60
