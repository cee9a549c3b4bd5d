"""Memory for temporaries: sizes, alignment, what is kept and what is given back; allocators of their own,
beside the one kernels use."""

from __future__ import annotations

import ctypes
import itertools
import resource
import sys
import threading

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import options, te
from tensorlang.errors import TensorLangError
from tensorlang.native import memory
from tensorlang.runtime import workspace
from tests.fresh import python

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is kept on Linux only")
MIB = 1 << 20


class Allocator:
    """A workspace of this test alone, with its own budget and patience."""

    def __init__(self, budget: int = 64 * MIB, idle: int = 1000) -> None:
        self.space = workspace.start()
        self.space.settings.budget, self.space.settings.idle = budget, idle
        self.alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(self.space.address["tensorlang_alloc"])
        self.free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.space.address["tensorlang_free"])
        self.release = self.space.release

    def use(self, size: int) -> int:
        p = self.alloc(size)
        assert p
        self.free(p)
        return p


SIZES = [
    0,
    1,
    63,
    64,
    65,
    4096,
    65_471,
    65_472,
    65_473,
    81_856,
    81_857,
    131_008,
    131_009,
    2 * MIB - 64,
    2 * MIB,
    5 * MIB + 1,
    33 * MIB,
]


def test_every_size_is_aligned_apart_and_writable_to_its_end() -> None:
    a = Allocator()
    blocks = []
    for size in SIZES * 2:
        p = a.alloc(size)
        assert p and p % 64 == 0
        ctypes.memset(p, size % 251, size)
        blocks.append((p, size))
    blocks.sort()
    assert all(p + size <= q for (p, size), (q, _) in itertools.pairwise(blocks))
    for p, size in blocks:
        assert size == 0 or ctypes.string_at(p, size) == bytes([size % 251]) * size
        a.free(p)
    assert 0 < a.release() <= 64 * MIB
    assert a.release() == 0


@pytest.mark.parametrize("size", [-1, -(2**63), 2**62 + 1, 2**63 - 1, 2**61])
def test_sizes_that_cannot_be(size: int) -> None:
    assert Allocator().alloc(size) is None


def test_what_is_freed_serves_again() -> None:
    a = Allocator()
    first = a.use(300_000)
    assert a.use(300_000) == first
    assert a.use(290_000) == first, "a little less fits"
    assert a.use(200_000) == first, "at most twice as large is taken"
    assert a.use(100_000) != first, "a much larger one is kept for those who need it"
    two = {a.alloc(300_000), a.alloc(300_000)}
    assert len(two) == 2 and first in two


def test_a_second_use_faults_no_page() -> None:
    a = Allocator()
    p = a.alloc(1_000_000)
    ctypes.memset(p, 1, 1_000_000)
    a.free(p)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        p = a.alloc(1_000_000)
        ctypes.memset(p, 1, 1_000_000)
        a.free(p)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 20, (
        "fewer than one an iteration; 244 each when memory is fresh"
    )


def test_the_budget() -> None:
    a = Allocator(budget=3 * MIB)
    blocks = [a.alloc(MIB - 64) for _ in range(8)]
    for p in blocks:
        a.free(p)
    assert a.release() == 3 * MIB, "what came last"
    a.use(4 * MIB)
    assert a.release() == 0, "larger than the budget"


def test_more_blocks_than_places() -> None:
    a = Allocator(budget=1 << 40)
    blocks = [a.alloc(70_000) for _ in range(memory.SLOTS + 20)]
    for p in blocks:
        a.free(p)
    assert a.release() == memory.SLOTS * 80 * 1024


def test_what_nobody_asks_for_is_given_back() -> None:
    a = Allocator(idle=0)  # looks at every free
    a.use(5 * MIB)
    for _ in range(3):
        a.use(300_000)
    assert a.release() < MIB
    b = Allocator()
    b.use(5 * MIB)
    for _ in range(3):
        b.use(300_000)
    assert b.release() > 5 * MIB, "not within the time it is kept"


def test_threads_that_end_leave_no_memory_behind() -> None:
    a = Allocator(budget=8 * MIB)
    for _ in range(40):
        t = threading.Thread(target=lambda: [a.use(2 * MIB), a.use(100_000)])
        t.start()
        t.join()
    assert a.release() <= 8 * MIB


def test_kept_memory_is_given_back_before_there_is_none() -> None:
    """Under a limit of the address space a block fits only where a kept one was; without any the answer is
    null, not a crash."""
    script = """
import resource
from tests.runtime.test_workspace import MIB, Allocator
a = Allocator(budget=1 << 40)
a.use(200 * MIB)
now = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (now + 100 * MIB, now + 100 * MIB))
p = a.alloc(260 * MIB)
print(p is not None, a.alloc(260 * MIB) is None, a.release())
"""
    done = python(script)
    assert done.stdout == "True True 0\n", done.stdout + done.stderr


@pytest.mark.parametrize("value", ["-1", "many", "1.5", "1M", "²", str(2**62)])
def test_bad_budgets_in_the_environment(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORLANG_WORKSPACE_BYTES", value)
    with pytest.raises(TensorLangError, match="TENSORLANG_WORKSPACE_BYTES"):
        options.workspace_bytes()


def test_budgets_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORLANG_WORKSPACE_BYTES", str(MIB))
    a = workspace.start()
    assert a.settings.budget == MIB
    monkeypatch.setenv("TENSORLANG_WORKSPACE_BYTES", "0")
    b = Allocator()
    for size in SIZES:
        p = b.use(size)
        assert p % 64 == 0
    assert b.release() == 0


def test_kernels_use_it_and_a_nested_kernel_too() -> None:
    """A temporary of a kernel whose Python callback runs another kernel with a temporary."""
    n = 40_000

    def chained(name: str) -> tuple[te.Tensor, te.Tensor]:
        A = te.placeholder((n,), name="A")
        T = te.compute((n,), lambda i: A[n - 1 - i] + 1, name="T")
        return A, te.compute((n,), lambda i: T[n - 1 - i] * 2, name=name)

    inner_args = chained("C")
    inner = tl.build(te.create_schedule(inner_args[1].op), list(inner_args))
    tl.register_func("tests.workspace.inner", lambda x, y: inner(x, y), override=True)
    A, T = chained("T2")
    E = te.extern(
        (n,),
        [T],
        lambda ins, outs: te.call_packed("tests.workspace.inner", ins[0], outs[0]),
        dtype="float32",
        name="E",
    )
    C = te.compute((n,), lambda i: E[i] + T[i], name="C")
    outer = tl.build(te.create_schedule(C.op), [A, C])
    x = (np.arange(n) % 9).astype("float32")
    tl.release_workspace()
    for _ in range(3):
        np.testing.assert_array_equal(outer(x), (x + 1) * 2 + ((x + 1) * 2 + 1) * 2)
    assert tl.release_workspace() > 3 * 4 * n, "temporaries of both were kept"


def test_a_far_reach_takes_any_larger_block_the_nearest_first() -> None:
    a = Allocator()
    blocks = [a.alloc(size) for size in (8 * MIB, 300_000, 2 * MIB)]
    for p in blocks:
        a.free(p)
    large, small, middle = blocks
    a.space.settings.reach = workspace.FAR_REACH
    assert a.use(70_000) == small and a.use(400_000) == middle and a.use(3 * MIB) == large
    held = a.alloc(70_000)
    assert held == small and a.use(70_000) == middle
