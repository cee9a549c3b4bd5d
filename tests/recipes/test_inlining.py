"""What is written into the reductions that read it, and what is held beside them."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule

TARGET = "llvm -mcpu=haswell -mtriple=x86_64-linux-gnu -num-cores=2"


def operand(body, *shapes):
    """Placeholders, and what a stage makes of the elements of the first."""
    read = [te.placeholder(s, name=f"in{n}") for n, s in enumerate(shapes)]
    return read, te.compute(read[0].shape, lambda i, j: body(i, j, *read), name="made")


def written(out, name="made"):
    return default_schedule(out, TARGET)[name].state.attach == "inlined"


def agrees(inputs, out):
    arrays = [
        np.random.default_rng(n).random([int(e.value) for e in t.shape], "float32")
        for n, t in enumerate(inputs)
    ]
    want = te.reference.evaluate(out, dict(zip(inputs, arrays, strict=True)))[0]
    np.testing.assert_allclose(tl.compile([*inputs, out])(*arrays), want, rtol=1e-4)


@pytest.mark.parametrize(
    ("body", "shapes", "into"),
    [
        (lambda i, j, a: te.max(a[i, j], 0.0), [(50, 40)], True),
        (lambda i, j, a: a[i, j] * 0.5 + 1.0, [(50, 40)], True),
        (lambda i, j, a: a[i, j] / 8.0, [(50, 40)], True),
        (lambda i, j, a: a[i, j] / 3.0, [(50, 40)], False),
        (lambda i, j, a, s: a[i, j] / s[i], [(50, 40), (50,)], False),
        (lambda i, j, a: a[i, j] * te.min(te.max(a[i, j] * 0.2 + 0.5, 0.0), 1.0), [(50, 40)], False),
    ],
    ids=["relu", "scale", "eighth", "third", "by its row", "hard swish"],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_an_operand_of_a_product_takes_little_or_is_held(body, shapes, into, transposed):
    read, made = operand(body, *shapes)
    b = te.placeholder((60, 40) if transposed else (40, 60), name="b")
    y = ops.matmul(made, b, transpose_b=transposed)
    assert written(y) is into
    agrees([*read, b], y)


def test_softmax_before_a_product_is_divided_once():
    a, b = te.placeholder((3, 50, 40), name="a"), te.placeholder((3, 40, 30), name="b")
    y = ops.relu(ops.batch_matmul(ops.softmax(a, -1), b))
    assert not written(y, "softmax")
    agrees([a, b], y)


def test_a_sum_that_reads_each_element_once_divides_it_itself():
    read, made = operand(lambda i, j, a, s: a[i, j] / s[i], (50, 40), (50,))
    y = ops.sum(made, 1)
    assert written(y)
    agrees(read, y)


def distances(m, n, k, body):
    a, b = te.placeholder((m, k), name="a"), te.placeholder((n, k), name="b")
    made = te.compute((m, k), lambda i, j: body(a[i, j]), name="made")
    q = te.reduce_axis((0, k), name="q")
    out = te.compute((m, n), lambda i, j: te.sum(te.abs(made[i, q] - b[j, q]), axis=q), name="out")
    return [a, b], out


@pytest.mark.parametrize(
    ("sizes", "into"), [((200, 200, 100), False), ((64, 300, 64), False), ((200, 3, 100), True)]
)
def test_a_reduction_that_is_no_product_reads_what_it_would_compute_again(sizes, into):
    """Nothing hides it there: distances with three operations took 1.4 times as long."""
    read, out = distances(*sizes, lambda v: te.max(te.min(v * 2.0, 1.0), 0.0))
    assert written(out) is into
    agrees(read, out)


def test_shades_are_not_computed_for_each_count():
    x = te.placeholder((256, 384), name="x")
    made = te.compute(
        x.shape, lambda i, j: te.cast("int32", te.max(te.min(x[i, j], 1.0), 0.0) * 63.0), name="made"
    )
    i, j = te.reduce_axis((0, 256), "i"), te.reduce_axis((0, 384), "j")
    counts = lambda n: te.compute(
        (n,), lambda b: te.sum(te.select(made[i, j] == b, 1.0, 0.0), axis=(i, j)), name="counts"
    )
    assert not written(counts(64))
    assert written(counts(2))  # other threads would have to hand it over
    agrees([x], counts(64))


@pytest.mark.parametrize(
    ("shape", "axis", "into"),
    [
        ((30, 500), None, True),
        ((30, 500), 1, True),
        ((7, 33, 51), (1, 2), True),
        ((500, 30), 0, False),
        ((500, 17), 1, False),
    ],
)
def test_a_sum_of_long_rows_computes_what_it_reads_once(shape, axis, into):
    """All values of a tanh were written to memory, and read again by their sum."""
    x = te.placeholder(shape, name="x")
    y = ops.sum(te.compute(shape, lambda *i: te.tanh(x[i]), name="made"), axis)
    assert written(y) is into
    agrees([x], y)


def test_the_exponentials_of_everything_are_not_held():
    x = te.placeholder((70, 300), name="x")
    assert written(ops.logsumexp(x), "logsumexp.exp")
    agrees([x], ops.logsumexp(x))
    by_row = ops.logsumexp(x, 1)
    assert not written(by_row, "logsumexp.exp"), "both reductions of a row are known as such"
    agrees([x], by_row)


def l1_distances(a, b):
    rows, columns = ops.expand_dims(a, 1), ops.expand_dims(b, 0)
    return ops.sum(ops.abs(ops.subtract(rows, columns)), -1)


def huber(a, b):
    d = ops.abs(ops.subtract(a, b))
    return ops.where(ops.less(d, 0.5), ops.multiply(ops.multiply(d, d), 0.5), ops.subtract(d, 0.375))


@pytest.mark.parametrize(
    ("made", "shapes"),
    [
        (l1_distances, [(40, 64), (50, 64)]),
        (huber, [(37, 53), (37, 53)]),
        (lambda a: ops.sum(ops.floor(ops.multiply(a, 9.0)), 0), [(100, 30)]),
        (lambda a: ops.sum(ops.abs(a), -1), [(3, 4, 5, 6)]),
    ],
    ids=["distances", "huber", "columns of floors", "short rows"],
)
def test_an_instruction_is_no_long_chain(made, shapes):
    """An absolute value counted as much as an exponential, and was held in memory before its readers."""
    read = [te.placeholder(s, name=f"in{n}") for n, s in enumerate(shapes)]
    out = made(*read)
    s = default_schedule(out, TARGET)
    inside = [t for t in te.graph.operations([out.op]) if t.name not in {r.op.name for r in read}]
    kept = [op.name for op in inside if s[op.name].state.attach is None and op is not out.op]
    assert not kept, s.tree()
    agrees(read, out)
