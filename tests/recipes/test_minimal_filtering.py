"""``tl.compile`` computes convolutions of a known weight by fewer multiplications where the table says that it
takes less time: which ones, that answers stay, and the switch."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis import FilterSizes, outputs_at_once
from tensorlang.core.dtype import dtype
from tensorlang.recipes import another_way
from tensorlang.target import Target
from tests.ops import images

RNG = np.random.default_rng(11)
TARGET = "llvm -mcpu=skylake-avx512"  # decisions are by its table, whatever runs the tests
C, SIZE = 64, 30


def values(*shape, scale=1.0):
    return RNG.standard_normal(shape).astype("float32") * np.float32(scale)


X = te.placeholder((1, C, SIZE, SIZE), name="x")
K, L = (te.placeholder((C, C, 3, 3), name=name) for name in "kl")
B = te.placeholder((C,), name="b")
KNOWN = {K: values(C, C, 3, 3, scale=0.06), L: values(C, C, 3, 3, scale=0.06), B: values(C)}
IMAGE = values(1, C, SIZE, SIZE)


def known(*results):
    """The constants that they are made of."""
    read = te.graph.inputs(results)
    return {t: a for t, a in KNOWN.items() if t in read}


def ways(*results, constants=None, inputs=(X,), **options):
    """How each stage is computed."""
    constants = known(*results) if constants is None else constants
    return tl.compile([*inputs, *results], TARGET, constants=constants, **options).explain().stages


def filtered(stages):
    return [name for name, how in stages.items() if "minimal filtering" in how]


def first(bias=True):
    return ops.conv2d(X, K, *([B] if bias else []), padding=1)


def second():
    return ops.conv2d(ops.relu(first()), L, padding=1)


def pooled():
    return ops.max_pool2d(ops.relu(first()), 2, 2)


def read_twice():
    y = first()
    return ops.tanh(y) + ops.relu(y)


def residual():
    return ops.relu(second() + X)


def turned():
    y = first()
    return te.compute((1, SIZE, SIZE, C), lambda n, i, j, o: y(n, o, i, j), name="turned")


CASES = {
    "plain": (lambda: first(bias=False), 1),
    "with a bias": (lambda: ops.relu(first()), 1),
    "one behind the other": (second, 2),
    "with what came in": (residual, 2),
    "pooled": (pooled, 1),
    "read twice": (read_twice, 1),
    "turned": (turned, 1),
}


@pytest.mark.parametrize("case", CASES)
def test_answers_stay_within_2e_5_of_the_largest(case):
    made, count = CASES[case]
    y = made()
    assert len(filtered(ways(y))) == count and not filtered(ways(y, without=["winograd"]))
    arrays = {X: IMAGE, **known(y)}
    (want,) = te.reference.evaluate([y], arrays)
    got = tl.compile([X, y], constants=known(y))(IMAGE)
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


def test_all_results_keep_their_places_and_names():
    hidden = ops.relu(first())
    y = ops.conv2d(hidden, L, padding=1)
    f, direct = (tl.compile([X, hidden, y], constants=known(y), without=w) for w in ([], ["winograd"]))
    assert str(f.signature) == str(direct.signature)
    for a, b in zip(f(IMAGE), direct(IMAGE), strict=True):
        assert np.abs(a - b).max() <= 2e-5 * np.abs(b).max()


@pytest.mark.parametrize("padding", [1, 0, ((2, 1), (0, 1))], ids=str)
def test_margins(padding):
    y = ops.conv2d(X, K, B, padding=padding)
    assert filtered(ways(y))
    want = images.conv(IMAGE.astype("float64"), KNOWN[K].astype("float64"), KNOWN[B], padding=padding)
    got = tl.compile([X, y], constants=known(y))(IMAGE)
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


def test_a_margin_of_another_value_stays_an_image():
    around = ops.pad(X, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=1.0)
    y = ops.conv2d(around, K)
    assert filtered(ways(y))
    image = np.pad(IMAGE, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=1).astype("float64")
    want = images.conv(image, KNOWN[K].astype("float64"), 0 * KNOWN[B], padding=0)
    got = tl.compile([X, y], constants=known(y))(IMAGE)
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 31)])
def test_open_images(shape):
    n, h = te.var("n"), te.var("h")
    x = te.placeholder((n, C, h, SIZE), name="x")
    y = ops.relu(ops.conv2d(x, K, B, padding=1))
    assert filtered(ways(y, inputs=[x]))
    image = values(shape[0], C, shape[1], SIZE)
    want = images.conv(image.astype("float64"), KNOWN[K].astype("float64"), KNOWN[B], padding=1)
    got = tl.compile([x, y], constants=known(y))(image)
    assert np.abs(got - np.maximum(want, 0)).max() <= 2e-5 * np.abs(want).max()


def _few():
    x, k = te.placeholder((1, 3, SIZE, SIZE), name="x"), te.placeholder((8, 3, 3, 3), name="k")
    return x, ops.conv2d(x, k), {k: values(8, 3, 3, 3)}


def _strided():
    return X, ops.conv2d(X, K, stride=2), None


def _at_the_call():
    return (X, K), ops.conv2d(X, K), {}


def _doubles():
    x, k = (te.placeholder(s, "float64", name="x") for s in [(1, C, SIZE, SIZE), (C, C, 3, 3)])
    return x, ops.conv2d(x, k), {k: KNOWN[K].astype("float64")}


def _by_row():
    """A soft maximum of each row takes rows of the sums, and not blocks of tiles."""
    return X, ops.softmax(first(bias=False)), None


@pytest.mark.parametrize("case", [_few, _strided, _at_the_call, _doubles, _by_row])
def test_others_stay_direct(case):
    inputs, y, constants = case()
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    stages = ways(y, constants=constants, inputs=inputs)
    assert not filtered(stages) and stages == ways(
        y, constants=constants, inputs=inputs, without=["winograd"]
    )


def halves(kind, channels, size, opened=False):
    sizes = (te.var("h"), te.var("v")) if opened else (size, size)
    x = te.placeholder((1, channels, *sizes), kind, name="x")
    k, b = (
        te.placeholder((channels, channels, 3, 3), kind, name="k"),
        te.placeholder((channels,), kind, name="b"),
    )
    return [x, k, b, ops.relu(ops.conv2d(x, k, b, padding=1))]


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("opened", [False, True])
def test_halves_are_summed_in_float32_and_rounded_once(kind, opened):
    x, k, b, y = halves(kind, C, SIZE, opened)
    stored = dtype(kind).to_numpy()
    image, weight, bias = (a.astype(stored) for a in (IMAGE, KNOWN[K], KNOWN[B]))
    f = tl.compile([x, k, b, y], constants={k: weight, b: bias}, target=TARGET)
    assert filtered(f.explain().stages)
    f = tl.compile([x, k, b, y], constants={k: weight, b: bias})
    wide = [a.astype("float64") for a in (image, weight, bias)]
    want = np.maximum(images.conv(*wide, padding=1), 0)
    step = 2.0 ** (-11 if kind == "float16" else -8)
    # the sum is rounded, and so is what a bias is added to
    assert (
        np.abs(f(image).astype("float64") - want) <= 2e-5 * want.max() + 3 * step * (np.abs(want) + 1)
    ).all()


def test_pairs_of_bfloat16_stay_direct_where_they_are_faster():
    found = []
    for kind, cpu in ("bfloat16", "znver4"), ("float16", "znver4"), ("bfloat16", "skylake-avx512"):
        x, k, b, y = halves(kind, 256, 14)
        weight = np.zeros((256, 256, 3, 3), dtype(kind).to_numpy())
        f = tl.compile([x, k, b, y], constants={k: weight}, target=f"llvm -mcpu={cpu}")
        found.append(bool(filtered(f.explain().stages)))
    assert found == [False, True, True]


@pytest.mark.parametrize(
    ("channels", "outputs", "size", "packed", "tile"),
    [(39, 193, 14, True, 4), (25, 352, 17, True, 4), (29, 128, 20, False, 2)],
)
def test_transforms_are_cheap_on_a_zen_5(channels, outputs, size, packed, tile, monkeypatch):
    """With the generic price of transforms these were summed directly, in up to 2.7 times as long."""
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    sizes = FilterSizes(1, size, size, channels, outputs)
    zen5, generic = (Target.parse(f"llvm -mcpu={cpu} -num-cores=1") for cpu in ("znver5", "x86-64-v4"))
    assert outputs_at_once(sizes, packed, zen5, exact=not packed) == tile
    assert outputs_at_once(sizes, packed, generic, exact=not packed) is None


@pytest.mark.parametrize("outputs", [5, 12, 15, 16])
@pytest.mark.parametrize("packed", [True, False])
def test_less_than_a_vector_of_outputs_stays_direct(outputs, packed, monkeypatch):
    """190 to 15 channels of 53 × 53 took 2.4 times as long, in vectors of 8, 4, 2 and 1."""
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    sizes, target = FilterSizes(1, 53, 53, 190, outputs), Target.parse("llvm -mcpu=znver5 -num-cores=1")
    found = outputs_at_once(sizes, packed, target, exact=not packed)
    assert (found is None) == (outputs < 16)


@pytest.mark.parametrize(
    ("channels", "outputs", "size", "dilation", "padding", "taken"),
    [
        (512, 512, 28, 2, 2, True),  # direct sums took 2.7 times as long
        (256, 256, 28, 4, 4, True),
        (16, 32, 20, 3, 0, False),  # the phases would be copied in most of the time
        (512, 256, 33, 18, 18, False),  # in bands, whose products are less than half
    ],
)
def test_taps_that_lie_apart(channels, outputs, size, dilation, padding, taken, monkeypatch):
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    x = te.placeholder((1, channels, size, size), name="x")
    w = te.placeholder((outputs, channels, 3, 3), name="w")
    y = ops.conv2d(x, w, padding=padding, dilation=dilation)
    target, weight = Target.parse("llvm -mcpu=znver5 -num-cores=1"), np.zeros((outputs, channels, 3, 3), "f")
    made = another_way(y.op, target, [w])
    assert (made is not None and made.name == "conv2d_winograd") == taken
    assert not taken or filtered(tl.compile([x, y], target, constants={w: weight}).explain().stages)


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_answers_of_taps_that_lie_apart(kind):
    shape, kernel = (1, 64, 30, 27), (64, 64, 3, 3)
    x, w = te.placeholder(shape, kind, name="x"), te.placeholder(kernel, kind, name="w")
    a, k = values(*shape).astype(kind), values(*kernel, scale=0.06).astype(kind)
    f = tl.compile([x, ops.relu(ops.conv2d(x, w, padding=2, dilation=2))], constants={w: k})
    wide = [v.astype("float64") for v in (a, k)]
    want = np.maximum(images.conv(*wide, padding=2, dilation=2), 0)
    rounded = np.abs(want) * (2.0**-11 if kind == "float16" else 0)
    assert (np.abs(f(a) - want) <= 2e-5 * want.max() + rounded).all()


@pytest.mark.parametrize("wrong", [["fusion"], "winograd", 3, [3]], ids=str)
def test_what_it_cannot_do_without(wrong):
    with pytest.raises(tl.errors.LowerError, match='without=\\["winograd"\\]'):
        tl.compile([X, first()], constants=known(first()), without=wrong)


def test_outputs_that_are_operations_stay_direct():
    y = ops.relu(first())
    f = tl.compile([X, y], outputs=[y.op], constants=known(y))
    assert not filtered(f.explain().stages)
    np.testing.assert_allclose(f(IMAGE), tl.compile([X, y], constants=known(y))(IMAGE), atol=1e-3)
