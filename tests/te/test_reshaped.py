"""Inputs that are read as a reshape are computed in its shape, short rows of several indices by one, and are
what they are for who calls."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.build import _lowered
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tensorlang.te.reshaped import as_computed


def tensor(*shape, name="x", kind="float32"):
    return te.placeholder(shape, kind, name=name)


def whole(shape, kind="float32"):
    """Small whole numbers, of which every order of summation gives the same."""
    least = 0 if kind.startswith("u") else 5
    return (np.arange(np.prod(shape)) * 7 % 11 - least).reshape(shape).astype(kind)


def agrees(y, *inputs):
    """The kernel gives exactly what numpy and the interpreter do, in the shape that was declared, and is in
    vectors of neighbours."""
    arrays = [whole([int(str(n)) for n in x.shape], str(x.dtype)) for x in inputs]
    f = tl.compile([*inputs, y])
    got, (want,) = f(*arrays), te.reference.evaluate([y], dict(zip(inputs, arrays, strict=True)))
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    here = as_computed([y])
    s = default_schedule(here.of([y]), "llvm -mcpu=znver4 -num-cores=1")
    func, _ = _lowered(s, here.of([*inputs, y]), "main", declared=[*inputs, y])
    out = np.zeros_like(want)
    interpret(func, *arrays, out)
    np.testing.assert_array_equal(out, want)
    assert not f.explain().is_scalar
    assert "gather" not in f.get_source("asm")
    return f


@pytest.mark.parametrize("kind", ["float32", "float64", "uint8"])
@pytest.mark.parametrize("reduce", [ops.sum, ops.max, ops.argmax])
@pytest.mark.parametrize("shape", [(7, 301), (3, 5, 7, 41)], ids=str)
def test_a_flattened_input_is_reduced_as_one_row(shape, reduce, kind):
    x = tensor(*shape, kind=kind)
    y = reduce(ops.reshape(x, (-1,)))
    assert as_computed([y]).tensors[x].ndim == 1
    f = agrees(y, x)
    assert f"x: {kind}[{', '.join(map(str, shape))}]" in f.get_source("ir")


@pytest.mark.parametrize(
    ("shape", "seen"), [((30, 77), (3, -1)), ((77, 30), (-1, 3)), ((4, 9, 35), (20, -1))]
)
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_that_are_no_parts_of_rows(shape, seen, axis):
    x = tensor(*shape)
    y = ops.sum(ops.reshape(x, seen), axis=axis)
    agrees(y, x)


def test_what_is_made_element_by_element_before_it():
    x, y = tensor(30, 77), tensor(30, 77, name="y")
    made = ops.reshape(ops.abs(x - y) + x, (3, -1))
    f = agrees(ops.max(made, axis=1), x, y)
    assert "gather" not in f.get_source("asm")
    b = tensor(770, name="b")
    agrees(ops.sum(made * b, axis=1), x, y, b)


def test_several_reshapes_of_several_inputs():
    x, y = tensor(30, 77), tensor(77, 30, name="y")
    flat = [ops.reshape(t, (-1,)) for t in (x, y)]
    assert all(t.ndim == 1 for t in as_computed([ops.sum(flat[0] * flat[1])]).of([x, y]))
    agrees(ops.sum(flat[0] * flat[1]), x, y)
    agrees(ops.sum(ops.reshape(x, (-1,)) + ops.max(ops.reshape(x, (-1,)))), x)


def test_what_is_made_of_it_element_by_element_beside_it():
    x, b = tensor(30, 77), tensor(30, 77, name="b")
    flat = ops.sum(ops.reshape(x, (-1,)))
    outputs = [ops.relu(x), (x - flat) * b, ops.sum(ops.reshape(ops.relu(x), (-1,)))]
    assert all(t.ndim < 2 for t in as_computed(outputs).of([x, b, *outputs]))
    f, a, c = tl.compile([x, b, *outputs]), whole((30, 77)), whole((30, 77))
    for got, want in zip(f(a, c), te.reference.evaluate(outputs, {x: a, b: c}), strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.shape == want.shape


def test_an_open_size_that_stays():
    n = te.var("n")
    x = te.placeholder((n, 6, 35), name="x")
    y = ops.sum(ops.reshape(x, (n, 210)), axis=1)
    f = tl.compile([x, y])
    assert "x: float32[n, 6, 35]" in f.get_source("ir")
    for rows in (0, 1, 5):
        a = whole((rows, 6, 35))
        np.testing.assert_array_equal(f(a), a.reshape(rows, 210).sum(1))


@pytest.mark.parametrize(
    "reads",
    [
        lambda x: [ops.sum(ops.reshape(x, (-1,))), ops.max(x, axis=0)],
        lambda x: [ops.reshape(x, (-1,))],
        lambda x: [ops.cumsum(ops.reshape(x, (-1,)))],
        lambda x: [ops.sum(ops.reshape(x, (-1,))), ops.sum(ops.reshape(x, (70, -1)), axis=0)],
        lambda x: [ops.sum(ops.reshape(x, (3, 10, 77)), axis=2)],
        lambda x: [ops.sum(ops.reshape(ops.transpose(x), (-1,)))],
        lambda x: [ops.sum(ops.reshape(x + ops.arange(77, dtype="float32"), (-1,)))],
    ],
    ids=[
        "itself too",
        "an output",
        "a scan",
        "in two shapes",
        "parts of rows",
        "transposed",
        "made of places",
    ],
)
def test_left_alone(reads):
    x = tensor(30, 77)
    outputs = reads(x)
    assert as_computed(outputs).of([x]) == [x]
    a = whole((30, 77))
    got, want = tl.compile([x, *outputs])(a), te.reference.evaluate(outputs, {x: a})
    for one, other in zip(got if len(outputs) > 1 else [got], want, strict=True):
        np.testing.assert_array_equal(one, other)


def test_constants_keep_their_shape():
    x, w = tensor(21), tensor(3, 7, name="w")
    y = ops.sum(x * ops.reshape(w, (-1,)))
    a, b = whole((21,)), whole((3, 7))
    assert as_computed([y], [w]).of([w]) == [w]
    assert tl.compile([x, w, y], constants={w: b})(a) == (a * b.reshape(-1)).sum()


# --- short rows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float32", "int8", "float64"])
@pytest.mark.parametrize("shape", [(61, 5, 3), (11, 3, 7, 2), (31, 9, 5)], ids=str)
@pytest.mark.parametrize("reduce", [ops.sum, ops.max, ops.argmin])
def test_short_rows_of_several_indices(shape, reduce, kind):
    x = tensor(*shape, kind=kind)
    y = reduce(x, axis=-1)
    assert as_computed([y]).of([y])[0].ndim == 1
    f = agrees(y, x)
    assert f"x: {kind}[{', '.join(map(str, shape))}]" in f.get_source("ir")


def test_operators_of_short_rows():
    x, b = tensor(61, 5, 3), tensor(3, name="b")
    a, c = whole((61, 5, 3)), whole((3,))
    for y in (ops.softmax(x, axis=-1), (x - ops.max(x, axis=-1, keepdims=True)) * b, ops.sum(x * b, axis=-1)):
        assert as_computed([y]).of([y])[0].ndim == y.ndim - 1
        f = tl.compile([x, b, y])
        (want,) = te.reference.evaluate([y], {x: a, b: c})
        np.testing.assert_allclose(f(a, c), want, rtol=1e-6)
        assert "gather" not in f.get_source("asm") and f.get_source("ir").startswith(
            "def main(x: float32[61, 5, 3]"
        )


@pytest.mark.parametrize(
    "y",
    [
        ops.sum(tensor(61, 32, 3), axis=-1),
        ops.sum(tensor(61, 5, 40), axis=-1),
        ops.sum(tensor(61, 5, 3), axis=1),
        ops.sum(tensor(61, 5, 3) * tensor(61, 1, 3, name="b"), axis=-1),
        ops.max_pool2d(tensor(1, 3, 20, 20), (2, 2)),
        ops.softmax(tensor(2, 3, 3), axis=-1),
    ],
    ids=["many in the last", "long", "columns", "not all by rows", "windows", "few"],
)
def test_other_rows_are_left_alone(y):
    assert as_computed([y]).tensors == {}
