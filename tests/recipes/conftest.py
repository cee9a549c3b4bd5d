"""Loops here are shared out among threads where a user's are: from the work on that is worth it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tensorlang.codegen.llvm import parallel
from tests.threshold import OF_USERS


@pytest.fixture(autouse=True, scope="module")
def threshold_of_users() -> Iterator[None]:
    small = parallel.PIECE
    parallel.PIECE = OF_USERS
    yield
    parallel.PIECE = small
