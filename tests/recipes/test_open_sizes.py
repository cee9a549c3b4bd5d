"""Operators whose sizes are known at the call: their loops are parallel, how many parts there are is decided by
the call's sizes, and the answers are numpy's for sizes of none, one and primes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule
from tensorlang.target import as_target
from tests.codegen.test_assembly import AVX512

TWO = "llvm -num-cores=2"


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = tl.num_threads()
    tl.set_num_threads(2)
    yield
    tl.set_num_threads(before)


def _softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


OF_MATRICES: dict[str, tuple[Callable[[te.Tensor], te.Tensor], Callable[[np.ndarray], np.ndarray]]] = {
    "softmax": (lambda x: ops.softmax(x), _softmax),
    "relu": (lambda x: ops.relu(x), lambda a: np.maximum(a, 0)),
    "transpose": (lambda x: ops.transpose(x), lambda a: a.T),
    "sum of rows": (lambda x: ops.sum(x, -1), lambda a: a.sum(-1)),
    "sum of columns": (lambda x: ops.sum(x, 0), lambda a: a.sum(0)),
    "product": (lambda x: ops.matmul(x, x, transpose_b=True), lambda a: a @ a.T),
}


@pytest.mark.parametrize("name", OF_MATRICES)
def test_threads_are_asked_for_at_the_call(name: str) -> None:
    """The loop is parallel in the schedule, and a call of any size is right, of two parts or one."""
    operator, reference = OF_MATRICES[name]
    x = te.placeholder((te.dim("m"), te.dim("n")), name="x")
    y = operator(x)
    assert "parallel" in default_schedule(y, TWO).tree()
    f = tl.compile([x, y])
    rng = np.random.default_rng(len(name))
    for shape in ((0, 5), (1, 1), (1, 307), (307, 1), (4, 16), (67, 131), (613, 509)):
        a = rng.integers(-4, 5, shape).astype("float32")
        if name == "softmax":
            np.testing.assert_allclose(f(a), reference(a), rtol=1e-5, atol=1e-7)
        else:
            assert np.array_equal(f(a), reference(a)), shape


def test_what_is_small_at_most_stays_serial() -> None:
    """Where even the largest sizes are not worth a second thread no call is asked."""
    x = te.placeholder((te.dim("m", 1, 16), te.dim("n", 1, 64)), name="x")
    for operator, _ in OF_MATRICES.values():
        assert "parallel" not in default_schedule(operator(x), TWO).tree()


@pytest.mark.parametrize("sizes", [(1,), (7,), (8191,), (8193,), (300007,)])
def test_a_sum_of_everything_of_an_open_size(sizes: tuple[int, ...]) -> None:
    x = te.placeholder((te.dim("n"),), name="x")
    y = ops.sum(x)
    assert "parallel" in default_schedule(y, TWO).tree()
    a = np.random.default_rng(sizes).integers(-2, 3, sizes).astype("float32")
    assert tl.compile([x, y], target=TWO)(a) == a.sum()


def _loops(y: te.Tensor, *inputs: te.Tensor) -> int:
    return str(tl.lower(default_schedule(y), [*(inputs or y.op.input_tensors), y])).count("for ")


def test_elements_of_open_sizes_that_lie_together_are_one_loop() -> None:
    """Rows of eight elements do not fill vectors, and all of them do."""
    m, n = te.dim("m"), te.dim("n")
    x, y, row = (te.placeholder(s, name=name) for name, s in (("x", (m, n)), ("y", (m, n)), ("b", (n,))))
    both = ops.add(x, y)
    assert _loops(both) == 1
    # one row for all is no stretch of memory, nor is what is made of a place: it would be divided for
    at = te.compute((m, n), lambda i, j: x[i, j] + te.if_then_else(i < j, 1.0, 0.0), name="at")
    assert _loops(ops.add(x, row)) == 2 == _loops(at)
    rng = np.random.default_rng(0)
    for shape in ((0, 3), (1, 1), (69, 8), (5, 17), (101, 103)):
        a, b = (rng.integers(-9, 9, shape).astype("float32") for _ in range(2))
        assert np.array_equal(tl.compile([x, y, both])(a, b), a + b)
        below = np.arange(shape[0])[:, None] < np.arange(shape[1])
        assert np.array_equal(tl.compile([x, at])(a), a + below)


def test_images_that_are_joined_or_scaled_by_channel_are_a_stretch_for_each_channel() -> None:
    """Rows of an image ended in a vector each, though what is done to them hangs on the channel alone."""
    b, h, w = te.dim("b"), te.dim("h"), te.dim("w")
    x, y = te.placeholder((b, 5, h, w), name="x"), te.placeholder((b, 3, h, w), name="y")
    scale = te.placeholder((5,), name="scale")
    joined = ops.concatenate([x, y], 1)
    scaled = ops.relu(ops.multiply(x, ops.reshape(scale, (5, 1, 1))))
    assert _loops(joined) == 2 == _loops(scaled, x, scale)
    first, second = tl.compile([x, y, joined]), tl.compile([x, scale, scaled])
    rng = np.random.default_rng(3)
    for shape in ((0, 2, 3), (1, 1, 1), (2, 7, 9), (1, 0, 4), (3, 31, 13), (1, 61, 67)):
        a, c = (rng.integers(-9, 9, (shape[0], n, *shape[1:])).astype("float32") for n in (5, 3))
        k = rng.integers(-3, 4, 5).astype("float32")
        assert np.array_equal(first(a, c), np.concatenate([a, c], 1))
        assert np.array_equal(second(a, k), np.maximum(a * k[:, None, None], 0))


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
def test_rows_that_leave_a_rest_are_one_loop(dtype: str) -> None:
    """Each would end in a vector of its own; all together have one rest."""
    x = te.placeholder((7, 11, 13), dtype, name="x")
    assert _loops(ops.relu(x)) == 1
    whole = te.placeholder((7, 8192), dtype, name="whole")
    assert _loops(ops.relu(whole)) == 2
    row = te.placeholder((13,), dtype, name="row")
    assert _loops(ops.add(x, row)) > 1
    a = np.random.default_rng(0).integers(-9, 9, (7, 11, 13)).astype(dtype)
    assert np.array_equal(tl.compile([x, ops.relu(x)])(a), np.maximum(a, 0))
    b = a[0, 0].copy()
    assert np.array_equal(tl.compile([x, row, ops.add(x, row)])(a, b), a + b)


def test_long_chains_over_open_sizes_are_several_vectors_wide() -> None:
    x = te.placeholder((te.dim("m"), te.dim("n")), name="x")
    y = ops.gelu(x)
    f = tl.compile([x, y])
    lanes = as_target(None).vector_lanes(x.dtype)
    assert f"outer*{4 * lanes}" in f.get_source("ir")
    for shape in ((1, 3), (7, 19), (40, 50)):
        a = np.random.default_rng(1).standard_normal(shape).astype("float32")
        np.testing.assert_allclose(f(a), tl.compile([z := te.placeholder(shape), ops.gelu(z)])(a), atol=1e-6)


def _places(h: te.Expr, w: te.Expr) -> list[te.Tensor]:
    u = te.placeholder((h, w), name="u")
    around = lambda i, j: (
        u[(i + 1) % h, j] + u[(i + h - 1) % h, j] + u[i, (j + 1) % w] + u[i, (j + w - 1) % w]
    )
    return [u, te.compute((h, w), lambda i, j: around(i, j) - 4.0 * u[i, j], name="o")]


def test_neighbours_on_a_torus_are_read_as_they_lie() -> None:
    """Vectors away from the seam divided to find where they begin."""
    f = tl.compile(_places(te.dim("h", 1), te.dim("w", 1)))
    text = f.get_source("ir")
    assert any("u[i, j.outer*16 - 1" in line or "u[i, j.outer*8 - 1" in line for line in text.splitlines())
    rng = np.random.default_rng(4)
    for shape in ((1, 1), (3, 2), (5, 17), (2, 64), (20, 131)):
        a = rng.integers(-4, 5, shape).astype("float32")
        right = sum(np.roll(a, step, axis) for step in (1, -1) for axis in (0, 1)) - 4 * a
        assert np.array_equal(f(a), right), shape


def test_colours_of_open_images_ask_once_whether_a_row_fills_a_vector() -> None:
    """Every vector had a mask, and gathered under it."""
    h, w = te.dim("h"), te.dim("w")
    x, m = te.placeholder((h, w, 3), name="x"), te.placeholder((3, 3), name="m")
    k = te.reduce_axis((0, 3), name="k")
    o = te.compute((h, w, 3), lambda i, j, c: te.sum(x[i, j, k] * m[c, k], axis=k), name="o")
    f = tl.compile([x, m, o], target="llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512")
    loops = f.get_source("ir").split("else:")[0]
    assert "if 16 <= w" in loops and "if_then_else" not in loops
    f = tl.compile([x, m, o])
    rng = np.random.default_rng(5)
    for shape in ((2, 1, 3), (3, 7, 3), (4, 16, 3), (3, 45, 3), (0, 4, 3)):
        a, b = rng.integers(-4, 5, shape).astype("float32"), rng.integers(-4, 5, (3, 3)).astype("float32")
        assert np.array_equal(f(a, b), a @ b.T), shape


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_images_of_open_sizes_are_resized(mode: str) -> None:
    """The places that lanes read, and their weights, are the same for all rows: each row divided for them."""
    h, w = te.dim("h", 1), te.dim("w", 1)
    for fixed in (True, False):
        x = te.placeholder((1, 6, h, w), name="x")
        f = tl.compile([x, ops.resize(x, (40, 56) if fixed else (h * 2, w * 2), mode)])
        for high, wide in ((1, 1), (5, 3), (20, 28), (33, 70)):
            a = np.random.default_rng(high).random((1, 6, high, wide)).astype("float32")
            y = te.placeholder(a.shape, name="y")
            size = (40, 56) if fixed else (2 * high, 2 * wide)
            (right,) = te.reference.evaluate([ops.resize(y, size, mode)], {y: a})
            np.testing.assert_allclose(f(a), right, rtol=1e-5, atol=1e-6)


def test_a_vector_by_a_matrix_of_open_columns() -> None:
    """Few columns were a tile of 480."""
    k, n = te.dim("k"), te.dim("n")
    a, x = te.placeholder((k, n), name="a"), te.placeholder((k,), name="x")
    r = te.reduce_axis((0, k), name="r")
    f = tl.compile([x, a, te.compute((n,), lambda j: te.sum(a[r, j] * x[r], axis=r), name="o")])
    rng = np.random.default_rng(6)
    for shape in ((0, 5), (3, 1), (40, 96), (17, 130), (5, 1000)):
        m, v = rng.integers(-4, 5, shape).astype("float32"), rng.integers(-4, 5, shape[0]).astype("float32")
        assert np.array_equal(f(v, m), v @ m), shape


@pytest.mark.parametrize("across", [False, True])
def test_few_columns_of_open_sizes_are_shared_out_by_rows(across: bool) -> None:
    """One block of columns was one thread's, however many rows there were."""
    m, n, k = te.dim("m"), te.dim("n"), te.dim("k")
    a, b = te.placeholder((m, k), name="a"), te.placeholder((n, k) if across else (k, n), name="b")
    f = tl.compile([a, b, ops.matmul(a, b, transpose_b=across)], target=TWO)
    assert "n <= " in str(f.explain())
    rng = np.random.default_rng(7)
    for rows, wide, deep in ((300, 70, 120), (1, 1, 1), (29, 16, 40), (0, 4, 4), (40, 600, 33), (65, 240, 9)):
        x = rng.integers(-4, 5, (rows, deep)).astype("float32")
        y = rng.integers(-4, 5, (wide, deep) if across else (deep, wide)).astype("float32")
        assert np.array_equal(f(x, y), x @ (y.T if across else y)), (rows, wide, deep)


def test_the_place_of_an_extreme_of_three_open_axes_is_read_as_it_lies() -> None:
    """Its place was put together from the places along each axis, of which divisions were made."""
    x = te.placeholder((te.dim("a"), te.dim("b"), te.dim("c")), name="x")
    f = tl.compile([x, ops.argmax(x)])
    assert "gather" not in tl.compile([x, ops.argmax(x)], target=AVX512).get_source("ll")
    rng = np.random.default_rng(9)
    for shape in ((1, 1, 1), (3, 5, 7), (2, 1, 67), (13, 11, 1), (5, 31, 30)):
        a = rng.integers(-9, 9, shape).astype("float32")  # the first of equals
        assert f(a) == a.argmax()
        a.flat[a.size // 2] = np.nan
        assert f(a) == a.argmax()


SHORT: dict[str, tuple[Callable[[te.Tensor], te.Tensor], Callable[[np.ndarray], np.ndarray]]] = {
    "sum": (lambda x: ops.sum(x, -1), lambda a: a.sum(-1)),
    "max": (lambda x: ops.max(x, -1), lambda a: a.max(-1)),
    "argmax": (lambda x: ops.argmax(x, -1), lambda a: a.argmax(-1)),
    "all": (lambda x: ops.all(x, -1), lambda a: a.all(-1)),
    "softmax": (lambda x: ops.softmax(x, -1), _softmax),
}


@pytest.mark.parametrize("dtype", ["float32", "bool", "float64"])
@pytest.mark.parametrize("name", SHORT)
def test_short_rows_of_an_open_number_of_elements_are_side_by_side(name: str, dtype: str) -> None:
    """A row of three was a vector of its own that was mostly empty, and a call tells that rows are short."""
    if dtype == "bool" and name not in ("all", "argmax"):
        pytest.skip("numbers")
    operator, reference = SHORT[name]
    x = te.placeholder((te.dim("m"), te.dim("n")), dtype, name="x")
    f = tl.compile([x, operator(x)])
    assert "n <= " in str(f.explain())
    rng = np.random.default_rng(len(name))
    for shape in ((0, 3), (1, 1), (1, 3), (5, 2), (16, 7), (37, 3), (101, 8), (53, 9), (7, 131)):
        for some in (False, True):
            a = rng.integers(-2, 3, shape).astype(dtype)
            if some and dtype != "bool" and a.size:
                a.flat[a.size // 2] = np.nan
            np.testing.assert_allclose(f(a), reference(a), rtol=1e-5, err_msg=str(shape))


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("reps", [(1, 3), (3, 1), (1, 5), (4,)], ids=str)
def test_what_is_repeated_is_read_as_it_lies(dtype: str, reps: tuple[int, ...]) -> None:
    """The place of an element in what is repeated was the remainder of a division."""
    sizes = [te.dim("m"), te.dim("n")][-len(reps) :]
    x = te.placeholder(sizes, dtype, name="x")
    y = ops.tile(x, reps)
    if reps[-1] > 1:
        assert "%" not in str(tl.lower(default_schedule(y), [x, y])).replace("fused %", "")
    f = tl.compile([x, y])
    for shape in ((1, 1), (5, 3), (3, 17), (40, 64), (2, 131), (0, 3), (3, 0)):
        a = np.arange(np.prod(shape[-len(reps) :])).reshape(shape[-len(reps) :]).astype(dtype)
        assert np.array_equal(f(a), np.tile(a, reps)), shape


@pytest.mark.parametrize("dtype", ["float32", "uint8", "float64"])
@pytest.mark.parametrize("order", [(1, 0), (0, 2, 1)], ids=str)
def test_few_rows_of_an_open_number_are_transposed_in_low_tiles(dtype: str, order: tuple[int, ...]) -> None:
    """Tiles of as many rows and columns as of large matrices were mostly masked."""
    x = te.placeholder([te.dim(n) for n in "bmn"][-len(order) :], dtype, name="x")
    f = tl.compile([x, ops.transpose(x, order)])
    assert "<= 4" in str(f.explain())
    for shape in ((3, 1, 1), (2, 3, 1003), (2, 1003, 3), (1, 4, 64), (5, 5, 4), (2, 70, 33), (2, 0, 3)):
        shape = shape[-len(order) :]
        a = (np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype)
        assert np.array_equal(f(a), a.transpose(order)), shape


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("name", SHORT)
def test_short_rows_behind_an_open_axis_are_counted_by_one_index(name: str, dtype: str) -> None:
    """Five rows of three are fewer than a vector has lanes, and an open number of such fives is not."""
    if dtype == "uint8" and name == "softmax":
        pytest.skip("floats")
    operator, reference = SHORT[name]
    x = te.placeholder((te.dim("n"), 5, 3), dtype, name="x")
    f = tl.compile([x, operator(x)])
    assert "short rows" in str(f.explain()) or "rows of a few elements" in str(f.explain())
    rng = np.random.default_rng(len(name))
    for n in (0, 1, 2, 7, 100):
        a = rng.integers(0, 3, (n, 5, 3)).astype(dtype)
        if dtype != "uint8" and n > 1:
            a[1, 2, 1] = np.nan
        np.testing.assert_allclose(f(a), reference(a), rtol=1e-5, err_msg=str(n))
