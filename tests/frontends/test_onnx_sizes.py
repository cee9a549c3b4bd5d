"""Models whose sizes would have to be equal: taken for equal, and made anew for a call in which they are not."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensorlang as tl

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from .beside import ran  # noqa: E402

FLOAT = TensorProto.FLOAT


def model(nodes, inputs, constants=(), outputs=("y",)):
    """A ModelProto; inputs are name: shape of float32."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, FLOAT, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in dict(constants).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def numbers(*shape):
    return np.arange(np.prod(shape), dtype="float32").reshape(shape) % 7


def test_halved_and_doubled_again():
    """As in a feature pyramid: right as it is for even sizes, made for the size of the call otherwise."""
    nodes = [
        helper.make_node("AveragePool", ["x"], ["a"], kernel_shape=[2], strides=[2]),
        helper.make_node("Concat", ["a", "a"], ["b"], axis=2),
        helper.make_node("Add", ["x", "b"], ["y"]),
    ]
    graph = tl.load_onnx(model(nodes, {"x": [1, 1, "n"]}))
    assert graph.rest is None
    assert [(str(a), str(b)) for a, b in graph.assumed] == [("(n // 2)*2", "n")]
    assert "where (n // 2)*2 == n" in str(graph)
    engine = graph.compile()
    for n in (4, 10):
        x = numbers(1, 1, n)
        a = x.reshape(1, 1, -1, 2).mean(-1)
        assert np.array_equal(engine(x), x + np.concatenate([a, a], 2))
    kernels = len(engine.source.compiler.made)
    x = numbers(1, 1, 3)  # one and a half windows: a mean of one, twice, to be added to three
    with pytest.raises(tl.TensorLangError, match="broadcast"):
        engine(x)
    assert len(engine.source.compiler.made) <= kernels + 2


def test_a_size_that_a_reshape_drops():
    """A height that must be 1 when the reshape is right."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], kernel_shape=[3, 1], strides=[3, 1]),
        helper.make_node("Shape", ["a"], ["s"]),
        helper.make_node("Gather", ["s", "last"], ["w"]),
        helper.make_node("Concat", ["two", "w"], ["target"], axis=0),
        helper.make_node("Reshape", ["a", "target"], ["y"]),
    ]
    constants = {"last": np.array([3]), "two": np.array([2])}
    graph = tl.load_onnx(model(nodes, {"x": [1, 2, "h", "w"]}, constants))
    assert graph.rest is None
    engine = graph.compile()
    for w in (2, 5):
        x = numbers(1, 2, 4, w)
        assert np.array_equal(engine(x), x[0, :, :3].max(1))
    with pytest.raises(tl.TensorLangError, match="reshape"):
        engine(numbers(1, 2, 6, 2))


def test_two_inputs_of_one_size_or_broadcast():
    """Sizes of inputs that may be 1: both ways are served."""
    nodes = [helper.make_node("Neg", ["b"], ["c"]), helper.make_node("Sub", ["a", "c"], ["y"])]
    engine = tl.load_onnx(model(nodes, {"a": ["n"], "b": ["m"]})).compile()
    for n, m in ((4, 4), (4, 1), (1, 3), (5, 5)):
        a, b = numbers(n), numbers(m) + 2
        assert np.array_equal(engine(a, b), a + b)


def test_the_end_of_an_open_slice_is_the_size():
    """Exporters write a large number for the end."""
    nodes = [
        helper.make_node("Slice", ["x", "zero", "end", "zero"], ["a"]),
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Reshape", ["a", "s"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "end": np.array([1000000000])}
    graph = tl.load_onnx(model(nodes, {"x": ["n", 2]}, constants))
    assert graph.rest is None and not graph.assumed
    assert np.array_equal(graph.compile()(numbers(3, 2)), numbers(3, 2))


def branching(condition):
    """``y = x summed over its second dimension`` where the condition on its size holds, else ``-x``."""

    def branch(name, nodes):
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info("r", FLOAT, None)])

    squeezed = [helper.make_node("Squeeze", ["x", "axis"], ["r"])]
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "axis"], ["n"]),
        *condition,
        helper.make_node(
            "If",
            ["c"],
            ["z"],
            then_branch=branch("then", squeezed),
            else_branch=branch("else", [helper.make_node("Neg", ["x"], ["r"])]),
        ),
        helper.make_node("Neg", ["z"], ["y"]),
    ]
    constants = {"axis": np.array([1]), "one": np.array([1])}
    return tl.load_onnx(model(nodes, {"x": ["b", "n"]}, constants))


def test_dimensions_of_one_element_that_sizes_show():
    """Without axes, a Squeeze leaves out the open dimensions that a call gives one element."""
    nodes = [helper.make_node("Squeeze", ["x"], ["s"]), helper.make_node("Neg", ["s"], ["y"])]
    graph = tl.load_onnx(model(nodes, {"x": ["b", 1, "n", 4]}, {}))
    for level in (0, 2):
        engine = graph.compile(level=level)
        for shape in ((2, 1, 3, 4), (1, 1, 3, 4), (1, 1, 1, 4), (2, 1, 1, 4), (0, 1, 1, 4)):
            x = numbers(*shape)
            assert np.array_equal(engine(x), -np.squeeze(x))


@pytest.mark.parametrize(
    "condition",
    [
        [helper.make_node("Equal", ["n", "one"], ["c"])],
        [
            helper.make_node("Equal", ["n", "one"], ["d"]),
            helper.make_node("Not", ["d"], ["e"]),
            helper.make_node("Cast", ["e"], ["f"], to=TensorProto.INT64),
            helper.make_node("Less", ["f", "one"], ["c"]),
        ],
    ],
)
def test_a_branch_that_sizes_decide(condition):
    """Both ways are served, of different ranks, each compiled once."""
    graph = branching(condition)
    assert graph.rest is None
    engine = graph.compile()
    assert np.array_equal(engine(numbers(3, 1)), -numbers(3, 1)[:, 0])
    assert np.array_equal(engine(numbers(3, 2)), numbers(3, 2))
    kernels = len(engine.source.compiler.made)
    assert np.array_equal(engine(numbers(2, 1)), -numbers(2, 1)[:, 0])
    assert np.array_equal(engine(numbers(2, 5)), numbers(2, 5))
    assert len(engine.source.compiler.made) == kernels


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 3), (3, 2, 0), (0, 0, 5), (2, 3, 4)])
def test_what_is_flattened_may_be_empty(shape):
    """A size beside one of 0 was asked to follow from the others."""
    x = np.zeros(shape, "float32")
    for axis in range(-3, 4):
        d = axis % 3 if axis < 3 else 3
        wanted = x.reshape(math.prod(shape[:d]), math.prod(shape[d:]))
        for closed in ((), (0,)):
            _, (y,), *_ = ran("Flatten", [x], closed=closed, axis=axis)
            assert np.array_equal(y, wanted) and y.shape == wanted.shape


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_shares_of_all_that_follows_may_be_empty(op):
    for shape in ((0, 3, 2), (2, 0, 2), (2, 3, 0)):
        _, (y,), *_ = ran(op, [np.zeros(shape, "float32")], opset=11, axis=1)
        assert y.shape == shape


def constant(name, array):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(array), name))


def test_positions_cut_out_of_a_table():
    """As torch exports BERT: the first n of 8 positions are repeated for the batch; longer calls are refused."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        constant("one", [1]),
        constant("zero", [0]),
        helper.make_node("Gather", ["s", "one"], ["n"]),
        helper.make_node("Slice", ["table", "zero", "n", "one"], ["p"]),
        helper.make_node("Expand", ["p", "s"], ["e"]),
        helper.make_node("Add", ["x", "e"], ["y"]),
    ]
    graph = tl.load_onnx(model(nodes, {"x": ["b", "n"]}, {"table": numbers(1, 8)}))
    assert graph.rest is None
    assert [(str(a), str(b)) for a, b in graph.assumed] == [("min(n, 8)", "n")]
    engine = graph.compile()
    for n in (3, 8):
        x = numbers(2, n)
        assert np.array_equal(engine(x), x + numbers(1, 8)[:, :n])
    with pytest.raises(tl.TensorLangError, match="broadcast"):
        engine(numbers(2, 9))


def test_a_repeat_as_often_as_the_batch():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        constant("times", [0]),
        helper.make_node("Gather", ["s", "times"], ["b"]),
        constant("one", [1]),
        helper.make_node("Concat", ["b", "one"], ["target"], axis=0),
        helper.make_node("Tile", ["row", "target"], ["t"]),
        helper.make_node("Add", ["x", "t"], ["y"]),
    ]
    graph = tl.load_onnx(model(nodes, {"x": ["b", 4]}, {"row": numbers(1, 4)}))
    assert graph.rest is None and not graph.assumed
    assert np.array_equal(graph.compile()(numbers(3, 4)), numbers(3, 4) + numbers(1, 4))


@pytest.mark.parametrize("wanted", ["total", "least"])
def test_a_margin_that_sizes_give(wanted):
    """To 6 elements in all, or to 6 at least: what is longer is cut, or stays."""
    nodes = [
        helper.make_node("Shape", ["x"], ["n"]),
        constant("six", [6]),
        constant("zero", [0]),
        helper.make_node("Sub", ["six", "n"], ["total"]),
        helper.make_node("Max", ["total", "zero"], ["least"]),
        helper.make_node("Concat", ["zero", wanted], ["widths"], axis=0),
        helper.make_node("Pad", ["x", "widths"], ["y"]),
    ]
    graph = tl.load_onnx(model(nodes, {"x": ["n"]}))
    assert graph.rest is None and not graph.assumed
    engine = graph.compile()
    for n in (1, 6, 9):
        padded = np.concatenate([numbers(n), np.zeros(max(6 - n, 0), "float32")])
        assert np.array_equal(engine(numbers(n)), padded[:6] if wanted == "total" else padded)


def test_a_remainder_of_a_size():
    """As windows are padded to whole ones: by (3 - n % 3) % 3."""
    nodes = [
        helper.make_node("Shape", ["x"], ["n"]),
        constant("three", [3]),
        constant("zero", [0]),
        helper.make_node("Mod", ["n", "three"], ["m"]),
        helper.make_node("Sub", ["three", "m"], ["d"]),
        helper.make_node("Mod", ["d", "three"], ["behind"]),
        helper.make_node("Concat", ["zero", "behind"], ["widths"], axis=0),
        helper.make_node("Pad", ["x", "widths"], ["y"]),
    ]
    graph = tl.load_onnx(model(nodes, {"x": ["n"]}))
    assert graph.rest is None
    engine = graph.compile()
    for n in (3, 4, 5):
        assert np.array_equal(engine(numbers(n)), np.pad(numbers(n), (0, -n % 3)))


def test_sizes_computed_of_constants_in_floats():
    """A shape that goes by way of Ceil, beside one of the batch: known while the graph is made."""
    nodes = [
        constant("height", np.float32(7)),
        constant("two", np.float32(2)),
        helper.make_node("Div", ["height", "two"], ["half"]),
        helper.make_node("Ceil", ["half"], ["rows"]),
        helper.make_node("Cast", ["rows"], ["whole"], to=TensorProto.INT64),
        constant("zero", [0]),
        helper.make_node("Unsqueeze", ["whole", "zero"], ["h"]),
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["b"]),
        helper.make_node("Mul", ["b", "h"], ["all"]),
        constant("rest", [-1]),
        helper.make_node("Concat", ["all", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    graph = tl.load_onnx(model(nodes, {"x": ["b", 12]}))
    assert graph.rest is None
    assert np.array_equal(graph.compile()(numbers(2, 12)), numbers(2, 12).reshape(8, 3))


def test_lengths_that_are_rounded_up_are_cut_into_frames():
    """A margin of what is missing to whole frames, written with a remainder: one graph for all lengths."""
    nodes = [
        helper.make_node("Shape", ["x"], ["n"], start=1, end=2),
        constant("frame", [8]),
        constant("more", [7]),
        helper.make_node("Add", ["n", "more"], ["a"]),
        helper.make_node("Mod", ["a", "frame"], ["over"]),
        helper.make_node("Sub", ["more", "over"], ["missing"]),
        constant("none", [0, 0, 0]),
        helper.make_node("Concat", ["none", "missing"], ["pads"], axis=0),
        helper.make_node("Pad", ["x", "pads"], ["whole"]),
        constant("frames", [-1, 8]),
        helper.make_node("Reshape", ["whole", "frames"], ["f"]),
        helper.make_node("ReduceMax", ["f"], ["y"], axes=[1], keepdims=0),
    ]
    graph = tl.load_onnx(model(nodes, {"x": [1, "n"]}))
    assert graph.rest is None and not graph.assumed
    f = graph.compile()
    for n in (1, 8, 9, 23, 24):
        x = numbers(1, n) + 1
        expected = np.pad(x, ((0, 0), (0, -n % 8))).reshape(-1, 8).max(1)
        assert np.array_equal(f(x), expected), n


def test_layers_with_sizes_of_their_own_read_one_mask():
    """As a decoder that was exported without saying which sizes are equal: what a later layer tells of them
    holds for the layers before it."""
    nodes = [
        helper.make_node("Concat", ["past0", "x"], ["k0"], axis=0),
        helper.make_node("Mul", ["k0", "mask"], ["m0"]),
        helper.make_node("Exp", ["m0"], ["y0"]),
        constant("shape", [1, 4]),
        helper.make_node("Reshape", ["x", "shape"], ["row"]),
        helper.make_node("Concat", ["past1", "row"], ["k1"], axis=0),
        helper.make_node("Mul", ["k1", "mask"], ["m1"]),
        helper.make_node("Exp", ["m1"], ["y1"]),
    ]
    sizes = {"x": ["n", 4], "past0": ["p", 4], "past1": ["q", 4], "mask": ["t", 1]}
    graph = tl.load_onnx(model(nodes, sizes, outputs=("y0", "y1")))
    assert graph.rest is None
    assert {(str(a), str(b)) for a, b in graph.assumed} == {("n", "1"), ("t", "p + 1"), ("q", "p")}
    engine = graph.compile()
    x, past, mask = numbers(1, 4) / 8, numbers(5, 4) / 8, numbers(6, 1)
    for y in engine(x, past, past, mask):
        np.testing.assert_allclose(y, np.exp(np.concatenate([past, x]) * mask), rtol=1e-6)
    with pytest.raises(tl.TensorLangError, match="Reshape"):
        engine(numbers(2, 4), past, past, numbers(7, 1))


def test_a_size_that_was_taken_for_1_is_spread_later():
    """Where the refused node reads the size as it was before, nothing else is assumed of it."""
    nodes = [
        constant("shape", [2, 2]),
        helper.make_node("Reshape", ["x", "shape"], ["a"]),
        helper.make_node("Add", ["a", "rows"], ["y"]),
    ]
    graph = tl.load_onnx(model(nodes, {"x": ["n", 4], "rows": ["n", 2]}))
    assert [(str(a), str(b)) for a, b in graph.assumed] == [("n", "1")]
    x, rows = numbers(1, 4), numbers(1, 2)
    assert np.array_equal(graph.compile()(x, rows), x.reshape(2, 2) + rows)


def test_a_product_of_sizes_that_is_1():
    """Then each of them is."""
    nodes = [
        constant("shape", [1, -1, 2]),
        helper.make_node("Reshape", ["x", "shape"], ["a"]),
        helper.make_node("Concat", ["a", "two"], ["y"], axis=0),
    ]
    graph = tl.load_onnx(model(nodes, {"x": ["b", "n", 4], "two": [1, 2, 2]}))
    assert [(str(a), str(b)) for a, b in graph.assumed] == [("b", "1"), ("n", "1")]
    x, two = numbers(1, 1, 4), numbers(1, 2, 2)
    assert np.array_equal(graph.compile()(x, two), np.concatenate([x.reshape(1, 2, 2), two]))


def test_a_table_of_pairs_is_put_in_rows_again():
    """As positions between tokens are looked up: the number of rows is a quotient of two sums."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        constant("two", [2]),
        helper.make_node("Add", ["s", "two"], ["m"]),
        constant("rest", [-1]),
        constant("four", [4]),
        helper.make_node("Mul", ["m", "m"], ["all"]),
        helper.make_node("Concat", ["four", "all"], ["flat"], axis=0),
        constant("one", [1]),
        helper.make_node("Expand", ["column", "flat"], ["e"]),
        helper.make_node("Concat", ["rest", "m", "m"], ["square"], axis=0),
        helper.make_node("Reshape", ["e", "square"], ["y"]),
    ]
    graph = tl.load_onnx(model(nodes, {"x": ["n"], "column": [4, 1]}))
    assert graph.rest is None and not graph.assumed
    column = numbers(4, 1)
    assert np.array_equal(graph.compile()(numbers(3), column), np.broadcast_to(column[..., None], (4, 5, 5)))


def test_a_batch_with_two_names():
    """The target of a Reshape has another name for the first size than the array."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], end=1),
        constant("rest", [-1]),
        helper.make_node("Concat", ["s", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["mask", "target"], ["m"]),
        helper.make_node("Add", ["x", "m"], ["y"]),
    ]
    graph = tl.load_onnx(model(nodes, {"x": ["b", "n"], "mask": ["c", "n"]}))
    assert graph.rest is None
    assert [(str(a), str(b)) for a, b in graph.assumed] == [("c", "b")]
    assert np.array_equal(graph.compile()(numbers(2, 3), numbers(2, 3)), 2 * numbers(2, 3))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_a_margin_that_was_worked_out_in_floats(mode):
    """``ceil((n - 3) / 2 + 1)`` windows of 3, each 2 further: as much behind as the last one lacks."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=2),
        constant("zero", [0]),
        constant("three", [3]),
        constant("two", [2]),
        constant("one", [1]),
        helper.make_node("Sub", ["s", "three"], ["a"]),
        helper.make_node("Cast", ["a"], ["f"], to=FLOAT),
        constant("stride", np.float32([2])),
        constant("unit", np.float32([1])),
        helper.make_node("Div", ["f", "stride"], ["g"]),
        helper.make_node("Add", ["g", "unit"], ["h"]),
        helper.make_node("Ceil", ["h"], ["i"]),
        helper.make_node("Cast", ["i"], ["j"], to=TensorProto.INT64),
        helper.make_node("Sub", ["j", "one"], ["k"]),
        helper.make_node("Mul", ["k", "two"], ["l"]),
        helper.make_node("Add", ["l", "three"], ["wanted"]),
        helper.make_node("Sub", ["wanted", "s"], ["extra"]),
        helper.make_node("Concat", ["zero", "zero", "zero", "zero", "zero", "extra"], ["widths"], axis=0),
        helper.make_node("Pad", ["x", "widths"], ["p"], mode=mode),
        helper.make_node("MaxPool", ["p"], ["y"], kernel_shape=[3], strides=[2]),
    ]
    graph = tl.load_onnx(model(nodes, {"x": [1, 1, "n"]}))
    assert graph.rest is None and not graph.assumed
    engine = graph.compile()
    for n in (5, 6, 9):
        x = -1 - numbers(1, 1, n)
        p = np.pad(x, [(0, 0), (0, 0), (0, 1 - n % 2)], mode)
        assert np.array_equal(
            engine(x)[0, 0], [p[0, 0, i : i + 3].max() for i in range(0, p.shape[2] - 2, 2)]
        )


def test_areas_and_opposites_of_sizes_are_sizes():
    """The area of a square picture, and a range that begins at minus a size."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], end=1),
        constant("two", [2]),
        helper.make_node("Pow", ["s", "two"], ["area"]),
        helper.make_node("Reshape", ["x", "area"], ["flat"]),
        helper.make_node("Neg", ["area"], ["back"]),
        constant("none", [0]),
        helper.make_node("Squeeze", ["back", "none"], ["start"]),
        helper.make_node("Squeeze", ["none", "none"], ["end"]),
        constant("step", 1),
        helper.make_node("Range", ["start", "end", "step"], ["r"]),
        helper.make_node("Cast", ["r"], ["f"], to=FLOAT),
        helper.make_node("Add", ["flat", "f"], ["y"]),
    ]
    graph = tl.load_onnx(model(nodes, {"x": ["n", "n"]}))
    assert graph.rest is None and not graph.assumed
    assert np.array_equal(graph.compile()(numbers(3, 3)), numbers(9) + np.arange(-9, 0))


@pytest.mark.parametrize(
    ("kind", "bounds", "expected"),
    [
        (FLOAT, ("0", "n", "1"), lambda n: np.arange(n)),
        (FLOAT, ("half", "n", "2"), lambda n: np.arange(0.5, n, 2)),
        (FLOAT, ("0", "half", "1"), lambda n: np.arange(0, 0.5, 1)),
        (TensorProto.DOUBLE, ("4", "n", "half"), lambda n: np.arange(4, n, 0.5)),
    ],
)
def test_a_range_of_floats_up_to_a_size(kind, bounds, expected):
    """As the detectors of YOLO number the places of their grids."""
    floats = np.float32 if kind == FLOAT else np.float64
    values = {"0": 0, "half": 0.5, "1": 1, "2": 2, "4": 4}
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=0, end=1),
        helper.make_node("Squeeze", ["s"], ["whole"]),
        helper.make_node("Cast", ["whole"], ["n"], to=kind),
        helper.make_node("Range", list(bounds), ["r"]),
        helper.make_node("Cast", ["r"], ["y"], to=FLOAT),
    ]
    constants = {k: np.array(v, floats) for k, v in values.items()}
    graph = tl.load_onnx(model(nodes, {"x": ["n"]}, constants))
    assert graph.rest is None
    engine = graph.compile()
    for n in (7, 2, 8):
        assert np.array_equal(engine(numbers(n)), expected(n).astype("float32"))


def test_what_equal_sizes_say_is_said_shortly():
    """What multiplies both sides is left out, and the side of a square is a number when its area is."""
    target = [constant("side", [2, 2, 3]), helper.make_node("Reshape", ["q", "side"], ["y"])]
    halves = helper.make_node("AveragePool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2])
    flat = [constant("flat", [-1, 3]), helper.make_node("Reshape", ["p", "flat"], ["f"])]
    add = helper.make_node("Add", ["f", "rows"], ["q"])
    graph = tl.load_onnx(model([halves, *flat, add, *target], {"x": [1, 3, "n", "n"], "rows": [4, 3]}))
    assert [(str(a), str(b)) for a, b in graph.assumed] == [("n // 2", "2")]


@pytest.mark.parametrize("n", ["n", 5])
def test_slices_backwards_begin_at_the_first_element_at_least(n):
    """ONNX clamps the begin of a negative step to the first element, where Python is before it already; sizes
    and slices of them that the import knows go the same way."""
    for begin, end, step in [(-9, -99, -2), (-6, -99, -1), (-5, -99, -1), (-9, 3, -1), (-1, -9, -3)]:
        left = [*range(max(begin + 5, 0), end if end > 0 else -1, step)]
        words = {k: np.array([v]) for k, v in zip("best", (begin, end, 1, step), strict=True)}
        x = numbers(2, 5)
        cut = model([helper.make_node("Slice", ["x", *words], ["y"])], {"x": [2, n]}, words)
        assert np.array_equal(tl.load_onnx(cut).compile()(x), x[:, left])
        known = {**words, "s": np.array([0]), "c": np.arange(5)}
        nodes = [
            helper.make_node("Slice", ["c", *words], ["d"]),
            helper.make_node("Cast", ["d"], ["f"], to=FLOAT),
            helper.make_node("Add", ["x", "f"], ["y"]),
        ]
        x = numbers(2, 1)
        y = tl.load_onnx(model(nodes, {"x": [2, 1]}, known)).compile()(x)
        assert np.array_equal(y, x + np.arange(5, dtype="float32")[left])


@pytest.mark.parametrize("open_ones", ["b", "e", "be"])
@pytest.mark.parametrize(
    "begin,end,step", [(0, 5, 1), (5, 3, 1), (3, -100, -1), (5, 3, -1), (1, 6, -2), (9, 2, 2)]
)
def test_open_places_that_a_call_makes_negative_count_from_the_end(open_ones, begin, end, step):
    """``n - 5`` of a size n: as onnxruntime has it in calls of every size, those below it too."""
    ort = pytest.importorskip("onnxruntime")
    nodes = [helper.make_node("Shape", ["x"], ["s"])]
    nodes += [helper.make_node("Sub", ["s", k], [f"open_{k}"]) for k in open_ones]
    places = [f"open_{k}" if k in open_ones else k for k in "be"]
    nodes.append(helper.make_node("Slice", ["x", *places, "axis", "step"], ["y"]))
    words = {"b": [begin], "e": [end], "axis": [0], "step": [step]}
    made = model(nodes, {"x": ["n"]}, {k: np.array(v) for k, v in words.items()})
    made.ir_version = 10
    session = ort.InferenceSession(made.SerializeToString())
    engine = tl.load_onnx(made).compile(level=0)
    for n in range(1, 12):
        x = numbers(n)
        assert engine(x).tolist() == session.run(None, {"x": x})[0].tolist(), n


def test_an_open_place_of_one_sign_asks_nothing_of_a_call():
    """The last element left off: where there is none, it is cut at the first from either end."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Sub", ["s", "one"], ["last"]),
        helper.make_node("Slice", ["x", "zero", "last"], ["y"]),
    ]
    graph = tl.load_onnx(model(nodes, {"x": ["n"]}, {"zero": np.array([0]), "one": np.array([1])}))
    assert graph.rest is None and not graph.assumed
    engine = graph.compile(level=0)
    for n in (0, 1, 4):
        assert np.array_equal(engine(numbers(n)), numbers(n)[: max(n - 1, 0)])


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("told", ["constants", "inputs", "sizes"])
def test_slices_to_the_largest_and_smallest_numbers(kind, told):
    """As onnxruntime has them: the largest number of either width is the end in both directions, any other is
    cut at the axis, and a step is any number. Whether the numbers are in the file or come with the call, and of
    data or of sizes that the import knows."""
    ort = pytest.importorskip("onnxruntime")
    limits = np.iinfo(kind)
    ends = {limits.max, limits.max - 1, limits.min, limits.min + 1, 2**31 - 1, -(2**31), 0, -1, -9}
    steps = (limits.max, limits.min + 1, -1) if told == "inputs" else (limits.max, limits.min, 1, -1, -2)
    table = [(b, e, s) for b in (0, 3, limits.max, limits.min) for e in sorted(ends) for s in steps]
    words = {f"{n}{k}": np.array([x], kind) for k, row in enumerate(table) for n, x in zip("bes", row)}
    words["axis"] = np.array([0], kind)
    names = [f"y{k}" for k in range(len(table))]
    nodes = [helper.make_node("Shape", ["x"], ["shape"])] if told == "sizes" else []
    of = "shape" if told == "sizes" else "x"
    nodes += [
        helper.make_node("Slice", [of, f"b{k}", f"e{k}", "axis", f"s{k}"], [n]) for k, n in enumerate(names)
    ]
    given = {k: a for k, a in words.items() if told == "inputs" and k[0] in "be"}
    kept = {k: a for k, a in words.items() if k not in given}
    x = np.zeros((3, 4, 5, 6), "float32") if told == "sizes" else numbers(4)
    made = model(nodes, {"x": ["n"] * x.ndim if told != "sizes" else list("nmkl")}, kept, names)
    made.graph.input.extend(
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), [1])
        for k, a in given.items()
    )
    for o in made.graph.output:
        o.type.tensor_type.elem_type = TensorProto.INT64 if told == "sizes" else FLOAT
    made.ir_version = 10
    options = ort.SessionOptions()
    options.log_severity_level = 4  # it warns of every shape that it had inferred otherwise
    want = ort.InferenceSession(made.SerializeToString(), options).run(None, {"x": x, **given})
    got = tl.load_onnx(made).compile().run({"x": x, **given})
    for name, y, row in zip(names, want, table, strict=True):
        assert got[name].tolist() == y.tolist(), row


@pytest.mark.parametrize("n", ["n", 2])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_windows_that_fit_nowhere(op, n):
    """One place is missed by less than a stride: none of the output, whether sizes are open or known. By more
    is refused."""
    for outputs in [("y",), ("y", "i")] if op == "MaxPool" else [("y",)]:
        nodes = [helper.make_node(op, ["x"], outputs, kernel_shape=[2, 3])]
        graph = tl.load_onnx(model(nodes, {"x": [1, 2, 4, n]}, outputs=outputs))
        got = graph.compile().run({"x": numbers(1, 2, 4, 2)})
        assert {a.shape for a in got.values()} == {(1, 2, 3, 0)}
    nodes = [helper.make_node(op, ["x"], ["y"], kernel_shape=[4])]
    with pytest.raises(tl.TensorLangError, match=r"larger than the padded|cannot be allocated"):
        tl.load_onnx(model(nodes, {"x": [1, 2, n]})).compile()(numbers(1, 2, 2))
