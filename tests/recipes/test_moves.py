"""Copies in another order, however their axes are declared: axes that stay together are one, an axis that
counts several dimensions is several, and both are turned in registers as a matrix is."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import turned_copy
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule

WIDE = "llvm -mcpu=skylake-avx512 -num-cores=1"


def counted(shape, dtype="float32"):
    return (np.arange(int(np.prod(shape))) % 113).reshape(shape).astype(dtype)


def sizes(tensor):
    return [int(str(n)) for n in tensor.shape]


def permuted(shape, axes, dtype="float32"):
    """A tensor and its axes in another order."""
    x = te.placeholder(shape, dtype, name="x")
    inverse = [axes.index(d) for d in range(len(axes))]
    return x, te.compute([shape[a] for a in axes], lambda *i: x[tuple(i[d] for d in inverse)], name="y")


def flat(m, n, way, dtype="float32"):
    """A matrix that is transposed, of which one side or both have one axis."""
    x = te.placeholder((m, n) if way == "out" else (m * n,), dtype, name="x")
    if way == "in":
        return x, te.compute((n, m), lambda i, j: x[j * n + i], name="y")
    read = (lambda p: x[p % m, p // m]) if way == "out" else lambda p: x[p % m * n + p // m]
    return x, te.compute((m * n,), read, name="y")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16", "bool"])
@pytest.mark.parametrize("way", ["in", "out", "both"])
@pytest.mark.parametrize(("m", "n"), [(1, 9), (4, 4), (17, 31), (37, 101), (96, 64), (226, 615), (257, 263)])
def test_one_axis_of_rows_and_columns(m, n, way, dtype):
    x, y = flat(m, n, way, dtype)
    a = counted((m, n), dtype)
    np.testing.assert_array_equal(tl.compile([x, y])(a.reshape(sizes(x))), a.T.reshape(sizes(y)))


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int16", "int64"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((8, 16, 8, 24), (3, 0, 1, 2)),
        ((24, 8, 16, 8), (1, 2, 3, 0)),
        ((6, 5, 40, 50), (2, 3, 0, 1)),
        ((12, 30, 32, 5), (2, 3, 0, 1)),
        ((64, 64, 3, 3), (2, 3, 1, 0)),
        ((4, 7, 12, 11, 10, 1), (5, 4, 0, 3, 1, 2)),
        ((2, 13, 1, 3, 3, 17), (5, 0, 3, 4, 2, 1)),
        ((3, 0, 5, 7), (3, 0, 1, 2)),
    ],
)
def test_axes_that_stay_together(shape, axes, dtype):
    x, y = permuted(shape, axes, dtype)
    a = counted(shape, dtype)
    for threads in (1, 2):
        f = tl.compile([x, y], target=f"llvm -num-cores={threads}")
        np.testing.assert_array_equal(f(a), a.transpose(axes))


def test_as_the_interpreter_says():
    """Indices within bounds, each element once: rests of both sides, in parts for two threads."""
    for x, y in (flat(37, 45, "both"), permuted((3, 7, 5, 19), (3, 0, 1, 2)), flat(150, 170, "out", "int8")):
        s = default_schedule(y, "llvm -mcpu=znver5 -num-cores=2")
        a = counted(sizes(x), x.dtype.name)
        out = np.zeros(sizes(y), y.dtype.name)
        interpret(tl.lower(s, [x, y]), a, out)
        np.testing.assert_array_equal(out, tl.compile([x, y])(a))


@pytest.mark.parametrize(
    ("declared", "m", "n"),
    [
        (flat(300, 330, "in"), 330, 300),
        (flat(300, 330, "out"), 330, 300),
        (flat(300, 330, "both"), 330, 300),
        (permuted((8, 64, 8, 96), (3, 0, 1, 2)), 96, 8 * 64 * 8),
        (permuted((96, 8, 64, 8), (1, 2, 3, 0)), 8 * 64 * 8, 96),
        (permuted((6, 5, 40, 50), (2, 3, 0, 1)), 2000, 30),
        (permuted((32, 16, 5, 7), (3, 2, 1, 0)), 7, 32),
    ],
)
def test_what_is_counted_as_one(declared, m, n):
    _, y = declared
    found = turned_copy(y.op)
    assert (found.elements(found.along), found.elements(found.last)) == (m, n)


def test_what_is_not_turned():
    """What is read in its order, what overlaps, what data tells, and short sides."""
    x, v = te.placeholder((60, 80), name="x"), te.placeholder((4800,), name="v")
    k = te.placeholder((60,), "int32", name="k")
    for y in (
        te.compute((60, 80), lambda i, j: x[i, j] + 1.0),
        te.compute((4800,), lambda p: x[p // 80, p % 80]),
        te.compute((50, 40), lambda i, j: v[i + j * 8]),
        te.compute((80, 60), lambda i, j: x[k[j], i]),
        te.compute((80, 3), lambda i, j: x[j, i]),
        te.compute((), lambda: v[3]),
        te.compute((te.var("n"), 60), lambda i, j: x[j, i]),
    ):
        assert turned_copy(y.op) is None, y


@pytest.mark.parametrize("way", ["in", "out", "both"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_flat_transposes_are_those_of_matrices(way, dtype):
    """The same instructions, where quotients and remainders of the one axis are known in each tile: also
    under the guards of rests."""
    x = te.placeholder((300, 330), dtype, name="x")
    plain = tl.compile([x, te.compute((330, 300), lambda i, j: x[j, i])], target=WIDE).get_source("asm")
    asm = tl.compile(list(flat(300, 330, way, dtype)), target=WIDE).get_source("asm")
    turns = [line.split()[0] for line in plain.splitlines() if "vpunpck" in line or "vunpck" in line]
    assert turns
    found = [line.split()[0] for line in asm.splitlines() if "vpunpck" in line or "vunpck" in line]
    assert len(found) == len(turns)


def test_axes_of_one_stretch_are_not_gathered():
    """Places of fused loops whose quotients are in lowest terms, and remainders are not, are one place."""
    asm = tl.compile(list(permuted((6, 5, 40, 50), (2, 3, 0, 1))), target=WIDE).get_source("asm")
    assert asm.count("vunpcklps") + asm.count("vunpcklpd") >= 16
    assert asm.count("vinsertps") <= 16, "only the last two of 30 columns"


def test_bytes_are_in_whole_vectors_on_several_threads():
    """Threads share out parts of 150 and 165 lines, within which the last tile overlaps the one before: no
    lane has a mask."""
    x = te.placeholder((300, 330), "int8", name="x")
    y = te.compute((330, 300), lambda i, j: x[j, i], name="y")
    text = tl.compile([x, y], target="llvm -mcpu=znver5 -num-cores=2").get_source("ir")
    assert "parallel(0, 2)" in text and " if " not in text and " + 64] = " in text
    a = counted((300, 330), "int8")
    np.testing.assert_array_equal(tl.compile([x, y])(a), a.T)


def test_rows_half_a_page_apart_are_read_by_vectors_of_one_line():
    """Those of a tile of two vectors would meet in two places of the first cache."""
    x = te.placeholder((333, 512), name="x")
    y = te.compute((512, 333), lambda i, j: x[j, i], name="y")
    leaves = default_schedule(y, "llvm -mcpu=znver5 -num-cores=1")[y].state.leaves
    assert leaves[0].name == "j.outer" and "y[i.outer*16, " in tl.compile([x, y], target=WIDE).get_source(
        "ir"
    )


def test_a_line_of_several_stretches_is_written_at_once():
    """Not a part of each line of the whole result, and then the next part of each."""
    _, y = permuted((4, 4, 4, 2, 11, 12), (4, 5, 0, 1, 3, 2))
    leaves = [a.name for a in default_schedule(y, WIDE)[y].state.leaves]
    assert leaves[0].endswith("fused.outer") and len(leaves) == 7


def test_lines_of_a_few_tiles_are_read_whole():
    """Each was read again for every tile of it: 3000 × 40 took 1.4 times as long. Not where lines of the result
    meet in a quarter of the first cache."""

    def outermost(*shape):
        x, y = permuted(shape, (1, 0))
        return str(default_schedule(y, "llvm -mcpu=znver5 -num-cores=1").tree()).splitlines()[1]

    assert "y.i1.outer" in outermost(3000, 40) and "y.i1.outer" in outermost(1000, 64)
    assert "y.i0.outer" in outermost(512, 64) and "y.i0.outer" in outermost(9000, 64)
