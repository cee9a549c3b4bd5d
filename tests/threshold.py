"""How much work is worth a part of its own to a parallel loop: what users have, before tests/conftest.py makes
it little; and the fixture by which a folder runs with what users have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tensorlang.codegen.llvm import parallel

OF_USERS = parallel.PIECE


@pytest.fixture(autouse=True, scope="module")
def threshold_of_users() -> Iterator[None]:
    """For the ``conftest.py`` of a folder: loops are shared out from the work on that is worth it."""
    small = parallel.PIECE
    parallel.PIECE = OF_USERS
    yield
    parallel.PIECE = small
