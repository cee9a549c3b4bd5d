"""Products of few rows of bytes, whose right operand is copied nowhere: four lines of it are mixed in
registers."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.recipes import default_schedule

ZEN5 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver5 -num-cores={}"


@pytest.fixture(autouse=True)
def shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each target has the table that comes for it."""
    monkeypatch.delenv("TENSORLANG_COST", raising=False)


def product(m: int, k: int, n: int, kinds: tuple[str, str] = ("int8", "int8")) -> list[te.Tensor]:
    a, b = te.placeholder((m, k), kinds[0], name="A"), te.placeholder((k, n), kinds[1], name="B")
    return [a, b, ops.matmul_integer(a, b)]


def tree(tensors: list[te.Tensor], cores: int = 1, cpu: str = "znver5", constant: bool = False) -> str:
    target = ZEN5.format(cores).replace("znver5", cpu)
    return str(default_schedule(tensors[-1], target, constants=tensors[1:2] if constant else ()).tree())


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(("m", "k", "n"), [(14, 300, 1000), (28, 768, 768)])
def test_few_rows_read_lines_as_they_lie(m: int, k: int, n: int, cores: int) -> None:
    """Sums of columns that registers do not hold are those of a block of columns, before its tiles."""
    lines = tree(product(m, k, n), cores).splitlines()
    assert not [x for x in lines if "B.global" in x]
    (summed,) = (x for x in lines if "compute matmul_integer.sums.local" in x)
    assert summed.endswith(" B")
    (storage,) = (x for x in lines if "storage matmul_integer.sums " in x)
    blocks = next(x for x in lines if "loop matmul_integer.apart." in x)
    assert blocks.index("loop") < storage.index("storage") and lines.index(blocks) < lines.index(storage)


@pytest.mark.parametrize("kinds", [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(16, 768, 768), (4, 128, 70), (15, 766, 768), (8, 767, 768), (2, 300, 500), (1, 300, 90)],
)
def test_sums_of_columns_are_made_in_the_loop_of_the_products(
    m: int, k: int, n: int, cores: int, zero: int, kinds: tuple[str, str]
) -> None:
    """A pass of their own mixed all lines a second time; with a zero point and one sign, a third."""
    a, b = te.placeholder((m, k), kinds[0], name="A"), te.placeholder((k, n), kinds[1], name="B")
    over = te.reduce_axis((0, k), name="over")
    c = te.compute(
        (m, n),
        lambda i, j: te.sum((a[i, over].astype("int32") - zero) * b[over, j].astype("int32"), axis=over),
        name="C",
    )
    one_row = m == 1 and cores == 1 and not zero
    if one_row or (not zero and kinds[0] != kinds[1]):
        pytest.skip("has no sums")
    target = ZEN5.format(cores)
    ir = str(tl.lower(default_schedule(c, target), [a, b, c]))
    assert "for over" in ir and "join_next" not in ir
    rng = np.random.default_rng(k)
    x, y = (rng.integers(*_range(t), t.shape).astype(t.dtype.name) for t in (a, b))
    wanted = (x.astype("int32") - zero) @ y.astype("int32")
    assert (tl.compile([a, b, c], target)(x, y) == wanted).all()


def _range(t: te.Tensor) -> tuple[int, int]:
    limits = np.iinfo(t.dtype.name)
    return limits.min, limits.max + 1


@pytest.mark.parametrize("kinds", [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8")])
def test_a_row_without_a_zero_point_mixes_lines_where_there_are_threads(kinds: tuple[str, str]) -> None:
    """One thread reads whole lines faster, as they lie one behind the other."""
    alone, shared = (tree(product(1, 768, 768, kinds), cores) for cores in (1, 2))
    assert "int32[1, 64]" not in alone and "int32[1, 64]" in shared


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [
        (29, 768, 768),
        (8, 32, 768),
        (8, 768, 1024),  # lines that have the same places of the first cache
        (8, 768, 3072),
        (8, 768, 30),
    ],
)
def test_others_read_panels(m: int, k: int, n: int) -> None:
    assert "B.global" in tree(product(m, k, n))


def test_constants_and_other_processors_read_panels() -> None:
    assert "B.global" in tree(product(16, 768, 768), constant=True)
    for cpu in ("znver4", "icelake-server"):
        assert "B.global" in tree(product(16, 768, 768), cpu=cpu)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    "kinds", [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8")]
)
@pytest.mark.parametrize(
    ("m", "k", "n"), [(16, 64, 96), (5, 68, 150), (14, 72, 64), (5, 67, 139), (17, 101, 90)]
)
def test_numbers(m: int, k: int, n: int, kinds: tuple[str, str], cores: int) -> None:
    tensors = product(m, k, n, kinds)
    rng = np.random.default_rng(m)
    limits = [np.iinfo(kind) for kind in kinds]
    a, b = (
        rng.integers(i.min, i.max + 1, shape).astype(kind)
        for i, shape, kind in zip(limits, ((m, k), (k, n)), kinds, strict=True)
    )
    wanted = a.astype("int32") @ b.astype("int32")
    assert (tl.compile(tensors, ZEN5.format(cores))(a, b) == wanted).all()
    if cores == 1 and m == 5:
        found = np.zeros((m, n), "int32")
        interpret(tl.lower(default_schedule(tensors[-1], ZEN5.format(1)), tensors), a, b, found)
        assert (found == wanted).all()


@pytest.mark.parametrize(("m", "width"), [(4, 64), (6, 64), (7, 32)])
def test_tiles_of_few_rows_are_as_wide_as_a_line_of_memory(m: int, width: int) -> None:
    assert f"int32[{m}, {width}]" in tree(product(m, 768, 1056))


@pytest.mark.parametrize(("k", "n"), [(767, 768), (768, 750), (765, 750)])
def test_rests_are_mixed_in_registers_too(k: int, n: int) -> None:
    """Masked columns were widened byte by byte, in every tile of a block of which one is masked, and a rest
    of the sum was what kept lines from being mixed."""
    asm = tl.compile(product(8, k, n), ZEN5.format(1)).get_source("asm").splitlines()
    inner = [x for x in asm if "vpdpbusd" in x]
    assert len(inner) >= 16 + 2
    if k % 4 == 0:
        assert not [x for x in asm if "vpmovsxbd" in x or "vpmulld" in x]


def test_a_tile_has_an_instruction_for_four_products_of_each_vector() -> None:
    asm = tl.compile(product(16, 768, 768, ("uint8", "int8")), ZEN5.format(1)).get_source("asm")
    assert len([x for x in asm.splitlines() if "vpdpbusd" in x]) == 8 * 2
    assert len([x for x in asm.splitlines() if "vpermt2b" in x or "vpermi2b" in x]) == 2
    assert "vpmulld" not in asm and "vpunpck" not in asm
