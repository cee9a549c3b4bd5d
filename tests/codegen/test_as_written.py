"""Long modules keep their addresses as they are written: right, and a setting that nobody else sees."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.codegen.llvm import compile as made
from tensorlang.errors import CompileError


def kernel(target: str | None = None) -> tuple[tl.Module, str]:
    """A sum over two open sizes, read with a stride that only a call knows, and its assembly."""
    n, m = te.dim("n"), te.dim("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, n), name="k")
    B = te.compute((m,), lambda j: te.sum(A[k, j] * A[n - 1 - k, j], axis=k), name="B")
    f = tl.build(te.create_schedule(B.op), [A, B], target)
    return f, f.get_source("asm")


def test_long_ones_are_right_and_others_stay_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    _, short = kernel()
    monkeypatch.setattr(made, "LONG", 0)
    f, long = kernel()
    assert long != short
    a = np.arange(35, dtype=np.float32).reshape(5, 7) % 4
    assert (f(a) == (a * a[::-1]).sum(0)).all()
    monkeypatch.undo()
    assert kernel()[1] == short


def test_the_setting_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _, short = kernel()
    monkeypatch.setattr(made, "LONG", 0)

    def fails(_: object) -> bytes:
        raise RuntimeError("no code")

    with pytest.raises(CompileError):
        made._made("define void @f() {\n  ret void\n}\n", tl.Target.host(), 2, fails)
    monkeypatch.undo()
    assert kernel()[1] == short


def test_only_for_processors_whose_addresses_are_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    arm = "llvm -mtriple=aarch64-linux-gnu"
    _, short = kernel(arm)
    monkeypatch.setattr(made, "LONG", 0)
    assert kernel(arm)[1] == short
