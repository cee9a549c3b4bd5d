"""Options and modes of the backend: what users may ask of it, and how it is switched off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tensorlang import te
from tensorlang.errors import TensorLangError
from tensorlang.graph import makers
from tensorlang.runtime import num_threads, set_num_threads
from tests.house.source import ROOT

torch = pytest.importorskip("torch")
import tensorlang.torch as tlt  # noqa: E402
from autosched import maker, records  # noqa: E402
from tensorlang.frontends.torch import region, settings  # noqa: E402
from tensorlang.frontends.torch.settings import SWITCH, Settings, settings_of  # noqa: E402


@pytest.fixture(autouse=True)
def on(fresh):
    yield
    tlt.enable()


@pytest.fixture
def search(monkeypatch):
    monkeypatch.setattr(makers, "installed", lambda: [maker.schedules])
    monkeypatch.setattr(makers, "tuners", lambda: [maker.tune])


def f(x):
    return (x * 2 + 1).relu().sum(-1)


LINEAR = torch.nn.Linear(8, 4).eval()


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (lambda: tlt.explain(LINEAR), "takes other arguments"),
        (lambda: tlt.explain(LINEAR, torch.ones(2, 8), y=3), "takes other arguments"),
        (lambda: tlt.adaptive(LINEAR, budget=-1), "budget=-1"),
        (lambda: tlt.adaptive(LINEAR, budget="x"), "budget='x'"),
        (lambda: tlt.adaptive(LINEAR, memory="a"), "memory='a'"),
        (lambda: tlt.adaptive(LINEAR, dynamic="maybe"), "dynamic='maybe'"),
        (lambda: tlt.adaptive(LINEAR, options=3), "options=3"),
        (lambda: tlt.adaptive(LINEAR, options={"nope": 1}), "'nope'"),
        (lambda: tlt.adaptive(LINEAR).wait("a"), "seconds='a'"),
        (lambda: tlt.enable("x"), "on='x'"),
        (lambda: tlt.monitor(0), "monitor(0)"),
        (lambda: tlt.op(torch.relu, "a::b"), "a kernel is needed"),
        (lambda: tlt.graphs()[100], "graphs()"),
        (lambda: settings_of({"workers": -1}, None), "'workers': -1"),
        (lambda: settings_of({"workers": "a"}, None), "'workers': 'a'"),
        (lambda: settings_of({"freeze": "no"}, None), "'freeze': 'no'"),
        (lambda: settings_of({"cache": 5}, None), "'cache': 5"),
        (lambda: settings_of({"profile": 3}, None), "'profile': 3"),
        (lambda: torch.relu(te.placeholder((2,), name="A")), "relu of a declared tensor"),
    ],
)
def test_a_mistake_is_one_error_at_the_line_of_the_user(mistake, says):
    with pytest.raises(TensorLangError) as e:
        mistake()
    assert says in str(e.value) and f"{Path(__file__).name}:" in str(e.value)


def test_options_that_are_wrong_are_told_at_the_line_of_the_call():
    """Torch wraps what its backend raises; the place in it is the program's, not a file of torch."""
    with pytest.raises(Exception, match="not known to this backend") as e:
        torch.compile(LINEAR, backend="tensorlang", options={"quick": True})(torch.ones(2, 8))
    assert (
        f"{Path(__file__).name}:" in str(e.value) and "__init__.py" not in str(e.value).partition("Set ")[0]
    )


def regions():
    return [r for g in tlt.graphs() for r in g.regions]


@pytest.mark.parametrize(
    ("options", "mode", "words"),
    [
        ({"speed": 11}, None, "legal     cache, freeze, level, profile, records, trials, workers"),
        (None, "reduce-overhead", "legal     default, max-autotune"),
        ({"level": 3}, None, "legal     0, 1, 2"),
        ({"trials": -1}, None, "a number from 0"),
        ({"profile": {"x": 3}}, None, "an entry for each dimension"),
        ({"profile": {"x": [(3, 1)]}}, None, r"\(least, most\)"),
        ({"records": "/nowhere/found.jsonl"}, None, "records"),
        ({"trials": 2, "cache": False}, None, "'records': 'model.jsonl'"),
    ],
)
def test_what_is_no_option(options, mode, words, search):
    with pytest.raises(TensorLangError, match=words):
        tlt.backend(None, [], options=options, mode=mode)


def test_a_profile_bounds_sizes_and_others_run_in_torch():
    g = torch.compile(
        f, backend="tensorlang", dynamic=True, options={"profile": {"x": [(1, 4, 8), (16, 16)]}}
    )
    for n, m in ((3, 16), (20, 16), (3, 17), (8, 16)):
        x = torch.randn(n, m)
        torch.testing.assert_close(g(x), f(x))
    (r,) = regions()
    assert (r.counts.calls, r.counts.left, r.counts.reason) == (2, 2, "")
    assert list(r.bounds.values()) == [(2, 4, 8), (16, 16)]  # torch compiles 1 by itself


def test_a_profile_of_an_input_that_is_not_there_is_told(caplog):
    torch.compile(f, backend="tensorlang", options={"profile": {"y": [3]}})(torch.randn(3, 4))
    assert "no input 'y'; its inputs are x" in caplog.text


def test_a_profile_of_a_module_of_torch_itself():
    model = torch.nn.Sequential(torch.nn.ReLU())
    g = torch.compile(
        model, backend="tensorlang", dynamic=True, options={"profile": {"args[0]": [(2, 8), None]}}
    )
    for n in (3, 9):
        g(torch.randn(n, 4))
    (r,) = regions()
    assert (r.counts.calls, r.counts.left) == (1, 1) and list(r.bounds.values()) == [(2, 8)]


def test_a_profile_lies_within_what_is_known_of_a_size():
    s = Settings(sizes={"a": (1, 4, 50), "b": (0, 9), "c": (1, 1)})
    assert s.within({"a": (2, 32), "b": (2, None), "c": (2, None)}) == {"a": (2, 4, 32), "b": (2, 9)}


def test_trials_search_and_keep_records(tmp_path, search):
    log, x = tmp_path / "found.jsonl", torch.randn(64, 48)
    options = {"trials": 2, "records": str(log), "cache": False, "workers": 1}
    torch.testing.assert_close(torch.compile(f, backend="tensorlang", options=options)(x), f(x))
    found, bad = records.load(log)
    assert len(found) >= 2 and not bad
    torch._dynamo.reset()
    options.pop("trials")
    torch.testing.assert_close(torch.compile(f, backend="tensorlang", options=options)(x), f(x))
    if any(r.ok for r in found):
        assert "its schedule was found by a search" in regions()[-1].engine.explain()


def test_max_autotune_searches_and_has_a_file_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORLANG_CACHE", str(tmp_path))
    made = settings_of(None, "max-autotune")
    assert made.trials == 32 and made.records == tmp_path / "torch.jsonl"


def test_max_autotune_finds_what_later_processes_take(tmp_path, monkeypatch, search):
    monkeypatch.setenv("TENSORLANG_CACHE", str(tmp_path))
    monkeypatch.setattr(settings, "TRIALS", 2)
    x, kept = torch.randn(32, 48), []
    for _ in range(2):
        torch._dynamo.reset()
        g = torch.compile(f, backend="tensorlang", mode="max-autotune")
        torch.testing.assert_close(g(x), f(x))
        kept.append(records.load(tmp_path / "torch.jsonl")[0])
    assert len(kept[0]) >= 2 and len(kept[1]) == len(kept[0])  # the second asks for no more


def test_what_cannot_be_searched_is_compiled_as_ever(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(makers, "tuners", list)
    options = {"trials": 2, "records": str(tmp_path / "found.jsonl")}
    x = torch.randn(4, 4)
    torch.testing.assert_close(torch.compile(f, backend="tensorlang", options=options)(x), f(x))
    assert "is not tuned" in caplog.text and regions()[0].counts.calls == 1


def test_it_is_switched_off_by_a_call_for_what_is_compiled_too():
    g, x = torch.compile(f, backend="tensorlang"), torch.randn(3, 4)
    g(x)
    tlt.enable(False)
    torch.testing.assert_close(g(x), f(x))
    torch.compile(lambda x: f(x) * 2, backend="tensorlang")(x)
    assert [r.counts.calls for r in regions()] == [1]
    tlt.enable()
    g(x)
    assert [r.counts.calls for r in regions()] == [2]


def test_it_is_switched_off_by_the_environment(monkeypatch):
    monkeypatch.setenv("TENSORLANG_TORCH", "0")
    monkeypatch.setattr(SWITCH, "said", False)
    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(f, backend="tensorlang")(x), f(x))
    assert not tlt.graphs()
    monkeypatch.setenv("TENSORLANG_TORCH", "no")
    with pytest.raises(TensorLangError, match="TENSORLANG_TORCH=no"):
        tlt.backend(None, [])


def test_engines_have_as_many_threads_as_torch():
    g, x, before = torch.compile(f, backend="tensorlang"), torch.randn(3, 4), torch.get_num_threads()
    region._threads = 0  # nothing was told to kernels
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            g(x)
            assert num_threads() == n
    finally:
        torch.set_num_threads(before)
        region._threads = 0
        set_num_threads(None)


PROGRAM = """
import torch, tensorlang.torch as tlt
from tensorlang.graph import kernels
made = []
first = kernels.compile_all
kernels.compile_all = lambda jobs, *args: (made.extend(jobs), first(jobs, *args))
torch.set_num_threads(1)
f = torch.compile(lambda x: (x * 3).softmax(-1), backend="tensorlang", options={"workers": 1})
f(torch.ones(4, 5))
print("compiled", len(made))
"""


def test_another_process_takes_kernels_from_the_disk_and_shows_artefacts(tmp_path):
    env = {**os.environ, "TENSORLANG_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    env["TORCH_LOGS"] = "output_code,fusion"
    said = [
        subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [s.stdout.split()[-1] for s in said] == ["1", "0"]
    for words in ("[__output_code] tensorlang:", "softmax", "[__fusion] tensorlang:"):
        assert words in said[1].stderr
