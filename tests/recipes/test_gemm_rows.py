"""Rows of a product that are counted along several axes: the pixels of an image, and those of a batch."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule
from tensorlang.target import as_target
from tests.codegen.test_assembly import AVX512
from tests.recipes.long import LONG


@pytest.mark.parametrize(
    "shape", [(2, 7, 7), (2, 3, 5), (1, 1, 9), (2, 2, 31), (2, 4, 40), ("b", 7, 7), ("b", 2, 3, 4)]
)
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("n", [40, pytest.param(512, marks=LONG)])
def test_pixels_of_short_lines_are_rows_of_one_tile(
    shape: tuple[int | str, ...], fixed: bool, n: int
) -> None:
    """The right operand came from the third cache for each line of 7 pixels, and a tile had 7 rows at most."""
    front = [te.dim("b", 0, 1000) if isinstance(size, str) else size for size in shape]
    A, B = te.placeholder((*front, 24), name="A"), te.placeholder((24, n), name="B")
    C = ops.relu(ops.matmul(A, B))
    rng = np.random.default_rng(n)
    b = rng.integers(-4, 5, (24, n)).astype("float32")
    f = tl.compile([A, C], constants={B: b}) if fixed else tl.compile([A, B, C])
    for batch in (0, 1, 3) if "b" in shape else (1,):
        a = rng.integers(-4, 5, [batch if size == "b" else size for size in (*shape, 24)]).astype("float32")
        np.testing.assert_array_equal(f(a) if fixed else f(a, b), np.maximum(a @ b, 0))
    lines = [size for size in shape if isinstance(size, int) and size > 1]
    if len(lines) > 1 and lines[-1] < 32:
        assert ".fused" in default_schedule(C, constants=[B] if fixed else []).tree()


def test_threads_share_the_rows_of_a_batch_of_one() -> None:
    A, B = te.placeholder((te.dim("b", 0, 64), 784, 128), name="A"), te.placeholder((128, 512), name="B")
    s = default_schedule(ops.matmul(A, B), as_target("llvm -mcpu=znver4 -num-cores=2"), constants=[B])
    assert re.search(r"loop matmul\.b0\S*\.i\.outer\.fused .*parallel", s.tree()), s.tree()


@pytest.mark.parametrize("fixed", [False, True])
def test_threads_share_rows_out_where_panels_of_columns_are_uneven(fixed: bool) -> None:
    """Of seven panels, one thread had four. A right operand that is not packed ahead is packed by each thread
    for itself: nobody waits for what the other has written."""
    A, B = te.placeholder((120, 200), name="A"), te.placeholder((200, 200), name="B")
    C = ops.matmul(A, B)
    s = default_schedule(C, as_target("llvm -mcpu=znver4 -num-cores=2"), constants=[B] if fixed else [])
    tree = s.tree()
    assert tree.count(" parallel") == 1, tree
    assert re.search(rf"loop matmul\.i\.outer +0\.\.{10 if fixed else 2} +parallel", tree), tree
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-4, 5, (120 if t is A else 200, 200)).astype("float32") for t in (A, B))
    f = tl.build(s, [A, C] if fixed else [A, B, C], constants={B: b} if fixed else None)
    np.testing.assert_array_equal(f(a) if fixed else f(a, b), a @ b)


@pytest.mark.each_value
@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize(("m", "k", "n"), [(50, 40, 48), (30, 30, 98), (97, 41, 130)])
@pytest.mark.parametrize("turned", [False, True])
def test_threads_share_the_rows_of_products_that_are_not_as_many_for_each(
    batch: int, m: int, k: int, n: int, turned: bool
) -> None:
    """Of three products one thread had two: 3 × 197 × 197 × 64 took 1.3 times as long."""
    A, B = (
        te.placeholder((batch, m, k), name="A"),
        te.placeholder((batch, *(n, k)[:: 1 if turned else -1]), name="B"),
    )
    C = ops.batch_matmul(A, B, transpose_b=turned)
    s = default_schedule(C, as_target("llvm -mcpu=znver4 -num-cores=2"))
    parts = [int(count) for count in re.findall(r"0\.\.(\d+) +parallel", s.tree())]
    if batch in (3, 5) and m == 97:  # of smaller ones a second copy of the right operand may take longer
        assert parts[-1] % 2 == 0 or parts[-1] > 2 * batch, s.tree()
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-4, 5, [int(str(e)) for e in t.shape]).astype("float32") for t in (A, B))
    want = a @ (b.transpose(0, 2, 1) if turned else b)
    np.testing.assert_array_equal(tl.build(s, [A, B, C])(a, b), want)


@pytest.mark.parametrize(
    ("kind", "target", "instruction"),
    [
        ("uint8", "llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu", "vpdpbusd"),
        ("int16", "llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu", "vpdpwssd"),
        ("int16", "llvm -mcpu=haswell -mtriple=x86_64-linux-gnu", "vpmaddwd"),
    ],
)
def test_a_row_of_narrow_integers_by_a_known_weight_is_products_together(
    kind: str, target: str, instruction: str
) -> None:
    """A tile of one row was so wide that its vector was cut, and each product one of 32 bits."""
    A, B = te.placeholder((1, 64), kind, name="A"), te.placeholder((64, 512), "int8", name="B")
    C = ops.matmul(A, B, out_dtype="int32")
    asm = tl.build(default_schedule(C, target, [B]), [A, B, C], target).get_source("asm")
    assert instruction in asm and "vpmulld" not in asm


def test_rows_of_an_open_axis_among_others_are_tested_in_front_of_the_sums() -> None:
    """Where rows are one part of a fused loop, tiles of 30 rows of one vector kept a test for each row in the
    inner loop: 32 rows took twice as long as 30."""
    b, h, w = te.dim("b"), te.dim("h"), te.dim("w")
    x, y = te.placeholder((b, h, w, 48), name="x"), te.placeholder((48, 4, 12), name="y")
    out = ops.einsum("bhwc,cnd->bhwnd", x, y)
    text = str(tl.lower(default_schedule(out, AVX512), [x, y, out]))
    loops = re.split(r"\n *for c in ", text)[1:]
    assert len(loops) >= 9
    assert not any(line.lstrip().startswith("if ") for part in loops for line in sums_of(part))
    f = tl.compile([x, y, out])
    rng = np.random.default_rng(5)
    for shape in ((1, 1, 1), (0, 2, 3), (2, 1, 13), (1, 3, 14), (2, 2, 15), (1, 2, 31), (1, 1, 45)):
        a, k = (rng.integers(-3, 4, s).astype("float32") for s in ((*shape, 48), (48, 4, 12)))
        assert np.array_equal(f(a, k), np.einsum("bhwc,cnd->bhwnd", a, k))


def sums_of(part: str) -> list[str]:
    """The lines of a loop's body: deeper than the first line behind it that is not."""
    lines = part.splitlines()[1:]
    deep = len(lines[0]) - len(lines[0].lstrip())
    end = next((n for n, line in enumerate(lines) if len(line) - len(line.lstrip()) < deep), len(lines))
    return lines[:end]


@pytest.mark.parametrize(("batch", "n", "shares"), [(12, 197, 12), (3, 197, 6), (4, 700, 16)])
def test_products_as_many_for_each_thread_are_not_cut_in_columns(batch: int, n: int, shares: int) -> None:
    """Twelve products were halved for two threads, and the lines of their results written in two parts."""
    A, B = te.placeholder((batch, 197, 64), name="A"), te.placeholder((batch, n, 64), name="B")
    tensors = [A, B, ops.batch_matmul(A, B, transpose_b=True)]
    target = as_target(f"{AVX512} -num-cores=2")
    text = str(tl.lower(default_schedule(tensors[-1], target), tensors))
    assert [int(found) for found in re.findall(r"parallel\(0, (\d+)\)", text)] == [shares]
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-4, 5, (batch, rows, 64)).astype("float32") for rows in (197, n))
    assert np.array_equal(tl.compile(tensors)(a, b), a @ b.swapaxes(1, 2))


@pytest.mark.parametrize("t", ["float32", "float64"])
@pytest.mark.parametrize(
    "m, k, n", [(2, 2, 2), (3, 3, 3), (1, 5, 7), (5, 5, 5), (6, 2, 3), (4, 8, 8), (3, 1, 4), (2, 9, 3)]
)
def test_small_right_operands_by_columns_are_read_where_they_lie(m: int, k: int, n: int, t: str) -> None:
    """A copy of 3 × 3 was written in parts and read as a whole: three times the time of rows by rows."""
    A, B = te.placeholder((50, m, k), t, name="A"), te.placeholder((50, n, k), t, name="B")
    C = ops.relu(ops.batch_matmul(A, B, transpose_b=True))
    s = default_schedule(C, as_target("llvm -mcpu=znver5 -num-cores=1"))
    if 1 < k <= 8 and m > 1:
        assert "B.global" not in s.tree() and re.search(r"loop batch_matmul\S*\.k .*unroll", s.tree()), (
            s.tree()
        )
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-4, 5, [50, rows, k]).astype(t) for rows in (m, n))
    np.testing.assert_array_equal(tl.compile([A, B, C])(a, b), np.maximum(a @ b.swapaxes(1, 2), 0))


def test_right_operands_that_several_tiles_read_are_copied() -> None:
    A, B = te.placeholder((50, 40, 8), name="A"), te.placeholder((50, 8, 8), name="B")
    C = ops.batch_matmul(A, B, transpose_b=True)
    assert "B.global" in default_schedule(C, as_target("llvm -mcpu=znver5 -num-cores=1")).tree()
