"""From a declaration with open sizes to a kernel of every shape: right for all of them, errors, profiles,
files, threads."""

from __future__ import annotations

import hashlib
import importlib
import json
import subprocess
import sys
import threading

import numpy as np
import pytest

import tensorlang as tl
from autosched import DynamicKernel, SearchTask, ShapeProfile, tune_dynamic
from autosched.dynamic.decision_tree import Fit
from tensorlang import te
from tensorlang.analysis import ROOFLINE
from tests.autosched.dynamic.computations import (
    FEW_TILES,
    QUICK,
    dense,
    layer,
    least_of,
    made,
    tiny_dense,
    whole,
)
from tests.house.source import HOME


@pytest.fixture(scope="module")
def tiny():
    return tiny_dense()


def made_of(profile, **more):
    """A kernel of ``x @ w`` with few columns, for any profile of up to 64 rows."""
    w = whole(np.random.default_rng(0), 16, 20)
    return made(dense, (te.dim("m", 0, 64), 20, 16), profile, constants={"W": w}, **more), w


@pytest.mark.parametrize("target", sorted({FEW_TILES, tl.Target.host()}, key=str), ids=str)
def test_every_number_of_rows_is_right(target):
    f, w = tiny_dense(target=target)
    rng = np.random.default_rng(1)
    for m in range(65):
        x = whole(rng, m, 16)
        assert (f(x) == x @ w).all()
        y = np.full((m, 68), np.nan, "float32")
        assert f(x, y) is None and (y == x @ w).all()
    assert f.account.family == "dense" and f.account.exhaustive and f.account.shapes == 65


def test_arguments_go_by_name_and_what_it_has_not_says_where_to_look(tiny):
    f, w = tiny
    x = whole(np.random.default_rng(2), 5, 16)
    named = {p.name: x for p in f.dispatcher.signature.params if not p.output}
    out = np.empty((5, 68), "float32")
    assert (f(**named) == x @ w).all() and f(x, out=out) is out and (out == x @ w).all()
    with pytest.raises(tl.CallError, match="has no argument q"):
        f(x, q=3)
    for word in ("profile", "view", "roofline", "get_source", "tree", "kernels", "tune"):
        with pytest.raises(tl.TensorLangError, match=f"DynamicKernel has no '{word}'") as e:
            getattr(f, word)
        assert "try " in str(e.value)


@pytest.mark.parametrize("most", [0, 2])
def test_a_profile_of_fewer_rows_than_the_highest_tile(most):
    """Tiles of more rows than any call has were timed on arrays of too few: an error where the processor has
    registers for nine rows or more."""
    f, w = made_of({"m": (0, 0, most)})
    for m in range(most + 1):
        x = whole(np.random.default_rng(m), m, 16)
        assert (f(x) == x @ w).all()


def test_what_lies_beyond_a_small_profile_is_served_by_high_tiles():
    f, w = made_of({"m": (0, 1, 2)}, out_of_range="generic")
    assert max(f.dispatcher.routes[-1].kernels) > 2
    x = whole(np.random.default_rng(0), 50, 16)
    assert (f(x) == x @ w).all()


def test_a_large_number_of_rows_is_right(tiny):
    f, w = tiny_dense(64, 16, 4096)
    x = whole(np.random.default_rng(1), 4095, 16)
    assert (f(x) == x @ w).all()


def test_what_follows_the_product_is_computed_too():
    n, k = 69, 13
    rng = np.random.default_rng(2)
    w, b = whole(rng, n, k), whole(rng, n)
    f = made(layer, (te.dim("m", 0, 100), n, k), {"m": (0, 8, 40)}, constants={"W": w, "b": b})
    assert f.account.family == "dense"
    for m in range(41):
        x, r = whole(rng, m, k), whole(rng, m, n)
        assert (f(x, r) == np.maximum(x @ w.T + b + r, 0)).all()


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_stays_in_its_row(tiny, poison):
    f, w = tiny
    rng = np.random.default_rng(3)
    for m in (1, 2, 5, 7, 11, 13, 32):
        for row in {0, m // 2, m - 1}:
            x = whole(rng, m, 16)
            want = x @ w
            x[row, 3] = poison
            guard = np.full((m + 2, 16), np.nan, "float32")  # what lies beside the rows is poison too
            guard[1:-1] = x
            got = f(guard[1:-1])
            others = np.arange(m) != row
            assert (got[others] == want[others]).all()


def test_sizes_outside_of_the_profile(tiny):
    f, w = tiny
    x = whole(np.random.default_rng(4), 65, 16)
    with pytest.raises(tl.CallError, match="m = 65"):
        f(x)
    g, w = tiny_dense(out_of_range="generic")
    x = whole(np.random.default_rng(4), 300, 16)
    assert (g(x) == x @ w).all() and "outside all profiles" in g.explain(m=300).reason
    with pytest.raises(tl.CallError, match="m = 4097"):  # the declaration holds all the same
        g(np.zeros((4097, 16), "float32"))


@pytest.mark.parametrize("out_of_range", ["error", "generic"])
def test_explain_says_refused_where_a_call_is(out_of_range):
    """Also between two profiles, outside of what the dim is declared to be, and of its steps."""
    w = whole(np.random.default_rng(0), 16, 20)
    f = made(
        dense,
        (te.dim("m", 4, 60, multiple_of=2), 20, 16),
        [{"m": (8, 16)}, {"m": (30, 40)}],
        constants={"W": w},
        out_of_range=out_of_range,
    )
    words = set()
    for m in range(66):
        x = whole(np.random.default_rng(m), m, 16)
        told = f.explain(m=m)
        assert str(told).endswith(f"\n  costs {ROOFLINE.digest}, generic")
        words.add(told.reason.split(":")[0].split(" picks")[0])
        try:
            assert (f(x) == x @ w).all()
            assert "refused" not in str(told), m
        except tl.CallError:
            assert "a call is refused" in told.reason, m
    assert words == {
        "a call is refused",
        "the tree",
        {"error": "between", "generic": "outside"}[out_of_range] + " all profiles",
    }


def test_what_was_declared_of_a_dim_holds():
    w = whole(np.random.default_rng(0), 16, 68)
    f = made(
        dense,
        (te.dim("m", 8, 64, multiple_of=4), 68, 16),
        {"m": (8, 32)},
        constants={"W": w},
        out_of_range="generic",
    )
    x = whole(np.random.default_rng(1), 64, 16)
    assert all((f(x[:m]) == x[:m] @ w).all() for m in range(8, 65, 4))
    for m in (4, 10, 68):
        with pytest.raises(tl.CallError, match="m = "):
            f(np.zeros((m, 16), "float32"))


def test_several_profiles():
    w = whole(np.random.default_rng(0), 16, 68)
    task = SearchTask(dense, (te.dim("m", 0, 4096), 68, 16), FEW_TILES)
    f = tune_dynamic(
        task,
        [
            ShapeProfile({"m": (1, 2, 4)}, out_of_range="generic"),
            ShapeProfile({"m": (32, 64)}, out_of_range="generic"),
        ],
        constants={"W": w},
        **QUICK,
    )
    for m in (0, 1, 4, 5, 31, 32, 64, 65, 200):
        x = whole(np.random.default_rng(m), m, 16)
        assert (f(x) == x @ w).all()


def test_explain_and_stats(tiny):
    f, _ = tiny
    e = f.explain(m=7)
    assert f.explain((7,)) == e == f.explain({"m": 7}) == f.explain(7)
    assert len(e.alternatives) == len(f.dispatcher.routes) and e.alternatives[0][0] == e.chosen
    assert all(s > 0 for _, s, _ in e.alternatives) and e.chosen in str(e) and "µs" in str(e)
    with pytest.raises(tl.CallError, match="the dims are m"):
        f.explain(n=7)
    assert e.tier == "table" and "(tier table)" in str(e)
    before = f.stats().calls
    f(np.zeros((7, 16), "float32"))
    stats = f.stats()
    assert (
        stats.calls == before + 1
        and stats.shapes[7,] >= 1
        and stats.routes[e.chosen] >= 1
        and stats.tiers is None
    )
    assert f"by {e.chosen}" in str(stats) and "calls remembered" in str(stats)
    assert f.account.family in str(f.account)


def test_the_declaration_and_the_profile_must_fit():
    task = SearchTask(dense, (te.dim("m", 2, 64), 8, 8))
    declared = "declared from 2 to 64"
    for profile, word in (
        ({"n": 3}, "its dims are m"),
        ({"m": (1, 8)}, declared),
        ({"m": (2, 100)}, declared),
        ([], "no profile"),
    ):
        with pytest.raises(tl.TensorLangError, match=word):
            tune_dynamic(task, profile, **QUICK)
    with pytest.raises(tl.TensorLangError, match="no size of it is open"):
        tune_dynamic(SearchTask(dense, (4, 8, 8)), {"m": 4}, **QUICK)
    with pytest.raises(tl.TensorLangError, match="'V' is not an input"):
        tune_dynamic(task, {"m": (2, 8)}, constants={"V": np.zeros((8, 8), "float32")}, **QUICK)


def test_published_code_serves_its_shape(tiny):
    f, w = tiny
    x = whole(np.random.default_rng(5), 9, 16)
    fixed = te.serialize.resized(SearchTask(dense, (te.dim("m"), 68, 16)).tensors, {"m": 9})
    special = tl.compile(fixed, constants={fixed[1]: w + 1}, name="special")
    f.dispatcher.publish((9,), special)
    assert (f(x) == x @ (w + 1)).all() and (f.explain(m=9).chosen, f.explain(m=9).tier) == (
        "special",
        "specialised",
    )
    f.dispatcher.retire((9,))
    assert (f(x) == x @ w).all()


WITHOUT_COMPILER = """
import importlib, sys, types
import numpy as np

def package(name):
    made = sys.modules[name] = types.ModuleType(name)
    made.__path__ = [f"{root}/{name.replace('.', '/')}"]
    return made

root, path, arrays = sys.argv[1:]
tl = package("tensorlang")  # the packages without what they import for those who compile and tune
for name in ("autosched", "autosched.dynamic", "autosched.tiers"):
    package(name)
runtime, errors = importlib.import_module("tensorlang.runtime"), importlib.import_module("tensorlang.errors")
tl.Dispatcher, tl.Module, tl.Rows = runtime.Dispatcher, runtime.Module, runtime.Rows
tl.CallError, tl.TensorLangError, tl.TargetError = errors.CallError, errors.TensorLangError, errors.TargetError
from autosched.dynamic.kernel import DynamicKernel

f, a = DynamicKernel.load(path), np.load(arrays)
assert (f(a["x"]) == a["y"]).all()
told = f.explain(m=len(a["x"]))
assert told.tier == "table" and all(s > 0 for _, s, _ in told.alternatives) and "calls" in str(f.stats())
try:
    f(np.zeros((10_000, a["x"].shape[1]), "float32"))
except tl.CallError as e:
    assert "is too large" in str(e)
else:
    raise AssertionError("a size beyond the profile was taken")
rooms = {m.split(".")[1] for m in sys.modules if m.startswith("tensorlang.")}
assert rooms <= {"boundary", "core", "entries", "errors", "interface", "kinds", "lazy", "native", "options", "protocols", "runtime", "signposts"}, rooms
assert not {"sklearn", "xgboost", "autosched.measure", "autosched.tune", "autosched.tiers.workshop"} & set(sys.modules)
"""


def test_a_file_serves_a_process_without_the_compiler(tiny, tmp_path):
    f, w = tiny
    path = tmp_path / "dense.dyn"
    f.save(path)
    x = whole(np.random.default_rng(6), 11, 16)
    np.savez(tmp_path / "xy.npz", x=x, y=x @ w)
    g = DynamicKernel.load(path)
    assert (
        (g(x) == x @ w).all()
        and g.explain(m=11).alternatives == f.explain(m=11).alternatives
        and str(g.account) == str(f.account)
    )
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER, str(HOME), str(path), str(tmp_path / "xy.npz")],
        cwd=tmp_path,
        timeout=600,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_cut_file_is_refused_with_a_reason(tiny, tmp_path):
    f, _ = tiny
    path = tmp_path / "dense.dyn"
    f.save(path)
    data = path.read_bytes()
    for cut in range(0, len(data), 64):
        path.write_bytes(data[:cut])
        with pytest.raises(tl.TensorLangError, match=r"cannot load"):
            DynamicKernel.load(path)
    tl.Dispatcher(f.dispatcher.routes[0].kernels[1], [f.dispatcher.routes[0].kernels[1]]).save(path)
    with pytest.raises(tl.TensorLangError, match="no DynamicKernel"):
        DynamicKernel.load(path)


def test_a_file_of_another_machine_is_refused_with_a_reason(tiny, tmp_path):
    """Its hash is right: it was made so, elsewhere."""
    f, _ = tiny
    path = tmp_path / "dense.dyn"
    f.save(path)
    magic, _, line, code = path.read_bytes().split(b"\n", 3)
    for machine, word in (
        ({"triple": "aarch64-unknown-linux-gnu"}, "was compiled for aarch64"),
        ({"features": ["sve9"]}, "may use sve9"),
    ):
        header = json.loads(line)
        header["kernels"][-1]["machine"].update(machine)
        body = json.dumps(header).encode() + b"\n" + code
        path.write_bytes(b"\n".join([magic, hashlib.sha256(body).hexdigest().encode(), body]))
        with pytest.raises(tl.TargetError, match=word):
            DynamicKernel.load(path)


def test_a_table_is_measured_once(tmp_path):
    w = whole(np.random.default_rng(0), 16, 68)
    kernels = [
        made(dense, (te.dim("m", 0, 64), 68, 16), {"m": (0, 64)}, constants={"W": w}, cache=tmp_path)
        for _ in range(2)
    ]
    said = [" ".join(k.account.notes) for k in kernels]
    assert "there is no table yet" in said[0]
    assert "an earlier run" in said[1] or "sentinels" in said[1]


def test_threads_call_one_kernel(tiny):
    f, w = tiny
    wrong: list[int] = []

    def call(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(300):
            x = whole(rng, int(rng.integers(0, 65)), 16)
            if not (f(x) == x @ w).all():
                wrong.append(len(x))

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("most", [14, pytest.param(40, marks=pytest.mark.fuzz)])
def test_all_shapes_up_to_40_bitwise(most):
    """Every M, N, K in 0 … 40 with both operands open, by whatever the tree picks."""
    f = made(dense, tuple(te.dim(d, 0, most) for d in "mnk"), dict.fromkeys("mnk", (0, most)), seconds=0.0)
    rng = np.random.default_rng(0)
    x, w = whole(rng, most, most), whole(rng, most, most)
    lefts = {(m, k): np.ascontiguousarray(x[:m, :k]) for m in range(most + 1) for k in range(most + 1)}
    rights = {(k, n): np.ascontiguousarray(w[:k, :n]) for k in range(most + 1) for n in range(most + 1)}
    for k in range(most + 1):
        whole_product = x[:, :k] @ w[:k]
        for m in range(most + 1):
            for n in range(most + 1):
                assert (f(lefts[m, k], rights[k, n]) == whole_product[:m, :n]).all(), (m, n, k)


def test_a_variant_with_a_least_size_that_the_tree_never_picks(monkeypatch):
    """Register tiles take at least one tile of rows. Where none is the fastest at any shape, the tree is the
    generic kernel alone."""

    def fit(dims, shapes, seconds, weights, exhaustive):
        return Fit(seconds.shape[1] - 1, 1, 0.0, 0.0, (), len(shapes), exhaustive)

    monkeypatch.setattr(importlib.import_module("autosched.dynamic.tune_dynamic"), "fit", fit)
    monkeypatch.setattr(
        importlib.import_module("autosched.dynamic.families.variants"),
        "_worth",
        lambda seconds: list(range(len(seconds[0]))),
    )
    f = made(dense, tuple(te.dim(d, 0, 40) for d in "mnk"), dict.fromkeys("mnk", (0, 40)), seconds=0.0)
    assert any(least_of(r, "m") > 0 for r in f.dispatcher.routes)
    x, w = whole(np.random.default_rng(0), 3, 5), whole(np.random.default_rng(1), 5, 4)
    assert (f(x, w) == x @ w).all() and f.explain(m=3, n=4, k=5).tier == "table"


@pytest.mark.fuzz
@pytest.mark.parametrize("n", range(1, 41))
def test_constant_weights_of_every_width_bitwise(n):
    """Every number of rows up to 40, for every width of the weight and a few depths."""
    for k in {1, 2, 3, 8, 40, 1 + n * 17 % 40}:
        w = whole(np.random.default_rng(n * 41 + k), k, n)
        f = made(dense, (te.dim("m", 0, 40), n, k), {"m": (0, 40)}, constants={"W": w}, seconds=0.0)
        every = [tl.Dispatcher(f.dispatcher.signature, [r]) for r in f.dispatcher.routes]
        for m in range(41):
            x = whole(np.random.default_rng(m), m, k)
            assert all((d(x) == x @ w).all() for d in (f, *every)), (m, n, k)


@pytest.mark.fuzz
def test_every_number_of_rows_up_to_8192():
    f, w = tiny_dense(64, 24, 8192)
    x = whole(np.random.default_rng(0), 8192, 24)
    want = x @ w
    for m in range(8193):
        assert (f(x[:m]) == want[:m]).all(), m
