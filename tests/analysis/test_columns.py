"""Columns of expressions equal the expressions evaluated one row at a time; big numbers do not overflow."""

from __future__ import annotations

import operator
import random
from unittest.mock import Mock

import numpy as np
import pytest

from tensorlang.analysis import ceil_quotient, quotient, ratio
from tensorlang.core.dtype import INT32, INT64
from tensorlang.errors import DeclareError
from tensorlang.expr import columns, make
from tensorlang.expr.columns import BLOCK, compile_columns
from tensorlang.expr.nodes import Expr, FloorDiv, Var, const_int
from tensorlang.expr.walk import substitute

KNOBS = tuple(Var(n, INT32, "knob", 1, 64) for n in "abc")


def _random(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([*KNOBS, make.const(rng.randint(1, 50), INT32)])
    x, y = _random(rng, depth - 1), _random(rng, depth - 1)
    one = make.max_(y, 1)
    return rng.choice(
        [
            lambda: make.add(x, y),
            lambda: make.sub(x, y),
            lambda: make.mul(x, make.min_(y, 9)),
            lambda: make.floordiv(x, one),
            lambda: make.floormod(x, one),
            lambda: make.min_(x, y),
            lambda: make.max_(x, y),
            lambda: make.ceildiv(x, one),
            lambda: make.select(make.lt(x, y), x, y),
            lambda: make.select(make.and_(make.le(x, 5), make.ne(y, 3)), y, x),
        ]
    )()


def test_a_number_of_iterations_that_may_be_nothing_divides() -> None:
    """As a number and as a column: 0 counts as 1, any other as it is."""
    n = KNOBS[0]
    assert [const_int(e) for e in (quotient(0, 0), ceil_quotient(0, 0), ceil_quotient(7, 0))] == [0, 0, 7]
    for a in (0, 7):
        exprs = [quotient(a, n), ceil_quotient(a, n), ratio(a, n)]
        table = compile_columns(exprs, (n,))(np.array([[0], [1], [2]]))
        assert table.tolist() == [[a, a, a], [a, a, a], [a // 2, -(-a // 2), a / 2]]


def test_columns_equal_rows() -> None:
    rng = random.Random(0)
    exprs = [_random(rng, 4) for _ in range(150)]
    rows = np.random.default_rng(0).integers(1, 65, (60, 3))
    table = compile_columns(exprs, KNOBS)(rows)
    assert table.dtype == np.int64
    for row, values in zip(rows.tolist(), table.tolist(), strict=True):
        now = {k: make.const(v, INT32) for k, v in zip(KNOBS, row, strict=True)}
        for e, v in zip(exprs, values, strict=True):
            n = const_int(substitute(e, now))
            if n is not None and abs(v) < 1 << 31:
                assert n == v, e


def test_shared_nodes_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, _ = KNOBS
    divided = Mock(side_effect=operator.floordiv)
    monkeypatch.setitem(columns._FUNCTIONS, FloorDiv, divided)
    shared = make.floordiv(make.mul(a, b), 7)
    found = compile_columns([make.add(shared, 1), make.mul(shared, shared)], KNOBS)([[8, 2, 1]])
    assert found.tolist() == [[3, 4]] and divided.call_count == 1


def test_sixty_four_bits() -> None:
    a, b, c = (make.cast(INT64, k) for k in KNOBS)
    big = make.mul(make.mul(make.mul(a, b), c), 1 << 40)
    assert compile_columns([big], KNOBS)([[64, 64, 64]])[0, 0] == 1 << 58


def test_many_rows_constants_and_none() -> None:
    a, _, _ = KNOBS
    f = compile_columns([make.const(5, INT32), a, make.lt(a, 10)], KNOBS)
    rows = np.random.default_rng(1).integers(1, 65, (3 * BLOCK + 5, 3))
    out = f(rows)
    assert (
        (out[:, 0] == 5).all() and (out[:, 1] == rows[:, 0]).all() and (out[:, 2] == (rows[:, 0] < 10)).all()
    )
    assert f(np.empty((0, 3))).shape == (0, 3)
    assert compile_columns([], KNOBS)(rows).shape == (len(rows), 0)


def test_what_is_no_knob_is_refused() -> None:
    with pytest.raises(DeclareError, match="`n` is none of the knobs"):
        compile_columns([make.add(Var("n", INT32, "dim"), 1)], KNOBS)
    with pytest.raises(ValueError, match="3 knobs"):
        compile_columns([KNOBS[0]], KNOBS)(np.ones((4, 2), np.int64))
