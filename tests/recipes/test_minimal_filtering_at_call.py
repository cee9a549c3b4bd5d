"""Convolutions whose weight comes with the call, by F(2×2, 3×3) where that takes less time: a step of the
default schedule, so that a tuner begins with it too."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule
from tests.ops import images
from tests.recipes.long import LONG

RNG = np.random.default_rng(12)
TARGET = "llvm -mcpu=skylake-avx512"  # decisions are by its table, whatever runs the tests
C = 96


def whole(*shape):
    """Small integers: sums of them are exact, and F(2×2, 3×3) keeps them so."""
    return RNG.integers(-4, 5, shape).astype("float32")


def inputs(height=24, width=26, batch=1, outputs=C):
    x = te.placeholder((batch, C, height, width), name="x")
    weight = te.placeholder((outputs, C, 3, 3), name="k")
    return x, weight, te.placeholder((outputs,), name="b")


def steps(schedule):
    return [p.name for p in schedule.trace.steps]


def filtered(*tensors, **options):
    """The stages that are computed by minimal filtering."""
    ways = tl.compile(list(tensors), TARGET, **options).explain().stages
    return [name for name, how in ways.items() if "minimal filtering" in how]


def plain(x, w, b):
    return ops.conv2d(x, w, padding=1)


def activated(x, w, b):
    return ops.relu(ops.conv2d(x, w, b, padding=1))


def without_margin(x, w, b):
    return ops.conv2d(x, w, b)


def uneven_margin(x, w, b):
    return ops.conv2d(x, w, b, padding=((2, 1), (0, 1)))


def residual(x, w, b):
    return ops.relu(ops.conv2d(ops.relu(ops.conv2d(x, w, b, padding=1)), w, padding=1) + x)


def pooled(x, w, b):
    return ops.max_pool2d(ops.relu(ops.conv2d(x, w, padding=1)), 2, 2)


def read_twice(x, w, b):
    y = ops.conv2d(x, w, padding=1)
    return ops.maximum(y, 0 - y) + ops.relu(y)


def turned(x, w, b):
    y = ops.conv2d(x, w, padding=1)
    return te.compute((y.shape[0], *y.shape[2:], C), lambda n, i, j, o: y(n, o, i, j), name="turned")


CASES = (plain, activated, without_margin, uneven_margin, residual, pooled, read_twice, turned)


@pytest.mark.each_value
@pytest.mark.parametrize("size", [(29, 31), pytest.param((24, 26), marks=LONG)], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_small_integers_are_exact(case, size):
    tensors = inputs(*size)
    y = case(*tensors)
    read = [t for t in tensors if t in te.graph.inputs([y])]
    assert filtered(*read, y) and not filtered(*read, y, without=["winograd"])
    scale = 1 if case is not residual else 0.125
    arrays = {t: whole(*map(int, t.shape)) * np.float32(scale) for t in read}
    (want,) = te.reference.evaluate([y], arrays)
    np.testing.assert_array_equal(tl.compile([*read, y])(*arrays.values()), want)


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_images_of_a_batch_whose_number_is_open(batch):
    n = te.dim("n", 1, 64)
    x = te.placeholder((n, C, 24, 26), name="x")
    _, w, b = inputs()
    y = activated(x, w, b)
    assert filtered(x, w, b, y)
    arrays = whole(batch, C, 24, 26), whole(C, C, 3, 3), whole(C)
    want = np.maximum(images.conv(arrays[0], arrays[1], arrays[2], padding=1), 0)
    np.testing.assert_array_equal(tl.compile([x, w, b, y])(*arrays), want)


@pytest.mark.parametrize("outputs", [C, C + 9])
@pytest.mark.parametrize(
    ("size", "kernel", "padding"),
    [
        ((5, 12, 13), (3, 3, 3), 1),
        ((4, 20, 22), (1, 3, 3), (0, 1, 1)),
        ((4, 17, 21), (2, 3, 3), ((1, 0), (2, 1), (0, 1))),
        ((1, 24, 25), (3, 3, 3), 1),
    ],
    ids=["a volume", "planes by themselves", "two taps of depth", "one plane"],
)
def test_volumes(size, kernel, padding, outputs):
    x, w = te.placeholder((2, C, *size), name="x"), te.placeholder((outputs, C, *kernel), name="k")
    b = te.placeholder((outputs,), name="b")
    y = ops.relu(ops.conv3d(x, w, b, padding=padding))
    assert filtered(x, w, b, y) and not filtered(x, w, b, y, without=["winograd"])
    arrays = whole(2, C, *size), whole(outputs, C, *kernel), whole(outputs)
    want = np.maximum(images.conv(*arrays, padding=padding), 0)
    np.testing.assert_array_equal(tl.compile([x, w, b, y])(*arrays), want)


@pytest.mark.parametrize("known", [False, True])
def test_volumes_with_channels_last(known):
    x, w = te.placeholder((2, 4, 17, 18, C), name="x"), te.placeholder((3, 3, 3, C, C), name="k")
    y = ops.relu(ops.conv3d(x, w, padding=1, layout="NDHWC"))
    a, k = whole(2, 4, 17, 18, C), whole(3, 3, 3, C, C)
    constants, given = ({w: k}, [x]) if known else ({}, [x, w])
    assert filtered(*given, y, constants=constants)
    want = images.conv(a.transpose(0, 4, 1, 2, 3), k.transpose(4, 3, 0, 1, 2), padding=1)
    want = np.maximum(want, 0).transpose(0, 2, 3, 4, 1)
    got = tl.compile([*given, y], constants=constants)(*([a] if known else [a, k]))
    assert np.abs(got - want).max() <= (2e-5 * np.abs(want).max() if known else 0)


@pytest.mark.parametrize("batch", [1, 3])
def test_volumes_of_open_batch_and_depth(batch):
    x = te.placeholder((te.dim("n", 1, 64), C, te.dim("d", 1, 64), 20, 21), name="x")
    w = te.placeholder((C, C, 3, 3, 3), name="k")
    y = ops.conv3d(x, w, padding=1)
    assert filtered(x, w, y)
    f = tl.compile([x, w, y])
    for depth in (1, 5):
        arrays = whole(batch, C, depth, 20, 21), whole(C, C, 3, 3, 3)
        np.testing.assert_array_equal(f(*arrays), images.conv(*arrays, padding=1))


@pytest.mark.parametrize("outputs", [C + 1, 2 * C - 3, 23])
def test_outputs_that_do_not_fill_vectors(outputs):
    x, w, b = inputs(outputs=outputs)
    y = activated(x, w, b)
    arrays = whole(1, C, 24, 26), whole(outputs, C, 3, 3), whole(outputs)
    want = np.maximum(images.conv(*arrays, padding=1), 0)
    np.testing.assert_array_equal(tl.compile([x, w, b, y])(*arrays), want)


def last(x, w, b):
    return ops.relu(ops.conv2d(x, w, b, padding=1, layout="NHWC"))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("size", [(24, 26), (29, 31)], ids=str)
def test_channels_last(size, batch):
    """Channels of a pixel beside each other need no copies of other orders, neither in front nor behind."""
    x, b = te.placeholder((batch, *size, C), name="x"), te.placeholder((C,), name="b")
    w = te.placeholder((3, 3, C, C), name="k")
    y = last(x, w, b)
    arrays = whole(batch, *size, C), whole(3, 3, C, C), whole(C)
    want = images.conv(arrays[0].transpose(0, 3, 1, 2), arrays[1].transpose(3, 2, 0, 1), arrays[2], padding=1)
    want = np.maximum(want, 0).transpose(0, 2, 3, 1)
    assert filtered(x, w, b, y)
    np.testing.assert_array_equal(tl.compile([x, w, b, y])(*arrays), want)
    # of known weights, which is filtered as well, in larger tiles
    known = {w: arrays[1]}
    assert filtered(x, b, y, constants=known)
    got = tl.compile([x, b, y], constants=known)(arrays[0], arrays[2])
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


def test_weights_of_both_kinds_in_one_program():
    x, w, b = inputs()
    known = te.placeholder((C, C, 3, 3), name="known")
    y = ops.conv2d(ops.relu(ops.conv2d(x, w, b, padding=1)), known, padding=1)
    arrays = {x: whole(1, C, 24, 26), w: whole(C, C, 3, 3), b: whole(C), known: whole(C, C, 3, 3)}
    assert len(filtered(x, w, b, y, constants={known: arrays[known]})) == 2
    (want,) = te.reference.evaluate([y], arrays)
    got = tl.compile([x, w, b, y], constants={known: arrays[known]})(*[arrays[t] for t in (x, w, b)])
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


def test_all_results_keep_their_places():
    x, w, b = inputs()
    hidden = activated(x, w, b)
    y = ops.conv2d(hidden, w, padding=1)
    arrays = whole(1, C, 24, 26), whole(C, C, 3, 3) * np.float32(0.125), whole(C)
    f, direct = (tl.compile([x, w, b, hidden, y], without=names) for names in ([], ["winograd"]))
    assert str(f.signature) == str(direct.signature)
    for a, c in zip(f(*arrays), direct(*arrays), strict=True):
        np.testing.assert_array_equal(a, c)


def test_what_a_block_of_tiles_cannot_end_in_stays_direct():
    """Rows of a softmax are no blocks of tiles: stages by themselves would take longer than the sum."""
    x, w, _ = inputs()
    y = ops.softmax(ops.conv2d(x, w, padding=1), axis=-1)
    assert not filtered(x, w, y)
    arrays = whole(1, C, 24, 26), whole(C, C, 3, 3)
    want = te.reference.evaluate([y], dict(zip((x, w), arrays, strict=True)))[0]
    np.testing.assert_allclose(tl.compile([x, w, y])(*arrays), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda x, w: ops.conv2d(x, w, stride=2),
        lambda x, w: ops.conv2d(x, w, dilation=2),
        lambda x, w: ops.conv2d(x, te.placeholder((C, C, 5, 5), name="five")),
        lambda x, w: ops.conv2d(x, te.placeholder((C, C // 4, 3, 3), name="grouped"), groups=4),
        lambda x, w: ops.conv2d(ops.cast(x, "float64"), ops.cast(w, "float64")),
    ],
    ids=["stride", "dilation", "five", "groups", "float64"],
)
def test_others_keep_their_sums(make):
    x, w, _ = inputs()
    y = make(x, w)
    assert "winograd" not in steps(default_schedule([y], TARGET))


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("make", "biased"),
    [(plain, False), (activated, True), (without_margin, True), (uneven_margin, True), (residual, True)],
)
def test_images_of_open_size(make, biased):
    """Direct sums of 128 channels of 14 × 14 take twice as long."""
    x, w, b = inputs(te.dim("h", 3, 64), te.dim("w", 3, 64), te.dim("n", 1, 4))
    y = make(x, w, b)
    used = [x, w, b] if biased else [x, w]
    assert filtered(*used, y)
    f, direct = tl.compile([*used, y]), tl.compile([*used, y], without=["winograd"])
    for n, height, width in ((1, 3, 3), (2, 7, 12), (1, 20, 5), (3, 16, 31)):
        arrays = [whole(n, C, height, width), whole(C, C, 3, 3), whole(C)][: len(used)]
        np.testing.assert_array_equal(f(*arrays), direct(*arrays))


def test_few_channels_of_few_pixels_keep_their_sums():
    x, w = te.placeholder((1, 16, 4, 4), name="x"), te.placeholder((16, 16, 3, 3), name="k")
    assert not filtered(x, w, ops.conv2d(x, w, padding=1))


def test_what_is_compiled_is_the_default_schedule_that_a_tuner_begins_with():
    x, w, b = inputs()
    y = activated(x, w, b)
    s = default_schedule([y], TARGET)
    assert steps(s)[0] == "winograd"
    again = s.trace.apply(te.create_schedule(y.op))
    built = [tl.build(schedule, [x, w, b, y], TARGET, load=False) for schedule in (s, again)]
    compiled = tl.compile([x, w, b, y], TARGET)
    assert len({str(f.get_source("ir")) for f in (*built, compiled)}) == 1
    assert "winograd" not in steps(default_schedule([y], TARGET, without=["winograd"]))


def test_a_task_without_it_begins_without_it():
    autosched = pytest.importorskip("autosched")
    x, w, b = inputs()
    tensors = [x, w, b, activated(x, w, b)]
    from autosched.space import variants_of

    for without, there in ([], True), (["winograd"], False):
        task = autosched.SearchTask(lambda: tensors, target=TARGET, without=without)
        assert ("winograd" in [p.name for p in variants_of(task)[0].trace.steps]) is there


@pytest.mark.parametrize("cores", [1, 2, 3, 4])
def test_each_thread_transforms_a_weight_that_stays_with_it(cores):
    x, w, b = inputs(40, 40)
    y = activated(x, w, b)
    s = default_schedule([y], f"{TARGET} -num-cores={cores}")
    kernel = next(st for st in s.stages if st.name.endswith(".kernel"))
    assert (kernel.state.attach is not None) is (cores > 1)
    arrays = whole(1, C, 40, 40), whole(C, C, 3, 3), whole(C)
    want = np.maximum(images.conv(*arrays, padding=1), 0)
    got = tl.build(s, [x, w, b, y])(*arrays)
    np.testing.assert_array_equal(got, want)
