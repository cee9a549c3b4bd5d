"""Products of few rows, whose right operand is read line by line and copied nowhere."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule


@pytest.mark.each_value
@pytest.mark.parametrize("cores", [1, 2, 7])
@pytest.mark.parametrize(
    ("m", "k", "n", "batch", "dtype"),
    [
        (1, 700, 700, 0, "float32"),
        (3, 701, 601, 0, "float32"),
        (4, 509, 811, 0, "float32"),
        (7, 613, 607, 0, "float32"),
        (11, 523, 997, 0, "float32"),
        (5, 601, 701, 3, "float32"),
        (6, 431, 433, 0, "float64"),
        (5, 601, 607, 0, "int32"),
    ],
)
def test_few_rows_read_lines_as_they_lie(m: int, k: int, n: int, batch: int, dtype: str, cores: int) -> None:
    """The cores take parts of k for up to three rows, parts of the lines for more, where those are long."""
    around = (batch,) if batch else ()
    a, b = te.placeholder((*around, m, k), dtype, name="A"), te.placeholder((*around, k, n), dtype, name="B")
    out = ops.relu(ops.matmul(a, b) if not batch else ops.batch_matmul(a, b))
    s = default_schedule(out, f"llvm -mcpu=znver3 -num-cores={cores}")
    assert "B.global" not in s.tree()
    if cores == 2:
        assert (".rf" in s.tree()) is (m <= 3) and "parallel" in s.tree()
    rng = np.random.default_rng(m)
    x, y = (rng.integers(-3, 4, [int(str(v)) for v in t.shape]).astype(dtype) for t in (a, b))
    assert (tl.build(s, [a, b, out])(x, y) == np.maximum(x @ y, 0)).all()


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each target has the table that comes for it."""
    monkeypatch.delenv("TENSORLANG_COST", raising=False)


ZEN4, ZEN5 = (f"llvm -mcpu={cpu} -num-cores=1" for cpu in ("znver4", "znver5"))


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(
    ("m", "k", "n", "zen4", "zen5"),
    [
        (48, 1612, 620, True, False),  # 4 MB
        (150, 500, 404, True, False),
        (200, 500, 404, True, True),
        (48, 430, 512, False, False),
        (48, 5000, 1000, True, True),  # 20 MB
    ],
)
def test_right_operands_lie_where_the_processor_hides_their_lines(
    m: int, k: int, n: int, zen4: bool, zen5: bool
) -> None:
    for target, packs in ((ZEN4, zen4), (ZEN5, zen5)):
        out = ops.matmul(te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B"))
        assert ("B.global" in default_schedule(out, target).tree()) is packs, target


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(
    ("m", "n", "k", "lines"),
    [
        (48, 620, 400, 16),
        (48, 1024, 200, 6),  # more lines would push one another out of the first cache
        (48, 620, 40, 10),
        (48, 620, 12, 0),  # most would be asked for in vain
        (6, 620, 400, 16),
        (6, 620, 50, 0),
        (3, 620, 400, 0),
        (48, 60, 100, 0),  # the first cache holds it
    ],
)
def test_tiles_ask_ahead_for_lines_of_a_right_operand_as_it_lies(m: int, n: int, k: int, lines: int) -> None:
    out = ops.matmul(te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B"))
    ahead = [p.offset for st in default_schedule(out, ZEN5).state.stages for p in st.prefetches]
    assert ahead == [lines] * bool(lines)
    out = ops.matmul(te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B"))
    assert not any(st.prefetches for st in default_schedule(out, ZEN4).state.stages)


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(
    ("m", "k", "constant", "terms"),
    [
        (2048, 2048, False, 24),
        (384, 4096, True, 24),
        (1000, 3000, False, 0),  # no row meets another
        (96, 2048, False, 0),  # the second cache holds all rows
    ],
)
def test_tiles_ask_ahead_for_rows_that_are_far(m: int, k: int, constant: bool, terms: int) -> None:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, 1024), name="B")
    constants = (b,) if constant else ()

    def asked(target: tl.Target) -> list[int]:
        s = default_schedule(ops.matmul(a, b), target, constants)
        return [p.offset for st in s.state.stages for p in st.prefetches if p.tensor.op is a.op]

    assert asked(ZEN5) == [terms] * bool(terms)
    assert not asked(ZEN4)


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(("n", "in_a_tile"), [(300, True), (480, True), (481, False)])
def test_one_row_whose_sums_stay_in_registers_reads_lines_in_a_tile(n: int, in_a_tile: bool) -> None:
    out = ops.matmul(te.placeholder((1, 500), name="A"), te.placeholder((500, n), name="B"))
    assert (f"0..{n}  vectorized" in default_schedule(out, ZEN5).tree()) is in_a_tile


@pytest.mark.usefixtures("shipped")
def test_rows_that_begin_anywhere_in_a_line_are_asked_for_whole() -> None:
    """A tile of three lines' columns reads parts of four where rows are no whole lines."""
    texts = []
    for n in (608, 616):
        a, b = te.placeholder((48, 400), name="A"), te.placeholder((400, n), name="B")
        out = ops.matmul(a, b)
        texts.append(str(tl.lower(default_schedule(out, ZEN5), [a, b, out])))
    lines, anywhere = texts
    assert "prefetch(B[k + 16" in lines and "+ 31])" not in lines
    assert "+ 32])" in anywhere and "+ 47])" in anywhere
