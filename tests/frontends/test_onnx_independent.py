"""Loops whose iterations do not read each other: one kernel, and the values of the loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlang as tl

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from .test_onnx_control import COUNTERS, graph  # noqa: E402
from .test_onnx_models import model  # noqa: E402

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node


def const(name, value, kind="int64"):
    return node("Constant", [], [name], value=numpy_helper.from_array(np.array(value, kind), name))


def loops(made):
    """The loops that are not one computation."""
    return [n for n in made.nodes if n.kind == "body"]


def bags(reduce, **attrs):
    """What torch's exporter makes of a bag of embeddings: rows of a table between offsets, reduced."""
    body = graph(
        [
            const("zero", [0]),
            const("yes", True, "bool"),
            node("Gather", ["begins", "i"], ["b"]),
            node("Gather", ["ends", "i"], ["e"]),
            node("Unsqueeze", ["b", "zero"], ["b1"]),
            node("Unsqueeze", ["e", "zero"], ["e1"]),
            node("Slice", ["ids", "b1", "e1", "zero"], ["own"]),
            node("Gather", ["table", "own"], ["rows"]),
            node(reduce, ["rows"], ["bag"], axes=[0], keepdims=0)
            if reduce != "ReduceSum"
            else node(reduce, ["rows", "zero"], ["bag"], keepdims=0),
            node("Identity", ["yes"], ["go"]),
        ],
        COUNTERS,
        [("go", B, []), ("bag", F, None)],
    )
    return model(
        [
            node("Shape", ["begins"], ["count1"]),
            const("first", 0),
            node("Gather", ["count1", "first"], ["count"]),
            node("Loop", ["count", ""], ["y"], body=body),
        ],
        [("table", F, [10, 4]), ("ids", I, ["n"]), ("begins", I, ["b"]), ("ends", I, ["b"])],
        [("y", F, None)],
        opset=17,
    )


TABLE = np.random.default_rng(0).integers(-9, 9, (10, 4)).astype("float32")
IDS = np.array([3, 9, -1, 0, 3, 7, 7, 2])


@pytest.mark.parametrize("reduce, f", [("ReduceSum", np.sum), ("ReduceMax", np.max), ("ReduceMean", np.mean)])
def test_bags_between_offsets_are_one_computation(reduce, f):
    made = tl.load_onnx(bags(reduce))
    assert made.rest is None
    assert not loops(made)
    engine = made.compile()
    # from the end, cut at it, and none at all, as slices are
    for begins, ends in (([0, 2, 5], [2, 5, 8]), ([1], [99]), ([-3, 4], [-1, 7]), ([], [])):
        want = [f(TABLE[IDS[b:e]], axis=0) for b, e in zip(begins, ends)]
        found = engine(TABLE, IDS, np.array(begins, "int64"), np.array(ends, "int64"))
        assert np.array_equal(found, np.reshape(want, (-1, 4)).astype("float32"))


@pytest.mark.parametrize("reduce", ["ReduceSum", "ReduceMean"])
def test_empty_bags_are_zero(reduce):
    engine = tl.load_onnx(bags(reduce)).compile()
    found = engine(TABLE, IDS, np.array([4, 2, 6]), np.array([4, 4, 5]))
    want = TABLE[IDS[2:4]].sum(0)
    assert np.array_equal(found[1], want if reduce == "ReduceSum" else want / 2)
    assert not found[[0, 2]].any()


def appended(inner):
    """A list filled while a counter is below the number of offsets, then put together: torch's newer
    exporter."""
    body = graph(
        [
            const("one", [1]),
            const("two", [2]),
            const("flat", [-1]),
            node("Reshape", ["k", "flat"], ["at"]),
            node("Add", ["at", "one"], ["next"]),
            node("Add", ["at", "two"], ["last"]),
            node("Slice", ["cuts", "at", "next"], ["b"]),
            node("Slice", ["cuts", "next", "last"], ["e"]),
            *inner,
            node("SequenceInsert", ["s", "row"], ["t"]),
            const("step", 1),
            node("Add", ["k", "step"], ["k1"]),
            node("Less", ["k1", "count"], ["go"]),
        ],
        [*COUNTERS, ("s", F, None), ("k", I, [])],
        [("go", B, []), ("t", F, None), ("k1", I, [])],
    )
    return [
        node("Size", ["cuts"], ["size"]),
        const("less", 1),
        const("zero", 0),
        node("Sub", ["size", "less"], ["count"]),
        node("Less", ["zero", "count"], ["start"]),
        node("SequenceEmpty", [], ["none"]),
        node("Loop", ["", "start", "none", "zero"], ["all", "k_end"], body=body),
        node("ConcatFromSequence", ["all"], ["y"], axis=0),
    ]


def picked(condition, then, otherwise):
    return node(
        "If", [condition], ["row"], then_branch=graph(then, [], [("row", F, None)]),
        else_branch=graph(otherwise, [], [("row", F, None)]),
    )  # fmt: skip


SUMMED = [
    node("Slice", ["x", "b", "e"], ["part"]),
    const("axis", [0]),
    node("ReduceSum", ["part", "axis"], ["row"], keepdims=1),
]


@pytest.mark.parametrize("count", ["cuts", 4])
def test_a_list_that_a_counter_fills_with_sums_or_what_stands_for_none(count):
    none = [const("row", [[7.0, 7.0]], "float32")]
    inner = [node("Equal", ["b", "e"], ["empty"]), picked("empty", none, SUMMED)]
    m = model(
        appended(inner),
        [("x", F, ["n", 2]), ("cuts", I, [count])],
        [("y", F, None), ("k_end", I, [])],
        opset=17,
    )
    made = tl.load_onnx(m)
    assert made.rest is None
    assert not loops(made)
    engine = made.compile()
    x = np.arange(18, dtype="float32").reshape(9, 2)
    for cuts in ([0, 3, 3, 9], [0, 1, 2, 3], *([] if count == 4 else [[2, 5]])):
        want = [x[b:e].sum(0) if b < e else np.full(2, 7) for b, e in itertools.pairwise(cuts)]
        y, end = engine(x, np.array(cuts))
        assert np.array_equal(y, np.array(want, "float32"))
        assert end == len(cuts) - 1


def test_a_branch_that_reads_at_places_stays_a_loop():
    """A place that only the other branch may not have: both cannot be computed."""
    there = [node("Gather", ["x", "b"], ["row"])]
    inner = [
        node("Size", ["x"], ["n2"]),
        node("Less", ["b", "n2"], ["inside"]),
        picked("inside", there, [const("row", [[7.0, 7.0]], "float32")]),
    ]
    m = model(appended(inner), [("x", F, [3, 2]), ("cuts", I, [4])], [("y", F, None)], opset=17)
    made = tl.load_onnx(m)
    assert made.rest is not None or loops(made)
    engine = made.compile()
    x = np.arange(6, dtype="float32").reshape(3, 2)
    want = [x[0], x[2], [7, 7]]
    assert np.array_equal(engine(x, np.array([0, 2, 1_000_000_000, 0])), np.array(want, "float32"))


def test_rows_that_a_fixed_number_of_iterations_multiplies():
    """Nothing is data: the row that is taken moves with the counter."""
    body = graph(
        [
            const("axes", [0]),
            node("Gather", ["x", "i"], ["v"], axis=1),
            node("Unsqueeze", ["v", "axes"], ["v1"]),
            node("MatMul", ["v1", "w"], ["row"]),
            node("Identity", ["go_in"], ["go"]),
            const("two", 2),
            node("Add", ["c", "two"], ["c1"]),
        ],
        [*COUNTERS, ("c", I, [])],
        [("go", B, []), ("c1", I, []), ("row", F, None)],
    )
    m = model(
        [const("five", 5), const("begin", 3), node("Loop", ["five", "", "begin"], ["c", "y"], body=body)],
        [("x", F, ["b", 5]), ("w", F, ["b", 3])],
        [("c", I, []), ("y", F, None)],
        opset=17,
    )
    made = tl.load_onnx(m)
    assert not loops(made)
    rng = np.random.default_rng(1)
    x, w = (rng.integers(-4, 4, s).astype("float32") for s in ((6, 5), (6, 3)))
    c, y = made.compile()(x, w)
    assert c == 13
    assert np.array_equal(y, (x.T @ w)[:, None])


def test_what_an_iteration_makes_for_the_next_one_is_read_a_row_before():
    """Where a slice ends the next one begins, and each row is compared with the one before: neither is a
    recurrence."""
    body = graph(
        [
            const("axis", [0]),
            node("Gather", ["ends", "i"], ["b"]),
            node("Unsqueeze", ["a", "axis"], ["a1"]),
            node("Unsqueeze", ["b", "axis"], ["b1"]),
            node("Slice", ["x", "a1", "b1", "axis"], ["part"]),
            node("ReduceSum", ["part", "axis"], ["row"], keepdims=0),
            node("Gather", ["x", "i"], ["own"]),
            node("Sub", ["own", "old"], ["step"]),
            node("Identity", ["go_in"], ["go"]),
        ],
        [*COUNTERS, ("a", I, []), ("old", F, [3])],
        [("go", B, []), ("b", I, []), ("own", F, [3]), ("row", F, None), ("step", F, None)],
    )
    m = model(
        [
            const("zero", 0),
            node("Size", ["ends"], ["count"]),
            node("Loop", ["count", "", "zero", "first"], ["a", "old", "sums", "steps"], body=body),
        ],
        [("x", F, ["n", 3]), ("ends", I, ["k"]), ("first", F, [3])],
        [("a", I, []), ("old", F, [3]), ("sums", F, None), ("steps", F, None)],
        opset=17,
    )
    made = tl.load_onnx(m)
    assert made.rest is None
    assert not loops(made)
    engine = made.compile()
    rng = np.random.default_rng(0)
    x, first = rng.integers(-5, 5, (8, 3)).astype("float32"), np.ones(3, "float32")
    for ends in ([2, 3, 8], [5], []):
        a, old, sums, steps = engine(x, np.array(ends, "int64"), first)
        k = len(ends)
        assert a == (ends[-1] if k else 0)
        assert np.array_equal(old, x[k - 1] if k else first)
        want = [x[b:e].sum(0) for b, e in itertools.pairwise([0, *ends])]
        assert np.array_equal(sums, np.reshape(want, (-1, 3)))
        assert np.array_equal(steps, x[:k] - np.concatenate([first[None], x[: max(k - 1, 0)]])[:k])


def test_a_sum_that_is_carried_stays_a_loop():
    body = graph(
        [
            node("Gather", ["x", "i"], ["v"]),
            node("Add", ["s", "v"], ["t"]),
            node("Identity", ["go_in"], ["go"]),
        ],
        [*COUNTERS, ("s", F, [3])],
        [("go", B, []), ("t", F, [3]), ("t2", F, [3])],
    )
    body.node.append(node("Identity", ["t"], ["t2"]))
    m = model(
        [const("four", 4), node("Loop", ["four", "", "first"], ["s", "all"], body=body)],
        [("x", F, ["n", 3]), ("first", F, [3])],
        [("s", F, [3]), ("all", F, None)],
        opset=17,
    )
    made = tl.load_onnx(m)
    assert loops(made)
    x, first = np.arange(15, dtype="float32").reshape(5, 3), np.ones(3, "float32")
    s, rows = made.compile()(x, first)
    assert np.array_equal(rows, first + np.cumsum(x[:4], 0))
    assert np.array_equal(s, rows[-1])


@pytest.mark.parametrize("n, stays", [(100, False), (600, True)])
def test_what_holds_much_between_its_steps_stays_a_loop(n, stays):
    """All iterations at once would hold as much for each of them."""
    body = graph(
        [
            node("Gather", ["x", "i"], ["row"]),
            node("Unsqueeze", ["row", "zero"], ["across"]),
            node("Unsqueeze", ["row", "one"], ["along"]),
            node("MatMul", ["along", "across"], ["outer"]),
            node("Softmax", ["outer"], ["soft"], axis=0),
            node("MatMul", ["soft", "row"], ["made"]),
            node("Identity", ["go_in"], ["go"]),
        ],
        [("i", I, []), ("go_in", B, [])],
        [("go", B, []), ("made", F, None)],
    )
    m = model(
        [
            const("zero", [0]),
            const("one", [1]),
            const("count", 3),
            node("Loop", ["count", ""], ["y"], body=body),
        ],
        [("x", F, [3, n])],
        [("y", F, None)],
        opset=17,
    )
    made = tl.load_onnx(m)
    assert bool(loops(made)) is stays
    x = np.random.default_rng(1).standard_normal((3, n)).astype("float32")
    outer = np.exp(x[:, :, None] * x[:, None].astype("float64"))
    want = np.einsum("bij,bj->bi", outer / outer.sum(1, keepdims=True), x)
    np.testing.assert_allclose(made.compile()(x), want, rtol=1e-4, atol=1e-5)
