"""Models from the shell beside other runtimes: times in turns, answers, the first value that differs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tensorlang.__main__ import main
from tensorlang.errors import TensorLangError
from tensorlang.frontends import load_onnx
from tensorlang.peers import answers, inputs, runtimes, turns

onnx = pytest.importorskip("onnx")


def saved(path, nodes, ins, outs, constants=()):
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node(op, reads, [made], **attrs) for op, reads, made, attrs in nodes],
        "small",
        [helper.make_tensor_value_info(n, kind, shape) for n, kind, shape in ins],
        [helper.make_tensor_value_info(n, kind, shape) for n, kind, shape in outs],
        [onnx.numpy_helper.from_array(a, n) for n, a in constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return str(path)


@pytest.fixture
def network(tmp_path):
    """softmax(relu(x·w) + mask), rows of 8 to 5 classes."""
    w = np.random.default_rng(0).standard_normal((8, 5)).astype("float32")
    nodes = [
        ("MatMul", ["x", "w"], "product", {}),
        ("Relu", ["product"], "hidden", {}),
        ("Cast", ["mask"], "added", {"to": 1}),
        ("Add", ["hidden", "added"], "sum", {}),
        ("Softmax", ["sum"], "y", {}),
    ]
    ins = [("x", 1, ["n", 8]), ("mask", 7, ["n", 5])]
    return saved(tmp_path / "network.onnx", nodes, ins, [("y", 1, ["n", 5])], [("w", w)])


def test_bench_tells_the_times_of_every_runtime(network, capsys):
    pytest.importorskip("onnxruntime")
    assert main(["bench", network, "--shape", "x=3,8", "--threads", "1", "--rounds", "2"]) == 0
    text = capsys.readouterr().out
    assert "x [3, 8], mask [3, 5]; 1 thread, 2 rounds" in text
    for name in ("tensorlang", "onnxruntime"):
        row = re.search(rf"^{name} \S+ +([\d.]+) s +([\d.]+) ms +([\d.]+) … ([\d.]+) +([\d.]+)×$", text, re.M)
        assert row and float(row[3]) <= float(row[2]) <= float(row[4])
    assert re.search(r"^tensorlang .* 1\.00×$", text, re.M)


def test_a_runtime_that_refuses_has_a_row_that_says_so(network):
    given = inputs.made(load_onnx(network), {})
    ours, other = turns.race(network, given, ["tensorlang", "nobody"], 1, rounds=1, seconds=0.0)
    assert len(ours.turns) == 1 and not other.turns and "nobody" in other.error
    assert "nobody" in turns.table([ours, other]).splitlines()[-1]
    with pytest.raises(TensorLangError, match="tensorlang did not run the model"):
        turns.table(turns.race(network, {"x": given["x"][:, :5]}, ["tensorlang"], 1, 1, 0.0))


def test_mnn_converts_the_file_and_says_the_same(network):
    """A number of 64 bits is one of 32 there."""
    if "MNN" not in runtimes.installed():
        pytest.skip("MNN is not installed")
    given = inputs.made(load_onnx(network), {"x": (3, 8)})
    ours, other = (runtimes.RUNTIMES[name](network, 1)(given)["y"] for name in ("tensorlang", "MNN"))
    assert other.shape == ours.shape == (3, 5) and np.allclose(ours, other, atol=1e-5)


@pytest.mark.parametrize("peer", [True, False])
def test_compare_finds_no_difference_where_there_is_none(network, peer, capsys, monkeypatch):
    if peer:
        pytest.importorskip("onnxruntime")
    else:
        monkeypatch.setattr(answers, "installed", lambda: ["tensorlang"])
    assert main(["compare", network, "--all", "--shape", "mask=2,5"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^y +float32\[2, 5\]" + " +[\\d.e+-]+ of [\\d.e+-]+" * (2 if peer else 1), text, re.M)
    for level in (0, 2) if peer else (2,):
        assert f"level {level}: none of 5 values differs, of 5 in the file" in text


def test_compare_looks_inside_where_an_input_is_read_by_nothing_there(tmp_path, capsys):
    """The graph has no node for the second output, so that its input is none of the part that is compared."""
    nodes = [("Relu", ["x"], "y", {}), ("Identity", ["state"], "kept", {})]
    ins, outs = [("x", 1, ["n"]), ("state", 1, [4])], [("y", 1, ["n"]), ("kept", 1, [4])]
    path = saved(tmp_path / "model.onnx", nodes, ins, outs)
    assert main(["compare", path, "--all", "--shape", "x=3"]) == 0
    assert "level 2: none of 1 values differs, of 2 in the file" in capsys.readouterr().out


def test_compare_names_the_first_value_that_differs(network, capsys, monkeypatch):
    """The engine is asked about a model whose relu lets a tenth of what is negative through."""
    pytest.importorskip("onnxruntime")
    model = onnx.load(network)
    model.graph.node[1].op_type = "LeakyRelu"
    model.graph.node[1].attribute.append(onnx.helper.make_attribute("alpha", 0.1))
    monkeypatch.setattr(answers, "load_onnx", lambda _: load_onnx(model))
    assert main(["compare", network, "--all", "--shape", "x=4,8"]) == 1
    text = capsys.readouterr().out
    for level in (0, 2):
        assert f"level {level}: the first value that differs is hidden, by " in text
    assert "hidden = LeakyRelu(product)" in text


def test_differences_of_what_numbers_do_not_say():
    nan, inf = np.nan, np.inf
    assert answers.difference([1.0], None).beyond(1.0)
    same = answers.difference(np.array([nan, inf, 2.0]), np.array([nan, inf, 2.0]))
    assert same == (0.0, 2.0, "") and not same.beyond(0.0)
    for got in ([nan, 1.0], [inf, 1.0]):
        assert answers.difference(np.array(got), np.array([0.0, 1.0])).largest == inf
    assert answers.difference(np.ones((2, 1)), np.ones(2)).apart == "[2, 1], not [2]"
    assert answers.difference(np.array([True]), np.array([False])).largest == 1.0
    assert answers.difference(np.zeros((0, 3)), np.zeros((0, 3))) == (0.0, 0.0, "")


def test_mistakes_are_one_message(network, tmp_path, capsys):
    (tmp_path / "bad.npz").write_text("no arrays")
    for more, says in (
        (["--shape", "x"], "--shape x is not a shape"),
        (["--shape", "x=-1,8"], "is not a shape"),
        (["--shape", "z=3"], "there is no input z"),
        (["--shape", "x=3"], "--shape of x has 1 size"),
        (["--shape", "x=3,7"], "x"),
        (["--inputs", str(tmp_path / "bad.npz")], "cannot be read"),
    ):
        for command in ("bench", "compare"):
            assert main([command, network, *more]) == 1
            said = capsys.readouterr()
            assert says in said.err and not said.out


def test_rounds_that_do_not_count_are_made_again_and_left_out(network: str) -> None:
    """Two processors of a virtual machine are one core at times: such rounds say nothing of two threads."""
    given = inputs.made(load_onnx(network), {})
    answers = iter([True, False, *[True] * 6, *[False] * 12])
    (row,) = turns.race(network, given, ["tensorlang"], 1, 3, 0.0, lambda: next(answers, False))
    assert row.counted == [False, True, True, True]
    row.turns[0] = 1e9
    assert row.median < 1e6
    (row,) = turns.race(network, given, ["tensorlang"], 1, 3, 0.0, lambda: next(answers, False))
    assert row.counted == [False] * 6 and row.median == float(np.median(row.turns))


def test_caches_are_emptied_before_each_call(network: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", network, "--shape", "x=3,8", "--rounds", "1", "--cold"]) == 0
    assert "1 rounds, empty caches" in capsys.readouterr().out
    given = inputs.made(load_onnx(network), {})
    ours, bad = turns.race(network, given, ["tensorlang", "nobody"], 1, 1, 0.0, cold=True)
    assert len(ours.turns) == 1 and ours.median > 0 and bad.error
