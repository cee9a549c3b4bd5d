"""The work of the benchmarks: its references against plain definitions, and that nothing is left out or
counted twice."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks import peers
from benchmarks.harness.case import Argument, Case, aligned, problem
from benchmarks.peers import PEERS
from benchmarks.peers.numpy import OPERATORS as NUMPY
from benchmarks.peers.numpy import conv2d
from benchmarks.peers.scipy import OPERATORS as SCIPY
from benchmarks.peers.tensorlang import OPERATORS
from benchmarks.suites import DRAWN, SUITES, conv, floor, memory, of

CASES = [c for cases in SUITES.values() for c in cases()]


def test_a_case_is_there_once():
    keys = [(c.suite, c.name, c.weights, c.note) for c in CASES]
    assert len(set(keys)) == len(keys)


def test_whatever_is_measured_we_compute_ourselves():
    assert {c.op for c in CASES} == set(OPERATORS)


@pytest.mark.parametrize("suite", SUITES)
def test_a_quick_run_has_a_part_of_each_suite(suite):
    quick = [c for c in SUITES[suite]() if c.quick]
    assert 0 < len(quick) < len(SUITES[suite]())


def test_weights_are_constant_or_all_is_given_at_the_call():
    for suite in ("matmul", "conv", "depthwise", "int8"):
        names = {
            weights: {c.name for c in SUITES[suite]() if c.weights == weights}
            for weights in ("call", "packed")
        }
        assert names["call"] == names["packed"], suite


def test_resnet_is_whole():
    """4.09 billion multiply-adds, layers that occur several times counted so: the blocks of the four stages
    are 3, 4, 6 and 3."""
    again = {
        (256, 56, 64, 1): 2,
        (64, 56, 64, 3): 3,
        (64, 56, 256, 1): 4,
        (512, 28, 128, 1): 3,
        (128, 28, 128, 3): 3,
        (128, 28, 512, 1): 4,
        (1024, 14, 256, 1): 5,
        (256, 14, 256, 3): 5,
        (256, 14, 1024, 1): 6,
        (2048, 7, 512, 1): 2,
        (512, 7, 512, 3): 2,
        (512, 7, 2048, 1): 3,
    }
    total = sum(c.flops / 2 * again.get(s[:4], 1) for c, s in zip(conv.cases(), conv.RESNET50))
    assert total == pytest.approx(4.09e9, rel=0.005)


def test_the_convolution_is_that_of_its_definition():
    rng = np.random.default_rng(0)
    data, bias = rng.integers(-3, 4, (1, 4, 7, 7)).astype("float32"), rng.integers(-3, 4, 6).astype("float32")
    for groups, stride, padding in ((1, 1, 1), (2, 2, 1), (1, 2, 0)):
        weight = rng.integers(-3, 4, (6, 4 // groups, 3, 3)).astype("float32")
        padded = np.pad(data, ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2))
        n = (7 + 2 * padding - 3) // stride + 1
        plain = np.zeros((1, 6, n, n))
        for o, i, j in np.ndindex(6, n, n):
            first = o // (6 // groups) * (4 // groups)
            window = padded[
                0, first : first + 4 // groups, i * stride : i * stride + 3, j * stride : j * stride + 3
            ]
            plain[0, o, i, j] = max((window * weight[o]).sum() + bias[o], 0)
        np.testing.assert_array_equal(
            conv.convolve(data, weight, bias, stride=stride, padding=padding, groups=groups), plain
        )
        if groups == 1:
            out = np.empty(plain.shape, "float32")
            conv2d(data, weight, bias, out=out, stride=stride, padding=padding, groups=groups)
            np.testing.assert_array_equal(out, plain)


def test_another_seed_draws_other_shapes():
    first, again, other = ([(c.name, c.weights) for c in of(DRAWN, seed)] for seed in (1, 1, 2))
    assert first == again and len(set(first) & set(other)) < 5
    assert {c.op for c in of(DRAWN, 1)} == {c.op for c in of(DRAWN, 2)}


def test_transposed_convolution_is_that_of_its_definition():
    rng = np.random.default_rng(0)
    data = rng.integers(-3, 4, (1, 4, 3, 5)).astype("float32")
    for groups, stride, padding in ((1, 2, 1), (2, 3, 0)):
        weight = rng.integers(-3, 4, (4, 6 // groups, 4, 4)).astype("float32")
        plain = np.zeros((1, 6, 2 * stride + 4, 4 * stride + 4))
        for i, o, y, x in np.ndindex(4, 6 // groups, 3, 5):
            to = i // (4 // groups) * (6 // groups) + o
            window = plain[0, to, y * stride : y * stride + 4, x * stride : x * stride + 4]
            window += data[0, i, y, x] * weight[i, o]
        inside = plain[:, :, padding : plain.shape[2] - padding, padding : plain.shape[3] - padding]
        got = floor.spread(data, weight, stride=stride, padding=padding, groups=groups)
        np.testing.assert_array_equal(got, inside)


def test_the_series_of_erf_reaches_its_error():
    x = np.linspace(-1, 1, 1001).astype("float32")
    exact = [0.5 * float(v) * (1 + math.erf(float(v) / math.sqrt(2))) for v in x]
    np.testing.assert_allclose(memory.gelu(x[None])[0], exact, atol=1e-12)


NEAR = [
    c
    for c in CASES
    if c.op in NUMPY
    and ((c.suite == "memory" and c.note == "L2") or (c.suite == "floor" and c.flops < 2e7 and not c.packed))
    and PEERS["numpy"]().unsupported(c) is None
]


@pytest.mark.parametrize("case", NEAR, ids=lambda c: c.name)
def test_two_definitions_in_numpy_agree(case):
    """The reference of a suite, and what the peer numpy computes."""
    arrays, out = case.inputs(), case.empty()
    NUMPY[case.op](*arrays.values(), out=out, **case.params)
    assert problem(case, out, case.reference(*arrays.values())) is None


PLAIN = [
    c for c in CASES if not c.packed and c.note != "memory" and c.flops < 1e8
]  # small ones, for the BLAS of scipy too


@pytest.mark.parametrize("op", sorted(SCIPY))
def test_what_the_peer_scipy_computes(op):
    case = next(c for c in PLAIN if c.op == op)
    arrays, peer = case.inputs(), PEERS["scipy"]()
    assert peer.unsupported(case) is None
    assert problem(case, peer.prepare(case, arrays).result(), case.reference(*arrays.values())) is None


def test_every_peer_is_a_file_with_a_line():
    files = {p.stem for p in Path(peers.__file__).parent.glob("*.py")} - {"__init__"}
    listed = {factory.args[0] for factory in PEERS.values()}
    assert files == listed, (
        f"{files ^ listed}: a peer is a file in benchmarks/peers/ and a line in its __init__.py"
    )


def case(dtype="float32"):
    return Case(
        "suite",
        "name",
        "copy",
        (Argument("x", (2, 3), dtype),),
        Argument("y", (2, 3), dtype),
        lambda x: x,
        flops=6.0,
    )


def test_wrong_results_are_found():
    right = np.arange(6.0).reshape(2, 3)
    assert problem(case(), right.astype("float32"), right) is None
    assert problem(case(), right + 4e-4, right) is None, "1e-4 of the largest"
    assert "wrong at 6 of 6 places, first (0, 0)" in problem(case(), right + 6e-4, right)
    nan = right.copy()
    nan[1, 2] = np.nan
    assert "wrong at 1 of 6 places, first (1, 2): nan" in problem(case(), nan, right)
    assert "shape (3, 2)" in problem(case(), right.T, right)
    whole = right.astype("int32")
    assert problem(case("int32"), whole, whole) is None
    assert "wrong at 6 of 6" in problem(case("int32"), whole + 1, whole), "integers are exact"


def test_what_is_not_written_is_seen():
    assert np.isnan(case().empty()).all()
    assert (case("int32").empty() == -1).all()


def test_arrays_begin_a_cache_line_and_cover_their_range():
    assert all(aligned((n,), "float32").ctypes.data % 64 == 0 for n in range(1, 40))
    arrays = Case(
        "s",
        "n",
        "o",
        (Argument("v", (1000,), low=0.5), Argument("i", (100_000,), "int8")),
        Argument("y", (1,)),
        abs,
        flops=0,
    ).inputs()
    assert arrays["v"].min() >= 0.5 and arrays["v"].max() <= 1
    assert (arrays["i"].min(), arrays["i"].max()) == (-128, 127)
