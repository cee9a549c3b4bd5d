"""The default schedule is right on random computations of every family, and shaped as it should be on the
usual ones."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis.cost_known import KNOWN
from tensorlang.recipes import default_schedule, picks
from tests.fuzz import harness
from tests.fuzz.check import declared
from tests.fuzz.graphs import random_graph
from tests.recipes.long import LONG


@pytest.mark.parametrize("chunk", [*range(3), *(pytest.param(n, marks=LONG) for n in range(3, 6))])
def test_right_on_random_computations(chunk: int) -> None:
    for seed in range(chunk * 30, chunk * 30 + 30):
        graph = random_graph(random.Random(seed))
        args, outputs, ranges = declared(graph)
        try:
            harness.run(
                args, outputs, ranges, default_schedule(outputs), graph.sizes, interpret_it=seed % 3 == 0
            )
        except Exception as e:
            raise AssertionError(f"seed {seed} ({graph.family})\n{graph.text}") from e


def matmul(m: object, n: object, k_size: int) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    A = te.placeholder((m, k_size), name="A")
    B = te.placeholder((k_size, n), name="B")
    k = te.reduce_axis((0, k_size), name="k")
    return A, B, te.compute((m, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")


def test_a_matmul_is_tiled_packed_and_fused_with_what_follows() -> None:
    A, B, C = matmul(512, 512, 512)
    bias = te.placeholder((512,), name="bias")
    D = te.compute((512, 512), lambda i, j: te.max(C[i, j] + bias[j], 0.0), name="D")
    s = default_schedule(D)
    tree = s.tree()
    assert "storage B.global" in tree and "storage C " in tree and "compute D" in tree
    asm = tl.build(s, [A, B, bias, D]).get_source("asm")
    inner = [line for line in asm.splitlines() if "vfmadd" in line]
    assert inner and not any("(%rsp)" in line for line in inner), "the register tile spills"


def test_a_row_sum_has_its_partial_sums_in_lanes() -> None:
    A = te.placeholder((100, 1000), name="A")
    k = te.reduce_axis((0, 1000), name="k")
    S = te.compute((100,), lambda i: te.sum(A[i, k], axis=k), name="S")
    s = default_schedule(S)
    assert "storage S.rf" in s.tree() and "vectorized" in s.tree()


@pytest.mark.parametrize("m", [0, 1, 5, 64, 300])
def test_symbolic_rows(m: int) -> None:
    A, B, C = matmul(te.var("m"), 37, 20)
    f = tl.compile([A, B, C])
    rng = np.random.default_rng(m)
    a, b = rng.integers(-4, 5, (m, 20)).astype("float32"), rng.integers(-4, 5, (20, 37)).astype("float32")
    assert np.array_equal(f(a, b), a @ b)


def test_nothing_computed_is_refused() -> None:
    A = te.placeholder((4,), name="A")
    with pytest.raises(tl.LowerError, match="no argument is computed"):
        tl.compile([A])


def test_results_among_the_arguments_are_refused_as_a_tuple() -> None:
    x = te.placeholder((1, 2, 4, 8), name="x")
    with pytest.raises(tl.LowerError, match="argument 2 is a tuple of 3"):
        tl.compile([x, ops.attention(x, x, x)])


def test_a_dear_stage_read_at_many_places_is_not_written_into_each():
    """Stages that read one another at several places would otherwise grow by that factor each, and take
    seconds to compile."""
    A = te.placeholder((64, 64), name="A")
    stages = [A]
    for n in range(3):
        before = stages[-1]
        stages.append(
            te.compute(
                (64, 64),
                lambda i, j, b=before: (
                    te.exp(b[i, j]) + te.exp(b[i, (j + 1) % 64]) + te.exp(b[i, (j + 2) % 64])
                ),
                name=f"S{n}",
            )
        )
    s = default_schedule(stages[-1])
    assert [st.name for st in s.stages if st.state.attach == "inlined"] == []


def test_a_statistic_that_rows_and_a_scalar_read():
    A = te.placeholder((8, 16), name="A")
    m = tl.ops.max(A, axis=1)
    y, t = te.compute((8,), lambda i: m[i] * 2, name="y"), tl.ops.max(m)
    a = np.random.default_rng(0).permutation(128).astype("float32").reshape(8, 16)
    top, double = tl.compile([A, t, y])(a)
    assert top == 127 and (double == a.max(1) * 2).all()


def test_a_scan_beside_a_statistic_is_not_moved():
    A = te.placeholder((33,), name="A")
    y = tl.ops.less_equal(tl.ops.cumsum(A), tl.ops.min(A))
    a = (np.arange(33) % 7 - 3).astype("float32")
    assert np.array_equal(tl.compile([A, y])(a), a.cumsum() <= a.min())


@pytest.mark.each_value
@pytest.mark.parametrize("n", [24, "n"])
@pytest.mark.parametrize("read", ["beside", "transposed", "clamped"])
def test_sums_that_are_read_away_from_their_place_are_computed_once(read: str, n: object) -> None:
    """In a tile of their reader they would be computed again for each of its elements: 60 times as slow."""
    rows = te.var("n") if n == "n" else n
    A, B, C = matmul(rows, rows, 16)
    last = rows - 1
    other = {
        "beside": lambda i, j: C[i, te.max(j - 1, 0)],
        "transposed": lambda i, j: C[j, i],
        "clamped": lambda i, j: C[te.min(i + 1, last), j],
    }[read]
    D = te.compute((rows, rows), lambda i, j: C[i, j] + other(i, j), name="D")
    s = default_schedule(D)
    assert "repeated work" not in str(s.tree()) and s["C"].state.attach is None
    a, b = np.arange(24 * 16).reshape(24, 16) % 7.0, np.arange(16 * 24).reshape(16, 24) % 5.0
    a, b = a.astype("float32"), b.astype("float32")
    c = a @ b
    at = np.arange(24)
    want = {"beside": c[:, np.maximum(at - 1, 0)], "transposed": c.T, "clamped": c[np.minimum(at + 1, 23)]}
    assert (tl.compile([A, B, D])(a, b) == c + want[read]).all()


@pytest.mark.parametrize("shape", [(5, 10, 10), (3, 7, 7), (2, 3, 5, 37), (4, 100, 100), (6, 3, 3)])
def test_reductions_over_the_last_axes_take_them_for_one_row(shape: tuple[int, ...]) -> None:
    """Rows of 100 had a masked rest each; 10,000 elements have one."""
    x = te.placeholder(shape, name="x")
    axes = tuple(range(1, len(shape)))
    a = np.random.default_rng(1).integers(-9, 9, shape).astype("float32")
    for f, want in ((tl.ops.sum, a.sum(axes)), (tl.ops.max, a.max(axes))):
        np.testing.assert_array_equal(tl.compile([x, f(x, axis=axes)])(a), want)
    text = tl.compile([x, tl.ops.max(x, axis=axes)], "llvm -mcpu=skylake-avx512").get_source("ir")
    if np.prod(shape[1:]) >= 32:
        assert sum("for k" in line for line in text.splitlines()) <= 1


def test_open_rows_that_are_one_stretch_of_memory_are_one_row() -> None:
    """The mean of an image of open height and width reads whole vectors over the ends of its rows."""
    h, w = te.var("h"), te.var("w")
    x = te.placeholder((3, h, w), name="x")
    total = ops.sum(x, axis=(1, 2))
    f = tl.compile([x, total], target="llvm -mcpu=x86-64-v4")
    assert "gather" not in f.get_source("asm")
    f = tl.compile([x, total])
    for shape in ((3, 1, 1), (3, 14, 14), (3, 9, 31), (3, 40, 2), (3, 0, 5)):
        data = np.arange(float(np.prod(shape)), dtype="float32").reshape(shape) % 17
        assert np.array_equal(f(data), data.sum((1, 2)))


def test_reductions_over_the_last_axes_of_a_part_stay_apart() -> None:
    """A read of rows that do not lie together, as of a slice, is no single stretch."""
    x = te.placeholder((4, 9, 50), name="x")
    r, c = te.reduce_axis((0, 9), name="r"), te.reduce_axis((0, 40), name="c")
    y = te.compute((4,), lambda i: te.sum(x[i, r, c + 3], axis=[r, c]), name="y")
    a = np.random.default_rng(1).integers(-9, 9, (4, 9, 50)).astype("float32")
    np.testing.assert_array_equal(tl.compile([x, y])(a), a[:, :, 3:43].sum((1, 2)))


@pytest.mark.parametrize("n", [57, 100003])
def test_one_row_of_odd_length_is_shared_without_overlap(n: int) -> None:
    x = te.placeholder((1, n), name="x")
    a = np.arange(-40, n - 40, dtype="float32").reshape(1, n)
    np.testing.assert_array_equal(tl.compile([x, tl.ops.relu(x)])(a), np.maximum(a, 0))


@pytest.mark.parametrize("columns", [5, 16, 37])
def test_colours_of_one_pixel_are_computed_together(columns: int) -> None:
    x, m = te.placeholder((9, columns + 4), name="X"), te.placeholder((3, 3), name="M")
    wide = lambda i, j: te.max(te.max(x[i, j], x[i, j + 4]), te.min(x[i, j + 1], x[i, j + 3])) * x[i, j + 2]
    mixed = lambda c, i, j: m[c, 0] * wide(i, j) + m[c, 1] * x[i, j + 2] * x[i, j + 2]
    y = te.compute((3, 9, columns), mixed, name="Y")
    s = default_schedule(y)
    around, beside, lanes = s[y].leaf_iter_vars[:-2], *s[y].leaf_iter_vars[-2:]
    assert beside.name == "c" and s[y].state.kind(beside) == "unrolled"
    assert s[y].state.kind(lanes) == "vectorized" and len(around) == 2
    a, b = (
        np.random.default_rng(1).integers(-4, 5, [int(str(e)) for e in t.shape]).astype("float32")
        for t in (x, m)
    )
    np.testing.assert_array_equal(tl.build(s, [x, m, y])(a, b), te.reference.evaluate([y], {x: a, m: b})[0])


def test_a_bias_is_not_worth_computing_channels_together() -> None:
    x, b = te.placeholder((3, 9, 37), name="X"), te.placeholder((9, 37), name="B")
    y = te.compute((3, 9, 37), lambda c, i, j: x[c, i, j] * b[i, j], name="Y")
    s = default_schedule(y)
    written_out = [iv.name for iv in s[y].leaf_iter_vars if s[y].state.kind(iv) == "unrolled"]
    assert not any(name.startswith("c") for name in written_out), written_out  # the vectors of a row may be


@pytest.mark.parametrize("m", [64, 7, "m"])
def test_an_activation_between_two_products_ends_the_first(m: object) -> None:
    """Written into the second it was evaluated for each of its sums, and hid that it is a product."""
    x, w, b, v = (
        te.placeholder(shape, name=name)
        for name, shape in (
            ("x", (te.var("m") if m == "m" else m, 40)),
            ("w", (96, 40)),
            ("b", (96,)),
            ("v", (33, 96)),
        )
    )
    hidden = ops.dense(x, w, b, activation=ops.relu)
    out = ops.dense(hidden, v)
    tree = str(default_schedule(out).tree())
    assert "compute relu" in tree and "recipes.gemm" in str(tl.compile([x, w, b, v, out]).explain())
    rng = np.random.default_rng(0)
    a = [
        rng.integers(-3, 4, shape).astype("float32")
        for shape in ((5 if m == "m" else m, 40), (96, 40), (96,), (33, 96))
    ]
    want = np.maximum(a[0] @ a[1].T + a[2], 0) @ a[3].T
    np.testing.assert_array_equal(tl.compile([x, w, b, v, out])(*a), want)


def test_a_map_of_a_reduction_that_the_next_reads_once_is_written_into_it() -> None:
    """No sum of the second is one that another of it has: its rows are summed where they are read."""
    x = te.placeholder((50, 40, 30), name="x")
    k, j = te.reduce_axis((0, 30), name="k"), te.reduce_axis((0, 40), name="j")
    first = te.compute((50, 40), lambda a, b: te.sum(x[a, b, k], axis=k), name="first")
    root = te.compute((50, 40), lambda a, b: first[a, b] * 2.0, name="root")
    out = te.compute((50,), lambda a: te.sum(root[a, j], axis=j), name="out")
    assert "compute root" not in str(default_schedule(out).tree())


@pytest.mark.each_value
@pytest.mark.parametrize("open_", [False, True])
@pytest.mark.parametrize("view", ["an axis of one channel", "another order"])
@pytest.mark.parametrize("n", [13, 31, 400])
def test_a_view_that_would_hide_a_convolution_is_copied(view: str, open_: bool, n: int) -> None:
    """Written in, the view would have left a sum along memory for each output."""
    b, m = (te.dim("b", 0), te.dim("m", 4)) if open_ else (2, n)
    channels = 1 if view.startswith("an axis") else 24
    w = te.placeholder((40, channels, 4), name="w")
    if channels == 1:
        x = te.placeholder((b, m), name="x")
        v = te.compute((b, 1, m), lambda i, c, j: x[i, j], name="v")
    else:
        x = te.placeholder((b, m, channels), name="x")
        v = te.compute((b, channels, m), lambda i, c, j: x[i, j, c], name="v")
    y = ops.conv1d(v, w, stride=5)
    s = default_schedule(y, constants=[w])
    assert s[v].state.attach is None, s.tree()
    f = tl.build(s, [x, w, y])
    for batch in (2,) if not open_ else (0, 1, 3):
        rng = np.random.default_rng(batch)
        shape = (batch, n) if channels == 1 else (batch, n, channels)
        a = rng.integers(-4, 5, shape).astype("float32")
        k = rng.integers(-4, 5, (40, channels, 4)).astype("float32")
        image = a[:, None] if channels == 1 else a.transpose(0, 2, 1)
        windows = np.lib.stride_tricks.sliding_window_view(image, 4, 2)[:, :, ::5]
        np.testing.assert_array_equal(f(a, k), np.einsum("bcjt,oct->boj", windows, k))


@pytest.mark.parametrize("shape", [(7, 30), (3, 9, 40), (2, 30), (9003, 60)])
@pytest.mark.parametrize("cores", [1, 2])
def test_columns_at_places_that_are_data_are_picked_for_some_rows_together(shape, cores, monkeypatch):
    """Where gathers are slow, and a place is read once for four rows; right for rows that leave a rest."""
    a = np.random.default_rng(0).integers(0, 99, shape).astype("float32")
    at = np.random.default_rng(1).integers(-3, shape[-1] + 3, 25)
    x, i = te.placeholder(shape, name="x"), te.placeholder((25,), "int64", name="i")
    y = ops.take(x, i, len(shape) - 1)
    target = f"llvm -num-cores={cores}"
    assert "vectorized" in default_schedule(y, target).tree()
    monkeypatch.setattr(picks, "cost_of", lambda target: KNOWN["znver4"])
    s = default_schedule(y, target)
    rows = [n for n in shape[:-1] if n >= 4]
    assert ("4  unrolled" in s.tree()) == bool(rows) and ("vectorized" in s.tree()) == (not rows)
    assert np.array_equal(tl.build(s, [x, i, y], target=target)(a, at), a.take(at, -1, mode="clip"))


@pytest.mark.each_value
@pytest.mark.parametrize("each", [1, 2, 3, 7, 12])
@pytest.mark.parametrize(("front", "parts"), [((), (9, 40)), ((5,), (1, 30)), ((2, 3), (17, 5, 20))])
def test_joined_rows_of_few_elements_are_one_stretch(each, front, parts):
    """A row of 2 was a vector of 2: joins of rows of up to 12 took 1.8 times as long."""
    ins = [te.placeholder((*front, n, each), name=f"x{d}") for d, n in enumerate(parts)]
    y = ops.concatenate(ins, len(front))
    if each > 1:
        assert ".fused" in default_schedule(y, "llvm -mcpu=znver4 -num-cores=1").tree()
    rng = np.random.default_rng(each)
    given = [rng.standard_normal([int(str(e)) for e in x.shape]).astype("float32") for x in ins]
    want = np.concatenate(given, len(front))
    np.testing.assert_array_equal(tl.compile([*ins, y])(*given), want)
    relu = ops.relu(y)
    np.testing.assert_array_equal(tl.compile([*ins, relu])(*given), np.maximum(want, 0))


def test_parts_that_are_joined_are_loops_of_their_own():
    """Threads share what lies in front, so that the loop over parts is one that a condition splits."""
    a, b = (te.placeholder((65, n, 19), name=name) for n, name in ((33, "a"), (50, "b")))
    y = ops.concatenate([a, b], 1)
    f = tl.compile([a, b, y], "llvm -mcpu=skylake-avx512 -num-cores=2")
    text = f.get_source("ir")
    assert "for i0 in parallel(0, 65)" in text and "for i1 in range(0, 83)" in text
    assert "//" not in text and "%" not in text


@pytest.mark.parametrize("n", [16, 33, 64])
def test_several_tensors_read_along_an_axis_that_is_cut(n: int) -> None:
    """What repeats along one axis is a loop around it, which is no axis of the operator and has no extent."""
    a = te.placeholder((n,), "int32", name="a")
    t = ops.tile(a, (2,))
    m = ops.max(t, axis=0, keepdims=True)
    x = np.arange(n, dtype="int32")
    y, most = tl.compile([a, ops.maximum(t, m), m])(x)
    assert (y == n - 1).all() and most[0] == n - 1


@pytest.mark.parametrize("target", ["llvm -mcpu=znver3 -num-cores=1", "llvm -mcpu=znver4 -num-cores=2"])
@pytest.mark.parametrize("length", [None, 100, 257])
def test_filters_sum_several_vectors_at_once(length, target):
    """Of one vector each addition would wait for the one before."""
    n, taps = te.dim("n") if length is None else length, 9
    x, h = te.placeholder((n + taps - 1,), name="x"), te.placeholder((taps,), name="h")
    k = te.reduce_axis((0, taps), "k")
    y = te.compute((n,), lambda i: te.sum(x[i + k] * h[k], axis=k), name="y")
    s = default_schedule(y, target)
    if length != 100 or "znver4" in target:  # else a rest of a vector would be several
        width = re.search(r"y\.local +float32\[(\d+)\]", s.tree())
        assert width is not None and int(width[1]) >= 32
    f = tl.build(s, [x, h, y])
    for m in (1, 7, 31, 33, 64, 130, 1000) if length is None else (length,):
        a = np.random.default_rng(m).integers(-3, 4, m + taps - 1).astype("float32")
        w = np.arange(taps, dtype="float32")
        assert (f(a, w) == np.correlate(a, w, "valid")).all()


@pytest.mark.parametrize("cores", [1, 2])
def test_sums_of_a_short_row_are_several_rows(cores):
    """Differences of blocks at 7 × 7 shifts: a row of shifts is less than a vector."""
    b, r, h, w = 4, 3, 12, 16
    x, y = te.placeholder((h, w), name="x"), te.placeholder((h + 2 * r, w + 2 * r), name="y")
    u, v = te.reduce_axis((0, b), "u"), te.reduce_axis((0, b), "v")
    out = te.compute(
        (h // b, w // b, 2 * r + 1, 2 * r + 1),
        lambda i, j, p, q: te.sum(
            te.abs(x[i * b + u, j * b + v] - y[i * b + u + p, j * b + v + q]), axis=(u, v)
        ),
        name="out",
    )
    s = default_schedule(out, f"llvm -mcpu=znver4 -num-cores={cores}")
    assert re.search(r"loop out.local.p +0..[234]  unrolled", s.tree())
    rng = np.random.default_rng(0)
    a = rng.integers(0, 9, (h, w)).astype("float32")
    c = rng.integers(0, 9, (h + 2 * r, w + 2 * r)).astype("float32")
    want = np.zeros((h // b, w // b, 7, 7), "float32")
    for p in range(7):
        for q in range(7):
            apart = np.abs(a - c[p : p + h, q : q + w])
            want[:, :, p, q] = apart.reshape(h // b, b, w // b, b).sum((1, 3))
    assert (tl.build(s, [x, y, out])(a, c) == want).all()


@pytest.mark.parametrize("each", [16, 32, 20])
def test_no_vector_is_computed_in_two_ways(each: int) -> None:
    """Rows whose halves are turned in pairs: a vector of the whole row computed both for all of it."""
    x, f = te.placeholder((3, 5, 2 * each), name="x"), te.placeholder((5, each), name="f")
    turn = lambda sign: (
        lambda i, t, c: (
            x[i, t, c] * te.cos(f[t, c % each])
            + sign * x[i, t, (c + each) % (2 * each)] * te.sin(f[t, c % each])
        )
    )
    out = te.compute(
        (3, 5, 2 * each), lambda i, t, c: te.if_then_else(c < each, turn(-1.0)(i, t, c), turn(1.0)(i, t, c))
    )
    tree = default_schedule(out, "llvm -mcpu=znver4").tree()
    assert (f"0..{each}  vectorized" in tree) == (each % 16 == 0)
    rng = np.random.default_rng(0)
    a, g = rng.standard_normal((3, 5, 2 * each)).astype("f"), rng.standard_normal((5, each)).astype("f")
    low, high, c, s = a[..., :each], a[..., each:], np.cos(g), np.sin(g)
    want = np.concatenate([low * c - high * s, high * c + low * s], -1)
    np.testing.assert_allclose(tl.compile([x, f, out])(a, g), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("taps", [3, 5])
def test_patches_that_lie_in_columns_are_held_for_a_product(taps: int) -> None:
    """Written into it they were gathered one sum at a time, 16 times as slow."""
    side, deep, wide = 20, 4 * taps * taps, 21 - taps
    x, w = te.placeholder((4, side, side), name="x"), te.placeholder((24, deep), name="w")
    at = lambda r, p: x[r // (taps * taps), p // wide + r % (taps * taps) // taps, p % wide + r % taps]
    patches = te.compute((deep, wide * wide), at, name="patches")
    k = te.reduce_axis((0, deep), name="k")
    out = te.compute((24, wide * wide), lambda o, p: te.sum(w[o, k] * patches[k, p], axis=k), name="out")
    assert "storage patches" in default_schedule(out, "llvm -mcpu=znver4").tree()
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, [int(n) for n in t.shape]).astype("float32") for t in (x, w))
    windows = np.lib.stride_tricks.sliding_window_view(a, (taps, taps), (1, 2)).transpose(0, 3, 4, 1, 2)
    assert np.array_equal(tl.compile([x, w, out])(a, b), b @ windows.reshape(deep, -1))


@pytest.mark.parametrize("wide", [18, 32, 21])
def test_pixels_that_are_told_by_their_number_are_read_row_by_row(wide: int) -> None:
    """They were gathered; where the parts lie one behind the other they are one stretch still."""
    x = te.placeholder((5, 20, 40), name="x")
    n = 18 * wide
    inner = te.compute((5, n), lambda c, p: x[c, p // wide + 1, p % wide + 2], name="inner")
    whole = te.compute((5, 800), lambda c, p: x[c, p // 40, p % 40] * 2.0, name="whole")
    assert f"0..{n // wide}" in default_schedule(inner, "llvm -mcpu=znver4").tree()
    assert "gather" not in tl.compile([x, inner], target="llvm -mcpu=znver4").get_source("asm")
    assert "0..20 " not in default_schedule(whole, "llvm -mcpu=znver4").tree()
    a = np.random.default_rng(0).standard_normal((5, 20, 40)).astype("f")
    assert np.array_equal(tl.compile([x, inner])(a), a[:, 1:19, 2 : wide + 2].reshape(5, n))
    assert np.array_equal(tl.compile([x, whole])(a), a.reshape(5, 800) * 2)


@pytest.mark.parametrize("rows", [2, 3])
def test_rows_that_are_written_out_leave_the_columns_to_threads(rows: int) -> None:
    """Vectors that overlap were to be written by two threads, which is an error."""
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4 -num-cores=2"
    x = te.placeholder((rows, 30001), name="x")
    y = ops.logsumexp(x, axis=0)
    assert "parallel" in default_schedule(y, target).tree()
    a = np.random.default_rng(0).random((rows, 30001), dtype="float32")
    np.testing.assert_allclose(
        tl.build(default_schedule(y, target), [x, y])(a), np.log(np.exp(a).sum(0)), 1e-5
    )


@pytest.mark.parametrize("open_row", [False, True])
def test_what_is_repeated_is_in_blocks_after_which_places_repeat(open_row: bool) -> None:
    """Of three vectors of 64 bytes the last one ended with the row, at a place that was no number, and was
    gathered; of an open row all were."""
    target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4 -num-cores=1"
    x = te.placeholder((3, te.var("n") if open_row else 30001), "uint8", name="x")
    y = ops.repeat(x, 3, 1)
    text = str(tl.lower(default_schedule(y, target), [x, y]))
    assert "ramp(128, 1, 64) // x64(3)" in text and not re.search(r"ramp\([^)]*outer[^)]*\) //", text), text
    f = tl.compile([x, y])
    for n in (0, 1, 5, 63, 64, 65, 127, 200, 1000) if open_row else (30001,):
        a = np.random.default_rng(n).integers(0, 250, (3, n)).astype("uint8")
        np.testing.assert_array_equal(f(a), np.repeat(a, 3, 1))
        if n < 200:
            run = tl.interpret(default_schedule(y, target), [x, y], [a], simple=False)
            np.testing.assert_array_equal(run.arrays[y.op.name], np.repeat(a, 3, 1))


@pytest.mark.parametrize("cores", [2, 8])
@pytest.mark.parametrize("images", [1, 3, 8])
def test_threads_share_the_planes_of_few_images(images: int, cores: int) -> None:
    """One thread took the planes of one image, and three threads those of three."""
    x = te.placeholder((images, 64, 128, 128), name="x")
    mean = ops.mean(x, (2, 3))
    tree = str(
        default_schedule(mean, f"llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores={cores}").tree()
    )
    (shared,) = (line for line in tree.splitlines() if " parallel" in line)
    n = int(re.search(r"0\.\.(\d+)", shared)[1])  # type: ignore[index]
    assert n == (images if images >= cores else 64 * images)
    a = np.random.default_rng(0).random((images, 64, 128, 128), "float32")
    np.testing.assert_allclose(
        tl.compile([x, mean], f"llvm -num-cores={cores}")(a), a.mean((2, 3)), rtol=1e-5
    )
