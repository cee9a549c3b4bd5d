"""Engines with loops and with arrays whose sizes follow from values, saved and loaded."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.runtime import engine_file

onnx = pytest.importorskip("onnx")
from onnx import helper  # noqa: E402

from .test_onnx_control import COUNTERS, B, F, I, graph, node  # noqa: E402
from .test_onnx_models import model  # noqa: E402


def reloaded(engine, path):
    engine.save(path)
    once = tl.Engine.load(path, verify=True)
    once.save(path)  # and what was loaded is saved again
    return tl.Engine.load(path, verify=True)


@pytest.fixture(scope="module")
def looping():
    """A loop that reads an outer value of open size, in it a loop that stops by its condition."""
    inner = graph(
        [
            node("Add", ["a", "one"], ["b"]),
            node("ReduceMax", ["b"], ["top"], keepdims=0),
            node("Less", ["top", "limit"], ["on"]),
        ],
        [("j", I, []), ("on_in", B, []), ("a", F, None)],
        [("on", B, []), ("b", F, None)],
    )
    body = graph(
        [
            node("Add", ["s", "x"], ["u"]),
            node("Loop", ["", "go_in", "u"], ["t"], body=inner),
            node("Identity", ["go_in"], ["go"]),
            node("Mul", ["t", "t"], ["q"]),
        ],
        [*COUNTERS, ("s", F, None)],
        [("go", B, []), ("t", F, None), ("q", F, None)],
    )
    m = model(
        [node("Loop", ["n", "yes", "x"], ["y", "all"], body=body), node("Neg", ["all"], ["z"])],
        [("x", F, ["k"]), ("n", I, [])],
        [("y", F, None), ("z", F, None)],
        {"one": np.float32(1), "limit": np.float32(9), "yes": np.array(True)},
    )
    return tl.load_onnx(m).compile(level=0)


def looped(x, n):
    s, rows = x, []
    for _ in range(n):
        s = s + x
        while True:
            s = s + 1
            if not s.max() < 9:
                break
        rows.append(s * s)
    return s, -np.array(rows).reshape(n, len(x))


def test_loops(looping, tmp_path):
    loaded = reloaded(looping, tmp_path / "loops.engine")
    for engine in (looping, loaded):
        for k, n in ((3, 2), (5, 4), (2, 0), (3, 2)):
            x = np.arange(k, dtype="float32")
            for found, expected in zip(engine(x, np.array(n)), looped(x, n), strict=True):
                assert np.array_equal(found, expected)


def test_scans(tmp_path):
    body = graph(
        [node("Add", ["s", "r"], ["t"]), node("Identity", ["t"], ["o"])],
        [("s", F, [2]), ("r", F, [2])],
        [("t", F, [2]), ("o", F, [2])],
    )
    scan = node("Scan", ["s0", "x"], ["s", "all"], body=body, num_scan_inputs=1, scan_input_directions=[1])
    m = model([scan], [("s0", F, [2]), ("x", F, ["n", 2])], [("s", F, [2]), ("all", F, ["n", 2])])
    engine = tl.load_onnx(m).compile(level=0)
    loaded = reloaded(engine, tmp_path / "scan.engine")
    for n in (1, 4):
        x = np.arange(2 * n, dtype="float32").reshape(n, 2)
        sums = np.cumsum(x[::-1], 0) + 1
        state, rows = loaded(np.ones(2, "float32"), x)
        assert np.array_equal(state, sums[-1]) and np.array_equal(rows, sums)


def test_arrays_of_so_many_elements_as_values_say(tmp_path):
    nodes = [
        node("NonZero", ["x"], ["at"]),
        node("Transpose", ["at"], ["rows"]),
        node("GatherND", ["x", "rows"], ["found"]),
        node("Compress", ["found", "some"], ["few"]),
        node("Neg", ["few"], ["y"]),
    ]
    m = model(nodes, [("x", F, ["n", 3]), ("some", B, ["k"])], [("y", F, None)])
    loaded = reloaded(tl.load_onnx(m).compile(level=0), tmp_path / "some.engine")
    x = np.array([[1, 0, 2], [0, 0, 3]], "float32")
    assert np.array_equal(loaded(x, np.array([True, False, True])), [-1, -3])
    assert loaded(np.zeros((4, 3), "float32"), np.zeros(0, bool)).shape == (0,)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.__setitem__(1, "system"),
        lambda s: s[4].__setitem__("carried", 90),
        lambda s: s[4].pop("empty"),
        lambda s: s[4].__setitem__("sizes", [{"row": 10_000}]),
        lambda s: s.__setitem__(5, [0]),  # itself
        lambda s: s.__setitem__(5, []),
        lambda s: s.__setitem__(2, [None] * 4),
    ],
)
def test_a_file_with_another_step_is_refused(looping, tmp_path, change):
    path = tmp_path / "torn.engine"
    looping.save(path)
    data = path.read_bytes()
    first, second, rest = data.split(b"\n", 2)
    lengths = [int(n, 16) for n in second.split(b" ")[1:5]]
    header = json.loads(rest[: lengths[0]])
    steps = header["parts"][0][0]["steps"]
    change(next(s for s in steps if len(s) == 6 and isinstance(s[0], str)))
    code = rest[lengths[0] : lengths[0] + lengths[1]]
    path.write_bytes(engine_file.assembled(json.dumps(header).encode(), code, data[lengths[2] :]))
    with pytest.raises(tl.TensorLangError, match="makes no sense"):
        tl.Engine.load(path)


def test_sequences_are_told_by_name(tmp_path):
    nodes = [node("SequenceAt", ["s", "i"], ["y"])]
    s = helper.make_tensor_sequence_value_info("s", F, ["n"])
    infos = [helper.make_tensor_value_info("i", I, [])], [helper.make_tensor_value_info("y", F, None)]
    m = helper.make_model(
        helper.make_graph(nodes, "g", [s, *infos[0]], infos[1]), opset_imports=[helper.make_opsetid("", 17)]
    )
    engine = tl.load_onnx(m).compile(level=0)
    with pytest.raises(tl.TensorLangError, match="calls functions of Python"):
        engine.save(tmp_path / "s.engine")
