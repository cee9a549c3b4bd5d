"""Kernels between guard pages, in a process of their own: what touches a byte outside kills it, and the seed
is in its last line."""

from __future__ import annotations

import os
import re
import signal

import pytest

from tests.fresh import python

ROUNDS = os.environ.get("TENSORLANG_FUZZ_ROUNDS")


def runs_clean(*arguments: str) -> tuple[int, int]:
    """(pairs, runs) of a process that must end well."""
    done = python("import tests.guard.run as r; raise SystemExit(r.main())", *arguments, timeout=3000)
    told = [line for line in done.stdout.splitlines() if line.startswith("@")]
    assert done.returncode == 0, (
        f"ended with {done.returncode} in {told[-1] if told else 'the first pair'}; "
        f"python -m tests.guard.run --seed N --count 1\n{done.stderr[-3000:]}"
    )
    found = re.search(r"(\d+) pairs, (\d+) runs", done.stdout)
    assert found is not None, done.stdout[-500:]
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("part", range(3))
def test_random_pairs_touch_nothing_outside(part: int) -> None:
    pairs, runs = runs_clean("--seed", str(50_000 + 1000 * part), "--count", "50")
    assert pairs >= 45 and runs >= 4 * pairs


@pytest.mark.fuzz
@pytest.mark.skipif(ROUNDS is None, reason="make fuzz")
def test_many_random_pairs_touch_nothing_outside() -> None:
    wanted = max(1000, int(ROUNDS or 0) // 20)
    assert runs_clean("--seed", "70000", "--count", str(wanted + wanted // 20))[0] >= wanted


@pytest.mark.parametrize("family", ("gather", "strided", "guarded", "conv2d", "stencil", "clamped", "sparse"))
def test_families_whose_reads_are_least_regular(family: str) -> None:
    pairs, _ = runs_clean("--seed", "60000", "--count", "12", "--family", family)
    assert pairs >= 10


OUTSIDE = """
import ctypes, os, sys
import numpy as np
from tests.guard.arena import Arena
for case in sys.argv[1:]:
    at_end, offset, n = map(int, case.split())
    if child := os.fork():
        print("@ ended", case, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    arena = Arena()
    arena.place(bool(at_end))
    with arena.copies([np.arange(n, dtype="float32")]) as (a,):
        assert a[0] == 0 and a[-1] == n - 1
        print("@ inside", case, flush=True)
        ctypes.c_char.from_address(a.ctypes.data + offset).value
        print("@ outside", case, flush=True)
    os._exit(0)
"""


def test_the_guards_guard() -> None:
    """(at the end of its pages, offset of the byte that is read, elements): whether that ends the process."""
    cases = {
        (True, 4 * 100, 100): True,
        (True, 4 * 100 - 1, 100): False,
        (False, -1, 100): True,
        (False, 0, 100): False,
        (True, 4 * 1024, 1024): True,
        (True, -1, 1024): True,
        (True, 4, 1): True,
        (False, 4096, 1024): True,
    }
    words = {case: " ".join(str(int(x)) for x in case) for case in cases}
    told = python(OUTSIDE, *words.values()).stdout.splitlines()
    for case, dies in cases.items():
        assert f"@ inside {words[case]}" in told, case
        assert (f"@ outside {words[case]}" in told) != dies, case
        (code,) = [line.rpartition(" ")[2] for line in told if line.startswith(f"@ ended {words[case]} ")]
        assert (int(code) == -signal.SIGSEGV) == dies and (int(code) == 0) != dies, case


UNMASKED = """
from tensorlang.codegen.llvm import memory
plain = memory._load_raw
memory._load_raw.__globals__["_load_raw"] = lambda em, buffer, place, mask, element, t: plain(em, buffer, place, None, element, t)
from tests.guard.run import Arena, run_pair
import tensorlang as tl
from tensorlang import te
A = te.placeholder((13,), name="A")
B = te.compute((13,), lambda i: A[i] * 2, name="B")
s = te.create_schedule(B.op)
s[B].vectorize(s[B].split(B.op.axis[0], 8)[1])
print(run_pair(Arena(), [A, B], [B], {"A": (0, 5)}, s, ({},), "masks dropped"))
"""


def test_a_load_without_its_mask_is_found_though_its_result_is_right() -> None:
    done = python(UNMASKED)
    last = done.stdout.splitlines()[-1]
    assert done.returncode < 0 and "arrays at the end" in last, (done.returncode, done.stdout, done.stderr)


EMPTY = """
import itertools
import numpy as np
import tensorlang as tl
from tensorlang import ops, te
from tests.guard.arena import Arena

arena = Arena()
arena.serve_kernels()
m, n = te.var("m"), te.var("n")
for dtype in ("float32", "int32"):
    x, v = te.placeholder((m, n), dtype, name="x"), te.placeholder((n,), dtype, name="v")
    made = {}
    for a in (x, v):
        for axis in range(a.ndim):
            for f in (ops.cummax, ops.cummin):
                made[f"{f.__name__} {a.name} {axis}"] = a, f(a, axis)
            made[f"cumsum {a.name} {axis}"] = a, ops.cumsum(a, axis, reverse=True)
        made[f"sort {a.name}"] = a, ops.sort(a, -1)
    for what, (a, outputs) in made.items():
        print("@", dtype, what, flush=True)
        outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
        f = tl.compile([a, *outputs], name="k")
        for rows, columns, at_end in itertools.product((0, 1, 3, 17), (0, 1, 5), (False, True)):
            arena.place(at_end)
            with arena.copies([np.ones((rows, columns)[-a.ndim :], dtype)]) as (given,):
                f(given)
print("@ all")
"""


def test_nothing_is_read_of_arrays_without_elements() -> None:
    """The largest so far began with the first element, whether there was one or not."""
    done = python(EMPTY)
    assert done.stdout.splitlines()[-1:] == ["@ all"], (
        f"ended with {done.returncode}: {done.stdout[-60:]}{done.stderr}"
    )
