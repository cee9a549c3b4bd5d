"""Every intrinsic has a row, and equals numpy within its bound, in every lane count."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang.codegen.llvm.mathlib import ROWS
from tensorlang.core.dtype import dtype
from tensorlang.expr.intrinsics import TABLE

from .helper import Func, Kernel, Store, buffer, i32, load, loop, make, ramp

N = 3072  # a multiple of all lane counts used


def inputs(name: str, t: str, n: int = N) -> list[np.ndarray]:
    rng = np.random.default_rng(sum(map(ord, name)))
    kind = dtype(t).to_numpy()
    if kind.kind != "f":
        lo, hi = dtype(t).limits()
        a = rng.integers(lo, hi, n, kind, endpoint=True)
        b = rng.integers(0, dtype(t).bits + 3, n).astype(kind) if name.startswith("shift") else rng.integers(lo, hi, n, kind, endpoint=True)
        a[:4] = [0, 1, hi, lo]
        return [a, b]
    top = {2: 4.8, 4: 38.5, 8: 300}[kind.itemsize]
    with np.errstate(all="ignore"):
        wide = rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-top * 1.15, top, n)
        near = rng.uniform(-4, 4, n)
        mid = rng.uniform(-110, 110, n)
        a = np.select([rng.random(n) < 0.3, rng.random(n) < 0.5], [wide, near], mid).astype(kind)
        b = np.select([rng.random(n) < 0.3, rng.random(n) < 0.5], [wide, near], np.round(near)).astype(kind)
    special = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5, -2.5], kind)
    tiny = np.array([np.finfo(kind).smallest_subnormal, -np.finfo(kind).smallest_subnormal, np.finfo(kind).tiny, np.finfo(kind).max], kind)
    pool = np.concatenate([special, tiny])
    a[:256] = np.repeat(pool, 16)
    b[:256] = np.tile(pool, 16)
    return [a, b]


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of the wanted value; infinite where only one is NaN or infinite."""
    if got.dtype.kind != "f":
        return (got != want).astype(float) * np.inf if (got != want).any() else np.zeros(got.shape)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(all="ignore"):
        size = np.spacing(np.abs(want)).astype(np.float64)
        far = np.abs(got.astype(np.float64) - want.astype(np.float64)) / size
    # an overflow by rounding at the very top counts as one unit
    top = np.finfo(want.dtype).max
    far = np.where(np.isinf(got) != np.isinf(want), np.where((np.abs(got) >= top) & (np.abs(want) >= top), 1.0, np.inf), far)
    return np.where(same, 0.0, np.where(np.isnan(far), np.inf, far))


def kernel(name: str, t: str, lanes: int, math: str = "default", target: object = None) -> Kernel:
    row = TABLE[name]
    result = row.result(dtype(t)).name
    args = [buffer(x, t, N) for x in ("A", "B")[:row.arity]]
    out = buffer("C", result, N)
    func = Func("k", (*args, out), loop(N // lanes, lambda i: Store(out, make.call(name, *[load(a, (ramp(i * lanes, lanes),)) for a in args]),
                                                                   (ramp(i * lanes, lanes),))), (), (out,))
    return Kernel(func, math=math, target=target)  # type: ignore[arg-type]


def evaluate(name: str, t: str, lanes: int, arrays: list[np.ndarray], math: str = "default", target: object = None) -> np.ndarray:
    row = TABLE[name]
    out = np.zeros(N, row.result(dtype(t)).to_numpy())
    assert kernel(name, t, lanes, math, target)(*arrays[:row.arity], out) == 0
    return out


def reference(name: str, arrays: list[np.ndarray]) -> np.ndarray:
    row = TABLE[name]
    if name == "nextafter":  # the neighbour in the arrays' own type, not that in float64
        with np.errstate(all="ignore"):
            return np.nextafter(*arrays)
    return row.evaluate(*arrays[:row.arity])


def test_every_intrinsic_has_a_row_and_no_row_is_left_over() -> None:
    assert set(ROWS) == set(TABLE)


FLOATS = [n for n, r in TABLE.items() if r.accepts(dtype("float32"))]
INTS = [n for n, r in TABLE.items() if r.accepts(dtype("int32"))]


@pytest.mark.parametrize("name", FLOATS)
def test_float32_in_every_width(name: str) -> None:
    arrays = inputs(name, "float32")
    want = reference(name, arrays)
    first = evaluate(name, "float32", 8, arrays)
    far = ulps(first, want)
    worst = int(np.argmax(far))
    assert far[worst] <= ROWS[name].ulp, (name, [a[worst] for a in arrays], first[worst], want[worst])
    for lanes in (1, 6, 16, 48):
        np.testing.assert_array_equal(evaluate(name, "float32", lanes, arrays), first)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("t", ["float64", "float16"])
def test_other_floats(name: str, t: str) -> None:
    arrays = inputs(name, t)
    want = reference(name, arrays)
    for lanes in (1, 4):
        got = evaluate(name, t, lanes, arrays)
        far = ulps(got, want)
        worst = int(np.argmax(far))
        bound = 4 if t == "float64" and ROWS[name].ulp else ROWS[name].ulp and 1
        assert far[worst] <= bound, (name, [a[worst] for a in arrays], got[worst], want[worst], far[worst])


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "erf", "exp2"])
def test_precise_mode_is_libm(name: str) -> None:
    arrays = inputs(name, "float32")
    want = TABLE[name].evaluate(arrays[0])
    assert ulps(evaluate(name, "float32", 8, arrays, "precise"), want).max() <= 2
    assert f"@{'exp' if name == 'sigmoid' else name}f(" in kernel(name, "float32", 8, "precise").ll


@pytest.mark.parametrize("name", INTS)
@pytest.mark.parametrize("t", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers(name: str, t: str) -> None:
    arrays = inputs(name, t)
    with np.errstate(all="ignore"):
        want = TABLE[name].evaluate(*arrays[:TABLE[name].arity])
    for lanes in (1, 16):
        np.testing.assert_array_equal(evaluate(name, t, lanes, arrays), want)


def test_scalars_use_the_same_code_as_vectors_so_a_reduction_tail_cannot_differ() -> None:
    ll = kernel("exp", "float32", 1).ll
    assert "expf" not in ll and "llvm.exp" not in ll
    assert i32(0).dtype.name == "int32"
