"""s.winograd: a convolution by 3×3 kernels as transforms and products, bit for bit where the fractions are
halves and quarters, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret

RNG = np.random.default_rng(3)


def image(shape, kernel, **how):
    A, B = te.placeholder(shape, name="A"), te.placeholder(kernel, name="B")
    return [A, B, ops.conv2d(A, B, **how)]


def volume(shape, kernel, **how):
    A, B = te.placeholder(shape, name="A"), te.placeholder(kernel, name="B")
    return [A, B, ops.conv3d(A, B, **how)]


def bare(height, width):
    """A convolution of one image, declared by hand, the taps of its weight in front, read one row down."""
    A, B = te.placeholder((5, height + 3, width + 2), name="A"), te.placeholder((3, 3, 5, 4), name="B")
    c, i, j = (te.reduce_axis((0, n), name=name) for name, n in (("c", 5), ("i", 3), ("j", 3)))
    return [
        A,
        B,
        te.compute(
            (height, 4, width),
            lambda y, o, x: te.sum(A[c, y + i + 1, x + j] * B[i, j, c, o], axis=[c, i, j]),
            name="conv2d",
        ),
    ]


PROGRAMS = {
    "channels first": lambda: image((2, 3, 8, 8), (5, 3, 3, 3), padding=1),
    "odd sizes": lambda: image((1, 4, 7, 10), (3, 4, 3, 3)),
    "channels last": lambda: image((1, 9, 8, 4), (3, 3, 4, 6), padding=1, layout="NHWC"),
    "by hand": lambda: bare(5, 6),
    "a volume": lambda: volume((2, 3, 4, 6, 7), (5, 3, 3, 3, 3), padding=1),
    "planes by themselves": lambda: volume((2, 3, 3, 6, 5), (4, 3, 1, 3, 3)),
    "two taps of depth": lambda: volume((1, 2, 4, 5, 5), (3, 2, 2, 3, 3), padding=((1, 0), (1, 1), (0, 1))),
    "a volume, channels last": lambda: volume((1, 3, 5, 6, 4), (3, 3, 3, 4, 3), padding=1, layout="NDHWC"),
}


def integers(tensors):
    return [RNG.integers(-3, 4, [int(str(n)) for n in t.shape]).astype("float32") for t in tensors[:2]]


@pytest.mark.parametrize("name", PROGRAMS)
def test_tile_2_is_exact_for_small_integers(name):
    tensors = PROGRAMS[name]()
    s = te.create_schedule(tensors[-1].op)
    s.winograd(tensors[-1], tile=2)
    inputs = integers(tensors)
    (right,) = te.reference.evaluate([tensors[-1]], dict(zip(tensors, inputs, strict=False)))
    assert np.array_equal(tl.build(s, tensors)(*inputs), right)


@pytest.mark.parametrize("name", ("channels first", "odd sizes"))
def test_tile_4_is_near(name):
    tensors = PROGRAMS[name]()
    s = te.create_schedule(tensors[-1].op)
    s.winograd(tensors[-1])
    inputs = [RNG.standard_normal(a.shape).astype("float32") for a in integers(tensors)]
    (right,) = te.reference.evaluate([tensors[-1]], dict(zip(tensors, inputs, strict=False)))
    assert np.abs(tl.build(s, tensors)(*inputs) - right).max() <= 2e-5 * np.abs(right).max()


def test_the_tree_shows_transforms_and_products():
    tensors = PROGRAMS["channels first"]()
    s = te.create_schedule(tensors[-1].op)
    products = s.winograd(tensors[-1], tile=2)
    assert [int(str(n)) for n in products.shape] == [4, 4, 2 * 4 * 4, 5]
    made = [st.name for st in s.stages if st.name.startswith("conv2d.") and st.name != "conv2d.pad"]
    assert made == [
        "conv2d.taps",
        "conv2d.kernel.rows",
        "conv2d.kernel",
        "conv2d.image",
        "conv2d.data.rows",
        "conv2d.data",
        "conv2d.products",
        "conv2d.inverse.rows",
        "conv2d.inverse",
    ]
    assert not s[tensors[-1]].op.reduce_axis


def test_planes_of_a_volume_are_transformed_once():
    tensors = PROGRAMS["a volume"]()
    s = te.create_schedule(tensors[-1].op)
    products = s.winograd(tensors[-1], tile=2)
    assert [int(str(n)) for n in products.shape] == [4, 4, 2, 4, 3 * 4, 5]
    assert [int(str(a.extent)) for a in products.op.reduce_axis] == [3, 3]
    assert [int(str(n)) for n in s["conv3d.data"].op.outputs[0].shape] == [4, 4, 2, 6, 3 * 4, 3]


def test_a_weight_with_outputs_innermost_is_not_copied():
    tensors = PROGRAMS["channels last"]()
    s = te.create_schedule(tensors[-1].op)
    s.winograd(tensors[-1], tile=2)
    assert "conv2d.taps" not in s.state.position


def test_traces_and_python_text_replay():
    tensors = PROGRAMS["channels first"]()
    s = te.create_schedule(tensors[-1].op)
    products = s.winograd(tensors[-1], tile=2)
    s[products].parallel(s[products].op.axis[2])
    text = str(tl.lower(s, tensors))
    again = tl.Trace.from_json(s.trace.to_json()).apply(te.create_schedule(tensors[-1].op))
    assert str(tl.lower(again, tensors)) == text
    names: dict = {}
    exec(s.trace.to_python(), names)
    by_text = names["apply"](te.create_schedule(tensors[-1].op))
    assert str(tl.lower(by_text, tensors)) == text


def split_before(s, C):
    s[C].split(s[C].op.axis[0], 2)


def nothing(s, C):
    pass


REFUSED = {
    "stride": (lambda: image((1, 3, 9, 9), (4, 3, 3, 3), stride=2), nothing, 2, "of stride 1"),
    "dilation": (lambda: image((1, 3, 9, 9), (4, 3, 3, 3), dilation=2), nothing, 2, "of stride 1"),
    "kernel": (lambda: image((1, 3, 9, 9), (4, 3, 5, 5)), nothing, 2, "3×3 kernels"),
    "taps of a plane": (lambda: volume((1, 3, 5, 9, 9), (4, 3, 3, 1, 3)), nothing, 2, "3×3 kernels"),
    "planes apart": (
        lambda: volume((1, 3, 5, 9, 9), (4, 3, 3, 3, 3), stride=(2, 1, 1)),
        nothing,
        2,
        "of stride 1",
    ),
    "groups": (lambda: image((1, 4, 9, 9), (4, 2, 3, 3), groups=2), nothing, 2, "in one group"),
    "tile": (PROGRAMS["by hand"], nothing, 3, "tile × tile outputs"),
    "begun": (PROGRAMS["by hand"], split_before, 2, "its schedule is begun"),
    "twice": (PROGRAMS["by hand"], lambda s, C: s.winograd(C, 2), 2, "not a plain sum"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_such_convolution_is_refused_and_nothing_changed(name):
    make, before, tile, reason = REFUSED[name]
    C = make()[-1]
    s = te.create_schedule(C.op)
    before(s, C)
    steps = s.trace.to_json()
    with pytest.raises(tl.ScheduleError, match=reason):
        s.winograd(C, tile=tile)
    assert s.trace.to_json() == steps


def test_integers_and_open_channels_are_refused():
    A, B = te.placeholder((1, 3, 8, 8), "int32", name="A"), te.placeholder((4, 3, 3, 3), "int32", name="B")
    C = ops.conv2d(A, B)
    with pytest.raises(tl.ScheduleError, match="float32 and float64"):
        te.create_schedule(C.op).winograd(C)
    n = te.dim("n", 1, 64)
    C = ops.conv2d(te.placeholder((1, n, 8, 8), name="A"), te.placeholder((4, n, 3, 3), name="B"), padding=1)
    with pytest.raises(tl.ScheduleError, match="of a known number of channels"):
        te.create_schedule(C.op).winograd(C)


@pytest.mark.each_value
@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
@pytest.mark.parametrize("deep", [0, 1, 3])
def test_images_may_be_of_open_size(deep, last, tile):
    """Batch, height and width, and the depth of a volume: rows and columns of tiles have an axis each."""
    n, h, w, d = te.dim("n"), te.dim("h", 1), te.dim("w", 1), te.dim("d", 3)
    planes, taps = ((d,), (deep,)) if deep else ((), ())
    image, kernel = (
        ((n, *planes, h, w, 3), (*taps, 3, 3, 3, 5)) if last else ((n, 3, *planes, h, w), (5, 3, *taps, 3, 3))
    )
    A, B = te.placeholder(image, name="A"), te.placeholder(kernel, name="B")
    layout = ("NDHWC" if deep else "NHWC") if last else ("NCDHW" if deep else "NCHW")
    C = (ops.conv3d if deep else ops.conv2d)(A, B, padding=(0, 1, 1) if deep else 1, layout=layout)
    s = te.create_schedule(C.op)
    s.winograd(next(st.name for st in s.stages if st.name.startswith("conv") and "pad" not in st.name), tile)
    f, plain, text = (
        tl.build(s, [A, B, C]),
        tl.build(te.create_schedule(C.op), [A, B, C]),
        tl.lower(s, [A, B, C]),
    )
    for sizes in ((2, 1, 1, 3), (1, 7, 4, 3), (3, 4, 9, 5)):
        known = dict(zip("nhwd", sizes, strict=True))
        shape = [known.get(str(e)) or int(str(e)) for e in image]
        a, b = RNG.integers(-3, 4, shape).astype("float32"), RNG.integers(-3, 4, kernel).astype("float32")
        want = plain(a, b)
        near = 0 if tile == 2 else 2e-5 * np.abs(want).max()
        np.testing.assert_allclose(f(a, b), want, atol=near)
        if sizes[0] == 1:
            got = np.zeros_like(want)
            interpret(text, a, b, got)
            np.testing.assert_allclose(got, want, atol=near)


def test_a_batch_may_be_open():
    n = te.dim("n", 1, 4)
    A, B = te.placeholder((n, 3, 6, 6), name="A"), te.placeholder((4, 3, 3, 3), name="B")
    C = ops.conv2d(A, B, padding=1)
    s = te.create_schedule(C.op)
    s.winograd(C, tile=2)
    inputs = [RNG.integers(-3, 4, shape).astype("float32") for shape in ((3, 3, 6, 6), (4, 3, 3, 3))]
    assert np.array_equal(tl.build(s, [A, B, C])(*inputs), tl.compile([A, B, C])(*inputs))
