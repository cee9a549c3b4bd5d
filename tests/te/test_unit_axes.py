"""Arrays that end in dimensions of size 1 are computed as if they had none, and stay what they are for who
calls."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.te.unit_axes import folded

RNG = np.random.default_rng(0)


def tensor(*shape, name="x", kind="float32"):
    return te.placeholder(shape, kind, name=name)


def agrees(inputs, y, arrays, tolerance=1e-5):
    """The kernel gives what numpy does, in the shape that was declared; its loops are in vectors."""
    f = tl.compile([*inputs, y])
    got, (want,) = f(*arrays), te.reference.evaluate([y], dict(zip(inputs, arrays, strict=True)))
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    return f


@pytest.mark.parametrize(
    "shape", [(3, 48, 1, 1), (70, 1), (2, 33, 1), (1, 1), (0, 1), (5, 0, 1), (1, 1, 40, 1)]
)
def test_maps(shape):
    x = tensor(*shape)
    f = agrees([x], ops.sigmoid(x), [RNG.standard_normal(shape).astype("float32")])
    assert max(shape) < 2 or "scalar loops" not in str(f.explain())


@pytest.mark.parametrize(
    ("op", "shape", "axis"),
    [
        *((op, (6, 40, 1), 1) for op in (ops.sum, ops.max, ops.mean, ops.argmax)),
        *((op, (33, 1), 0) for op in (ops.sum, ops.max, ops.mean, ops.argmax)),
        *((op, (4, 9, 7, 7), (2, 3)) for op in (ops.sum, ops.max, ops.mean)),
    ],
)
def test_reductions_that_keep_their_axes(op, shape, axis):
    x = tensor(*shape)
    agrees([x], op(x, axis=axis, keepdims=True), [RNG.standard_normal(shape).astype("float32")])


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("kernel", [1, 3])
def test_a_convolution_of_one_pixel_is_a_product(n, kernel):
    x, w = tensor(n, 40, kernel, kernel), tensor(24, 40, kernel, kernel, name="w")
    arrays = [RNG.standard_normal([int(s) for s in map(str, t.shape)]).astype("float32") for t in (x, w)]
    f = agrees([x, w], ops.relu(ops.conv2d(x, w)), arrays, 1e-4)
    assert "recipes.gemm" in str(f.explain())


def test_constants_keep_their_shape():
    x, w = tensor(3, 40, 1, 1), tensor(24, 40, 1, 1, name="w")
    a, b = (RNG.standard_normal(s).astype("float32") for s in [(3, 40, 1, 1), (24, 40, 1, 1)])
    y = ops.conv2d(x, w)
    f = tl.compile([x, w, y], constants={w: b})
    np.testing.assert_allclose(f(a), np.einsum("nchw,ochw->no", a, b)[..., None, None], rtol=1e-4, atol=1e-4)
    with pytest.raises(tl.errors.LowerError, match="constant `w`"):
        tl.compile([x, w, y], constants={w: b[:, :, 0, 0]})


def test_open_sizes_and_several_outputs():
    n = te.dim("n")
    x = tensor(n, 48, 1, 1)
    y, z = ops.relu(x), ops.softmax(x, axis=1)
    f = tl.compile([x, y, z])
    for rows in (0, 1, 7):
        a = RNG.standard_normal((rows, 48, 1, 1)).astype("float32")
        got = f(a)
        for out, want in zip(got, te.reference.evaluate([y, z], {x: a}), strict=True):
            np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)


def test_a_call_wants_the_shape_that_was_declared():
    x = tensor(3, 48, 1, 1)
    f = tl.compile([x, ops.relu(x)])
    with pytest.raises(tl.errors.CallError, match="declared with 4"):
        f(np.zeros((3, 48), "float32"))
    assert "x: float32[3, 48, 1, 1]" in f.get_source("ir")


@pytest.mark.parametrize(
    "y",
    [
        ops.conv2d(tensor(1, 8, 20, 1), tensor(8, 8, 3, 1, name="w"), padding=(1, 0)),
        ops.max_pool2d(tensor(1, 8, 20, 1), (2, 1), stride=(2, 1)),
        ops.cumsum(tensor(4, 9, 1), axis=1),
        ops.relu(tensor(4, 9)),
    ],
    ids=["rows of pixels", "windows", "scan", "no such axis"],
)
def test_left_alone(y):
    """Images of several pixels, which recipes know by their axes; what is no plain compute."""
    assert folded([y]).tensors == {}


def test_an_engine_takes_constants_with_these_axes():
    g = tl.Graph()
    w = RNG.standard_normal((24, 40, 1, 1)).astype("float32")
    x = g.input(("n", 40, 1, 1), name="x")
    g.output(g.call(ops.relu, g.call(ops.conv2d, x, g.constant(w))), "y")
    engine = g.compile(cache=False)
    for n in (1, 3):
        a = RNG.standard_normal((n, 40, 1, 1)).astype("float32")
        want = np.maximum(np.einsum("nchw,ochw->no", a, w), 0)[..., None, None]
        np.testing.assert_allclose(engine(a), want, rtol=1e-4, atol=1e-4)


def test_an_engine_with_these_axes_is_saved_and_loaded(tmp_path):
    """The file of an engine says which values a kernel takes, in their own shapes."""
    g = tl.Graph()
    x = g.input(("n", 40, 5, 5), name="x")
    g.output(g.call(ops.sigmoid, g.call(ops.mean, x, axis=(2, 3), keepdims=True)), "y")
    engine = g.compile(cache=False)
    engine.save(tmp_path / "e.engine")
    a = RNG.standard_normal((3, 40, 5, 5)).astype("float32")
    np.testing.assert_array_equal(tl.Engine.load(tmp_path / "e.engine")(a), engine(a))


def test_sizes_as_numbers_beside_constants():
    n = te.var("n")
    x, w = tensor(n, 1), tensor(4, 1, name="w")
    y = te.compute((n, 1), lambda i, j: x[i, j] * w[i % 4, 0] + te.cast("float32", n), name="y")
    a, b = RNG.standard_normal((6, 1)).astype("float32"), RNG.standard_normal((4, 1)).astype("float32")
    f = tl.compile([x, w, y], constants={w: b})
    np.testing.assert_allclose(f(a), a * b[np.arange(6) % 4] + 6, rtol=1e-6)


def test_outputs_may_be_operations_and_are_refused_by_name():
    x = tensor(3, 1)
    y = ops.relu(x)
    a = RNG.standard_normal((3, 1)).astype("float32")
    np.testing.assert_array_equal(tl.compile([x, y], outputs=[y.op])(a), np.maximum(a, 0))
    with pytest.raises(tl.errors.TensorLangError) as told:
        tl.compile([x, y], outputs=[y, 3])
    assert "te.graph.operations" not in str(told.value) and "AttributeError" not in str(told.value)


@pytest.mark.parametrize("rows", [7, "n"])
def test_a_tensor_that_is_joined_to_itself_and_kept(rows):
    """Both parts are the same elements without the last axis, and the choice between them is none."""
    n = te.var("n") if rows == "n" else rows
    x = tensor(n, 4, 1)
    double = ops.add(x, x)
    y = ops.concat([double, double], 2)
    f, a = tl.compile([x, double, y]), RNG.standard_normal((7, 4, 1)).astype("float32")
    for got, want in zip(f(a), (a + a, np.concatenate([a + a, a + a], 2)), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_constant_that_is_not_read_without_the_last_axis(count):
    """Places in an axis of one element are all the first."""
    x, at = tensor(4, 1), tensor(count, 1, name="at", kind="int64")
    y = ops.gather_elements(x, at, 1)
    a, places = RNG.standard_normal((4, 1)).astype("float32"), np.zeros((count, 1), "int64")
    f = tl.compile([x, at, y], constants={at: places})
    np.testing.assert_array_equal(f(a), a[:count])
    other = tensor(3, name="other")
    with pytest.raises(tl.LowerError, match="constant `other` is not part of this computation"):
        tl.compile([x, at, y], constants={other: np.zeros(3, "float32")})
