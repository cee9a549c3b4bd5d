"""Graphs made by hand, compiled and run: answers beside numpy, sizes open, wrong inputs."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te


@pytest.fixture(scope="module")
def mlp():
    """Two layers with weights and an open number of rows, and what it computes."""
    rng = np.random.default_rng(0)
    w1, w2 = (rng.integers(-2, 3, s).astype("float32") for s in ((24, 16), (16, 16)))
    g = tl.Graph("mlp")
    x = g.input(("rows", 24), "float32", "x")
    h = g.call(ops.relu, g.call(ops.matmul, x, g.constant(w1, "w1")))
    g.output(g.call(ops.matmul, h, g.constant(w2, "w2")), "y")
    return g, g.compile(), lambda a: np.maximum(a @ w1, 0) @ w2


@pytest.mark.parametrize("rows", [0, 1, 7, 33])
def test_every_size_is_served(mlp, rows):
    _, engine, reference = mlp
    a = np.random.default_rng(rows).integers(-2, 3, (rows, 24)).astype("float32")
    assert np.array_equal(engine(a), reference(a))
    assert np.array_equal(engine.run({"x": a})["y"], reference(a))


def test_it_prints(mlp):
    text = str(mlp[0])
    assert "input x: float32[rows, 24]" in text and "matmul(x, w1[24, 16])" in text


def test_what_does_not_fit_is_refused(mlp):
    _, engine, _ = mlp
    a = np.zeros((2, 24), "float32")
    for call, says in [
        (lambda: engine(), "0 given"),
        (lambda: engine(a, a, a), "3 given"),
        (lambda: engine(z=a), "no argument z"),
        (lambda: engine(a, x=a), "x is given twice"),
        (lambda: engine(a.astype("float64")), "float64, declared float32"),
        (lambda: engine(a[0]), "1 axis, declared with 2"),
        (lambda: engine(np.zeros((2, 5), "f4")), "axis 1 is 5, not 24"),
        (lambda: engine(a, out=np.zeros((3, 16), "f4")), "shape"),
        (lambda: engine(a, out=(a, a)), "2 of 1 outputs"),
    ]:
        with pytest.raises(tl.CallError, match=says):
            call()


def test_layers_that_differ_in_weights_are_one_kernel():
    g = tl.Graph()
    x = g.input(("n", 16), "float32", "x")
    rng = np.random.default_rng(1)
    weights = [rng.integers(-1, 2, (16, 16)).astype("float32") for _ in range(3)]
    for w in weights:
        x = g.call(ops.matmul, x, g.constant(w))
    g.output(x)
    engine = g.compile(level=0)
    a = rng.integers(-2, 3, (5, 16)).astype("float32")
    assert np.array_equal(engine(a), a @ weights[0] @ weights[1] @ weights[2])
    assert len(engine.program.kernels) == 3 and len(engine.codes) == 1


def quantised(scales, zeros):
    """Bytes multiplied by one weight in layers of these scales and zero points."""
    g = tl.Graph()
    x = g.input(("n", 16), "uint8", "x")
    w = g.constant(np.random.default_rng(1).integers(-99, 99, (16, 16)).astype("int8"))
    for scale, zero in zip(scales, zeros, strict=True):
        s, z = g.constant(np.float32(scale)), g.constant(np.uint8(zero))
        one = g.constant(np.float32(0.01)), g.constant(np.int8(0))
        x = g.call(ops.qlinear_matmul, x, s, z, w, *one, s, z)
    g.output(x)
    return g


def test_layers_that_differ_in_scales_and_zero_points_are_one_kernel():
    engine = quantised((0.0123, 0.0371, 0.0217), (113, 141, 97)).compile(level=0)
    assert len(engine.program.kernels) == 3 and len(engine.codes) == 1
    a = np.random.default_rng(2).integers(0, 256, (5, 16)).astype("uint8")
    alone = a
    for s, z in ((0.0123, 113), (0.0371, 141), (0.0217, 97)):
        alone = quantised((s,), (z,)).compile()(alone)
    assert np.array_equal(engine(a), alone)


def test_numbers_that_rules_fold_are_written_into_the_code():
    """A zero point of 0 costs nothing, and one of 128 is a change of sign."""
    engine = quantised((0.0123, 0.0371, 0.0217), (0, 128, 97)).compile(level=0)
    assert len(engine.codes) == 3


def test_engines_of_equal_weights_share_what_is_packed():
    w = np.random.default_rng(3).standard_normal((96, 64)).astype("float32")
    engines = []
    for _ in range(2):
        g = tl.Graph()
        g.output(g.call(ops.matmul, g.input((40, 96), "float32", "x"), g.constant(w)))
        engines.append(g.compile())
    (first,), (second,) = (e.constants for e in engines)
    assert first is second and first.ctypes.data % 64 == 0


def test_what_constants_make_for_each_of_a_batch_is_made_in_the_call():
    """It was packed ahead, for a batch of no elements: tables of rotary embeddings for an open batch."""
    table = np.arange(12, dtype="float32").reshape(1, 3, 4)
    g = tl.Graph()
    x = g.input(("n", 3, 8), "float32", "x")

    def both(x, t):
        wide = ops.broadcast_to(t, (x.shape[0], 3, 4))
        return ops.matmul(ops.concatenate([wide, wide], 2), ops.transpose(x, (0, 2, 1)))

    g.output(g.call(both, x, g.constant(table)))
    engine = g.compile()
    for n in (2, 5):
        a = np.random.default_rng(n).integers(-2, 3, (n, 3, 8)).astype("float32")
        assert np.array_equal(engine(a), np.concatenate([table, table], 2) @ a.transpose(0, 2, 1))


def test_a_constant_over_a_file_is_copied(tmp_path):
    path = tmp_path / "weights"
    np.arange(64, dtype="float32").tofile(path)
    g = tl.Graph()
    g.output(g.call(ops.add, g.input((64,), "float32", "x"), g.constant(np.memmap(path, "float32", "r+"))))
    engine = g.compile(level=0)
    np.zeros(64, "float32").tofile(path)
    assert np.array_equal(engine(np.zeros(64, "float32")), np.arange(64))


def test_weights_of_two_types_may_be_packed_by_the_same_code():
    """A copy of four bytes is the same machine code for both; what it may be called with is not."""
    for kind in ("int32", "float32"):
        g = tl.Graph()
        w = np.arange(3 * 16).reshape(3, 16).astype(kind)
        g.output(g.call(ops.matmul, g.input(("n", 3), kind, "x"), g.constant(w)))
        a = np.arange(15).reshape(5, 3).astype(kind)
        assert np.array_equal(g.compile(cache=False, workers=1)(a), a @ w)


def test_a_computed_size_is_shown_as_a_formula():
    g = tl.Graph()
    g.output(g.call(ops.relu, g.input((te.dim("n") * 2, 4), "float32", "x")))
    assert "(x: float32[(n * 2), 4])" in repr(g.compile(cache=False, workers=1))


def test_inputs_that_are_parts_or_turned_are_copied(mlp):
    _, engine, reference = mlp
    a = np.random.default_rng(5).integers(-2, 3, (24, 12)).astype("float32")
    out = np.zeros((12, 16), "float32")
    assert np.array_equal(engine(a.T), reference(a.T))
    engine(a.T[::2], out=out[:6])
    assert np.array_equal(out[:6], reference(a.T[::2]))
    with pytest.raises(tl.CallError):
        engine(a.T[::2], out=out[::2])


def test_a_profile_has_a_row_for_each_kernel(mlp):
    _, engine, _ = mlp
    profile = engine.profile(np.ones((5, 24), "float32"), seconds=0)
    assert len(profile.rows) == len(engine.kernels) and all(r.seconds > 0 for r in profile.rows)
    assert profile.rows[-1].bytes == (5 * 16 + 5 * 16 + 16 * 16) * 4
    assert "share" in str(profile) and "medians of 3 runs" in str(profile)
    assert len(str(engine).splitlines()) == 2 + len(engine.kernels)


def test_an_engine_is_timed_as_kernels_are(mlp):
    _, engine, _ = mlp
    timing = engine.benchmark(np.ones((5, 24), "float32"), seconds=0)
    assert isinstance(timing, tl.Timing) and timing.median > 0
    with pytest.raises(tl.CallError, match="declared"):
        engine.benchmark(np.ones((5, 25), "float32"), seconds=0)


def test_what_a_function_of_arrays_hands_on_is_copied():
    """An output was the memory of an input, or of another output."""
    g = tl.Graph()
    x = g.input((1, "n"), "float32", "x")
    kind = (x.shape, "float32")
    same, part, both = (g.host(f, [x], [kind])[0] for f in (lambda a: a, lambda a: a[:1], lambda a: a[:, :]))
    for v in (same, part, both, g.call(ops.relu, x)):
        g.output(v)
    a = np.ones((1, 5), "float32")
    made = g.compile(cache=False, workers=1)(a)
    for i, b in enumerate(made):
        assert np.array_equal(b, a) and not any(np.shares_memory(b, c) for c in (a, *made[:i]))


@pytest.mark.parametrize("host", [False, True])
def test_a_size_below_nothing_is_refused(host):
    """Step by step it was a ValueError of numpy."""
    g = tl.Graph()
    x = g.input((1, 2, "n"), "float32", "x")
    y = g.call(ops.conv1d, x, g.constant(np.ones((2, 2, 4), "float32")))
    g.output(g.host(lambda a: a + 0, [y], [(y.shape, "float32")])[0] if host else y)
    engine = g.compile(cache=False, workers=1)
    assert engine(np.ones((1, 2, 4), "float32")).shape == (1, 2, 1)
    with pytest.raises(tl.CallError, match="n"):
        engine(np.ones((1, 2, 1), "float32"))
