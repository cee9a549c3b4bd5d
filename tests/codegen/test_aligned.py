"""Vectors that begin on boundaries: right wherever arrays begin, in every form that such a loop has, and only
where elements are written in order and little is computed."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.recipes.long import LONG

from .test_assembly import AVX2

MOVED = "ptrtoint"  # how far it is to a boundary is looked up in the address
SKYLAKE = tl.Target("llvm -mcpu=skylake-avx512 -num-cores=1")
N, M = te.size_var("n"), te.size_var("m")
# declared, given: one row, rows whose last vector is masked or overlaps, and a tensor as one row
FORMS = [
    ((70001,), (70001,)),
    ((N,), (70001,)),
    ((N,), (1,)),
    ((N,), (1040,)),
    ((5, 4099), (5, 4099)),
    ((3, 4096), (3, 4096)),
    ((N, 3001), (3, 3001)),
    ((N, M), (3, 3001)),
]


def placed(shape: tuple[int, ...], dtype: str, offset: int) -> np.ndarray:
    """An array that begins so many elements behind a boundary."""
    size, count = np.dtype(dtype).itemsize, int(np.prod(shape))
    raw = np.zeros((count + offset) * size + 64, np.uint8)
    first = -raw.ctypes.data % 64 + offset * size
    return raw[first : first + count * size].view(dtype).reshape(shape)


def kernel(shape, element, dtype: str = "float32", target: tl.Target | None = None) -> tl.Module:
    a, b = (te.placeholder(shape, dtype, name=name) for name in "ab")
    made = te.compute(shape, lambda *i: element(a[i], b[i]), name="c")
    return tl.compile([a, b, made], target=target)


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
@pytest.mark.parametrize("offset", [0, 1, 3, 8])
@pytest.mark.parametrize(("shape", "given"), FORMS, ids=str)
def test_arrays_that_begin_anywhere(shape, given, offset, dtype):
    numbers = np.random.default_rng(len(shape) + offset)
    x, y = placed(given, dtype, 4), placed(given, dtype, 0)
    x[...], y[...] = (numbers.integers(0, 9, given) for _ in range(2))
    # what lies around the result stays as it is
    around = placed((int(np.prod(given)) + 32,), dtype, offset)
    around[:] = 7
    z = around[16:-16].reshape(given)
    kernel(shape, lambda p, q: te.max(p + q, 5), dtype)(x, y, z)
    np.testing.assert_array_equal(z, np.maximum(x + y, 5))
    assert (around[:16] == 7).all() and (around[-16:] == 7).all()


def test_a_row_that_all_rows_read():
    a, b = te.placeholder((4, 2051), name="a"), te.placeholder((2051,), name="b")
    made = te.compute((4, 2051), lambda i, j: a[i, j] * b[j] + a[i, 0], name="c")
    x, y, z = placed((4, 2051), "float32", 1), placed((2051,), "float32", 4), placed((4, 2051), "float32", 3)
    x[...] = np.arange(x.size).reshape(x.shape) % 11
    y[...] = np.arange(y.size) % 7
    tl.compile([a, b, made])(x, y, z)
    np.testing.assert_array_equal(z, x * y + x[:, :1])


@pytest.mark.parametrize("target", [AVX2, SKYLAKE], ids=["avx2", "avx512"])
def test_the_address_of_what_is_written_decides(target):
    for shape in ((70001,), (N,), (3, 4096), (4, 3001)):
        assert MOVED in kernel(shape, lambda p, q: p + q, target=target).get_source("ll"), shape


@pytest.mark.parametrize(
    ("shape", "element"),
    [
        ((70001,), lambda p, q: te.exp(p) + q),
        ((300,), lambda p, q: p + q),
        ((N, 40), lambda p, q: te.exp(p - q)),
    ],
    ids=["long to compute", "a short row", "open and long to compute"],
)
def test_others_begin_where_they_do(shape, element):
    assert MOVED not in kernel(shape, element, target=AVX2).get_source("ll")


@pytest.mark.parametrize("channels", [2, 4, 8])
def test_what_each_lane_has_for_itself_is_not_moved(channels):
    """Numbers of channels that are last: a vector of several pixels reads them over and over."""
    shape = (3, 1531, channels)
    a, b = te.placeholder(shape, name="a"), te.placeholder((channels,), name="b")
    scaled = te.compute(shape, lambda i, j, k: a[i, j, k] * b[k] + k, name="c")
    n = te.placeholder((3 * 1531 * channels,), name="n")
    counted = te.compute(n.shape, lambda i: n[i] + te.cast("float32", i % channels), name="d")
    x, y, z = placed(shape, "float32", 1), placed((channels,), "float32", 4), placed(shape, "float32", 3)
    x[...], y[...] = np.arange(x.size).reshape(shape) % 11, np.arange(channels) + 1
    tl.compile([a, b, scaled])(x, y, z)
    np.testing.assert_array_equal(z, x * y + np.arange(channels, dtype="float32"))
    flat = z.reshape(-1)
    tl.compile([n, counted])(x.reshape(-1), flat)
    np.testing.assert_array_equal(flat, x.reshape(-1) + np.arange(flat.size) % channels)


def test_elements_made_of_their_place_are_not_moved():
    made = te.compute((70001,), lambda i: te.cast("float32", i) * 2.0, name="c")
    assert MOVED not in tl.compile([made], target=AVX2).get_source("ll")
    np.testing.assert_array_equal(tl.compile([made])(), np.arange(70001, dtype="float32") * 2)


def test_reversed_rows_are_not_moved():
    a = te.placeholder((70016,), name="a")
    made = te.compute((70016,), lambda i: a[70015 - i] + 1.0, name="c")
    assert MOVED not in tl.compile([a, made], target=AVX2).get_source("ll")
    x = np.arange(70016, dtype="float32")
    np.testing.assert_array_equal(tl.compile([a, made])(x), x[::-1] + 1)


def test_vectors_that_are_moved_in_halves_are_as_short_as_a_half():
    zen = tl.Target("llvm -mcpu=znver4 -num-cores=1")
    assert "in vectors of 8 along" in str(kernel((70001,), lambda p, q: p + q, target=zen).explain())
    assert "in vectors of 16 along" in str(kernel((70001,), lambda p, q: p + q, target=SKYLAKE).explain())
    # longer to compute than to move
    assert "in vectors of 8 along" not in str(kernel((70001,), lambda p, q: te.exp(p), target=zen).explain())


@pytest.mark.parametrize(("n", "lanes"), [(301, 16), (1201, 8), (5001, 16)])
def test_what_is_written_and_not_read_goes_in_whole_vectors_but_to_the_third_cache(n, lanes):
    zen = tl.Target("llvm -mcpu=znver4 -num-cores=1")
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    made = te.compute((n, n), lambda i, j: a[i] * b[j], name="c")
    assert f"in vectors of {lanes} along" in str(tl.compile([a, b, made], target=zen).explain())
    x, y = np.arange(n, dtype="float32") % 7, placed((n,), "float32", 3)
    y[:] = np.arange(n) % 5
    z = placed((n, n), "float32", 5)
    tl.compile([a, b, made])(x, y, z)
    np.testing.assert_array_equal(z, np.outer(x, y))


@pytest.mark.parametrize("parts", [1, pytest.param(2, marks=LONG)])
def test_threads_write_their_own_parts(parts):
    tl.set_num_threads(parts)
    x, y = (placed((200003,), "float32", k) for k in (4, 5))
    z = placed((200003,), "float32", 4)
    x[:], y[:] = np.arange(200003) % 1001, 3
    kernel((N,), lambda p, q: p - q)(x, y, z)
    np.testing.assert_array_equal(z, x - y)


@pytest.mark.each_value
@pytest.mark.parametrize("behind", [(0, 0), (1, 3), (5, 40), (3, 63)], ids=str)
@pytest.mark.parametrize(("given", "made"), [("float64", "int8"), ("float64", "bool"), ("int32", "uint8")])
@pytest.mark.parametrize("shape", [(70001,), (3, 9001)], ids=str)
def test_what_is_read_begins_there_where_it_is_much_more(shape, given, made, behind):
    x = te.placeholder(shape, given, name="x")
    y = te.compute(shape, lambda *i: x[i] > 50 if made == "bool" else te.cast(made, x[i]), name="y")
    f = tl.compile([x, y])
    a, out = placed(shape, given, behind[0]), placed(shape, made, behind[1])
    a[...] = np.random.default_rng(3).integers(0, 120, shape)
    f(a, out)
    assert np.array_equal(out, a > 50 if made == "bool" else a.astype(made))


def test_the_address_of_what_is_read_decides_where_it_is_much_more():
    x = te.placeholder((70001,), "float64", name="x")
    wide, narrow = (te.compute(x.shape, lambda i, t=t: te.cast(t, x[i])) for t in ("float32", "int8"))
    texts = [tl.compile([x, y], target=SKYLAKE).get_source("ll") for y in (wide, narrow)]
    # the address of four bytes, or of eight, each of which is an element
    for text, shift in zip(texts, (2, 3), strict=True):
        assert text.split(MOVED)[1].split("lshr exact i64 ")[1].split("\n")[0].endswith(f", {shift}")
