"""Fused loops over open sizes count row and column from iteration to iteration: no division in the loop, and
the same values as by division."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te


def permuted(axes: tuple[int, ...]) -> tl.Module:
    x = te.placeholder([te.var(f"n{d}") for d in range(len(axes))], name="x")
    return tl.compile([x, ops.transpose(x, axes)], target="llvm -num-cores=1")


@pytest.mark.parametrize("axes", [(1, 0, 2), (0, 2, 1, 3), (2, 0, 1, 3)])
def test_the_rows_of_a_fused_loop(axes):
    f = permuted(axes)
    for n in (1, 2, 3, 17):
        a = np.arange(float(np.prod(range(n, n + len(axes)))), dtype="f").reshape(range(n, n + len(axes)))
        assert np.array_equal(f(a), a.transpose(axes))
    assert f(np.zeros([0] * len(axes), "f")).size == 0


def test_no_division_in_the_loop():
    """Each function divides ahead of its loop only: behind the first label of the loop there is none."""
    llvm = permuted((0, 2, 1, 3)).get_source("ll")
    bodies = re.findall(r"define [^\n]*parallel[.\d]*\.body.*?\n}", llvm, re.DOTALL)
    assert len(bodies) == 4  # of rows that one, two and four vectors hold, and of longer ones
    for body in bodies:
        loop = body[body.index("= phi i64") :]
        assert len(re.findall("= phi i64", loop)) >= 4  # the counter, a quotient, two remainders
        assert not re.search(r"[us](div|rem) ", loop)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_schedule_of_its_own(threads):
    """Counted from any beginning, in parts, in a loop inside of another one."""
    a, b, c = te.var("a"), te.var("b"), te.var("c")
    x = te.placeholder((a, b, c), "int32", name="x")
    y = te.compute((a, b, c), lambda i, j, k: x[i, j, k] + i * 100 + j * 10 + k, name="y")
    s = te.create_schedule(y.op)
    fused = s[y].fuse(*y.op.axis)
    if threads > 1:
        s[y].parallel(fused)
    f = tl.build(s, [x, y], target=f"llvm -num-cores={threads}")
    for shape in ((3, 5, 7), (1, 1, 1), (40, 1, 300), (2, 600, 1)):
        given = np.zeros(shape, "int32")
        i, j, k = np.indices(shape)
        assert np.array_equal(f(given), i * 100 + j * 10 + k)


def test_parts_of_a_counter_are_not_tested():
    """Quotient and remainder of a counter below the product are below its factors."""
    f = permuted((0, 2, 1, 3))
    text = f.get_source("ir")
    assert "if int32" not in text and "0 <=" not in text


def test_what_is_computed_inside_a_counter_knows_its_parts():
    """A convolution in register tiles of a fused loop over open images: neither the tile nor its sums ask
    again whether there is such an image."""
    n, w = te.var("n"), te.var("w")
    x, weight = te.placeholder((n, 64, w), name="x"), te.placeholder((64, 64, 3), name="weight")
    y = ops.conv1d(x, weight, stride=2, padding=1)
    f = tl.compile([x, weight, y], "llvm -num-cores=2", constants={weight: np.ones((64, 64, 3), "f")})
    text = f.get_source("ir")
    assert ".fused" in text and not re.search(r"if [^\n]*< n\b", text)


def test_norms_of_open_images_are_one_row_and_share_their_scalars():
    """Elements over the ends of rows, a mean and a root once for each image, not for each vector."""
    c, h, w = te.var("c"), te.var("h"), te.var("w")
    x = te.placeholder((2, c, h, w), name="x")
    y = ops.instance_norm(x)
    llvm = tl.compile([x, y], target="llvm -mcpu=x86-64-v4 -num-cores=1").get_source("ll")
    assert len(re.findall(r"fdiv float|call float @llvm.sqrt", llvm)) <= 5
    f = tl.compile([x, y])
    rng = np.random.default_rng(0)
    for shape in ((2, 3, 5, 7), (2, 1, 40, 9), (2, 4, 1, 1), (2, 0, 3, 3)):
        a = rng.standard_normal(shape).astype("f")
        mean, var = a.mean((2, 3), keepdims=True), a.var((2, 3), keepdims=True)
        np.testing.assert_allclose(f(a), (a - mean) / np.sqrt(var + 1e-5), atol=2e-5)


def _lasts(x: np.ndarray) -> np.ndarray:
    last, out = np.float32(1), []
    for v in x:
        out.append(last + v if v > 0 else last)
        last = v if v > 0 else last
    return np.array(out, "float32")


@te.loop_program("test.lasts", lambda x: [_lasts(x)])
def lasts(b, given, made):
    """Each positive number and the one before it, read before and after it is written in a branch."""
    (x,), (out,) = given, made
    last = b.cell("last", "float32", 1.0)
    with b.loop("i", x.shape[0]) as i:
        with b.when(x[i] > 0.0):
            out[i] = last.value
            last.set(x[i])
            out[i] = out[i] + last.value
        with b.otherwise():
            out[i] = last.value


def test_a_scalar_that_a_branch_writes_is_read_where_it_is():
    """What is on the stack may be read ahead of a branch, but not ahead of what the branch writes."""
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    (y,) = te.loops(lasts, [x], [(n,)], ["float32"])
    a = np.array([-1, 2, -3, -4, 5, 7, -1], "f")
    assert np.array_equal(tl.compile([x, y])(a), _lasts(a))
