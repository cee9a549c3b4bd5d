"""Lanes that are kept, one behind the other, and flags counted, by an instruction each."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tensorlang.core.dtype import KNOWN, dtype
from tensorlang.loopir.interpret_memory import pack_lanes
from tensorlang.loopir.packed import packed
from tensorlang.loopir.stmt import reduction

from .helper import Func, Store, Target, buffer, i32, load, make, ramp, run
from .test_values import elementwise, numbers

rng = np.random.default_rng(1)


@pytest.mark.skipif(Target.host().vector_bits < 512, reason="no vectors of 512 bits")
@pytest.mark.parametrize(("t", "lanes"), [(t, n) for t in KNOWN for n in (8, 16) if dtype(t).bits * n <= 512])
def test_lanes_that_are_kept(t: str, lanes: int) -> None:
    f = elementwise(t, (t, "bool"), lanes, packed)
    x, mask = numbers(t), numbers("bool")
    mask[:lanes], mask[lanes : 2 * lanes] = False, True
    out = np.ones_like(x)
    assert f(x, mask, out) == 0
    want = [pack_lanes(a, m) for a, m in zip(x.reshape(-1, lanes), mask.reshape(-1, lanes), strict=True)]
    np.testing.assert_array_equal(out, np.concatenate(want))


@pytest.mark.parametrize(("t", "lanes"), [("int64", 8), ("float32", 16), ("int16", 16)])
def test_lanes_are_kept_by_one_instruction(t: str, lanes: int) -> None:
    f = elementwise(t, (t, "bool"), lanes, packed, Target.parse("llvm -mcpu=znver4"))
    assert len(re.findall("\tvp?compress", f.code.asm)) == 1


@pytest.mark.parametrize(("t", "lanes"), [("int32", 8), ("int64", 16), ("int16", 32), ("int64", 64)])
def test_flags_are_counted(t: str, lanes: int) -> None:
    x, y = buffer("X", "bool", lanes), buffer("Y", t, 1)
    flags = make.cast(dtype(t).with_lanes(lanes), load(x, (ramp(0, lanes),)))
    func = Func("k", (x, y), Store(y, reduction("add", flags), (i32(0),)), (), (y,))
    for a in (np.zeros(lanes, bool), np.ones(lanes, bool), rng.integers(0, 2, lanes).astype(bool)):
        b = np.zeros(1, t)
        run(func, a, b)
        assert b[0] == a.sum()
