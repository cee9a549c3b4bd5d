"""Elements of arrays with an open size, counted by one loop over all of them, are read and written as they
lie, whichever of the sizes is open."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te

TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4 -num-cores=1"

# what is open, as a number of the shape that is given in the call
SHAPES = [
    (1, 192, 16, "n"),
    (12, "n"),
    ("b", 192, 16, 50),
    ("b", 7, 16, 50),
    ("b", 192, 16, "n"),
    (3, "m", 16, 50),
    (3, 64, "m", 6),
    ("b", 5, 10),
]


def rounded(shape, kind="uint8"):
    sizes = tuple(te.dim(n, 0, 10**9) if isinstance(n, str) else n for n in shape)
    x = te.placeholder(sizes, name="x")
    return x, te.compute(sizes, lambda *i: te.cast(kind, te.nearbyint(x(*i) * 2.0)), name="y")


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["uint8", "float32"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_right_for_any_size(shape, kind) -> None:
    x, y = rounded(shape, kind)
    f = tl.compile([x, y])
    for n in (0, 1, 2, 13, 50, 64):
        at = [n if isinstance(size, str) else size for size in shape]
        a = np.random.default_rng(n).integers(0, 100, at).astype("float32")
        np.testing.assert_array_equal(f(a), (a * 2).astype(kind))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nothing_is_gathered(shape) -> None:
    x, y = rounded(shape)
    text = tl.compile([x, y], TARGET).get_source("asm")
    assert "gather" not in text and "vpextr" not in text


def test_no_mask_where_vectors_end_with_the_array() -> None:
    """3072 rows are whole vectors, however long they are."""
    x, y = rounded((1, 192, 16, "n"))
    assert "mask" not in str(tl.lower(tl.recipes.default_schedule(y, TARGET), [x, y]))


@pytest.mark.parametrize("shape", [(3, 1, "n"), (1, 3, 1, "n"), (3, 1, 1, "n", 1)], ids=str)
def test_an_axis_of_one_element_between_row_and_column(shape) -> None:
    """As the height is of an image whose open height and width are counted as one."""
    x, y = rounded(shape, "float32")
    s = te.create_schedule(y.op)
    _, inner = s[y].split(s[y].fuse(*s[y].op.axis), factor=16)
    s[y].vectorize(inner)
    assert "gather" not in tl.build(s, [x, y], TARGET).get_source("asm")
    f = tl.build(s, [x, y])
    for n in (0, 1, 5, 16, 33):
        a = np.random.default_rng(n).integers(0, 100, [n if d == "n" else d for d in shape])
        np.testing.assert_array_equal(f(a.astype("float32")), (a * 2).astype("float32"))


@pytest.mark.parametrize("strip", [16, 80, 1360])
@pytest.mark.parametrize(
    "shape", [(2, 3, 62, 5, 2), (3, 3, 22, 3, 68), (2, 3, 4, 189), (3, 64, 7, 7)], ids=str
)
def test_known_sizes_in_strips(shape, strip) -> None:
    """What is left of the outer loops is in front of quotients, and in remainders what is left of that."""
    x = te.placeholder(shape, name="x")
    y = te.compute(shape, lambda *i: x(*i) * 2.0, name="y")
    s = te.create_schedule(y.op)
    outer, inner = s[y].split(s[y].fuse(*s[y].op.axis[1:]), factor=strip)
    _, lanes = s[y].split(inner, factor=16)
    s[y].vectorize(lanes)
    text = tl.build(s, [x, y], TARGET).get_source("asm")
    assert "gather" not in text and "scatter" not in text
    a = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    np.testing.assert_array_equal(tl.build(s, [x, y])(a), a * 2)


def assert_right(args, function, sizes, draw) -> None:
    """The compiled kernel and the interpreter of its loops give what numpy does, for all these sizes."""
    *inputs, out = args
    f = tl.compile(args)
    loops = tl.recipes.default_schedule(out, TARGET)
    for n in sizes:
        given = [draw(n, [n if type(d) is te.Var else int(str(d)) for d in x.shape]) for x in inputs]
        wanted = np.asarray(function(*given))
        np.testing.assert_array_equal(f(*given), wanted)
        if n < 40:
            made = tl.interpret(loops, args, given, simple=False).arrays[out.op.name]
            np.testing.assert_array_equal(made, wanted)


def small(n, shape):
    return np.random.default_rng(n).integers(1, 9, shape)


@pytest.mark.parametrize("shape", [("n", 5, 3), ("n", 4, 7, 3), ("n", 31, 11)], ids=str)
def test_rows_of_64_bits_beside_quotients_of_32(shape) -> None:
    """A few columns of several rows in a vector, of rows that are counted in 64 bits: one stretch."""
    x = te.placeholder(tuple(te.var("n") if d == "n" else d for d in shape), name="x")
    axes = tuple(range(len(shape) - 1))
    y = ops.max(x, axis=axes)
    text = tl.compile([x, y], TARGET).get_source("asm")
    assert "gather" not in text and "vpinsr" not in text
    draw = lambda n, s: small(n, s).astype("float32")
    assert_right([x, y], lambda a: a.max(axes), (1, 2, 7, 16, 33, 400), draw)


def test_rows_of_what_is_joined() -> None:
    """Whose rows lanes are of is one compare, and what begins at a later row is read as it lies."""
    n = te.var("n")
    x, y = (te.placeholder((n, 17), "uint8", name=k) for k in "xy")
    z = ops.concat([x, y], axis=0) * 2
    text = tl.compile([x, y, z], TARGET).get_source("asm")
    assert "gather" not in text and "vpextr" not in text
    draw = lambda n, s: small(n, s).astype("uint8")
    sizes = (0, 1, 2, 3, 15, 16, 17, 33, 400)
    assert_right([x, y, z], lambda a, b: np.concatenate([a, b]) * np.uint8(2), sizes, draw)


@pytest.mark.parametrize("factor", [17, 3, 1])
@pytest.mark.parametrize(
    "less", [lambda r, n: r < n, lambda r, n: r <= n, lambda r, n: n < r, lambda r, n: n <= r]
)
def test_rows_compared_with_a_size(less, factor) -> None:
    """On both sides, and outside, of the block that has the place."""
    n, k = te.var("n"), te.var("k")
    x = te.placeholder((n,), "uint8", name="x")
    y = te.compute((n,), lambda i: te.select(less(i // factor + 2, k), x[i], x[i] + x[i]), name="y")
    s = te.create_schedule(y.op)
    s[y].vectorize(s[y].split(y.op.axis[0], factor=32)[1])
    f = tl.build(s, [x, y, k])
    for size in (1, 31, 64, 100):
        a = small(size, (size,)).astype("uint8")
        for many in (-1, 0, 1, 2, 3, 4, 7, 40, 200):
            wanted = np.where(less(np.arange(size) // factor + 2, many), a, a + a)
            made = np.zeros_like(a)
            f(a, made, many)
            np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("shape", [("n", "m"), ("n", 17)], ids=str)
def test_the_place_among_all_is_counted_and_not_divided(shape) -> None:
    x = te.placeholder(tuple(te.var(d) if isinstance(d, str) else d for d in shape), name="x")
    y = ops.argmax(x)
    body = str(tl.lower(tl.recipes.default_schedule(y, TARGET), [x, y]))
    chosen = [line.split("isnan")[-1] for line in body.splitlines() if "isnan" in line and "mask" not in line]
    assert chosen and not any("int64x" in line.split("),")[-2] for line in chosen)
    f = tl.compile([x, y])
    for n, m in ((1, 17), (5, 17), (40, 17), (900, 17)):
        a = np.random.default_rng(n).integers(0, 5, (n, m)).astype("float32")
        a[n // 2, 3] = 7
        assert f(a) == a.argmax()
