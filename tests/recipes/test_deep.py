"""Products in blocks of k: right with rests of all kinds, and chosen where operands are large."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops
from tensorlang.recipes import deep, default_schedule
from tests.recipes.test_gemm import product


@pytest.mark.each_value
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    ("m", "n", "k", "left", "right", "dtype"),
    [
        (131, 97, 1111, False, False, "float32"),
        (100, 33, 1500, True, False, "float32"),
        (64, 130, 1200, False, True, "float32"),
        (600, 300, 1030, False, False, "float32"),
        (70, 50, 700, False, False, "float64"),
        (80, 40, 1025, False, False, "int32"),
    ],
)
def test_long_sums_are_right_in_blocks(
    m: int, n: int, k: int, left: bool, right: bool, dtype: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tiles sum a block of k, then the next: here in products that are small enough to be compared."""
    monkeypatch.setattr(deep, "LARGE", 1 << 20)
    monkeypatch.setattr(deep, "FEWEST", 1)
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    A, B, C = product(m, n, k, left, right, dtype=dtype)
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-3, 4, [int(str(x)) for x in t.shape]).astype(dtype) for t in (A, B))
    out = ops.relu(C)
    want = np.maximum((a.swapaxes(-1, -2) if left else a) @ (b.swapaxes(-1, -2) if right else b), 0)
    target = f"llvm -mcpu=znver3 -num-cores={cores}"
    s = default_schedule(out, target)
    assert "loop C.k.outer" in s.tree() and "A.global" in s.tree()
    assert (tl.build(s, [A, B, out])(a, b) == want).all()
    packed = tl.build(default_schedule(out, target, [B]), [A, out], constants={B: b})
    assert (packed(a) == want).all()


@pytest.mark.parametrize(
    ("m", "n", "k", "cpu", "blocks"),
    [
        (2048, 2048, 2048, "znver3", True),
        (1024, 1024, 1024, "znver3", True),
        (512, 512, 512, "znver3", False),
        (2000, 2000, 2000, "znver3", True),
        (900, 700, 1700, "znver3", False),
        (16, 768, 3072, "znver3", False),
        (2048, 2048, 2048, "znver4", False),
    ],
)
def test_long_sums_of_rows_that_lie_pages_apart_are_in_blocks(
    m: int, n: int, k: int, cpu: str, blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    A, B, C = product(m, n, k)
    for constants in ([], [B]):
        tree = default_schedule(C, f"llvm -mcpu={cpu} -num-cores=2", constants).tree()
        assert ("storage A.global" in tree) is blocks
