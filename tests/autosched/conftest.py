"""Workers that tests share which measure for real and do not ask how workers begin and end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from autosched.measure import Measurer


@pytest.fixture(scope="session")
def measurer() -> Iterator[Measurer]:
    """A process that builds and one that runs take half a second of the processor to begin."""
    with Measurer() as shared:
        yield shared
