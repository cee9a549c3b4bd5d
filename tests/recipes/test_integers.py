"""Products of bytes of one sign: one operand is turned, and what that takes from the result is added where a
tile of it is made."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule

ZEN4 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4 -num-cores={}"


def product(m: int, k: int, n: int) -> list[te.Tensor]:
    a, b = te.placeholder((m, k), "int8", name="A"), te.placeholder((k, n), "int8", name="B")
    return [a, b, ops.matmul(a, b, out_dtype="int32")]


@pytest.mark.parametrize(("m", "k", "n"), [(256, 256, 256), (250, 300, 256), (512, 512, 512)])
def test_each_thread_turns_the_operand_for_its_own_columns(m: int, k: int, n: int) -> None:
    """It was turned in a region of its own, half by each thread, and read by both."""
    lines = str(default_schedule(product(m, k, n)[-1], ZEN4.format(2)).tree()).splitlines()
    turned = next(x for x in lines if "storage" in x and ".uint8 " in x)
    tiles = next(x for x in lines if "compute" in x and ".products " in x)
    shared = [x for x in lines[: lines.index(turned)] if "parallel" in x][-1]
    assert shared.index("loop") < turned.index("storage")
    assert lines.index(turned) < lines.index(tiles)


def test_a_square_product_of_bytes_is_finished_in_its_tiles() -> None:
    """The sums of columns that are taken off were as long as the result by chance: it was read and written
    again for them, some columns at a time."""
    for n in (256, 192):
        tree = str(default_schedule(product(n, n, n)[-1], ZEN4.format(2)).tree())
        (line,) = (x for x in tree.splitlines() if "storage" in x and ".products" in x)
        assert "local" in line and "global" not in line


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("kinds", [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize(("m", "k", "n"), [(16, 768, 768), (64, 300, 197), (64, 64, 64)])
def test_sums_of_columns_read_the_panels(m: int, k: int, n: int, kinds: tuple[str, str], cores: int) -> None:
    """They were a pass of their own over the operand as it lies, whose bytes become 32 bits wide one vector
    after the other: a third of the time of a few rows."""
    a, b = te.placeholder((m, k), kinds[0], name="A"), te.placeholder((k, n), kinds[1], name="B")
    zero = te.placeholder((), kinds[0], name="zero")
    lines = str(default_schedule(ops.matmul_integer(a, b, zero), ZEN4.format(cores)).tree()).splitlines()
    (summed,) = (x for x in lines if "compute matmul_integer.sums.local" in x)
    assert summed.endswith(".global")
    (copied,) = (x for x in lines if "compute" in x and ".global " in x and "int8" not in x)
    around = [x for x in lines[: lines.index(copied)] if "storage" in x][-1]
    assert lines.index(around) < lines.index(copied) < lines.index(summed)
    # where the panels are, of a block or of all columns
    (storage,) = (x for x in lines if "storage matmul_integer.sums " in x)
    assert storage.index("storage") == around.index("storage")


def test_sums_of_columns_stay_a_pass_of_their_own() -> None:
    """Of a constant, which costs a call nothing, and where no instruction sums fours."""
    a, b, _ = tensors = product(16, 768, 768)
    del a
    known = default_schedule(tensors[-1], ZEN4.format(1), constants=[b])
    assert "sums.local" not in str(known.tree())
    a, b = te.placeholder((16, 768), "uint8", name="A"), te.placeholder((768, 768), "int8", name="B")
    out = ops.matmul_integer(a, b, te.placeholder((), "uint8", name="zero"))
    for mcpu in ("skylake-avx512", "znver3"):
        target = f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={mcpu} -num-cores=1"
        assert "compute matmul_integer.sums" in str(default_schedule(out, target).tree())
        assert not [x for x in str(default_schedule(out, target).tree()).splitlines() if "sums.local" in x]


def test_sums_of_columns_have_no_rest_of_an_open_depth() -> None:
    """A panel ends with zeros: code for the last bytes of a four stood beside that of all others."""
    m, k, n = (te.var(x) for x in "mkn")
    a, b = te.placeholder((m, k), "int8", name="A"), te.placeholder((k, n), "int8", name="B")
    tensors = [a, b, ops.matmul(a, b, out_dtype="int32")]
    lines = str(tl.lower(default_schedule(tensors[-1], ZEN4.format(1)), tensors)).splitlines()
    depth = lambda x: len(x) - len(x.lstrip())
    begins = [at for at, x in enumerate(lines) if "for k.outer in" in x and "sums.local" in lines[at + 1]]
    assert begins
    for at in begins:
        body = itertools.takewhile(lambda x: depth(x) > depth(lines[at]), lines[at + 1 :])
        assert all(" = " in x and "< k" not in x and "x32(k)" not in x for x in body)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    "kinds", [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8"), ("int8", "uint8")]
)
def test_zero_points_of_both_sides(kinds: tuple[str, str], cores: int) -> None:
    rng = np.random.default_rng(cores)
    limits = [np.iinfo(kind) for kind in kinds]
    m, k, n = (te.var(x) for x in "mkn")
    a, b = te.placeholder((m, k), kinds[0], name="A"), te.placeholder((k, n), kinds[1], name="B")
    zeros = [te.placeholder((), kind, name=f"z{kind}{at}") for at, kind in enumerate(kinds)]
    for given in (zeros, zeros[:1], []):
        f = tl.compile([a, b, *given, ops.matmul_integer(a, b, *given)], ZEN4.format(cores))
        for sizes in ((17, 33, 70), (4, 2, 300), (33, 130, 257), (1, 5, 16)):
            shapes = (sizes[:2], sizes[1:])
            x, y = (
                rng.integers(i.min, i.max + 1, s).astype(t)
                for s, t, i in zip(shapes, kinds, limits, strict=True)
            )
            points = [np.array(rng.integers(i.min, i.max + 1), t) for t, i in zip(kinds, limits, strict=True)]
            points = points[: len(given)]
            less = [int(p) for p in points] + [0] * (2 - len(points))
            wanted = (x.astype("int32") - less[0]) @ (y.astype("int32") - less[1])
            assert (f(x, y, *points) == wanted).all()


@pytest.mark.parametrize(("m", "k", "n"), [(64, 64, 64), (70, 66, 130)])
def test_numbers(m: int, k: int, n: int) -> None:
    tensors = product(m, k, n)
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-128, 128, shape).astype("int8") for shape in ((m, k), (k, n)))
    wanted = a.astype("int32") @ b.astype("int32")
    assert (tl.compile(tensors, ZEN4.format(2))(a, b) == wanted).all()
    func = tl.lower(default_schedule(tensors[-1], ZEN4.format(2)), tensors)
    found = np.zeros((m, n), "int32")
    interpret(func, a, b, found)
    assert (found == wanted).all()


@pytest.mark.parametrize(("low", "high"), [(0, 67), (3, 67), (0, 61), (2, 18)])
@pytest.mark.parametrize("summed", ["zero points", "the same length", "all rows"])
def test_sums_beside_products_of_a_part_of_an_operand(low, high, summed):
    """Behind the last row of a part a panel holds what follows, and no zeros: a batch of parts was refused."""
    a, b = te.placeholder((16, 67), "int8", "A"), te.placeholder((67, 64), "int8", "B")
    wide = lambda e: e.astype("int32")
    r = te.reduce_axis((low, high), name="r")
    x, y = (
        np.random.default_rng(k).integers(-128, 128, n).astype("int8")
        for k, n in enumerate([(16, 67), (67, 64)])
    )
    part, rows = x[:, low:high].astype("int32"), y.astype("int32")
    if summed == "zero points":
        out = te.compute(
            (16, 64), lambda i, j: te.sum((wide(a[i, r]) - 3) * (wide(b[r, j]) - 7), axis=r), name="C"
        )
        want = (part - 3) @ (rows[low:high] - 7)
    else:
        many = high - low if summed == "the same length" else 67
        q = te.reduce_axis((0, many), name="q")
        product = te.compute((16, 64), lambda i, j: te.sum(wide(a[i, r]) * wide(b[r, j]), axis=r), name="P")
        sums = te.compute((64,), lambda j: te.sum(wide(b[q, j]), axis=q), name="S")
        out = te.compute((16, 64), lambda i, j: product[i, j] - 5 * sums[j], name="C")
        want = part @ rows[low:high] - 5 * rows[:many].sum(0)
    np.testing.assert_array_equal(tl.compile([a, b, out])(x, y), want)


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize(("kind", "zero"), [("uint8", 0), ("uint8", 3), ("int8", 0), ("int8", -5)])
def test_a_known_operand_of_few_rows_is_turned_ahead_of_the_call(m: int, kind: str, zero: int) -> None:
    """It was summed in pairs of 16 bits, and so is one that a call gives: turning the left operand costs more
    than so few rows gain."""
    a, b = te.placeholder((m, 90), kind, name="A"), te.placeholder((90, 40), kind, name="B")
    k = te.reduce_axis((0, 90), name="k")
    wide = lambda e: e.astype("int32") - zero if zero else e.astype("int32")
    c = te.compute((m, 40), lambda i, j: te.sum(wide(a[i, k]) * b[k, j].astype("int32"), axis=k), name="C")
    other = "int8" if kind == "uint8" else "uint8"
    known, given = (default_schedule(c, ZEN4.format(1), constants=x) for x in ([b], []))
    assert re.search(rf"compute C\S*\.{other} .*reads B", str(known.tree()))
    assert other not in str(given.tree())
    rng, limits = np.random.default_rng(m), np.iinfo(kind)
    x, y = (rng.integers(limits.min, limits.max + 1, s).astype(kind) for s in ((m, 90), (90, 40)))
    wanted = (x.astype("int32") - zero) @ y.astype("int32")
    for target in (ZEN4.format(1), None):
        assert (tl.compile([a, b, c], target, constants={b: y})(x) == wanted).all()
    found = np.zeros((m, 40), "int32")
    interpret(tl.lower(known, [a, b, c]), x, y, found)
    assert (found == wanted).all()
