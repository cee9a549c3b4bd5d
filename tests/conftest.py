"""Options of the whole suite."""

from __future__ import annotations

import pytest

from tensorlang.codegen.llvm import parallel

# Tests are small, and their parallel loops are to run as such: every turn is worth a part of its own.
parallel.PIECE = 1


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--refresh-golden", action="store_true", help="write the golden texts anew instead of comparing with them; read the diff")
