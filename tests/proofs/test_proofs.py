"""Coverage, single writes and bounds of random and hand-made schedules, proved by isl for all sizes; broken
kernels give a witness."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.stmt import For, Func, If, Stmt, Store, rewrite
from tests.proofs.kernels import plain_outputs, prove_schedule, prove_seed
from tests.proofs.prove import prove
from tests.seeded.cases import tiled_in_registers

ROUNDS = os.environ.get("TENSORLANG_FUZZ_ROUNDS")


def prove_seeds(seeds: range) -> tuple[Counter[str], Counter[str]]:
    proved: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for seed in seeds:
        report = prove_seed(seed)
        assert not report.wrong, f"seed {seed}: {report.wrong}"
        proved += report.proved
        unknown += report.unknown
    return proved, unknown


@pytest.mark.parametrize("part", [0, 1, *(pytest.param(n, marks=pytest.mark.fuzz) for n in (2, 3))])
def test_random_schedules(part: int) -> None:
    first = 30_000 + 1000 * part
    proved, unknown = prove_seeds(range(first, first + 40))
    print(dict(proved), dict(unknown))
    assert (
        proved["in bounds"] > 1000
        and proved["covered"] >= 60
        and proved["written once"] >= 15
        and proved["read where written"] >= 40
    )
    assert unknown["in bounds"] <= 0.1 * proved["in bounds"] and unknown["covered"] <= 0.2 * proved["covered"]


@pytest.mark.fuzz
@pytest.mark.skipif(ROUNDS is None, reason="make fuzz")
def test_many_random_schedules() -> None:
    prove_seeds(range(80_000, 80_000 + max(500, int(ROUNDS or 0) // 20)))


# --- schedules of sizes not known: the parameters of the proof ----------------------------------------------


def vectors() -> tuple[Any, Any]:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    return A, te.compute((n,), lambda i: A[i] + 1, name="C")


def matmul(m: Any, n: Any, k: Any) -> tuple[Any, Any, Any]:
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="r")
    return A, B, te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")


def split_and_vector() -> tuple[Any, list[Any]]:
    A, C = vectors()
    s = te.create_schedule(C.op)
    o, i = s[C].split(C.op.axis[0], 24)
    io, ii = s[C].split(i, 8)
    s[C].vectorize(ii)
    s[C].parallel(o)
    return s, [A, C]


def parts_of_an_odd_size() -> tuple[Any, list[Any]]:
    A = te.placeholder((45,), name="A")
    C = te.compute((45,), lambda i: A[i] + 1, name="C")
    s = te.create_schedule(C.op)
    o, i = s[C].split(C.op.axis[0], nparts=7)
    io, ii = s[C].split(i, nparts=3)
    s[C].unroll(io)
    return s, [A, C]


def blocked_matmul() -> tuple[Any, list[Any]]:
    A, B, C = matmul(te.var("m"), te.var("n"), te.var("k"))
    return tiled_in_registers(C, 3, 8), [A, B, C]


def stencil_in_tiles() -> tuple[Any, list[Any]]:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n + 2, m + 2), name="A")
    P = te.compute((n + 2, m), lambda i, j: A[i, j] + A[i, j + 2], name="P")
    C = te.compute((n, m), lambda i, j: P[i, j] + P[i + 2, j], name="C")
    s = te.create_schedule(C.op)
    io, jo, ii, ji = s[C].tile(*C.op.axis, 5, 16)
    s[P].compute_at(s[C], jo)
    s[P].vectorize(P.op.axis[1])
    s[C].vectorize(ji)
    s[C].parallel(io)
    return s, [A, C]


def rows_kept_while_columns_move() -> tuple[Any, list[Any]]:
    n = 20
    A = te.placeholder((n, n), name="A")
    P = te.compute((n, n), lambda i, j: A[i, j] * 2, name="P")
    C = te.compute((n - 2, n - 2), lambda i, j: P[i, j] + P[i + 2, j + 2], name="C")
    s = te.create_schedule(C.op)
    jo, ji = s[C].split(C.op.axis[1], 5)
    s[P].compute_at(s[C], jo)
    s[P].store_at(s[C], C.op.axis[0])
    return s, [A, C]


def rows_of_a_scan() -> tuple[Any, list[Any]]:
    n = te.var("n")
    A, state = te.placeholder((n, 12), name="A"), te.placeholder((n, 12), name="state")
    first = te.compute((2, 12), lambda t, i: A[t, i], name="first")
    update = te.compute((n, 12), lambda t, i: state[t - 1, i] + state[t - 2, 11 - i], name="update")
    R = te.scan(first, update, state, name="R")
    C = te.compute((12,), lambda i: R[n - 1, i] + R[n - 2, i], name="C")
    s = te.create_schedule(C.op)
    s[update].vectorize(s[update].split(update.op.axis[1], 8)[1])
    return s, [A, C]


def packed_and_padded() -> tuple[Any, list[Any]]:
    A, B, C = matmul(te.var("m"), 37, 11)
    s = te.create_schedule(C.op)
    BB = s.cache_read(B, "global", [C])
    s[BB].transform_layout(lambda k, j: (j // 16, k, j % 16))
    io, jo, ii, ji = s[C].tile(*C.op.axis, 4, 16)
    s[C].vectorize(ji)
    return s, [A, B, C]


def fused_rows() -> tuple[Any, list[Any]]:
    n = te.var("n")
    A = te.placeholder((n, 13), name="A")
    C = te.compute((n, 13), lambda i, j: A[i, 12 - j], name="C")
    s = te.create_schedule(C.op)
    f = s[C].fuse(*C.op.axis)
    o, i = s[C].split(f, 8)
    s[C].vectorize(i)
    return s, [A, C]


def partial_sums() -> tuple[Any, list[Any]]:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    C = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    ko, ki = s[C].split(k, 8)
    F = s.rfactor(C, ki)
    s[F].compute_at(s[C], s[C].op.axis[0])
    s[F].vectorize(s[F].op.axis[0])
    return s, [A, C]


def padded_convolution() -> tuple[Any, list[Any]]:
    n, w = te.var("n"), 21
    A, F = te.placeholder((n, w), name="A"), te.placeholder((3,), name="F")
    P = te.compute(
        (n, w + 2),
        lambda b, x: te.if_then_else(te.all(x >= 1, x < w + 1), A[b, x - 1], te.const(0.0)),
        name="P",
    )
    r = te.reduce_axis((0, 3), "r")
    C = te.compute((n, w), lambda b, x: te.sum(P[b, x + r] * F[r], axis=r), name="C")
    s = te.create_schedule(C.op)
    xo, xi = s[C].split(C.op.axis[1], 8)
    s[C].reorder(C.op.axis[0], xo, r, xi)
    s[P].compute_at(s[C], xo)
    s[P].vectorize(P.op.axis[1])
    s[C].vectorize(xi)
    return s, [A, F, C]


HAND = (
    split_and_vector,
    parts_of_an_odd_size,
    blocked_matmul,
    stencil_in_tiles,
    rows_kept_while_columns_move,
    packed_and_padded,
    fused_rows,
    partial_sums,
    padded_convolution,
    rows_of_a_scan,
)


@pytest.mark.parametrize("case", HAND, ids=lambda f: f.__name__)
def test_hand_made_schedules(case: Any) -> None:
    s, args = case()
    report = prove_schedule(s, args)
    assert not report.wrong, report.wrong
    # what an iteration leaves in a ring for the next is beyond the proof: only the output is known to be covered
    covered = 1 if case is rows_kept_while_columns_move else 2
    assert report.proved["in bounds"] >= 6 and report.proved["covered"] == covered, (
        report.proved,
        report.unknown,
    )


def test_columns_kept_in_a_ring_are_right() -> None:
    s, args = rows_kept_while_columns_move()
    a = np.arange(400, dtype=np.float32).reshape(20, 20)
    assert np.array_equal(tl.build(s, args)(a), 2 * a[:18, :18] + 2 * a[2:, 2:])


# --- kernels that are broken on purpose ---------------------------------------------------------------------


def broken(func: Func, change: Any) -> Func:
    return func.with_body(rewrite(func.body, change))


def drop_guards(s: Stmt) -> Stmt | None:
    return s.then if isinstance(s, If) else None


def one_turn_less(s: Stmt) -> Stmt | None:
    return For(s.var, s.begin, s.extent - 1, s.kind, s.body, s.attrs) if isinstance(s, For) else None


def one_turn_more(s: Stmt) -> Stmt | None:
    return For(s.var, s.begin, s.extent + 1, s.kind, s.body, s.attrs) if isinstance(s, For) else None


def one_to_the_right(s: Stmt) -> Stmt | None:
    return (
        Store(s.buffer, s.value, (*s.indices[:-1], s.indices[-1] + 1), s.mask)
        if isinstance(s, Store)
        else None
    )


def overlapping(s: Stmt) -> Stmt | None:
    """Tiles that start one element early."""
    if isinstance(s, Store):
        return Store(s.buffer, s.value, (te.max(s.indices[0] - 1, 0),), s.mask)
    return None


@pytest.mark.parametrize(
    "change, kind",
    (
        (drop_guards, "in bounds"),
        (one_turn_less, "covered"),
        (one_turn_more, "written once"),
        (one_to_the_right, "in bounds"),
        (overlapping, "written once"),
    ),
)
def test_a_broken_kernel_gives_a_witness(change: Any, kind: str) -> None:
    A, C = vectors()
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], 8)
    func = tl.lower(s, [A, C], simple=True)
    once = plain_outputs(s, func)
    assert not prove(func, once).wrong
    wrong = [w for w in prove(broken(func, change), once).wrong if w.startswith(kind)]
    assert wrong, f"{change.__name__} was not noticed"
    assert re.search(r"at (\[.*\] -> )?\{ .*\d.* \}", wrong[0]), wrong[0]


def test_the_witness_of_a_dropped_guard_names_a_real_failure() -> None:
    A, C = vectors()
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], 8)
    func = broken(tl.lower(s, [A, C], simple=True), drop_guards)
    (first, *_) = prove(func).wrong
    n = int(re.search(r"n_0 = (\d+)", first)[1])  # type: ignore[index]
    outer, inner = (int(x) for x in re.search(r"S\d*\[(\d+), (\d+)\]", first).groups())  # type: ignore[union-attr]
    assert n <= outer * 8 + inner < -(-n // 8) * 8, first


def test_a_region_too_small_is_found_where_it_is_read() -> None:
    s, args = stencil_in_tiles()
    func = tl.lower(s, args, simple=True)
    seen: list[For] = []

    def shorter(st: Stmt) -> Stmt | None:
        if isinstance(st, For) and not seen and isinstance(st.body, If | Store):
            seen.append(st)
            return For(st.var, st.begin, st.extent - 1, st.kind, st.body, st.attrs)
        return None

    wrong = prove(broken(func, shorter)).wrong
    assert any(w.startswith("read where written: element of P") for w in wrong), wrong


def test_a_position_that_is_data_is_unknown_and_not_proved() -> None:
    A, I = te.placeholder((9,), name="A"), te.placeholder((5,), "int32", "I")
    C = te.compute((5,), lambda i: A[I[i]], name="C")
    report = prove_schedule(te.create_schedule(C.op), [A, I, C], passes=False)
    assert report.unknown["in bounds"] == 1 and report.proved["covered"] == 1 and not report.wrong
