"""Lanes of one short row in an order, or as far apart, as only a call knows: it is loaded under a mask and picked from, and
nothing is read outside of it; right for rows of none, one, some and whole registers."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule
from tensorlang.recipes.choices import asking

from .test_assembly import AVX2, AVX512
from .test_memory import guarded_page

RNG = np.random.default_rng(11)
TYPES = ["float32", "uint8", "float16", "float64", "int64", "bool"]


def rolled(n, m, c, kind):
    x = te.placeholder((n, c), kind, "x")
    return [x], te.compute((n, c), lambda i, j: x[i, (j + c - 1) % c], name="o"), c


def repeated(n, m, c, kind):
    x = te.placeholder((n, c), kind, "x")
    return [x], ops.repeat(x, 2, 1), c * 2


def matrices(n, m, c, kind):
    x = te.placeholder((n, m, c), kind, "x")
    return [x], ops.transpose(x, (0, 2, 1)), c * m


def images(n, m, c, kind):
    x = te.placeholder((n, 2, m, c), kind, "x")
    return [x], ops.transpose(x, (0, 3, 1, 2)), c * m * 2


def tiled(n, m, c, kind):
    x = te.placeholder((n, c), kind, "x")
    return [x], ops.tile(x, (1, 2)), c * 2


def stacked(n, m, c, kind):
    x = te.placeholder((n, c), kind, "x")
    flipped = te.compute((n, c), lambda i, j: x[i, c - 1 - j], name="flipped")
    return [x], ops.stack([x, flipped], 2), c * 2


def chosen(n, m, c, kind):
    """What is the same for all matrices is a row too."""
    x, at = te.placeholder((n, c, 3), kind, "x"), te.placeholder((c,), "int32", "at")
    zero = te.const(0, kind)
    out = te.compute(
        (n, c, 3), lambda i, j, k: te.if_then_else(at[j] > c // 2, x[i, j, 2 - k], zero), name="o"
    )
    return [x, at], out, c * 3


def data(n, m, c, kind):
    x, at = te.placeholder((n, c), kind, "x"), te.placeholder((n, c), "int32", "at")
    return [x, at], te.compute((n, c), lambda i, j: x[i, at[i, j]], name="o"), c


def earlier(n, m, c, kind):
    """The first row has none before it: where no lane is on, nothing is read."""
    x = te.placeholder((n, c), kind, "x")
    zero = te.const(0, kind)
    read = lambda i, j: te.if_then_else(i * c + j >= c, x[i - 1, c - 1 - (j * 2) % c], zero)
    return [x], te.compute((n, c), read, name="o"), c


MADE = {
    "rolled": (rolled, lambda x: np.roll(x, 1, 1)),
    "repeated": (repeated, lambda x: np.repeat(x, 2, 1)),
    "matrices": (matrices, lambda x: x.transpose(0, 2, 1)),
    "images": (images, lambda x: x.transpose(0, 3, 1, 2)),
    "tiled": (tiled, lambda x: np.tile(x, (1, 2))),
    "stacked": (stacked, lambda x: np.stack([x, x[:, ::-1]], 2)),
    "chosen": (chosen, lambda x, at: np.where((at > len(at) // 2)[:, None], x[..., ::-1], 0)),
    "data": (data, lambda x, at: np.take_along_axis(x, at.astype("int64"), 1)),
    "earlier": (
        earlier,
        lambda x: np.concatenate(
            [0 * x[:1], x[:-1, ::-1][:, (np.arange(x.shape[1]) * 2) % max(1, x.shape[1])]]
        ),
    ),
}


def drawn(xs, sizes, kind):
    """Values for these inputs."""
    found = []
    for x in xs:
        shape = [sizes[str(e)] if str(e) in sizes else int(e.value) for e in x.shape]
        top = sizes["c"] if x.op.name == "at" else 2 if kind == "bool" else 99
        found.append(RNG.integers(0, max(top, 1), shape).astype(str(x.dtype)))
    return found


@pytest.mark.each_value
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", list(MADE))
def test_lanes_of_a_short_row(name, kind):
    made, meant = MADE[name]
    n, m, c = te.dim("n"), te.dim("m"), te.dim("c")
    xs, out, extent = made(n, m, c, kind)
    f = tl.compile([*xs, out])
    texts = []
    for given in ({}, {extent: 16}, {extent: 32}, {extent: 64}):
        for target in (AVX512, AVX2):
            with asking(given):
                texts.append((given, tl.lower(default_schedule(out, target), [*xs, out])))
    for rows in (0, 1, 5):
        for across, length in (
            (1, 0),
            (1, 1),
            (1, 2),
            (1, 3),
            (5, 3),
            (3, 5),
            (4, 4),
            (1, 16),
            (1, 17),
            (5, 5),
        ):
            arrays = drawn(xs, {"n": rows, "m": across, "c": length}, kind)
            want = np.ascontiguousarray(meant(*arrays) if length else f(*arrays)).astype(kind)
            assert np.array_equal(f(*arrays), want), (rows, across, length)
            size = want.size // max(rows, 1)
            for given, text in texts if rows == 1 and length in (0, 3) else ():
                if all(size <= most for most in given.values()):
                    got = np.zeros_like(want)
                    interpret(text, *arrays, got)
                    assert np.array_equal(got, want), (rows, across, length)


@pytest.mark.parametrize("kind", ["float32", "uint8"])
@pytest.mark.parametrize("name", list(MADE))
def test_nothing_outside_of_a_row_is_read(name, kind):
    made, meant = MADE[name]
    n, m, c = te.dim("n"), te.dim("m"), te.dim("c")
    xs, out, _ = made(n, m, c, kind)
    f = tl.compile([*xs, out])
    for length in (1, 3, 5, 13):
        arrays = drawn(xs, {"n": 3, "m": 2, "c": length}, kind)
        want = meant(*arrays)
        for at_end in (True, False):
            placed = []
            for a in arrays:
                page = guarded_page(a.size, kind if a.dtype == kind else "int32", before=not at_end)
                page[:] = a.ravel()
                placed.append(page.reshape(a.shape))
            assert np.array_equal(f(*placed), want), (length, at_end)


@pytest.mark.parametrize(
    "name", ["rolled", "repeated", "tiled", "stacked", "chosen", "matrices", "images", "data"]
)
def test_a_short_row_is_not_gathered(name):
    """A gather takes as long as a load for each lane: 1000 rows of 3 took 3.2 µs to roll, and take 0.7."""
    made, _ = MADE[name]
    n, m, c = te.dim("n"), te.dim("m"), te.dim("c")
    xs, out, _ = made(n, m, c, "float32")
    text = tl.compile([*xs, out], target=AVX512).get_source("ll")
    assert "avx512.permvar.si.512" in text or "avx512.vpermi2var.d.512" in text


def test_masks_of_a_row_are_made_in_front_of_the_loop_over_rows():
    n, c = te.dim("n"), te.dim("c")
    xs, out, _ = tiled(n, None, c, "float32")
    text = tl.compile([*xs, out], target=AVX512).get_source("ll")
    loop = text[: text.index("avx512.permvar.si.512")].rpartition(":  ")[2]
    assert "masked.load" in loop and "icmp" not in loop and "select" not in loop, loop


def shades(rows, cols, tile, levels, shift, kind):
    """What pixels read of their tile's shades: their steps from tile to tile are known, the shade is data."""
    tiles = -(-cols // tile) + 2
    x, at = te.placeholder((rows, tiles, levels), kind, "x"), te.placeholder((rows, cols), "int32", "at")
    out = te.compute((rows, cols), lambda i, j: x[i, (j + shift) // tile, at[i, j]], name="o")
    return [x, at], out, tiles


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["float32", "uint8", "float64", "int16", "float16"])
@pytest.mark.parametrize(
    "tile, levels, shift", [(8, 10, 0), (8, 10, 3), (4, 5, 0), (16, 16, 9), (3, 2, 1), (64, 33, 7)]
)
def test_places_in_tables_of_tiles_are_data(tile, levels, shift, kind):
    for rows, cols in ((1, 5), (3, 48), (2, 100)):
        xs, out, tiles = shades(rows, cols, tile, levels, shift, kind)
        x = RNG.integers(0, 99, (rows, tiles, levels)).astype(kind)
        at = RNG.integers(0, levels, (rows, cols)).astype("int32")
        want = x[np.arange(rows)[:, None], (np.arange(cols) + shift) // tile, at]
        assert np.array_equal(tl.compile([*xs, out])(x, at), want), (rows, cols)
        got = np.zeros_like(want)
        interpret(tl.lower(default_schedule(out, AVX512), [*xs, out]), x, at, got)
        assert np.array_equal(got, want), (rows, cols)


def test_nothing_outside_of_tables_of_tiles_is_read():
    xs, out, tiles = shades(2, 48, 8, 10, 16, "float32")
    f = tl.compile([*xs, out])
    x = RNG.random((2, tiles, 10), dtype=np.float32)
    at = RNG.integers(0, 10, (2, 48)).astype("int32")
    page = guarded_page(x.size)
    page[:] = x.ravel()
    assert np.array_equal(f(page.reshape(x.shape), at), f(x, at))


def test_tables_of_tiles_are_not_gathered():
    """Pixels between shades of their tile, four gathers for 16 of them, took 2.5 times as long."""
    xs, out, _ = shades(4, 384, 8, 10, 0, "float32")
    text = tl.compile([*xs, out], target=AVX512).get_source("ll")
    assert "avx512.vpermi2var.d.512" in text and "masked.gather" not in text


ROWS = 64


def across(c, kind):
    """Elements of 64 rows, as far apart as the rows are long."""
    x = te.placeholder((ROWS, c), kind, "x")
    return [x], ops.argmax(x, 1)


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["float32", "uint8", "float64", "int16"])
def test_lanes_that_are_as_far_apart_as_a_call_tells(kind):
    c = te.dim("c")
    xs, out = across(c, kind)
    f = tl.compile([*xs, out])
    with asking({c: 8}):
        text = tl.lower(default_schedule(out, AVX512), [*xs, out])
    for length in (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 40):
        a = RNG.integers(0, 9, (ROWS, length)).astype(kind)
        assert np.array_equal(f(a), a.argmax(1)), length
        for before in (True, False) if a.nbytes <= 4096 else ():
            page = guarded_page(a.size, kind, before)
            page[:] = a.ravel()
            assert np.array_equal(f(page.reshape(a.shape)), a.argmax(1)), (length, before)
        if length in (1, 5, 8):
            got = np.zeros(ROWS, "int64")
            interpret(text, a, got)
            assert np.array_equal(got, a.argmax(1))


def test_lanes_that_are_not_far_apart_are_not_gathered():
    xs, out = across(te.dim("c"), "float32")
    text = tl.compile([*xs, out], target=AVX512).get_source("ll")
    assert "vpermi2var.d.512" in text and "masked.gather" not in text


def test_what_both_sides_of_a_condition_read_is_read_without_it():
    """Unless one of them asks something else first."""
    x, y = te.placeholder((64,), name="x"), te.placeholder((64,), name="y")

    def of(element):
        out = te.compute((64,), element, name="out")
        return out, tl.compile([x, y, out], target=AVX512).get_source("ll")

    alike, plain = of(lambda i: te.if_then_else(y[i] > 0, x[63 - i] + 1, x[63 - i] * 2))
    assert "masked" not in plain
    first, guarded = of(lambda i: te.if_then_else(y[i] > 0, te.if_then_else(i > 3, x[i - 4], 0.0), x[i - 4]))
    assert "masked" in guarded
    a, b = RNG.standard_normal((2, 64)).astype("float32")
    b[:4] = 1
    want = np.where(b > 0, a[::-1] + 1, a[::-1] * 2)
    assert np.array_equal(tl.compile([x, y, alike])(a, b), want)
    want = np.where(np.arange(64) > 3, np.roll(a, 4), 0)
    assert np.array_equal(tl.compile([x, y, first])(a, b), want)
