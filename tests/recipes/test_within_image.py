"""Convolutions many taps of which read the margin, in parts that leave those out: which ones, how they are
cut, and that answers stay."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import within_image
from tensorlang.target import Target
from tests.ops import images

DRAW = np.random.default_rng(17)
ZEN5 = Target.parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver5 -num-cores=1")
WAYS = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}


def values(*shape):
    """Small whole numbers, whose sums are the same in any order."""
    return DRAW.integers(-4, 5, shape).astype("float32")


def declared(image, weight, **options):
    x, w = te.placeholder(image, name="x"), te.placeholder(weight, name="w")
    return x, w, WAYS[len(image) - 2](x, w, **options)


def taken(image, weight, constants=True, **options):
    _, w, y = declared(image, weight, **options)
    return within_image.within_image(y.op, ZEN5, [w] if constants else []) is not None


@pytest.mark.parametrize(
    ("image", "weight", "options", "expected"),
    [
        # branches of a network that labels pixels
        ((1, 512, 33, 33), (256, 512, 3, 3), {"padding": 12, "dilation": 12}, True),
        ((1, 512, 33, 33), (256, 512, 3, 3), {"padding": 18, "dilation": 18}, True),
        # kernels nearly as deep as the volume
        ((1, 3, 8, 64, 64), (64, 3, 7, 7, 7), {"padding": 3, "stride": 2}, True),
        ((1, 64, 2, 32, 32), (32, 64, 3, 3, 3), {"padding": 1, "stride": (1, 2, 2)}, True),
        ((1, 64, 56, 56), (64, 64, 3, 3), {"padding": 2, "dilation": 2}, False),
        ((1, 512, 33, 33), (256, 512, 3, 3), {"dilation": 12}, False),  # no margin
        ((1, 512, 33, 33), (256, 256, 3, 3), {"padding": 18, "dilation": 18, "groups": 2}, False),
    ],
    ids=str,
)
def test_where_enough_taps_read_the_margin(image, weight, options, expected):
    assert taken(image, weight, **options) is expected


@pytest.mark.parametrize(
    ("image", "weight", "options", "expected"),
    [
        ((1, 3, 4, 112, 112), (64, 3, 7, 7, 7), {"padding": 3, "stride": (1, 2, 2)}, True),
        ((1, 64, 33, 33), (128, 64, 3, 3), {"padding": 12, "dilation": 12}, True),
        ((4, 48, 4, 4), (2048, 48, 3, 3), {"padding": 3, "dilation": 3}, False),  # a small image
        ((1, 64, 2, 14, 14), (64, 64, 3, 3, 3), {"padding": 1}, False),  # filtered as a whole
        ((1, 512, 33, 33), (256, 512, 3, 3), {"padding": 18, "dilation": 18}, True),
    ],
    ids=str,
)
def test_of_a_weight_that_comes_with_the_call(image, weight, options, expected):
    assert taken(image, weight, constants=False, **options) is expected


def test_two_threads_do_not_begin_more_loops_than_it_saves():
    """16 to 32 channels of 2 × 32 × 32 in two parts took 1.24 of the time on two threads."""
    _, _, y = declared((1, 16, 2, 32, 32), (32, 16, 3, 3, 3), padding=1, stride=(1, 2, 2))
    two = Target.parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver5 -num-cores=2")
    assert within_image.within_image(y.op, ZEN5, []) is not None
    assert within_image.within_image(y.op, two, []) is None


def test_bands_see_the_same_taps():
    """Of 33 rows at a dilation of 12 the first 12 see the last two of three taps, the last 12 the first two."""
    _, w, y = declared((1, 512, 33, 33), (256, 512, 3, 3), padding=12, dilation=12)
    known = within_image._known(y.op)
    assert within_image._bands(known, 0) == [(0, 12, 1, 3), (12, 21, 0, 3), (21, 33, 0, 2)]


def test_no_part_reads_more_than_it_sees():
    _, w, y = declared((1, 512, 33, 33), (256, 512, 3, 3), padding=18, dilation=18)
    made = within_image.within_image(y.op, ZEN5, [w])
    parts = [t.op for t in made.op.input_tensors]
    assert sorted(tuple(int(a.extent) for a in p.reduce_axis[1:]) for p in parts) == [(2, 2)] * 4
    assert sorted(tuple(map(int, p.outputs[0].shape[2:])) for p in parts) == [
        (15, 15),
        (15, 18),
        (18, 15),
        (18, 18),
    ]


CASES = [
    ((2, 5, 9, 11), (18, 5, 3, 3), {"padding": 5, "dilation": 5}),
    ((1, 6, 10, 10), (17, 6, 5, 5), {"padding": 6, "dilation": 3}),
    ((1, 4, 7, 9), (16, 4, 7, 5), {"padding": ((3, 2), (1, 3)), "stride": 2}),
    ((1, 3, 4, 12, 12), (16, 3, 5, 7, 7), {"padding": (2, 3, 3), "stride": (1, 2, 2)}),
    ((2, 8, 2, 9, 9), (20, 8, 3, 3, 3), {"padding": 1, "stride": (1, 2, 2)}),
    ((1, 8, 6, 6, 6), (16, 8, 3, 3, 3), {"padding": 2, "dilation": 2}),
    ((1, 4, 3, 8, 8), (16, 4, 3, 3, 3), {"padding": ((4, 0), (1, 1), (1, 1)), "dilation": (2, 1, 1)}),
]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("image", "weight", "options"), CASES, ids=str)
def test_answers_stay(image, weight, options, packed, monkeypatch):
    """Whatever the table says, with a bias and a maximum behind."""
    monkeypatch.setattr(within_image, "GAIN", 1e9)
    monkeypatch.setattr(within_image, "STRIDED", 1e9)
    monkeypatch.setattr(within_image, "MOST", 64)
    monkeypatch.setattr(within_image, "MOST_AT_CALL", 64)
    monkeypatch.setattr(within_image, "PIXELS_AT_CALL", 1)
    x, w, y = declared(image, weight, **options)
    a, k, c = values(*image), values(*weight), values(weight[0])
    b = te.placeholder((weight[0],), name="b")
    known = [w] if packed else []
    assert within_image.within_image(y.op, ZEN5, known) is not None
    shape = (1, weight[0], *[1] * (len(image) - 2))
    whole = ops.relu(ops.add(y, ops.reshape(b, shape)))
    want = np.maximum(images.conv(a, k, c, **options), 0)
    if packed:
        got = tl.compile([x, b, whole], constants={w: k})(a, c)
    else:
        got = tl.compile([x, w, b, whole])(a, k, c)
    np.testing.assert_array_equal(got, want)
    (reference,) = te.reference.evaluate([within_image.within_image(y.op, ZEN5, known)], {x: a, w: k})
    np.testing.assert_array_equal(reference, images.conv(a, k, **options))


def test_places_that_see_no_tap_are_zero(monkeypatch):
    """Behind the margin of one side lie places all taps of which read it."""
    monkeypatch.setattr(within_image, "GAIN", 1e9)
    monkeypatch.setattr(within_image, "STRIDED", 1e9)
    x, w, y = declared((1, 16, 8, 20), (32, 16, 3, 3), padding=((9, 9), (1, 1)), dilation=(2, 1))
    a, k = values(1, 16, 8, 20), values(32, 16, 3, 3)
    want = images.conv(a, k, padding=((9, 9), (1, 1)), dilation=(2, 1))
    assert not want[:, :, 0].any()
    np.testing.assert_array_equal(tl.compile([x, y], constants={w: k})(a), want)
