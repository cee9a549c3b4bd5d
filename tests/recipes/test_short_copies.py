"""Copies of short rows: joined, repeated, rolled, padded and cut, several in a vector. Right on odd shapes, and
without gathers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tensorlang.te import reference
from tests.codegen.test_assembly import AVX2, AVX512
from tests.recipes.long import LONG

RNG = np.random.default_rng(11)
TARGETS = pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])


def rolled(x: te.Tensor, axis: int, by: int) -> te.Tensor:
    n = int(x.shape[axis])
    return te.compute(
        x.shape,
        lambda *i: x(*[(v + (n - by % n)) % n if d == axis else v for d, v in enumerate(i)]),
        name="o",
    )


COPIES = {
    "join": (2, lambda a, b: ops.concatenate([a, b], -1), lambda a, b: np.concatenate([a, b], -1)),
    "wider": (1, lambda a: ops.concatenate([a, a, a], -1), lambda a: np.concatenate([a, a, a], -1)),
    "stack": (2, lambda a, b: ops.stack([a, b], -1), lambda a, b: np.stack([a, b], -1)),
    "stack mid": (2, lambda a, b: ops.stack([a, b], 1), lambda a, b: np.stack([a, b], 1)),
    "rows": (2, lambda a, b: ops.concatenate([a, b], 1), lambda a, b: np.concatenate([a, b], 1)),
    "tile": (1, lambda a: ops.tile(a, (1, 2, 1)), lambda a: np.tile(a, (1, 2, 1))),
    "tile both": (1, lambda a: ops.tile(a, (2, 2, 3)), lambda a: np.tile(a, (2, 2, 3))),
    "repeat": (1, lambda a: ops.repeat(a, 2, 1), lambda a: np.repeat(a, 2, 1)),
    "repeat 3": (1, lambda a: ops.repeat(a, 3, 1), lambda a: np.repeat(a, 3, 1)),
    "roll": (1, lambda a: rolled(a, 1, 5), lambda a: np.roll(a, 5, 1)),
    "roll last": (1, lambda a: rolled(a, 2, 1), lambda a: np.roll(a, 1, 2)),
    "flip": (1, lambda a: ops.flip(a, 1), lambda a: a[:, ::-1]),
    "pad": (1, lambda a: ops.pad(a, ((0, 0), (1, 2), (1, 0))), lambda a: np.pad(a, ((0, 0), (1, 2), (1, 0)))),
    "edge": (
        1,
        lambda a: ops.pad(a, ((0, 0), (2, 2), (0, 0)), "edge"),
        lambda a: np.pad(a, ((0, 0), (2, 2), (0, 0)), "edge"),
    ),
}


@pytest.mark.each_value
@TARGETS
@pytest.mark.parametrize(
    "dtype", ["uint8", "float32", *[pytest.param(t, marks=LONG) for t in ("int16", "int64")]]
)
@pytest.mark.parametrize("shape", [(3, 40, 3), (2, 57, 7), (2, 33, 13), (1, 9, 31), (40, 2, 5)], ids=str)
@pytest.mark.parametrize("kind", list(COPIES))
def test_copies(kind, shape, dtype, target):
    count, declared, meant = COPIES[kind]
    arrays = [RNG.integers(0, 100, shape).astype(dtype) for _ in range(count)]
    xs = [te.placeholder(shape, dtype, f"x{k}") for k in range(count)]
    out, want = declared(*xs), np.ascontiguousarray(meant(*arrays))
    got = np.zeros_like(want)
    interpret(tl.lower(default_schedule(out, target), [*xs, out]), *arrays, got)
    assert np.array_equal(got, want)
    assert np.array_equal(tl.compile([*xs, out])(*arrays), want)


@pytest.mark.each_value
@TARGETS
@pytest.mark.parametrize("columns", [2, 3, 5, 7, 13, 31])
@pytest.mark.parametrize("kind", ["join", "stack", "stack mid", "tile both", "roll"])
def test_no_lane_is_gathered(kind, columns, target):
    """Which of two rows a lane is of is known: each is loaded as it lies."""
    if kind == "roll" and target == AVX2:
        pytest.skip("masks of bytes are dear there")
    count, declared, _ = COPIES[kind]
    xs = [te.placeholder((6, 192, columns), "uint8", f"x{k}") for k in range(count)]
    out = declared(*xs)
    asm = tl.build(default_schedule(out, target), [*xs, out], target=target).get_source("asm")
    assert "gather" not in asm and asm.count("vpinsrb") <= 2  # a single lane is put in its place


def test_an_open_number_of_rows_is_joined():
    n = te.dim("n", 0, 10_000)
    x, y = te.placeholder((n, 3), "uint8", "x"), te.placeholder((n, 2), "uint8", "y")
    f = tl.compile([x, y, ops.concatenate([x, y], 1)])
    for rows in (0, 1, 12, 13, 64, 65, 1000, 4097):
        a, b = (RNG.integers(0, 256, (rows, k)).astype("uint8") for k in (3, 2))
        assert np.array_equal(f(a, b), np.concatenate([a, b], 1))


@pytest.mark.each_value
@TARGETS
@pytest.mark.parametrize("dtype", ["uint8", "int16"])
@pytest.mark.parametrize(("shape", "axis"), [((300, 5), 0), ((3, 100, 5), 1), ((2, 70, 13), 1)], ids=str)
def test_places_of_extremes_of_few_columns(shape, axis, dtype, target):
    """What is found of each column is read again and again beside the rows, under the mask of the last
    ones."""
    x = te.placeholder(shape, dtype, "x")
    v, out = RNG.integers(0, 50, shape).astype(dtype), ops.argmax(x, axis)
    got = np.zeros(out_shape := np.argmax(v, axis).shape, "int64")
    interpret(tl.lower(default_schedule(out, target), [x, out]), v, got)
    assert out_shape == got.shape and np.array_equal(got, np.argmax(v, axis))
    assert np.array_equal(tl.compile([x, out])(v), np.argmax(v, axis))
    asm = tl.build(default_schedule(out, AVX512), [x, out], target=AVX512).get_source("asm")
    assert "tensorlang.gather" not in asm


@pytest.mark.each_value
@TARGETS
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((1, 9, 20, 3), (7, 31)),
        ((2, 8, 33, 4), (8, 50)),
        ((1, 40, 27, 3), (60, 12)),
        ((1, 33, 17, 2), (3, 301)),
    ],
    ids=str,
)
def test_colours_last_in_another_size(shape, size, mode, target):
    """Where each lane reads is a number, for the blocks of a row are written out."""
    x = te.placeholder(shape, name="x")
    out = ops.resize(x, size, mode=mode, layout="NHWC")
    v = RNG.integers(0, 64, shape).astype("float32")
    want = reference.evaluate([out], {x: v}, {})[0]
    func = tl.lower(default_schedule(out, target), [x, out])
    if not func.constants:  # a table of weights that a kernel brings along is none of its arguments
        got = np.zeros_like(want)
        interpret(func, v, got)
        assert np.allclose(got, want, atol=1e-5)
    assert np.allclose(tl.compile([x, out])(v), want, atol=1e-5)


def test_blocks_of_a_resized_row_are_written_out():
    x = te.placeholder((1, 60, 80, 3), "uint8", "x")
    out = ops.resize(x, (90, 131), layout="NHWC")
    asm = tl.build(default_schedule(out, AVX2), [x, out], target=AVX2).get_source("asm")
    assert asm.count("vpinsrb") < 64


VBMI = "llvm -mcpu=znver4"


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["uint8", "int16", "bool"])
@pytest.mark.parametrize("step", [5, 8, 12])
@pytest.mark.parametrize("rows", [64, 100, 257])
def test_columns_that_lie_far_apart(rows, step, dtype):
    """A piece of memory for some lanes, and a shuffle, up to the last element."""
    x = te.placeholder((rows, step), dtype, "x")
    first = te.compute((rows,), lambda i: x[i, step - 1], name="first")
    v = RNG.integers(0, 2, (rows, step)).astype(dtype)
    assert np.array_equal(tl.compile([x, first])(v), v[:, -1])
    asm = tl.build(default_schedule(first, VBMI), [x, first], target=VBMI).get_source("asm")
    assert (dtype == "int16" and step > 8) or asm.count("vpinsr") < 40
    many = te.compute((rows, 2), lambda i, c: x[i, c * (step - 2)], name="many")
    assert np.array_equal(tl.compile([x, many])(v), v[:, :: step - 2][:, :2])


@TARGETS
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
@pytest.mark.parametrize(("ways", "n"), [(2, 20), (2, 9)])
def test_rows_that_take_turns_are_loads_of_rows(dtype, target, ways, n):
    """Lanes of a few rows in turn were gathers: depth to space took five times as long."""
    x = te.placeholder((4, ways, 3, n), dtype, name="x")
    out = te.compute((4, 3, n * ways), lambda i, j, k: x[i, k % ways, j, k // ways], name="o")
    f = tl.compile([x, out], target=target)
    assert "gather" not in f.get_source("asm")
    a = RNG.integers(0, 99, (4, ways, 3, n)).astype(dtype)
    np.testing.assert_array_equal(f(a), a.transpose(0, 2, 3, 1).reshape(4, 3, -1))


MOVED = {
    "in another order": lambda x: ops.transpose(x, (1, 0, 2)),
    "flipped": lambda x: ops.flip(x, 2),
    "cut": lambda x: te.compute((4, 7, x.shape[2] - 5), lambda i, j, k: x[i, j + 1, k + 3], name="o"),
    "doubled": lambda x: te.compute((9, 4, x.shape[2]), lambda j, i, k: x[i, j, k] * 2, name="o"),
}


@TARGETS
@pytest.mark.parametrize("dtype", ["uint8", "float64"])
@pytest.mark.parametrize("columns", [65, 100, 257])
@pytest.mark.parametrize("kind", list(MOVED))
def test_rows_of_a_few_vectors_are_no_loop(kind, columns, dtype, target):
    """Rows of 65 doubles that are hardly more than moved took 1.4 to 1.7 times as long in one: between its
    instructions the processor saw fewer rows ahead."""
    x = te.placeholder((4, 9, columns), dtype, name="x")
    out = MOVED[kind](x)
    lowered = tl.lower(default_schedule(out, target), [x, out])
    a = RNG.integers(0, 9, (4, 9, columns)).astype(dtype)
    want = reference.evaluate([out], {x: a}, {})[0]
    got = np.zeros_like(want)
    interpret(lowered, a, got)
    assert np.array_equal(got, want)
    assert np.array_equal(tl.compile([x, out])(a), want)
    if dtype == "float64" and columns < 257:
        *_, innermost = (line for line in str(lowered).splitlines() if " for " in line)
        assert "i2" not in innermost and ".outer" not in innermost, lowered


@pytest.mark.each_value
@TARGETS
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("shape", [(201, 3), (64, 2), (7, 3), (3, 50, 3)], ids=str)
def test_a_margin_around_short_rows_is_asked_for_once(shape, dtype, target):
    """What stands at the ends of a row made each block of rows ask whether it is the first."""
    x = te.placeholder(shape, dtype, "x")
    out = ops.pad(x, ((1, 1),) * len(shape), constant_values=7)
    a = RNG.integers(0, 90, shape).astype(dtype)
    want = np.pad(a, 1, constant_values=7)
    got = np.zeros_like(want)
    interpret(tl.lower(default_schedule(out, target), [x, out]), a, got)
    assert np.array_equal(got, want) and np.array_equal(tl.compile([x, out])(a), want)
    if shape == (201, 3):
        text = tl.compile([x, out], target=target).get_source("ir")
        asked = re.findall(r"pad\[.*= if_then_else\((.*), x\[", text)
        assert any("i0" not in cond for cond in asked), text


@TARGETS
@pytest.mark.parametrize("shape", [(132, 437), (40, 31, 33)], ids=str)
def test_few_tensors_behind_one_another_are_written_out_for_each_vector(shape, target):
    """Each vector divided its number to tell which tensor it is of, and asked."""
    x, y = (te.placeholder(shape, "int16", name) for name in "xy")
    out = ops.stack([x, y], 0)
    a, b = (RNG.integers(0, 9, shape).astype("int16") for _ in "xy")
    lowered = tl.lower(default_schedule(out, target), [x, y, out])
    assert " if_then_else" not in str(lowered) and "outer.fused" not in str(lowered), lowered
    got = np.zeros((2, *shape), "int16")
    interpret(lowered, a, b, got)
    assert np.array_equal(got, np.stack([a, b]))
    assert np.array_equal(tl.compile([x, y, out])(a, b), got)
