"""Wrong arguments: one message each, kept in mistakes.txt; nothing written; no random argument brings the process down."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tensorlang.errors import CallError

from . import kernels, show_mistakes

GOLDEN = Path(__file__).with_name("mistakes.txt")


def test_messages() -> None:
    """Refresh with ``python -m tests.runtime.show_mistakes > tests/runtime/mistakes.txt`` and read the difference."""
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


@pytest.mark.parametrize("native", ["0", "1"])
def test_random_arguments(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either the kernel runs and is right, or CallError comes and no array has changed."""
    monkeypatch.setenv("TENSORLANG_NATIVE_CALLS", native)
    f = kernels.add()
    rng = np.random.default_rng(5)
    base = rng.integers(0, 9, 64).astype(np.float32)
    ran = 0

    def pick() -> object:
        n = int(rng.integers(0, 6))
        start = int(rng.integers(0, 30))
        kind = int(rng.integers(0, 14))
        if kind == 0:
            return base[start:start + 2 * n:2]
        if kind == 1:
            return base[start:start + n].astype(rng.choice(["f8", ">f4", "i4", "f2", "O"]))
        if kind == 2:
            return np.frombuffer(bytes(4 * n + 1), np.uint8)[1:].view(np.float32)
        if kind == 3:
            return base[:n * n].reshape(n, n)
        if kind == 4:
            return rng.choice(np.array([None, 1, 2.5, "x"], dtype=object))
        if kind == 5:
            frozen = base[:n].copy()
            frozen.flags.writeable = False
            return frozen
        if kind == 6:
            return np.broadcast_to(base[:1], n)
        if kind == 7:
            return base[start:start + n][::-1]
        return base[start:start + n] if kind < 11 else base[:3].copy()

    for _ in range(5000):
        args = [pick() for _ in range(int(rng.choice([0, 1, 2, 3, 3, 3, 3, 3, 3, 4])))]
        before = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        try:
            out = f(*args)
        except CallError as error:
            assert str(error).startswith("add")
            for a, b in zip(args, before, strict=True):
                if isinstance(a, np.ndarray):
                    np.testing.assert_array_equal(a, b)
        else:
            ran += 1
            result = out if len(args) == 2 else args[2]
            np.testing.assert_array_equal(result, before[0] + before[1])
    assert ran > 50
