"""Loops, sequences, optionals and inputs of any rank, where ONNX's own tests do not go."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from .test_onnx_models import model  # noqa: E402

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node


def graph(nodes, inputs, outputs):
    infos = [[helper.make_tensor_value_info(*x) for x in xs] for xs in (inputs, outputs)]
    return helper.make_graph(nodes, "body", *infos)


COUNTERS = [("i", I, []), ("go_in", B, [])]


def test_a_loop_over_an_outer_value_of_open_size():
    """x is read from outside, the carried value keeps its shape, and how often is an input."""
    body = graph(
        [node("Add", ["s", "x"], ["t"]), node("Identity", ["go_in"], ["go"]), node("Mul", ["t", "t"], ["q"])],
        [*COUNTERS, ("s", F, None)],
        [("go", B, []), ("t", F, None), ("q", F, None)],
    )
    m = model(
        [node("Loop", ["n", "", "x"], ["y", "all"], body=body), node("Neg", ["all"], ["z"])],
        [("x", F, ["k"]), ("n", I, [])],
        [("y", F, None), ("z", F, None)],
    )
    made = tl.load_onnx(m)
    assert made.rest is None
    engine = made.compile(level=0)
    for k, n in ((3, 2), (5, 4), (2, 0)):
        x = np.arange(1, k + 1, dtype="float32")
        y, z = engine(x, np.array(n))
        assert np.array_equal(y, x * (n + 1))
        assert np.array_equal(z, -np.array([(x * (j + 2)) ** 2 for j in range(n)]).reshape(n, k))


def test_a_carried_value_that_grows():
    body = graph(
        [node("Concat", ["s", "s"], ["t"], axis=0), node("Identity", ["go_in"], ["go"])],
        [*COUNTERS, ("s", F, ["w"])],
        [("go", B, []), ("t", F, ["v"])],
    )
    m = model(
        [node("Loop", ["n", "", "x"], ["y"], body=body), node("Relu", ["y"], ["z"])],
        [("x", F, [3]), ("n", I, [])],
        [("z", F, None)],
    )
    engine = tl.load_onnx(m).compile(level=0)
    x = np.array([1, -2, 3], "float32")
    for n in (0, 1, 3):
        assert np.array_equal(engine(x, np.array(n)), np.maximum(np.tile(x, 2**n), 0))


def test_a_carried_value_that_changes_its_rank():
    axes = helper.make_tensor("axes", I, [1], [0])
    body = graph(
        [
            node("Constant", [], ["zero"], value=axes),
            node("Unsqueeze", ["s", "zero"], ["t"]),
            node("Identity", ["go_in"], ["go"]),
        ],
        [*COUNTERS, ("s", F, None)],
        [("go", B, []), ("t", F, None)],
    )
    m = model(
        [node("Loop", ["n", "", "x"], ["y"], body=body), node("Neg", ["y"], ["z"])],
        [("x", F, [3]), ("n", I, [])],
        [("z", F, None)],
    )
    engine = tl.load_onnx(m).compile(level=0)
    x = np.array([1, -2, 3], "float32")
    for n in (2, 0):
        assert np.array_equal(engine(x, np.array(n)), -x.reshape((1,) * n + (3,)))


def test_a_condition_ends_a_loop():
    body = graph(
        [node("Add", ["s", "s"], ["t"]), node("Less", ["t", "limit"], ["go"])],
        [*COUNTERS, ("s", F, [])],
        [("go", B, []), ("t", F, [])],
    )
    m = model(
        [node("Loop", ["", "", "x"], ["y"], body=body)], [("x", F, []), ("limit", F, [])], [("y", F, None)]
    )
    engine = tl.load_onnx(m).compile(level=0)
    assert engine(np.float32(1), np.float32(100)) == 128
    assert engine(np.float32(3), np.float32(1)) == 6


def test_a_scan_both_ways_over_an_open_size():
    body = graph(
        [node("Add", ["s", "v"], ["t"]), node("Identity", ["t"], ["row"])],
        [("s", F, [2]), ("v", F, [2])],
        [("t", F, [2]), ("row", F, [2])],
    )
    m = model(
        [
            node(
                "Scan",
                ["s", "x"],
                ["last", "rows"],
                body=body,
                num_scan_inputs=1,
                scan_input_axes=[1],
                scan_input_directions=[1],
                scan_output_axes=[-1],
                scan_output_directions=[1],
            )
        ],
        [("s", F, [2]), ("x", F, [2, "n"])],
        [("last", F, None), ("rows", F, None)],
    )
    engine = tl.load_onnx(m).compile(level=0)
    for n in (1, 5, 0):
        x = np.arange(2 * n, dtype="float32").reshape(2, n)
        s = np.array([10, 20], "float32")
        last, rows = engine(s, x)
        sums = s[:, None] + np.cumsum(x[:, ::-1], 1)[:, ::-1]
        assert np.array_equal(rows, sums) and np.array_equal(last, sums[:, 0] if n else s)


def test_a_sequence_is_served_by_its_length_with_open_sizes():
    info = helper.make_tensor_sequence_value_info
    nodes = [
        node("ConcatFromSequence", ["xs"], ["x"], axis=0),
        node("Constant", [], ["last"], value_int=-1),
        node("SequenceAt", ["xs", "last"], ["end"]),
        node("SequenceInsert", ["xs", "x", "last"], ["ys"]),
        node("SequenceErase", ["ys"], ["zs"]),
    ]
    g = helper.make_graph(
        nodes,
        "g",
        [info("xs", F, None)],
        [
            helper.make_tensor_value_info("x", F, None),
            helper.make_tensor_value_info("end", F, None),
            info("zs", F, None),
        ],
    )
    engine = tl.load_onnx(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)])).compile(level=0)
    for lengths in ((2, 3), (4, 1), (1,)):
        xs = [np.full((n, 2), n, "float32") for n in lengths]
        x, end, zs = engine(xs)
        assert np.array_equal(x, np.concatenate(xs)) and np.array_equal(end, xs[-1])
        assert [z.shape for z in zs] == [a.shape for a in [*xs[:-1], x]]
    assert len(engine.later) == 2  # a graph for each length, none for sizes


def test_an_input_of_any_rank_and_type_of_a_sequence():
    value = helper.make_tensor_value_info
    g = helper.make_graph([node("Neg", ["x"], ["y"])], "g", [value("x", F, None)], [value("y", F, None)])
    engine = tl.load_onnx(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)])).compile(level=0)
    for shape in ((), (3,), (2, 2), (4,)):
        x = np.ones(shape, "float32")
        assert np.array_equal(engine(x), -x)
    with pytest.raises(tl.TensorLangError, match="given as ndarray of <U1"):
        engine(np.array(["a"]))


def test_a_branch_by_a_size_that_only_a_call_tells():
    """How many elements are not zero decides: the condition was asked for again and again, without end."""
    zero, three = (helper.make_tensor(n, I, [], [k]) for n, k in (("zero", 0), ("three", 3)))
    info = [helper.make_tensor_value_info("r", F, None)]
    then = helper.make_graph([node("Neg", ["x"], ["r"])], "then", [], info)
    other = helper.make_graph([node("Abs", ["x"], ["r"])], "other", [], info)
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("Constant", [], ["zero"], value=zero),
        node("Constant", [], ["three"], value=three),
        node("Transpose", ["places"], ["rows"]),
        node("Shape", ["rows"], ["sizes"]),
        node("Gather", ["sizes", "zero"], ["count"]),
        node("Less", ["count", "three"], ["few"]),
        node("If", ["few"], ["y"], then_branch=then, else_branch=other),
    ]
    engine = tl.load_onnx(model(nodes, [("x", F, ["n"])], [("y", F, None)])).compile(cache=False, workers=1)
    for x in ([-1, 0, 2, 0], [1, -2, 3], []):
        a = np.array(x, "float32")
        assert np.array_equal(engine(a), -a if np.count_nonzero(a) < 3 else np.abs(a))


def grows_in_rank(name):
    """A loop whose state has one dimension more after each iteration."""
    body = graph(
        [node("Unsqueeze", ["s", "axis"], ["t"]), node("Identity", ["go_in"], ["go"])],
        [*COUNTERS, ("s", F, None)],
        [("go", B, []), ("t", F, None)],
    )
    axis = helper.make_tensor("axis", I, [1], [0])
    return [node("Constant", [], ["axis"], value=axis), node("Loop", ["n", "", "one"], [name], body=body)]


def test_sizes_in_formulas_go_on_behind_what_is_opaque():
    """Only ``w - 1`` was handed on, from which nobody could tell ``w``."""
    one, ends = helper.make_tensor("one", F, [1], [1]), helper.make_tensor("ends", I, [1], [1000])
    nodes = [
        node("Constant", [], ["one"], value=one),
        node("Constant", [], ["ends"], value=ends),
        node("Constant", [], ["first"], value=helper.make_tensor("first", I, [1], [1])),
        node("Constant", [], ["last"], value=helper.make_tensor("last", I, [1], [0])),
        node("Slice", ["x", "first", "ends", "last"], ["cut"]),
        *grows_in_rank("deep"),
        node("Add", ["deep", "cut"], ["y"]),
    ]
    m = model(nodes, [("x", F, ["w"]), ("n", I, [])], [("y", F, None)])
    engine = tl.load_onnx(m).compile(cache=False, workers=1)
    for w, n in ((5, 2), (3, 0), (7, 2)):
        x = np.arange(w, dtype="float32")
        assert np.array_equal(engine(x, np.array(n)), (x[1:] + 1).reshape((1,) * n + (w - 1,)))


def test_a_branch_by_a_size_behind_what_is_opaque():
    """The graph for the other branch was made without what opens it."""
    info = [helper.make_tensor_value_info("r", F, None)]
    then = helper.make_graph([node("Neg", ["deep"], ["r"])], "then", [], info)
    other = helper.make_graph([node("Add", ["deep", "x"], ["r"])], "other", [], info)
    nodes = [
        node("Constant", [], ["one"], value=helper.make_tensor("one", F, [1], [1])),
        node("Constant", [], ["zero"], value=helper.make_tensor("zero", I, [], [0])),
        node("Constant", [], ["three"], value=helper.make_tensor("three", I, [], [3])),
        *grows_in_rank("deep"),
        node("Abs", ["deep"], ["same"]),
        node("Shape", ["x"], ["sizes"]),
        node("Gather", ["sizes", "zero"], ["w"]),
        node("Less", ["w", "three"], ["short"]),
        node("If", ["short"], ["y"], then_branch=then, else_branch=other),
    ]
    m = model(nodes, [("x", F, ["w"]), ("n", I, [])], [("y", F, None), ("same", F, None)])
    engine = tl.load_onnx(m).compile(cache=False, workers=1)
    for w in (2, 5, 1, 4):
        x = np.arange(w, dtype="float32")
        y, _ = engine(x, np.array(2))
        assert np.array_equal(y, -np.ones((1, 1, 1)) if w < 3 else (x + 1).reshape(1, 1, w))


def counted(monkeypatch):
    """How many iterations are made natively from now on."""
    from tensorlang.runtime import repeat

    made, before = [], repeat.repeated

    def watched(*args):
        found = before(*args)
        made.append(0 if found is None else found.times)
        return found

    monkeypatch.setattr(repeat, "repeated", watched)
    return made


def test_a_loop_runs_natively_once_its_body_was_met(monkeypatch):
    """Fibonacci, two values that take turns, until a bound; every term is collected."""
    body = graph(
        [
            node("Add", ["a", "b"], ["c"]),
            node("Identity", ["b"], ["d"]),
            node("Less", ["c", "bound"], ["go"]),
            node("Mul", ["c", "i"], ["q"]),
        ],
        [*COUNTERS, ("a", I, []), ("b", I, [])],
        [("go", B, []), ("d", I, []), ("c", I, []), ("q", I, [])],
    )
    m = model(
        [node("Loop", ["n", "", "one", "one"], ["x", "y", "all"], body=body)],
        [("n", I, []), ("bound", I, [])],
        [("x", I, []), ("y", I, []), ("all", I, [None])],
        {"one": np.array(1)},
    )
    engine = tl.load_onnx(m).compile(level=0)
    made = counted(monkeypatch)
    for n, bound in ((1, 100), (2, 100), (7, 10**9), (9, 30), (40, 10**9), (0, 5), (40, 2)):
        a, b, wanted = 1, 1, []
        for i in range(n):
            a, b = b, a + b
            wanted.append(b * i)
            if b >= bound:
                break
        for _ in range(2):
            x, y, every = engine(np.array(n), np.array(bound))
            assert (x, y) == (a, b) and np.array_equal(every, wanted)
    assert max(made) == 40


def test_a_loop_without_an_end_that_is_known_grows(monkeypatch):
    """More iterations than are made at a time, no bound given."""
    body = graph(
        [node("Add", ["s", "x"], ["t"]), node("Less", ["t", "bound"], ["go"]), node("Neg", ["t"], ["q"])],
        [*COUNTERS, ("s", F, [])],
        [("go", B, []), ("t", F, []), ("q", F, [])],
    )
    m = model(
        [node("Loop", ["", "yes", "zero"], ["y", "all"], body=body)],
        [("x", F, []), ("bound", F, [])],
        [("y", F, []), ("all", F, [None])],
        {"zero": np.float32(0), "yes": np.array(True)},
    )
    from tensorlang.runtime import repeat

    monkeypatch.setattr(repeat, "MOST", 16)
    engine = tl.load_onnx(m).compile(level=0)
    for bound in (1, 2, 17, 18, 19, 50):
        y, every = engine(np.float32(1), np.float32(bound))
        assert y == bound and np.array_equal(every, -np.arange(1, bound + 1))


def test_a_branch_in_a_loop():
    """What is carried on has any form then, and every iteration goes step by step."""
    yes = graph([node("Add", ["s", "x"], ["p"])], [], [("p", F, None)])
    no = graph([node("Neg", ["s"], ["r"])], [], [("r", F, None)])
    body = graph(
        [
            node("Mod", ["i", "three"], ["m"]),
            node("Greater", ["m", "zero"], ["c"]),
            node("If", ["c"], ["t"], then_branch=yes, else_branch=no),
            node("Identity", ["go_in"], ["go"]),
        ],
        [*COUNTERS, ("s", F, ["k"])],
        [("go", B, []), ("t", F, ["k"])],
    )
    m = model(
        [node("Loop", ["n", "", "x"], ["y"], body=body)],
        [("x", F, ["k"]), ("n", I, [])],
        [("y", F, None)],
        {"three": np.array(3), "zero": np.array(0)},
    )
    engine = tl.load_onnx(m).compile(level=0)
    for n in (1, 2, 5, 30):
        x = s = np.arange(1, 5, dtype="float32")
        for i in range(n):
            s = s + x if i % 3 else -s
        assert np.array_equal(engine(x, np.array(n)), s)


def test_a_scan_runs_natively_forwards_and_backwards(monkeypatch):
    """Rows of x from the front, columns of z from the back; the results are collected along axes 0 and 1."""
    body = graph(
        [
            node("Add", ["s", "row"], ["t"]),
            node("Mul", ["t", "column"], ["q"]),
            node("Identity", ["t"], ["u"]),
        ],
        [("s", F, ["k"]), ("row", F, ["k"]), ("column", F, ["k"])],
        [("t", F, ["k"]), ("q", F, ["k"]), ("u", F, ["k"])],
    )
    scan = node(
        "Scan",
        ["first", "x", "z"],
        ["last", "q", "u"],
        body=body,
        num_scan_inputs=2,
        scan_input_axes=[0, 1],
        scan_input_directions=[0, 1],
        scan_output_axes=[0, 1],
        scan_output_directions=[0, 1],
    )
    m = model(
        [scan],
        [("first", F, ["k"]), ("x", F, ["n", "k"]), ("z", F, ["k", "n"])],
        [("last", F, None), ("q", F, None), ("u", F, None)],
    )
    engine = tl.load_onnx(m).compile(level=0)
    made = counted(monkeypatch)
    rng = np.random.default_rng(0)
    for n, k in ((1, 3), (6, 3), (20, 1), (0, 2), (2, 5)):
        first, x, z = (rng.integers(-3, 4, s).astype("float32") for s in ((k,), (n, k), (k, n)))
        t = first + np.cumsum(x, 0) if n else x
        last, q, u = engine(first, x, z)
        assert np.array_equal(last, t[-1] if n else first)
        assert np.array_equal(q, t * z.T[::-1]) and np.array_equal(u, t[::-1].T)
    assert 19 in made  # all but the first of a new size


def test_a_scan_over_numbers_without_dimensions(monkeypatch):
    """A slice of one dimension less is an array still, with memory that goes on to the next."""
    info = [("s", I, []), ("a", I, []), ("b", I, [])]
    body = graph(
        [node("Add", ["s", "a"], ["t"]), node("Mul", ["t", "b"], ["q"])], info, [("t", I, []), ("q", I, [])]
    )
    ways = {"num_scan_inputs": 2, "scan_input_directions": [0, 1], "scan_output_directions": [1]}
    m = model(
        [node("Scan", ["first", "x", "z"], ["last", "q"], body=body, **ways)],
        [("first", I, []), ("x", I, ["n"]), ("z", I, ["n"])],
        [("last", I, None), ("q", I, None)],
    )
    engine = tl.load_onnx(m).compile(level=0)
    made = counted(monkeypatch)
    for n in (1, 5, 20, 0):
        x, z = np.arange(n), np.arange(n) * 3 - 7
        last, q = engine(np.array(4), x, z)
        t = 4 + np.cumsum(x)
        assert last == (t[-1] if n else 4)
        assert np.array_equal(q, (t * z[::-1])[::-1])
    assert 20 in made  # the body was met with these sizes, none of which is open


def test_nodes_in_an_order_in_which_they_cannot_run():
    """Converters to float16 put their casts last; a body reads what is made behind its node, too."""
    branch = graph([node("Add", ["late", "x"], ["a"])], [], [("a", F, None)])
    other = graph([node("Neg", ["x"], ["a"])], [], [("a", F, None)])
    m = model(
        [
            node("Add", ["chosen", "cast"], ["y"]),
            node("If", ["more"], ["chosen"], then_branch=branch, else_branch=other),
            node("Less", ["zero", "total"], ["more"]),
            node("Mul", ["x", "x"], ["late"]),
            node("ReduceSum", ["x"], ["total"], keepdims=0),
            node("Cast", ["x"], ["cast"], to=1),
        ],
        [("x", F, ["n"])],
        [("y", F, None)],
        {"zero": np.float32(0)},
    )
    engine = tl.load_onnx(m).compile()
    for x in (np.float32([1, 2, 3]), np.float32([-4])):
        np.testing.assert_array_equal(engine(x), (x * x + x if x.sum() > 0 else -x) + x)


def filled(inner, state):
    """A loop that appends a value ``row`` to a list, which is put together along axis 1 of what is new."""
    body = graph(
        [*inner, node("SequenceInsert", ["l", "row"], ["l2"]), node("Identity", ["go_in"], ["go"])],
        [*COUNTERS, ("s", F, None), ("l", F, None)],
        [("go", B, []), (state, F, None), ("l2", F, None)],
    )
    return model(
        [
            node("SequenceEmpty", [], ["none"]),
            node("Loop", ["n", "", "x", "none"], ["last", "list"], body=body),
            node("ConcatFromSequence", ["list"], ["y"], axis=1, new_axis=1),
        ],
        [("x", F, ["k"]), ("n", I, [])],
        [("last", F, None), ("y", F, None)],
    )


def test_a_list_of_states_is_stacked_rows():
    """A recurrence whose states torch collects in a list: a value may be both carried and appended. It was
    imported anew at each step."""
    made = tl.load_onnx(filled([node("Add", ["s", "x"], ["row"])], "row"))
    assert made.rest is None
    engine = made.compile(level=0)
    for k, n in ((3, 2), (4, 5), (2, 1)):
        x = np.arange(k, dtype="float32")
        last, y = engine(x, np.array(n))
        assert np.array_equal(last, x * (n + 1))
        assert np.array_equal(y, np.stack([x * (j + 2) for j in range(n)], 1))


def test_a_list_of_values_of_several_shapes_stays_a_list():
    inner = [node("Concat", ["s", "s"], ["t"], axis=0), node("Neg", ["t"], ["row"])]
    body = graph(
        [*inner, node("SequenceInsert", ["l", "row"], ["l2"]), node("Identity", ["go_in"], ["go"])],
        [*COUNTERS, ("s", F, ["w"]), ("l", F, None)],
        [("go", B, []), ("t", F, ["v"]), ("l2", F, None)],
    )
    m = model(
        [
            node("SequenceEmpty", [], ["none"]),
            node("Loop", ["n", "", "x", "none"], ["last", "list"], body=body),
            node("ConcatFromSequence", ["list"], ["y"], axis=0),
        ],
        [("x", F, [3]), ("n", I, [])],
        [("last", F, None), ("y", F, None)],
    )
    x = np.array([1, -2, 3], "float32")
    last, y = tl.load_onnx(m).compile(level=0)(x, np.array(3))
    assert np.array_equal(last, np.tile(x, 8))
    assert np.array_equal(y, -np.concatenate([np.tile(x, n) for n in (2, 4, 8)]))
