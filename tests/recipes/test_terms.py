"""Terms that every row would compute again: held where that pays, and the same to the last bits."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX2, AVX512

RNG = np.random.default_rng(32)
FLOAT = lambda i: te.cast("float32", i)


def normalized(as_stage):
    x, v = te.placeholder((61, 67), name="x"), te.placeholder((67,), name="v")
    root = lambda j: te.rsqrt(v[j] + 1e-5)
    if as_stage:
        held = te.compute((67,), root, name="root")
        return [x, v, te.compute((61, 67), lambda i, j: x[i, j] * held[j], name="o")]
    return [x, v, te.compute((61, 67), lambda i, j: x[i, j] * root(j), name="o")]


def rotated(as_stage):
    x = te.placeholder((24, 30, 38), name="x")
    angle = lambda t, d: FLOAT(t) * te.exp(FLOAT(d) * -0.2)
    if as_stage:
        held = te.compute((30, 38), lambda t, d: te.cos(angle(t, d)), name="cosines")
        return [x, te.compute((24, 30, 38), lambda h, t, d: x[h, t, d] * held[t, d], name="o")]
    return [x, te.compute((24, 30, 38), lambda h, t, d: x[h, t, d] * te.cos(angle(t, d)), name="o")]


def windowed(as_stage):
    x = te.placeholder((3, 901), name="x")
    window = lambda t: 0.5 - 0.5 * te.cos(FLOAT(t) * 0.1)
    if as_stage:
        held = te.compute((61,), window, name="window")
        return [x, te.compute((3, 29, 61), lambda n, f, t: x[n, 30 * f + t] * held[t], name="o")]
    return [x, te.compute((3, 29, 61), lambda n, f, t: x[n, 30 * f + t] * window(t), name="o")]


def scaled_product(as_stage):
    x, g, w = (te.placeholder(n, name=a) for n, a in (((40, 30), "x"), ((30,), "g"), ((30, 50), "w")))
    k = te.reduce_axis((0, 30), "k")
    scale = lambda k: te.exp(g[k])
    if as_stage:
        held = te.compute((30,), scale, name="scale")
        return [
            x,
            g,
            w,
            te.compute((40, 50), lambda i, j: te.sum(x[i, k] * held[k] * w[k, j], axis=k), name="o"),
        ]
    return [
        x,
        g,
        w,
        te.compute((40, 50), lambda i, j: te.sum(x[i, k] * scale(k) * w[k, j], axis=k), name="o"),
    ]


PROGRAMS = (normalized, rotated, windowed, scaled_product)


def arrays(tensors):
    return [
        RNG.uniform(0.1, 1.0, [int(str(n)) for n in t.shape]).astype("float32")
        for t in tensors
        if isinstance(t.op, te.PlaceholderOp)
    ]


def stages(outputs, target=AVX512):
    s = default_schedule(outputs, target)
    return {st.name: st.state.attach for st in s.stages}


@pytest.mark.each_value
@pytest.mark.parametrize("target", [AVX2, AVX512])
@pytest.mark.parametrize("as_stage", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_what_is_dear_is_held(program, as_stage, target):
    tensors = program(as_stage)
    found = stages(tensors[-1], target)
    held = [n for n, attach in found.items() if attach is None]
    assert any(".term" in n or n in ("root", "cosines", "window", "scale") for n in held)
    given = arrays(tensors)
    inputs = [t for t in tensors if isinstance(t.op, te.PlaceholderOp)]
    (right,) = te.reference.evaluate([tensors[-1]], dict(zip(inputs, given, strict=True)))
    func = tl.lower(default_schedule(tensors[-1], target), tensors)
    if not func.constants:  # a table that a kernel brings along is none of its arguments
        out = np.empty(right.shape, "float32")
        interpret(func, *given, out)
        np.testing.assert_allclose(out, right, rtol=2e-5, atol=1e-6)
    if not tl.Target(target).why_not_here():
        np.testing.assert_allclose(tl.compile(tensors, target=target)(*given), right, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("cores", [1, 2])
def test_terms_of_terms(cores):
    """A normalised adjacency: a product of a matrix that is made of roots of its sums."""
    a, x = te.placeholder((70, 70), name="a"), te.placeholder((70, 33), name="x")
    k, m = te.reduce_axis((0, 70), "k"), te.reduce_axis((0, 70), "m")
    d = te.compute((70,), lambda i: te.sum(a[i, m], axis=m), name="d")
    root = lambda i: te.rsqrt(d[i])
    o = te.compute((70, 33), lambda i, j: te.sum(a[i, k] * root(i) * root(k) * x[k, j], axis=k), name="o")
    target = f"llvm -mcpu=znver4 -num-cores={cores}"
    found = stages(o, target)
    assert found["o.term"] is None and found["o.term.term"] is None
    given = arrays([a, x])
    (right,) = te.reference.evaluate([o], dict(zip([a, x], given, strict=True)))
    f = tl.compile([a, x, o], target=f"llvm -num-cores={cores}")
    np.testing.assert_allclose(f(*given), right, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 5, 70])
def test_open_rows(rows):
    n = te.var("n")
    x, v = te.placeholder((n, 67), name="x"), te.placeholder((67,), name="v")
    o = te.compute((n, 67), lambda i, j: x[i, j] * te.rsqrt(v[j] + 1e-5), name="o")
    assert stages(o)["o.term"] is None
    a, b = (RNG.uniform(0.1, 1.0, shape).astype("float32") for shape in ((rows, 67), (67,)))
    np.testing.assert_allclose(tl.compile([x, v, o])(a, b), a / np.sqrt(b + 1e-5), rtol=1e-5)


def kept_in_the_formula():
    x, v = te.placeholder((64, 300), name="x"), te.placeholder((64,), name="v")
    yield "of outer axes", te.compute((64, 300), lambda i, j: x[i, j] * te.rsqrt(v[i]), name="o")
    w = te.placeholder((300,), name="w")
    yield "one operation", te.compute((64, 300), lambda i, j: x[i, j] * (w[j] + 1.0), name="o")
    yield "few rows", te.compute((1, 300), lambda i, j: x[i, j] * te.exp(w[j]), name="o")
    yield "few elements", te.compute((3, 4), lambda i, j: x[i, j] * te.exp(w[j]), name="o")


@pytest.mark.parametrize(
    ("name", "o"), list(kept_in_the_formula()), ids=lambda x: x if isinstance(x, str) else ""
)
def test_what_is_cheap_or_computed_once_stays(name, o):
    assert "o.term" not in stages(o)


def test_norms_of_images_with_channels_last():
    x = te.placeholder((2, 9, 10, 40), name="x")
    m, v, g, b = (te.placeholder((40,), name=n) for n in "mvgb")
    o = ops.batch_norm(x, m, v, g, b, axis=3)
    given = arrays([x, m, v, g, b])
    (right,) = te.reference.evaluate([o], dict(zip([x, m, v, g, b], given, strict=True)))
    np.testing.assert_allclose(tl.compile([x, m, v, g, b, o])(*given), right, rtol=2e-5, atol=2e-5)
    assert any(name.startswith("batch_norm.term") for name in stages(o)) or len(stages(o)) > 6
