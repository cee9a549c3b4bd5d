"""Products of few rows, whose right operand is read line by line and copied nowhere."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule


@pytest.mark.each_value
@pytest.mark.parametrize("cores", [1, 2, 7])
@pytest.mark.parametrize(
    ("m", "k", "n", "batch", "dtype"),
    [
        (1, 700, 700, 0, "float32"),
        (3, 701, 601, 0, "float32"),
        (4, 509, 811, 0, "float32"),
        (7, 613, 607, 0, "float32"),
        (11, 523, 997, 0, "float32"),
        (5, 601, 701, 3, "float32"),
        (6, 431, 433, 0, "float64"),
        (5, 601, 607, 0, "int32"),
    ],
)
def test_few_rows_read_lines_as_they_lie(m: int, k: int, n: int, batch: int, dtype: str, cores: int) -> None:
    """The cores take parts of k for up to three rows, parts of the lines for more, where those are long."""
    around = (batch,) if batch else ()
    a, b = te.placeholder((*around, m, k), dtype, name="A"), te.placeholder((*around, k, n), dtype, name="B")
    out = ops.relu(ops.matmul(a, b) if not batch else ops.batch_matmul(a, b))
    s = default_schedule(out, f"llvm -mcpu=znver3 -num-cores={cores}")
    assert "B.global" not in s.tree()
    if cores == 2:
        assert (".rf" in s.tree()) is (m <= 3) and "parallel" in s.tree()
    rng = np.random.default_rng(m)
    x, y = (rng.integers(-3, 4, [int(str(v)) for v in t.shape]).astype(dtype) for t in (a, b))
    assert (tl.build(s, [a, b, out])(x, y) == np.maximum(x @ y, 0)).all()
