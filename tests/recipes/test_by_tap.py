"""Convolutions of few outputs by the products of each pixel with all taps: which ones, and that answers stay."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis import tap_products_of
from tensorlang.analysis.cost_known import KNOWN
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import by_tap, default_schedule
from tensorlang.target import Target

ZEN5 = Target.parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver5 -num-cores=1")
DRAW = np.random.default_rng(3)


def values(*shape):
    """Small whole numbers, whose sums are the same in any order."""
    return DRAW.integers(-4, 5, shape).astype("float32")


def taken(op, image, weight, constants=True, mcpu="znver5", **options):
    x, w = te.placeholder(image, name="x"), te.placeholder(weight, name="w")
    y = op(x, w, **options)
    target = Target.parse(f"llvm -mtriple=x86_64-linux-gnu -mcpu={mcpu} -num-cores=1")
    return by_tap.by_tap(y.op, target, [w] if constants else []) is not None


@pytest.fixture(autouse=True)
def costs(monkeypatch):
    """Decisions are by the tables, whatever runs the tests."""
    monkeypatch.setattr(by_tap, "cost_of", lambda target: KNOWN[target.mcpu])


@pytest.mark.parametrize(
    ("op", "image", "weight", "options", "expected"),
    [
        # a heat map of many channels
        (ops.conv2d, (1, 1024, 14, 14), (1, 1024, 3, 3), {"padding": 1}, True),
        (ops.conv2d, (4, 512, 10, 10), (3, 512, 3, 3), {"padding": 1}, True),
        (ops.conv2d, (8, 1024, 3, 3), (2, 1024, 5, 5), {"padding": 2, "stride": 2}, True),
        # tiles of many outputs read each vector for all of them
        (ops.conv2d, (1, 64, 28, 28), (64, 64, 3, 3), {"padding": 1}, False),
        # of few channels there are more products than pixels
        (ops.conv2d, (1, 3, 56, 56), (8, 3, 3, 3), {"padding": 1}, False),
        # and with a stride three of four are of pixels that no tap of an output meets
        (ops.conv2d, (1, 128, 28, 28), (12, 128, 3, 3), {"padding": 1, "stride": 2}, False),
        (ops.conv2d, (1, 64, 14, 14), (1, 64, 1, 1), {}, False),
        (ops.conv2d, (1, 64, 14, 14), (64, 1, 3, 3), {"groups": 64}, False),
        (ops.conv_transpose2d, (1, 1024, 8, 8), (1024, 1, 3, 3), {"stride": 2, "padding": 1}, True),
        (ops.conv_transpose2d, (1, 512, 10, 10), (512, 12, 4, 4), {"stride": 2, "padding": 1}, True),
        (ops.conv_transpose2d, (1, 24, 40, 40), (24, 2, 4, 4), {"stride": 2, "padding": 1}, False),
        (ops.conv_transpose2d, (1, 256, 7, 7), (256, 128, 4, 4), {"stride": 2, "padding": 1}, False),
        # more outputs than lanes, which leave vectors of them empty, and so do rows of few pixels
        (ops.conv_transpose2d, (1, 320, 10, 10), (320, 36, 4, 4), {"stride": 2, "padding": 1}, True),
        (ops.conv_transpose2d, (4, 320, 4, 4), (320, 24, 4, 4), {"stride": 2}, True),
        # and what tiles of outputs have less of
        (ops.conv_transpose2d, (2, 96, 3, 3), (96, 56, 4, 4), {"stride": 2, "padding": 1}, False),
    ],
)
def test_which_are_computed_by_tap(op, image, weight, options, expected):
    assert taken(op, image, weight, **options) is expected


def test_only_known_weights_where_it_was_measured():
    heat_map = ops.conv2d, (1, 1024, 14, 14), (1, 1024, 3, 3)
    assert taken(*heat_map, padding=1)
    assert not taken(*heat_map, padding=1, constants=False)
    assert not taken(*heat_map, padding=1, mcpu="znver4")


def test_the_image_is_read_where_it_lies(monkeypatch):
    """In tiles of its pixels, and each element once for all taps: no copy with a margin."""
    monkeypatch.setattr(by_tap, "_gains", lambda *_: True)
    x, w = te.placeholder((1, 256, 14, 14), name="x"), te.placeholder((1, 256, 3, 3), name="w")
    f = tl.compile([x, ops.conv2d(x, w, padding=1)], ZEN5, constants={w: values(1, 256, 3, 3)})
    stages = f.explain().stages
    assert "recipes.pointwise" in stages["conv2d.products"] and "conv2d.pad" not in stages


def direct(image, weight, stride, padding, dilation, transposed=0):
    """The sums as they are declared; ``transposed``: by a weight [I, O, …], with so much output padding."""
    places = range(image.ndim - 2)
    if transposed is not None:
        spread = np.zeros(
            (*image.shape[:2], *[(image.shape[d + 2] - 1) * stride + 1 for d in places]), "float32"
        )
        spread[(..., *[slice(None, None, stride) for _ in places])] = image
        weight = np.flip(weight.swapaxes(0, 1), tuple(d + 2 for d in places))
        sides = [dilation * (weight.shape[d + 2] - 1) - padding for d in places]
        image, stride = np.pad(spread, [(0, 0), (0, 0), *[(n, n + transposed) for n in sides]]), 1
    else:
        image = np.pad(image, [(0, 0), (0, 0), *[(padding, padding) for _ in places]])
    out = [(image.shape[d + 2] - dilation * (weight.shape[d + 2] - 1) - 1) // stride + 1 for d in places]
    total = 0
    for tap in itertools.product(*[range(weight.shape[d + 2]) for d in places]):
        at = [
            slice(t * dilation, t * dilation + (n - 1) * stride + 1, stride)
            for t, n in zip(tap, out, strict=True)
        ]
        total = total + np.einsum("nc...,oc->no...", image[(..., *at)], weight[(..., *tap)])
    return total


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize(
    ("kind", "image", "outputs", "taps", "stride", "padding", "dilation", "extra"),
    [
        ("conv", (1, 40, 9, 9), 1, (3, 3), 1, 1, 1, None),
        ("conv", (2, 17, 7, 12), 3, (3, 5), 1, 0, 1, None),
        ("conv", (3, 20, 5, 5), 2, (5, 5), 2, 2, 1, None),
        ("conv", (1, 33, 11, 8), 4, (2, 3), 2, 1, 2, None),
        ("conv", (2, 24, 31), 2, (5,), 1, 2, 1, None),
        ("conv", (1, 12, 4, 5, 6), 2, (3, 2, 3), 1, 1, 1, None),
        ("transposed", (1, 40, 6, 6), 1, (3, 3), 2, 1, 1, 0),
        ("transposed", (2, 19, 5, 7), 3, (4, 4), 2, 1, 1, 0),
        ("transposed", (1, 16, 4, 4), 2, (3, 3), 2, 1, 1, 1),
        ("transposed", (1, 16, 6, 5), 2, (3, 3), 1, 1, 1, 0),
        ("transposed", (2, 16, 3, 4), 1, (5, 5), 3, 0, 1, 0),
        ("transposed", (1, 21, 4, 3), 2, (3, 3), 2, 1, 2, 0),
        ("transposed", (2, 18, 9), 2, (4,), 2, 1, 1, 0),
    ],
)
def test_answers_stay(kind, image, outputs, taps, stride, padding, dilation, extra, finished, monkeypatch):
    monkeypatch.setattr(by_tap, "_gains", lambda *_: True)
    monkeypatch.setattr(by_tap, "cost_of", lambda target: KNOWN["znver5"])
    channels, rank = image[1], len(image) - 2
    shape = (outputs, channels, *taps) if kind == "conv" else (channels, outputs, *taps)
    x, w, b = (te.placeholder(n, name=name) for n, name in ((image, "x"), (shape, "w"), ((outputs,), "b")))
    name = f"conv{'_transpose' if extra is not None else ''}{rank}d"
    more = {} if extra is None else {"output_padding": extra}
    y = getattr(ops, name)(
        x, w, *([b] if finished else []), stride=stride, padding=padding, dilation=dilation, **more
    )
    y = ops.relu(y) if finished else y
    given, weight, bias = values(*image), values(*shape), values(outputs)
    known = {w: weight, b: bias} if finished else {w: weight}
    f = tl.compile([x, y], constants=known)
    assert f"{name}.products" in f.explain().stages
    want = direct(given, weight, stride, padding, dilation, extra)
    if finished:
        want = np.maximum(want + bias.reshape(-1, *[1] * rank), 0)
    np.testing.assert_array_equal(f(given), want)


@pytest.mark.parametrize("transposed", [False, True])
def test_the_interpreter_agrees(transposed, monkeypatch):
    monkeypatch.setattr(by_tap, "_gains", lambda *_: True)
    shape = (6, 2, 3, 3) if transposed else (2, 6, 3, 3)
    x, w = te.placeholder((1, 6, 5, 4), name="x"), te.placeholder(shape, name="w")
    y = ops.conv_transpose2d(x, w, stride=2, padding=1) if transposed else ops.conv2d(x, w, padding=1)
    made = by_tap.by_tap(y.op, ZEN5, [w])
    given, weight = values(1, 6, 5, 4), values(*shape)
    want = direct(given, weight, 2 if transposed else 1, 1, 1, 0 if transposed else None)
    got = np.zeros(want.shape, "float32")
    interpret(tl.lower(default_schedule(made, ZEN5, constants=[w]), [x, w, made]), given, weight, got)
    np.testing.assert_array_equal(got, want)


def test_what_is_no_such_convolution():
    x, w = te.placeholder((1, 8, 6, 6), name="x"), te.placeholder((4, 4, 3, 3), name="w")
    assert tap_products_of(ops.conv2d(x, w, groups=2).op) is None
    n = te.size_var("n")
    x, w = te.placeholder((1, 8, n, 6), name="x"), te.placeholder((4, 8, 3, 3), name="w")
    assert tap_products_of(ops.conv2d(x, w).op) is None
    a, b = te.placeholder((8, 8), name="a"), te.placeholder((8, 8), name="b")
    assert tap_products_of(ops.matmul(a, b).op) is None
