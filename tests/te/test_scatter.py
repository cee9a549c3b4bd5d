"""te.scatter: updates in order, what is outside is left out, one memory with what it starts from."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tests.te.oracles import agree


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("kind", ["uint8", "int16", "int64", "uint32"])
def test_histogram(kind):
    X = te.placeholder((300,), kind, name="X")
    H = te.scatter(0, X.shape, lambda i: X[i], lambda i: 1, shape=(50,), dtype="int32", name="H")
    P = te.compute((50,), lambda i: H[i] * 2, "P")
    x = rng().integers(0, 60, 300).astype(kind)
    (twice,) = agree(P, {X: x})
    assert (twice == 2 * np.bincount(x, minlength=60)[:50]).all()


@pytest.mark.parametrize("combine", ["add", "mul", "min", "max", "set"])
def test_rows_of_open_sizes(combine):
    n, m = te.var("n"), te.var("m")
    D, I = te.placeholder((n, 3), name="D"), te.placeholder((m,), "int64", name="I")
    V = te.placeholder((m, 3), name="V")
    O = te.scatter(D, (m, 3), lambda i, j: (I[i], j), lambda i, j: V[i, j], combine=combine, name="O")
    for rows, points in ((5, 9), (0, 3), (4, 0)):
        agree(
            O,
            {
                D: rng().integers(-3, 9, (rows, 3)).astype("float32"),
                I: rng().integers(-2, rows + 2, points),
                V: rng().integers(-3, 9, (points, 3)).astype("float32"),
            },
        )


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64", "int8", "bool"])
def test_types(kind):
    I = te.placeholder((40,), "int32", name="I")
    V = te.placeholder((40,), kind, name="V")
    O = te.scatter(
        0,
        (40,),
        lambda i: I[i],
        lambda i: V[i],
        combine="set" if kind == "bool" else "add",
        shape=(7,),
        dtype=kind,
        name="O",
    )
    agree(
        O,
        {
            I: rng().integers(0, 8, 40).astype("int32"),
            V: rng().integers(0, 2 if kind == "bool" else 90, 40).astype(V.dtype.to_numpy()),
        },
    )


def test_one_place_of_rank_0():
    X = te.placeholder((6,), name="X")
    agree(
        te.scatter(1, (6,), lambda i: (), lambda i: X[i], shape=(), name="O"),
        {X: np.arange(6, dtype="float32")},
    )


def test_what_it_reads_and_what_reads_it_are_scheduled_as_ever():
    X = te.placeholder((64, 8), name="X")
    I = te.placeholder((64,), "int32", name="I")
    S = te.compute((64, 8), lambda i, j: X[i, j] * 2, "S")
    O = te.scatter(0, (64, 8), lambda i, j: (I[i], j), lambda i, j: S[i, j], shape=(10, 8), name="O")
    k = te.reduce_axis((0, 8), "k")
    T = te.compute((10,), lambda i: te.sum(O[i, k], axis=k), "T")
    values = {
        X: rng().integers(0, 9, (64, 8)).astype("float32"),
        I: rng().integers(0, 12, 64).astype("int32"),
    }
    (want,) = agree(T, values)
    assert (tl.compile([X, I, T])(*values.values()) == want).all()
    s = te.create_schedule(T.op)
    assert s.tree().count("storage") == 2  # S, and one for O with its start
    for call in (
        lambda: s[O].compute_at(s[T], T.op.axis[0]),
        lambda: s[O].compute_inline(),
        lambda: s.cache_write(O, "local"),
    ):
        with pytest.raises(tl.ScheduleError, match="a scatter"):
            call()
    again = te.serialize.from_json(te.serialize.to_json([X, I, T]))
    assert te.serialize.key_of(again) == te.serialize.key_of([X, I, T])
    assert (tl.compile(again)(*values.values()) == want).all()


def cache_rows():
    n, m = te.var("n"), te.var("m")
    cache, rows = te.placeholder((n, 4), name="cache"), te.placeholder((m,), "int64", name="rows")
    new = te.placeholder((m, 4), name="new")
    O = te.scatter(
        cache,
        (m, 4),
        lambda i, j: (rows[i], j),
        lambda i, j: new[i, j] * 2,
        combine="set",
        inplace=True,
        name="O",
    )
    k = te.reduce_axis((0, 4), "k")
    return cache, rows, new, O, te.compute((n,), lambda i: te.sum(O[i, k], axis=k), "S")


def test_in_place_the_callers_array_changes(tmp_path):
    cache, rows, new, O, S = cache_rows()
    where, what = np.array([1, 4, 9]), np.arange(12, dtype="float32").reshape(3, 4)
    want = np.ones((6, 4), "float32")
    want[[1, 4]] = 2 * what[:2]
    s = te.create_schedule(S.op)
    built = tl.build(s, [cache, rows, new, S])
    built.save(tmp_path / "k.tl")
    for call in (
        built,
        tl.load(tmp_path / "k.tl"),
        lambda *a: interpret(tl.lower(s, [cache, rows, new, S]), *a),
    ):
        given, sums = np.ones((6, 4), "float32"), np.zeros(6, "float32")
        call(given, where, what, sums)
        assert (given == want).all() and (sums == want.sum(1)).all()
    given = np.ones((6, 4), "float32")
    assert (built(given, where, what) == want.sum(1)).all() and (
        given == want
    ).all()  # outputs are made, updates are not
    alone = tl.compile([cache, rows, new, O])  # the result may be named: it is not a parameter
    given = np.ones((6, 4), "float32")
    assert alone(given, where, what) is None
    assert (given == want).all()
    assert "updated" in str(alone) and "cache: float32[n, 4] updated" in str(
        tl.lower(s, [cache, rows, new, S])
    )


def test_in_place_refusals():
    cache, rows, new, O, S = cache_rows()
    f = tl.compile([cache, rows, new, O])
    given, where, what = np.ones((6, 4), "float32"), np.array([1]), np.ones((1, 4), "float32")
    for args, why in (
        ((given, where, given[:1]), "overlaps new"),
        ((given[:, ::-1], where, what), "not compact"),
    ):
        with pytest.raises(tl.CallError, match=why):
            f(*args)
    given.flags.writeable = False
    with pytest.raises(tl.CallError, match="read-only"):
        f(given, where, what)
    again = te.compute(cache.shape, lambda i, j: cache[i, j] + O[i, j], "again")
    with pytest.raises(tl.ScheduleError, match="updates `cache` in place, and `again` reads it"):
        te.create_schedule(again.op)
    with pytest.raises(tl.DeclareError, match="is not an argument"):
        te.scatter(S, (3,), lambda i: i, lambda i: 1, inplace=True)
    fixed = te.placeholder((3,), name="fixed")
    changed = te.scatter(fixed, (3,), lambda i: i, lambda i: 1, inplace=True)
    with pytest.raises(tl.LowerError, match="is updated in place"):
        tl.build(te.create_schedule(changed.op), [fixed], constants={fixed: np.ones(3, "float32")})


def test_a_program_with_one_is_tuned():
    def program():
        X, I = te.placeholder((64, 32), name="X"), te.placeholder((64,), "int32", name="I")
        k = te.reduce_axis((0, 32), "k")
        S = te.compute((64,), lambda i: te.sum(X[i, k], axis=k), "S")
        return [X, I, te.scatter(0, (64,), lambda i: I[i], lambda i: S[i], shape=(10,), name="O")]

    assert autosched.tune(autosched.SearchTask(program, ()), trials=2, progress=False).best is not None


def test_refusals():
    X = te.placeholder((6,), name="X")
    for call, why in (
        (lambda: te.scatter(0, (6,), lambda i: X[i], lambda i: 1, shape=(4,)), "not an integer"),
        (
            lambda: te.scatter(0, (6,), lambda i: i, lambda i: X[i], shape=(4,), dtype="int32"),
            "the value is float32, the result int32",
        ),
        (lambda: te.scatter(0, (6,), lambda i: (i, i), lambda i: 1, shape=(4,)), "gives 2 of 1"),
        (lambda: te.scatter(0, (6,), lambda i: i, lambda i: 1), "shape of the result is missing"),
        (lambda: te.scatter(X, (6,), lambda i: i, lambda i: X[i], shape=(6,)), "leave shape and dtype out"),
        (lambda: te.scatter(X, (6,), lambda i: i, lambda i, j: X[i]), "takes 2 indices"),
        (lambda: te.scatter(X, (6,), lambda i: i, 3), "value is not a function"),
        (lambda: te.scatter(X, (6,), lambda i: i, lambda i: X[i], combine="sum"), "not known"),
        (
            lambda: te.scatter(False, (6,), lambda i: i, lambda i: True, shape=(3,), dtype="bool"),
            "truth values",
        ),
    ):
        with pytest.raises(tl.DeclareError) as error:
            call()
        assert why in str(error.value)


@pytest.mark.each_value
@pytest.mark.parametrize("combine", ["add", "set"])
@pytest.mark.parametrize("columns", [1, 16, 67, 160])
@pytest.mark.parametrize("is_open", [False, True])
def test_rows_go_in_vectors(columns, combine, is_open):
    """Where the last index is the point's own, and is asked for nothing."""
    width = te.var("w") if is_open else columns
    D, I = te.placeholder((6, 2, width), name="D"), te.placeholder((9,), "int64", name="I")
    V = te.placeholder((9, 2, width), name="V")
    O = te.scatter(
        D, V.shape, lambda i, h, j: (I[i], h, j), lambda i, h, j: V[i, h, j] + 1, combine, name="O"
    )
    values = [
        rng().integers(-3, 9, (6, 2, columns)).astype("float32"),
        rng().integers(-2, 8, 9),
        rng().integers(-3, 9, (9, 2, columns)).astype("float32"),
    ]
    agree(O, dict(zip((D, I, V), values, strict=True)))
    ir = tl.compile([D, I, V, O]).get_source("ir")
    assert is_open or columns == 1 or "V[i, h, j]" not in ir
    assert ir.index("O.at0 = ") < ir.index("in range(0, 2)", ir.index("O.at0 = "))  # once for each row


def test_rows_that_are_asked_for_their_place_go_one_by_one():
    """An index that occurs in another one, and one that may be outside."""
    D, V = te.placeholder((40, 40), name="D"), te.placeholder((5, 50), name="V")
    values = {D: np.zeros((40, 40), "float32"), V: rng().integers(1, 9, (5, 50)).astype("float32")}
    for where in (
        lambda i, j: (i + j // 4, j),
        lambda i, j: (i, j),
        lambda i, j: (j, j),
        lambda i, j: (i, 39 - j),
    ):
        agree(te.scatter(D, V.shape, where, lambda i, j: V[i, j], "add", name="O"), values)


@pytest.mark.parametrize("combine", ["add", "max", "set"])
@pytest.mark.parametrize(
    ("shape", "updates", "axis", "shared"),
    [
        ((64, 50), (64, 300), 1, True),
        ((70, 50), (64, 300), 1, True),
        ((1, 64, 50), (1, 64, 300), 2, True),
        ((50, 64), (300, 64), 0, False),
    ],
)
def test_rows_that_are_places_of_their_own_are_shared_out(shape, updates, axis, shared, combine):
    D, V = te.placeholder(shape, name="D"), te.placeholder(updates, name="V")
    I = te.placeholder(updates, "int32", name="I")
    O = te.scatter(
        D,
        updates,
        lambda *i: tuple(I[i] if k == axis else v for k, v in enumerate(i)),
        lambda *i: V[i],
        combine=combine,
        name="O",
    )
    s = te.create_schedule(O.op)
    text = str(tl.lower(s, [D, I, V, O]))
    assert ("parallel" in text) is shared, text
    given = {
        D: rng().integers(-3, 9, shape).astype("float32"),
        I: rng().integers(-2, shape[axis] + 2, updates).astype("int32"),
        V: rng().integers(-3, 9, updates).astype("float32"),
    }
    (want,) = agree(O, given)
    got = np.zeros_like(want)
    interpret(tl.lower(s, [D, I, V, O]), *given.values(), got)
    assert np.array_equal(got, want)
