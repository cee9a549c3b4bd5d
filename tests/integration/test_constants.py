"""Constants: inputs given at build time. What depends on them alone is computed once; kernels share it."""

from __future__ import annotations

import gc
import importlib

import ml_dtypes
import numpy as np
import pytest

import tensorlang as tl
from tensorlang import LowerError, te
from tensorlang.loopir.interpret import interpret
from tests.runtime.foreign import Foreign

M, N, K = 13, 24, 17
build = importlib.import_module("tensorlang.build")


def declared():
    A, W = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="W")
    k = te.reduce_axis((0, K), name="k")
    C = te.compute((M, N), lambda i, j: te.sum(A[i, k] * W[k, j], axis=k), name="C")
    return A, W, C


def packed(A, W, C, lanes=8):
    s = te.create_schedule(C.op)
    p = s.cache_read(W, "global", [C])
    s[p].transform_layout(lambda k, j: (j // lanes, k, j % lanes))
    return s


@pytest.fixture
def arrays(rng=np.random.default_rng(3)):
    return rng.integers(-4, 5, (M, K)).astype("float32"), rng.integers(-4, 5, (K, N)).astype("float32")


def test_a_constant_is_no_parameter_and_its_packing_no_part_of_the_kernel(arrays):
    (A, W, C), (a, w) = declared(), arrays
    s = packed(A, W, C)
    func = tl.lower(s, [A, C], constants=[W])
    assert [p.name for p in func.params] == ["A", "C", "W.global"]
    assert "W.global: float32[3, 17, 8] constant" in str(func)
    assert "W.global[" in str(func) and "= W[" not in str(func)
    f = tl.build(s, [A, W, C], constants={W: w})  # named among the arguments or not: the same
    g = tl.build(s, [A, C], constants={W: w}, name="g")
    assert np.array_equal(f(a), a @ w) and np.array_equal(g(a), a @ w)
    assert repr(f) == "<kernel main(A: float32[13, 17], C: float32[13, 24] out)>"


def test_a_packing_is_compiled_quickly_for_it_runs_once(arrays, monkeypatch):
    (A, W, C), (a, w), levels = declared(), arrays, []
    real = build.compile_ll

    def compiled(text, target, opt_level=2, program=None):
        levels.append(("@prepack" in text, opt_level))
        return real(text, target, opt_level, program)

    monkeypatch.setattr(build, "compile_ll", compiled)
    monkeypatch.setattr(build, "_prepackers", {})
    f = tl.build(packed(A, W, C), [A, W, C], constants={W: w})
    assert sorted(levels) == [(False, 2), (True, 0)]
    np.testing.assert_array_equal(f(a), a @ w)


def test_kernels_with_equal_weights_and_packing_share_them_and_free_them(arrays):
    (A, W, C), (_, w) = declared(), arrays
    f = tl.build(packed(A, W, C), [A, C], constants={W: w}, name="f")
    A2, W2, C2 = declared()
    g = tl.build(packed(A2, W2, C2), [A2, C2], constants={W2: w.copy()}, name="g")
    h = tl.build(packed(A, W, C, lanes=4), [A, C], constants={W: w}, name="h")
    (first,), (second,), (third,) = f.constants.values(), g.constants.values(), h.constants.values()
    assert first is second and first is not third
    assert first.ctypes.data % 64 == 0 and not first.flags.writeable
    assert np.array_equal(first, w.reshape(K, N // 8, 8).transpose(1, 0, 2))
    from tensorlang.runtime import constants as memory

    held = len(memory._shared)
    del f, g, first, second
    gc.collect()
    assert len(memory._shared) == held - 1


def test_large_weights_share_what_is_packed_of_them_where_all_their_elements_are_equal():
    from tensorlang.runtime import constants as memory

    source = np.arange(256 * 256, dtype="float32").reshape(256, 256)
    near = source.copy()
    near[0, 1] = -1  # between those that are looked at

    def packed_of(a):
        return memory.shared_of("turned", [a], [((256, 256), "float32")], lambda out: np.copyto(out, a.T))[0]

    first, second, third, fourth = map(packed_of, (source, source.copy(order="F"), near, near.copy()))
    assert np.array_equal(first, source.T) and np.array_equal(third, near.T)
    assert first is second and third is fourth and not first.flags.writeable
    held = len(memory._shared)
    del first, second
    gc.collect()
    assert len(memory._shared) == held - 1


def test_later_changes_of_the_array_have_no_effect(arrays):
    (A, W, C), (a, w) = declared(), arrays
    want = a @ w
    f = tl.compile([A, W, C], constants={W: w})
    plain = tl.build(te.create_schedule(C.op), [A, C], constants={W: w})
    w[:] = 0
    assert np.array_equal(f(a), want) and np.array_equal(plain(a), want)


def test_stages_that_depend_on_constants_are_computed_ahead_and_others_are_not(arrays):
    A, W, V = (te.placeholder((8,), name=n) for n in "AWV")
    w, v, a = np.arange(8, dtype="float32"), np.full(8, 3, "float32"), np.ones(8, "float32")
    both = te.compute((8,), lambda i: W[i] * V[7 - i], name="both")  # of two constants
    again = te.compute((8,), lambda i: both[i] + 1.0, name="again")
    mixed = te.compute((8,), lambda i: again[i] * A[i] + V[i], name="mixed")
    s = te.create_schedule(mixed.op)
    func = tl.lower(s, [A, mixed], constants=[W, V])
    assert [c.name for c in func.constants] == ["V", "again"]
    f = tl.build(s, [A, mixed], constants={W: w, V: v})
    assert np.array_equal(f(a), w * 3 + 1 + 3)
    # computed in a loop of the kernel, it stays there, and the kernel reads the constants themselves
    s = te.create_schedule(mixed.op)
    s[again].compute_at(s[mixed], mixed.op.axis[0])
    assert [c.name for c in tl.lower(s, [A, mixed], constants=[W, V]).constants] == ["V", "both"]
    assert np.array_equal(tl.build(s, [A, mixed], constants={W: w, V: v})(a), w * 3 + 1 + 3)
    # with one of them constant only, nothing is ahead
    assert [
        c.name for c in tl.lower(te.create_schedule(mixed.op), [A, V, mixed], constants=[W]).constants
    ] == ["W"]
    # inlined stages do not matter
    s = te.create_schedule(mixed.op)
    s[both].compute_inline()
    assert [c.name for c in tl.lower(s, [A, mixed], constants=[W, V]).constants] == ["V", "again"]


def test_the_interpreter_takes_constants_as_the_last_arguments(arrays):
    (A, W, C), (a, w) = declared(), arrays
    func = tl.lower(packed(A, W, C), [A, C], constants=[W])
    out = np.zeros((M, N), "float32")
    interpret(func, a, out, np.ascontiguousarray(w.reshape(K, N // 8, 8).transpose(1, 0, 2)))
    assert np.array_equal(out, a @ w)


def test_a_parallel_kernel_with_symbolic_rows_reads_constants(arrays):
    m = te.var("m")
    A, W = te.placeholder((m, K), name="A"), te.placeholder((K, N), name="W")
    k = te.reduce_axis((0, K), name="k")
    C = te.compute((m, N), lambda i, j: te.sum(A[i, k] * W[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].parallel(C.op.axis[0])
    w = arrays[1]
    f = tl.build(s, [A, C], constants={W: w})
    for rows in (0, 1, 50):
        a = np.random.default_rng(rows).integers(-4, 5, (rows, K)).astype("float32")
        assert np.array_equal(f(a), a @ w)


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda A, W, C, w: {C: w}, "constant `C` is not a placeholder"),
        (lambda A, W, C, w: {W: w.astype("float64")}, "constant `W` is float64[17, 24]"),
        (lambda A, W, C, w: {W: w.T}, "constant `W` is float32[24, 17]"),
        (lambda A, W, C, w: {"W": w}, "the key 'W', which is not a tensor"),
        (
            lambda A, W, C, w: {te.placeholder((3,), name="X"): np.zeros(3, "float32")},
            "constant `X` is not part of this computation",
        ),
        (lambda A, W, C, w: [W], "constants is not a mapping"),
    ],
)
def test_bad_constants_are_refused(arrays, make, says):
    A, W, C = declared()
    with pytest.raises(LowerError) as caught:
        tl.build(te.create_schedule(C.op), [A, W, C], constants=make(A, W, C, arrays[1]))
    assert says in str(caught.value)


def test_a_constant_of_symbolic_size_is_refused():
    W = te.placeholder((te.var("n"),), name="W")
    B = te.compute(W.shape, lambda i: W[i] + 1.0, name="B")
    with pytest.raises(LowerError, match=r"constant `W` has a symbolic size: \(n\)"):
        tl.build(te.create_schedule(B.op), [B], constants={W: np.zeros(4, "float32")})


@pytest.mark.parametrize("strides", [(1, K), (N + 8, 1), (0, 1), (-N, 1), "any", (None, 1)])
def test_how_a_constant_is_declared_to_lie_is_nobodys_business(arrays, strides):
    """The kernel keeps its own copy: packed or not, from an array that lies as it likes."""
    a, w = arrays
    A, W = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="W", strides=strides)
    k = te.reduce_axis((0, K), name="k")
    C = te.compute((M, N), lambda i, j: te.sum(A[i, k] * W[k, j], axis=k), name="C")
    for s in (packed(A, W, C), te.create_schedule(C.op)):
        np.testing.assert_array_equal(tl.build(s, [A, C], constants={W: np.asfortranarray(w)})(a), a @ w)


def test_constants_of_other_libraries_and_what_is_none(arrays):
    (A, W, C), (a, w) = declared(), arrays
    s = te.create_schedule(C.op)
    np.testing.assert_array_equal(tl.build(s, [A, C], constants={W: Foreign(w)})(a), a @ w)
    for value, words in (
        ([[1], [1, 2]], "`W` is not an array"),
        (np.ma.array(w, mask=w > 0), "`W` is a masked array"),
        (None, "`W` is object"),
    ):
        with pytest.raises(LowerError, match=words):
            tl.build(s, [A, C], constants={W: value})
    X, V = te.placeholder((4,), "bfloat16", name="X"), te.placeholder((4,), "bfloat16", name="V")
    Y = te.compute((4,), lambda i: X[i] * V[i], name="Y")
    one, two = np.ones(4, ml_dtypes.bfloat16), np.full(4, 2, ml_dtypes.bfloat16)
    f = tl.build(te.create_schedule(Y.op), [X, Y], constants={V: Foreign(two, bfloat=True)})
    np.testing.assert_array_equal(f(one), two)


def test_a_constant_of_no_axes_and_what_is_computed_of_it():
    c, x = te.placeholder((), name="c"), te.placeholder((4,), name="x")
    d = te.compute((), lambda: c() * 2, name="d")
    y = te.compute((4,), lambda i: x[i] * d(), name="y")
    for given in (np.float32(3), np.array(3, "float32")):
        f = tl.build(te.create_schedule(y.op), [c, x, y], constants={c: given})
        assert f(np.ones(4, "float32")).tolist() == [6, 6, 6, 6]


def test_an_index_into_one_element_need_not_be_read():
    x, i = te.placeholder((1, 3), name="x"), te.placeholder((4,), "int32", name="i")
    f = tl.compile([x, i, tl.ops.take(x, i, 0, "wrap")])
    assert (f(np.ones((1, 3), "float32"), np.arange(4, dtype="int32")) == 1).all()


def test_numbers_made_of_constants_are_computed_when_they_are_packed():
    """Once, each operation rounded: as where they are written into the code, and in no loop."""
    x = te.placeholder((64,), name="x")
    r, s, z = (te.placeholder((), name=n) for n in "rsz")
    ratio = te.compute((), lambda: r() / s(), name="ratio")
    shift = te.compute((), lambda: 128.0 - z() * ratio(), name="shift")
    y = te.compute((64,), lambda i: te.nearbyint(x[i] * ratio() + shift()), name="y")
    rng = np.random.default_rng(0)
    for _ in range(20):
        numbers = {t: np.array(rng.random() + 0.01, "float32") for t in (r, s, z)}
        f = tl.compile([x, y], constants=numbers)
        assert "/" not in f.get_source("ir").partition("for ")[2], "the quotient is a constant"
        q = numbers[r] / numbers[s]
        assert {float(q), float(np.float32(128) - numbers[z] * q)} == {float(v) for v in f.constants.values()}
