"""Convolutions by minimal filtering, a block of tiles at a time: bit for bit with F(2×2, 3×3), whose fractions
are halves and quarters, and where each stage is computed."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import winograd
from tensorlang.recipes.default_schedule import scheduled
from tensorlang.target import as_target
from tests.ops import images
from tests.ops.arrays import exact
from tests.ops.images import small

RNG = np.random.default_rng(21)
WAY = "a convolution by minimal filtering"


@pytest.mark.each_value
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell"])
@pytest.mark.parametrize(
    ("x", "outputs"),
    [((2, 5, 9, 11), 6), ((6, 16, 8, 8), 16), ((1, 64, 40, 37), 70), ((3, 33, 13, 6), 9), ((1, 1, 3, 3), 1)],
    ids=["few", "several images", "rows of tiles", "rests", "one"],
)
def test_blocks_of_every_shape(x, outputs, target):
    image, w, b = small(RNG, x), small(RNG, (outputs, x[1], 3, 3)), small(RNG, (outputs,))
    want = images.conv(image, w, b, padding=1)
    other = small(RNG, want.shape)
    X, W, B, Y = (te.placeholder(a.shape) for a in (image, w, b, other))
    made = ops.conv2d_winograd(X, W, B, padding=1, tile=2)
    f = tl.compile([X, W, B, Y, ops.relu(ops.subtract(made, Y))], target=target)
    exact(f(image, w, b, other), np.maximum(want - other, 0), "float32")


@pytest.mark.parametrize("known", [False, True])
def test_an_open_batch_and_a_known_weight(known):
    w = small(RNG, (24, 16, 3, 3))
    X, W = te.placeholder((te.dim("n"), 16, 10, 12), name="X"), te.placeholder(w.shape, name="W")
    made = ops.conv2d_winograd(X, W, tile=2)
    f = tl.compile([X, W, made], constants={W: w} if known else None)
    for n in (1, 3):
        x = small(RNG, (n, 16, 10, 12))
        exact(f(x) if known else f(x, w), images.conv(x, w), "float32")


@pytest.mark.parametrize("batch", ["open", "known"])
def test_images_of_open_size_share_a_large_weight(batch, monkeypatch):
    monkeypatch.setattr(winograd, "CACHES", 0)
    images_of = te.dim("n") if batch == "open" else 3
    w = small(RNG, (24, 16, 3, 3))
    X, W = (
        te.placeholder((images_of, 16, te.dim("h"), te.dim("w")), name="X"),
        te.placeholder(w.shape, name="W"),
    )
    made = ops.conv2d_winograd(X, W, padding=1, tile=2)
    s, why = scheduled(made, as_target(None), constants=[W])
    assert "n.inner" in str(s.tree()) and made.op.name in why
    f = tl.compile([X, W, made], constants={W: w})
    for n in (3,) if batch == "known" else (1, 3, 4, 9):
        for size in ((4, 4), (7, 10)):
            x = small(RNG, (n, 16, *size))
            exact(f(x), images.conv(x, w, padding=1), "float32")


def test_all_is_computed_in_one_loop_over_blocks():
    """What the loop over blocks does not hold are the weight's transforms and its panels."""
    x, w = te.placeholder((2, 32, 20, 20), name="x"), te.placeholder((48, 32, 3, 3), name="w")
    s, why = scheduled(ops.relu(ops.conv2d_winograd(x, w, padding=1)), as_target(None))
    assert why["relu"].startswith(WAY)
    around = [st.name for st in s.stages if st.state.attach is None and st.op.input_tensors]
    assert [n for n in around if "weight" not in n] == ["relu"]


def test_others_read_its_result_too():
    """The mean of rows reads whole rows of the result: it is computed stage by stage."""
    x, w = small(RNG, (1, 4, 6, 6)), small(RNG, (3, 4, 3, 3))
    X, W = te.placeholder(x.shape), te.placeholder(w.shape)
    total = ops.sum(ops.conv2d_winograd(X, W, padding=1, tile=2), (2, 3))
    exact(tl.compile([X, W, total])(x, w), images.conv(x, w, padding=1).sum((2, 3)), "float32")


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell"])
@pytest.mark.parametrize("width", ["w", 13], ids=["both", "height"])
def test_an_image_of_open_size(width, target):
    """A block is a row of tiles, and holds the rows of the image that these read, not all of it."""
    w = small(RNG, (20, 5, 3, 3))
    size = (te.dim("h"), te.dim("w") if width == "w" else width)
    X, W = te.placeholder((te.dim("n"), 5, *size), name="X"), te.placeholder(w.shape, name="W")
    made = ops.relu(ops.conv2d_winograd(X, W, padding=1, tile=2))
    s, why = scheduled(made, as_target(target))
    assert any(text.startswith(WAY) for text in why.values())
    assert re.search(r"storage conv2d_winograd\.data\.pixels +float32\[1, 4, ", str(s.tree()))
    again = [
        p for p in s.trace.steps if "matmul" in getattr(p, "stage", "") and getattr(p, "tail", "") == "shift"
    ]
    assert bool(again) == (width != "w")  # tiles of a row of open length compute nothing twice
    f = tl.compile([X, W, made], target=target)
    for n, h, wide in ((1, 1, 1), (2, 9, 11), (1, 3, 40), (1, 30, 2), (1, 0, 5), (0, 4, 4)):
        x = small(RNG, (n, 5, h, wide if width == "w" else width))
        exact(f(x, w), np.maximum(images.conv(x, w, padding=1), 0), "float32")


@pytest.mark.parametrize(("images_", "channels", "extent"), [(1, 128, 13), (2, 96, 9)])
def test_a_large_weight_is_read_once(images_, channels, extent):
    """Where all tiles are one block, the steps are shared out and not blocks, each of which would read all of
    a weight that is larger than the second cache."""
    target = as_target("llvm -mcpu=haswell -num-cores=2")
    w = small(RNG, (channels, channels, 3, 3))
    assert 16 * w.size // 9 * w.itemsize > target.l2_bytes
    x, b = small(RNG, (images_, channels, extent, extent)), small(RNG, (channels,))
    X, W, B = (te.placeholder(a.shape, name=n) for a, n in ((x, "x"), (w, "w"), (b, "b")))
    made = ops.relu(ops.conv2d_winograd(X, W, B, padding=1, tile=2))
    s, why = scheduled(made, target, [W])
    assert why["relu"].startswith(WAY)
    shared = {st.name for st in s.stages for iv in st.leaf_iter_vars if st.state.kind(iv) == "parallel"}
    assert {"relu", *(n for n in shared if "matmul" in n)} < shared
    assert any("matmul" in n for n in shared), shared
    exact(
        tl.compile([X, B, made], constants={W: w}, target=target)(x, b),
        np.maximum(images.conv(x, w, b, padding=1), 0),
        "float32",
    )


def test_rows_of_tiles_are_cut_for_threads():
    """14 rows of tiles in blocks of two were four blocks for one of two threads, and three for the other."""
    x, w = te.placeholder((1, 64, 56, 56), name="x"), te.placeholder((64, 64, 3, 3), name="w")
    made = ops.relu(ops.conv2d_winograd(x, w, padding=1))
    s, _ = scheduled(made, as_target("llvm -mcpu=sapphirerapids -num-cores=2"), [w])
    shares = re.search(r"loop relu\S+ +0\.\.(\d+)  parallel", str(s.tree()))
    assert shares is not None and int(shares[1]) % 2 == 0, str(s.tree())


@pytest.mark.parametrize("images", [2, 3])
def test_blocks_of_several_images_do_not_reach_into_the_next(images):
    """14 rows of tiles in blocks of three: each block copied two whole images with their margins."""
    x, w = te.placeholder((images, 32, 28, 28), name="x"), te.placeholder((48, 32, 3, 3), name="w")
    out = ops.conv2d_winograd(x, w, padding=1, tile=2)
    text = str(tl.lower(scheduled(out, as_target("llvm -num-cores=1"))[0], [x, w, out]))
    copied = re.search(r"conv2d_winograd\.pad: float32\[(\d+)\]", text)
    assert copied and int(copied[1]) < 32 * 30 * 30 // 2


@pytest.mark.each_value
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell", "llvm -num-cores=2"])
@pytest.mark.parametrize(
    ("x", "outputs", "taps", "padding"),
    [
        ((2, 5, 3, 9, 11), 6, 3, 1),
        ((1, 16, 6, 8, 8), 20, 3, ((2, 0), (1, 1), (0, 1))),
        ((1, 9, 4, 40, 37), 17, 1, (0, 1, 1)),
        ((1, 33, 5, 13, 6), 9, 4, (1, 1, 1)),
        ((1, 1, 1, 3, 3), 1, 3, 1),
        ((2, 7, 5, 2, 2), 6, 3, 1),
    ],
    ids=["few", "margins", "planes alone", "even taps", "one", "a tile a plane"],
)
def test_volumes_of_every_shape(x, outputs, taps, padding, target):
    """The planes of a volume are transformed once, and the taps along its depth summed with the channels."""
    volume, w, b = small(RNG, x), small(RNG, (outputs, x[1], taps, 3, 3)), small(RNG, (outputs,))
    want = np.maximum(images.conv(volume, w, b, padding=padding), 0)
    X, W, B = (te.placeholder(a.shape, name=n) for a, n in ((volume, "x"), (w, "w"), (b, "b")))
    made = ops.relu(ops.conv3d_winograd(X, W, B, padding=padding, tile=2))
    _, why = scheduled(made, as_target(target))
    assert why["relu"].startswith(WAY)
    exact(tl.compile([X, W, B, made], target=target)(volume, w, b), want, "float32")
    exact(tl.compile([X, B, made], constants={W: w}, target=target)(volume, b), want, "float32")


def test_a_large_weight_of_a_volume_is_read_once():
    target = as_target("llvm -mcpu=haswell -num-cores=2")
    x, w = small(RNG, (1, 160, 1, 4, 4)), small(RNG, (160, 160, 3, 3, 3))
    X, W = te.placeholder(x.shape, name="x"), te.placeholder(w.shape, name="w")
    made = ops.relu(ops.conv3d_winograd(X, W, padding=1, tile=2))
    s, _ = scheduled(made, target, [W])
    shared = {st.name for st in s.stages for iv in st.leaf_iter_vars if st.state.kind(iv) == "parallel"}
    assert any("matmul" in n for n in shared), shared
    got = tl.compile([X, made], constants={W: w}, target=target)(x)
    exact(got, np.maximum(images.conv(x, w, padding=1), 0), "float32")


def test_a_volume_of_open_size():
    w = small(RNG, (20, 5, 3, 3, 3))
    sizes = (te.dim("d"), te.dim("h"), te.dim("w"))
    X, W = te.placeholder((te.dim("n"), 5, *sizes), name="X"), te.placeholder(w.shape, name="W")
    made = ops.relu(ops.conv3d_winograd(X, W, padding=1, tile=2))
    f = tl.compile([X, W, made])
    for n, d, h, wide in ((1, 1, 1, 1), (2, 5, 9, 11), (1, 3, 4, 40), (1, 0, 4, 4), (1, 9, 30, 2)):
        x = small(RNG, (n, 5, d, h, wide))
        exact(f(x, w), np.maximum(images.conv(x, w, padding=1), 0), "float32")


def test_tiles_of_registers_run_over_the_end_of_a_plane():
    """A plane of 7 × 7 has four tiles of 4 × 4: alone they would be a small tile of registers."""
    x, w = te.placeholder((1, 64, 8, 7, 7), name="x"), te.placeholder((64, 64, 3, 3, 3), name="w")
    s, _ = scheduled(ops.conv3d_winograd(x, w, padding=1), as_target("llvm -mcpu=znver5 -num-cores=1"), [w])
    (inside,) = [st for st in s.stages if st.op.reduce_axis]
    *_, rows, _, _ = inside.op.axis
    assert int(rows.extent) % 4 == 0 and int(rows.extent) > 4


@pytest.mark.parametrize("way", [tl.compile, None], ids=["kernel", "engine"])
def test_a_known_weight_of_a_volume_is_filtered(way):
    x = RNG.standard_normal((1, 32, 6, 12, 12)).astype("float32")
    w = (RNG.standard_normal((48, 32, 3, 3, 3)) / 16).astype("float32")
    target = as_target("llvm -mcpu=znver5")
    if way is None:
        g = tl.Graph("volume")
        made = g.call(ops.conv3d, g.input(x.shape, "float32", "x"), g.constant(w), padding=1)
        g.output(made, "y")
        text = str(g.compile(target=target).explain())
    else:
        X, W = te.placeholder(x.shape, name="x"), te.placeholder(w.shape, name="w")
        text = str(way([X, ops.conv3d(X, W, padding=1)], constants={W: w}, target=target).explain())
    assert "minimal filtering" in text or "Winograd" in text, text
