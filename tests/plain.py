"""What fuzzers look for are plain exceptions of ours. The guard of public names would reword them as an error
about the arguments; with ``TENSORLANG_DEBUG=1`` it lets them pass. Knows the variable only."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


def let_pass() -> None:
    """For the rest of this process and for those that it starts."""
    os.environ["TENSORLANG_DEBUG"] = "1"


@pytest.fixture(autouse=True)
def plain_exceptions_pass() -> Iterator[None]:
    """For each test of a package whose conftest imports this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORLANG_DEBUG", "1")
        yield
