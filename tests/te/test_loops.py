"""te.loops: a program of one's own by all three oracles, its text, its JSON form, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.loop_builder import vectors_of
from tensorlang.target import Target
from tensorlang.te.reference import evaluate
from tensorlang.te.serialize import from_json, to_json


@te.loop_program("test.collatz", lambda x: [np.array([_steps(int(v)) for v in x]), np.int32(len(x))])
def collatz(b, given, made):
    """How many of at most 99 steps each number takes to 1."""
    (x,), (steps, count) = given, made
    with b.loop("i", x.shape[0], parallel=True) as i:
        n, done = b.cell("n", "int64", x[i]), b.cell("done", "int64", 0)
        with b.loop("step", 99), b.when(n.value > 1):
            old = b.let("old", n.value)
            with b.when((old % 2).equal(0)):
                n.set(old // 2)
            with b.otherwise():
                n.set(old * 3 + 1)
            done.set(done.value + 1)
        steps[i] = done.value
    count[()] = x.shape[0]


def _steps(n):
    done = 0
    while n > 1 and done < 99:
        n, done = n // 2 if n % 2 == 0 else n * 3 + 1, done + 1
    return done


def declared(size):
    x = te.placeholder((size,), "int64", name="x")
    doubled = te.compute((size,), lambda i: x[i] + 1, name="next")
    return x, te.loops(collatz, [doubled], [(size,), ()], ["int64", "int32"])


def test_all_three_oracles_agree():
    x, (steps, count) = declared(te.var("n"))
    a = np.arange(1, 30)
    s = te.create_schedule([steps.op])
    kernel = tl.build(s, [x, steps, count])
    want = np.array([_steps(v + 1) for v in a])
    got = kernel(a)
    assert np.array_equal(got[0], want) and got[1] == 29
    assert all(np.array_equal(e, g) for e, g in zip(evaluate([steps, count], {x: a}), got, strict=True))
    out, n = np.zeros_like(want), np.zeros((), "int32")
    interpret(tl.lower(s, [x, steps, count]), a, out, n)
    assert np.array_equal(out, want) and n == 29


def test_the_text_is_that_of_any_kernel():
    x, (steps, count) = declared(5)
    text = str(tl.lower(te.create_schedule([steps.op]), [x, steps, count]))
    for line in ("in parallel(0, 5):", "n: int64[1] local", "old = n[0]", "else:", "n[0] = old*3 + 1"):
        assert line in text, text


def test_a_result_nobody_names_is_memory_of_the_kernel():
    x, (steps, _) = declared(5)
    a = np.arange(5)
    kernel = tl.build(te.create_schedule([steps.op]), [x, steps])
    assert np.array_equal(kernel(a), [_steps(v + 1) for v in a])
    with pytest.raises(tl.LowerError, match=r"output `test.collatz.v0` is missing"):
        tl.build(te.create_schedule([steps.op]), [x])


def test_it_travels_as_text():
    x, (steps, count) = declared(te.dim("n", 1, 9))
    text = to_json([x, steps, count])
    back = from_json(text)
    assert to_json(back) == text
    assert back[1].op.program is collatz


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: te.loops(len, [x], [()], ["int32"]), "is not a program"),
        (lambda x: te.loops(collatz, [3], [()], ["int32"]), "is not a tensor"),
        (lambda x: te.loops(collatz, [x], [()], []), "1 shape and 0 dtypes"),
        (lambda x: te.loop_program("test.collatz", None)(lambda b, i, o: None), "the name is taken"),
    ],
)
def test_refusals(call, text):
    with pytest.raises(tl.DeclareError, match=text):
        call(te.placeholder((3,), name="x"))


def test_mistakes_of_a_program():
    @te.loop_program("test.wrong", lambda x: [x])
    def wrong(b, given, made):
        with b.otherwise():
            made[0][0] = 0

    @te.loop_program("test.indices", lambda x: [x])
    def indices(b, given, made):
        made[0][0] = given[0][0, 0]

    x = te.placeholder((3,), name="x")
    for program, text in ((wrong, "otherwise without a when"), (indices, "2 indices of x")):
        (y,) = te.loops(program, [x], [(3,)], ["float32"])
        with pytest.raises(tl.LowerError, match=text):
            tl.compile([x, y])


@te.loop_program("test.at_most", lambda x: [_at_most(x)])
def at_most(b, given, made):
    """The sum of the first five positive elements, each condition in the block of one that it makes false
    while that runs; and how often eight neighbours, added at once, exceed that of all before."""
    (x,), (out,) = given, made
    left, total, best = b.cell("left", "int64", 5), b.cell("total", "int64", 0), b.cell("best", "int64", 0)
    with b.when(left.value > 0), b.loop("i", x.shape[0]) as i, b.when(te.all(left.value > 0, x[i] > 0)):
        left.set(left.value - 1)
        total.set(total.value + x[i])
        with b.when(left.value > 0):
            x_left = b.let("x_left", left.value)
            total.set(total.value + te.min(x_left, 0))
    with (
        b.loop("block", x.shape[0] // 8) as block,
        b.when(best.value < 10),
        b.loop("k", 8, block * 8, vector=True) as k,
    ):
        best.set(te.max(best.value, x[k]))
    count = b.cell("count", "int64", left.value)
    with b.loop("k", count.value):
        count.set(count.value + 1)
    out[0], out[1], out[2] = total.value, best.value, count.value


def _at_most(x):
    first, best = [v for v in x if v > 0][:5], 0
    for block in range(len(x) // 8):
        best = max(best, *x[block * 8 : block * 8 + 8]) if best < 10 else best
    return np.array([sum(first), best, 2 * (5 - len(first))])


@pytest.mark.parametrize("size", [0, 7, 8, 40, te.var("n")], ids=str)
def test_conditions_are_tested_again_where_what_they_read_has_changed(size):
    x = te.placeholder((size,), "int64", name="x")
    outs = te.loops(at_most, [x], [(3,)], ["int64"])
    s = te.create_schedule([outs[0].op])
    for count in [size] if isinstance(size, int) else [0, 3, 9, 50]:
        a = np.random.default_rng(count).integers(-9, 14, count)
        want, out = _at_most(a), np.zeros(3, "int64")
        assert np.array_equal(tl.build(s, [x, *outs])(a), want)
        interpret(tl.lower(s, [x, *outs]), a, out)
        assert np.array_equal(out, want)


@te.loop_program("test.kept", lambda x, lanes: _kept(x))
def kept(b, given, made, lanes):
    """The places of elements above 3 and these, one behind the other, and how many there are."""
    (x,), (places, values, count) = given, made
    many = b.cell("many", "int32", 0)
    for memory in (places, values):
        with b.loop("i", x.shape[0]) as i:
            memory[0, i] = 0
    with (
        b.loop("block", x.shape[0] // lanes) as block,
        b.loop("k", lanes, block * lanes, vector=True) as k,
        b.when(x[k] > 3),
    ):
        places[0, many.value] = te.cast("int32", k)
        values[0, many.value] = x[k]
        many.set(many.value + 1)
    count[()] = many.value


def _kept(x):
    (places,) = np.nonzero(x > 3)
    return [places[None], x[places][None], np.int32(len(places))]


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 16), ("int64", 8), ("int64", 16), ("int8", 4)])
@pytest.mark.parametrize("cpu", ["znver4", "haswell"])
def test_what_is_kept_of_a_vector_is_packed(dtype, lanes, cpu):
    x = te.placeholder((96,), dtype, name="x")
    outs = te.loops(kept, [x], [(1, 96), (1, 96), ()], ["int32", dtype, "int32"], attrs={"lanes": lanes})
    s = te.create_schedule([outs[0].op])
    with vectors_of(Target.parse(f"llvm -mcpu={cpu}").vector_bits):
        func = tl.lower(s, [x, *outs])
    # of one register, where processors do that
    assert ("packed(x[" in str(func)) == (cpu == "znver4" and (dtype, lanes) != ("int64", 16) and lanes > 4)
    kernel = tl.build(s, [x, *outs])
    for a in (np.arange(96) % 8, np.zeros(96), np.full(96, 5), np.random.default_rng(1).integers(0, 9, 96)):
        a = a.astype(dtype)
        want = _kept(a)
        got = [np.zeros((1, 96), "int32"), np.zeros((1, 96), dtype), np.zeros((), "int32")]
        interpret(func, a, *got)
        for result in (got, kernel(a)):
            assert result[2] == want[2]
            assert all(np.array_equal(r[:, : want[2]], w) for r, w in zip(result[:2], want, strict=False))


def test_a_vector_loop_is_done_at_once():
    x = te.placeholder((40,), "int64", name="x")
    outs = te.loops(at_most, [x], [(3,)], ["int64"])
    text = str(tl.lower(te.create_schedule([outs[0].op]), [x, *outs]))
    assert "max(x[block*8 : block*8 + 8])" in text
