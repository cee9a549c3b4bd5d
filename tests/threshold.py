"""How much work is worth a part of its own to a parallel loop: what users have, before tests/conftest.py
makes it little."""

from __future__ import annotations

from tensorlang.codegen.llvm import parallel

OF_USERS = parallel.PIECE
