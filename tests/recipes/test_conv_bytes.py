"""Convolutions of bytes in the recipe for convolutions: four channels at a time, whatever there are of them, in
copies that are made by vectors. Their answers and their machine code; floats are those of ``test_conv``."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tests.ops import images
from tests.ops.arrays import exact

RNG = np.random.default_rng(31)
VNNI = "llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu -num-cores=2"


def declared(kind, shape, weight, stride=1, padding=0, groups=1):
    """(x, w, z, conv_integer(x, w) with the zero point z of x)."""
    x, w = te.placeholder(shape, kind, name="x"), te.placeholder(weight, "int8", name="w")
    z = te.placeholder((), kind, name="z")
    return x, w, z, ops.conv_integer(x, w, z, None, stride, padding, groups=groups)


def some(kind, shape):
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    return RNG.integers(low, high + 1, shape).astype(kind)


def text_of(kind, shape, weight, which="asm", **options):
    """What is made of it for VNNI."""
    x, w, z, y = declared(kind, shape, weight, **options)
    f = tl.compile([x, w, z, y], target=VNNI, constants={w: some("int8", weight)})
    return f.get_source(which)


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize(
    "shape, weight, options",
    [
        ((1, 3, 19, 21), (20, 3, 7, 7), {"stride": 2, "padding": 3}),
        ((2, 1, 9, 8), (16, 1, 5, 5), {"padding": 2}),
        ((1, 30, 7, 9), (34, 30, 3, 3), {"padding": 1}),
        ((1, 17, 13, 11), (20, 17, 1, 1), {}),
        ((2, 33, 12, 9), (64, 33, 1, 1), {"stride": 2}),
        ((1, 2, 30), (16, 2, 3), {"padding": 1}),
        ((1, 10, 9, 9), (32, 5, 3, 3), {"groups": 2}),
        ((1, 64, 1, 1), (16, 64, 1, 1), {}),
    ],
    ids=str,
)
def test_channels_that_are_no_fours(kind, shape, weight, options):
    x, w, z, y = declared(kind, shape, weight, **options)
    data, values, zero = some(kind, shape), some("int8", weight), some(kind, ())
    one = len(shape) == 3  # an image of one row
    wide = [a.astype("int32")[:, :, None] if one else a.astype("int32") for a in (data, values)]
    how = {k: (0, v) if one and k == "padding" else v for k, v in options.items()}
    want = images.conv(wide[0] - int(zero), wide[1], **how).reshape([int(n) for n in y.shape])
    exact(tl.compile([x, w, z, y], constants={w: values})(data, zero), want, "int32")
    exact(tl.compile([x, w, z, y])(data, values, zero), want, "int32")


@pytest.mark.parametrize("channels", [1, 3, 30])
def test_the_last_channels_are_multiplied_with_zeros(channels):
    """Three channels of a first layer were multiplied one at a time, in 7.6 times as long."""
    asm = text_of("uint8", (1, channels, 32, 32), (32, channels, 7, 7), stride=2, padding=3)
    assert asm.count("vpdpbusd") >= 8
    assert asm.count("vpmulld") <= asm.count("vpdpbusd")  # the zero point times a sum of the weight


def test_bytes_of_pixels_are_copied_and_written_by_vectors():
    """The copy of an image with the channels of each pixel side by side read every byte by itself, and
    finished pixels were written so: 1×1 took 2 to 4 times as long."""
    x, w = (
        te.placeholder((1, 32, 32, 32), "uint8", name="x"),
        te.placeholder((32, 32, 1, 1), "int8", name="w"),
    )
    scales = [te.placeholder((), name=n) for n in ("xs", "ws", "ys")]
    zeros = [te.placeholder((), "uint8", name=n) for n in ("xz", "yz")]
    y = ops.qlinear_conv(x, scales[0], zeros[0], w, scales[1], None, scales[2], zeros[1])
    f = tl.compile([x, w, *scales, *zeros, y], target=VNNI, constants={w: some("int8", (32, 32, 1, 1))})
    asm = f.get_source("asm")
    assert "vpdpbusd" in asm and "vpunpcklbw" in asm
    assert "vpinsrb" not in asm and "vpextrb" not in asm


@pytest.mark.parametrize("taps", [1, 3])
def test_signs_are_turned_where_the_image_is_copied(taps):
    """They took a pass over memory of their own, in a loop that gathered bytes."""
    text = text_of("int8", (1, 32, 28, 28), (32, 32, taps, taps), "ir", padding=taps // 2)
    assert "bitwise_xor" in text and "conv_integer.data:" not in text
