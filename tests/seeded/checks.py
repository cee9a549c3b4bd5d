"""The suite's ways of finding a bug, each cut down to a second or less: what catches a mutant is named by the
first that speaks up.

``CHECKS`` maps a name to a function that raises when something is wrong. The scheduled programs of ``cases``
are checks themselves: run through the verifier, the interpreter after every pass, and machine code; their
traces must survive their texts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import te
from tensorlang.arith.facts import Facts
from tensorlang.arith.simplify import Simplifier
from tensorlang.expr import make
from tensorlang.expr.nodes import Expr, Var
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.stmt import Alloc, Buffer, For, Func, If, Let, Stmt, Store, load, seq
from tensorlang.loopir.verify import verify
from tensorlang.passes.pipeline import PIPELINE
from tests.expr.naive import Source, evaluate
from tests.fuzz import check, harness
from tests.guard.pairs import pair

from .cases import CASES

CHECKS: dict[str, Callable[[], None]] = {}


def run_case(name: str) -> None:
    """One scheduled program through all oracles."""
    args, outputs, ranges, s, sizes = CASES[name]()
    harness.run(args, outputs, ranges, s, sizes, each_pass=True)
    check.round_trip(outputs, args, s)


def named(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def keep(f: Callable[[], None]) -> Callable[[], None]:
        CHECKS[name] = f
        return f

    return keep


CHECKS.update({name: (lambda name=name: run_case(name)) for name in CASES})  # type: ignore[misc]


# --- laws of arithmetic -------------------------------------------------------------------------------------


@named("laws")
def laws() -> None:
    """Building, simplifying, proving and bounding against Python's integers, on random expressions."""
    for seed in range(400):
        source = Source(seed)
        source.loops = [
            Var("i", make.dtype("int32"), "loop"),
            Var("j", make.dtype("int32"), "loop"),
            Var("k", make.dtype("int32"), "loop"),
        ]
        r = source.random
        ranges = {v: sorted((r.randint(-9, 9), r.randint(-9, 9))) for v in source.loops}
        facts = Facts(sizes=frozenset([source.divisor]))
        facts = facts.bind(source.divisor, make.const(1), make.const(9))
        for v, (lo, hi) in ranges.items():
            facts = facts.bind(v, make.const(lo), make.const(hi))
        try:
            e, c = source.integer(3), source.condition(2)
        except tl.DeclareError:  # a divisor turned out to be the literal 0
            continue
        envs = [
            {**{v: r.randint(*ends) for v, ends in ranges.items()}, source.divisor: r.randint(1, 9)}
            for _ in range(24)
        ]
        corners = itertools.product(*[ranges[v] for v in source.loops], (1, 9))
        envs += [dict(zip([*source.loops, source.divisor], x, strict=True)) for x in corners]
        _laws_of(e, c, facts, envs, f"seed {seed}: {e.text}; {c.text}", set(source.loops[1:]))


def _laws_of(e: Any, c: Any, facts: Facts, envs: list[dict[Var, int]], where: str, gone: set[Var]) -> None:
    simple, known, (lo, hi) = Simplifier(facts)(e.expr), facts.prove(c.expr), facts.interval(e.expr)
    opposite = make.not_(c.expr)
    ends = [facts.bound(e.expr, lambda v: v in gone, upper) for upper in (False, True)]
    for env in envs:
        try:
            value, truth = e.plain(env), bool(c.plain(env))
        except ZeroDivisionError:
            continue
        assert evaluate(e.expr, env) == value, f"built wrong, {where}, at {env}"
        assert evaluate(simple, env) == value, f"simplified wrong to {simple}, {where}, at {env}"
        assert known is None or known == truth, f"proved {known}, {where}, at {env}"
        assert bool(evaluate(opposite, env)) != truth, f"negated wrong, {where}, at {env}"
        assert (lo is None or lo <= value) and (hi is None or value <= hi), (
            f"interval {lo}..{hi}, {where}, at {env}"
        )
        assert ends[0] is None or evaluate(ends[0], env) <= value, f"lower bound {ends[0]}, {where}, at {env}"
        assert ends[1] is None or value <= evaluate(ends[1], env), f"upper bound {ends[1]}, {where}, at {env}"


_DIVISIONS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda i, j: (i * 4 + j) // 8,
    lambda i, j: (i * 4 + j) % 8,
    lambda i, j: (i * 8 + j) // 8,
    lambda i, j: (i * 8 + j) % 16,
    lambda i, j: (i * 8 - 3) // 8,
    lambda i, j: (i * 8 - 3) % 8,
    lambda i, j: (i * 6 + j + 7) // 3 // 2,
    lambda i, j: ((i + j) // 3 + 2) // 4,
    lambda i, j: ((j - 9) // 3 + 2) // 4,
    lambda i, j: (i * 7 + j) // 7,
    lambda i, j: (i * 7 + j) % 7,
    lambda i, j: (i * 12 + j * 4 + 3) // 6,
    lambda i, j: (j * 4 + 3 - i * 16) % 8,
)
FORMS = tuple((f"form {n}", f) for n, f in enumerate(_DIVISIONS))


@named("the conditions of nests")
def nest_laws() -> None:
    """Bounds and proofs where one range speaks of another variable, as tails do."""
    n, i, j = (
        Var("n", make.dtype("int32"), "dim", 0),
        Var("i", make.dtype("int32"), "loop"),
        Var("j", make.dtype("int32"), "loop"),
    )
    facts = (
        Facts(sizes=frozenset([n]))
        .bind(i, make.const(0), make.sub(make.ceildiv(n, 8), 1))
        .bind(j, make.const(0), make.min_(7, make.sub(n, i * 8 + 1)))
    )
    conds = (
        i * 8 + j < n,
        i * 8 + j < n - 1,
        i * 8 < n,
        i * 8 + 8 < n + 8,
        j < 7,
        j <= 7,
        i * 8 + 1 < n,
        0 <= n - i * 8 - 1,
    )
    for cond in conds:
        known = facts.prove(cond)
        assert known is not None or cond is not conds[0], "nothing is proved"
        for size in range(20):
            for a in range(-(-size // 8)):
                for b in range(min(7, size - a * 8 - 1) + 1):
                    truth = bool(evaluate(cond, {n: size, i: a, j: b}))
                    assert known is None or known == truth, (
                        f"proved {known}: {cond} at n={size}, i={a}, j={b}"
                    )
    simple = Simplifier(Facts().bind(i, make.const(0), make.const(5)).bind(j, make.const(0), make.const(7)))
    for text, f in FORMS:
        e = f(i, j)
        for a, b in itertools.product(range(6), range(8)):
            for how, got in (("built", e), ("simplified", simple(e))):
                value = evaluate(got, {i: a, j: b})
                assert value == f(a, b), f"{how} wrong: {text} as {got} is {value} at i={a}, j={b}"


# --- what a schedule looks like, and what it refuses --------------------------------------------------------


@named("the shape of trees")
def trees() -> None:
    """Orders and extents of loops, which do not show in results."""
    A = te.placeholder((5, 40), name="A")
    C = te.compute((5, 40), lambda i, j: A[i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    io, ii = s[C].split(i, 8)
    jo, ji = s[C].split(j, nparts=3)
    s[C].reorder(jo, io, ji)
    loops = [line.split("loop ")[1].split()[:2] for line in s.tree().splitlines() if "loop " in line]
    want = [["C.j.outer", "0..3"], ["C.i.inner", "0..5"], ["C.i.outer", "0..1"], ["C.j.inner", "0..14"]]
    assert loops == want, f"the tree is {loops}"


def _illegal() -> list[tuple[str, Callable[[], Any]]]:
    n = te.var("n")
    A = te.placeholder((n, 12), name="A")
    k = te.reduce_axis((0, 12), "k")
    P = te.compute((n, 12), lambda i, j: A[i, j] * 2, name="P")
    S = te.compute((n,), lambda i: te.sum(P[i, k], axis=k), name="S")
    C = te.compute((n,), lambda i: S[i] + P[i, 0], name="C")
    s = te.create_schedule(C.op)
    v = te.create_schedule([C.op, S.op])
    w = te.create_schedule(C.op)
    wo, wi = w[C].split(C.op.axis[0], 4)
    w[C].parallel(wi)
    w[S].compute_at(w[C], wi)
    return [
        ("parallel over a reduction", lambda: s[S].parallel(k)),
        ("compute_at where one of two readers is", lambda: s[P].compute_at(s[S], S.op.axis[0])),
        ("an output inside a loop", lambda: v[S].compute_at(v[C], C.op.axis[0])),
        ("memory shared by threads", lambda: w[S].store_at(w[C], wo)),
        ("a data loop fused with a reduction loop", lambda: s[S].fuse(S.op.axis[0], k)),
        ("a vector of unknown length", lambda: s[C].vectorize(C.op.axis[0])),
        ("unroll of unknown length", lambda: s[C].unroll(C.op.axis[0])),
        ("inlining a reduction", lambda: s[S].compute_inline()),
        ("inlining an output", lambda: s[C].compute_inline()),
        ("splitting by nothing", lambda: s[C].split(C.op.axis[0], 0)),
        ("cache_write of what is scheduled", lambda: w.cache_write(C, "local")),
        ("a layout that forgets an axis", lambda: s[P].transform_layout(lambda i, j: (j,))),
    ]


@named("refusals")
def refusals() -> None:
    """What is not legal is refused with a ScheduleError."""
    for what, call in _illegal():
        try:
            call()
        except tl.ScheduleError:
            continue
        raise AssertionError(f"allowed: {what}")


# --- kernels written as loop IR, for what few schedules give ------------------------------------------------


def _var(name: str) -> Var:
    return Var(name, make.dtype("int32"), "loop")


def _kernels() -> list[tuple[str, Func, list[np.ndarray[Any, Any]]]]:
    f32 = make.dtype("float32")
    a, c = Buffer("a", f32, (make.const(24),)), Buffer("c", f32, (make.const(24),))
    i, j = _var("i"), _var("j")
    data = np.arange(24, dtype="float32") + 1

    def func(name: str, body: Stmt) -> tuple[str, Func, list[np.ndarray[Any, Any]]]:
        return name, Func(name, (a, c), body, (), (c,)), [data.copy(), np.zeros(24, "float32")]

    def loop(v: Var, n: int, body: Stmt, kind: str = "serial") -> Stmt:
        return For(v, make.const(0), make.const(n), kind, body)

    def put(at: Expr, value: Expr) -> Stmt:
        return Store(c, value, (at,))

    def read(at: Expr) -> Expr:
        return load(a, (at,))

    local = Buffer("t", f32, (make.const(4),), "local")
    chain = seq(
        Store(local, read(make.as_expr(i)), (make.const(0),)),
        Store(local, load(local, (make.const(0),)) + 1, (make.const(1),)),
        put(i, load(local, (make.const(1),))),
    )
    four, other = make.ramp(make.const(0), 1, 4), make.ramp(make.const(2), 1, 4)
    both = seq(
        Store(c, load(c, (four,)) + make.broadcast(read(i), 4), (four,)),
        Store(c, load(c, (other,)) * make.broadcast(make.const(2.0), 4), (other,)),
    )
    return [
        func(
            "either in lanes",
            loop(
                i,
                3,
                loop(
                    j,
                    8,
                    If(i * 8 + j < 13, put(i * 8 + j, read(i * 8 + j)), put(i * 8 + j, read(23 - i * 8 - j))),
                    "vectorized",
                ),
            ),
        ),
        func(
            "past the end in lanes",
            loop(i, 3, loop(j, 8, If(i * 8 + j < 13, put(i * 8 + j, read(i * 8 + j))), "vectorized")),
        ),
        func("otherwise", loop(i, 24, If(i + 1 < 1, put(i, read(i)), put(i, read(i) * 2)))),
        func("accumulated", loop(i, 24, Alloc(local, chain))),
        func(
            "backwards",
            loop(
                i,
                4,
                loop(
                    j, 6, If(make.and_(5 <= i * 3 + j * 2, i * 6 + j < 23), put(i * 6 + j, read(i * 6 + j)))
                ),
            ),
        ),
        func("overlapping registers", seq(loop(j, 24, put(j, read(j))), loop(i, 5, both))),
        func("from the middle", For(i, make.const(3), make.const(4), "unrolled", put(i, read(i)))),
        func("values", loop(i, 24, Let(_x, i * 2 % 5, put(i, read(make.as_expr(_x)))))),
        func(
            "none at all",
            seq(
                loop(j, 24, put(j, read(j))),
                loop(i, 3, For(j, make.const(2), make.sub(i, 1), "serial", put(j, read(23 - i)))),
            ),
        ),
    ]


_x = _var("x")


@named("kernels by hand")
def kernels() -> None:
    """Each pass keeps what the kernel does in the interpreter; machine code agrees."""
    from tensorlang.codegen import compile_ll, emit, kernel_signature
    from tensorlang.runtime import Module
    from tensorlang.target import as_target

    where = as_target(None)
    for name, func, arrays in _kernels():
        verify(func)
        want = [x.copy() for x in arrays]
        interpret(func, *want, coverage=False)
        now = func
        for p in PIPELINE.passes:
            now = p.run(now)
            verify(now)
            got = [x.copy() for x in arrays]
            interpret(now, *got, coverage=False)
            assert np.array_equal(got[1], want[1]), (
                f"after pass {p} with {name}: {got[1]}, should be {want[1]}"
            )
        got = [x.copy() for x in arrays]
        Module(compile_ll(emit(now, where), where).object, kernel_signature(now), {}, str(where))(*got)
        assert np.array_equal(got[1], want[1]), f"compiled with {name}: {got[1]}, should be {want[1]}"


# --- the others ---------------------------------------------------------------------------------------------


@named("guard")
def guard() -> None:
    """Between guard pages: what touches a byte outside ends the process."""
    from tests.guard.arena import Arena
    from tests.guard.run import run_pair

    arena = Arena()
    for name in (
        "vector_tail",
        "strided_to_the_end",
        "odd_vectors",
        "stencil_in_tiles",
        "many_threads",
        "gathered",
        "no_rows",
    ):
        args, outputs, ranges, s, sizes = CASES[name]()
        run_pair(arena, args, outputs, ranges, s, sizes, name)


@named("proofs")
def proofs() -> None:
    """Coverage, single writes and bounds by isl."""
    from tests.proofs.kernels import prove_schedule

    for name in (
        "split_tail",
        "split_of_split",
        "vector_tail",
        "matmul_in_registers",
        "stencil_in_tiles",
        "sliding_rows",
        "packed_with_padding",
    ):
        args, _, _, s, _ = CASES[name]()
        wrong = prove_schedule(s, args).wrong
        assert not wrong, f"proof with {name}: {wrong[0]}"


def fuzz(seed: int) -> None:
    """One case of the fuzzer, without making it smaller."""
    graph, args, outputs, ranges, s = pair(seed, most=12)
    try:
        harness.run(args, outputs, ranges, s, graph.sizes, each_pass=True)
    except tl.LowerError as e:
        if not check.no_primitive_sees(e):
            raise
        return
    check.round_trip(outputs, args, s)
