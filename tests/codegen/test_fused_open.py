"""Elements of arrays with an open size, counted by one loop over all of them, are read and written as they
lie, whichever of the sizes is open."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te

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
