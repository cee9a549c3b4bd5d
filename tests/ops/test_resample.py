"""resample against the formulas of its rules in numpy, place by place: modes, coordinates, roundings,
margins, antialiasing, symbolic sizes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import compiled, exact, near, sample

ops = tl.ops
COORDINATES = [
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
]


def place(i, n, m, scale, coordinates, part):
    """Where place ``i`` of ``m`` lies among ``n`` elements."""
    width = scale * n
    if coordinates == "align_corners":
        return 0.0 if width == 1 else i * (n - 1) / (width - 1)
    if coordinates == "asymmetric":
        return i / scale
    if coordinates == "tf_crop_and_resize":
        begin, end = part
        inner = (end - begin) * (n - 1) / 2 if width == 1 else i * (end - begin) * (n - 1) / (width - 1)
        return inner + begin * (n - 1)
    if coordinates == "pytorch_half_pixel" and m == 1:
        return -0.5
    half = (i + 0.5) / scale - 0.5
    if coordinates == "tf_half_pixel_for_nn":
        return half + 0.5
    return half + n / 2 * (1 - m / width) if coordinates == "half_pixel_symmetric" else half


def kernel(u, mode, a):
    u = abs(u)
    if mode == "linear":
        return max(1 - u, 0.0)
    if u <= 1:
        return (a + 2) * u**3 - (a + 3) * u**2 + 1
    return a * (u**3 - 5 * u**2 + 8 * u - 4) if u < 2 else 0.0


ROUND = {
    "round_prefer_floor": lambda x: math.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: math.floor(x + 0.5),
    "floor": math.floor,
    "ceil": math.ceil,
}


def line(
    a, m, scale, mode, coordinates, rounding="floor", part=(0, 1), exclude=False, antialias=False, fill=0.0
):
    """The last dimension of ``a`` in the size ``m``."""
    n, out = a.shape[-1], np.zeros((*a.shape[:-1], m))
    for i in range(m):
        x = place(i, n, m, scale, coordinates, part)
        if coordinates == "tf_crop_and_resize" and not 0 <= x <= n - 1:
            out[..., i] = fill
        elif mode == "nearest":
            out[..., i] = a[..., min(max(ROUND[rounding](x), 0), n - 1)]
        else:
            shrink = min(scale, 1.0) if antialias else 1.0
            reach = math.ceil((1 if mode == "linear" else 2) / shrink) + 1
            total = weights = 0.0
            for k in range(math.floor(x) - reach, math.floor(x) + reach + 1):
                w = kernel((k - x) * shrink, mode, -0.75)
                if not exclude or 0 <= k < n:
                    total, weights = total + w * a[..., min(max(k, 0), n - 1)], weights + w
            out[..., i] = total / weights
    return out


def both(a, sizes, scales, *args, parts=((0, 1), (0, 1)), **options):
    """The last two dimensions."""
    first = line(a.astype("float64"), sizes[1], scales[1], *args, part=parts[1], **options)
    turned = line(np.swapaxes(first, -1, -2), sizes[0], scales[0], *args, part=parts[0], **options)
    return np.swapaxes(turned, -1, -2)


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_nearest(coordinates):
    a = sample((2, 5, 7), "float32")
    x = te.placeholder(a.shape, name="x")
    roi = [0.25, 0.0, 1.0, 1.25]
    outs = [
        ops.resample(x, s, c, (1, 2), "nearest", coordinates, r, roi=roi, extrapolation_value=9)
        for r in ROUND
        for s, c in (((9, 4), None), (None, (1.5, 0.6)))
    ]
    got = iter(compiled(outs, {x: a}))
    for rounding in ROUND:
        for sizes, scales in (((9, 4), (9 / 5, 4 / 7)), ((7, 4), (1.5, 0.6))):
            want = both(
                a, sizes, scales, "nearest", coordinates, rounding, parts=((0.25, 1), (0, 1.25)), fill=9
            )
            exact(next(got), want.astype("float32"), "float32")


@pytest.mark.each_value
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_interpolation(coordinates, mode):
    a = sample((2, 5, 7), "float32")
    x = te.placeholder(a.shape, name="x")
    crop = coordinates == "tf_crop_and_resize"
    roi, parts = [0.25, 0.0, 1.0, 1.25], ((0.25, 1), (0, 1.25))
    ways = [{}, {"antialias": True}, {"exclude_outside": True}] if not crop else [{}]
    outs = [
        ops.resample(
            x, s, c, (-2, -1), mode, coordinates, roi=roi if crop else None, extrapolation_value=9, **w
        )
        for w in ways
        for s, c in (((9, 3), None), (None, (0.5, 1.5)))
    ]
    got = iter(compiled(outs, {x: a}))
    for w in ways:
        for sizes, scales in (((9, 3), (9 / 5, 3 / 7)), ((2, 10), (0.5, 1.5))):
            options = {"exclude": w.get("exclude_outside", False), "antialias": w.get("antialias", False)}
            want = both(a, sizes, scales, mode, coordinates, parts=parts, fill=9, **options)
            near(next(got), want, "float32", 8, 3e-6)


def test_symbolic_sizes_and_other_types():
    h, w, m = te.dim("h", 1, 16), te.dim("w", 1, 16), te.dim("m", 1, 16)
    x, y = te.placeholder((1, h, w), name="x"), te.placeholder((m,), "uint8", name="y")
    outs = [
        ops.resample(x, (m, w * 2), None, (1, 2), "cubic", antialias=True),
        ops.resample(x, None, (2.0, 0.5), (1, 2), "linear"),
        ops.resample(y, (5,), mode="nearest", coordinates="asymmetric", rounding="floor"),
    ]
    f = tl.compile([x, y, *outs])
    for height, width, rows in ((5, 7, 3), (2, 4, 9)):
        a, b = sample((1, height, width), "float32"), sample((rows,), "uint8", 1)
        cubic, linear, bytes_ = f(a, b)
        want = both(a, (rows, 2 * width), (rows / height, 2), "cubic", "half_pixel", antialias=True)
        near(cubic, want, "float32", 8, 3e-6)
        want = both(a, (2 * height, width // 2), (2, 0.5), "linear", "half_pixel")
        near(linear, want, "float32", 8, 3e-6)
        exact(bytes_, line(b, 5, 5 / rows, "nearest", "asymmetric").astype("uint8"), "uint8")


def test_a_size_that_stays_costs_nothing():
    x = te.placeholder((2, 3), name="x")
    assert ops.resample(x, (2, 5)).op.input_tensors == (x,)
    a = sample((2, 3), "float32")
    exact(compiled(ops.resample(x, None, (1.0, 1.0)), {x: a}), a, "float32")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.resample(x, (3, 3), mode="lanczos"), "'nearest', 'linear', 'cubic'"),
        (lambda x: ops.resample(x, (3, 3), coordinates="corner"), "'half_pixel'"),
        (lambda x: ops.resample(x, (3, 3), rounding="up"), "'ceil'"),
        (lambda x: ops.resample(x), "neither of size and scales"),
        (lambda x: ops.resample(x, (3, 3), (1.0, 2.0)), "both of size and scales"),
        (lambda x: ops.resample(x, (3,)), "2 are needed"),
        (lambda x: ops.resample(x, None, (0.0, 1.0)), "a scale of 0.0"),
        (lambda x: ops.resample(x, (3, 3), axes=(0, -2)), "names a dimension twice"),
    ],
)
def test_refusals(call, text):
    with pytest.raises(tl.DeclareError, match=text):
        call(te.placeholder((4, 5), name="x"))


@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric"])
@pytest.mark.parametrize("open_size", [False, True])
def test_an_image_of_whole_times_the_size_reads_no_table_of_places(coordinates, open_size):
    """Each element stands side by side so many times, which neighbours in a vector are known by."""
    a = sample((2, 5, 7), "float32")
    h = te.var("h") if open_size else 5
    x = te.placeholder((2, h, 7), name="x")
    rounding = "floor" if coordinates == "asymmetric" else "round_prefer_floor"
    y = ops.resample(x, (h * 2, 21), None, (1, 2), "nearest", coordinates, rounding)
    assert not any(
        name.startswith("resample.at") for name in (s.name for s in te.create_schedule(y.op).stages)
    )
    exact(compiled(y, {x: a}), a.repeat(2, 1).repeat(3, 2), "float32")


COORDINATES = ("half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn", "pytorch_half_pixel")


@pytest.mark.each_value
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_places_of_known_sizes_are_whole_numbers_and_no_table(coordinates, mode):
    """By them it is known which neighbours the lanes of a vector read."""
    for n, to in ((56, 90), (7, 40), (61, 23), (5, 64), (1, 3), (9, 1)):
        a = sample((3, n), "float32")
        x = te.placeholder(a.shape, name="x")
        rounding = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
        y = ops.resample(x, (to,), None, (1,), mode, coordinates, rounding)
        assert "resample.at" not in [s.name for s in te.create_schedule(y.op).stages]
        want = line(a, to, to / n, mode, coordinates, rounding)
        near(compiled(y, {x: a}), want, "float32", 8, 3e-6)


def test_places_that_no_whole_numbers_tell_stay_a_table():
    x = te.placeholder((4, 56), name="x")
    scale = 1.6071438  # 90 of 56 and a little more: each whole place lies a little below itself
    y = ops.resample(x, None, (scale,), (1,), "nearest", "asymmetric", "floor")
    assert "resample.at" in [s.name for s in te.create_schedule(y.op).stages]
    a = sample((4, 56), "float32")
    exact(compiled(y, {x: a}), a[:, np.floor(np.arange(90) / scale).astype(int)], "float32")
