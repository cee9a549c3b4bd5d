"""Kernels of a search made of nests that are kept: right, as the same schedule built whole is, and never of
another target."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import tensorlang as tl
from autosched import SearchTask
from autosched.space import variants_of
from tensorlang import ops, piecewise, te
from tensorlang.codegen.llvm.nests import taken_apart
from tensorlang.loopir.stmt import Extern, For, preorder

HERE = str(tl.Target.host().for_threads(1))
BOTH = str(tl.Target.host().for_threads(2))


class Kept:
    """Code by name, and how often it was asked for and there."""

    def __init__(self):
        self.codes, self.found = {}, 0

    def get(self, name):
        self.found += name in self.codes
        return self.codes.get(name)

    def put(self, name, code):
        assert name not in self.codes
        self.codes[name] = code


def conv():
    x, w = te.placeholder((1, 48, 26, 26), name="x"), te.placeholder((48, 48, 3, 3), name="w")
    return [x, w, ops.relu(ops.conv2d(x, w, padding=1))]


def perceptron():
    x, w, v = (te.placeholder(s, name=n) for s, n in (((96, 192), "x"), ((192, 160), "w"), ((160, 80), "v")))
    return [x, w, v, ops.matmul(ops.relu(ops.matmul(x, w)), v)]


def normalised():
    x = te.placeholder((65, 307), name="x")
    return [x, ops.softmax(x)]


def arrays(tensors, rng):
    return [rng.integers(-3, 4, [int(str(n)) for n in t.shape]).astype("float32") for t in tensors]


def run(kernel, inputs, shape, path):
    kernel.save(path)
    out = np.full(shape, np.nan, np.float32)
    tl.load(path, mine=True)(*inputs, out)
    return out


@pytest.mark.each_value
@pytest.mark.parametrize("make", [conv, perceptron, normalised])
@pytest.mark.parametrize("target", [HERE, BOTH])
def test_candidates_of_nests_are_what_they_are_as_a_whole(make, target, tmp_path):
    tensors, rng, kept = make(), np.random.default_rng(3), Kept()
    task = SearchTask.of(tensors, target)
    inputs = arrays(task.tensors[:-1], rng)
    (right,) = te.reference.evaluate([task.tensors[-1]], dict(zip(task.tensors, inputs, strict=False)))
    built = 0
    for v in variants_of(task)[:4]:
        for row in (*v.present()[:1], *v.sample_valid(rng, 1)):
            schedule = v.schedule(row)
            kernel = piecewise.build(schedule, task.tensors, target, "candidate", kept)
            got = run(kernel, inputs, right.shape, tmp_path / "k.tl")
            whole = run(
                tl.build(schedule, task.tensors, target, name="candidate", load=False),
                inputs,
                right.shape,
                tmp_path / "w.tl",
            )
            assert np.array_equal(got, whole)
            assert np.abs(got - right).max() <= 2e-5 * max(1.0, np.abs(right).max())
            built += 1
    assert built >= 4 and (make is not conv or kept.found > built // 2)


def test_the_second_time_only_the_calls_are_compiled(monkeypatch):
    tensors, kept = conv(), Kept()
    task = SearchTask.of(tensors, HERE)
    v = next(v for v in variants_of(task) if any("winograd" in why for why in v.why))
    schedule, seen = v.schedule(v.present()[0]), []
    compiled = piecewise.compile_ll

    def counted(*given, **more):
        seen.append(given)
        return compiled(*given, **more)

    monkeypatch.setattr(piecewise, "compile_ll", counted)
    first = piecewise.build(schedule, task.tensors, HERE, "candidate", kept)
    nests = {name: code for name, code in kept.codes.items() if not name.startswith("whole")}
    assert len(seen) == 1 + len(nests) == len(kept.codes) > 3
    seen.clear()
    same = piecewise.build(v.schedule(v.present()[0]), task.tensors, HERE, "candidate", kept)
    assert not seen and same.object_code == first.object_code
    assert (same.signature, same.features) == (first.signature, list(first.features))
    kept.codes = nests
    times = tl.TimeTable()
    again = piecewise.build(schedule, task.tensors, HERE, "candidate", kept, times)
    assert len(seen) == 1 and again.object_code == first.object_code
    assert times.seconds["LLVM codegen"] > 0 and "emit LLVM text" in times.seconds


def test_whole_kernels_are_kept_by_what_they_take():
    """Alike loops of other arguments are another kernel: their names stand in it."""
    kept = Kept()
    for name in "ab":
        x = te.placeholder((8, 16), name=name)
        y = ops.exp(x)
        kernel = piecewise.build(tl.create_schedule(y), [x, y], HERE, "candidate", kept)
        assert kernel.signature.params[0].name == name
    assert len(kept.codes) == 2 and not kept.found


def test_what_is_kept_serves_one_target():
    """A nest for a wider processor would end the process that runs it."""
    tensors, kept = conv(), Kept()
    names = []
    for target in (HERE, BOTH, "llvm -mcpu=znver3", "llvm -mcpu=skylake-avx512", "llvm -mcpu=haswell"):
        task = SearchTask.of(tensors, HERE)
        before = set(kept.codes)
        piecewise.build(task.default_schedule(), task.tensors, target, "candidate", kept)
        names.append(set(kept.codes) - before)  # none of them is one of another
    assert all(names[2:]) and sum(map(len, names)) == len(kept.codes)


def test_kernels_of_open_sizes_stay_whole_and_errors_are_those_of_build():
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    y = te.compute((n,), lambda i: x[i] + 1.0, name="y")
    z = te.compute((n,), lambda i: y[i] * 2.0, name="z")
    s, kept = te.create_schedule(z.op), Kept()
    assert piecewise.build(s, [x, z], HERE, "open", kept).name == "open" and not kept.codes
    with pytest.raises(tl.LowerError):
        piecewise.build(s, [z], HERE, "open", kept)
    with pytest.raises(tl.TargetError):
        piecewise.build(s, [x, z], "nothing", "open", kept)


def test_a_kernel_with_a_table_of_its_own_is_built_whole(tmp_path):
    """It is not known to nests what a kernel brings along: candidates ended their process."""
    x = te.placeholder((9, 40, 64), name="x")
    at = lambda t, d: te.cast("float32", t) * te.exp(te.cast("float32", d) * -0.1)
    o = te.compute((9, 40, 64), lambda h, t, d: x[h, t, d] * te.cos(at(t, d)), name="o")
    s = te.create_schedule(o.op)
    assert str(s.precompute(o, ["t", "d"])) == "Tensor(o.term: float32[40, 64])"
    kept = Kept()
    kernel = piecewise.build(s, [x, o], HERE, "k", kept)
    a = np.random.default_rng(3).integers(-3, 4, (9, 40, 64)).astype("float32")
    (right,) = te.reference.evaluate([o], {x: a})
    np.testing.assert_allclose(run(kernel, [a], right.shape, tmp_path / "k"), right, rtol=1e-5, atol=1e-5)
    assert not kept.codes


def test_nests_within_one_parallel_loop_are_given_its_variable(tmp_path):
    """Two products, the second of what the first leaves, for threads that share nothing."""
    x, w, v = (
        te.placeholder(shape, name=n) for shape, n in (((2, 64, 96), "x"), ((96, 512), "w"), ((512, 64), "v"))
    )
    k, r = te.reduce_axis((0, 96), "k"), te.reduce_axis((0, 512), "r")
    a = te.compute((2, 64, 512), lambda b, i, j: te.sum(x[b, i, k] * w[k, j], axis=k), name="a")
    y = te.compute((2, 64, 64), lambda b, i, j: te.sum(a[b, i, r] * v[r, j], axis=r), name="y")
    s = te.create_schedule(y.op)
    for t in (y, a):
        b, i, j = t.op.axis
        rows, row = s[t].split(i, 32)
        columns, lanes = s[t].split(j, 16)
        s[t].reorder(b, rows, columns, *t.op.reduce_axis, row, lanes)
        s[t].unroll(row)
        s[t].vectorize(lanes)
    s[y].parallel(y.op.axis[0])
    s[a].compute_at(s[y], y.op.axis[0])
    tensors = [x, w, v, y]
    func = piecewise._FIRST.run(tl.lower(s, tensors, "k", simple=True), ())
    main, nests = taken_apart(func, functools.partial(piecewise._name, BOTH))
    (loop,) = [s for s in preorder(main.body) if isinstance(s, For)]
    calls = [c for c in preorder(loop) if isinstance(c, Extern)]
    assert loop.kind == "parallel" and len(calls) == len(nests) == 2
    assert all(c.args[-1] is loop.var for c in calls)
    assert {(n.params[-1].kind, n.params[-1].lo, n.params[-1].hi) for n in nests} == {("value", 0, 1)}
    inputs = arrays(tensors[:-1], np.random.default_rng(3))
    (right,) = te.reference.evaluate([y], dict(zip(tensors, inputs, strict=False)))
    kernel = piecewise.build(s, tensors, BOTH, "candidate", Kept())
    whole = tl.build(s, tensors, BOTH, name="candidate", load=False)
    for made in (kernel, whole):
        assert np.array_equal(run(made, inputs, right.shape, tmp_path / "k.tl"), right)


def test_of_a_loop_that_is_handed_out_in_pieces_nothing_is_taken():
    """How many iterations a piece has hangs on the work in the loop, which a call hides."""
    x = te.placeholder((64, 40), name="x")
    y = te.compute((64, 40), lambda i, j: x[i, j] + 1.0, name="y")
    s = te.create_schedule(y.op)
    s[y].parallel(y.op.axis[0])
    func = piecewise._FIRST.run(tl.lower(s, [x, y], "k", simple=True), ())
    assert taken_apart(func, functools.partial(piecewise._name, BOTH)) == (func, [])
