"""Wrong arguments: one message each, kept in mistakes.txt; nothing written; no random argument brings the
process down."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tensorlang.errors import CallError

from . import kernels, show_mistakes

GOLDEN = Path(__file__).with_name("mistakes.txt")


def test_messages() -> None:
    """Refresh with ``python -m tests.runtime.show_mistakes > tests/runtime/mistakes.txt`` and read the
    difference."""
    assert show_mistakes.table() == GOLDEN.read_text()
    assert "NO ERROR" not in GOLDEN.read_text()


def test_portable_path_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORLANG_NATIVE_CALLS", "0")
    assert show_mistakes.table() == GOLDEN.read_text()


def test_nothing_is_written_on_a_mistake() -> None:
    f = kernels.add()
    a, c = np.ones(8, np.float32), np.full(8, 7, np.float32)
    for wrong in (a[:7], a.astype(np.float64), a[::2], [1], None):
        with pytest.raises(CallError):
            f(a, wrong, c)
    assert (c == 7).all()
    assert (a == 1).all()
