"""TVM's operators against numpy, through the reference; a few through compiled kernels by ``topi.generic``'s
schedules."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te, topi

RNG = np.random.default_rng(11)


def tensor(*shape, dtype="float32", name="x", lo=-4):
    value = RNG.integers(lo, 5, shape).astype(dtype)
    return te.placeholder(shape, dtype, name=name), value


def value(out, *given):
    return (
        te.reference.evaluate(out, dict(given))[0]
        if isinstance(out, te.Tensor)
        else te.reference.evaluate(out, dict(given))
    )


BROADCAST = [
    ("add", np.add),
    ("subtract", np.subtract),
    ("multiply", np.multiply),
    ("maximum", np.maximum),
    ("minimum", np.minimum),
    ("greater", np.greater),
    ("less", np.less),
    ("equal", np.equal),
    ("not_equal", np.not_equal),
    ("greater_equal", np.greater_equal),
    ("less_equal", np.less_equal),
]


@pytest.mark.parametrize(("name", "meaning"), BROADCAST, ids=lambda x: x if isinstance(x, str) else "")
def test_broadcast(name, meaning):
    a, b = tensor(2, 3), tensor(3, name="y")
    f = getattr(topi, name)
    assert np.array_equal(value(f(a[0], b[0]), a, b), meaning(a[1], b[1]))
    assert np.array_equal(value(f(a[0], 2.0), a), meaning(a[1], np.float32(2)))
    assert np.array_equal(value(f(2.0, a[0]), a), meaning(np.float32(2), a[1]))


def test_integers_are_divided_as_in_c():
    a, b = tensor(4, 5, dtype="int32"), tensor(5, dtype="int32", name="y", lo=1)
    assert np.array_equal(value(topi.divide(a[0], b[0]), a, b), np.trunc(a[1] / b[1]).astype("int32"))
    assert np.array_equal(value(topi.mod(a[0], b[0]), a, b), np.fmod(a[1], b[1]))
    assert np.array_equal(value(topi.floor_divide(a[0], b[0]), a, b), a[1] // b[1])
    assert np.array_equal(value(topi.floor_mod(a[0], b[0]), a, b), a[1] % b[1])
    for name, meaning in (
        ("bitwise_and", np.bitwise_and),
        ("bitwise_or", np.bitwise_or),
        ("bitwise_xor", np.bitwise_xor),
        ("left_shift", np.left_shift),
        ("right_shift", np.right_shift),
    ):
        assert np.array_equal(value(getattr(topi, name)(a[0], b[0]), a, b), meaning(a[1], b[1])), name
    assert np.array_equal(value(topi.bitwise_not(a[0]), a), ~a[1])


def test_logic():
    a, b = tensor(2, 3, dtype="bool", lo=0), tensor(3, dtype="bool", name="y", lo=0)
    for name in ("logical_and", "logical_or", "logical_xor"):
        assert np.array_equal(value(getattr(topi, name)(a[0], b[0]), a, b), getattr(np, name)(a[1], b[1])), (
            name
        )
    assert np.array_equal(value(topi.logical_not(a[0]), a), ~a[1])


def test_expressions_stay_expressions():
    n = te.var("n")
    assert not isinstance(topi.add(n, 1), te.Tensor) and str(topi.cast(n, "float32")) == "float32(n)"


@pytest.mark.parametrize(
    "name",
    [
        "exp",
        "tanh",
        "sigmoid",
        "cosh",
        "sinh",
        "atan",
        "asinh",
        "erf",
        "sin",
        "cos",
        "tan",
        "floor",
        "ceil",
        "round",
        "trunc",
        "abs",
        "negative",
        "sign",
        "identity",
        "isinf",
        "isnan",
        "isfinite",
        "fast_exp",
        "fast_tanh",
    ],
)
def test_functions_of_one_element(name):
    x, v = te.placeholder((2, 3), name="x"), (RNG.standard_normal((2, 3)) * 2).astype("float32")
    words = {
        "atan": "arctan",
        "asinh": "arcsinh",
        "identity": "positive",
        "fast_exp": "exp",
        "fast_tanh": "tanh",
        "round": "rint",
    }
    want = (
        1 / (1 + np.exp(-v))
        if name == "sigmoid"
        else np.vectorize(__import__("math").erf)(v)
        if name == "erf"
        else getattr(np, words.get(name, name))(v)
    )
    np.testing.assert_allclose(value(getattr(topi, name)(x), (x, v)), want, rtol=1e-6)


@pytest.mark.parametrize("name", ["log", "log2", "log10", "sqrt", "rsqrt", "acosh", "acos", "asin", "atanh"])
def test_functions_of_some_numbers(name):
    x, v = te.placeholder((5,), name="x"), RNG.uniform(0.1, 0.9, 5).astype("float32")
    v = v + 1 if name == "acosh" else v
    words = {"acosh": "arccosh", "acos": "arccos", "asin": "arcsin", "atanh": "arctanh"}
    want = 1 / np.sqrt(v) if name == "rsqrt" else getattr(np, words.get(name, name))(v)
    np.testing.assert_allclose(value(getattr(topi, name)(x), (x, v)), want, rtol=1e-6)


def test_reductions_keep_dtypes():
    x = tensor(3, 4, dtype="int32")
    for name, dtype in (
        ("sum", "int32"),
        ("prod", "int32"),
        ("max", "int32"),
        ("min", "int32"),
        ("argmax", "int32"),
        ("argmin", "int32"),
    ):
        for axis, keepdims in ((None, False), (1, True), (0, False)):
            got = value(getattr(topi, name)(x[0], axis, keepdims), x)
            assert got.dtype == dtype and np.array_equal(
                got, getattr(np, name)(x[1], axis=axis, keepdims=keepdims)
            ), name
    assert (
        value(topi.any(x[0], 1), x).tolist() == x[1].any(1).tolist()
        and value(topi.all(x[0], 0), x).tolist() == x[1].all(0).tolist()
    )
    assert (
        np.array_equal(value(topi.cumsum(x[0], 1), x), np.cumsum(x[1], 1))
        and topi.cumprod(x[0], 0).dtype == "int32"
    )
    for wrong in (
        lambda: topi.argmax(x[0], 0, select_last_index=True),
        lambda: topi.cumsum(x[0], 0, exclusive=True),
    ):
        with pytest.raises(tl.DeclareError):
            wrong()


def test_changes_of_shape():
    x, i = tensor(2, 3), (te.placeholder((2,), "int32", name="i"), np.array([2, 0], "int32"))
    for got, want in (
        (topi.transpose(x[0], (1, 0)), x[1].T),
        (topi.reshape(x[0], (3, 2)), x[1].reshape(3, 2)),
        (topi.flip(x[0], 1), x[1][:, ::-1]),
        (topi.expand_dims(x[0], 1, 2), x[1][:, None, None]),
        (topi.squeeze(topi.expand_dims(x[0], 0)), x[1]),
        (topi.concatenate((x[0], x[0]), 1), np.concatenate([x[1]] * 2, 1)),
        (topi.stack((x[0], x[0]), 0), np.stack([x[1]] * 2)),
        (topi.strided_slice(x[0], [0, 0], [2, 3], [1, 2]), x[1][:, ::2]),
        (topi.repeat(x[0], 2, 0), x[1].repeat(2, 0)),
        (topi.tile(x[0], (2, 1)), np.tile(x[1], (2, 1))),
        (topi.broadcast_to(x[0], (4, 2, 3)), np.broadcast_to(x[1], (4, 2, 3))),
        (topi.clip(x[0], -1, 2), x[1].clip(-1, 2)),
        (topi.cast(x[0], "int8"), x[1].astype("int8")),
        (topi.full_like(x[0], 3.0), np.full((2, 3), 3.0)),
        (topi.elemwise_sum([x[0]] * 3), x[1] * 3),
        (topi.where(x[0] > 0, x[0], 0.0), x[1].clip(0)),
        (topi.matmul(x[0], x[0], False, True), x[1] @ x[1].T),
    ):
        assert np.array_equal(value(got, x), want), got.name
    assert np.array_equal(value(topi.take(x[0], i[0], 1), x, i), x[1][:, [2, 0]])
    assert [p.tolist() for p in value(topi.split(x[0], 3, 1), x)] == [
        x[1][:, k : k + 1].tolist() for k in range(3)
    ]
    assert np.array_equal(value(topi.one_hot(i[0], 5.0, 1.0, 3, -1, "float32"), i), np.eye(3)[[2, 0]] * 4 + 1)
    g = (te.placeholder((2, 1), "int32", name="g"), np.array([[1], [2]], "int32"))
    assert np.array_equal(value(topi.gather(x[0], 1, g[0]), x, g), np.take_along_axis(x[1], g[1], 1))
    assert value(topi.arange(1, 4)).tolist() == [1, 2, 3] and value(topi.full((2,), "int32", 7)).tolist() == [
        7,
        7,
    ]


def convolved(x, w, stride=1, pad=((0, 0), (0, 0)), groups=1):
    """NCHW by numpy."""
    x = np.pad(x, ((0, 0), (0, 0), *pad))
    o, c, kh, kw = w.shape
    windows = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), (2, 3))[:, :, ::stride, ::stride]
    parts = [
        np.einsum(
            "nchwij,ocij->nohw", windows[:, g * c : (g + 1) * c], w[g * o // groups : (g + 1) * o // groups]
        )
        for g in range(groups)
    ]
    return np.concatenate(parts, 1)


def test_convolutions():
    x, w = tensor(1, 4, 6, 5), tensor(2, 4, 3, 3, name="w")
    got = topi.nn.conv2d_nchw(x[0], w[0], 2, (1, 0, 0, 1), 1)
    want = convolved(x[1], w[1], 2, ((1, 0), (0, 1)))
    assert np.array_equal(value(got, x, w), want)
    assert np.array_equal(
        tl.build(topi.generic.schedule_conv2d_nchw([got]), [x[0], w[0], got])(x[1], w[1]), want
    )
    xh, wh = (
        (te.placeholder((1, 6, 5, 4), name="x"), x[1].transpose(0, 2, 3, 1)),
        (te.placeholder((3, 3, 4, 2), name="w"), w[1].transpose(2, 3, 1, 0)),
    )
    assert np.array_equal(
        value(topi.nn.conv2d_nhwc(xh[0], wh[0], 1, "SAME", 1), xh, wh).transpose(0, 3, 1, 2),
        convolved(x[1], w[1], 1, ((1, 1), (1, 1))),
    )
    g = tensor(4, 2, 3, 3, name="g")
    assert np.array_equal(
        value(topi.nn.group_conv2d_nchw(x[0], g[0], 1, 0, 1, 2), x, g), convolved(x[1], g[1], groups=2)
    )
    d = tensor(4, 2, 3, 3, name="d")
    want = convolved(x[1], d[1].reshape(8, 1, 3, 3), pad=((1, 1), (1, 1)), groups=4)
    assert np.array_equal(value(topi.nn.depthwise_conv2d_nchw(x[0], d[0], 1, 1, 1), x, d), want)
    dh = (te.placeholder((3, 3, 4, 2), name="d"), d[1].transpose(2, 3, 0, 1))
    assert np.array_equal(
        value(topi.nn.depthwise_conv2d_nhwc(xh[0], dh[0], 1, 1, 1), xh, dh).transpose(0, 3, 1, 2), want
    )


def test_convolutions_of_one_and_three_dimensions():
    x, w = tensor(1, 2, 7), tensor(3, 2, 3, name="w")
    want = convolved(x[1][:, :, None], w[1][:, :, None], pad=((0, 0), (1, 2)))[:, :, 0]
    assert np.array_equal(value(topi.nn.conv1d_ncw(x[0], w[0], 1, (1, 2)), x, w), want)
    xt, wt = (
        (te.placeholder((1, 7, 2), name="x"), x[1].transpose(0, 2, 1)),
        (te.placeholder((3, 2, 3), name="w"), w[1].transpose(2, 1, 0)),
    )
    assert np.array_equal(value(topi.nn.conv1d_nwc(xt[0], wt[0], 1, (1, 2)), xt, wt).transpose(0, 2, 1), want)
    y, v = tensor(1, 2, 1, 5, 4), tensor(2, 2, 1, 3, 2, name="v")
    assert np.array_equal(
        value(topi.nn.conv3d_ncdhw(y[0], v[0], 1, 0, 1, 1), y, v)[:, :, 0],
        convolved(y[1][:, :, 0], v[1][:, :, 0]),
    )
    t = tensor(2, 3, 2, 2, name="t")
    assert (
        topi.nn.conv2d_transpose_nchw(tensor(1, 2, 3, 3)[0], t[0], (2, 2), (0, 0), "float32", (0, 0)).shape[2]
        == 6
    )


def test_pools():
    x = tensor(1, 2, 6, 6)
    windows = x[1].reshape(1, 2, 3, 2, 3, 2)
    for kind, meaning in (("max", np.max), ("avg", np.mean)):
        np.testing.assert_allclose(
            value(topi.nn.pool2d(x[0], [2, 2], [2, 2], [1, 1], [0, 0, 0, 0], kind), x),
            meaning(windows, axis=(3, 5)),
        )
        np.testing.assert_allclose(
            value(topi.nn.global_pool(x[0], kind), x), meaning(x[1], axis=(2, 3), keepdims=True), rtol=1e-6
        )
        np.testing.assert_allclose(
            value(topi.nn.adaptive_pool(x[0], (3, 3), kind), x), meaning(windows, axis=(3, 5))
        )
    padded = value(topi.nn.pool2d(x[0], [3, 3], [1, 1], [1, 1], [1, 0, 1, 1], "max"), x)
    assert (
        padded.shape == (1, 2, 6, 5)
        and padded[0, 0, 0, 0] == x[1][0, 0, :2, :3].max()
        and padded[0, 1, 5, 4] == x[1][0, 1, 4:, 4:].max()
    )
    dilated = value(topi.nn.pool2d(x[0], [2, 2], [2, 2], [2, 2], [0] * 4, "avg"), x)
    taps = [[x[1][:, :, r : r + 3 : 2, c : c + 3 : 2] for c in (0, 2)] for r in (0, 2)]
    np.testing.assert_allclose(dilated, np.mean(taps, axis=(4, 5)).transpose(2, 3, 0, 1))
    for wrong in (
        lambda: topi.nn.pool2d(x[0], [2, 2], [2, 2], [1, 1], [0] * 4, "sum"),
        lambda: topi.nn.global_pool(x[0], "sum"),
    ):
        with pytest.raises(tl.DeclareError):
            wrong()


def test_layers():
    x, w, b = tensor(2, 3), tensor(4, 3, name="w"), tensor(4, name="b")
    assert np.array_equal(value(topi.nn.dense(x[0], w[0], b[0]), x, w, b), x[1] @ w[1].T + b[1])
    assert np.array_equal(
        value(topi.nn.matmul(x[0], w[0], b[0], transpose_b=True), x, w, b), x[1] @ w[1].T + b[1]
    )
    p, q = tensor(2, 3, 4), tensor(2, 5, 4, name="q")
    assert np.array_equal(value(topi.nn.batch_matmul(p[0], q[0]), p, q), p[1] @ q[1].transpose(0, 2, 1))
    e = np.exp(x[1])
    np.testing.assert_allclose(value(topi.nn.softmax(x[0]), x), e / e.sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(
        value(topi.nn.log_softmax(x[0]), x), np.log(e / e.sum(1, keepdims=True)), rtol=1e-5, atol=1e-6
    )
    assert np.array_equal(value(topi.nn.relu(x[0]), x), x[1].clip(0)) and np.array_equal(
        value(topi.nn.leaky_relu(x[0], 0.5), x), np.where(x[1] > 0, x[1], x[1] / 2)
    )
    y = tensor(1, 2, 3, 3)
    c, s, m = (tensor(2, name=n, lo=1) for n in "csm")
    shape = (1, 2, 1, 1)
    assert np.array_equal(
        value(topi.nn.scale_shift_nchw(y[0], c[0], s[0]), y, c, s),
        y[1] * c[1].reshape(shape) + s[1].reshape(shape),
    )
    assert np.array_equal(value(topi.nn.bias_add(y[0], c[0]), y, c), y[1] + c[1].reshape(shape))
    out, mean, _ = topi.nn.batch_norm(y[0], c[0], s[0], m[0], c[0])
    np.testing.assert_allclose(
        value(out, y, c, s, m),
        (y[1] - m[1].reshape(shape)) / np.sqrt(c[1].reshape(shape) + 1e-5) * c[1].reshape(shape)
        + s[1].reshape(shape),
        rtol=1e-5,
        atol=1e-5,
    )
    assert mean is m[0]
    assert np.array_equal(
        value(topi.nn.pad(y[0], (0, 0, 1, 0), (0, 0, 0, 2), 5.0), y),
        np.pad(y[1], ((0, 0), (0, 0), (1, 0), (0, 2)), constant_values=5),
    )
    assert np.array_equal(value(topi.nn.flatten(y[0]), y), y[1].reshape(1, -1))
    assert np.array_equal(value(topi.nn.upsampling(y[0], 2, 2), y), y[1].repeat(2, 2).repeat(2, 3))
    h, g, b = tensor(3, 4), tensor(4, name="g"), tensor(4, name="b2")
    rows = (h[1] - h[1].mean(1, keepdims=True)) / np.sqrt(h[1].var(1, keepdims=True) + 1e-5) * g[1] + b[1]
    np.testing.assert_allclose(
        value(topi.nn.layer_norm(h[0], g[0], b[0], [1]), h, g, b), rows, rtol=1e-5, atol=1e-5
    )
    for wrong in (
        lambda: topi.nn.batch_norm(y[0], c[0], s[0], m[0], c[0], training=True),
        lambda: topi.nn.layer_norm(h[0], g[0], b[0], 0),
    ):
        with pytest.raises(tl.DeclareError):
            wrong()


def test_the_introduction_to_topi():
    """Broadcasting sum, a schedule, softmax: as TVM's tutorial has it."""
    x, y = 3, 4
    a, b = te.placeholder((x, y, y), name="a"), te.placeholder((y, y), name="b")
    c = a + b
    d = a * b
    e = topi.elemwise_sum([c, d])
    f = e / 2.0
    g = topi.sum(f)
    sg = topi.generic.schedule_reduce(g)
    a_np, b_np = (
        RNG.integers(-3, 4, (x, y, y)).astype("float32"),
        RNG.integers(-3, 4, (y, y)).astype("float32"),
    )
    g_np = np.sum(np.add(a_np + b_np, a_np * b_np) / 2.0)
    assert tl.build(sg, [a, b, g], "llvm")(a_np, b_np) == g_np


def test_every_name_is_there_and_documented():
    for module in (topi, topi.nn, topi.generic):
        for name in module.__all__:
            thing = getattr(module, name)
            assert inspect.ismodule(thing) or inspect.getdoc(thing), name
    with pytest.raises(AttributeError, match="operators of GPUs"):
        topi.cuda


def test_sizes_as_numbers_of_python():
    n = te.var("n")
    x = te.placeholder((3, n), name="x")
    assert (
        topi.utils.get_const_tuple(x.shape) == (3, n) and type(topi.utils.get_const_tuple(x.shape)[0]) is int
    )
    assert topi.utils.get_const_int(x.shape[0]) == topi.utils.get_const_int(3) == 3
    for call in (lambda: topi.utils.get_const_int(n), lambda: topi.utils.get_const_tuple(3)):
        with pytest.raises(tl.DeclareError, match="get_const_"):
            call()
    with pytest.raises(tl.TensorLangError, match="no 'traverse_inline'"):
        topi.utils.traverse_inline(None, None, None)
