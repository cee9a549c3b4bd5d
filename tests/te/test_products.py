"""Which sums are windows of an image times a weight, and how each index of the image moves."""

import pytest

from tensorlang import ops, te
from tensorlang.te.products import conv_of, factors_of, product_of, windows_of


def conv(layout, weights, groups=1, **how):
    sizes = {"N": 2, "C": 4, "H": 9, "W": 9}
    kernel = {"O": 8, "I": 4 // groups, "H": 3, "W": 3}
    x = te.placeholder([sizes[d] for d in layout], name="x")
    w = te.placeholder([kernel[d] for d in weights], name="w")
    return ops.conv2d(x, w, groups=groups, layout=layout, weight_layout=weights, **how).op


@pytest.mark.parametrize("weights", ["OIHW", "HWIO"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_every_order_has_the_same_windows(layout, weights):
    op = conv(layout, weights, stride=2, dilation=2)
    w = windows_of(op)
    moved = dict(zip(layout, w.moved, strict=True))
    assert (w.data.name, w.weight.name) == ("x", "w") and w.outputs is op.axis[layout.index("C")]
    for d in "HW":
        assert moved[d].axis is op.axis[layout.index(d)] and (moved[d].stride, moved[d].dilation) == (2, 2)
    assert moved["N"].axis is op.axis[0] and moved["N"].tap is None and moved["C"].axis is None
    assert all(m.added == 0 for m in w.moved) and factors_of(op) is not None
    assert (conv_of(op) is not None) == (layout == "NCHW")


def test_groups_and_channels_by_themselves():
    grouped, alone = (
        conv("NCHW", "OIHW", groups=2),
        ops.depthwise_conv2d(
            te.placeholder((1, 4, 9, 9), name="x"), te.placeholder((4, 1, 3, 3), name="w")
        ).op,
    )
    assert conv_of(grouped).groups == 2 and windows_of(grouped).moved[1].added is None
    assert conv_of(alone) is None and windows_of(alone).place[1] is alone.axis[1].var


def test_what_is_no_window():
    x, w = te.placeholder((9, 9), name="x"), te.placeholder((3,), name="w")
    i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 3), "j")
    two_taps = te.compute((5, 9), lambda y, z: te.sum(x[y + i + j, z] * w[i], axis=[i, j]))
    largest = te.compute((7, 9), lambda y, z: te.max(x[y + i, z] * w[i], axis=i))
    square = te.compute((9,), lambda y: te.sum(x[y, i] * x[y, i], axis=i))
    assert [windows_of(t.op) for t in (two_taps, largest, square)] == [None, None, None]


@pytest.mark.parametrize(
    ("rows", "row"),
    [((50, 1), 0), ((1, 50), 1), ((50, 8), 0), ((8, 50), 1), ((60, 50), 1), ((128, 64), 1), ((2, 3, 1), 1)],
)
def test_the_rows_of_a_tile_are_along_the_axis_that_has_many(rows, row):
    """(time, batch, features) with a batch of one ran one row at a time, ten times as long."""
    x, w = te.placeholder((*rows, 24), name="x"), te.placeholder((24, 40), name="w")
    op = ops.matmul(x, w).op
    assert product_of(op).row is op.axis[row]


def test_an_open_batch_stands_behind_a_known_length():
    n = te.dim("n")
    w = te.placeholder((24, 40), name="w")
    for shape, row in (((n, 50, 24), 1), ((n, 1, 24), 0), ((50, n, 24), 0)):
        op = ops.matmul(te.placeholder(shape, name="x"), w).op
        assert product_of(op).row is op.axis[row]
