"""Reductions and operators of rows of a few elements: several rows in the lanes of a vector."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512
from tests.recipes.long import LONG

RNG = np.random.default_rng(8)
TARGETS = pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])


def known(out: te.Tensor, target: str) -> bool:
    """Whether the recipe was chosen."""
    return "short rows" in str(tl.compile([*inputs(out), out], target=target).explain())


def inputs(out: te.Tensor) -> list[te.Tensor]:
    found: list[te.Tensor] = []
    for t in out.op.input_tensors:
        found += [t] if isinstance(t.op, te.PlaceholderOp) else inputs(t)
    return list(dict.fromkeys(found))


def results(out: te.Tensor, target: str, *arrays: np.ndarray) -> list[np.ndarray]:
    """Of the interpreter, for ``target``, and of compiled code."""
    tensors = [*inputs(out), out]
    compiled = tl.compile(tensors)(*arrays)
    got = np.zeros(compiled.shape, compiled.dtype)
    interpret(tl.lower(default_schedule(out, target), tensors), *arrays, got)
    return [got, compiled]


@pytest.mark.each_value
@TARGETS
@pytest.mark.parametrize(
    "dtype", ["float32", "uint8", pytest.param("float64", marks=LONG), pytest.param("int32", marks=LONG)]
)
@pytest.mark.parametrize("shape", [(100, 3), (3, 37, 2), (2, 2, 40, 5), (33, 7), (1, 64, 4)], ids=str)
def test_reductions(shape, dtype, target):
    x = te.placeholder(shape, dtype, "x")
    a = RNG.integers(0, 5, shape).astype(dtype)
    for op, want in ((ops.sum, np.sum), (ops.max, np.max), (ops.min, np.min), (ops.prod, np.prod)):
        out = op(x, axis=-1)
        for got in results(out, target, a):
            assert np.array_equal(got, want(a, axis=-1).astype(got.dtype))


@pytest.mark.each_value
@TARGETS
@pytest.mark.parametrize("n", [3, 7, pytest.param(2, marks=LONG), pytest.param(5, marks=LONG)])
@pytest.mark.parametrize("rows", [(37,), (3, 21), pytest.param((16,), marks=LONG)], ids=str)
def test_operators_of_rows(rows, n, target):
    x = te.placeholder((*rows, n), name="x")
    a = RNG.standard_normal((*rows, n)).astype("float32")
    e = np.exp(a - a.max(-1, keepdims=True))
    centred = a - a.mean(-1, keepdims=True)
    wants = {
        ops.softmax(x): e / e.sum(-1, keepdims=True),
        ops.log_softmax(x): np.log(e / e.sum(-1, keepdims=True)),
        ops.layer_norm(x, n): centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5),
        ops.logsumexp(x, axis=-1): np.log(np.exp(a).sum(-1)),
        ops.var(x, axis=-1, ddof=0): a.var(-1),
        ops.argmax(x, axis=-1): a.argmax(-1),
        ops.divide(x, ops.sqrt(ops.sum(ops.multiply(x, x), axis=-1, keepdims=True))): a
        / np.sqrt((a * a).sum(-1, keepdims=True)),
    }
    for out, want in wants.items():
        assert known(out, target)
        for got in results(out, target, a):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


@TARGETS
@pytest.mark.parametrize("n", [3, pytest.param(7, marks=LONG)])
def test_losses_of_rows_read_the_place_that_data_tell(n, target):
    x, t = te.placeholder((67, n), name="x"), te.placeholder((67,), "int64", name="t")
    a, c = RNG.standard_normal((67, n)).astype("float32"), RNG.integers(0, n, 67)
    each = np.log(np.exp(a).sum(1)) - a[np.arange(67), c]
    for reduction, want in (("none", each), ("mean", each.mean())):
        out = ops.cross_entropy(x, t, reduction=reduction)
        assert known(out, target)
        for got in results(out, target, a, c):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


def test_what_reads_several_results_of_a_row_ends_its_loop():
    x, t = te.placeholder((40, 200), name="x"), te.placeholder((40,), "int64", name="t")
    out = ops.cross_entropy(x, t, reduction="sum")
    assert "cross_entropy.each: an operator of rows" in str(tl.compile([x, t, out]).explain())
    a, c = RNG.standard_normal((40, 200)).astype("float32"), RNG.integers(0, 200, 40)
    for got in results(out, AVX512, a, c):
        want = (np.log(np.exp(a).sum(1)) - a[np.arange(40), c]).sum()
        np.testing.assert_allclose(got, want, rtol=2e-5)


def test_ties_and_nan_as_in_longer_rows():
    x = te.placeholder((64, 4), name="x")
    a = RNG.integers(0, 2, (64, 4)).astype("float32")
    a[5, 2] = a[9, 0] = np.nan
    assert np.array_equal(tl.compile([x, ops.argmax(x, axis=1)])(a), a.argmax(1))
    assert np.array_equal(tl.compile([x, ops.max(x, axis=1)])(a), a.max(1), equal_nan=True)


def test_open_numbers_of_rows():
    n = te.dim("n", 0, 100_000)
    x = te.placeholder((n, 3), name="x")
    soft, total = tl.compile([x, ops.softmax(x)]), tl.compile([x, ops.sum(x, axis=1)])
    for rows in (0, 1, 2, 15, 16, 17, 100, 4097):
        a = RNG.integers(0, 5, (rows, 3)).astype("float32")
        e = np.exp(a)
        np.testing.assert_allclose(soft(a), e / e.sum(1, keepdims=True), rtol=1e-5)
        assert np.array_equal(total(a), a.sum(1))


@pytest.mark.parametrize("shape", [(100_003, 3), (2, 50_001, 3), (7, 16_000, 2)], ids=str)
def test_threads_share_rows(shape):
    x = te.placeholder(shape, name="x")
    out = ops.softmax(x)
    assert "parallel" in str(default_schedule(out, f"{AVX512} -num-cores=2").tree())
    a = RNG.standard_normal(shape).astype("float32")
    e = np.exp(a)
    np.testing.assert_allclose(tl.compile([x, out])(a), e / e.sum(-1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("axis", [1, 2])
def test_rows_that_lie_far_apart_or_are_long_stay_rows(axis):
    x = te.placeholder((40, 6, 64) if axis == 1 else (40, 6, 32), name="x")
    assert not known(ops.softmax(x, axis=axis), AVX512)


def test_sums_of_short_rows_have_no_scalar_additions():
    x, y = te.placeholder((512, 3), name="x"), te.placeholder((512, 3), name="y")
    k = te.reduce_axis((0, 3), name="k")
    dot = te.compute((512,), lambda i: te.sum(x[i, k] * y[i, k], axis=k), name="dot")
    asm = tl.compile([x, y, dot], target=AVX512).get_source("asm")
    assert "zmm" in asm and "vaddss" not in asm and "vfmadd231ss" not in asm and "gather" not in asm
    a, b = (RNG.integers(-4, 5, (512, 3)).astype("float32") for _ in "xy")
    assert np.array_equal(tl.compile([x, y, dot])(a, b), (a * b).sum(1))


@pytest.mark.each_value
@pytest.mark.parametrize("flat", [False, True], ids=["rows", "flat"])
@pytest.mark.parametrize("n", [2, 3, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "float32", "bool"])
def test_as_many_elements_as_are_reduced_one_behind_the_other(dtype, n, flat):
    """A[i * n + k] was summed in scalar code, as rows of 16 to 31 bytes were."""
    rows = 37
    whole = np.random.default_rng(n).integers(0, 2 if dtype == "bool" else 5, (rows, n)).astype(dtype)
    A, k = (
        te.placeholder((rows * n,) if flat else (rows, n), dtype, name="A"),
        te.reduce_axis((0, n), name="k"),
    )
    element = lambda i: A[i * n + k] if flat else A[i, k]
    kinds = ("any",) if dtype == "bool" else ("sum", "max")
    for how in kinds:
        R = te.compute((rows,), lambda i, how=how: getattr(te, how)(element(i), axis=k), name="R")
        want = {"any": whole.any(1), "sum": whole.sum(1, dtype=dtype), "max": whole.max(1)}[how]
        a = whole.reshape(-1) if flat else whole
        assert np.array_equal(tl.compile([A, R])(a), want)
        got = np.zeros(rows, dtype)
        interpret(tl.lower(default_schedule(R), [A, R]), a, got)
        assert np.array_equal(got, want)
    if dtype != "bool":
        return
    bits = te.compute(
        (rows,), lambda i: te.sum(element(i).astype("uint32") << (k % 32).astype("uint32"), axis=k)
    )
    want = (whole.astype("uint32") << (np.arange(n, dtype="uint32") % 32)).sum(1, dtype="uint32")
    assert np.array_equal(tl.compile([A, bits])(whole.reshape(-1) if flat else whole), want)


@pytest.mark.parametrize("target", [AVX512, AVX2])
@pytest.mark.parametrize(
    ("dtype", "n"), [("uint8", 8), ("int8", 16), ("uint8", 24), ("float32", 5), ("int16", 8)]
)
def test_flat_rows_are_in_vectors(dtype, n, target):
    A, k = te.placeholder((64 * n,), dtype, name="A"), te.reduce_axis((0, n), name="k")
    R = te.compute((64,), lambda i: te.max(A[i * n + k], axis=k), name="R")
    assert "vectorize" in [step.name for step in default_schedule(R, target).trace.steps]


def test_open_flat_rows():
    m = te.var("m")
    A, k = te.placeholder((m * 5,), name="A"), te.reduce_axis((0, 5), name="k")
    f = tl.compile([A, te.compute((m,), lambda i: te.sum(A[i * 5 + k], axis=k), name="R")])
    for rows in (0, 1, 3, 16, 50):
        a = np.random.default_rng(rows).integers(0, 5, rows * 5).astype("float32")
        assert np.array_equal(f(a), a.reshape(rows, 5).sum(1))
