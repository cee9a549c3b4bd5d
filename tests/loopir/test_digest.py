"""The name of what a kernel says: the same for the same loops under other names, another for any other thing."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.expr import make
from tensorlang.expr.nodes import Var
from tensorlang.loopir.digest import digest
from tensorlang.loopir.stmt import Alloc, Evaluate, For, Func, If, Let, Stmt, Store, seq

from .kernels import blocked_matmul, buffer, func, loop, matmul, read, store, var


def scaled(
    a: str = "A",
    i: str = "i",
    factor: float = 2.0,
    extent: int = 8,
    kind: str = "serial",
    type_: str = "float32",
    scope: str = "arg",
    strides: object = None,
    lo: int | None = None,
    mask: bool = False,
    attrs: tuple[tuple[str, object], ...] = (),
    turned: bool = False,
    buffer_first: bool = True,
) -> Func:
    x = buffer(a, 8, 8, type_=type_, scope=scope, strides=strides)
    y, v = buffer("out", 8, 8, type_=type_), var(i, lo=lo)
    at = (3, v) if turned else (v, 3)
    value = make.mul(read(x, *at), make.const(factor, type_))
    on = make.lt(v, make.const(5)) if mask else None
    body = For(v, make.const(0), make.const(extent), kind, store(y, (v, 3), value, on), attrs)
    return func("f", (x, y) if buffer_first else (y, x), body)


def test_names_do_not_count() -> None:
    assert digest(scaled()) == digest(scaled(a="other", i="row"))
    assert digest(matmul()) == digest(matmul().changed(name="g"))
    assert digest(blocked_matmul()) == digest(blocked_matmul())


def test_everything_else_counts() -> None:
    kernels: list[Func] = [
        scaled(),
        scaled(factor=3.0),
        scaled(factor=0.0),
        scaled(factor=-0.0),
        scaled(extent=7),
        scaled(kind="parallel"),
        scaled(type_="float64"),
        scaled(type_="int32", factor=2),
        scaled(type_="int64", factor=2),
        scaled(scope="global"),
        scaled(strides=(8, 1)),
        scaled(strides=(9, 1)),
        scaled(lo=0),
        scaled(mask=True),
        scaled(attrs=(("stream_stores", True),)),
        scaled(attrs=(("stream_stores", False),)),
        scaled(turned=True),
        scaled(buffer_first=False),
        scaled().changed(outputs=()),
        blocked_matmul(),
    ]
    names = [digest(k) for k in kernels] + [digest(scaled(), "llvm -mcpu=znver3"), digest(scaled(), "llvm")]
    assert None not in names and len(set(names)) == len(names)


def test_two_buffers_alike_are_two() -> None:
    def sums(same: bool) -> Func:
        a, b, c = buffer("A", 4), buffer("B", 4), buffer("C", 4)
        v = var("v")
        return func("f", (a, b, c), loop(v, 4, store(c, v, read(a, v) + read(a if same else b, v))))

    assert digest(sums(True)) != digest(sums(False))


def test_a_variable_of_each_loop_is_its_own() -> None:
    def nest(turned: bool) -> Func:
        y, v, w = buffer("Y", 4, 4), var("v"), var("w")
        return func("f", (y,), loop(v, 4, loop(w, 4, store(y, (w, v) if turned else (v, w), 1.0))))

    assert digest(nest(False)) != digest(nest(True))


@pytest.mark.parametrize(
    "body",
    [
        lambda t, y, v: Alloc(t, seq(store(t, 0, 1.0), store(y, 0, read(t, 0)))),
        lambda t, y, v: If(make.lt(v, make.const(2)), store(y, 0, 1.0), store(y, 1, 2.0)),
        lambda t, y, v: If(make.lt(v, make.const(2)), store(y, 0, 1.0)),
        lambda t, y, v: Let(var("x"), make.const(3), store(y, v, 1.0)),
        lambda t, y, v: Evaluate(make.call("prefetch", read(y, v))),
    ],
)
def test_every_kind_of_statement_has_a_text(body: Callable[..., Store]) -> None:
    def made() -> Func:
        t, y, v = buffer("t", 4, scope="local"), buffer("Y", 4), var("v")
        return func("f", (y,), loop(v, 4, body(t, y, v)))

    assert digest(made()) is not None and digest(made()) == digest(made())


def test_what_no_text_stands_for_has_no_name() -> None:
    assert digest(scaled(attrs=(("note", object()),))) is None


def test_facts_of_a_size_count() -> None:
    def of(**facts: int) -> Func:
        n, y, v = Var("n", make.const(1).dtype, "dim", **facts), buffer("Y", 64), var("v")
        return Func("f", (y,), loop(v, n, store(y, v, 1.0)), (n,), (y,))

    facts: tuple[dict[str, int], ...] = ({}, {"lo": 1}, {"hi": 64}, {"multiple_of": 4})
    assert all(digest(of(**a)) != digest(of(**b)) for a, b in itertools.combinations(facts, 2))


def test_hundreds_of_values_within_each_other_have_a_text() -> None:
    """A network that sorts 64 elements is as many values, deeper than Python lets a function call itself."""

    def nested(last: float) -> Func:
        y, v = buffer("Y", 4), var("v")
        body: Stmt = store(y, v, last)
        for k in range(3000):
            body = Let(var(f"x{k}"), make.const(float(k)), body)
        return func("f", (y,), loop(v, 4, body))

    assert digest(nested(1.0)) is not None and digest(nested(1.0)) == digest(nested(1.0))
    assert digest(nested(1.0)) != digest(nested(2.0))


def test_the_first_of_rows_of_open_sizes_compile() -> None:
    a = te.placeholder((2, 12, te.size_var("n"), te.size_var("m")), "int64", name="A")
    f = tl.compile([a, ops.top_k(a, 5, 2, False)[0]])
    x = np.random.default_rng(0).integers(-9, 9, (2, 12, 3, 5))
    np.testing.assert_array_equal(f(x), np.sort(x, 2)[:, :, :5])
