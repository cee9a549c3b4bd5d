"""Products of bytes of one sign: one operand is turned, and what that takes from the result is added where a
tile of it is made."""

from __future__ import annotations

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
