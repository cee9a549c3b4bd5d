"""Long rows put in order by parting them: keys in any order and as many equal ones as there are, at sizes
around those of parts; and that lanes are packed for it."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.loop_builder import vectors_of
from tensorlang.ops import partition, sorting

rng = np.random.default_rng(7)


def rows(t: str, n: int) -> dict[str, np.ndarray]:
    if np.dtype(t).kind == "f":
        some = rng.standard_normal(n).astype(t)
        special = some.copy()
        for step, e in ((3, np.nan), (5, -0.0), (7, 0.0), (11, np.inf), (13, -np.inf)):
            special[step % 4 :: step] = e
        return {
            "random": some,
            "sorted": np.sort(some),
            "special": special,
            "no numbers": np.full(n, np.nan, t),
            "zeros": np.where(rng.random(n) < 0.5, -0.0, 0.0).astype(t),
            "one far": np.concatenate([some[1:], np.array([3e38], t)]),
            "of all sizes": np.exp(rng.uniform(-80, 80, n)).astype(t),
        }
    low, high = np.iinfo(t).min, np.iinfo(t).max
    some = rng.integers(low, high, n, dtype=t, endpoint=True)
    return {
        "random": some,
        "reversed": np.sort(some)[::-1].copy(),
        "the least": np.full(n, low, t),
        "the greatest": np.full(n, high, t),
        "extremes": np.where(rng.random(n) < 0.5, low, high).astype(t),
        "few": rng.integers(0, 4, n).astype(t),
        "of few digits": rng.integers(0, 3000, n).astype(t),
        "one far": np.concatenate([np.zeros(n - 1, t), np.array([high], t)]),
        "rising and falling": np.concatenate([np.arange(n // 2), np.arange(n - n // 2)[::-1]]).astype(t)
        * 99999,
    }


@pytest.mark.parametrize("t", ["int64", "uint64", "float64", "int32", "float32"])
@pytest.mark.parametrize("n", [16_390, 70_001])
def test_parted_rows(t: str, n: int) -> None:
    x = te.placeholder((1, n), t, name="x")
    for descending in (False, True):
        f = tl.compile([x, ops.sort(x, descending=descending)])
        for what, a in rows(t, n).items():
            (want, _) = sorting.sorted_rows(a[None], descending)
            got = f(a[None])
            np.testing.assert_array_equal(got, want, err_msg=what)
            if t.startswith("float"):
                np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("t", ["int64", "float32"])
def test_parts_of_rows_that_the_interpreter_sorts(t: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "LEAST_PARTED", 256)
    monkeypatch.setattr(partition, "SHORT", 1 << 10)
    monkeypatch.setattr(partition, "NEAR", 2 << 10)
    n = 700
    for count in (1, 2):
        x = te.placeholder((count, n), t, name="x")
        y = ops.sort(x)
        with vectors_of(512):
            func = tl.lower(te.create_schedule([y.op]), [x, y])
        assert "packed(key" in str(func)
        for what, a in rows(t, n).items():
            given = np.stack([np.roll(a, 5 * k) for k in range(count)])
            out = np.zeros_like(given)
            interpret(func, given, out)
            np.testing.assert_array_equal(out, np.sort(given, kind="stable"), err_msg=what)


def test_keys_that_are_never_parted_evenly_are_sorted_by_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "MOST_ROUNDS", -9)
    monkeypatch.setattr(partition, "NEAR", 32 << 10)
    for t in ("int64", "float32"):
        x = te.placeholder((1, 40_000), t, name="x")
        a = rows(t, 40_000)["random"][None]
        np.testing.assert_array_equal(tl.compile([x, ops.sort(x)])(a), np.sort(a))


def test_parting_packs_a_vector_twice() -> None:
    x = te.placeholder((1, 1 << 20), "int64", name="x")
    text = tl.compile([x, ops.sort(x)], target="llvm -mcpu=znver4").get_source("asm")
    assert text.count("\tvpcompressq") == 2
    assert "{%k" not in "".join(line for line in text.splitlines() if "vmovdqu64" in line and "(" in line)
