"""Neighbouring stores that become one: interleaved columns, and products of 16-bit neighbours summed in
pairs."""

from __future__ import annotations

import numpy as np
import pytest

from .helper import Func, If, Store, buffer, compiled, load, loop, make, ramp, run, seq
from .test_assembly import AVX2, AVX512, NEON, inner_loop

K, N = 40, 32


def interleaved(dtype: str, lanes: int, valid: int | None = None) -> Func:
    """D[j, 0] = X[0, j], D[j, 1] = X[1, j], of the columns below ``valid``."""
    x, d = buffer("X", dtype, 2, N), buffer("D", dtype, N, 2)

    def body(j: object) -> object:
        at = ramp(make.mul(j, lanes), lanes)
        mask = None if valid is None else make.lt(at, make.broadcast(make.const(valid, "int32"), lanes))
        return seq(
            *[
                Store(
                    d, load(x, (make.const(side, "int32"), at), mask), (at, make.const(side, "int32")), mask
                )
                for side in (0, 1)
            ]
        )

    return Func("k", (x, d), loop(N // lanes, body), (), (d,))


def products(lanes: int, swap: bool = False, dtype: str = "int16", apart: int = 1) -> Func:
    """S[j] = sum of A[k] * B[k // 2, j, k % 2], two k in each iteration; ``apart`` is what separates the
    two."""
    a, b, s = buffer("A", dtype, K), buffer("B", dtype, K // 2, N, 2), buffer("S", "int32", N)

    def body(j: object, k: object) -> object:
        at = ramp(make.mul(j, lanes), lanes)
        iterations = []
        for side in (0, apart):
            x = make.broadcast(make.cast("int32", load(a, (make.add(make.mul(k, 2), side),))), lanes)
            y = make.cast("int32", load(b, (k, at, make.const(side, "int32"))))
            iterations.append(Store(s, load(s, (at,)) + (y * x if swap and side else x * y), (at,)))
        return seq(*iterations)

    return Func("k", (a, b, s), loop(N // lanes, lambda j: loop(K // 2, lambda k: body(j, k))), (), (s,))


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "float64"])
@pytest.mark.parametrize("valid", [None, 0, 5, 19, 32])
def test_two_columns_are_stored_side_by_side(dtype: str, valid: int | None) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-100, 100, (2, N)).astype(dtype)
    d = np.full((N, 2), 7, dtype)
    run(interleaved(dtype, 16, valid), x, d)
    n = N if valid is None else valid
    assert np.array_equal(d[:n], x[:, :n].T) and np.all(d[n:] == 7)


@pytest.mark.parametrize("masked", [False, True])
def test_four_columns_are_stored_side_by_side(masked: bool) -> None:
    x, d = buffer("X", "uint8", 4, N), buffer("D", "uint8", N, 4)

    def body(j: object) -> object:
        at = ramp(make.mul(j, 16), 16)
        mask = make.lt(at, make.broadcast(make.const(19, "int32"), 16)) if masked else None
        sides = [make.const(side, "int32") for side in range(4)]
        return seq(*[Store(d, load(x, (side, at), mask), (at, side), mask) for side in sides])

    func = Func("k", (x, d), loop(N // 16, body), (), (d,))
    given = np.random.default_rng(3).integers(0, 256, (4, N)).astype("uint8")
    made = np.full((N, 4), 7, "uint8")
    run(func, given, made)
    n = 19 if masked else N
    assert np.array_equal(made[:n], given[:, :n].T) and np.all(made[n:] == 7)
    if not masked:
        asm = compiled(func, AVX512).asm
        assert not [line for line in asm.splitlines() if "vpextrb" in line]


@pytest.mark.parametrize("target", [AVX2, NEON])
def test_no_lane_of_two_columns_is_stored_alone(target: str) -> None:
    asm = compiled(interleaved("int16", 16), target).asm
    assert not [line for line in asm.splitlines() if "vpextrw" in line or "umov" in line]


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
def test_sums_of_products_are_exact_to_the_last_bit_and_wrap(lanes: int, swap: bool) -> None:
    rng = np.random.default_rng(lanes)
    a, b = (
        rng.integers(-32768, 32768, K).astype("int16"),
        rng.integers(-32768, 32768, (K // 2, N, 2)).astype("int16"),
    )
    for low in (False, True):
        if low:  # the one pair whose sum does not fit 32 bits
            a[...], b[...] = -32768, -32768
        s = np.arange(N, dtype="int32")
        run(products(lanes, swap), a, b, s)
        wanted = np.arange(N, dtype="int32") + np.einsum(
            "k,kj->j", a.astype("int32"), b.transpose(0, 2, 1).reshape(K, N).astype("int32")
        )
        assert np.array_equal(s, wanted)


def fours(lanes: int, kinds: tuple[str, str], swap: bool = False) -> Func:
    """S[j] = sum of A[k] * B[k // 4, j, k % 4], four k in each iteration."""
    a, b, s = buffer("A", kinds[0], K), buffer("B", kinds[1], K // 4, N, 4), buffer("S", "int32", N)

    def body(j: object, k: object) -> object:
        at = ramp(make.mul(j, lanes), lanes)
        iterations = []
        for side in range(4):
            x = make.broadcast(make.cast("int32", load(a, (make.add(make.mul(k, 4), side),))), lanes)
            y = make.cast("int32", load(b, (k, at, make.const(side, "int32"))))
            iterations.append(Store(s, load(s, (at,)) + (y * x if swap and side % 2 else x * y), (at,)))
        return seq(*iterations)

    return Func("k", (a, b, s), loop(N // lanes, lambda j: loop(K // 4, lambda k: body(j, k))), (), (s,))


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("kinds", [("uint8", "int8"), ("int8", "uint8"), ("int8", "int8")])
@pytest.mark.parametrize("lanes", [1, 4, 8, 16, 32])
def test_sums_of_four_products_are_exact_to_the_last_bit_and_wrap(
    lanes: int, kinds: tuple[str, str], swap: bool
) -> None:
    rng = np.random.default_rng(lanes)
    limits = [np.iinfo(kind) for kind in kinds]
    a = rng.integers(limits[0].min, limits[0].max + 1, K).astype(kinds[0])
    b = rng.integers(limits[1].min, limits[1].max + 1, (K // 4, N, 4)).astype(kinds[1])
    for low in (False, True):
        if low:  # where instructions that saturate 16 bits in between go wrong
            a[...], b[...] = limits[0].max, limits[1].min
        s = np.full(N, np.iinfo("int32").min + 5, "int32")
        wanted = s + np.einsum(
            "k,kj->j", a.astype("int32"), b.transpose(0, 2, 1).reshape(K, N).astype("int32")
        )
        run(fours(lanes, kinds, swap), a, b, s)
        assert np.array_equal(s, wanted)


def windows(lanes: int, stride: int, valid: int | None = None) -> Func:
    """S[j] = sum of A[stride * j + k] * B[k], k < 4, in one tile of so many lanes, of which some are valid."""
    a, b, s = buffer("A", "uint8", stride * lanes + 4), buffer("B", "int8", 4), buffer("S", "int32", lanes)
    zero = make.const(0, "int32")
    at = ramp(zero, lanes)
    mask = None if valid is None else make.lt(at, make.broadcast(make.const(valid, "int32"), lanes))
    stores = []
    for k in range(4):
        place = make.ramp(make.const(k, "int32"), stride, lanes)
        x = make.cast("int32", load(a, (place,), mask))
        w = make.broadcast(make.cast("int32", load(b, (make.const(k, "int32"),))), lanes)
        stores.append(Store(s, load(s, (at,)) + x * w, (at,)))
    return Func("k", (a, b, s), seq(*stores), (), (s,))


@pytest.mark.parametrize("valid", [None, 0, 1, 7, 13])
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("lanes", [4, 8, 16, 32])
def test_four_neighbours_of_each_lane_may_be_those_of_others_too(
    lanes: int, stride: int, valid: int | None
) -> None:
    rng = np.random.default_rng(lanes + stride)
    a, b = rng.integers(0, 256, stride * lanes + 4).astype("uint8"), rng.integers(-128, 128, 4).astype("int8")
    s = np.arange(lanes, dtype="int32")
    taps = [a[k : k + stride * lanes : stride].astype("int32") * b[k] for k in range(4)]
    wanted = s + np.where(np.arange(lanes) < (lanes if valid is None else valid), sum(taps), 0)
    run(windows(lanes, stride, valid), a, b, s)
    assert np.array_equal(s, wanted)


def test_windows_of_neighbours_are_one_instruction() -> None:
    target = "llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu"
    for stride in (1, 2, 3, 4):
        for valid in (None, 13):
            asm = compiled(windows(16, stride, valid), target).asm
            assert asm.count("vpdpbusd") == 1 and "vpmulld" not in asm


def rest(lanes: int, kinds: tuple[str, str], most: int) -> Func:
    """S[j] = sum of A[k] * B[j, k] for k below a number in N, of which there is one at least; ``most`` of them
    are written out."""
    a, b, s = buffer("A", kinds[0], 4), buffer("B", kinds[1], lanes, 4), buffer("S", "int32", lanes)
    count = buffer("N", "int32", 1)
    at = ramp(make.const(0, "int32"), lanes)
    stores: list[object] = []
    for k in range(most):
        place = make.const(k, "int32")
        x = make.broadcast(make.cast("int32", load(a, (place,))), lanes)
        store = Store(s, load(s, (at,)) + x * make.cast("int32", load(b, (at, place))), (at,))
        there = make.lt(place, load(count, (make.const(0, "int32"),)))
        stores.append(If(there, store) if k else store)
    return Func("k", (a, b, count, s), seq(*stores), (), (s,))


@pytest.mark.parametrize("kinds", [("uint8", "int8"), ("int8", "uint8"), ("int8", "int8")])
@pytest.mark.parametrize("lanes", [8, 16, 64])
@pytest.mark.parametrize("most", [2, 3, 4])
def test_the_last_products_of_a_group_are_one_store(lanes: int, kinds: tuple[str, str], most: int) -> None:
    rng = np.random.default_rng(lanes + most)
    limits = [np.iinfo(kind) for kind in kinds]
    a = rng.integers(limits[0].min, limits[0].max + 1, 4).astype(kinds[0])
    b = rng.integers(limits[1].min, limits[1].max + 1, (lanes, 4)).astype(kinds[1])
    for count in range(1, 5):
        s, some = np.arange(lanes, dtype="int32"), min(count, most)
        wanted = s + b[:, :some].astype("int32") @ a[:some].astype("int32")
        run(rest(lanes, kinds, most), a, b, np.array([count], "int32"), s)
        assert np.array_equal(s, wanted)
    asm = compiled(rest(lanes, kinds, most), "llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu").asm
    assert ("vpdpbusd" in asm) == (kinds[0] != kinds[1])


def summed(lanes: int, kind: str, most: int, valid: int | None = None, count: bool = False) -> Func:
    """S[j] = sum of B[j, k] for all k below ``most``, of the columns that are valid; for k below a number in
    N, of which there is one at least, where it is given."""
    together = 2 if kind == "int16" else 4
    b, s, some = buffer("B", kind, lanes, together), buffer("S", "int32", lanes), buffer("N", "int32", 1)
    at = ramp(make.const(0, "int32"), lanes)
    mask = None if valid is None else make.lt(at, make.broadcast(make.const(valid, "int32"), lanes))
    stores: list[object] = []
    for k in range(most):
        place = make.const(k, "int32")
        store = Store(s, load(s, (at,)) + make.cast("int32", load(b, (at, place), mask)), (at,))
        there = make.lt(place, load(some, (make.const(0, "int32"),)))
        stores.append(If(there, store) if k and count else store)
    return Func("k", (b, some, s), seq(*stores), (), (s,))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("lanes", [1, 4, 16, 48, 64])
@pytest.mark.parametrize("valid", [None, 0, 3])
def test_sums_of_neighbours_are_products_with_ones(lanes: int, kind: str, valid: int | None) -> None:
    rng, limits, most = np.random.default_rng(lanes), np.iinfo(kind), 2 if kind == "int16" else 4
    b = rng.integers(limits.min, limits.max + 1, (lanes, most)).astype(kind)
    for value in (None, limits.min, limits.max):
        if value is not None:
            b[...] = value
        s = np.full(lanes, np.iinfo("int32").max - 5, "int32")
        wanted = s + np.where(np.arange(lanes) < (lanes if valid is None else valid), b.sum(1), 0).astype(
            "int32"
        )
        run(summed(lanes, kind, most, valid), b, np.zeros(1, "int32"), s)
        assert np.array_equal(s, wanted)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("most", [2, 3, 4])
def test_the_last_terms_of_a_group_are_one_store(kind: str, most: int) -> None:
    b = np.random.default_rng(most).integers(0, 128, (16, 4)).astype(kind)
    for count in range(1, 5):
        s = np.arange(16, dtype="int32")
        wanted = s + b[:, : min(count, most)].sum(1).astype("int32")
        run(summed(16, kind, most, count=True), b, np.array([count], "int32"), s)
        assert np.array_equal(s, wanted)
    target = "llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu"
    assert compiled(summed(16, kind, most, count=True), target).asm.count("vpdpbusd") == 1


@pytest.mark.parametrize(
    ("mcpu", "kind", "name", "count"),
    [
        ("cascadelake", "int8", "vpdpbusd", 1),
        ("cascadelake", "uint8", "vpdpbusd", 1),
        ("skylake-avx512", "int8", "vpdpbusd", 0),
        ("skylake-avx512", "int16", "pmaddwd", 1),
        ("haswell", "int16", "pmaddwd", 2),
    ],
)
def test_sums_of_neighbours_are_one_instruction(mcpu: str, kind: str, name: str, count: int) -> None:
    target = f"llvm -mcpu={mcpu} -mtriple=x86_64-linux-gnu"
    asm = compiled(summed(16, kind, 2 if kind == "int16" else 4), target).asm
    assert sum(name in x for x in asm.splitlines()) == count


def lines_of(lanes: int, kinds: tuple[str, str], valid: int | None = None, alone: bool = False) -> Func:
    """S[j] = sum of A[k] * B[k, j] for four k, of the columns that are valid; ``alone``: of B[k, j]."""
    a, b, s = buffer("A", kinds[0], 4), buffer("B", kinds[1], 4, lanes), buffer("S", "int32", lanes)
    at = ramp(make.const(0, "int32"), lanes)
    mask = None if valid is None else make.lt(at, make.broadcast(make.const(valid, "int32"), lanes))
    stores = []
    for k in (make.const(k, "int32") for k in range(4)):
        x = make.broadcast(make.cast("int32", load(a, (k,))), lanes)
        y = make.cast("int32", load(b, (k, at), mask))
        stores.append(Store(s, load(s, (at,)) + (y if alone else x * y), (at,)))
    return Func("k", (a, b, s), seq(*stores), (), (s,))


@pytest.mark.parametrize("kinds", [("uint8", "int8"), ("int8", "uint8"), ("int8", "int8")])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("valid", [None, 0, 29])
@pytest.mark.parametrize("lanes", [8, 16, 32, 64, 96])
def test_lines_are_mixed_before_they_are_multiplied(
    lanes: int, valid: int | None, alone: bool, kinds: tuple[str, str]
) -> None:
    rng, limits = np.random.default_rng(lanes), [np.iinfo(kind) for kind in kinds]
    a = rng.integers(limits[0].min, limits[0].max + 1, 4).astype(kinds[0])
    b = rng.integers(limits[1].min, limits[1].max + 1, (4, lanes)).astype(kinds[1])
    for low in (False, True):
        if low:  # where instructions that saturate 16 bits in between go wrong
            a[...], b[...] = limits[0].max, limits[1].min
        s = np.arange(lanes, dtype="int32")
        some = b.astype("int32") * (np.arange(lanes) < (lanes if valid is None else valid))
        wanted = s + (some.sum(0) if alone else a.astype("int32") @ some)
        run(lines_of(lanes, kinds, valid, alone), a, b, s)
        assert np.array_equal(s, wanted)
    asm = compiled(lines_of(lanes, kinds, valid, alone), "llvm -mcpu=znver4 -mtriple=x86_64-linux-gnu").asm
    whole = lanes in (32, 64) and (alone or kinds[0] != kinds[1])
    assert asm.count("vpdpbusd") == (lanes // 16 if whole else 0)


def test_four_columns_of_bytes_are_mixed_by_an_instruction_for_each_register() -> None:
    """They were by eight that put neighbours of two vectors side by side, and five more."""
    x, d = buffer("X", "int8", 4, 32), buffer("D", "int8", 32, 4)
    at, sides = ramp(make.const(0, "int32"), 32), [make.const(side, "int32") for side in range(4)]
    func = Func("k", (x, d), seq(*[Store(d, load(x, (s, at)), (at, s)) for s in sides]), (), (d,))
    given, made = (
        np.random.default_rng(3).integers(-128, 128, (4, 32)).astype("int8"),
        np.zeros((32, 4), "int8"),
    )
    run(func, given, made)
    assert np.array_equal(made, given.T)
    asm = compiled(func, "llvm -mcpu=znver4 -mtriple=x86_64-linux-gnu").asm
    assert len([x for x in asm.splitlines() if "vperm" in x and "2b" in x]) == 2 and "vpunpck" not in asm


@pytest.mark.parametrize(
    ("mcpu", "register", "count"), [("cascadelake", "zmm", 1), ("alderlake", "ymm", 2), ("haswell", "", 0)]
)
def test_four_products_are_one_instruction(mcpu: str, register: str, count: int) -> None:
    target = f"llvm -mcpu={mcpu} -mtriple=x86_64-linux-gnu"
    for kinds in (("uint8", "int8"), ("int8", "uint8")):
        asm = compiled(fours(16, kinds), target).asm
        found = [x for x in asm.splitlines() if "vpdpbusd" in x]
        assert len(found) == count and all(f"%{register}" in x for x in found)
    assert "vpdpbusd" not in compiled(fours(16, ("int8", "int8")), target).asm


@pytest.mark.parametrize(
    ("target", "register", "count"),
    [(AVX2, "ymm", 2), (AVX512, "zmm", 1), ("llvm -mcpu=x86-64 -mtriple=x86_64-linux-gnu", "xmm", 4)],
)
def test_a_pair_of_products_is_one_instruction(target: str, register: str, count: int) -> None:
    body = inner_loop(compiled(products(16), target).asm, "pmaddwd")
    assert sum("pmaddwd" in x and f"%{register}" in x for x in body) == count
    assert not [x for x in body if "pmulld" in x or "pmovsx" in x]


@pytest.mark.parametrize(
    "func", [products(16, dtype="int8"), products(16, apart=0)], ids=["int8", "the same element twice"]
)
def test_what_is_no_pair_is_left_alone(func: Func) -> None:
    assert "pmaddwd" not in compiled(func, AVX2).asm
    rng = np.random.default_rng(5)
    kind = str(func.params[0].dtype)
    a, b = rng.integers(-99, 100, K).astype(kind), rng.integers(-99, 100, (K // 2, N, 2)).astype(kind)
    s = np.zeros(N, "int32")
    run(func, a, b, s)
    even, odd = a[::2].astype("int32"), (a[::2] if kind == "int16" else a[1::2]).astype("int32")
    assert np.array_equal(
        s, even @ b[..., 0].astype("int32") + odd @ b[..., 0 if kind == "int16" else 1].astype("int32")
    )


@pytest.mark.parametrize("target", [NEON, "llvm -mtriple=riscv64-unknown-linux-gnu"])
def test_other_targets_multiply_and_add(target: str) -> None:
    assert compiled(products(16), target).object[:4] == b"\x7fELF"
