"""Products and convolutions of narrow numbers: summed in pairs and fours where the processor does, or made wide
once and not at every use."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tensorlang.recipes.choices import asking
from tests.codegen.test_assembly import AVX2, AVX512

RNG = np.random.default_rng(3)
PAIRS = {
    "uint8": ("int8", "int32"),
    "int8": ("int8", "int32"),
    "int16": ("int16", "int32"),
    "bfloat16": ("bfloat16", "float32"),
    "float16": ("float16", "float32"),
}


def product(m: te.ExprLike, n: te.ExprLike, k: te.ExprLike, kind: str) -> list[te.Tensor]:
    other, total = PAIRS[kind]
    a, b = te.placeholder((m, k), kind, name="a"), te.placeholder((n, k), other, name="b")
    r = te.reduce_axis((0, k), name="r")
    term = lambda i, j: te.cast(total, a[i, r]) * te.cast(total, b[j, r])
    return [a, b, te.compute((m, n), lambda i, j: te.sum(term(i, j), axis=r), name="o")]


def numbers(tensors: Sequence[te.Tensor], m: int, n: int, k: int) -> list[np.ndarray]:
    rng = np.random.default_rng(m * n + k)
    kinds = [ml_dtypes.bfloat16 if t.dtype == "bfloat16" else str(t.dtype) for t in tensors]
    shapes = [(m, k), (n, k)]
    return [
        rng.integers(0 if t == "uint8" else -4, 5, s).astype(t)
        for s, t in zip(shapes, kinds[:2], strict=True)
    ]


@pytest.mark.parametrize("target", [AVX2, AVX512])
@pytest.mark.parametrize(("rows", "copied"), [(2, False), (4, True), (12, True)])
def test_a_few_rows_are_worth_a_copy(target: str, rows: int, copied: bool) -> None:
    for kind in ("uint8", "int8", "int16"):
        for columns in (100, 400):
            tree = default_schedule(product(rows, columns, 256, kind)[-1], target).tree()
            assert ("b.global" in tree) is copied


@pytest.mark.each_value
@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (4, 100, 300),
        (5, 33, 17),
        (8, 64, 64),
        (15, 7, 129),
        (40, 96, 30),
        (4, 1, 50),
        (3, 20, 40),
        (9, 50, 8),
    ],
)
def test_they_are_exact(kind: str, m: int, n: int, k: int) -> None:
    tensors = product(m, n, k, kind)
    a, b = numbers(tensors, m, n, k)
    assert np.array_equal(tl.compile(tensors)(a, b), a.astype("int64") @ b.astype("int64").T)


@pytest.mark.parametrize("kind", PAIRS)
def test_of_open_sizes_too(kind: str) -> None:
    m, n, k = te.dim("m"), te.dim("n"), te.dim("k")
    tensors = product(m, n, k, kind)
    f, g = tl.compile(tensors), tl.compile(product(m, 40, 64, kind))
    for rows in (0, 1, 3, 4, 8, 21):
        for wide, deep in ((40, 64), (1, 1), (70, 33)):
            a, b = numbers(tensors, rows, wide, deep)
            right = a.astype("int64") @ b.astype("int64").T
            assert np.array_equal(f(a, b), right)
            if (wide, deep) == (40, 64):
                assert np.array_equal(g(a, b), right)


@pytest.mark.parametrize("kind", ["uint8", "int8", "int16"])
def test_columns_are_transposed_in_registers(kind: str) -> None:
    """They were picked out of memory element by element, which took twice as long as the products."""
    text = tl.compile(product(16, 128, 512, kind), target=AVX512).get_source("asm")
    assert text.count("vpinsr") < 8 and "gather" not in text


def convolution(
    kind: str, last: bool, n: int, high: int, channels: int, outputs: int, taps: int, step: int = 1
):
    other, total = PAIRS[kind]
    c, p, q = (te.reduce_axis((0, k), name=m) for m, k in (("c", channels), ("p", taps), ("q", taps)))
    size = (high - taps) // step + 1
    put = lambda b, ch, i, j: (b, i, j, ch) if last else (b, ch, i, j)
    x = te.placeholder(put(n, channels, high, high), kind, name="x")
    w = te.placeholder(
        (taps, taps, channels, outputs) if last else (outputs, channels, taps, taps), other, name="w"
    )

    def at(*place):
        b, i, j, o = place if last else (place[0], place[2], place[3], place[1])
        one = te.cast(total, x[put(b, c, i * step + p, j * step + q)])
        return te.sum(one * te.cast(total, w[(p, q, c, o) if last else (o, c, p, q)]), axis=[c, p, q])

    return [x, w, te.compute(put(n, outputs, size, size), at, name="o")]


@pytest.mark.each_value
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize(
    ("n", "high", "channels", "outputs", "taps", "step"),
    [(1, 16, 32, 32, 3, 1), (2, 13, 20, 48, 1, 1), (1, 17, 7, 33, 3, 2), (1, 30, 4, 16, 5, 1)],
)
def test_convolutions_are_exact(kind, last, n, high, channels, outputs, taps, step):
    tensors = convolution(kind, last, n, high, channels, outputs, taps, step)
    rng = np.random.default_rng(high)
    low = 0 if kind == "uint8" else -4
    types = [ml_dtypes.bfloat16 if k == "bfloat16" else k for k in (kind, PAIRS[kind][0])]
    a, b = (
        rng.integers(at, 5, [int(str(d)) for d in t.shape]).astype(k)
        for t, k, at in zip(tensors, types, (low, -4), strict=False)
    )
    x, w = a.astype("int64"), b.astype("int64")
    if last:
        x, w = x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)
    windows = np.lib.stride_tricks.sliding_window_view(x, (taps, taps), (2, 3))[:, :, ::step, ::step]
    right = np.einsum("ncijpq,ocpq->noij", windows, w)
    for known in ((), (tensors[1],)):
        f = tl.compile(tensors, constants=dict.fromkeys(known, b))
        got = f(a) if known else f(a, b)
        assert np.array_equal(got, right.transpose(0, 2, 3, 1) if last else right)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(
    ("kind", "word"), [("uint8", "vpdpbusd"), ("int16", "vpdpwssd"), ("bfloat16", "vdpbf16ps")]
)
def test_convolutions_multiply_in_groups(kind, word, last):
    """Channels last and bfloat16 took as long as float32 does, and int16 three times as long as now."""
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4"
    text = tl.compile(convolution(kind, last, 1, 28, 64, 64, 3), target=target).get_source("asm")
    assert text.count(word) >= 12


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_transposed_convolutions_of_halves_have_phases(kind):
    """They were scalar loops: 58 and 115 times as long as float32."""
    x, w = te.placeholder((1, 12, 9, 9), kind, name="x"), te.placeholder((12, 8, 4, 4), kind, name="w")
    out = ops.conv_transpose2d(x, w, stride=2, padding=1)
    f = tl.compile([x, w, out])
    assert "scalar" not in str(f.explain())
    rng = np.random.default_rng(9)
    half = ml_dtypes.bfloat16 if kind == "bfloat16" else np.float16
    a, b = (rng.integers(-2, 3, [int(str(d)) for d in t.shape]).astype(half) for t in (x, w))
    y, v = te.placeholder((1, 12, 9, 9), name="y"), te.placeholder((12, 8, 4, 4), name="v")
    wide = tl.compile([y, v, ops.conv_transpose2d(y, v, stride=2, padding=1)])
    assert np.array_equal(f(a, b), wide(a.astype("float32"), b.astype("float32")).astype(half))


@pytest.mark.parametrize("target", [AVX2, AVX512])
@pytest.mark.parametrize("last", [True, False])
def test_images_of_halves_are_made_wide_once(target, last):
    """Each element of a tile was converted at every use: up to four times as long with few registers."""
    tree = default_schedule(convolution("float16", last, 1, 28, 64, 64, 3)[-1], target).tree()
    assert "x.global" in tree


@pytest.mark.parametrize("open_at", ["", "p", "m", "c"])
@pytest.mark.parametrize("transposed", [True, False], ids=["both", "right"])
def test_a_few_rows_are_worth_a_copy_where_sums_along_memory_are_dear(transposed: bool, open_at: str) -> None:
    """A copy of the left operand, and each sum added up by itself: 100 times 8 × 16 × 16, both transposed, took
    13.0 µs, and take 3.2; with an open depth 50 and 3.4, and of 1000 × 5 × 4 × 3, the right one transposed,
    25 and 10."""
    known = {"p": 16, "m": 8, "c": 16}
    p, m, c = (te.dim(name) if name == open_at else known[name] for name in "pmc")
    x = te.placeholder((3, p, m) if transposed else (3, m, p), name="x")
    y = te.placeholder((3, c, p), name="y")
    out = ops.matmul(x, y, transpose_a=transposed, transpose_b=True)
    with asking({p: 16} if open_at == "p" else {}):
        s = default_schedule(out, AVX512)
    along = not transposed and open_at in ("", "c")  # both operands lie along the sums, which fill vectors
    assert ("y.global" in str(s.tree())) or along, s.tree()
    text, f = tl.lower(s, [x, y, out]), tl.compile([x, y, out])
    for n in (known.get(open_at, 16), 1, 3, 17, 40) if open_at else (16,):
        size = known | ({open_at: n} if open_at else {})
        a = RNG.integers(-4, 5, (3, size["p"], size["m"])).astype("float32")
        b = RNG.integers(-4, 5, (3, size["c"], size["p"])).astype("float32")
        a = a if transposed else np.ascontiguousarray(a.swapaxes(1, 2))
        want = (a.swapaxes(1, 2) if transposed else a) @ b.swapaxes(1, 2)
        assert np.array_equal(f(a, b), want), size
        if n == 3:
            got = np.zeros_like(want)
            interpret(text, a, b, got)
            assert np.array_equal(got, want)
