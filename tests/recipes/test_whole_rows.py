"""Rows of a few elements, several in a vector: right on odd shapes, without gathers or elements one by one."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tensorlang.recipes.choices import asking
from tests.codegen.test_assembly import AVX2, AVX512
from tests.ops.arrays import exact
from tests.recipes.long import LONG

RNG = np.random.default_rng(5)
TARGETS = pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])


def check(tensors: list[te.Tensor], arrays: list[np.ndarray], want: np.ndarray, target: str) -> str:
    """Compare with the interpreter and with compiled code; the tree."""
    s = default_schedule(tensors[-1], target)
    got = np.zeros(want.shape, want.dtype)
    interpret(tl.lower(s, tensors), *arrays, got)
    assert np.array_equal(got, want)
    assert np.array_equal(tl.compile(tensors)(*arrays), want)
    return str(s.tree())


def data(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.integers(0, 9, shape).astype(dtype)


@pytest.mark.each_value
@TARGETS
@pytest.mark.parametrize("dtype", ["float32", "uint8", pytest.param("float64", marks=LONG)])
@pytest.mark.parametrize(
    ("images", "rows", "columns"),
    [(1, 100, 3), (2, 37, 3), (3, 20, 5), (1, 33, 2), (2, 40, 7), (1, 9, 6), (5, 1, 3)],
)
def test_elements(images, rows, columns, dtype, target):
    """One for a row, one for a column, turned, and of another type."""
    shape = (images, rows, columns)
    x, r, c = (
        te.placeholder(shape, dtype, "x"),
        te.placeholder((rows,), dtype, "r"),
        te.placeholder((columns,), dtype),
    )
    forms = {
        "each": lambda n, i, j: x[n, i, j] + r[i] * c[j],
        "turned": lambda n, i, j: x[n, i, columns - 1 - j] + c[j],
        "next": lambda n, i, j: x[n, i, (j + 1) % columns] + x[n, i, j],
    }
    a, b, d = data(*shape, dtype=dtype), data(rows, dtype=dtype), data(columns, dtype=dtype)
    wants = {"each": a + b[:, None] * d, "turned": a[..., ::-1] + d, "next": np.roll(a, -1, 2) + a}
    for name, form in forms.items():
        out = te.compute(shape, form, name="out")
        inputs = {"each": [(x, a), (r, b), (c, d)], "turned": [(x, a), (c, d)], "next": [(x, a)]}[name]
        tensors, arrays = [t for t, _ in inputs], [v for _, v in inputs]
        check([*tensors, out], arrays, wants[name].astype(dtype), target)


def test_an_open_number_of_rows():
    n = te.dim("n", 0, 10_000)
    x, c = te.placeholder((n, 3), "uint8", "x"), te.placeholder((3,), name="c")
    out = te.compute((n, 3), lambda i, j: te.cast("float32", x[i, j]) * c[j], name="out")
    f = tl.compile([x, c, out])
    for rows in (0, 1, 5, 15, 16, 17, 64, 1000, 4097):
        a = data(rows, 3, dtype="uint8")
        assert np.array_equal(f(a, np.arange(3, dtype="f")), a * np.arange(3, dtype="f"))


@pytest.mark.parametrize("rows", [66666, 65536])
def test_threads_share_rows(rows):
    x, c = te.placeholder((rows, 3), name="x"), te.placeholder((3,), name="c")
    out = te.compute((rows, 3), lambda i, j: x[i, j] + c[j], name="out")
    a = data(rows, 3)
    assert "parallel" in str(default_schedule(out, f"{AVX512} -num-cores=2").tree())
    assert np.array_equal(tl.compile([x, c, out])(a, a[0]), a + a[0])


@TARGETS
def test_colours_of_pixels_are_one_stretch(target):
    """Vectors of three bytes, under a mask, took eight times as long."""
    x, c = te.placeholder((60, 80, 3), "uint8", "x"), te.placeholder((3,), name="c")
    out = te.compute((60, 80, 3), lambda i, j, k: te.cast("float32", x[i, j, k]) - c[k], name="out")
    f = tl.build(default_schedule(out, target), [x, c, out], target=target)
    asm = f.get_source("asm")
    assert "gather" not in asm and "vpinsrb" not in asm and "maskmov" not in asm
    assert "vpmovzxbd" in asm


def windows(
    shape: tuple[int, int, int], taps: tuple[int, int], stride: int, dtype: str, kind: str
) -> list[te.Tensor]:
    """Windows of the pixels of an image with its colours last."""
    rows, columns, colours = shape
    high, wide = ((n - 1) * stride + k for n, k in zip((rows, columns), taps, strict=True))
    x, g = te.placeholder((high, wide, colours), dtype, "x"), te.placeholder(taps, dtype, "g")
    a, b = te.reduce_axis((0, taps[0]), name="a"), te.reduce_axis((0, taps[1]), name="b")
    at = lambda i, j, c: x[stride * i + a, stride * j + b, c]
    if kind == "max":
        return [x, te.compute(shape, lambda i, j, c: te.max(at(i, j, c), axis=[a, b]), name="o")]
    return [x, g, te.compute(shape, lambda i, j, c: te.sum(at(i, j, c) * g[a, b], axis=[a, b]), name="o")]


@pytest.mark.each_value
@TARGETS
@pytest.mark.parametrize(
    ("shape", "taps", "stride", "dtype", "kind"),
    [
        ((9, 37, 3), (3, 3), 1, "float32", "sum"),
        ((6, 40, 3), (5, 5), 1, "int32", "sum"),
        ((5, 33, 2), (3, 4), 2, "float32", "sum"),
        ((7, 70, 3), (3, 3), 1, "uint8", "max"),
        ((4, 18, 5), (7, 6), 1, "float32", "sum"),
        ((1, 100, 3), (1, 3), 1, "float64", "sum"),
        ((3, 7, 3), (3, 3), 1, "float32", "sum"),
        ((5, 20, 10), (3, 3), 1, "float32", "max"),
    ],
    ids=str,
)
def test_windows_of_pixels(shape, taps, stride, dtype, kind, target):
    tensors = windows(shape, taps, stride, dtype, kind)
    arrays = [data(*(int(n) for n in t.shape), dtype=dtype) for t in tensors[:-1]]
    seen = np.lib.stride_tricks.sliding_window_view(arrays[0], taps, (0, 1))[::stride, ::stride]
    want = seen.max((3, 4)) if kind == "max" else np.einsum("ijcab,ab->ijc", seen, arrays[1])
    tree = check(tensors, arrays, want.astype(dtype), target)
    many = shape[1] >= 32
    assert not many or "fused" in next(line for line in tree.splitlines() if "vectorized" in line)


def test_what_is_done_to_windows_of_pixels():
    """Means of bytes: the sums of a tile in the type that they are declared in."""
    x = te.placeholder((22, 47, 3), "uint8", "x")
    a, b = te.reduce_axis((0, 3), name="a"), te.reduce_axis((0, 3), name="b")
    total = te.compute(
        (20, 45, 3), lambda i, j, c: te.sum(te.cast("uint16", x[i + a, j + b, c]), axis=[a, b]), name="total"
    )
    mean = te.compute((20, 45, 3), lambda i, j, c: te.cast("uint8", total[i, j, c] // 9), name="mean")
    v = RNG.integers(0, 256, (22, 47, 3)).astype("uint8")
    want = np.lib.stride_tricks.sliding_window_view(v.astype("uint16"), (3, 3), (0, 1)).sum((3, 4)) // 9
    for target in (AVX512, AVX2):
        check([x, mean], [v], want.astype("uint8"), target)
    exact(tl.compile([x, mean])(v), want.astype("uint8"), "uint8")


@TARGETS
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("front", "rows", "deep", "wide"),
    [((), 40, 3, 3), ((2,), 33, 2, 5), ((), 100, 4, 4), ((3,), 16, 3, 2), ((), 5, 3, 3)],
)
def test_rows_by_a_small_matrix(front, rows, deep, wide, transposed, target):
    """As colours and points are turned: tiles of rows took 1.4 to 3.5 times as long."""
    x = te.placeholder((*front, rows, deep), name="x")
    m = te.placeholder((wide, deep) if transposed else (deep, wide), name="m")
    k = te.reduce_axis((0, deep), name="k")
    at = lambda c: m[c, k] if transposed else m[k, c]
    turned = te.compute(
        (*front, rows, wide), lambda *i: te.sum(x[(*i[:-1], k)] * at(i[-1]), axis=k), name="turned"
    )
    moved = te.compute((*front, rows, wide), lambda *i: turned[i] + 1.0, name="moved")
    a, b = data(*front, rows, deep), data(*(int(n) for n in m.shape))
    want = (a @ (b.T if transposed else b) + 1).astype("float32")
    tree = check([x, m, moved], [a, b], want, target)
    assert ("fused" in next(line for line in tree.splitlines() if "vectorized" in line)) == (rows >= 16)


def test_one_number_beside_short_rows_has_no_place():
    """A tensor without dimensions, whose last index was asked for."""
    a, b = te.placeholder((), name="a"), te.placeholder((30, 4), name="b")
    x = np.arange(120, dtype="float32").reshape(30, 4)
    out = ops.einsum(",ij->ji", [a, b])
    assert np.array_equal(tl.compile([a, b, out])(np.array(3, "float32"), x), 3 * x.T)


@TARGETS
def test_windows_with_a_stride_along_open_rows_are_little_code(target):
    """Of bytes they were 119,000 lines of assembly, and took 7.7 s to compile."""
    n = te.dim("n", 0, 4096)
    x, a, b = te.placeholder((41, 2 * n + 3, 2), "uint8", "x"), te.reduce_axis((0, 2)), te.reduce_axis((0, 3))
    out = te.compute((40, n, 2), lambda i, j, c: te.max(x[i + a, 2 * j + b, c], axis=[a, b]), name="out")
    f = tl.compile([x, out], target)
    assert len(f.get_source("asm").splitlines()) < 8000
    for rows in (0, 1, 31, 32, 33, 70):
        v = RNG.integers(0, 256, (41, 2 * rows + 3, 2)).astype("uint8")
        assert np.array_equal(f(v), te.reference.evaluate([out], {x: v})[0])


def quaternion(q: te.Tensor, n: te.Expr, e: te.Expr) -> te.Expr:
    """Element ``e`` of the rotation that a quaternion is."""
    w, x, y, z = (q[n, k] for k in range(4))
    of = [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)]
    of += [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)]
    of += [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z]
    out = of[-1]
    for k in range(7, -1, -1):
        out = te.select(e < k + 1, of[k], out)
    return out


@pytest.mark.each_value
@TARGETS
@pytest.mark.parametrize("dtype", ["float32", "uint8", pytest.param("int32", marks=LONG)])
@pytest.mark.parametrize("shape", [(40, 3, 3), (37, 3, 3), (33, 2, 3), (50, 3, 4), (2, 21, 2, 2)], ids=str)
def test_small_matrices(shape, dtype, target):
    """Transposed, of two vectors, and less what each has one of."""
    *front, high, wide = shape
    x, y = te.placeholder((*front, wide, high), dtype, "x"), te.placeholder((*front, high), dtype, "y")
    z = te.placeholder((*front, wide), dtype, "z")
    a, b, c = data(*front, wide, high, dtype=dtype), data(*front, high, dtype=dtype), data(*front, wide)
    c = c.astype(dtype)
    outer = te.compute(shape, lambda *i: y[(*i[:-2], i[-2])] * z[(*i[:-2], i[-1])], name="outer")
    check([y, z, outer], [b, c], (b[..., :, None] * c[..., None, :]).astype(dtype), target)
    turned = te.compute(shape, lambda *i: x[(*i[:-2], i[-1], i[-2])] + z[(*i[:-2], i[-1])], name="turned")
    want = np.swapaxes(a, -1, -2) + c[..., None, :]
    check([x, z, turned], [a, c], want.astype(dtype), target)


@TARGETS
def test_rotations(target):
    q = te.placeholder((45, 4), name="q")
    out = te.compute((45, 3, 3), lambda n, i, j: quaternion(q, n, 3 * i + j), name="out")
    a = RNG.integers(-4, 5, (45, 4)).astype("float32")
    w, x, y, z = a.T
    rows = [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)]
    rows += [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)]
    rows += [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z]
    tree = check([q, out], [a], np.stack(rows, 1).reshape(45, 3, 3), target)
    assert "fused" in next(line for line in tree.splitlines() if "vectorized" in line)


@TARGETS
def test_small_matrices_are_written_as_one_stretch(target):
    """Quotients and rests of three axes are neighbours, which were written one by one."""
    x = te.placeholder((160, 3), name="x")
    out = te.compute((160, 3, 3), lambda n, i, j: x[n, i] * x[n, j], name="out")
    asm = tl.build(default_schedule(out, target), [x, out], target=target).get_source("asm")
    assert "vextractps" not in asm and "vpextrd" not in asm


def test_an_open_number_of_small_matrices():
    n = te.dim("n", 0, 10_000)
    x = te.placeholder((n, 3, 3), name="x")
    f = tl.compile([x, te.compute((n, 3, 3), lambda k, i, j: x[k, j, i] + x[k, i, j], name="out")])
    for many in (0, 1, 15, 16, 17, 1001):
        a = data(many, 3, 3)
        assert np.array_equal(f(a), a + a.transpose(0, 2, 1))


@TARGETS
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("int32", marks=LONG), pytest.param("float64", marks=LONG)]
)
@pytest.mark.parametrize(
    ("front", "rows", "wide", "deep"),
    [((), 40, 3, 3), ((), 37, 4, 4), ((2,), 33, 2, 2), ((), 50, 6, 4), ((), 5, 3, 3), ((), 100, 2, 3)],
)
def test_rows_by_matrices_of_their_own(front, rows, wide, deep, dtype, transposed, target):
    """As points are turned, each by another rotation: one row at a time took 3 to 10 times as long."""
    m = te.placeholder((*front, rows, *((deep, wide) if transposed else (wide, deep))), dtype, "m")
    x, k = te.placeholder((*front, rows, deep), dtype, "x"), te.reduce_axis((0, deep), name="k")
    at = lambda *i: m[(*i[:-1], k, i[-1])] if transposed else m[(*i, k)]
    out = te.compute((*front, rows, wide), lambda *i: te.sum(at(*i) * x[(*i[:-1], k)], axis=k), name="out")
    a, b = data(*(int(n) for n in m.shape), dtype=dtype), data(*front, rows, deep, dtype=dtype)
    want = np.einsum("...ki,...k->...i" if transposed else "...ik,...k->...i", a, b)
    check([m, x, out], [a, b], want.astype(dtype), target)


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_few_rows_that_lie_far_apart_are_taken_one_by_one(dtype):
    """A vector of them is mostly empty, and each of its lanes a load: one of 1000 × 5 with its first axes
    exchanged took 15.5 µs, and takes 1.1."""
    n = te.dim("n")
    x = te.placeholder((n, 20, 5), dtype, "x")
    out = ops.transpose(x, (1, 0, 2))
    with asking({n: 15}):
        s = default_schedule(out, AVX512)
    assert re.search(r"0\.\.5 +vectorized", str(s.tree())), s.tree()
    text = tl.lower(s, [x, out])
    f = tl.compile([x, out])
    for rows in (0, 1, 7, 15, 16, 63, 64, 70, 150):
        a = RNG.integers(0, 99, (rows, 20, 5)).astype(dtype)
        want = np.ascontiguousarray(a.transpose(1, 0, 2))
        assert np.array_equal(f(a), want), rows
        if rows == 7:
            got = np.zeros_like(want)
            interpret(text, a, got)
            assert np.array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_a_small_matrix_of_an_open_number_of_rows_is_one_vector(dtype):
    """100 of 7 × 3 bytes, with a number for each row, took 3.4 µs, and take 0.09."""
    m = te.dim("m")
    x, b = te.placeholder((6, m, 3), dtype, "x"), te.placeholder((m,), dtype, "b")
    out = te.compute((6, m, 3), lambda i, j, k: x[i, j, k] + b[j], name="out")
    with asking({m * 3: 32}):
        s = default_schedule(out, AVX512)
    assert "j.k.fused.inner" in str(s.tree()), s.tree()
    text, f = tl.lower(s, [x, b, out]), tl.compile([x, b, out])
    for rows in (0, 1, 5, 10, 11, 21, 22, 64, 70):
        a, c = RNG.integers(0, 99, (6, rows, 3)).astype(dtype), RNG.integers(0, 99, rows).astype(dtype)
        want = a + c[:, None]
        assert np.array_equal(f(a, c), want), rows
        if rows in (1, 10):
            got = np.zeros_like(want)
            interpret(text, a, c, got)
            assert np.array_equal(got, want)


@pytest.mark.parametrize("op", ["flip", "argmin"])
def test_rows_that_overlap_are_no_threads_where_planes_are_few(op):
    # three threads, two planes: further loops were fused with that of the planes, those of an open number of
    # rows among them, whose last ones overlap
    rows = te.dim("rows")
    shape, axis = ((2, rows, 7), 1) if op == "flip" else ((40, 2, rows, 7), 0)
    x = te.placeholder(shape, "float64", name="x")
    y = getattr(ops, op)(x, axis=axis)
    s = default_schedule(y, "llvm -mcpu=znver5 -num-cores=3")
    f = tl.build(s, [x, y])
    for n in (1, 8, 30, 333):
        a = np.random.default_rng(n).integers(-9, 9, [n if k is rows else k for k in shape]).astype("float64")
        np.testing.assert_array_equal(f(a), getattr(np, op)(a, axis=axis))
