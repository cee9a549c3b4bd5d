"""Normalisations against their formulas in float64, with odd sizes, 16-bit floats and symbolic sizes, and
against torch where installed."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import FLOATS, compiled, near, real, sample

ops = tl.ops


def normal(r, axes, eps=1e-5):
    return (r - r.mean(axes, keepdims=True)) / np.sqrt(r.var(axes, keepdims=True) + eps)


def allowed(t):
    """Ulps and an allowance: x - mean cancels, so the error is that of numbers of size 8 (an ulp is 2^-20
    in float32), and of the deviation's few ulps on results of size 4; 16-bit results are rounded once from
    that."""
    return (1.01, 2.0**-17) if t in ("float16", "bfloat16") else (8, 2.0**-48 if t == "float64" else 2.0**-19)


@pytest.mark.each_value
@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize(("shape", "last"), [((3, 33), 1), ((5, 1, 17), 2), ((17,), 1), ((3, 5, 7), 3)])
def test_layer_norm(t, shape, last):
    a = sample(shape, t)
    w, b = sample(shape[-last:], t, 1), sample(shape[-last:], t, 2)
    x, weight, bias = (
        te.placeholder(shape, t, name="x"),
        te.placeholder(w.shape, t, name="w"),
        te.placeholder(b.shape, t, name="b"),
    )
    got, plain = compiled(
        [ops.layer_norm(x, shape[-last:], weight, bias), ops.layer_norm(x, shape[-last:], eps=0.1)],
        {x: a, weight: w, bias: b},
    )
    axes, r = tuple(range(len(shape) - last, len(shape))), real(a, t)
    ulps, floor = allowed(t)
    near(got, normal(r, axes) * real(w, t) + real(b, t), t, ulps, 16 * floor)
    near(plain, normal(r, axes, 0.1), t, ulps, floor)


def test_layer_norm_over_any_axes():
    a = sample((3, 5, 17), "float32")
    x = te.placeholder(a.shape, name="x")
    w = te.placeholder((3, 17), name="w")
    v = sample((3, 17), "float32", 1)
    got = compiled([ops.layer_norm(x, axis=(0, 2), weight=w), ops.layer_norm(x)], {x: a, w: v})
    near(got[0], normal(a.astype("float64"), (0, 2)) * v[:, None], "float32", 8, 2.0**-15)
    near(got[1], normal(a.astype("float64"), 2), "float32", 8, 2.0**-19)


@pytest.mark.parametrize("t", FLOATS)
def test_rms_norm(t):
    a, w = sample((3, 33), t), sample((33,), t, 1)
    x, weight = te.placeholder(a.shape, t, name="x"), te.placeholder((33,), t, name="w")
    got, plain = compiled([ops.rms_norm(x, 33, weight, eps=1e-6), ops.rms_norm(x)], {x: a, weight: w})
    r = real(a, t)
    scale = np.sqrt((r * r).mean(1, keepdims=True))
    near(
        got,
        r / np.sqrt(scale**2 + 1e-6) * real(w, t),
        t,
        8 if t in ("float32", "float64") else 1.01,
        2.0**-30,
    )
    near(plain, r / scale, t, 8 if t in ("float32", "float64") else 2, 2.0**-20)


@pytest.mark.parametrize("t", FLOATS)
def test_rms_norm_without_an_epsilon_takes_that_of_what_it_computes_in(t):
    """As torch does: 16-bit types were once normalised with their own, which is 2¹³ and 2¹⁶ times as large."""
    small = 2.0**-26 if t == "float64" else 2.0**-12
    x = te.placeholder((1, 16), t, name="x")
    a = np.full((1, 16), small).astype(sample((1,), t).dtype)
    got = real(compiled(ops.rms_norm(x), {x: a}), t)
    eps = 2.0**-52 if t == "float64" else 2.0**-23
    np.testing.assert_allclose(got, small / np.sqrt(small**2 + eps), rtol=2.0**-8)


@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize(("shape", "axis"), [((3, 5, 7, 3), 1), ((3, 17), 1), ((1, 7, 3, 5), -1)])
def test_batch_norm(t, shape, axis):
    c = shape[axis]
    a, mean, var, w, b = (
        sample(shape, t),
        sample((c,), t, 1),
        sample((c,), t, 2),
        sample((c,), t, 3),
        sample((c,), t, 4),
    )
    var = np.abs(var)
    x = te.placeholder(shape, t, name="x")
    p = [te.placeholder((c,), t, name=n) for n in ("mean", "var", "w", "b")]
    got, plain = compiled(
        [ops.batch_norm(x, *p, axis=axis), ops.batch_norm(x, *p[:2], axis=axis)],
        {x: a, p[0]: mean, p[1]: var, p[2]: w, p[3]: b},
    )
    to = [1] * len(shape)
    to[axis] = c
    m, v, g, s = (real(q, t).reshape(to) for q in (mean, var, w, b))
    scale = 1 / np.sqrt(v + 1e-5)
    want = (real(a, t) - m) * scale * g + s
    # x * scale + shift: each term is rounded by itself, and they may cancel
    floor = (
        4
        * (2.0**-52 if t == "float64" else 2.0**-23)
        * float((np.abs(real(a, t) * scale * g) + np.abs(m * scale * g) + np.abs(s)).max())
    )
    near(got, want, t, 1.01, floor)
    near(plain, (real(a, t) - m) * scale, t, 1.01, floor * 4)


@pytest.mark.parametrize("t", ["float32", "float16"])
@pytest.mark.parametrize(
    ("shape", "groups"), [((3, 6, 5, 3), 3), ((1, 4, 17), 4), ((2, 9), 3), ((3, 8, 7, 1), 1)]
)
def test_group_norm(t, shape, groups):
    n, c = shape[:2]
    a, w, b = sample(shape, t), sample((c,), t, 1), sample((c,), t, 2)
    x, weight, bias = (
        te.placeholder(shape, t, name="x"),
        te.placeholder((c,), t, name="w"),
        te.placeholder((c,), t, name="b"),
    )
    got = compiled(ops.group_norm(x, groups, weight, bias), {x: a, weight: w, bias: b})
    to = (1, c, *[1] * (len(shape) - 2))
    r = normal(real(a, t).reshape(n, groups, -1), 2).reshape(shape)
    near(got, r * real(w, t).reshape(to) + real(b, t).reshape(to), t, 8 if t == "float32" else 1.01, 2.0**-15)


def test_instance_norm():
    a, w = sample((3, 5, 7, 3), "float32"), sample((5,), "float32", 1)
    x, weight = te.placeholder(a.shape, name="x"), te.placeholder((5,), name="w")
    got = compiled(ops.instance_norm(x, weight), {x: a, weight: w})
    near(got, normal(a.astype("float64"), (2, 3)) * w[:, None, None], "float32", 8, 2.0**-15)


def test_the_variance_does_not_cancel():
    a = (1e4 + np.random.default_rng(0).standard_normal((3, 257))).astype("float32")
    x = te.placeholder(a.shape, name="x")
    near(
        compiled(ops.layer_norm(x), {x: a}), normal(a.astype("float64"), 1), "float32", 0, 2.0**-8
    )  # the mean has an ulp of 2^-10


def test_one_kernel_for_all_sizes():
    n, m = te.var("n"), te.dim("m", 1, 100)
    x, w = te.placeholder((n, m), name="x"), te.placeholder((m,), name="w")
    images = te.placeholder((n, 6, m, m), name="images")
    layer = tl.compile([x, w, ops.layer_norm(x, m, w)])
    rms = tl.compile([x, ops.rms_norm(x, eps=1e-6)])
    group = tl.compile([images, ops.group_norm(images, 3)])
    for shape in ((1, 3), (3, 17), (33, 3), (17, 33)):
        a, v = sample(shape, "float32", sum(shape)), sample(shape[1:], "float32", 1)
        r = a.astype("float64")
        near(layer(a, v), normal(r, 1) * v, "float32", 8, 2.0**-15)
        near(rms(a), r / np.sqrt((r * r).mean(1, keepdims=True) + 1e-6), "float32", 8)
    for rows, side in ((1, 3), (3, 5)):
        a = sample((rows, 6, side, side), "float32", side)
        near(
            group(a),
            normal(a.astype("float64").reshape(rows, 3, -1), 2).reshape(a.shape),
            "float32",
            8,
            2.0**-18,
        )


def test_groups_of_symbolic_channels():
    c = te.dim("c", 4, 64, multiple_of=4)
    x = te.placeholder((2, c, 5), name="x")
    kernel = tl.compile([x, ops.group_norm(x, 4)])
    for channels in (4, 12):
        a = sample((2, channels, 5), "float32", channels)
        near(
            kernel(a),
            normal(a.astype("float64").reshape(2, 4, -1), 2).reshape(a.shape),
            "float32",
            8,
            2.0**-18,
        )


def test_stages_are_there_for_recipes():
    x = te.placeholder((3, 17), name="x")
    out = ops.layer_norm(x)
    assert out.op.tag == "norm" and out.op.attrs["axes"] == (1,)
    assert [t.op.name for t in out.op.input_tensors] == ["x", "layer_norm.mean", "layer_norm.rstd"]


def test_it_is_torchs():
    torch = pytest.importorskip("torch")
    f = torch.nn.functional
    a, w, b = sample((3, 6, 5, 7), "float64"), sample((6,), "float64", 1), sample((6,), "float64", 2)
    var = np.abs(sample((6,), "float64", 3))
    x, weight, bias, variance = (
        te.placeholder(a.shape, "float64", name="x"),
        *[te.placeholder((6,), "float64", name=n) for n in "wbv"],
    )
    last = te.placeholder((7,), "float64", name="l")
    v = sample((7,), "float64", 4)
    got = compiled(
        [
            ops.layer_norm(x, 7, last, last),
            ops.group_norm(x, 3, weight, bias),
            ops.instance_norm(x, weight, bias),
            ops.batch_norm(x, bias, variance, weight, bias),
            ops.rms_norm(x, 7, last),
        ],
        {x: a, weight: w, bias: b, variance: var, last: v},
    )
    ta, tw, tb, tv, tl_ = (torch.from_numpy(q) for q in (a, w, b, var, v))
    want = [
        f.layer_norm(ta, (7,), tl_, tl_),
        f.group_norm(ta, 3, tw, tb),
        f.instance_norm(ta, weight=tw, bias=tb),
        f.batch_norm(ta, tb, tv, tw, tb),
        f.rms_norm(ta, (7,), tl_),
    ]
    for g, r in zip(got, want, strict=True):
        near(g, r.numpy(), "float64", 16, 2.0**-44)


@pytest.mark.parametrize("op", [ops.layer_norm, ops.rms_norm])
def test_a_weight_in_the_place_of_the_shape_is_named(op):
    x, w = te.placeholder((3, 8), name="x"), te.placeholder((8,), name="w")
    with pytest.raises(tl.DeclareError, match="normalized_shape is the tensor w"):
        op(x, w)


@pytest.mark.parametrize("size", [1, 3, 4, 9])
@pytest.mark.parametrize("t", ["float32", "float64", "float16"])
def test_lrn(t, size):
    n = te.dim("n", 1, 4)
    a = sample((2, 7, 3, 2), t)
    x = te.placeholder((n, 7, 3, 2), t, name="x")
    r = real(a, t)
    sums = np.zeros_like(r)
    for c in range(7):
        low, high = max(0, c - (size - 1) // 2), min(7, c + size // 2 + 1)
        sums[:, c] = (r[:, low:high] ** 2).sum(1)
    want = r / (2.0 + 0.5 / size * sums) ** 0.75
    near(compiled(ops.lrn(x, size, 0.5, 0.75, 2.0), {x: a}), want, t, 8 if t != "float16" else 1)


@pytest.mark.parametrize("axis", [(0, 2, 3), 1, None])
def test_mean_variance_norm(axis):
    n = te.dim("n", 1, 4)
    a = sample((2, 7, 3, 2), "float32")
    x = te.placeholder((n, 7, 3, 2), name="x")
    r = a.astype("float64")
    axis_ = axis if axis is None or isinstance(axis, int) else tuple(axis)
    want = (r - r.mean(axis_, keepdims=True)) / (r.std(axis_, keepdims=True) + 1e-9)
    near(compiled(ops.mean_variance_norm(x, axis), {x: a}), want, "float32", 8, 4e-6)


def test_lrn_needs_a_channel():
    with pytest.raises(tl.DeclareError, match="1 is the least"):
        ops.lrn(te.placeholder((1, 3, 4)), 0)
