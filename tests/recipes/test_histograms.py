"""Reductions along memory of elements that several results ask for: read once for a tile of results."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.recipes import default_schedule


def counts(n: int, shades: int, dtype: str, out: str) -> list[te.Tensor]:
    x = te.placeholder((n,), dtype, name="x")
    k = te.reduce_axis((0, n), "k")
    one, none = (te.const(v, out) for v in (1, 0))
    return [
        x,
        te.compute(
            (shades,), lambda b: te.sum(te.select(x[k] == te.cast(dtype, b), one, none), axis=k), name="c"
        ),
    ]


@pytest.mark.parametrize("cpu", ["znver3", "znver4"])
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    ("n", "shades", "dtype", "out"),
    [
        (2000, 64, "int32", "float32"),
        (2003, 13, "float32", "float32"),
        (700, 9, "uint8", "int32"),
        (1111, 8, "float32", "float64"),
    ],
)
def test_counts_of_many_shades(n: int, shades: int, dtype: str, out: str, cores: int, cpu: str) -> None:
    x, c = counts(n, shades, dtype, out)
    s = default_schedule(c, f"llvm -mcpu={cpu} -num-cores={cores}")
    high = next((h for h in (5, 4, 3) if shades % h == 0), 4)
    assert any("c.rf.b " in line and f"0..{high} " in line for line in s.tree().splitlines())
    a = np.random.default_rng(n).integers(0, shades, n).astype(dtype)
    assert (tl.build(s, [x, c])(a) == np.bincount(a.astype(int), minlength=shades)).all()


@pytest.mark.parametrize("first", [False, True])
def test_counts_of_every_row(first: bool) -> None:
    m, n, shades = 5, 777, 11
    x = te.placeholder((m, n), "int32", name="x")
    k = te.reduce_axis((0, n), "k")

    def count(i: te.Var, b: te.Var) -> te.Expr:
        return te.sum(te.select(x[i, k] == b, 1, 0), axis=k)

    shape = (shades, m) if first else (m, shades)
    c = te.compute(shape, (lambda b, i: count(i, b)) if first else count, name="c")
    a = np.random.default_rng(1).integers(0, shades, (m, n)).astype("int32")
    want = (a[:, :, None] == np.arange(shades)).sum(1)
    assert (tl.build(default_schedule(c), [x, c])(a) == (want.T if first else want)).all()


def test_counts_of_the_shades_of_tiles() -> None:
    """Of 8 × 8 pixels and 10 shades, which were vectors of the shades: 0.6 of the time (Zen 5, one thread)."""
    x = te.placeholder((32, 48), "int32", name="x")
    r, k = te.reduce_axis((0, 8), "r"), te.reduce_axis((0, 8), "k")
    c = te.compute(
        (4, 6, 10),
        lambda i, j, b: te.sum(te.select(x[i * 8 + r, j * 8 + k] == b, 1, 0), axis=(r, k)),
        name="c",
    )
    s = default_schedule(c, "llvm -mcpu=znver5")
    assert any("c.rf.b " in line and "0..5 " in line for line in s.tree().splitlines())
    a = np.random.default_rng(1).integers(0, 10, (32, 48)).astype("int32")
    tiles = a.reshape(4, 8, 6, 8).transpose(0, 2, 1, 3).reshape(4, 6, 64, 1)
    assert (tl.build(default_schedule(c), [x, c])(a) == (tiles == np.arange(10)).sum(2)).all()


def test_the_least_distance_to_each_of_some_values() -> None:
    x, p = te.placeholder((1000,), name="x"), te.placeholder((9,), name="p")
    k = te.reduce_axis((0, 1000), "k")
    c = te.compute((9,), lambda b: te.min(te.abs(x[k] - p[b]), axis=k), name="c")
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal(1000).astype("float32"), rng.standard_normal(9).astype("float32")
    assert (tl.build(default_schedule(c), [x, p, c])(a, b) == np.abs(a[:, None] - b).min(0)).all()


def test_a_count_adds_under_a_mask() -> None:
    """Its sum began at zero: adding zero where the test fails is leaving it alone."""
    x, c = counts(2000, 64, "int32", "float32")
    target = "llvm -mcpu=znver4 -num-cores=1"
    assembly = tl.build(default_schedule(c, target), [x, c], target).get_source("asm")
    assert "{%k1}" in assembly and "vblendm" not in assembly
    assert any("vaddps" in line and "{%k" in line for line in assembly.splitlines())


def test_the_sign_of_a_zero_of_the_user_is_kept() -> None:
    """An elementwise sum is no count: -0.0 + 0.0 is 0.0."""
    x = te.placeholder((16,), name="x")
    c = te.compute((16,), lambda i: x[i] + te.select(i < 0, 1.0, 0.0), name="c")
    got = tl.build(default_schedule(c), [x, c])(np.full(16, -0.0, "float32"))
    assert not np.signbit(got).any()
