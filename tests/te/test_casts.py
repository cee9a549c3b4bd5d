"""Casts between all pairs of element types: the same bits from numpy, the interpreter and the machine, and
those that C would give."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang import te
from tensorlang.core.dtype import KNOWN, dtype

from .oracles import agree, numbers, widened

N = 131


@pytest.mark.parametrize("source", KNOWN)
def test_casts(source):
    A = te.placeholder((N,), source, name="A")
    outs = [te.compute((N,), lambda i, t=t: A[i].astype(t), name=f"to_{t}") for t in KNOWN]
    a = numbers(source, N)
    results = agree(outs, {A: a})
    for t, got in zip(KNOWN, results, strict=True):
        want = as_c(a, source, t)
        assert got.dtype == want.dtype
        got, want = (widened(x) if t == "bfloat16" else x for x in (got, want))
        np.testing.assert_array_equal(got, want, err_msg=f"{source} to {t}")


def as_c(x: np.ndarray, source: str, target: str) -> np.ndarray:
    """What C gives where its standard says, the nearest end of the range (and 0 for NaN) where a float does
    not fit an integer type."""
    s, t = dtype(source), dtype(target)
    if s.code == "bfloat":
        if t is s:
            return x
        x = widened(x)
    with np.errstate(all="ignore"):
        if t.is_bool:
            return x != 0
        if t.code == "bfloat":
            return np.array([nearest_bfloat(v) for v in x.tolist()], np.uint16).view(t.to_numpy())
        if s.is_float and t.is_int:
            lo, hi = t.limits()
            return np.array(
                [0 if v != v else lo if v <= lo else hi if v >= hi else int(v) for v in x.tolist()],
                dtype=object,
            ).astype(t.to_numpy())
        return x.astype(t.to_numpy())


def nearest_bfloat(v: float | int) -> int:
    """The bits of the bfloat16 next to a number, ties to even, by search among all of them."""
    if v != v:
        return 0x7FC0
    sign = 0x8000 if v < 0 or (v == 0 and str(v).startswith("-")) else 0
    size = abs(v)
    lo, hi = 0, 0x7F80
    while hi - lo > 1:
        mid = (lo + hi) // 2
        if value(mid) <= size:
            lo = mid
        else:
            hi = mid
    if size == float("inf"):
        return sign | 0x7F80
    below, above = value(lo), value(lo + 1) if lo + 1 < 0x7F80 else 2.0**128
    if size - below > above - size or (size - below == above - size and lo % 2):
        lo += 1
    return sign | lo


def value(bits: int) -> float:
    return float(np.array([bits << 16], np.uint32).view(np.float32)[0])


def test_literals_are_converted_like_elements():
    """The fold of a cast at birth gives what the machine gives."""
    for source in ("int64", "uint64", "float32", "float64", "float16"):
        for x in numbers(source, 40).tolist():
            for t in KNOWN:
                e = te.cast(t, te.const(x, source))
                if not hasattr(e, "value"):
                    continue
                (want,) = as_c(np.array([x], dtype(source).to_numpy()), source, t)[:1]
                got = e.value
                if t == "bfloat16":
                    got, want = nearest_bfloat(got), int(want.view(np.uint16))
                assert (got != got and want != want) or dtype(t).to_numpy().type(got) == want, (source, x, t)
