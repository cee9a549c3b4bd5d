"""Products of bfloat16 that are multiplied in pairs, where the processor has that."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule
from tensorlang.target import as_target
from tests.codegen.test_assembly import inner_loop

PAIRS = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4 -num-cores=1"
BRAIN = ml_dtypes.bfloat16


def declared(m: int, k: int, n: int, left: bool = False, right: bool = False) -> list[te.Tensor]:
    a = te.placeholder((k, m) if left else (m, k), "bfloat16", name="a")
    b = te.placeholder((n, k) if right else (k, n), "bfloat16", name="b")
    return [a, b, ops.matmul(a, b, transpose_a=left, transpose_b=right)]


@pytest.mark.each_value
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 8, 16), (5, 7, 3), (33, 129, 65), (40, 64, 48), (64, 1, 64)])
@pytest.mark.parametrize("fixed", [False, True])
def test_right_in_every_orientation(m: int, k: int, n: int, left: bool, right: bool, fixed: bool) -> None:
    """Small integers are exact, rounded once to bfloat16."""
    rng = np.random.default_rng(m + k + n)
    a, b, c = declared(m, k, n, left, right)
    x, y = (rng.integers(-4, 5, [int(size) for size in t.shape]).astype(BRAIN) for t in (a, b))
    want = ((x.T if left else x).astype("float32") @ (y.T if right else y).astype("float32")).astype(BRAIN)
    got = tl.compile([a, c], constants={b: y})(x) if fixed else tl.compile([a, b, c])(x, y)
    assert np.array_equal(got.astype("float32"), want.astype("float32"))


def test_what_is_no_number_stays_so() -> None:
    x, y = np.ones((20, 33), BRAIN), np.ones((33, 40), BRAIN)
    x[3, 5], x[7, 32], y[4, 9], x[11, 4] = np.inf, np.nan, -np.inf, 0
    with np.errstate(invalid="ignore"):
        want = x.astype("float32") @ y.astype("float32")
    np.testing.assert_array_equal(tl.compile(declared(20, 33, 40))(x, y).astype("float32"), want)


@pytest.mark.parametrize(("m", "k", "n"), [(64, 64, 64), (33, 129, 65), (64, 100, 48)])
def test_the_loop_multiplies_pairs_and_converts_nothing(m: int, k: int, n: int) -> None:
    a, b, c = declared(m, k, n)
    code = tl.build(default_schedule(c, PAIRS), [a, b, c], PAIRS).get_source("asm")
    loop = inner_loop(code, "vdpbf16ps")
    assert sum(x.startswith("vdpbf16ps") for x in loop) >= 8, loop
    assert not any(re.match("vpsll|vpmovzx|vfmadd|vcvt", x) for x in loop), loop
    old = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver3 -num-cores=1"
    assert not as_target(old).sums_bfloat16
    assert "vdpbf16ps" not in tl.build(default_schedule(c, old), [a, b, c], old).get_source("asm")
