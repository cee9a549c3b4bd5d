"""Operators spelled out in small ones become the one, and only where they are it."""

from __future__ import annotations

import numpy as np
import pytest

from tensorlang import ops, te
from tensorlang.graph import Graph
from tensorlang.graph.passes import attention, simplified
from tensorlang.graph.passes.meaning import alike
from tests.graph.random_graphs import reference

RNG = np.random.default_rng(0)


def wave(*shape):
    return RNG.standard_normal(shape).astype("float32")


def number(g, x):
    return g.constant(np.float32(x))


def names(g, **options):
    return [n.op for n in simplified(g, **options).nodes]


def same(g, *arrays):
    """That the engine gives what small operators do, and what the passes made of the graph too."""
    expected = reference(g, list(arrays))
    np.testing.assert_allclose(reference(simplified(g), list(arrays))[0], expected[0], rtol=1e-5, atol=1e-6)
    found = g.compile(cache=False, workers=1)(*arrays)
    np.testing.assert_allclose(found, expected[0], rtol=1e-5, atol=1e-5)


def gelu(g, x, root=2**0.5, half=0.5):
    inner = g.call(ops.add, g.call(ops.erf, g.call(ops.divide, x, number(g, root))), number(g, 1))
    return g.call(ops.multiply, x, g.call(ops.multiply, number(g, half), inner))


def gelu_by_tanh(g, x):
    cube = g.call(ops.multiply, number(g, 0.044715), g.call(ops.power, x, number(g, 3)))
    inner = g.call(ops.tanh, g.call(ops.multiply, number(g, (2 / np.pi) ** 0.5), g.call(ops.add, x, cube)))
    return g.call(ops.multiply, g.call(ops.multiply, number(g, 0.5), x), g.call(ops.add, inner, number(g, 1)))


@pytest.mark.parametrize("form", [gelu, gelu_by_tanh])
def test_gelu(form):
    g = Graph()
    g.output(form(g, g.input(("n", 5), name="x")))
    assert names(g) == ["Gelu"] and len(names(g, without=["operators"])) > 4
    same(g, 3 * wave(7, 5))
    assert "Gelu stands for" in g.compile(cache=False, workers=1).explain()


@pytest.mark.parametrize("wrong", [{"root": 1.4}, {"half": 0.25}])
def test_what_is_nearly_gelu_stays(wrong):
    g = Graph()
    g.output(gelu(g, g.input(("n", 5), name="x"), **wrong))
    assert "Gelu" not in names(g)


def test_a_part_that_others_read_keeps_the_rest_as_it_is():
    g = Graph()
    y = gelu(g, g.input(("n", 5), name="x"))
    g.output(y)
    g.output(y.node.inputs[1], "half")
    assert "Gelu" not in names(g)


def norm(g, x, weight=None, bias=None, centred=True):
    d = g.call(ops.subtract, x, g.call(ops.mean, x, axis=-1, keepdims=True)) if centred else x
    spread = g.call(ops.mean, g.call(ops.power, d, number(g, 2)), axis=-1, keepdims=True)
    y = g.call(ops.divide, d, g.call(ops.sqrt, g.call(ops.add, spread, number(g, 1e-3))))
    if weight is not None:
        y = g.call(ops.multiply, y, g.constant(weight))
    return y if bias is None else g.call(ops.add, y, g.constant(bias))


@pytest.mark.parametrize("weight", [None, wave(6)])
@pytest.mark.parametrize("bias", [None, wave(6)])
def test_layer_norm(weight, bias):
    g = Graph()
    g.output(norm(g, g.input(("n", 6), name="x"), weight, bias))
    assert names(g) == ["LayerNorm"]
    same(g, wave(5, 6))


def test_rms_norm_keeps_what_follows():
    g = Graph()
    g.output(norm(g, g.input(("n", 6), name="x"), wave(6), wave(6), centred=False))
    assert names(g) == ["RMSNorm", "add"]
    same(g, wave(5, 6))


def test_a_norm_of_another_dimension_stays():
    g = Graph()
    x = g.input(("n", 6, 6), name="x")
    d = g.call(ops.subtract, x, g.call(ops.mean, x, axis=1, keepdims=True))
    spread = g.call(ops.mean, g.call(ops.multiply, d, d), axis=1, keepdims=True)
    g.output(g.call(ops.divide, d, g.call(ops.sqrt, g.call(ops.add, spread, number(g, 1e-3)))))
    assert "LayerNorm" not in names(g)


def attended(g, q, k, v, mask=None, scale=0.5, guarded=False, turned=(0, 1, 3, 2)):
    """As exporters write it: the scale on both sides, keys turned by way of three dimensions."""
    each = number(g, scale**0.5)
    flat = g.call(ops.reshape, k, shape=[k.shape[0] * k.shape[1], *k.shape[2:]])
    back = g.call(ops.transpose, flat, axes=[0, 2, 1])
    keys = g.call(ops.reshape, back, shape=[k.shape[i] for i in turned])
    scores = g.call(ops.matmul, g.call(ops.multiply, q, each), g.call(ops.multiply, keys, each))
    weights = g.call(ops.softmax, scores if mask is None else g.call(ops.add, scores, mask))
    if guarded:
        weights = g.call(ops.where, g.call(ops.isnan, weights), number(g, 0), weights)
    return g.call(ops.matmul, weights, v)


@pytest.mark.each_value
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("hidden", [None, -np.inf, np.finfo("float32").min])
def test_attention(hidden, guarded):
    """A row that sees nothing gives what small operators make of it: NaN or zeros, or the mean where masks
    are numbers."""
    g = Graph()
    q, k, v = (g.input(("b", 2, m, 8), name=name) for name, m in (("q", "n"), ("k", "m"), ("v", "m")))
    mask = None if hidden is None else g.input(("b", 1, 1, "m"), name="mask")
    g.output(attended(g, q, k, v, mask, guarded=guarded))
    assert names(g)[-1] == "Attention" and len(names(g)) == 1
    arrays = [wave(2, 2, 3, 8), wave(2, 2, 5, 8), wave(2, 2, 5, 8)]
    if hidden is not None:
        seen = np.zeros((2, 1, 1, 5), "float32")
        seen[0, ..., 3:], seen[1] = hidden, hidden
        arrays.append(seen)
    with np.errstate(invalid="ignore"):
        same(g, *arrays)


@pytest.mark.parametrize("batch", [1, 3])
def test_attention_with_masks_of_windows(batch):
    """A bias of heads, then a mask of windows, which is added where windows have a dimension of their own."""
    g = Graph()
    windows, heads, n = 4, 2, 40
    count = batch * windows
    q, k, v = (g.input((count, heads, n, 8), name=name) for name in "qkv")
    bias, mask = g.input((1, heads, n, n), name="bias"), g.input((1, windows, 1, n, n), name="mask")
    keys = g.call(ops.transpose, k, axes=[0, 1, 3, 2])
    scores = g.call(ops.add, g.call(ops.matmul, g.call(ops.multiply, q, number(g, 0.5)), keys), bias)
    apart = g.call(ops.reshape, scores, shape=[-1, windows, heads, n, n])
    scores = g.call(ops.reshape, g.call(ops.add, apart, mask), shape=list(scores.shape))
    g.output(g.call(ops.matmul, g.call(ops.softmax, scores), v))
    assert names(g) == ["Attention"]
    hidden = np.where(wave(1, windows, 1, n, n) > 0.5, np.float32(-100), np.float32(0))
    same(g, *(wave(count, heads, n, 8) for _ in "qkv"), wave(1, heads, n, n), hidden)


def test_scores_in_another_order_stay():
    """What is added to scores whose rows are exchanged with their heads is no mask of theirs."""
    g = Graph()
    q, k, v = (g.input((40, 40, 40, 8), name=name) for name in "qkv")
    scores = g.call(ops.matmul, q, g.call(ops.transpose, k, axes=[0, 1, 3, 2]))
    turned = g.call(ops.transpose, scores, axes=[1, 0, 2, 3])
    g.output(g.call(ops.matmul, g.call(ops.softmax, turned), v))
    assert "Attention" not in names(g)


def test_rows_of_products_are_read_where_they_lie():
    g = Graph()
    heads = [g.call(ops.transpose, g.input(("b", "n", 2, 8), name=name), axes=[0, 2, 1, 3]) for name in "qkv"]
    g.output(attended(g, *heads))
    engine = g.compile(cache=False, workers=1)
    assert len(engine.kernels) == 1
    same(g, *(wave(2, 3, 2, 8) for _ in "qkv"))


@pytest.mark.each_value
@pytest.mark.parametrize(
    "axes", [[0, 2, 3, 1], [2, 0, 3, 1], pytest.param([1, 2, 3, 0], marks=pytest.mark.fuzz)]
)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("n", "m"), [(1, 33), (37, 41), (5, 64)])
def test_keys_whose_heads_and_rows_are_exchanged_at_once(axes, masked, n, m):
    """An exporter makes one transposition of that which brings heads forward and of the keys' own."""
    g = Graph()
    shape = [("b", 2, 8, "m")[axes.index(d)] for d in range(4)]
    q, v = g.input(("b", 2, "n", 8), name="q"), g.input(("b", 2, "m", 8), name="v")
    k = g.input(shape, name="k")
    each = number(g, 0.7)
    keys = g.call(ops.multiply, g.call(ops.transpose, k, axes=axes), each)
    scores = g.call(ops.matmul, g.call(ops.multiply, q, each), keys)
    mask = g.input(("b", 1, 1, "m"), name="mask") if masked else None
    weights = g.call(ops.softmax, scores if mask is None else g.call(ops.add, scores, mask))
    g.output(g.call(ops.matmul, weights, v))
    assert names(g) == ["Attention"]
    at = {"b": 3, "n": n, "m": m}
    arrays = [wave(3, 2, n, 8), wave(3, 2, m, 8), wave(*(at.get(s, s) for s in shape))]
    same(g, *arrays, *([wave(3, 1, 1, m)] if masked else []))


@pytest.mark.parametrize(("batch", "heads", "n"), [(1, 2, 40), (1, 1, 37), (1, 4, 1), (2, 1, 5), (1, 1, 1)])
@pytest.mark.parametrize("axes", [[0, 1, 3, 2], [0, 2, 3, 1]])
def test_attention_with_dimensions_of_one_element(batch, heads, n, axes):
    """The one element of a dimension is read at 0, not at an axis: a batch of one was three kernels."""
    g = Graph()
    m, by = 41, number(g, 3)
    rows = (batch, heads, m, 8) if axes[1] == 1 else (batch, m, heads, 8)
    q, k = g.input((batch, heads, n, 8), name="q"), g.input(rows, name="k")
    v = g.input((batch, heads, m, 8), name="v")
    scaled = g.call(ops.multiply, q, number(g, 0.7))
    scores = g.call(ops.divide, g.call(ops.matmul, scaled, g.call(ops.transpose, k, axes=axes)), by)
    g.output(g.call(ops.matmul, g.call(ops.softmax, scores), v))
    assert names(g) == ["Attention"]
    same(g, wave(batch, heads, n, 8), wave(*rows), wave(batch, heads, m, 8))


EINSUMS = {  # scores, result
    "rows": ("bhid,bhjd->bhij", "bhij,bhjd->bhid"),
    "heads behind": ("bihd,bjhd->bhij", "bhij,bjhd->bihd"),
    "pixels last": ("bhdi,bhdj->bhij", "bhij,bhdj->bhdi"),
    "values first": ("bhdi,bhdj->bhij", "bhdj,bhij->bhdi"),
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("form", EINSUMS)
def test_attention_by_einsum(form, batch):
    """Products with their dimensions in any order are those of one attention."""
    scores, result = EINSUMS[form]
    g = Graph()
    at = {"b": batch, "h": 3, "i": 21, "j": 104, "d": 8}
    left, right = scores.partition("->")[0].split(",")
    ends = result.partition("->")[0].split(",")
    values = next(e for e in ends if e != "bhij")
    q, k, v = ([at[c] for c in text] for text in (left, right, values))
    a, b, c = (g.input(s, name=n) for n, s in zip("qkv", (q, k, v), strict=True))
    mask = g.input((batch, 1, 1, at["j"]), name="mask")
    product = g.call(lambda x, y: ops.einsum(scores, x, y), g.call(ops.multiply, a, number(g, 0.3)), b)
    weights = g.call(ops.softmax, g.call(ops.add, product, mask))
    both = (weights, c) if ends[0] == "bhij" else (c, weights)
    g.output(g.call(lambda x, y: ops.einsum(result, x, y), *both))
    assert "Attention" in names(g) and {*names(g)} <= {"Attention", "Transpose"}
    same(g, wave(*q), wave(*k), wave(*v), wave(batch, 1, 1, at["j"]))


def test_attention_of_weights_that_are_transposed():
    """As models of images write it whose pixels come last."""
    g = Graph()
    q, k, v = (g.input((1, 8, n), name=name) for name, n in (("q", 21), ("k", 104), ("v", 104)))
    scores = g.call(ops.matmul, g.call(ops.transpose, q, axes=[0, 2, 1]), k)
    weights = g.call(ops.softmax, g.call(ops.multiply, scores, number(g, 0.5)))
    g.output(g.call(ops.matmul, v, g.call(ops.transpose, weights, axes=[0, 2, 1])))
    assert "Attention" in names(g) and "softmax" not in names(g)
    same(g, wave(1, 8, 21), wave(1, 8, 104), wave(1, 8, 104))


@pytest.mark.parametrize("result", ["bhij,bhjd->bhid", "bhij,bhid->bhjd"])
def test_einsums_that_are_no_attention_stay(result):
    """A softmax along queries, or a product that sums over them."""
    g = Graph()
    q, k, v = (g.input((2, 3, 104, 8), name=name) for name in "qkv")
    scores = g.call(lambda a, b: ops.einsum("bhid,bhjd->bhij", a, b), q, k)
    weights = g.call(ops.softmax, scores, axis=-1 if result.endswith("jd") else -2)
    g.output(g.call(lambda a, b: ops.einsum(result, a, b), weights, v))
    assert "Attention" not in names(g)
    same(g, *(wave(2, 3, 104, 8) for _ in "qkv"))


def test_a_query_that_is_broadcast_over_heads_of_one_stays_right():
    """A dimension of one element that a factor spreads is not the dimension of what it makes."""
    g = Graph()
    q, k, v = (g.input((1, h, 40, 8), name=name) for name, h in (("q", 1), ("k", 3), ("v", 3)))
    spread = g.call(ops.multiply, q, g.constant(np.full((1, 3, 1, 1), 0.5, "float32")))
    keys = g.call(ops.transpose, k, axes=[0, 1, 3, 2])
    g.output(g.call(ops.matmul, g.call(ops.softmax, g.call(ops.matmul, spread, keys)), v))
    same(g, wave(1, 1, 40, 8), wave(1, 3, 40, 8), wave(1, 3, 40, 8))


def test_keys_that_lie_across_stay():
    """Elements of a key that are far apart are read by a product as they lie."""
    g = Graph()
    q, v = (g.input(("b", 2, 40, 8), name=name) for name in "qv")
    k = g.input((2, "b", 8, 40), name="k")
    scores = g.call(ops.matmul, q, g.call(ops.transpose, k, axes=[1, 0, 2, 3]))
    g.output(g.call(ops.matmul, g.call(ops.softmax, scores), v))
    assert "Attention" not in names(g)


def test_attention_of_few_keys_stays():
    g = Graph()
    q, k, v = (g.input(("b", 2, attention.FEW - 1, 8), name=name) for name in "qkv")
    g.output(attended(g, q, k, v))
    assert "Attention" not in names(g)


def test_what_is_no_softmax_of_keys_stays():
    g = Graph()
    q, k, v = (g.input(("b", 2, 40, 40), name=name) for name in "qkv")
    weights = g.call(ops.softmax, g.call(ops.matmul, q, g.call(ops.transpose, k, axes=[0, 1, 3, 2])), axis=2)
    g.output(g.call(ops.matmul, weights, v))
    assert "Attention" not in names(g)


def test_rotary_embedding():
    g = Graph()
    x, cos, sin = (
        g.input(("b", 2, "n", 8), name="x"),
        g.input(("n", 8), name="cos"),
        g.input(("n", 8), name="s"),
    )
    low = g.call(ops.strided_slice, x, begin=[0], end=[4], axes=[3])
    high = g.call(ops.negative, g.call(ops.strided_slice, x, begin=[4], end=[8], axes=[3]))
    turned = g.call(lambda a, b: ops.concatenate([a, b], 3), high, low)
    g.output(g.call(ops.add, g.call(ops.multiply, x, cos), g.call(ops.multiply, turned, sin)))
    assert names(g) == ["RotaryEmbedding"]
    same(g, wave(2, 2, 5, 8), wave(5, 8), wave(5, 8))


def test_forms_tell_apart_what_is_not_the_same():
    n = te.dim("n")
    x, y = te.placeholder((n, 6), name="x"), te.placeholder((n, 6), name="y")
    assert alike(ops.multiply(ops.add(x, y), x), ops.add(ops.multiply(x, x), ops.multiply(y, x)))
    assert alike(ops.divide(x, ops.sqrt(y)), ops.multiply(ops.rsqrt(y), x))
    assert not alike(ops.subtract(x, y), ops.subtract(y, x))
    assert not alike(ops.sum(x, axis=1), ops.sum(x, axis=0))
    assert not alike(ops.flip(x, axis=1), x) and alike(ops.flip(ops.flip(x, axis=1), axis=1), x)
    assert not alike(ops.max(x, axis=1), ops.sum(x, axis=1))
    assert not alike(ops.sqrt(ops.multiply(x, x)), x)
    assert not alike(ops.cast(x, "int32"), ops.cast(y, "int32"))


def test_a_value_without_dimensions_is_not_turned():
    """What looks at first like a rotary embedding: two parts, one of which makes a choice."""
    g = Graph()
    x = g.input((), "int32", "x")
    third = g.call(ops.floor_divide, x, g.constant(np.int32(3)))
    g.output(g.call(ops.where, g.call(ops.greater, third, g.constant(np.int32(-2))), third, third))
    a = np.array(-7, "int32")
    assert g.compile(cache=False, workers=1)(a) == reference(g, [a])[0] == -3
