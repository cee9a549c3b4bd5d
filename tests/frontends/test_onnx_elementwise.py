"""Corners of ONNX's elementwise operators that its own tests do not have."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl

onnx = pytest.importorskip("onnx")
from onnx import helper  # noqa: E402

from .beside import agree  # noqa: E402
from .test_onnx_models import model  # noqa: E402


def run(op: str, *arrays: np.ndarray, opset: int = 18, **attrs: object) -> np.ndarray:
    """One node on arrays."""
    names = [f"x{i}" for i in range(len(arrays))]
    inputs = [
        (n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in zip(names, arrays, strict=True)
    ]
    m = model([helper.make_node(op, names, ["y"], **attrs)], inputs, [("y", 1, None)], opset=opset)
    return tl.load_onnx(m).compile(level=0)(*arrays)


def test_whole_powers():
    base, exponent = (a.reshape(-1) for a in np.meshgrid(np.arange(-3, 4), [0, 1, 2, 5, 39, 64, 65]))
    wanted = np.array(
        [int(b) ** int(e) if abs(b) < 2 or e < 40 else 0 for b, e in zip(base, exponent, strict=True)]
    )
    fits = (np.abs(base) < 2) | (exponent < 40)
    found = run("Pow", base, exponent)
    assert np.array_equal(found[fits], wanted[fits])


def test_whole_powers_of_negative_exponents():
    found = run("Pow", np.array([1, -1, -1, 2, -3]), np.array([-4, -3, -2, -1, -2]))
    assert found.tolist() == [1, -1, 1, 0, 0]


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_logarithms_of_sums_of_whole_numbers(kind):
    x = np.array([[1, 2, 3], [4, 5, 60]], kind)
    found = run("ReduceLogSum", x, axes=[1], opset=13)
    assert found.dtype == kind and np.array_equal(found, np.log(x.sum(1, keepdims=True)).astype(kind))
    found = run("ReduceLogSumExp", x, axes=[1], opset=13)
    assert found.dtype == kind and np.array_equal(
        found, np.logaddexp.reduce(x, 1, keepdims=True).astype(kind)
    )


def test_infinities_of_neither_sign():
    x = np.array([1, np.inf, -np.inf, np.nan], "float32")
    assert run("IsInf", x, detect_negative=0, detect_positive=0, opset=20).tolist() == [False] * 4
    assert run("IsInf", x, detect_negative=0, opset=20).tolist() == [False, True, False, False]


@pytest.mark.parametrize("op", ["ScatterND", "ScatterElements"])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("kind", ["bool", "int8", "uint16"])
def test_what_is_scattered_is_reduced(op: str, reduction: str, kind: str) -> None:
    """Of bools a sum is whether any is true and a product whether all are, as onnx's reference has it."""
    rng = np.random.default_rng(0)
    x, updates = (rng.integers(0, 2 if kind == "bool" else 60, n).astype(kind) for n in (5, 6))
    # of one place more than once the last may stand where nothing is reduced, or any other
    places = np.array([0, 1, 1, 3, 0, -3] if reduction != "none" else [0, 1, 3, -3])
    updates = updates[: places.size]
    at = places[:, None] if op == "ScatterND" else places
    agree(op, [x, at, updates], closed=(0, 1, 2), reduction=reduction)
