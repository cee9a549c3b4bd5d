"""Functions in a small part of Python as machine code: the same functions run as Python are the oracle."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from tensorlang.native.translate import module_text
from tensorlang.native.types import Array, CFunctions, Global, Struct, at, f64, i1, i8, i32, i64, ptr
from tensorlang.native.words import (
    acq_rel,
    address,
    cast,
    compare_exchange,
    exchange,
    fetch_add,
    inline,
    load,
    local,
    lshr,
    relaxed,
    select,
    seq_cst,
    unrolled,
)
from tensorlang.runtime.loader import load_functions

WIDTHS = (3, 5, 7)
CODE: list[Any] = []  # machine code lives as long as the functions


def native(*functions: Callable[..., Any]) -> list[Callable[..., int]]:
    code = load_functions({f.__name__: f for f in functions})
    CODE.append(code)
    return [
        ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * f.__code__.co_argcount)(code.address[f.__name__])
        for f in functions
    ]


def gcd(a: i64, b: i64) -> i64:
    while b != 0:
        a, b = b, a % b
    return a


def primes(most: i64) -> i64:
    count = 0
    for n in range(2, most):
        d = 2
        while True:
            if d * d > n:
                count += 1
                break
            if n % d == 0:
                break
            d += 1
    return count


def collatz(n: i64) -> i64:
    steps = 0
    while n != 1:
        steps += 1
        if n & 1 == 0:
            n = n >> 1
            continue
        n = 3 * n + 1
    return steps


def conditions(a: i64, b: i64) -> i64:
    found = 0
    if a > 3 and (b < 0 or a == b) and not (b == 5 or b == -5):
        found += 1
    elif 0 <= a < 3 or b == 7:
        found += 2
    else:
        found -= 1
    found += 10 if a > b else 20
    both = a > 0 and b > 0
    return found + (100 if both else 200 if a == 0 else 300)


@inline
def clamped(x: i64, low: i64, high: i64) -> i64:
    if x < low:
        return low
    if x > high:
        return high
    return x


def clamps(a: i64, b: i64) -> i64:
    total = 0
    for x in range(a, b):
        total += clamped(x, -2, 4) * 2
    return total + clamped(a, b, max(a, b) + min(3, abs(a)))


def written_out(a: i64) -> i64:
    total = a
    for w in WIDTHS:
        total = total * 2 + w
    return total


def widths(a: i64) -> i64:
    total = a
    for w in unrolled(WIDTHS):
        total = total * 2 + w
    return total


@pytest.fixture(scope="module")
def made() -> dict[str, Callable[..., int]]:
    functions = (gcd, primes, collatz, conditions, widths)
    return dict(zip((f.__name__ for f in functions), native(*functions), strict=True))


def test_python_and_machine_code_agree(made: dict[str, Callable[..., int]]) -> None:
    for a in range(-2, 9):
        assert made["widths"](a) == written_out(a)
        for b in range(-6, 9):
            assert made["conditions"](a, b) == conditions(a, b), (a, b)
            if a >= 0 and b >= 0:
                assert made["gcd"](a, b) == gcd(a, b)
    assert [made["collatz"](n) for n in range(1, 40)] == [collatz(n) for n in range(1, 40)]
    assert [made["primes"](n) for n in (0, 2, 3, 50)] == [primes(n) for n in (0, 2, 3, 50)]


def test_inlined_functions_are_no_calls() -> None:
    (f,) = native(clamps)
    python = clamped.function  # type: ignore[attr-defined]
    for a, b in ((-5, 9), (3, 3), (0, 6)):
        expected = sum(python(x, -2, 4) * 2 for x in range(a, b)) + python(a, b, max(a, b) + min(3, abs(a)))
        assert f(a, b) == expected
    assert "@clamped" not in module_text({"clamps": clamps})


class Inner(Struct, size=16):
    count: i32
    mark: i8


class Outer(Struct):
    flag: i8
    number: i64
    half: f64
    inner: Array[Inner] = at(64, Inner, 3)
    last: i32


memory = Global("memory", Outer)


def fill(n: i64) -> i64:
    memory.flag, memory.number = i8(n), n * n
    memory.half = f64(n) * 0.5
    for i in range(3):
        part = memory.inner[i]
        part.count, part.mark = i32(n + i), -1
    memory.last += 7
    return i64(memory.inner[2].count) + i64(memory.inner[0].mark)


def test_structures_are_where_python_sees_them() -> None:
    code = load_functions({"fill": fill, "memory": memory})
    view = Outer.view(code.address["memory"])
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address["fill"])(9) == 10
    assert (view.flag, view.number, view.half, view.last) == (9, 81, 4.5, 7)
    assert [Inner.view(view.address_of("inner", i)).count for i in range(3)] == [9, 10, 11]
    view.last = -2
    assert view.last == -2 and Outer.size == 116 and Outer.fields["number"][1] == 8
    with pytest.raises(AttributeError, match="nothing"):
        _ = view.nothing


def atomics(n: i64) -> i64:
    words = local(i64, 2)
    words[0], words[1] = n, 5
    before = fetch_add(words[0], 3, relaxed)
    swapped = compare_exchange(words[1], 5, exchange(words[0], 100, seq_cst), acq_rel)
    again = compare_exchange(words[1], 5, 1, acq_rel)
    return load(words[1], relaxed) + before * 1000 + i64(swapped) * 100_000 + i64(again)


def bits(n: i64) -> i64:
    p = cast(i8, address(local(i64)[0]))
    p[0], p[1] = i8(n), i8(n >> 8)
    return lshr(-1, 63) + select(n > 0, i64(p[1]), ~n)


def test_words() -> None:
    f, g = native(atomics, bits)
    assert f(7) == 10 + 7000 + 100_000
    assert g(0x1234) == 0x12 + 1 and g(-6) == 5 + 1


lib = CFunctions("i64 labs(i64)", "i32 snprintf(ptr, i64, ptr, ...)")


def length(p: ptr, n: i64) -> i64:
    return lib.snprintf(None, 0, p, n) + 0 * lib.labs(n)


def widened(p: ptr, n: i64) -> i64:
    return i64(lib.snprintf(None, 0, p, n)) + lib.labs(n)


def test_functions_of_c() -> None:
    (f,) = native(widened)
    text = ctypes.create_string_buffer(b"%ld.")
    assert f(ctypes.addressof(text), -123) == 5 + 123


def lost(a: i64) -> i1:
    return lib.missing(a)


def mixed_up(a: i64) -> i64:
    a = i32(a) if a > 0 else a
    return a


@pytest.mark.parametrize(
    ("function", "why"),
    [(length, "i32 meets i64"), (lost, "missing is not declared"), (mixed_up, "a variable is i32, i64")],
)
def test_mistakes_name_the_line(function: Callable[..., Any], why: str) -> None:
    with pytest.raises((TypeError, AttributeError), match=why) as caught:
        module_text({"f": function})
    assert f"{function.__code__.co_firstlineno + 1}: " in caught.value.__notes__[0]
    assert "test_translate.py" in caught.value.__notes__[0]


def test_the_text_is_the_same_each_time() -> None:
    assert module_text({"primes": primes}) == module_text({"primes": primes})
