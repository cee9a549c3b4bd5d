"""Where the elements of a buffer are: the sum put together at once is that of the parts, node for node."""

from __future__ import annotations

import pytest

from tensorlang.expr import make
from tensorlang.expr.nodes import Expr
from tensorlang.expr.walk import preorder
from tensorlang.loopir.buffer import Buffer
from tensorlang.loopir.stmt import Load, load, loads

from .kernels import buffer, dim, n, var

i, j, k, m = var("i"), var("j"), var("k", "int64"), dim("m")
PLAIN = buffer("A", 12, 40, 8)
OPEN = buffer("B", 12, m, 8)
WIDE = buffer("C", 1 << 16, 1 << 16)
LYING = buffer("D", 12, 8, strides=(1, 12))
PLACES = [
    (PLAIN, (i, j, n(3))),
    (PLAIN, (i * 2 + 1, j - 4, make.ramp(i * 8, 1, 8))),
    (PLAIN, (i // 5, make.ramp(j, 2, 4), j % 8)),
    (PLAIN, (make.ramp(i, 1, 4), n(0), make.ramp(j, 1, 4))),
    (PLAIN, (make.broadcast(i, 4), j, make.ramp(j, 1, 4))),
    (PLAIN, (make.ramp(i, j, 4), j, n(1))),
    (PLAIN, (k, j, i)),
    (PLAIN, (j // 40, j % 40, i)),
    (OPEN, (i, j, make.ramp(n(0), 1, 8))),
    (WIDE, (i, j)),
    (LYING, (i, make.ramp(j, 1, 8))),
    (LYING, (make.ramp(i, 1, 4), j)),
    (buffer("E"), ()),
]


@pytest.mark.parametrize(("b", "indices"), PLACES, ids=str)
def test_an_offset_is_the_sum_of_its_indices(b: Buffer, indices: tuple[Expr, ...]) -> None:
    total: Expr = make.const(0, "int32")
    for index, stride in zip(indices, b.element_strides(), strict=True):
        total = make.add(total, make.mul(index, stride))
    assert b.offset(indices) is total


def test_reads_of_an_expression_are_each_told_once_and_as_they_are_read():
    table, a = buffer("T", 64, type_="int32"), buffer("A", 64)
    inner = load(table, (i,))
    outer = load(a, (inner + j,))
    masked = load(a, (make.ramp(n(0), 1, 4),), make.ramp(inner, 1, 4) < 9)
    e = make.add(make.broadcast(outer * load(a, (j,)) + outer, 4), masked)
    assert list(map(id, loads(e))) == [id(x) for x in preorder(e) if type(x) is Load]
    assert list(map(id, loads(outer))) == list(map(id, (outer, inner)))
    assert not loads(i + j)
    deep = outer
    for _ in range(300):
        deep = make.add(deep, masked) if deep.dtype.lanes > 1 else make.broadcast(deep, 4)
    assert set(map(id, loads(deep))) == set(map(id, (masked, inner, outer)))
