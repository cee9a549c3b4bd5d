"""The benchmarks of kernels for every shape judge rightly: a wrong kernel is found, baselines are what their
papers say, seconds are added up."""

from __future__ import annotations

import importlib
import json
import sys
import time

import numpy as np
import pytest

import tensorlang as tl
from benchmarks.dynamic.baselines import (
    ABLATIONS,
    BASELINES,
    Arrays,
    DietCode,
    Ways,
    bucket,
    residue,
    spread,
    up,
)
from benchmarks.dynamic.correctness import Layer, faults
from benchmarks.dynamic.figures import Figure, Table, pooled
from benchmarks.dynamic.peers import Peers
from benchmarks.dynamic.proof import judged
from benchmarks.dynamic.search_time import Row, against, repair
from benchmarks.dynamic.turns import PROBES, TURNS, in_turns
from tests.autosched.dynamic.computations import FEW_TILES

program = importlib.import_module("benchmarks.dynamic.__main__")

# -- correctness: kernels that are wrong in one way each -----------------------------------------------------


@pytest.fixture(scope="module")
def layer():
    return Layer(20, 6, 5)


def test_a_right_kernel_has_no_faults(layer):
    assert not list(faults(layer, lambda x, y: np.matmul(x, layer.w, out=y), range(1, 21)))


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda x, w, y: np.matmul(x[:-1], w, out=y[:-1]), "differ"),  # the last row is not written
        (lambda x, w, y: np.matmul(x, w + np.float32(2e-6), out=y), "differ"),  # inexact
        (lambda x, w, y: np.matmul(beyond(x), w, out=beyond(y)), "beyond"),  # a row too many
        (lambda x, w, y: np.add(x @ w, 0 * beyond(x)[-1, 0], out=y), "differ"),  # what is beyond leaks
    ],
)
def test_a_wrong_kernel_is_found_at_its_rows(layer, harm, why):
    def kernel(x, y):
        if len(x) == 7:
            harm(x, layer.w, y)
        else:
            np.matmul(x, layer.w, out=y)

    ((m, told),) = faults(layer, kernel, range(1, 21))
    assert m == 7
    assert why in told


def beyond(a):
    """The array with one row more."""
    return np.lib.stride_tricks.as_strided(a, (len(a) + 1, a.shape[1]), a.strides)


# -- baselines -----------------------------------------------------------------------------------------------


def test_residues_are_full_tiles_and_one_remainder():
    assert residue(13, 6) == [(6, 0, 12), (1, 12, 13)]
    assert residue(12, 6) == [(6, 0, 12)]
    assert residue(4, 6) == [(4, 0, 4)]


def test_buckets_hold_their_rows():
    assert [bucket(m) for m in (1, 64, 65, 256, 257, 512)] == [64, 64, 128, 256, 512, 512]
    assert up(13, 6) == 18
    assert up(12, 6) == 12


def test_dietcode_pays_for_padding():
    cost = DietCode.cost({4: 1.0, 6: 0.9}, [4, 6, 12])
    np.testing.assert_allclose(cost, [[4, 5.4], [8, 5.4], [12, 10.8]])


def test_dietcode_takes_the_tile_of_a_listed_neighbour_for_a_shape_it_was_not_told_of():
    listed = [4, 8, 12, 60, 66, 72]
    diet = DietCode.fitted({4: 1.0, 6: 0.9}, listed)
    assert [diet.height(m) for m in listed] == [4, 4, 6, 6, 6, 6]
    assert diet.height(64) == 6
    assert diet.height(3) == 4


def test_padded_copies_give_the_rows_and_leave_the_rest():
    arrays = Arrays.of(12, 3, 3)
    seen = []

    def double(x, y):
        seen.append(len(x))
        y[:] = 2 * x

    arrays.copied(double, 5, 8)()
    assert seen == [8]
    np.testing.assert_array_equal(arrays.y[:5], 2 * arrays.x[:5])
    assert not arrays.y[5:].any()


def test_sampled_rows_are_spread_over_all():
    rows = spread(16, 0)
    assert rows == sorted(set(rows))
    assert all(32 * i < m <= 32 * (i + 1) for i, m in enumerate(rows))


def test_each_call_follows_one_of_its_own_and_the_others_in_any_order():
    seen = []
    found = in_turns({name: lambda name=name: (seen.append(name), time.sleep(1e-4)) for name in "abc"}, 0.0)
    assert set(found) == set("abc") and all(1e-4 <= s < 1 for s in found.values())
    turns = seen[3 * PROBES :]
    assert turns[::2] == turns[1::2] and len(turns) == 6 * TURNS
    assert len({tuple(turns[i : i + 6 : 2]) for i in range(0, len(turns), 6)}) > 1


def test_short_calls_are_repeated():
    seen = []
    assert 0 < in_turns({"a": lambda: seen.append(1)}, 0.0)["a"] < 1e-4
    assert len(seen) > PROBES + 4 * TURNS, "an untimed call and several timed ones in each turn"


def test_a_way_that_is_wrong_is_named():
    ways = Ways.__new__(Ways)  # nothing of it but the arrays and the weight
    ways.arrays, ways.w = Arrays.of(4, 3, 3), np.eye(3, dtype=np.float32)
    good = ways.arrays.part(lambda x, y: np.copyto(y, x), 0, 2)
    assert ways.wrong({"good": good, "bad": lambda: None}, 2) == ["bad"]


@pytest.fixture(scope="module")
def ways():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tl.Target, "host", staticmethod(lambda: FEW_TILES))
        return Ways(40, 9, seconds=0.02)


def test_every_way_computes_the_product(ways):
    for m in (1, 65, 512):
        calls = ways.calls(m)
        assert {*BASELINES, *ABLATIONS} < set(calls)
        assert not ways.wrong(calls, m)


def test_every_tile_takes_the_most_rows_padded_to_it(ways):
    """Which tile DietCode's tree picks is measured: any can come."""
    heights = [h for h in ways.kernels if 512 % h]
    assert heights
    assert not ways.wrong(
        {h: ways.arrays.copied(ways.kernels[h].entry, 512, up(512, h)) for h in heights}, 512
    )


# -- seconds to search ---------------------------------------------------------------------------------------


def test_what_is_lacking_costs_the_seconds_of_the_faster_kernel():
    made = {"plan 0": 0.1, "exact": 2.0}
    rows = [
        Row(1, 1.0, {"plan 0": 1.0, "exact": 1.2}, made),
        Row(2, 1.0, {"plan 0": 1.0, "exact": 0.5}, made),
        Row(3, 1.0, {"plan 0": 0.96, "exact": 1.2}, made),
        Row(4, 1.0, {"plan 0": 0.5, "exact": 0.6}, made),
    ]
    assert [r.share(r.ours) for r in rows] == [1.0, 0.5, 0.96, 0.5]
    lacking, seconds = repair(rows, 8)
    assert lacking == 2
    assert seconds == pytest.approx((2.0 + 0.1) * 8 / 4)


def test_seconds_of_shapes_that_were_not_tuned_are_said_to_be_extrapolated():
    eight, all_ = against(2.0, [5.0] * 8)
    assert eight.values == {"measured": 20.0}
    ((told, ratio),) = all_.values.items()
    assert told.startswith("extrapolated from 5.0 s a shape") and ratio == 1280.0
    eight, all_ = against(20.0, [5.0, 7.0])
    ((told, ratio),) = eight.values.items()
    assert told.startswith("extrapolated") and ratio == pytest.approx(2.4)


# -- figures and what is wanted ------------------------------------------------------------------------------


def test_a_figure_tells_its_mean_its_fifth_percentile_and_its_worst():
    f = Figure("layer", "numpy", {str(i): 2.0 ** (i - 10) for i in range(21)})
    assert f.mean == pytest.approx(1.0) and f.low == pytest.approx(2.0**-9) and f.worst == (2.0**-10, "0")
    assert "worst 0.001 at 0" in str(f) and Figure.of(json.loads(json.dumps(f.to_json()))) == f
    slow = Figure("trace", "oracle", {"a": 1.0, "b": 4.0}, more=False)
    assert slow.mean == pytest.approx(2.0) and slow.worst == (4.0, "b") and slow.low > 3.5


def test_figures_of_one_name_are_pooled_over_their_cases():
    table = Table("a")
    assert table.add(3, {"numpy": 2.0, "torch": 1.0}) == "numpy 2.00   torch 1.00"
    table.add(4, {"numpy": 8.0})
    numpy, torch = pooled([*table.figures(), Figure("b", "numpy", {"3": 4.0})])
    assert numpy.values == {"a 3": 2.0, "a 4": 8.0, "b 3": 4.0} and numpy.mean == pytest.approx(4.0)
    assert torch.values == {"a 3": 1.0}


def test_what_was_wanted_is_judged_for_each_number_of_threads():
    def entries(suite, threads, figure):
        return [{"suite": suite, "threads": threads, **figure.to_json()}]

    good = entries("P1", 1, Figure("x", "numpy", {"1": 1.5, "2": 1.0}))
    bad = entries("P1", 2, Figure("x", "numpy", {"1": 1.1}))
    late = entries("P9", 2, Figure("x", "oracle", {"uniform": 1.2}, more=False))
    found = {(v.line.suite, v.threads, v.line.statistic): v.passed for v in judged([*good, *bad, *late])}
    assert found == {("P1", 1, "mean"): True, ("P1", 2, "mean"): False, ("P9", 2, "mean"): False}


def test_a_result_is_written_added_to_and_judged(tmp_path, monkeypatch, capsys):
    asked = []

    def run(options):
        asked.append(options.case)
        yield "a line"
        yield Figure(options.case or "all", "rows right, of all", {"3": 1.0 if options.case else 0.5}, "")

    monkeypatch.setitem(program.SUITES, "P6", program.Suite("about", run))
    path = tmp_path / "r.json"
    assert program.main(["--suite", "P6", "--case", "a", "--into", str(path), "--threads", "1"]) == 0
    assert (
        program.main(["--suite", "P6", "--case", "b", "--into", str(path), "--threads", "1", "--quick"]) == 0
    )
    result = json.loads(path.read_text())
    assert [(c["suite"], c["threads"], c["case"], c["quick"]) for c in result["cases"]] == [
        ("P6", 1, "a", False),
        ("P6", 1, "b", True),
    ]
    assert [(p["suite"], p["found"], p["passed"]) for p in result["proof"]] == [("P6", 1.0, True)]
    assert {"cpu", "cores", "caches"} <= set(result["machine"]) and "numpy" in result["versions"]
    assert "a line" in capsys.readouterr().out
    assert program.main(["--suite", "P6", "--into", str(path), "--threads", "1"]) == 1, (
        "not all rows were right"
    )
    result["machine"]["cores"] += 1
    path.write_text(json.dumps(result))
    assert program.main(["--suite", "P6", "--into", str(path), "--threads", "1"]) == 2
    assert json.loads(path.read_text()) == result and "stays as it is: cores" in capsys.readouterr().err


def test_a_peer_that_is_not_installed_is_left_out_with_a_note(monkeypatch):
    for name in ("torch", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)
    peers = Peers(np.eye(3, dtype=np.float32))
    assert set(peers.missing) == {
        "torch",
        "torch.compile, dynamic",
        "onnxruntime, dynamic axes",
    } and "left out: torch (" in str(peers)
    x, y = np.random.default_rng(0).random((2, 3), np.float32), np.zeros((2, 3), np.float32)
    ((name, call),) = peers.calls(x, y).items()
    call()
    assert name == "numpy" and (y == x).all()
