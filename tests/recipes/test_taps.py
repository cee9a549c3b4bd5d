"""Depthwise convolutions of bytes: four taps of a row by one instruction, however many taps and pixels there
are. Their answers and their machine code."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.ops import images
from tests.ops.arrays import exact

RNG = np.random.default_rng(47)
VNNI = "llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu -num-cores=2"


def declared(kind, shape, weight, **options):
    """(x, w, z, conv_integer(x, w) with the zero point z of x), a group for each channel."""
    x, w = te.placeholder(shape, kind, name="x"), te.placeholder(weight, "int8", name="w")
    z = te.placeholder((), kind, name="z")
    return x, w, z, ops.conv_integer(x, w, z, None, groups=shape[1], **options)


def some(kind, shape):
    return RNG.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)


def text_of(shape, kernel, which="asm", **options):
    """What is made of it for VNNI."""
    weight = (shape[1], 1, *kernel)
    x, w, z, y = declared("uint8", shape, weight, **options)
    f = tl.compile([x, w, z, y], target=VNNI, constants={w: some("int8", weight)})
    return f.get_source(which)


SHAPES = [
    ((1, 5, 14, 14), (3, 3), {"padding": 1}),
    ((2, 3, 14, 14), (3, 3), {"padding": 1, "stride": 2}),
    ((1, 3, 7, 7), (3, 3), {"padding": 1}),
    ((1, 3, 4, 4), (3, 3), {"padding": 1, "stride": 2}),
    ((1, 2, 9, 37), (5, 5), {"padding": 2}),
    ((1, 2, 11, 75), (5, 5), {"padding": 2, "stride": 2}),
    ((1, 2, 20, 50), (3, 3), {"stride": 3}),
    ((1, 2, 20, 50), (7, 7), {"padding": 3, "stride": 3}),
    ((1, 3, 9, 20), (2, 2), {}),
    ((1, 3, 9, 21), (1, 4), {"stride": (1, 2)}),
    ((1, 2, 12, 33), (9, 9), {"padding": 4}),
    ((3, 2, 40), (3,), {"padding": 1}),
    ((1, 2, 5, 6, 18), (3, 3, 3), {"padding": 1}),
]


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("shape, kernel, options", SHAPES, ids=str)
def test_answers(kind, shape, kernel, options):
    weight = (shape[1], 1, *kernel)
    x, w, z, y = declared(kind, shape, weight, **options)
    data, values, zero = some(kind, shape), some("int8", weight), some(kind, ())
    want = images.conv(
        data.astype("int32") - int(zero), values.astype("int32"), groups=shape[1], **options
    ).astype("int32")
    exact(tl.compile([x, w, z, y], constants={w: values})(data, zero), want, "int32")
    exact(tl.compile([x, w, z, y])(data, values, zero), want, "int32")


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_the_interpreter_agrees(stride):
    x, w, z, y = declared("uint8", (1, 2, 9, 19), (2, 1, 3, 3), padding=1, stride=stride)
    data, values, zero = some("uint8", (1, 2, 9, 19)), some("int8", (2, 1, 3, 3)), some("uint8", ())
    func = tl.lower(default_schedule(y, VNNI, constants=[w]), [x, w, z, y])
    got = np.zeros([int(n) for n in y.shape], "int32")
    interpret(func, data, values, zero, got)
    wide = data.astype("int32") - int(zero)
    exact(got, images.conv(wide, values.astype("int32"), padding=1, stride=stride, groups=2), "int32")


@pytest.mark.parametrize("size", [7, 14, 28, 56])
@pytest.mark.parametrize("kernel, stride", [(3, 1), (3, 2), (5, 1), (5, 2), (3, 3)])
def test_four_taps_are_one_instruction(kernel, stride, size):
    """Bytes were made 32 bits and multiplied one tap at a time, in twice the time; at stride 2 the taps of
    neighbours were picked apart by six instructions for each."""
    asm = text_of((1, 32, size, size), (kernel, kernel), stride=stride, padding=kernel // 2)
    products = asm.count("vpdpbusd")
    assert products >= kernel * -(-kernel // 4)
    assert asm.count("vpmulld") <= 1 and "vpmovzxbd" not in asm  # the zero point times the weight's sum


def test_rows_with_a_margin_are_copied_as_one_vector():
    text = text_of((1, 32, 28, 28), (3, 3), "ir", padding=1)
    copies = [line for line in text.splitlines() if line.strip().startswith("conv_integer.pad[")]
    assert len(copies) == 1 and "0 : 32]" in copies[0]


def test_taps_of_large_windows_are_loops():
    text = text_of((1, 8, 64, 64), (31, 31), "ir", padding=15)
    assert len(text.splitlines()) < 2000


def test_other_taps_are_multiplied_one_by_one():
    """Of pixels that lie apart, and of a processor without the instruction."""
    assert "vpdpbusd" not in text_of((1, 8, 28, 28), (3, 3), padding=2, dilation=2)
    x, w, z, y = declared("uint8", (1, 8, 28, 28), (8, 1, 3, 3), padding=1)
    f = tl.compile([x, w, z, y], target="llvm -mcpu=haswell", constants={w: some("int8", (8, 1, 3, 3))})
    assert "vpdpbusd" not in f.get_source("asm")
