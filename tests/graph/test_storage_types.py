"""Constants that a narrower type holds take its memory, and answers stay."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops
from tensorlang.graph import storage_types
from tensorlang.graph.passes import simplified
from tensorlang.graph.passes.scales import scale_weights
from tensorlang.graph.storage_types import narrowest

RNG = np.random.default_rng(3)
HALF, BRAIN = np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)
INF, NAN = float("inf"), float("nan")


def filled(*odd: float) -> np.ndarray:
    """Small whole numbers, and among them some others where no sample looks."""
    a = np.resize(np.arange(1, 100, dtype="float32"), storage_types.FEW)
    a[1 : 1 + len(odd)] = odd
    return a.reshape(2, -1)


@pytest.mark.parametrize(
    ("odd", "kind"),
    [
        ((), "int8"),
        ((-128, 127, 0), "int8"),
        ((-0.0,), "float16"),
        ((128,), "float16"),
        ((INF, -INF, 2**-24, 65504), "float16"),
        ((65536,), "bfloat16"),
        ((1e-39, 2**-24), "float32"),
        ((1.0078125, 2.0**100), "bfloat16"),
        ((2**-25,), "bfloat16"),
        ((np.float32(np.pi),), "float32"),
        ((2049,), "float32"),
        ((NAN, 1 / 3), "float32"),
    ],
)
def test_the_narrowest_type_that_has_every_element_is_found(odd, kind):
    a = filled(*odd)
    made = narrowest(a)
    assert made.dtype.name == kind
    assert np.array_equal(made.astype("float32").view("uint32"), a.view("uint32"))


def test_what_saves_nothing_stays_as_it_is(monkeypatch):
    few, wide = np.ones(storage_types.FEW - 1, "float32"), np.ones(storage_types.FEW, "float64")
    assert narrowest(few) is few and narrowest(wide) is wide
    a = filled(65536)
    monkeypatch.setattr(storage_types, "find_spec", lambda name: None)  # numpy alone has no bfloat16
    assert narrowest(a) is a


def weight(*shape: int) -> np.ndarray:
    """Whole numbers that int8 does not hold, and float16 and bfloat16 do."""
    return (RNG.integers(-4, 5, shape) * 64).astype("float32")


def product(right, x):
    return ops.matmul(x, right)


def left(weight, x):
    return ops.matmul(weight, x)


CASES = {
    "product of open rows": (product, (96, 128), ("n", 96), [1, 2, 5, 33]),
    "product of few rows": (product, (96, 128), (3, 96), [0]),
    "constant on the left": (left, (96, 128), (128, "n"), [1, 40, 130]),
    "constant on the left of many": (left, (96, 128), (128, 450), [0]),
    "constant on the left of few": (left, (96, 128), (128, 20), [0]),
    "single pixels": (lambda w, x: ops.conv2d(x, w), (128, 96, 1, 1), (1, 96, 17, 18), [0]),
    "few pixels": (lambda w, x: ops.conv2d(x, w), (128, 96, 1, 1), (1, 96, 1, 2), [0]),
    "single pixels of a stride": (
        lambda w, x: ops.conv2d(x, w, stride=2),
        (128, 96, 1, 1),
        ("n", 96, 9, 9),
        [1, 2],
    ),
    "windows": (lambda w, x: ops.conv2d(x, w, padding=1), (33, 32, 3, 3), (1, 32, 14, 13), [0]),
    "windows in groups": (
        lambda w, x: ops.conv2d(x, w, padding=1, groups=2),
        (40, 32, 3, 3),
        (1, 64, 9, 9),
        [0],
    ),
    "windows of open width": (
        lambda w, x: ops.conv2d(x, w, padding=1),
        (33, 32, 3, 3),
        (1, 32, 6, "n"),
        [1, 9, 40],
    ),
    "rows of open length": (lambda w, x: ops.conv1d(x, w, padding=1), (48, 64, 3), (1, 64, "n"), [1, 50]),
    "transposed windows": (
        lambda w, x: ops.conv_transpose2d(x, w, stride=2),
        (32, 32, 4, 4),
        (1, 32, 5, "n"),
        [7],
    ),
    "depthwise": (
        lambda w, x: ops.conv2d(x, w, padding=1, groups=1024),
        (1024, 1, 3, 3),
        (1, 1024, 6, 6),
        [0],
    ),
    "maps": (lambda w, x: ops.add(ops.sum(x, axis=0, keepdims=True), w), (96, 128), ("n", 128), [3]),
}
WIDE = ("transposed windows", "constant on the left of few", "depthwise")  # the recipes say why


@pytest.mark.each_value
@pytest.mark.parametrize("kind", [np.dtype("int8"), HALF, BRAIN], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_weights_are_packed_at_their_width(case, kind):
    call, of_weight, shape, sizes = CASES[case]
    w = weight(*of_weight) / (64 if kind == np.int8 else 1)
    w.flat[0] = 65536 if kind == BRAIN else -3
    g = tl.Graph()
    x = g.input(shape, "float32", "x")
    g.output(g.call(lambda t, c: call(c, t), x, g.constant(w, "w")), "y")
    engine = g.compile(without=["winograd"])
    held = max(engine.constants, key=lambda a: a.size)
    assert held.dtype == ("float32" if case in WIDE else kind)
    for n in sizes:
        a = RNG.integers(-3, 4, [n if d == "n" else d for d in shape]).astype("float32")
        expected = g.compile(level=0)(a) if n == sizes[-1] else None
        y = engine(a)
        assert expected is None or np.array_equal(y, expected)
        if call is product:
            assert np.array_equal(y, a @ w)


def test_a_kernel_without_instructions_for_half_converts_ahead():
    g = tl.Graph()
    x = g.input(("n", 96), "float32", "x")
    g.output(g.call(ops.matmul, x, g.constant(weight(96, 128), "w")), "y")
    engine = g.compile(target="llvm -mcpu=x86-64")
    assert [a.dtype for a in engine.constants] == [np.float32]


def test_a_saved_engine_has_them_as_narrow(tmp_path):
    w = weight(512, 512)
    g = tl.Graph()
    x = g.input(("n", 512), "float32", "x")
    g.output(g.call(ops.matmul, x, g.constant(w, "w")), "y")
    engine = g.compile()
    engine.save(tmp_path / "half.engine")
    assert (tmp_path / "half.engine").stat().st_size < w.nbytes * 3 // 4
    a = RNG.integers(-3, 4, (5, 512)).astype("float32")
    assert np.array_equal(tl.Engine.load(tmp_path / "half.engine")(a), a @ w)


@pytest.mark.parametrize("bias", [False, True])
def test_a_batch_norm_does_not_make_weights_wide(bias):
    """Its scale follows the convolution, in the same kernel."""
    w = weight(64, 32, 3, 3) / 64 + 0.125
    mean, var, gain, by = (RNG.random(64).astype("float32") + 0.5 for _ in range(4))
    g = tl.Graph()
    x = g.input(("n", 32, 6, 7), "float32", "x")
    inputs = [g.constant(w, "w"), *([g.constant(mean, "b")] if bias else [])]
    y = g.call(lambda t, *c: ops.conv2d(t, *c, padding=1), x, *inputs)
    y = g.call(ops.batch_norm, y, *(g.constant(a) for a in (mean, var, gain, by)))
    g.output(g.call(ops.relu, y), "y")
    after = simplified(g, without=["winograd"])
    assert [n.op for n in after.nodes][-2:] == ["Scale", "relu"] and scale_weights(after) is after
    engine = g.compile(without=["winograd"])
    assert len(engine.codes) == 1
    assert max(engine.constants, key=lambda a: a.size).dtype == HALF
    a = RNG.integers(-3, 4, (2, 32, 6, 7)).astype("float32")
    np.testing.assert_allclose(engine(a), g.compile(level=0)(a), rtol=1e-5, atol=1e-4)
