"""Loads and stores of every form equal numpy's, and touch nothing that is masked off."""

from __future__ import annotations

import mmap
import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te

from .helper import Alloc, Func, Kernel, Store, buffer, compiled, i32, load, loop, make, ramp, run, seq, var

rng = np.random.default_rng(0)


def ints(*shape: int) -> np.ndarray:
    return rng.integers(-8, 8, shape).astype("float32")


def guarded_page(n: int, dtype: str = "float32", before: bool = False) -> np.ndarray:
    """``n`` elements that end (or begin) exactly at the border of memory that may not be touched."""
    import ctypes

    page = mmap.PAGESIZE
    room = mmap.mmap(-1, 4 * page)
    base = np.frombuffer(room, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    size = n * np.dtype(dtype).itemsize
    assert size <= page
    start = base.ctypes.data
    for p in (0, 3):
        assert libc.mprotect(ctypes.c_void_p(start + p * page), page, 0) == 0
    at = page if before else 3 * page - size
    return base[at : at + size].view(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_a_masked_load_stays_masked_in_a_multiply_add(lanes: int, dtype: str) -> None:
    """LLVM 22 took a multiply-add with such an operand apart, into a load of all lanes: the sum is zero where
    the mask is not, and what it is added to is needed again."""
    n = lanes + 3
    x, y, z = (buffer(name, dtype, n) for name in "XYZ")
    w = buffer("W", dtype, 2 * lanes)

    def body(i: object) -> object:
        at = ramp(make.mul(i, lanes), lanes)
        mask = make.lt(at, i32(n))
        added, zeros = load(w, (ramp(i32(0), lanes),)), make.broadcast(make.const(0.0, dtype), lanes)
        product = make.mul(load(w, (ramp(i32(lanes), lanes),)), load(x, (at,), mask))
        return seq(
            Store(y, make.select(mask, make.add(product, added), zeros), (at,), mask),
            Store(z, make.add(added, make.broadcast(make.const(1.0, dtype), lanes)), (at,), mask),
        )

    func = Func("masked", (x, y, z, w), loop(2, body), (), (y, z))
    given = [guarded_page(n, dtype) for _ in "XYZ"]
    given[0][:] = np.arange(n)
    factors = np.arange(2 * lanes).astype(dtype)
    run(func, *given, factors)
    added, by = (np.resize(half, n) for half in (factors[:lanes], factors[lanes:]))
    assert np.array_equal(given[1], np.arange(n) * by + added) and np.array_equal(given[2], added + 1)


@pytest.mark.parametrize("lanes", [2, 6, 8, 16, 48])
@pytest.mark.parametrize("n", [1, 5, 48, 100])
def test_saxpy_with_a_masked_tail(lanes: int, n: int) -> None:
    x, y = buffer("X", "float32", n), buffer("Y", "float32", n)

    def body(i: object) -> Store:
        at = ramp(make.mul(i, lanes), lanes)
        mask = make.lt(at, i32(n))
        return Store(
            y,
            make.add(make.mul(load(x, (at,), mask), make.const(3.0, "float32")), load(y, (at,), mask)),
            (at,),
            mask,
        )

    func = Func("saxpy", (x, y), loop(-(-n // lanes), body), (), (y,))
    a, b = guarded_page(n), guarded_page(n)
    a[:], b[:] = ints(n), ints(n)
    want = a * 3 + b
    run(func, a, b)
    np.testing.assert_array_equal(b, want)


@pytest.mark.parametrize(
    "t", ["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64"]
)
def test_masked_lanes_are_zero_when_loaded_and_kept_when_stored(t: str) -> None:
    x, y, z = buffer("X", t, 5), buffer("Y", t, 5), buffer("Z", t, 8)
    at = ramp(0, 8)
    mask = make.lt(at, i32(5))
    value = load(x, (at,), mask)
    func = Func("k", (x, y, z), seq(Store(y, value, (at,), mask), Store(z, value, (at,))), (), (y, z))
    kind = x.dtype.to_numpy()
    a, b = guarded_page(5, kind.name), guarded_page(5, kind.name)
    a[:] = 1
    c = np.ones(8, kind)
    run(func, a, b, c)
    np.testing.assert_array_equal(b, a)
    np.testing.assert_array_equal(c, np.array([1] * 5 + [0] * 3, kind))


@pytest.mark.parametrize("t", ["float32", "int8", "float64"])
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 5, -1, -2, 0])
@pytest.mark.parametrize("lanes", [2, 6, 8, 16])
@pytest.mark.parametrize("masked", [False, True])
def test_ramps_of_every_stride(stride: int, lanes: int, masked: bool, t: str) -> None:
    span = abs(stride) * (lanes - 1) + 1
    x, y = buffer("X", t, span), buffer("Y", t, lanes)
    at = (
        make.ramp(i32(span - 1 if stride < 0 else 0), i32(stride), lanes)
        if stride
        else make.broadcast(i32(0), lanes)
    )
    mask = make.lt(ramp(0, lanes), i32(lanes - 1)) if masked else None
    func = Func("k", (x, y), Store(y, load(x, (at,), mask), (ramp(0, lanes),)), (), (y,))
    a, b = guarded_page(span, t, before=stride < 0), np.full(lanes, 7, t)
    a[:] = rng.integers(-8, 8, span)
    run(func, a, b)
    want = a[[i * stride + (span - 1 if stride < 0 else 0) for i in range(lanes)]]
    if masked:
        want[-1] = 0
    np.testing.assert_array_equal(b, want)


@pytest.mark.parametrize("stride", [1, 2, 3, -1, -2])
@pytest.mark.parametrize("masked", [False, True])
def test_stores_of_every_stride(stride: int, masked: bool) -> None:
    lanes = 8
    span = abs(stride) * (lanes - 1) + 1
    x, y = buffer("X", "float32", lanes), buffer("Y", "float32", span)
    at = make.ramp(i32(span - 1 if stride < 0 else 0), i32(stride), lanes)
    mask = make.lt(ramp(0, lanes), i32(5)) if masked else None
    func = Func("k", (x, y), Store(y, load(x, (ramp(0, lanes),)), (at,), mask), (), (y,))
    a, b = ints(lanes), guarded_page(span)
    b[:] = 9
    want = b.copy()
    for i in range(5 if masked else lanes):
        want[i * stride + (span - 1 if stride < 0 else 0)] = a[i]
    run(func, a, b)
    np.testing.assert_array_equal(b, want)


@pytest.mark.parametrize("index", ["int32", "int64", "int8", "uint8", "uint32"])
@pytest.mark.parametrize("masked", [False, True])
def test_gathers_and_scatters_through_loaded_indices(index: str, masked: bool) -> None:
    n, lanes = 200, 16
    x, p, y, z = (
        buffer("X", "float32", n),
        buffer("P", index, lanes),
        buffer("Y", "float32", lanes),
        buffer("Z", "float32", n),
    )
    at = ramp(0, lanes)
    mask = make.lt(at, i32(9)) if masked else None
    where = load(p, (at,))
    func = Func(
        "k",
        (x, p, y, z),
        seq(Store(y, load(x, (where,), mask), (at,)), Store(z, load(x, (where,), mask), (where,), mask)),
        (),
        (y, z),
    )
    a = ints(n)
    order = rng.permutation(min(n, np.iinfo(index).max + 1))[:lanes].astype(index)
    b, c = np.zeros(lanes, "float32"), np.full(n, 5, "float32")
    run(func, a, order, b, c)
    want = a[order.astype(int)] * (np.arange(lanes) < (9 if masked else lanes))
    np.testing.assert_array_equal(b, want)
    full = np.full(n, 5, "float32")
    live = order.astype(int)[: 9 if masked else lanes]
    full[live] = a[live]
    np.testing.assert_array_equal(c, full)


def test_scalar_gather_in_two_dimensions_with_negative_steps() -> None:
    x, p, y = buffer("X", "float32", 10, 20), buffer("P", "int32", 10), buffer("Y", "float32", 10)
    func = Func(
        "k", (x, p, y), loop(10, lambda i: Store(y, load(x, (i32(9) - i, load(p, (i,)) - 1)), (i,))), (), (y,)
    )
    a, order, b = ints(10, 20), rng.integers(1, 21, 10).astype("int32"), np.zeros(10, "float32")
    run(func, a, order, b)
    np.testing.assert_array_equal(b, a[9 - np.arange(10), order - 1])


def test_strides_of_a_buffer() -> None:
    x, y = buffer("X", "float32", 4, 6, strides=(1, 8)), buffer("Y", "float32", 4, 6)
    func = Func("k", (x, y), loop(4, lambda i: Store(y, load(x, (i, ramp(0, 6))), (i, ramp(0, 6)))), (), (y,))
    a, b = ints(6, 8), np.zeros((4, 6), "float32")
    run(func, a, b)
    np.testing.assert_array_equal(b, a[:, :4].T)


def test_offsets_beyond_two_to_the_31_do_not_wrap() -> None:
    n, m = var("n", kind="dim"), var("m", kind="dim")
    x, y = buffer("X", "int8", n, m), buffer("Y", "int8", 2)
    func = Func("k", (x, y), Store(y, load(x, (n - 1, m - ramp(2, 2, -1))), (ramp(0, 2),)), (n, m), (y,))
    a = np.frombuffer(mmap.mmap(-1, 3 << 30), np.int8).reshape(
        3, 1 << 30
    )  # never written but for two bytes: costs no memory
    a[2, -2:] = [3, 4]
    b = np.zeros(2, np.int8)
    run(func, a, b, dims=(3, 1 << 30))
    np.testing.assert_array_equal(b, [3, 4])


def test_dynamic_extents_and_strides() -> None:
    n, m = var("n", kind="dim"), var("m", kind="dim")
    x, y = buffer("X", "float32", n, m), buffer("Y", "float32", m, n)
    func = Func(
        "transpose",
        (x, y),
        loop(n, lambda i: loop(m, lambda j: Store(y, load(x, (i, j)), (j, i)))),
        (n, m),
        (y,),
    )
    kernel = Kernel(func)
    for shape in ((3, 5), (1, 1), (0, 4), (17, 9)):
        a = ints(*shape)
        b = np.zeros(shape[::-1], "float32")
        assert kernel(a, b, dims=shape) == 0
        np.testing.assert_array_equal(b, a.T)


def test_masked_stores_to_registers_are_blends() -> None:
    x, y = buffer("X", "float32", 8), buffer("Y", "float32", 8)
    acc = buffer("acc", "float32", 8, scope="local")
    at = ramp(0, 8)
    mask = make.lt(at, i32(5))
    func = Func(
        "k",
        (x, y),
        Alloc(
            acc,
            seq(
                Store(acc, make.const(1.0, "float32x8"), (at,)),
                loop(10, lambda k: Store(acc, load(acc, (at,), mask) + load(x, (at,)), (at,), mask)),
                Store(y, load(acc, (at,)), (at,)),
            ),
        ),
        (),
        (y,),
    )
    a, b = ints(8), np.zeros(8, "float32")
    run(func, a, b)
    np.testing.assert_array_equal(b, np.where(np.arange(8) < 5, 1 + 10 * a, 1))
    assert "alloca" not in compiled(func).optimised_ll


def test_what_was_loaded_is_loaded_again_after_a_store() -> None:
    x, y = buffer("X", "float32", 4), buffer("Y", "float32", 4)
    zero, one = (i32(0),), (i32(1),)
    func = Func(
        "k",
        (x, y),
        seq(
            Store(y, load(x, zero) * 2, zero),
            Store(x, load(x, zero) + 1, zero),
            Store(y, load(x, zero) * 2, one),
            loop(3, lambda i: seq(Store(x, load(x, zero) + 1, zero), Store(y, load(x, zero) * 2, (i32(2),)))),
            Store(y, load(x, zero), (i32(3),)),
        ),
        (),
        (x, y),
    )
    a, b = np.array([1, 0, 0, 0], "float32"), np.zeros(4, "float32")
    run(func, a, b)
    np.testing.assert_array_equal(b, [2, 4, 10, 5])


def test_invariant_loads_stand_in_front_of_loops_but_not_of_stores_or_guards() -> None:
    n = var("n", kind="dim")
    x, y = buffer("X", "float32", 1), buffer("Y", "float32", n)
    func = Func("k", (x, y), loop(n, lambda i: Store(y, load(x, (i32(0),)), (i,))), (n,), (y,))
    a, b = guarded_page(0), np.zeros(0, "float32")
    run(func, a, b, dims=(0,))  # nothing may be read when the loop does not run
    a, b = ints(1), np.zeros(9, "float32")
    run(func, a, b, dims=(9,))
    np.testing.assert_array_equal(b, np.repeat(a, 9))


def test_vectors_of_two_fused_axes_are_contiguous_over_the_ends_of_rows() -> None:
    """Found by a slow build: the transposed tile of a convolution over fused rows and columns was written
    element by element, under a mask with a branch for each."""
    x = te.placeholder((16, 84), name="X")
    y = te.compute((16, 12, 7), lambda c, i, j: x[c, i * 7 + j] * 2.0, name="Y")
    s = tl.create_schedule(y)
    c, i, j = y.op.axis
    pixels = s[y].fuse(i, j)
    around, inside = s[y].split(pixels, 5)  # 84 is not a multiple of 5, and 7 is none either
    rows, lane = s[y].split(inside, 4)
    s[y].vectorize(lane)
    kernel = tl.build(s, [x, y])
    text = kernel.get_source("ll")
    assert "scatter" not in text and "extractelement" not in text
    a, b = ints(16, 84), np.full((16, 12, 7), np.nan, "float32")
    kernel(a, b)
    np.testing.assert_array_equal(b, a.reshape(16, 12, 7) * 2)


def test_only_rows_as_long_as_the_quotient_says_join() -> None:
    """``x // 8, x % 8`` in a buffer whose rows are 9 apart is not a line of memory."""
    x, y = buffer("X", "float32", 16), buffer("Y", "float32", 3, 9)
    at, eight = ramp(4, 8), make.broadcast(i32(8), 8)
    func = Func(
        "k", (x, y), Store(y, load(x, (at,)), (make.floordiv(at, eight), make.floormod(at, eight))), (), (y,)
    )
    a, b = ints(16), np.zeros((3, 9), "float32")
    run(func, a, b)
    want = np.zeros((3, 9), "float32")
    want[0, 4:8], want[1, 0:4] = a[4:8], a[8:12]
    np.testing.assert_array_equal(b, want)


def test_far_apart_lanes_of_a_block_of_the_stack_are_read_without_branches() -> None:
    x, y = buffer("X", "float32", 32), buffer("Y", "float32", 4)
    local = buffer("L", "float32", 32, scope="local")
    at = ramp(0, 4)
    mask = make.lt(at, i32(3))
    body = seq(
        Store(local, load(x, (ramp(0, 32),)), (ramp(0, 32),)),
        Store(y, load(local, (ramp(1, 4, 8),), mask), (at,)),
    )
    func = Func("k", (x, y), Alloc(local, body), (), (y,))
    assert "gather" not in compiled(func).ll
    a, b = ints(32), np.full(4, 99, "float32")
    run(func, a, b)
    np.testing.assert_array_equal(b, [*a[1:25:8], 0])


def test_rows_under_one_condition_are_read_as_blocks() -> None:
    """Rows of pixels and their padding: eight stores of far lanes under one condition, the first under one
    more, and another store that asks for nothing in between two such rows."""
    x, y, z = buffer("X", "float32", 8, 4, 8), buffer("Y", "float32", 6, 16, 8), buffer("Z", "float32", 6)
    pad = make.broadcast(make.const(7.0, "float32"), 8)

    def rows(i):
        inside = make.and_(make.le(i32(1), i), make.lt(i, i32(5)))

        def pixel(n: int, cond) -> Store:
            lanes = (ramp(0, 8), i - 1, i32(n % 8))
            return Store(y, make.if_then_else(cond, load(x, lanes), pad), (i, i32(n), ramp(0, 8)))

        first = make.and_(inside, make.lt(i, i32(3)))
        row = [pixel(n, first if n == 0 else inside) for n in range(8)]
        other = [pixel(n, make.le(i32(1), i) if n == 9 else make.lt(i32(9), i)) for n in range(8, 16)]
        return seq(*row, Store(z, load(y, (i, i32(3), i32(0))), (i,)), *other)

    func = Func("k", (x, y, z), loop(5, rows), (), (y, z))
    assert compiled(func).ll.count("load <4 x float>") >= 16
    a, b, c = ints(8, 4, 8), np.full((6, 16, 8), 99, "float32"), np.full(6, 99, "float32")
    run(func, a, b, c)
    want = np.full((6, 16, 8), 7, "float32")
    want[5] = 99
    for i in range(1, 5):
        want[i, 0 if i < 3 else 1 : 8] = a[:, i - 1, 0 if i < 3 else 1 :].T
        want[i, 9] = a[:, i - 1, 1]
    np.testing.assert_array_equal(b, want)
    np.testing.assert_array_equal(c, [*want[:5, 3, 0], 99])


@pytest.mark.parametrize("t", ["float32", "float64", "int8"])
@pytest.mark.parametrize(
    "pattern",
    [
        lambda at: make.floordiv(at, lanes(2)),
        lambda at: make.floormod(at, lanes(3)),
        lambda at: make.floordiv(at, lanes(4)) * lanes(5) + make.floormod(at, lanes(4)),
        lambda at: lanes(9) - make.floordiv(at, lanes(2)),
        lambda at: make.floordiv(at + lanes(1), lanes(2)) * lanes(2),
        lambda at: make.floordiv(at, lanes(16)),
        lambda at: at * lanes(7) - make.floordiv(at, lanes(2)) * lanes(11),
        lambda at: make.max_(lanes(3) - at, at - lanes(3)),
        lambda at: make.max_(make.min_(at - lanes(2), lanes(9)), lanes(0)),
        lambda at: lanes(12) - make.max_(at - lanes(12), lanes(12) - at),
    ],
)
def test_near_lanes_of_a_known_order_touch_nothing_beyond(pattern, t: str) -> None:
    """One vector for each of three scalars, the last lane of the last in the last element of a page."""
    which = [int(x) for x in np.array(table(pattern))]
    x, y = buffer("X", t, max(which) + 1 + 2 * 16), buffer("Y", t, 3, 16)
    body = lambda i: Store(
        y, load(x, (make.broadcast(i * i32(16), 16) + pattern(ramp(0, 16)),)), (i, ramp(0, 16))
    )
    func = Func("k", (x, y), loop(3, body), (), (y,))
    ll = compiled(func).ll
    assert "gather" not in ll and ll.count("insertelement") == (len(set(which)) == 1)
    for before in (False, True):
        a = guarded_page(max(which) + 33, t, before)
        a[:] = rng.integers(-8, 8, a.shape)
        b = np.zeros((3, 16), t)
        run(func, a, b)
        np.testing.assert_array_equal(b, [[a[16 * i + w] for w in which] for i in range(3)])


def lanes(n: int):
    """A number in sixteen lanes."""
    return make.broadcast(i32(n), 16)


def table(pattern) -> list[int]:
    """What the pattern is, lane by lane."""
    x = buffer("X", "int32", 64)
    got = np.zeros(16, "int32")
    func = Func(
        "k", (x, y := buffer("Y", "int32", 16)), Store(y, pattern(ramp(0, 16)), (ramp(0, 16),)), (), (y,)
    )
    run(func, np.zeros(64, "int32"), got)
    return list(got)


@pytest.mark.parametrize(("m", "n"), [(32, 49), (50, 51), (7, 33)])
def test_the_last_row_of_a_ragged_tile_is_in_registers(m: int, n: int) -> None:
    """Its end was cleared with what the row has in its last vector, and so it stayed in memory: a product of 12
    × 32 × 60 × 49 took twice as long."""
    x, w = te.placeholder((12, m, 60), name="x"), te.placeholder((12, 60, n), name="w")
    f = tl.compile([x, w, tl.ops.batch_matmul(x, w)], target="llvm -mcpu=znver4 -num-cores=1")
    sums = [int(size) for size in re.findall(r"alloca \[(\d+) x float\]", f.get_source("ll"))]
    assert all(size >= 60 * n for size in sums), sums  # a copy of the right operand
    a, b = ints(12, m, 60), ints(12, 60, n)
    np.testing.assert_array_equal(tl.compile([x, w, tl.ops.batch_matmul(x, w)])(a, b), a @ b)


@pytest.mark.parametrize(("n", "cleared"), [(77, True), (64, False), (9, False)])
def test_the_end_of_the_last_vector_on_the_stack_is_cleared(n: int, cleared: bool) -> None:
    """It is computed with though nothing is stored there; subnormal numbers cost 150 cycles each."""
    x = te.placeholder((6, n), name="x")
    f = tl.compile([x, tl.ops.softmax(x)], target="llvm -mcpu=skylake-avx512 -num-cores=1")
    assert ("store i64 0" in f.get_source("ll")) is cleared
    a = ints(6, n)
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(tl.compile([x, tl.ops.softmax(x)])(a), e / e.sum(1, keepdims=True), rtol=1e-5)


def test_small_memory_of_an_open_size_lies_on_the_stack() -> None:
    """A call with little to do asked for each of its workspaces, and gave it back: a fifth of the time of a
    small product."""
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    y = te.compute((n,), lambda i: x[i] * 2.0, name="y")
    z = te.compute((n,), lambda i: y[i] + y[n - 1 - i], name="z")
    f = tl.build(te.create_schedule(z.op), [x, z])
    llvm = f.get_source("ll")
    (ask,) = re.findall(r"phi ptr \[ %\w+, %\w+ \], \[ (%\w+), %ask\w* \]", llvm.replace("null", "%null"))[:1]
    assert f"{ask} = call ptr @tensorlang_alloc" in llvm and "alloca [8192 x i8]" in llvm
    for size in (1, 2047, 2048, 2049, 100_000):
        a = ints(size)
        np.testing.assert_array_equal(f(a), 2 * a + 2 * a[::-1])
