"""Runs of memory that one instruction copies: where it is written, and that what it writes is right wherever
a run begins and ends."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.target import host

ZEN5, ZEN4 = (
    f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu} -num-cores=1" for cpu in ("znver5", "znver4")
)
here = pytest.mark.skipif(not host.triple().startswith("x86_64"), reason="LLVM has no assembler for x86 here")


def text(tensors: list[te.Tensor], target: str = ZEN5) -> str:
    return tl.compile(tensors, target).get_source("asm")


def joined(shapes: list[tuple[te.ExprLike, ...]], axis: int = 0, dtype: str = "float32") -> list[te.Tensor]:
    xs = [te.placeholder(shape, dtype, f"x{k}") for k, shape in enumerate(shapes)]
    return [*xs, ops.concatenate(xs, axis)]


@here
def test_each_part_of_a_join_is_a_run() -> None:
    """It was a question for each vector which of the tensors it is of."""
    tensors = joined([(168_390,), (146_185,), (163_092,), (100_003,)])
    assert text(tensors).count("rep") == 4
    assert "movsb" not in text(tensors, ZEN4)


@here
@pytest.mark.parametrize("behind", [1, 2, 3])
def test_parts_of_open_sizes_are_runs(behind: int) -> None:
    """Several open axes behind the one that is joined were divided by, and offsets of third parts gathered."""
    rest = [te.dim(f"c{k}") for k in range(behind)]
    asm = text(joined([(te.dim(f"n{k}"), *rest) for k in range(4)], dtype="float64"))
    assert asm.count("movsb") == 4 and "gather" not in asm and "idiv" not in asm


@here
def test_short_runs_and_what_is_computed_stay_vectors() -> None:
    assert "movsb" not in text(joined([(300,), (500,)]))
    x = te.placeholder((1 << 20,), name="x")
    assert "movsb" not in text([x, ops.relu(x)])
    bools = te.placeholder((1 << 20,), "bool", "b")
    assert "movsb" not in text([bools, te.compute((1 << 20,), lambda i: bools[i], "o")])  # read as 0 or 1
    assert "movsb" in text([x, te.compute((1 << 20,), lambda i: x[i], "o")])
    assert "movsb" not in text([x, te.compute((1 << 20,), lambda i: x[(1 << 20) - 1 - i], "o")])


@here
def test_some_lines_of_a_tensor_are_one_run() -> None:
    x = te.placeholder((769, 586), name="x")
    assert "movsb" in text([x, ops.split(x, [384])[1]])
    y = te.placeholder((1000, 512), name="y")  # lines that are whole vectors
    assert "movsb" in text([y, ops.split(y, [384])[1]])


def begun(shape: tuple[int, ...], dtype: str, offset: int) -> np.ndarray:
    """Numbers in an array that begins so many elements behind a boundary."""
    n, each = int(np.prod(shape)), np.dtype(dtype).itemsize
    raw = np.zeros(n * each + 64 + offset * each, np.uint8)
    first = -raw.ctypes.data % 64 + offset * each
    out = raw[first : first + n * each].view(dtype).reshape(shape)
    out[...] = np.arange(n).reshape(shape) % 101
    return out


@pytest.mark.each_value
@pytest.mark.parametrize("open_size", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "float64"])
@pytest.mark.parametrize(
    "rows, behind",
    [
        ((4096, 4097, 1), (7,)),
        ((5, 0, 3, 9), (1031,)),
        ((17, 31, 2, 5, 8, 1, 3, 40), (13, 5, 3)),
        ((0, 0, 3), (64, 96)),
        ((100_003, 65_537), ()),
        (tuple(range(1, 12)), (211,)),
        ((0, 0), (5,)),
    ],
    ids=str,
)
def test_joins_are_right_wherever_tensors_begin(
    rows: tuple[int, ...], behind: tuple[int, ...], dtype: str, open_size: bool
) -> None:
    shapes = [(n, *behind) for n in rows]
    rest = [te.dim(f"c{k}") for k in range(len(behind))]
    declared = [(te.dim(f"n{k}"), *rest) for k in range(len(rows))] if open_size else shapes
    f = tl.compile(joined(declared, dtype=dtype))
    for offset in (0, 1, 3):
        data = [begun(shape, dtype, (offset + k) % 5) for k, shape in enumerate(shapes)]
        np.testing.assert_array_equal(f(*data), np.concatenate(data))


@pytest.mark.each_value
@pytest.mark.parametrize("open_size", [False, True])
@pytest.mark.parametrize("shape", [(769, 586), (64, 4096), (3, 100_000), (40, 33, 50)], ids=str)
def test_slices_are_right(shape: tuple[int, ...], open_size: bool) -> None:
    x = te.placeholder([te.dim(f"n{k}") for k in range(len(shape))] if open_size else shape, name="x")
    data = begun(shape, "float32", 1)
    for begin, end in ((1, None), (None, -1), (2, -1)):
        f = tl.compile([x, ops.strided_slice(x, [begin], [end])])
        np.testing.assert_array_equal(f(data), data[begin:end])
        f = tl.compile([x, ops.strided_slice(x, [begin], [end], axes=[1])])
        np.testing.assert_array_equal(f(data), data[:, begin:end])
