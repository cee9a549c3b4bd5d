"""Loops, branches, parallel regions, allocations, several kernels in a module, threads of compilation."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest

from tensorlang.codegen import compile_ll, emit, kernel_signature
from tensorlang.codegen.llvm import statement
from tensorlang.errors import TensorLangError
from tensorlang.expr.nodes import Expr
from tensorlang.interface.signature import evaluate
from tensorlang.loopir.stmt import VECTORIZED, Evaluate, Stmt

from . import helper
from .helper import (
    PARALLEL,
    Alloc,
    For,
    Func,
    If,
    Kernel,
    Let,
    Store,
    Target,
    buffer,
    i32,
    load,
    loop,
    make,
    ramp,
    run,
    seq,
    var,
)

rng = np.random.default_rng(2)


def test_nothing_at_all() -> None:
    run(Func("k", (), seq()))


@pytest.mark.parametrize("extent", [-1, 0, 1, 2, 5])
@pytest.mark.parametrize("dynamic", [False, True])
def test_loops_of_every_extent(extent: int, dynamic: bool) -> None:
    n, b = var("n", "int64", "value"), var("b", kind="value")
    y = buffer("Y", "int32", 10)
    count: Expr = make.cast("int32", n) if dynamic else i32(extent)
    func = Func("k", (y, n, b), loop(count, lambda i: Store(y, load(y, (i,)) + i, (i,)), begin=b), (), (y,))
    got = np.zeros(10, "int32")
    run(func, got, scalars=(extent, 3))
    want = np.zeros(10, "int32")
    want[3 : 3 + max(0, extent)] = np.arange(3, 3 + max(0, extent))
    np.testing.assert_array_equal(got, want)


def test_if_with_and_without_else() -> None:
    y = buffer("Y", "int32", 6)
    func = Func(
        "k",
        (y,),
        loop(
            6,
            lambda i: seq(
                If(
                    make.lt(i, i32(3)), Store(y, i32(1), (i,)), If(make.eq(i, i32(4)), Store(y, i32(2), (i,)))
                ),
                If(make.const(True), Store(y, load(y, (i,)) + 10, (i,))),
            ),
        ),
        (),
        (y,),
    )
    got = np.zeros(6, "int32")
    run(func, got)
    np.testing.assert_array_equal(got, [11, 11, 11, 10, 12, 10])


def test_a_scalar_mask_is_a_branch() -> None:
    x, y = buffer("X", "int32", 4), buffer("Y", "int32", 4, 4)
    func = Func(
        "k",
        (x, y),
        loop(
            4,
            lambda i: Store(
                y, load(x, (ramp(0, 4),), make.lt(i, i32(3))), (i, ramp(0, 4)), make.lt(i32(0), i)
            ),
        ),
        (),
        (y,),
    )
    a, b = np.arange(4, dtype="int32") + 1, np.full((4, 4), 9, "int32")
    run(func, a, b)
    np.testing.assert_array_equal(b, [[9] * 4, a, a, [0] * 4])


def matmul(m: int, n: int, k: int, mr: int, nr: int, lanes: int, kind: str = PARALLEL) -> Func:
    """A register-tiled matmul as it comes out of the pass pipeline: unrolled, vectorised, accumulators in a
    local buffer."""
    a, b, c = buffer("A", "float32", m, k), buffer("B", "float32", k, n), buffer("C", "float32", m, n)
    acc = buffer("C.local", "float32", mr, nr, scope="local")
    tiles = [(i32(r), ramp(v, lanes)) for r in range(mr) for v in range(0, nr, lanes)]

    def tile(i: Expr, j: Expr) -> Alloc:
        return Alloc(
            acc,
            seq(
                *[Store(acc, make.const(0.0, f"float32x{lanes}"), t) for t in tiles],
                loop(
                    k,
                    lambda q: seq(
                        *[
                            Store(
                                acc,
                                load(acc, (r, at))
                                + make.broadcast(load(a, (i * mr + r, q)), lanes)
                                * load(b, (q, at + make.broadcast(j * nr, lanes))),
                                (r, at),
                            )
                            for r, at in tiles
                        ]
                    ),
                    name="k",
                ),
                *[
                    Store(c, load(acc, (r, at)), (i * mr + r, at + make.broadcast(j * nr, lanes)))
                    for r, at in tiles
                ],
            ),
        )

    return Func(
        "matmul",
        (a, b, c),
        loop(m // mr, lambda i: loop(n // nr, lambda j: tile(i, j), name="j"), kind),
        (),
        (c,),
    )


@pytest.mark.parametrize("lanes", [8, 16])
def test_register_tiled_matmul(lanes: int) -> None:
    m, n, k = 36, 64, 50
    a, b = (rng.integers(-8, 8, s).astype("float32") for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, "float32")
    helper.regions.clear()
    run(matmul(m, n, k, 6, 16, lanes), a, b, c)
    np.testing.assert_array_equal(c, a @ b)
    assert helper.regions == [(0, 6)]


def test_parallel_captures_dims_scalars_lets_and_outer_loop_variables() -> None:
    n = var("n", kind="dim")
    s, v = var("s", "float32", "value"), var("v", "float32", "value")
    x, y = buffer("X", "float32", n, n), buffer("Y", "float32", n, n)

    def row(i: Expr) -> Let:
        return Let(
            v,
            load(x, (i, i32(0))),
            loop(n - i, lambda j: Store(y, load(x, (i, j)) * s + v, (i, j)), PARALLEL, begin=i),
        )

    func = Func("k", (x, s, y), loop(n, row), (n,), (y,))
    kernel = Kernel(func)
    for size in (1, 5, 8):
        a = rng.integers(-8, 8, (size, size)).astype("float32")
        b = np.zeros((size, size), "float32")
        assert kernel(a, b, dims=(size,), scalars=(3.0,)) == 0
        np.testing.assert_array_equal(b, np.triu(a * 3 + a[:, :1]))


def test_nested_parallel_loops_and_buffers_shared_by_them() -> None:
    y = buffer("Y", "int32", 4, 6)
    t = buffer("T", "int32", 6, scope="local")
    func = Func(
        "k",
        (y,),
        loop(
            4,
            lambda i: Alloc(
                t,
                seq(
                    loop(6, lambda j: Store(t, i * 10 + j, (j,)), PARALLEL),
                    loop(6, lambda j: Store(y, load(t, (5 - j,)), (i, j))),
                ),
            ),
            PARALLEL,
        ),
        (),
        (y,),
    )
    got = np.zeros((4, 6), "int32")
    run(func, got)
    np.testing.assert_array_equal(got, np.arange(4)[:, None] * 10 + np.arange(6)[::-1])


def scratch(size: int | Expr, parallel: bool) -> tuple[Func, tuple[Expr, ...]]:
    n = var("n", kind="dim")
    x, y = buffer("X", "float32", n), buffer("Y", "float32", n)
    t = buffer("T", "float32", n, scope="global")
    u = buffer("U", "float32", 40000, scope="global")
    work = loop(
        4,
        lambda r: Alloc(u, seq(Store(u, load(t, (r,)) + 1, (r,)), Store(y, load(u, (r,)) * 2, (r,)))),
        PARALLEL if parallel else "serial",
    )
    return Func(
        "k", (x, y), Alloc(t, seq(loop(n, lambda i: Store(t, load(x, (i,)), (i,))), work)), (n,), (y,)
    ), (n,)


@pytest.fixture
def all_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory of an open size lies on the stack, be it small."""
    monkeypatch.setattr(statement, "SMALL", 0)


@pytest.mark.usefixtures("all_asked_for")
@pytest.mark.parametrize("parallel", [False, True])
def test_run_time_allocations_are_freed_also_when_one_fails(parallel: bool) -> None:
    func, _ = scratch(0, parallel)
    kernel = Kernel(func)
    a, b = np.arange(6, dtype="float32"), np.zeros(6, "float32")
    try:
        for budget in (0, 1, None):
            helper.fail_after[0] = budget
            assert kernel(a, b, dims=(6,)) == (0 if budget is None else 1)
            assert not helper.live_blocks
    finally:
        helper.fail_after[0] = None
    np.testing.assert_array_equal(b, [2, 4, 6, 8, 0, 0])


def test_a_loop_allocates_what_has_one_size_once() -> None:
    func, _ = scratch(0, parallel=False)
    kernel = Kernel(func)
    a, b = np.arange(6, dtype="float32"), np.zeros(6, "float32")
    try:
        helper.fail_after[0] = 2  # T, and U for all four iterations
        assert kernel(a, b, dims=(6,)) == 0
        assert not helper.live_blocks
    finally:
        helper.fail_after[0] = None
    np.testing.assert_array_equal(b, [2, 4, 6, 8, 0, 0])


def test_allocations_after_other_statements_and_in_inner_loops_are_made_once() -> None:
    """As those of softmax by rows, behind the row's greatest element: 0.1 µs a row."""
    n = var("n", kind="dim")
    x, y, some = buffer("X", "float32", n), buffer("Y", "float32", n), buffer("S", "float32", 1)
    t, u = (buffer(name, "float32", n, scope="global") for name in "TU")

    def inner(i: Expr, j: Expr) -> Stmt:
        return Alloc(
            u,
            seq(Store(u, load(t, (i,)) + load(some, (make.const(0),)), (j,)), Store(y, load(u, (j,)), (i,))),
        )

    def row(i: Expr) -> Stmt:
        kept = seq(Store(t, load(x, (i,)) * 2, (i,)), loop(3, lambda j: inner(i, j)))
        return Alloc(some, seq(Store(some, make.const(1.0), (make.const(0),)), Alloc(t, kept)))

    kernel = Kernel(Func("k", (x, y), loop(n, row), (n,), (y,)))
    a, b = np.arange(6, dtype="float32"), np.zeros(6, "float32")
    try:
        helper.fail_after[0] = 2
        assert kernel(a, b, dims=(6,)) == 0 and not helper.live_blocks
    finally:
        helper.fail_after[0] = None
    np.testing.assert_array_equal(b, a * 2 + 1)


@pytest.mark.usefixtures("all_asked_for")
def test_a_loop_allocates_what_grows_with_its_variable_anew() -> None:
    n = var("n", kind="dim")
    y = buffer("Y", "float32", n)

    def row(i: Expr) -> Stmt:
        t = buffer("T", "float32", n + i * 40000, scope="global")
        return Alloc(t, seq(Store(t, make.cast("float32", i), (i,)), Store(y, load(t, (i,)) * 2, (i,))))

    kernel = Kernel(Func("k", (y,), loop(3, row), (n,), (y,)))
    b = np.zeros(3, "float32")
    try:
        for budget in (0, 1, 2, 3):
            helper.fail_after[0] = budget
            assert kernel(b, dims=(3,)) == (budget < 3)
            assert not helper.live_blocks
    finally:
        helper.fail_after[0] = None
    np.testing.assert_array_equal(b, [0, 2, 4])


def test_small_buffers_live_on_the_stack_aligned_to_64_bytes() -> None:
    t = buffer("T", "int8", 100, scope="global")
    y = buffer("Y", "int8", 100)
    n = var("n", kind="dim")
    func = Func(
        "k",
        (y,),
        Alloc(
            t,
            seq(
                loop(n, lambda i: Store(t, make.cast("int8", i), (i,))),
                loop(n, lambda i: Store(y, load(t, (99 - i,)), (i,))),
            ),
        ),
        (n,),
        (y,),
    )
    kernel = Kernel(func)
    # to the end of its last vector
    assert re.search(r"alloca \[1[0-2]\d x i8\], align 64", kernel.ll) and "tensorlang_alloc" not in kernel.ll
    got = np.zeros(100, np.int8)
    assert kernel(got, dims=(100,)) == 0
    np.testing.assert_array_equal(got, np.arange(100)[::-1])


def test_loops_that_a_pass_should_have_removed_are_refused() -> None:
    y = buffer("Y", "int32", 8)
    with pytest.raises(TensorLangError, match="a vectorized loop over i reached the code generator"):
        emit(Func("k", (y,), loop(8, lambda i: Store(y, i, (i,)), VECTORIZED), (), (y,)), Target.host())


def test_evaluate_and_prefetch() -> None:
    y = buffer("Y", "int32", 8)
    helper.run(Func("k", (y,), Evaluate(load(y, (i32(0),))), (), (y,)), np.zeros(8, "int32"))


def test_several_kernels_in_one_module() -> None:
    y = buffer("Y", "int32", 4)
    one = Func("one", (y,), loop(4, lambda i: Store(y, i, (i,))), (), (y,))
    two = Func("two", (y,), loop(4, lambda i: Store(y, i * 2, (i,)), PARALLEL), (), (y,))
    ll = emit([one, two], Target.host())
    assert ll.count("define i32 @") == 2
    assert compile_ll(ll, Target.host()).object


def test_names_that_llvm_would_refuse() -> None:
    y = buffer("a b.c", "int32", 4)
    func = Func("soft max-1", (y,), loop(4, lambda i: Store(y, i, (i,))), (), (y,))
    assert kernel_signature(func).name == "soft_max_1"
    assert "@soft_max_1(" in emit(func, Target.host())


def test_signature() -> None:
    n, m = var("n", kind="dim"), var("m", kind="dim")
    s = var("s", "float64", "value")
    x, y = buffer("X", "float32", n, m * 2 + 1), buffer("Y", "bool", make.floordiv(n + 3, 4), make.min_(n, m))
    sig = kernel_signature(Func("k", (x, s, y), seq(), (n, m), (y,)))
    assert [(p.name, p.kind, p.dtype, p.output) for p in sig.params] == [
        ("X", "buffer", "float32", False),
        ("s", "scalar", "float64", False),
        ("Y", "buffer", "bool", True),
    ]
    assert [d.name for d in sig.dims] == ["n", "m"]
    values = {"n": 10, "m": 7}
    assert [evaluate(e, values) for e in sig.params[0].shape] == [10, 15]
    assert [evaluate(e, values) for e in sig.params[2].shape] == [3, 7]
    assert type(sig).from_json(sig.to_json()) == sig


def test_compiling_in_many_threads_gives_the_same_code() -> None:
    ll = emit(matmul(12, 32, 8, 6, 16, 8), Target.host())
    want = compile_ll(ll, Target.host()).object
    got: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: got.extend(compile_ll(ll, Target.host()).object for _ in range(5)))
        for _ in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == [want] * 20


def test_emitting_twice_gives_the_same_text() -> None:
    func = matmul(12, 32, 8, 6, 16, 8)
    assert emit(func, Target.host()) == emit(func, Target.host())


def test_compiling_leaks_no_pass_managers() -> None:
    ll = emit(matmul(12, 32, 8, 6, 16, 8), Target.host())

    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * 4096

    for _ in range(10):
        compile_ll(ll, Target.host())
    before = resident()
    for _ in range(100):
        compile_ll(ll, Target.host())
    assert resident() - before < 100 * 30_000


def test_lower_optimisation_levels_compute_the_same() -> None:
    m, n, k = 12, 32, 9
    a, b = (rng.integers(-8, 8, s).astype("float32") for s in ((m, k), (k, n)))
    for level in (0, 1, 2, 3):
        c = np.zeros((m, n), "float32")
        assert Kernel(matmul(m, n, k, 6, 16, 8), opt_level=level)(a, b, c) == 0
        np.testing.assert_array_equal(c, a @ b)


def test_a_loop_of_one_turn_may_be_anywhere() -> None:
    y = buffer("Y", "int32", 8)
    v = var("v")
    got = np.zeros(8, "int32")
    run(Func("k", (y,), For(v, i32(5), i32(1), PARALLEL, Store(y, v * 2, (v,))), (), (y,)), got)
    np.testing.assert_array_equal(got, [0, 0, 0, 0, 0, 10, 0, 0])


def test_prefetch_asks_for_an_address_and_reads_nothing() -> None:
    from tensorlang.core.dtype import INT32
    from tensorlang.expr.nodes import Call, build

    y = buffer("Y", "float32", 64)
    ask = lambda i: Evaluate(build(Call, INT32, "prefetch", (load(y, (i + 10**6,)),)))
    func = Func("k", (y,), loop(64, lambda i: seq(ask(i), Store(y, make.const(1.0), (i,)))), (), (y,))
    got = np.zeros(64, "float32")
    kernel = Kernel(func)
    assert kernel(got) == 0 and got.all()
    assert "call void @llvm.prefetch.p0" in kernel.ll and "= load float" not in kernel.ll


def test_copies_of_a_loop_with_other_bounds_forget_what_was_concluded_before():
    """Two loops share a variable; only in the first one is ``i // 3`` a division of a number that is not
    negative."""
    i = var("i")
    out = buffer("out", "int32", 16)
    body = Store(out, make.cast(out.dtype, make.floordiv(i, 3)), (make.add(i, 8),))
    func = Func(
        "f",
        (out,),
        seq(For(i, i32(0), i32(8), "serial", body), For(i, i32(-8), i32(8), "serial", body)),
        (),
        (out,),
    )
    got = np.zeros(16, out.dtype.to_numpy())
    run(func, got)
    assert np.array_equal(got, np.arange(-8, 8) // 3)
