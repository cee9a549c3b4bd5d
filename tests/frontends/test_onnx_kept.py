"""Lists of what a loop in a loop keeps, as exporters write bags of embeddings with an index that stands for
nothing: one computation, and the values of the loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlang as tl

onnx = pytest.importorskip("onnx")

from .test_onnx_control import COUNTERS, graph  # noqa: E402
from .test_onnx_independent import IDS, TABLE, B, F, I, const, loops, node  # noqa: E402
from .test_onnx_models import model  # noqa: E402

NOTHING = 3  # the index that is left out


def kept_of_bags(reduce, read="list", **changes):
    """What torch's newer exporter makes of such bags: for each of them a list of the places of its indices,
    but those of ``NOTHING``, and the rows of the table at them, reduced; zeros where there are none."""
    normal = node(
        "If", ["negative"], ["id"],
        then_branch=graph([node("Add", ["raw", "entries"], ["a"])], [], [("a", I, [])]),
        else_branch=graph([node("Identity", ["raw"], ["b"])], [], [("b", I, [])]),
    )  # fmt: skip
    longer = [const("flat", [-1]), node("Reshape", ["j", "flat"], ["j1"])]
    longer.append(node("Concat", ["list", "j1"], ["more"], axis=0))
    appended = node(
        "If", ["keep"], ["after"],
        then_branch=graph(longer, [], [("more", I, None)]),
        else_branch=graph([node("Identity", ["list"], ["same"])], [], [("same", I, None)]),
    )  # fmt: skip
    places = graph(
        [
            node("Gather", ["ids", "j"], ["raw"]),
            node("Less", ["raw", "nil"], ["negative"]),
            normal,
            node("Equal", ["id", "nothing"], ["left_out"]),
            node("Not", ["left_out"], ["keep"]),
            appended,
            node("CastLike", [changes.get("step", "unit"), "j"], ["step"]),
            node("Add", ["j", "step"], ["j_next"]),
            node("Less", ["j_next", "end"], ["again"]),
        ],
        [("n", I, []), ("go_in", B, []), ("list", I, None), ("j", I, [])],
        [("again", B, []), ("after", I, None), ("j_next", I, [])],
    )
    rows = [node("Gather", ["rows_of_ids", "own"], ["rows"])]
    if reduce == "ReduceSum":
        rows.append(node(reduce, ["rows", "first"], ["some"], keepdims=0))
    else:
        rows.append(node(reduce, ["rows"], ["some"], axes=[0], keepdims=0))
    bag = node(
        "If", ["none"], ["bag"],
        then_branch=graph([const("zeros", [0.0] * 4, "float32")], [], [("zeros", F, [4])]),
        else_branch=graph(rows, [], [("some", F, None)]),
    )  # fmt: skip
    body = graph(
        [
            node("Gather", ["cuts", "i"], ["start"]),
            node("Add", ["i", "unit"], ["i_next"]),
            node("Gather", ["cuts", "i_next"], ["end"]),
            node("Less", ["start", "end"], ["any"]),
            node("Loop", ["", "any", "empty", "start"], ["own", "j_end"], body=places),
            node("Size", ["own"], ["count"]),
            node("Equal", ["count", "nil"], ["none"]),
            bag,
            node("Cast", ["own" if read == "list" else "j_end"], ["seen"], to=F),
            node("Identity", ["go_in"], ["go"]),
        ],
        COUNTERS,
        [("go", B, []), ("bag", F, None), ("counted", I, [])],
    )
    body.node.append(node("Identity", ["count"], ["counted"]))
    if read is None:
        body.node.remove(next(n for n in body.node if n.output[0] == "seen"))
    return model(
        [
            const("empty", np.zeros(0)),
            const("nil", 0),
            const("unit", 1),
            const("two", 2),
            const("first", [0]),
            const("entries", len(TABLE)),
            const("nothing", NOTHING),
            node("Gather", ["table", "ids"], ["rows_of_ids"]),
            node("Size", ["cuts"], ["size"]),
            node("Sub", ["size", "unit"], ["bags"]),
            node("Loop", ["bags", ""], ["y", "counts"], body=body),
        ],
        [("table", F, list(TABLE.shape)), ("ids", I, ["n"]), ("cuts", I, ["b"])],
        [("y", F, None), ("counts", I, None)],
        opset=17,
    )


def bags(f, cuts, step=1):
    own = [[i % len(TABLE) for i in IDS[b:e:step]] for b, e in itertools.pairwise(cuts)]
    own = [[i for i in ids if i != NOTHING] for ids in own]
    made = [f(TABLE[ids], axis=0) if ids else np.zeros(4) for ids in own]
    return np.reshape(made, (-1, 4)).astype("float32"), [len(ids) for ids in own]


@pytest.mark.parametrize("reduce, f", [("ReduceSum", np.sum), ("ReduceMax", np.max), ("ReduceMean", np.mean)])
def test_what_is_kept_of_bags_is_one_computation(reduce, f):
    made = tl.load_onnx(kept_of_bags(reduce, read=None))
    assert made.rest is None
    assert not loops(made)
    engine = made.compile()
    # whole, ragged, of nothing, of what is left out alone, and no bags
    for cuts in ([0, 8], [0, 2, 3, 8], [5, 5, 6], [0, 1, 1, 4, 5], [8]):
        found, counts = engine(TABLE, IDS, np.array(cuts, "int64"))
        want, each = bags(f, cuts)
        np.testing.assert_allclose(found, want, rtol=1e-6)
        assert counts.tolist() == each


@pytest.mark.parametrize("changes", [{"step": "two", "read": None}, {"read": "list"}, {"read": "last"}])
def test_another_step_and_other_readers_stay_loops(changes):
    made = tl.load_onnx(kept_of_bags("ReduceSum", **changes))
    assert loops(made)
    cuts = [0, 2, 3, 8]
    found, counts = made.compile()(TABLE, IDS, np.array(cuts, "int64"))
    want, each = bags(np.sum, cuts, 2 if "step" in changes else 1)
    assert np.array_equal(found, want)
    assert counts.tolist() == each
