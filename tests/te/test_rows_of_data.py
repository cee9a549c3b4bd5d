"""Reductions whose range is data: rows of sparse matrices in TVM's words and shorter, prefixes of rows;
whatever the numbers say."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import positions
from tensorlang.errors import DeclareError
from tests.te.oracles import agree

ROWS, COLS, WIDTH = 5, 7, 6
DENSE = np.zeros((ROWS, COLS), "float32")
DENSE[0, [1, 4]], DENSE[1, 0], DENSE[3, [0, 2, 3, 5, 6]], DENSE[4, 6] = (2, -3), 5, (1, 2, 3, -4, 5), 7
INDPTR = np.cumsum([0, *(DENSE != 0).sum(1)]).astype("int32")
INDICES, VALUES = np.nonzero(DENSE)[1].astype("int32"), DENSE[DENSE != 0]
NNZ = len(VALUES)


def sparse(nnz=NNZ, rows=ROWS, kind="int32"):
    return (
        te.placeholder((nnz,), name="V"),
        te.placeholder((nnz,), "int32", name="J"),
        te.placeholder((rows + 1,), kind, name="P"),
    )


def csrmv(V, J, P, X, form="ends"):
    def row(i):
        if form == "ends":
            k = te.reduce_axis((P[i], P[i + 1]), name="k")
            return te.sum(V[k] * X[J[k]], axis=k)
        k = te.reduce_axis((0, P[i + 1] - P[i]), name="k")  # as topi's sparse_dense
        return te.sum(V[P[i] + k] * X[J[P[i] + k]], axis=k)

    return te.compute((P.shape[0] - 1,), row, name="Y")


def case(form="ends", kind="int32"):
    V, J, P = sparse(kind=kind)
    X = te.placeholder((COLS,), name="X")
    x = np.arange(-3, 4, dtype="float32")
    return csrmv(V, J, P, X, form), {V: VALUES, J: INDICES, P: INDPTR.astype(kind), X: x}, DENSE @ x


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("form", ["ends", "lengths"])
def test_rows_of_a_sparse_matrix(form, kind):
    Y, values, want = case(form, kind)
    (got,) = agree(Y, values, lanes=(0, 4))
    assert np.array_equal(got, want)
    assert np.array_equal(tl.compile([*values, Y])(*values.values()), want)


def halves_of_a_row(s, Y):
    _, inner = s[Y].split(s[Y].op.reduce_axis[0], 4)
    s[Y].unroll(inner)


def vectors_of_a_row(s, Y):
    _, inner = s[Y].split(s[Y].op.reduce_axis[0], 4)
    s[Y].vectorize(inner)


def parts_of_a_row(s, Y):
    part = s.rfactor(Y, s[Y].split(s[Y].op.reduce_axis[0], 4)[1])
    s[part].compute_at(s[Y], s[Y].op.axis[0])


def rows_in_threads(s, Y):
    own = s.cache_write(Y, "local")
    outer, _ = s[Y].split(Y.op.axis[0], 2)
    s[own].compute_at(s[Y], outer)
    s[Y].parallel(outer)


def ends_copied(s, Y):
    P = next(t for t in Y.op.input_tensors if t.name == "P")
    copy = s.cache_read(P, "local", [Y])
    outer, _ = s[Y].split(Y.op.axis[0], 2)
    s[copy].compute_at(s[Y], outer)


@pytest.mark.parametrize(
    "schedule",
    [halves_of_a_row, vectors_of_a_row, parts_of_a_row, rows_in_threads, ends_copied],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("form", ["ends", "lengths"])
def test_schedules(schedule, form):
    Y, values, _ = case(form)
    agree(Y, values, lanes=(0,), schedule=lambda s: schedule(s, Y))


def loops(schedule=lambda s, Y: None, form="ends"):
    Y, values, _ = case(form)
    s = te.create_schedule(Y.op)
    schedule(s, Y)
    return tl.build(s, [*values, Y]).get_source("ir")


def test_loops_end_where_rows_end():
    assert f"for k in range(max(P[i], 0), max(min(P[i + 1], {NNZ}), 0)):" in loops()
    assert (
        f"for k.outer in range(min(max(P[i], 3), {NNZ // 4 * 4 + 7}) // 4, (min(max(P[i + 1], 0), {NNZ // 4 * 4 + 4}) + 3) // 4):"
        in loops(vectors_of_a_row)
    )


ODD = [-7, -1, 0, 1, NNZ - 1, NNZ, NNZ + 1, 2**31 - 1, -(2**31), -(2**31) + 1, 3]


@pytest.mark.parametrize("schedule", [lambda s, Y: None, halves_of_a_row, vectors_of_a_row, parts_of_a_row])
@pytest.mark.parametrize("form", ["ends", "lengths"])
def test_whatever_the_ends_say_nothing_is_read_outside(form, schedule):
    """The reference leaves out what lies outside, the interpreter checks each access."""
    V, P = te.placeholder((NNZ,), name="V"), te.placeholder((len(ODD) + 1,), "int32", name="P")

    def row(i):
        k = te.reduce_axis((P[i], P[i + 1]) if form == "ends" else (0, P[i + 1] - P[i]), name="k")
        return te.sum(V[k if form == "ends" else k + P[i]], axis=k)

    Y = te.compute((len(ODD),), row, name="Y")
    rng = np.random.default_rng(1)
    for ends in (ODD, ODD[::-1], rng.permutation(ODD).tolist(), rng.permutation(ODD).tolist()):
        values = {V: VALUES, P: np.array([0, *ends], "int32")}
        (got,) = agree(Y, values, lanes=(0,), schedule=lambda s: schedule(s, Y))
        if form == "ends":
            assert got.tolist() == [
                VALUES[min(max(a, 0), NNZ) : min(max(b, 0), NNZ)].sum()
                for a, b in zip([0, *ends], ends, strict=False)
            ]


def test_prefixes_of_rows():
    A, L = te.placeholder((3, 8), name="A"), te.placeholder((3,), "int32", name="L")

    def row(i):
        k = te.reduce_axis((0, L[i]), name="k")
        return te.max(A[i, k], axis=k, where=k % 2 == 0)

    a = np.arange(24, dtype="float32").reshape(3, 8) % 7
    (got,) = agree(te.compute((3,), row, name="C"), {A: a, L: np.array([8, 3, 99], "int32")})
    assert got.tolist() == [a[0, ::2].max(), a[1, :3:2].max(), a[2, ::2].max()]


def test_a_condition_on_data_is_asked_inside_of_the_range_only():
    V, P = te.placeholder((NNZ,), name="V"), te.placeholder((3,), "int32", name="P")

    def row(i):
        k = te.reduce_axis((0, P[i + 1] - P[i]), name="k")
        return te.sum(V[P[i] + k], axis=k, where=V[P[i] + k] > 0)

    (got,) = agree(te.compute((2,), row, name="C"), {V: VALUES, P: np.array([2, 7, 50], "int32")})
    assert got.tolist() == [VALUES[2:7].clip(0).sum(), VALUES[7:].clip(0).sum()]


def test_a_range_of_one_number_for_all():
    A, N = te.placeholder((4, 6), name="A"), te.placeholder((1,), "int32", name="N")
    k = te.reduce_axis((0, N[0]), name="k")
    a = np.arange(24, dtype="float32").reshape(4, 6)
    (got,) = agree(
        te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C"), {A: a, N: np.array([4], "int32")}
    )
    assert np.array_equal(got, a[:, :4].sum(1))


def test_a_largest_length_that_no_tensor_tells():
    L = te.placeholder((3,), "int32", name="L")
    C = te.compute(
        (3,),
        lambda i: te.sum(te.const(1, "int32"), axis=te.reduce_axis((0, te.min(L[i], 9)), name="k")),
        name="C",
    )
    assert agree(C, {L: np.array([4, -2, 11], "int32")})[0].tolist() == [4, 0, 9]


def test_symbolic_sizes_and_sizes_that_do_not_fit():
    nnz, m, n, q = (te.var(x) for x in ("nnz", "m", "n", "q"))
    V, J, P = sparse(nnz, m)
    B = te.placeholder((n, q), name="B")

    def element(i, j):
        k = te.reduce_axis((P[i], P[i + 1]), name="k")
        return te.sum(V[k] * B[J[k], j], axis=k)

    C = te.compute((m, q), element, name="C")
    b = (np.arange(COLS * WIDTH) % 5 - 2).astype("float32").reshape(COLS, WIDTH)
    f = tl.compile([V, J, P, B, C])
    assert np.array_equal(f(VALUES, INDICES, INDPTR, b), DENSE @ b)
    assert f(VALUES[:0], INDICES[:0], INDPTR[:1], b).shape == (0, WIDTH)
    assert not f(VALUES[:0], INDICES[:0], INDPTR, b).any(), "what the ends say is not there"
    assert "for k in range(max(P[i], 0), max(min(nnz, P[i + 1]), 0))" in f.get_source("ir")
    short = te.placeholder((m,), "int32", name="short")

    def row(i):
        k = te.reduce_axis((short[i], short[i + 1]), name="k")
        return te.sum(V[k], axis=k)

    with pytest.raises(tl.CallError, match="short"):
        tl.build(te.create_schedule((D := te.compute((m,), row, name="D")).op), [V, short, D])(VALUES, INDPTR)
    two, V = te.placeholder((ROWS,), "int32", name="two"), te.placeholder((NNZ,), name="V")

    def last(i):
        k = te.reduce_axis((two[i], two[i + 1]), name="k")
        return te.sum(V[k], axis=k)

    with pytest.raises(DeclareError, match="out of range"):
        te.create_schedule(te.compute((ROWS,), last, name="E").op)


def test_blocks_of_a_sparse_matrix():
    """TVM's bsrmm: rows of blocks, and a reduction inside of each."""
    data, blocks, J, P = (
        te.placeholder((4, 6), name="data"),
        te.placeholder((3, 2, 3), name="blocks"),
        te.placeholder((3,), "int32", name="J"),
        te.placeholder((3,), "int32", name="P"),
    )

    def element(i, nb, j):
        begin = P[nb]
        elem, c = te.reduce_axis((0, P[nb + 1] - begin), name="elem"), te.reduce_axis((0, 3), name="c")
        at = begin + elem
        return te.sum(blocks[at][j][c] * data[i, 3 * J[at] + c], axis=[elem, c])

    C = te.compute((4, 2, 2), element, name="C")
    rng = np.random.default_rng(3)
    d, b = rng.integers(-3, 4, (4, 6)).astype("float32"), rng.integers(-3, 4, (3, 2, 3)).astype("float32")
    ends, at = np.array([0, 2, 3], "int32"), np.array([0, 1, 1], "int32")
    (got,) = agree(C, {data: d, blocks: b, J: at, P: ends}, lanes=(0, 2))
    want = [
        [
            sum(b[k] @ d[i, 3 * at[k] : 3 * at[k] + 3] for k in range(ends[nb], ends[nb + 1]))
            for nb in range(2)
        ]
        for i in range(4)
    ]
    assert np.array_equal(got, np.array(want))


def rows_of(rows, cols, nnz):
    V, J, P = sparse(nnz, rows)
    X = te.placeholder((cols,), name="X")
    return [V, J, P, X, csrmv(V, J, P, X)]


def test_the_search_takes_it(tmp_path):
    """The inputs it makes up to measure with are positions: columns that exist, ends that rise."""
    task = autosched.SearchTask(rows_of, (ROWS, COLS, NNZ))
    autosched.tune(task, trials=2, records=str(tmp_path / "rows.jsonl"))
    _, values, want = case()
    assert np.array_equal(tl.build(*task.apply_best(str(tmp_path / "rows.jsonl")))(*values.values()), want)


def test_positions_of_inputs():
    *_, Y = rows_of(ROWS, COLS, NNZ)
    assert {t.name: (int(n), rising) for t, (n, rising) in positions([Y]).items()} == {
        "J": (COLS, False),
        "P": (NNZ + 1, True),
    }
