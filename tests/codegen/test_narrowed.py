"""Nothing is written behind the last element, whose mask LLVM may know and whose value was made narrower."""

from __future__ import annotations

import numpy as np
import pytest

from .helper import Func, Store, buffer, compiled, load, make, ramp, run
from .test_assembly import AVX512, NEON


def masked(wide: str, narrow: str, lanes: int, holds: int) -> Func:
    """D = X made narrower, in the first lanes."""
    x, d = buffer("X", wide, lanes), buffer("D", narrow, 2 * lanes)
    at = ramp(make.const(0, "int32"), lanes)
    mask = make.lt(at, make.broadcast(make.const(holds, "int32"), lanes))
    value = make.cast(narrow, make.add(load(x, (at,)), load(x, (at,))))
    return Func("k", (x, d), Store(d, value, (at,), mask), (), (d,))


PAIRS = [
    *(
        (w, n)
        for w in ("int32", "int64")
        for n in ("int8", "uint16", "bfloat16" if w == "int32" else "int32")
    ),
    ("int16", "uint8"),
    ("float32", "bfloat16"),
]


@pytest.mark.parametrize(("wide", "narrow"), PAIRS)
@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 24, 32, 64])
def test_nothing_is_written_behind_the_lanes_that_hold(wide: str, narrow: str, lanes: int) -> None:
    """One lane was stored as wide as it had been: two bytes of bfloat16 and two of what lies behind."""
    for holds in {1, lanes // 2, lanes - 1, lanes}:
        f = masked(wide, narrow, lanes, holds)
        x = (np.arange(1, lanes + 1) % 50).astype(f.params[0].dtype.to_numpy())
        d = np.full(2 * lanes, 77).astype(f.params[1].dtype.to_numpy())
        run(f, x, d)
        assert np.array_equal(d[:holds].astype("float64"), (2 * x[:holds]).astype("float64")), holds
        assert (d[holds:].astype("float64") == 77).all(), holds


@pytest.mark.parametrize("narrow", ["int8", "int16", "bfloat16"])
def test_an_element_is_stored_as_wide_as_it_is(narrow: str) -> None:
    code = compiled(masked("float32" if narrow == "bfloat16" else "int32", narrow, 16, 1), AVX512).asm
    assert ("vpextrb" if narrow == "int8" else "vpextrw") in code
    assert compiled(masked("int32", "int8", 16, 3), NEON).asm
