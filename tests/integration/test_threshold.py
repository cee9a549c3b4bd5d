"""This folder and tests/recipes run with the threshold of users; the others share out the smallest loops."""

from __future__ import annotations

from tensorlang.codegen.llvm import parallel
from tests.threshold import OF_USERS


def test_loops_are_shared_out_where_a_users_are() -> None:
    assert parallel.PIECE == OF_USERS > 1
