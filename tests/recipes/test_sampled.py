"""The recipe for images read at places that are data: right for odd numbers of channels and places, no
element gathered."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512
from tests.recipes.long import LONG

RNG = np.random.default_rng(31)


def declared(batch, channels, extents, places, **how):
    X = te.placeholder((batch, channels, *extents), name="X")
    G = te.placeholder((batch, *places, len(extents)), name="G")
    return X, G, ops.grid_sample(X, G, **how)


def taken(out, target=AVX512):
    """Whether the default schedule copies the image, channels side by side."""
    return any(stage.name == "X.global" for stage in default_schedule(out, target).stages)


# batch, channels, extents, places: parts of vectors, one vector, several, short rows, one and three dimensions
SHAPES = [
    (1, 64, (13, 17), (20, 33)),
    (2, 16, (10, 9), (7, 16)),
    (3, 8, (9, 8), (5, 5)),
    (1, 33, (11, 12), (9, 40)),
    (1, 100, (8, 8), (6, 3)),
    (2, 20, (7, 5), (1, 50)),
    (2, 19, (30,), (41,)),
    (1, 24, (4, 5, 6), (3, 4, 17)),
]


@pytest.mark.each_value
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(("batch", "channels", "extents", "places"), SHAPES, ids=str)
def test_odd_shapes(batch, channels, extents, places, mode, cores):
    if mode == "cubic" and len(extents) == 3:
        pytest.skip("64 taps, of which nothing is another")
    X, G, out = declared(batch, channels, extents, places, mode=mode)
    assert taken(out)
    x = RNG.standard_normal((batch, channels, *extents)).astype("float32")
    g = RNG.uniform(-1.2, 1.2, (batch, *places, len(extents))).astype("float32")
    (want,) = te.reference.evaluate([out], {X: x, G: g})
    f = tl.compile([X, G, out], target=f"llvm -num-cores={cores}")
    np.testing.assert_allclose(f(x, g), want, rtol=2e-5, atol=2e-5)


@pytest.mark.each_value
@pytest.mark.parametrize("target", [AVX2, AVX512])
@pytest.mark.parametrize("mode", ["nearest", "linear", pytest.param("cubic", marks=LONG)])
@pytest.mark.parametrize(
    ("batch", "channels", "extents", "places"),
    [
        (1, 1, (13, 17), (4, 37)),
        (2, 3, (9, 8), (3, 16)),
        (1, 2, (30,), (1045,)),
        pytest.param(1, 7, (4, 5, 6), (2, 3, 5), marks=LONG),
    ],
)
def test_few_channels_hold_what_tells_where(batch, channels, extents, places, mode, target):
    X, G, out = declared(batch, channels, extents, places, mode=mode)
    tree = str((s := default_schedule(out, target)).tree())
    assert not taken(out, target) and "grid_sample.at" in tree and "global" not in tree
    x = RNG.standard_normal((batch, channels, *extents)).astype("float32")
    g = RNG.uniform(-1.2, 1.2, (batch, *places, len(extents))).astype("float32")
    (want,) = te.reference.evaluate([out], {X: x, G: g})
    got = np.zeros(want.shape, "float32")
    interpret(tl.lower(s, [X, G, out]), x, g, got)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(tl.compile([X, G, out])(x, g), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("target", [AVX2, AVX512])
def test_channels_are_loaded_side_by_side(target):
    X, G, out = declared(1, 64, (56, 56), (56, 56))
    s = default_schedule(out, target)
    asm = tl.build(s, [X, G, out], target=target).get_source("asm")
    assert "gather" not in asm
    assert "vfmadd" in asm


def test_threads_copy_what_they_read():
    """Each its own channels, one after the other where one thread has several parts."""
    _, _, out = declared(1, 64, (56, 56), (56, 56))
    tree = default_schedule(out, AVX512 + " -num-cores=4").tree()
    assert "float32[1, 56, 56, 16]" in tree and tree.index("grid_sample.b.c.outer.fused") < tree.index(
        "X.global"
    )


def test_what_follows_and_a_batch_of_any_size():
    n = te.var("n")
    X, G = te.placeholder((n, 16, 9, 11), name="X"), te.placeholder((n, 6, 13, 2), name="G")
    out = ops.relu(ops.grid_sample(X, G))
    assert taken(out)
    f = tl.compile([X, G, out])
    for batch in (0, 1, 3):
        x = RNG.standard_normal((batch, 16, 9, 11)).astype("float32")
        g = RNG.uniform(-1.2, 1.2, (batch, 6, 13, 2)).astype("float32")
        (want,) = te.reference.evaluate([out], {X: x, G: g})
        np.testing.assert_allclose(f(x, g), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_types(dtype):
    X, G = te.placeholder((1, 16, 9, 11), dtype, name="X"), te.placeholder((1, 6, 13, 2), dtype, name="G")
    out = ops.grid_sample(X, G)
    x = RNG.standard_normal((1, 16, 9, 11)).astype(dtype)
    g = RNG.uniform(-1.2, 1.2, (1, 6, 13, 2)).astype(dtype)
    (want,) = te.reference.evaluate([out], {X: x, G: g})
    np.testing.assert_allclose(tl.compile([X, G, out])(x, g), want, rtol=2e-3, atol=2e-3)


def test_few_channels_few_places_and_open_sizes_are_gathered():
    assert not taken(declared(1, 3, (56, 56), (56, 56))[2])
    assert not taken(declared(1, 64, (56, 56), (5, 5))[2])
    X, G = te.placeholder((1, 64, te.var("h"), 9), name="X"), te.placeholder((1, 6, 13, 2), name="G")
    assert not taken(ops.grid_sample(X, G))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_open_sizes_copy_the_image_where_places_are_many(mode):
    """A call asks: of an image much larger than its places only what is read is gathered."""
    n, h, w, p, q = (te.dim(name) for name in "nhwpq")
    X, G, out = declared(n, 20, (h, w), (p, q), mode=mode)
    f = tl.compile([X, G, out], target=AVX512)
    text = f.get_source("ir")
    many, _, few = text.partition("\n    else:\n")
    assert "<= 16:" in many and "X.global" in many and "X.global" not in few
    f = tl.compile([X, G, out])
    for batch, extents, places in [
        (1, (1, 1), (1, 1)),
        (2, (7, 9), (5, 3)),
        (1, (40, 50), (2, 3)),
        (1, (13, 31), (17, 19)),
        (0, (4, 4), (3, 3)),
        (1, (4, 4), (0, 3)),
    ]:
        x = RNG.standard_normal((batch, 20, *extents)).astype("float32")
        g = RNG.uniform(-1.2, 1.2, (batch, *places, 2)).astype("float32")
        (want,) = te.reference.evaluate([out], {X: x, G: g}) if batch * places[0] else (f(x, g),)
        np.testing.assert_allclose(f(x, g), want, rtol=2e-5, atol=2e-5)
