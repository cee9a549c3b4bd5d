"""Elementwise stages that are read at several places: held in strips of rows of what reads them, where that
saves work, and right whatever is read."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.recipes import default_schedule

TARGET = "llvm -mcpu=haswell -mtriple=x86_64-linux-gnu -num-cores=2"
LARGE = (600, 700)


def filtered(x, dims, taps, name, stride=1):
    """A filter along one dimension, as sums of products of neighbours."""

    def body(*at):
        near = lambda k: tuple(stride * i + k if d == dims else i for d, i in enumerate(at))
        return sum((x[near(k)] * float(k + 1) for k in range(1, taps)), x[near(0)] * 1.0)

    size = lambda d, n: (n - taps) // stride + 1 if d == dims else n
    return te.compute(tuple(size(d, int(n.value)) for d, n in enumerate(x.shape)), body, name=name)


def blur(shape, taps=5):
    x = te.placeholder(shape, name="x")
    return x, filtered(filtered(x, len(shape) - 1, taps, "across"), len(shape) - 2, taps, "down")


def places(out, target=TARGET):
    """Where stages but the result are: the loop of a strip, None of their own, or written into others."""
    s = default_schedule(out, target)
    return {st.name: st.state.attach for st in s.stages if isinstance(st.op, te.ComputeOp)}, s


def agrees(inputs, out, *arrays):
    want = te.reference.evaluate(out, dict(zip(inputs, arrays, strict=True)))[0]
    np.testing.assert_allclose(
        tl.compile([*inputs, out])(*arrays), want, rtol=1e-5, atol=1e-6 * abs(want).max()
    )


def some(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def test_a_filter_is_held_in_strips_of_a_large_image():
    attach, s = places(blur(LARGE)[1])
    assert attach["across"] not in (None, "inlined")
    # 596 rows, as many for each of two threads
    assert "loop down.i0.outer              0..6  parallel" in str(s)


def test_a_small_image_has_one_strip_and_stages_of_their_own():
    attach, _ = places(blur((40, 50))[1])
    assert attach["across"] is None


def test_what_costs_little_is_written_into_its_reader():
    x = te.placeholder(LARGE, name="x")
    square = te.compute(LARGE, lambda i, j: x[i, j] * x[i, j], name="square")
    nine = lambda i, j: sum((square[i + r, j + s] for r in range(3) for s in range(3)), te.const(0.0))
    out = te.compute((LARGE[0] - 2, LARGE[1] - 2), nine, name="nine")
    assert places(out)[0]["square"] == "inlined"


def test_images_are_strips_where_there_are_many():
    attach, s = places(blur((16, 40, 50))[1])
    assert attach["across"] not in (None, "inlined")
    assert "loop down.i0                       0..16  parallel" in str(s)


def test_many_steps_would_be_computed_again_too_often():
    x = te.placeholder((200, 200), name="x")
    y = x
    for n in range(14):
        y = filtered(y, 0, 9, f"step{n}")
    attach, _ = places(y)
    assert attach["step3"] is None


def test_a_stage_that_is_also_read_elsewhere_keeps_its_place():
    x, y = blur(LARGE)
    across = y.op.input_tensors[0]
    total = te.compute(across.shape, lambda i, j: across[i, j] * 2.0, name="twice")
    s = default_schedule([y, total], TARGET)
    assert s["across"].state.attach is None
    f, a = tl.compile([x, y, total]), some(*LARGE)
    want = te.reference.evaluate([y, total], {x: a})
    for mine, other in zip(f(a), want, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "shape", [(300, 7), (7, 300), (129, 257), (3, 70, 33), (2, 3, 40, 19), (40, 9, 9)], ids=str
)
@pytest.mark.parametrize("taps", [2, 5])
def test_values_are_those_of_the_definition(shape, taps):
    x, y = blur(shape, taps)
    agrees([x], y, some(*shape))


@pytest.mark.parametrize("stride", [2, 3])
def test_images_that_become_smaller(stride):
    x = te.placeholder((700, 210), name="x")
    y = filtered(filtered(x, 1, 4, "across", stride), 0, 5, "down", stride)
    assert places(y)[0]["across"] not in (None, "inlined")
    agrees([x], y, some(700, 210))


def test_a_chain_whose_stages_are_read_by_several_others():
    h, w = LARGE
    x = te.placeholder((h, w), name="x")
    dx, dy = filtered(x, 1, 5, "dx"), filtered(x, 0, 5, "dy")
    both = te.compute(
        (h - 4, w - 4), lambda i, j: dx[i, j] * dy[i, j] + dx[i + 4, j] * dy[i, j + 4], name="both"
    )
    out = filtered(both, 0, 4, "out")
    attach, _ = places(out)
    assert all(attach[name] not in (None, "inlined") for name in ("dx", "dy", "both"))
    agrees([x], out, some(h, w))


def test_planes_of_a_volume():
    x = te.placeholder((60, 40, 50), name="x")
    seven = lambda a, z, i, j: (
        a[z + 1, i + 1, j + 1] * 6.0
        - a[z, i + 1, j + 1]
        - a[z + 2, i + 1, j + 1]
        - a[z + 1, i, j + 1]
        - a[z + 1, i + 2, j + 1]
        - a[z + 1, i + 1, j]
        - a[z + 1, i + 1, j + 2]
    )
    once = te.compute((58, 38, 48), lambda *at: seven(x, *at), name="once")
    out = te.compute((56, 36, 46), lambda *at: seven(once, *at), name="out")
    assert places(out)[0]["once"] != "inlined"
    agrees([x], out, some(60, 40, 50))


def test_clamped_borders_stay_whole_and_right():
    h, w = 90, 70
    x = te.placeholder((h, w), name="x")
    at = lambda i, n: te.max(te.min(i, n - 1), 0)
    row = te.compute(
        (h, w), lambda i, j: sum((x[i, at(j + k, w)] * 0.2 for k in range(-2, 3)), 0.0), name="row"
    )
    out = te.compute(
        (h, w), lambda i, j: sum((row[at(i + k, h), j] * 0.2 for k in range(-2, 3)), 0.0), name="out"
    )
    agrees([x], out, some(h, w))


def test_open_sizes():
    h, w = te.dim("h"), te.dim("w")
    x = te.placeholder((h + 4, w + 4), name="x")
    across = te.compute(
        (h + 4, w), lambda i, j: sum((x[i, j + k] * 0.2 for k in range(1, 5)), x[i, j]), name="across"
    )
    out = te.compute(
        (h, w), lambda i, j: sum((across[i + k, j] for k in range(1, 5)), across[i, j]), name="out"
    )
    f = tl.compile([x, out])
    for m, n in ((1, 1), (3, 50), (33, 17), (200, 90)):
        a = some(m + 4, n + 4)
        own = te.placeholder((m + 4, n + 4), name="own")
        first = te.compute(
            (m + 4, n), lambda i, j: sum((own[i, j + k] * 0.2 for k in range(1, 5)), own[i, j])
        )
        last = te.compute((m, n), lambda i, j: sum((first[i + k, j] for k in range(1, 5)), first[i, j]))
        np.testing.assert_allclose(f(a), te.reference.evaluate(last, {own: a})[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "int32", "float16", "uint8"])
def test_other_types(dtype):
    x = te.placeholder((300, 260), dtype, name="x")
    one = lambda a: lambda i, j: a[i, j] + a[i, j + 1] + a[i, j + 2] + a[i, j + 3] + a[i, j + 4]
    first = te.compute((300, 256), one(x), name="first")
    out = te.compute(
        (296, 256), lambda i, j: sum((first[i + k, j] for k in range(1, 5)), first[i, j]), name="out"
    )
    a = np.random.default_rng(0).integers(0, 9, (300, 260)).astype(dtype)
    want = te.reference.evaluate(out, {x: a})[0]
    np.testing.assert_allclose(tl.compile([x, out])(a).astype("float64"), want.astype("float64"), rtol=2e-3)


def test_an_image_of_which_colours_are_made_is_written_into_them():
    x, m = te.placeholder((60, 70), name="x"), te.placeholder((3, 2), name="m")
    calm = te.compute((60, 66), lambda i, j: te.max(te.max(x[i, j], x[i, j + 2]), x[i, j + 4]), name="calm")
    red = te.compute((60, 65), lambda i, j: (calm[i, j] + calm[i, j + 1]) * 0.5, name="red")
    out = te.compute((3, 60, 65), lambda c, i, j: red[i, j] * m[c, 0] + x[i, j] * m[c, 1], name="colours")
    assert places(out)[0]["calm"] == "inlined"
    agrees([x, m], out, some(60, 70), some(3, 2))


def test_a_small_grid_that_a_large_image_reads():
    """Each of its elements is read by many pixels, whatever these do besides."""
    x, g = te.placeholder((64, 96), name="x"), te.placeholder((8, 14, 10), name="g")
    blurred = te.compute(
        (8, 12, 10), lambda i, j, z: g[i, j, z] * 0.25 + g[i, j + 1, z] * 0.5 + g[i, j + 2, z], name="blurred"
    )

    def read(i, j):
        z = te.max(te.min(x[i, j], 1.0), 0.0) * 9.0
        low = te.min(te.cast("int32", z), 8)
        part = z - te.cast("float32", low)
        at = i // 8, j // 8
        return blurred[(*at, low)] * (1.0 - part) + blurred[(*at, low + 1)] * part

    y = te.compute(x.shape, lambda i, j: read(i, j) / (te.abs(x[i, j]) + 1.0), name="y")
    assert places(y)[0]["blurred"] != "inlined"
    a, b = some(64, 96), some(8, 14, 10)
    soft = b[:, :-2] * 0.25 + b[:, 1:-1] * 0.5 + b[:, 2:]
    z = np.clip(a, 0, 1) * np.float32(9)
    low = np.minimum(z.astype(int), 8)
    part = z - low
    i, j = np.indices(a.shape) // 8
    want = (soft[i, j, low] * (1 - part) + soft[i, j, low + 1] * part) / (np.abs(a) + 1)
    got = tl.compile([x, g, y])(a, b)
    assert np.allclose(got, want, rtol=1e-5, atol=1e-6)
