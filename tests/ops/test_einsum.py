"""einsum against numpy's: labels in any order, repeated ones, ellipses, several operands, symbolic sizes."""

from __future__ import annotations

import string

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te, topi
from tests.ops.arrays import compiled, exact, near, real, stored, whole

ops = tl.ops

CASES = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (7, 4, 5)),
    ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
    ("ba,a", (3, 4), (4,)),
    ("i,j->ji", (3,), (4,)),
    ("ij->", (3, 4)),
    ("ij->j", (3, 4)),
    ("ba", (3, 4)),
    ("ii", (4, 4)),
    ("ii->i", (4, 4)),
    ("iij->ji", (4, 4, 3)),
    ("... i j -> ... j i", (2, 3, 4)),
    ("i...", (3, 4)),
    ("...ii->...i", (2, 4, 4)),
    ("i,i", (4,), (4,)),
    ("ij,j->ij", (3, 4), (1,)),
    ("ij,jk,kl->il", (3, 4), (4, 5), (5, 2)),
    ("bn,anm,bm->ba", (2, 3), (4, 3, 5), (2, 5)),
    ("i,i,i,i->", (3,), (3,), (3,), (3,)),
    (",ij->ji", (), (3, 4)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_it_is_numpys(case):
    subscripts, *shapes = case
    arrays = [whole(s, "float32", k) for k, s in enumerate(shapes)]
    xs = [te.placeholder(a.shape, name=f"x{k}") for k, a in enumerate(arrays)]
    got = compiled(ops.einsum(subscripts, xs), dict(zip(xs, arrays, strict=True)))
    exact(got, np.einsum(subscripts, *arrays), "float32")


def test_the_cheapest_product_is_taken_first():
    """A chain of matrices that ends in a vector is products with a vector."""
    x, y = te.placeholder((30, 40), name="x"), te.placeholder((40, 50), name="y")
    z = te.placeholder((50, 2), name="z")
    out = ops.einsum("ij,jk,kl->il", x, y, z)
    first = next(t for t in out.op.input_tensors if t.op.name == "einsum.1")
    assert [int(n) for n in first.shape] == [40, 2]
    n = te.var("n")
    x = te.placeholder((n, 40), name="x")
    out = ops.einsum("ij,jk,kl->il", x, y, z)
    first = next(t for t in out.op.input_tensors if t.op.name == "einsum.1")
    assert [int(d) for d in first.shape] == [40, 2]


def test_many_operands_in_any_order():
    rng = np.random.default_rng(11)
    for _ in range(12):
        labels, size = "abcdef", dict(zip("abcdef", rng.integers(1, 4, 6).tolist(), strict=True))
        terms = [
            "".join(rng.permutation(list(labels))[: rng.integers(0, 4)]) for _ in range(rng.integers(3, 9))
        ]
        used = sorted(set("".join(terms)))
        wanted = "".join(rng.permutation(used)[: rng.integers(0, len(used) + 1)])
        arrays = [whole([size[c] for c in t], "float32", k) for k, t in enumerate(terms)]
        xs = [te.placeholder(a.shape, name=f"x{k}") for k, a in enumerate(arrays)]
        subscripts = f"{','.join(terms)}->{wanted}"
        got = compiled(ops.einsum(subscripts, xs), dict(zip(xs, arrays, strict=True)))
        exact(got, np.einsum(subscripts, *arrays), "float32")


def test_more_labels_than_numpy_tells_apart():
    """Three tensors of an ellipsis each and all letters: taken from the left."""
    letters = string.ascii_letters
    arrays = [whole((2, *(1,) * 18), "float32", k) for k in range(3)]
    xs = [te.placeholder(a.shape, name=f"x{k}") for k, a in enumerate(arrays)]
    parts = [f"...{letters[k * 17 : k * 17 + 18]}" for k in range(3)]
    out = ops.einsum(f"{','.join(parts)}->...", xs)
    exact(
        compiled(out, dict(zip(xs, arrays, strict=True))),
        np.prod([a.reshape(2) for a in arrays], 0),
        "float32",
    )


def test_symbolic_sizes():
    b, n = te.dim("b", 1, 4), te.dim("n", 1, 9)
    x, y = te.placeholder((b, n, 3), name="x"), te.placeholder((b, 3, n), name="y")
    kernel = tl.compile([x, y, ops.einsum("bij,bjk->bik", [x, y]), ops.einsum("...ij,...ji", [x, y])])
    for size in (1, 5):
        a, c = whole((2, size, 3), "float32"), whole((2, 3, size), "float32", 1)
        product, trace = kernel(a, c)
        exact(product, a @ c, "float32")
        exact(trace, np.trace(a @ c, axis1=1, axis2=2), "float32")


@pytest.mark.parametrize(("t", "result"), [("int8", "int32"), ("int64", "int64"), ("float16", "float16")])
def test_sums_are_wide(t, result):
    a, b = stored(np.full((3, 40), 100), t), stored(np.full((40, 3), 100 if t != "float16" else 0.1), t)
    x, y = te.placeholder(a.shape, t, name="x"), te.placeholder(b.shape, t, name="y")
    got = compiled(ops.einsum("ij,jk->ik", [x, y]), {x: a, y: b})
    want = real(a, t) @ real(b, t) if t == "float16" else a.astype("int64") @ b
    assert str(got.dtype) == result
    near(got.astype("float64"), want, "float64", 0 if t != "float16" else 2.0**43)


@pytest.mark.parametrize(
    ("subscripts", "text"),
    [
        ("ij,jk", r"2 term\(s\), and 1 operand"),
        ("ijk", "'ijk' has 3 label"),
        ("i", "'i' has 1 label"),
        ("i1", "'1' is not a label"),
        ("ij->ii", "names a label twice"),
        ("ij->k", "no operand has the label 'k'"),
        ("...j->j", "no ellipsis"),
        ("ii", "the size of label 'i' .* is 4, 3 is needed"),
        (7, "text is needed"),
    ],
)
def test_refusals(subscripts, text):
    with pytest.raises(tl.DeclareError, match=text):
        ops.einsum(subscripts, [te.placeholder((3, 4), name="x")])


def test_operands_one_by_one_as_in_numpy():
    a, b, c = whole((3, 4), "float32"), whole((4, 5), "float32", 1), whole((5, 2), "float32", 2)
    x, y, z = (te.placeholder(v.shape, name=n) for v, n in ((a, "x"), (b, "y"), (c, "z")))
    apart, listed = ops.einsum("ij,jk,kl->il", x, y, z), ops.einsum("ij,jk,kl->il", [x, y, z])
    assert te.serialize.key_of([x, y, z, apart]) == te.serialize.key_of([x, y, z, listed])
    assert (compiled(apart, {x: a, y: b, z: c}) == np.einsum("ij,jk,kl->il", a, b, c)).all()
    assert topi.einsum("ij->ji", x).shape == (4, 3)
    halves = [te.placeholder((3, 3), "float16", name=n) for n in "pq"]
    assert ops.einsum("ij,jk->ik", *halves, out_dtype="float32").dtype == "float32"


def test_operands_that_are_none():
    x = te.placeholder((3, 4), name="x")
    with pytest.raises(tl.DeclareError, match="operand 0 is 'ij'"):
        ops.einsum("ij", "ij")
    with pytest.raises(tl.DeclareError, match="text is needed"):
        ops.einsum(x, "ij")
    with pytest.raises(tl.DeclareError, match=r"1 term\(s\), and 0 operand"):
        ops.einsum("ij")
