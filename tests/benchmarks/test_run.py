"""A run of the benchmarks: peers that are missing, wrong or failing are reported and not counted; what is
written can be read."""

from __future__ import annotations

import json
import weakref

import numpy as np
import pytest

from benchmarks import report, run
from benchmarks.harness import worker
from benchmarks.harness.case import Argument, Case
from benchmarks.harness.figures import figures, share, spread, summaries
from benchmarks.harness.measure import Samples
from benchmarks.harness.merge import DifferentError, merged
from benchmarks.harness.peer import Peer, Prepared
from benchmarks.harness.table import notes

CASE = Case("matmul", "2", "double", (Argument("x", (2,)),), Argument("y", (2,)), lambda x: 2 * x, flops=2.0)


def peer(result, *, counted=True, skip=None):
    """A peer whose result is a function of x."""

    class Fake(Peer):
        def unsupported(self, case):
            return skip

        def prepare(self, case, arrays):
            value = result(arrays["x"])
            return Prepared(lambda: None, lambda: value)

    Fake.counted = counted
    return Fake()


def times(**seconds):
    return lambda runs: {name: sampled(seconds[name]) for name in runs}


def sampled(seconds):
    return Samples(seconds=dict(enumerate(seconds)), busy=[1.0] * len(seconds))


def fails(x):
    raise MemoryError("no room\nat all")


def test_the_best_peer_is_the_fastest_that_counts_and_is_right():
    peers = {
        "ours": peer(lambda x: 2 * x),
        "slow": peer(lambda x: x + x),
        "fast": peer(lambda x: 2 * x),
        "wrong": peer(lambda x: 3 * x),
        "none": peer(lambda x: x, skip="no double"),
        "broken": peer(fails),
        "yardstick": peer(lambda x: 2 * x, counted=False),
    }
    measured = times(
        ours=[2.0, 2.0, 4.0], slow=[8.0, 8.0, 8.0], fast=[3.0, 3.0, 8.0], yardstick=[1.0, 1.0, 1.0]
    )
    entry = worker.run_case(CASE, peers, {"absent": "not installed"}, "ours", measured)
    assert (entry["best"], entry["ratio"]) == ("fast", 1.5)
    assert entry["ratios"] == {"slow": 4.0, "fast": 1.5, "yardstick": 0.5}
    status = {name: (p["status"], p.get("note", "")) for name, p in entry["peers"].items()}
    assert status["wrong"][0] == "wrong" and "wrong at 2 of 2 places" in status["wrong"][1]
    assert status["broken"] == ("failed", "MemoryError: no room")
    assert status["none"] == ("skipped", "no double")
    assert status["absent"] == ("skipped", "not installed")
    assert "median" not in entry["peers"]["wrong"]
    assert "absent: not installed" in notes([entry | {"threads": 1}])


def test_without_a_right_result_of_ours_there_is_no_ratio():
    entry = worker.run_case(
        CASE, {"ours": peer(lambda x: x), "fast": peer(lambda x: 2 * x)}, {}, "ours", times(fast=[1.0])
    )
    assert "ratio" not in entry and entry["peers"]["ours"]["status"] == "wrong"


def test_peers_that_cannot_be_imported_leave_a_note():
    def missing():
        raise ModuleNotFoundError("No module named 'nothing'")

    there, left_out = worker.started({"missing": missing}, ["missing"], 1)
    assert not there and left_out == {"missing": "not installed (No module named 'nothing')"}


def test_arrays_of_a_peer_live_while_it_is_timed():
    """A run given to native code by address once wrote into an array that only ``result`` had kept."""
    seen = []

    class Native(Peer):
        def unsupported(self, case):
            return None

        def prepare(self, case, arrays):
            out = 2 * arrays["x"]
            seen.append(weakref.ref(out))
            return Prepared(lambda: None, lambda: out)

    def measured(runs):
        assert seen[0]() is not None
        return {name: sampled([1.0]) for name in runs}

    worker.run_case(CASE, {"native": Native()}, {}, "ours", measured)


def entry(
    suite="conv",
    ratio=1.0,
    *,
    name="a",
    threads=1,
    weights="call",
    op="conv2d",
    note="",
    median=1.0,
    bound=0.5,
    limit="operations",
    f32=None,
):
    ratios = {"torch": ratio} | ({"tensorlang f32": f32} if f32 else {})
    mine = {"status": "ok", "median": median, "prepare": 0.1, "busy": 1.0}
    return {
        "suite": suite,
        "name": name,
        "op": op,
        "threads": threads,
        "weights": weights,
        "note": note,
        "flops": 2.0,
        "read": 4,
        "written": 4,
        "peers": {"tensorlang": mine, "torch": {"status": "ok", "median": median * ratio}},
        "ratios": ratios,
        "best": "torch",
        "ratio": ratio,
        "ratio_quartiles": [ratio, ratio],
        "bound": bound,
        "limit": limit,
        "level": "L2",
    }


def verdict(what, *entries):
    found = {f.what: f.passed for f in figures({"cases": list(entries)})}
    return found[what]


@pytest.mark.parametrize(
    ("suite", "ratios", "passed"),
    [
        ("matmul", [1.04] * 9 + [0.99], True),
        ("matmul", [1.04] * 8 + [0.99] * 2, False),
        ("matmul", [1.02] * 10, False),
        ("conv", [1.2] * 10, True),
        ("conv", [1.1] * 10, False),
        ("drawn", [4.0] * 8 + [0.99] * 2, False),
    ],
)
def test_figures_of_the_mean_and_of_the_cases_ahead(suite, ratios, passed):
    assert verdict(f"{suite}, 1 thread", *(entry(suite, r) for r in ratios)) is passed


@pytest.mark.parametrize(
    ("suite", "ratio", "passed"),
    [("conv", 0.9, True), ("conv", 0.89, False), ("floor", 0.95, True), ("floor", 0.94, False)],
)
def test_listed_cases_have_a_higher_floor(suite, ratio, passed):
    assert verdict(f"{suite}, 1 thread: floor", entry(suite, 2.0), entry(suite, ratio)) is passed


@pytest.mark.parametrize(
    ("runs", "passed"), [([0.8, 0.81, 0.79], False), ([0.8, 0.95, 0.85], True), ([0.8, 0.8], False)]
)
def test_a_case_fails_when_the_interval_over_its_runs_lies_below(runs, passed):
    many = entry("conv", sorted(runs)[len(runs) // 2]) | {"runs": runs}
    assert verdict("conv, 1 thread: floor", many) is passed


def test_the_interval_is_students_of_the_logarithms():
    """Of ln 1, 2, 4 the mean is ln 2, the deviation ln 2, and t of two degrees 4.303."""
    low, high = spread(entry() | {"runs": [1.0, 2.0, 4.0]})
    assert high / 2 == pytest.approx(2 / low) == pytest.approx(2 ** (4.303 / 3**0.5), rel=1e-3)
    assert spread(entry(ratio=0.7)) == (0.7, 0.7)


@pytest.mark.parametrize("size", [1024, 2048])
def test_figure_of_the_peak(size):
    big = {"name": f"{size}x{size}x{size}"}
    assert verdict(f"matmul, 1 thread: {size}³", entry("matmul", bound=0.85, **big)) is True
    assert verdict(f"matmul, 1 thread: {size}³", entry("matmul", bound=0.84, **big)) is False


def test_figures_of_memory():
    def memory(**given):
        return entry("memory", op="softmax", note="memory", **given)

    assert verdict("memory, 1 thread: bandwidth", memory(bound=0.86), memory(bound=0.84, name="b")) is False
    assert verdict("memory, 1 thread: bandwidth", memory(bound=0.86)) is True
    assert (
        verdict("memory, 1 thread: bandwidth", entry("memory", op="softmax", note="L2", bound=0.9)) is None
    ), "in the cache it says nothing"
    assert verdict("memory, 1 thread", memory(ratio=0.99), memory(ratio=3.0)) is False


def test_figure_of_threads_takes_long_cases_bound_by_operations():
    def pair(name, one, two, **more):
        return entry(name=name, median=one, **more), entry(name=name, median=two, threads=2, **more)

    what = "two threads against one"
    assert verdict(what, *pair("a", 1.8, 1.0)) is True
    assert verdict(what, *pair("a", 1.7, 1.0)) is False
    assert (
        verdict(
            what, *pair("a", 1.8, 1.0), *pair("short", 9e-4, 9e-4), *pair("bytes", 1.0, 1.0, limit="bytes")
        )
        is True
    )
    assert verdict(what, entry()) is None


def test_figure_of_int8_is_against_our_own_float():
    assert verdict("int8, 1 thread: beside f32", entry("int8", 0.1, f32=1.5)) is True
    assert verdict("int8, 1 thread: beside f32", entry("int8", 9.0, f32=1.4)) is False


def test_a_summary_names_the_worst():
    (found,) = summaries({"cases": [entry(ratio=2.0), entry(ratio=0.5, name="bad")]})
    assert (found.geomean, found.worst, found.worst_case, found.ahead) == (
        pytest.approx(1.0),
        0.5,
        "bad",
        0.5,
    )


def test_a_machine_that_is_not_quiet_is_noted():
    busy = entry()
    busy["peers"]["tensorlang"]["busy"] = 0.5
    assert any("busy with something else" in n for n in notes([busy])) and not notes([entry()])


def test_hidden_threads_are_noted():
    greedy = entry()
    greedy["peers"]["torch"]["busy"] = 1.9
    assert notes([greedy]) == ["torch used more than 1 thread"]


def test_a_run_is_written_as_one_json_file_and_drawn(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = tmp_path / "result.json"
    arguments = [
        "--suite",
        "matmul",
        "--case",
        "64x64x64",
        "--threads",
        "1",
        "--peers",
        "numpy",
        "--rounds",
        "3",
        "--budget",
        "10",
    ]
    assert run.main([*arguments, "--json", str(path), "--width", "160"]) == 0
    result = json.loads(path.read_text(encoding="utf-8"))
    assert {"format", "date", "machine", "versions", "peers", "options", "peaks", "cases", "seconds"} <= set(
        result
    )
    assert {"cpu", "cores", "flags", "caches", "python"} <= set(result["machine"])
    assert result["versions"]["numpy"] == np.__version__
    assert [(e["name"], e["weights"]) for e in result["cases"]] == [
        ("64x64x64", "call"),
        ("64x64x64", "packed"),
    ]
    first, packed = result["cases"]
    assert packed["peers"]["numpy"]["status"] == "skipped"
    for mine in (first["peers"]["tensorlang"], first["peers"]["numpy"], packed["peers"]["tensorlang"]):
        assert (
            mine["status"] == "ok"
            and mine["rounds"] == 3
            and mine["quartiles"][0] <= mine["median"] <= mine["quartiles"][1]
        )
    assert first["best"] == "numpy" and set(first["ratios"]) == {"numpy"}
    assert 0 < first["peers"]["tensorlang"]["code"] < 1 << 20, "bytes of machine code"
    assert 0 < share(first) < 1.5, "a share of the measured peak"
    assert result["peaks"]["1"]["matmul"]["flops"] > 1e9
    assert "64x64x64" in capsys.readouterr().out
    assert path.with_suffix(".png").stat().st_size > 10_000
    text = report.markdown(result)
    assert "| matmul | call | 1 | 1 |" in text and "numpy" in text
    assert report.cases_markdown(result).count("64x64x64") == 2


def test_numbers_are_shortened_and_a_case_is_a_line():
    text = run.dumps({"format": 1, "cases": [{"a": 1 / 3}, {"a": [2 / 3]}]})
    assert json.loads(text) == {"format": 1, "cases": [{"a": 0.333333}, {"a": [0.666667]}]}
    assert len(text.splitlines()) == 7


def piece(*entries, **machine):
    return {
        "format": 1,
        "date": "2026-01-01",
        "machine": {"cpu": "fast", "cores": 2, "load": 0.1} | machine,
        "versions": {"torch": "2"},
        "peers": ["tensorlang", "torch"],
        "options": {"quick": False},
        "peaks": {"1": {"conv": {"flops": 1.0}}},
        "cases": list(entries),
        "seconds": 3,
    }


def test_pieces_become_one_result():
    first = piece(entry(ratio=1.0, name="a"), entry(ratio=1.0, name="b"))
    second = piece(entry(ratio=2.0, name="b"), entry(ratio=2.0, name="b", threads=2), load=7.0) | {
        "versions": {"jax": "1"},
        "peers": ["tensorlang", "jax"],
        "peaks": {"2": {"conv": {"flops": 2.0}}},
    }
    both = merged(first, second)
    assert [(e["name"], e["threads"], e["ratio"]) for e in both["cases"]] == [
        ("a", 1, 1.0),
        ("b", 1, 2.0),
        ("b", 2, 2.0),
    ]
    assert both["versions"] == {"torch": "2", "jax": "1"} and both["peers"] == ["tensorlang", "torch", "jax"]
    assert set(both["peaks"]) == {"1", "2"} and both["seconds"] == 6
    assert len(first["cases"]) == 2 and set(first["peaks"]) == {"1"}, "what is merged stays as it was"


def test_separate_runs_of_a_case_stand_beside_each_other():
    result = piece(entry(ratio=1.0), entry(ratio=3.0, name="b"))
    result = merged(result, piece(entry(ratio=0.8)), again=True)
    result = merged(result, piece(entry(ratio=0.9)), again=True)
    first, other = result["cases"]
    assert (first["runs"], first["ratio"], first["peers"]["torch"]["median"]) == ([1.0, 0.8, 0.9], 0.9, 0.9)
    assert "runs" not in other and other["ratio"] == 3.0
    assert merged(result, piece(entry(ratio=2.0)))["cases"][0]["ratio"] == 2.0, "without it a new beginning"
    unmeasured = {k: v for k, v in entry().items() if k != "ratio"}
    assert merged(result, piece(unmeasured), again=True)["cases"][0]["ratio"] == 0.9


def test_a_further_run_needs_a_file(capsys):
    with pytest.raises(SystemExit):
        run.main(["--again"])
    assert "--into FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (piece(cpu="slow"), "cpu 'fast' and 'slow'"),
        (piece() | {"versions": {"torch": "3"}}, "torch version"),
        (piece() | {"options": {"quick": True}}, "quick"),
        (piece() | {"format": 2}, "format"),
    ],
)
def test_pieces_of_another_machine_or_version_are_refused(other, what):
    with pytest.raises(DifferentError, match=what):
        merged(piece(), other)


def test_a_file_of_another_machine_stays_as_it_is(tmp_path, capsys):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(piece()), encoding="utf-8")
    before = path.read_bytes()
    assert run.main(["--suite", "matmul", "--threads", "1", "--into", str(path)]) == 2
    assert path.read_bytes() == before and "cpu 'fast'" in capsys.readouterr().err
