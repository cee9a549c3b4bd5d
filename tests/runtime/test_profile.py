"""Where the time goes: shares of loop nests, right results, unchanged inputs, and names for perf."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.interface.timed_nests import Nest
from tensorlang.runtime import perf_map, profile

N = 96


def two_nests(parallel: bool = False, bounds_check: bool = False) -> tl.Module:
    """One nest of N³ steps and one of N."""
    A, B = te.placeholder((N, N), name="A"), te.placeholder((N,), name="B")
    k = te.reduce_axis((0, N), name="k")
    C = te.compute((N, N), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name="C")
    D = te.compute((N,), lambda i: B[i] + 1.0, name="D")
    s = te.create_schedule([C.op, D.op])
    if parallel:
        s[C].parallel(s[C].op.axis[0])
    return tl.build(s, [A, B, C, D], name="two", bounds_check=bounds_check)


@pytest.mark.parametrize("factor", [0, 7, 16])
def test_nests_that_share_memory_are_named_by_what_they_compute(factor: int) -> None:
    """Four stages live in two buffers; also where a nest becomes vectors and a rest."""
    made = [te.placeholder((40, 40), name="A")]
    for name in ("first", "second", "third", "fourth", "out"):
        x = made[-1]
        made.append(te.compute((40, 40), lambda i, j, x=x: x[j, i] * 2.0 + x[i, j], name=name))
    s = te.create_schedule(made[-1].op)
    for x in made[1:] if factor else ():
        s[x].vectorize(s[x].split(s[x].op.axis[1], factor)[1])
    f = tl.build(s, [made[0], made[-1]], name="chain")
    ir = f.get_source("ir")
    assert "third[" not in ir and "fourth[" not in ir
    rows = f.profile(np.ones((40, 40), "float32"), seconds=0.01).rows
    assert [r.writes for r in rows if r.depth == 0][:-1] == [(x.name,) for x in made[1:]]
    told = str(f.explain())
    assert all(f": {x.name} in " in told for x in made[1:])


@pytest.mark.parametrize("parallel", [False, True])
def test_the_larger_nest_has_the_larger_share_and_all_shares_add_up(parallel: bool) -> None:
    f = two_nests(parallel)
    rng = np.random.default_rng(1)
    a, b = rng.integers(-4, 5, (N, N)).astype("float32"), rng.integers(-4, 5, N).astype("float32")
    a0, b0, c, d = a.copy(), b.copy(), np.zeros((N, N), "float32"), np.zeros(N, "float32")
    p = f.profile(a, b, c, d, seconds=0.05)
    assert np.array_equal(c, a @ a) and np.array_equal(d, b + 1)
    assert np.array_equal(a, a0) and np.array_equal(b, b0)
    tops = [r for r in p.rows if r.depth == 0]
    by = {r.writes: r for r in tops}
    assert set(by) == {("C",), ("D",), ()} and tops[-1].loop == "elsewhere"
    assert by["C",].share > 10 * by["D",].share
    assert by["C",].calls == by["D",].calls == 1
    assert abs(sum(r.share for r in tops) - 1) < 1e-9 and all(
        0 <= r.share <= 1 and r.seconds >= 0 for r in p.rows
    )
    assert abs(sum(r.seconds for r in tops) - p.seconds) < 1e-6 * p.seconds
    lines = str(p).splitlines()
    assert (
        lines[0].split() == ["loop", "nest", "writes", "share", "time", "calls"]
        and len(lines) == len(p.rows) + 2
    )
    assert lines[1].startswith("i (parallel), j" if parallel else "i, j") and "%" in lines[1]


def test_a_nest_that_holds_several_is_divided() -> None:
    """Big and small inside one outer loop, which has one iteration for each row."""
    X = te.placeholder((8, 4000), name="X")
    k = te.reduce_axis((0, 4000), name="k")
    E = te.compute((8, 4000), lambda i, j: te.exp(te.tanh(te.exp(X[i, j] * 0.1))), name="E")
    S = te.compute((8,), lambda i: te.sum(E[i, k], axis=k), name="S")
    s = te.create_schedule(S.op)
    s[E].compute_at(s[S], s[S].op.axis[0])
    f = tl.build(s, [X, S], name="rows")
    copy = f._tools.instrumented(True)  # type: ignore[union-attr]
    assert [(n.loop, n.writes, n.within, n.shown) for n in copy.nests] == [
        ("rows", (), None, False),
        ("i", ("S",), None, True),
        ("", (), 1, False),
        ("j", ("E",), 2, True),
        ("k", ("S",), 2, True),
    ]
    x = np.ones((8, 4000), "float32")
    p = f.profile(x, seconds=0.05)
    inside = [r for r in p.rows if r.depth == 1]
    assert [r.loop for r in inside] in (
        [],
        ["j", "k", "elsewhere"],
    )  # none when looking at the clock took too much of the time
    for r in inside[:2]:
        assert r.calls == 8
    if inside:
        assert inside[0].share > inside[1].share
        assert abs(sum(r.share for r in inside) - p.rows[0].share) < 1e-9


def test_threads_share_the_time_of_their_loop() -> None:
    """Two threads spend 3 s in the first part and 1 s in the second of a loop that takes 2 s; the clock costs
    nothing."""
    nests = [
        Nest("f", shown=False),
        Nest("i", ("C",)),
        Nest("", within=1, shown=False),
        Nest("j", ("A",), 2),
        Nest("k", ("B",), 2),
        Nest("l", ("D",)),
    ]
    table = np.array([[5, 1], [2, 1], [4, 8], [3, 8], [1, 8], [2, 1]]) * [1e9, 1]
    p = profile.summarise(table, nests, (0.0, 0.0), 7)
    assert [(r.loop, r.depth, r.share, r.seconds, r.calls) for r in p.rows] == [
        ("i", 0, 0.4, 2.0, 1),
        ("j", 1, 0.4 * 0.75, 1.5, 8),
        ("k", 1, 0.4 * 0.25, 0.5, 8),
        ("elsewhere", 1, 0, 0, 0),
        ("l", 0, 0.4, 2.0, 1),
        ("elsewhere", 0, pytest.approx(0.2), pytest.approx(1.0), 0),
    ]
    assert (
        str(p)
        == """loop nest    writes   share    time  calls
i            C       40.0 %  2.00 s      1
  j          A       30.0 %  1.50 s      8
  k          B       10.0 %  500 ms      8
  elsewhere           0.0 %    0 ns
l            D       40.0 %  2.00 s      1
elsewhere            20.0 %  1.00 s
one run 5.00 s, of 7 runs"""
    )


def test_the_cost_of_the_clock_is_taken_off() -> None:
    nests = [Nest("f", shown=False), Nest("i", ("C",)), Nest("", within=1, shown=False), Nest("j", ("A",), 2)]
    table = np.array([[1000, 1], [900, 1], [800, 10], [500, 10]])
    p = profile.summarise(table, nests, (10.0, 20.0), 3)
    # whole: 1000 - 10 - (20 for i, 200 for the iterations, 200 for j); i: 900 - 10 - 400; iterations: 800 -
    # 100 - 200; j: 500 - 100
    assert p.seconds == pytest.approx(570e-9) and p.rows[0].seconds == pytest.approx(490e-9)
    assert p.rows[1].share == pytest.approx(490 / 570 * 400 / 500)


def test_kernels_with_python_checks_and_failures(tmp_path: Path) -> None:
    """What a kernel calls and reports works in the copy as well."""
    X = te.placeholder((4,), name="X")

    @tl.register_func("tests.profile.twice", override=True)
    def twice(x: Any, y: Any) -> None:
        y[:] = 2 * x

    Y = te.extern(
        (4,), [X], lambda i, o: te.call_packed("tests.profile.twice", i[0], o[0]), dtype="float32", name="Y"
    )
    Z = te.compute((4,), lambda i: Y[i] + 1.0, name="Z")
    f = tl.build(te.create_schedule(Z.op), [X, Z], name="packed")
    z = np.zeros(4, "float32")
    p = f.profile(np.ones(4, "float32"), z, seconds=0.01)
    assert (z == 3).all() and [r.writes for r in p.rows] == [("Z",), ()]
    I = te.placeholder((3,), "int32", name="I")
    P = te.compute((3,), lambda i: X[I[i]], name="P")
    g = tl.build(te.create_schedule(P.op), [X, I, P], name="pick", bounds_check=True)
    with pytest.raises(tl.CallError, match="index 0 is 9"):
        g.profile(np.ones(4, "float32"), np.array([0, 9, 1], "int32"), seconds=0.01)
    with pytest.raises(tl.CallError):
        g.profile(np.ones(5, "float32"), np.array([0, 1, 1], "int32"))
    g.save(tmp_path / "pick.tl")
    with pytest.raises(tl.TensorLangError, match="profile: pick was loaded, not built here"):
        tl.load(tmp_path / "pick.tl").profile(np.ones(4, "float32"), np.zeros(3, "int32"))
    with pytest.raises(tl.TargetError, match="cannot run here"):
        tl.build(te.create_schedule(P.op), [X, I, P], "llvm -mtriple=riscv64-linux-gnu").profile(
            np.ones(4, "float32"), np.zeros(3, "int32")
        )


SCRIPT = """
import ctypes, os, sys
import numpy as np
import tensorlang as tl
from tensorlang import te
X = te.placeholder((40000,), name="X")
Y = te.compute((40000,), lambda i: te.exp(X[i]), name="Y")
s = te.create_schedule(Y.op)
s[Y].parallel(s[Y].op.axis[0])
f = tl.build(s, [X, Y], name="exponential")
print(os.getpid(), hex(f.address), flush=True)
if sys.argv[1:] == ["fork"]:
    child = os.fork()
    if not child:
        print(os.getpid(), hex(f.address), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def listed(pid: str) -> dict[str, tuple[int, int]]:
    path = Path(perf_map.FOLDER) / f"perf-{pid}.map"
    rows = [line.split(" ", 2) for line in path.read_text().splitlines()]
    assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    return {name: (int(at, 16), int(size, 16)) for at, size, name in rows}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="perf is a tool of Linux")
def test_perf_finds_the_names_of_kernels_also_in_a_forked_child() -> None:
    env = dict(os.environ, TENSORLANG_PERF_MAP="1")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "fork"],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
        env=env,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 2 and done.stderr == ""
    for pid, address in lines:
        rows = listed(pid)
        assert rows["tensorlang:exponential"][0] == int(address, 16)
        assert {
            "tensorlang:exponential.body",
            "tensorlang:exponential.parallel",
            "tensorlang:exponential.parallel.body",
            "tensorlang:tensorlang_parallel",
        } <= set(rows)
        spans = sorted(rows.values())
        assert all(size > 0 for _, size in spans) and all(
            a + size <= b for (a, size), (b, _) in itertools.pairwise(spans)
        )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="perf is a tool of Linux")
def test_the_list_for_perf_is_not_written_through_a_link(tmp_path: Path) -> None:
    """Whoever knows the number of the process could have put a link there."""
    target = tmp_path / "precious"
    target.write_text("precious")
    script = (
        f"import os\nfrom tensorlang.runtime import perf_map\nos.symlink({str(target)!r}, perf_map.path())\n{SCRIPT}\n"
        "os.unlink(perf_map.path())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
        env=dict(os.environ, TENSORLANG_PERF_MAP="1"),
    )
    assert target.read_text() == "precious" and "cannot write" in done.stderr


def test_an_option_that_is_neither_yes_nor_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORLANG_PERF_MAP", "yes")
    with pytest.raises(tl.TensorLangError, match="TENSORLANG_PERF_MAP=yes"):
        two_nests()
