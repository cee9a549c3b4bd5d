"""Text reads like Python: parentheses where they are needed and nowhere else, and Python reads the same value
back."""

from __future__ import annotations

import pytest

from tensorlang import te
from tensorlang.core.dtype import BOOL, FLOAT32, INT32
from tensorlang.core.names import NameSupply
from tensorlang.expr import make
from tensorlang.expr.nodes import Ramp, Var
from tensorlang.expr.printer import show
from tests.expr.naive import Source, evaluate, trunc

i, j = Var("i", INT32), Var("j", INT32)
x, y, z = (Var(n, FLOAT32) for n in "xyz")
p, q = Var("p", BOOL), Var("q", BOOL)
A = te.placeholder((9, 9), name="A")


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (i * 8 + j, "i*8 + j"),
        ((i + j) // 3, "(i + j) // 3"),
        (i // 3 * 2, "(i // 3)*2"),
        (i - (j // 2), "i - j // 2"),
        ((i % 3) // 2, "i % 3 // 2"),
        (i % (j * 4), "i % (j*4)"),
        (-i, "i*-1"),
        (x + (y + z), "x + (y + z)"),
        (x + y + z, "x + y + z"),
        (x - (y - z), "x - (y - z)"),
        ((x + y) * z, "(x + y) * z"),
        (x / (y * z), "x / (y * z)"),
        (x / y * z, "x / y * z"),
        (make.and_(p, make.or_(q, i < j)), "p and (q or i < j)"),
        (make.not_(make.and_(p, q)), "not (p and q)"),
        (make.eq(make.lt(i, j), p), "(i < j) == p"),
        (make.min_(i, j), "min(i, j)"),
        (make.truncdiv(i, j), "truncdiv(i, j)"),
        (make.if_then_else(i < j, x, 0.0), "if_then_else(i < j, x, 0.0)"),
        (make.select(p, i, 1), "select(p, i, 1)"),
        (make.cast("float32", i), "float32(i)"),
        (make.call("exp", x), "exp(x)"),
        (A[i, j + 1], "A[i, j + 1]"),
        (make.const(1.5), "1.5"),
        (make.const(1.5, "float64"), "float64(1.5)"),
        (make.const(3, "int8"), "int8(3)"),
        (make.const(True), "True"),
        (make.const(float("inf")), "inf"),
        (make.ramp(i, 1, 8), "ramp(i, 1, 8)"),
        (make.broadcast(x, 4), "x4(x)"),
    ],
)
def test_text(e, text):
    assert str(e) == text
    assert repr(e) == text


def test_python_reads_the_same_value_back():
    words = {
        "min": min,
        "max": max,
        "truncdiv": trunc,
        "truncmod": lambda a, b: a - b * trunc(a, b),
        "int64": int,
        "select": lambda c, a, b: a if c else b,
        "if_then_else": lambda c, a, b: a if c else b,
    }
    checked = 0
    for seed in range(800):
        source = Source(seed)
        built = source.integer(4)
        if "if_then_else" in str(built.expr):  # eager in Python
            continue
        env = source.env()
        names = dict(zip(("i", "j", "k"), source.loops, strict=True)) | {"n": source.divisor}
        text = show(built.expr, {v: n for n, v in names.items()}.__getitem__)
        try:
            want = evaluate(built.expr, env)
            got = eval(text, words | {n: env[v] for n, v in names.items()})
        except ZeroDivisionError:
            continue
        assert got == want, text
        checked += 1
    assert checked > 400


def test_names_are_made_unique_by_the_namer():
    a, b = Var("i", INT32), Var("i", INT32)
    supply = NameSupply()
    assert show(a * 8 + b, lambda v: supply.of(v, v.name)) == "i*8 + i_1"


def test_vectors_of_indices():
    r = make.ramp(i * 4, 2, 8)
    assert type(r) is Ramp and r.dtype.name == "int32x8"
    assert str(r + make.broadcast(j, 8)) == "ramp(i*4 + j, 2, 8)"
