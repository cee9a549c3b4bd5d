"""Activations against their formulas in float64, at every scale of argument, and against torch where it is
installed."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import FLOATS, compiled, exact, near, real, sample, stored

ops = tl.ops
erf = np.vectorize(math.erf)


def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


# operator → formula in float64, and an allowance relative to 1 where the formula cancels (as torch's does)
FORMULAS = {
    "relu": (lambda x: np.maximum(x, 0), 0),
    "relu6": (lambda x: np.clip(x, 0, 6), 0),
    "hard_tanh": (lambda x: np.clip(x, -1, 1), 0),
    "leaky_relu": (lambda x: np.where(x > 0, x, 0.01 * x), 0),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), 0),
    "selu": (
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
        0,
    ),
    "celu": (lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), 0),
    "gelu": (lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), 4),
    "sigmoid": (sigmoid, 0),
    "tanh": (np.tanh, 0),
    "silu": (lambda x: x * sigmoid(x), 0),
    "swish": (lambda x: x * sigmoid(x), 0),
    "softplus": (lambda x: np.where(x > 20, x, softplus(x)), 0),
    "softsign": (lambda x: x / (1 + np.abs(x)), 0),
    "hard_sigmoid": (lambda x: np.clip(x + 3, 0, 6) / 6, 1),
    "hard_swish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, 4),
    "mish": (lambda x: x * np.tanh(softplus(x)), 0),
}


def arguments(t):
    rng = np.random.default_rng(2)
    x = np.concatenate(
        [
            rng.uniform(-8, 8, 40),
            rng.uniform(-0.01, 0.01, 10),
            [0.0, 1.0, -1.0, 3.0, -3.0, 30.0, -30.0, 80.0, -80.0, 6.0],
        ]
    )
    return stored(x.reshape(4, 15), t)


@pytest.mark.each_value
@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name, t):
    n = te.var("n")
    x = te.placeholder((n, 15), t, name="x")
    kernel = tl.compile([x, getattr(ops, name)(x)])
    formula, cancels = FORMULAS[name]
    a = arguments(t)
    step = 2.0**-52 if t == "float64" else 2.0**-23
    near(kernel(a), formula(real(a, t)), t, 6 if t in ("float32", "float64") else 1, cancels * step + 1e-34)
    near(
        kernel(a[:1]),
        formula(real(a[:1], t)),
        t,
        6 if t in ("float32", "float64") else 1,
        cancels * step + 1e-34,
    )


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_at_the_ends(approximate):
    """``x * Phi(x)`` grows without end. Torch's vectors give NaN for it in float32, where its scalars and its
    float64 give inf. At -inf it is -inf times 0."""
    a = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38], np.float32)
    x = te.placeholder((5,), name="x")
    found = compiled(ops.gelu(x, approximate), {x: a})
    np.testing.assert_array_equal(found, np.array([np.inf, np.nan, np.nan, 3e38, -0.0], np.float32))


def test_gelu_by_tanh():
    a = arguments("float32")
    x = te.placeholder(a.shape, name="x")
    r = a.astype("float64")
    want = 0.5 * r * (1 + np.tanh(math.sqrt(2 / math.pi) * (r + 0.044715 * r**3)))
    near(compiled(ops.gelu(x, approximate="tanh"), {x: a}), want, "float32", 6, 8 * 2.0**-23)


def test_parameters():
    a = arguments("float32")
    x = te.placeholder(a.shape, name="x")
    r = a.astype("float64")
    got = compiled(
        [
            ops.leaky_relu(x, 0.2),
            ops.elu(x, 0.5),
            ops.softplus(x, beta=2.0, threshold=5.0),
            ops.hard_tanh(x, -2, 0.5),
        ],
        {x: a},
    )
    near(got[0], np.where(r > 0, r, np.float32(0.2) * r), "float32", 1)
    near(got[1], np.where(r > 0, r, 0.5 * np.expm1(np.minimum(r, 0))), "float32", 4)
    near(got[2], np.where(2 * r > 5, r, softplus(2 * r) / 2), "float32", 6, 1e-34)
    near(got[3], np.clip(r, -2, 0.5), "float32", 0)


def test_thresholds():
    a = arguments("float32")
    x, i = te.placeholder(a.shape, name="x"), te.placeholder((21,), "int8", name="i")
    r = a.astype("float64")
    whole = np.arange(-10, 11).astype("int8")
    got = compiled(
        [
            ops.celu(x, 2.0),
            ops.thresholded_relu(x, 0.5),
            ops.shrink(x),
            ops.shrink(x, 1.5, 1.5),
            ops.shrink(i, 1.5, 1.5),
            ops.hard_sigmoid(x, 0.25, 0.5),
        ],
        {x: a, i: whole},
    )
    near(got[0], np.where(r > 0, r, 2 * np.expm1(np.minimum(r, 0) / 2)), "float32", 4)
    exact(got[1], np.where(a > 0.5, a, 0).astype("float32"), "float32")
    exact(got[2], np.where(np.abs(a) > 0.5, a, 0).astype("float32"), "float32")
    exact(got[3], np.where(a > 1.5, a - 1.5, np.where(a < -1.5, a + 1.5, 0)).astype("float32"), "float32")
    soft = np.where(whole > 1.5, whole - 1.5, np.where(whole < -1.5, whole + 1.5, 0))
    exact(got[4], soft.astype("int8"), "int8")
    near(got[5], np.clip(0.25 * r + 0.5, 0, 1), "float32", 1)


def test_prelu_has_one_slope_or_one_for_each_channel():
    a, one, many = sample((3, 5, 17), "float32"), np.array([0.25], "float32"), sample((5,), "float32", 1)
    x, w, v = (
        te.placeholder(a.shape, name="x"),
        te.placeholder((1,), name="w"),
        te.placeholder((5,), name="v"),
    )
    got = compiled([ops.prelu(x, w), ops.prelu(x, v)], {x: a, w: one, v: many})
    exact(got[0], np.where(a > 0, a, a * one), "float32")
    exact(got[1], np.where(a > 0, a, a * many[:, None]), "float32")


@pytest.mark.parametrize("t", ["int8", "int32"])
def test_relu_of_integers(t):
    a = sample((33,), t)
    x = te.placeholder((33,), t, name="x")
    both = compiled([ops.relu(x), ops.relu6(x)], {x: a})
    exact(both[0], np.maximum(a, 0), t)
    exact(both[1], np.clip(a, 0, 6), t)


@pytest.mark.parametrize("name", FORMULAS)
def test_nan_and_infinity(name):
    a = np.array([np.nan, np.inf, -np.inf], "float32")
    x = te.placeholder((3,), name="x")
    got = compiled(getattr(ops, name)(x), {x: a})
    assert np.isnan(got[0])
    if name in ("relu", "leaky_relu", "elu", "selu", "gelu", "silu", "softplus", "mish", "hard_swish"):
        assert got[1] == np.inf


TORCH = {
    "relu": "relu",
    "relu6": "relu6",
    "leaky_relu": "leaky_relu",
    "elu": "elu",
    "celu": "celu",
    "selu": "selu",
    "gelu": "gelu",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "silu": "silu",
    "softplus": "softplus",
    "softsign": "softsign",
    "hard_sigmoid": "hardsigmoid",
    "hard_swish": "hardswish",
    "hard_tanh": "hardtanh",
    "mish": "mish",
}


@pytest.mark.parametrize("name", TORCH)
def test_it_is_torchs(name):
    torch = pytest.importorskip("torch")
    a = arguments("float64")
    x = te.placeholder(a.shape, "float64", name="x")
    want = getattr(torch.nn.functional, TORCH[name])(torch.from_numpy(a)).numpy()
    near(compiled(getattr(ops, name)(x), {x: a}), want, "float64", 8, 2.0**-50)
