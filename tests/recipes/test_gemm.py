"""The recipe for matrix products: exact on awkward sizes in every orientation, and shaped as it should be."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.analysis import cost_of
from tensorlang.recipes import default_schedule, gemm, register_tile
from tensorlang.target import as_target
from tests.codegen.test_assembly import AVX2, AVX512
from tests.recipes.long import LONG


def product(
    m: object,
    n: object,
    k: object,
    left: bool = False,
    right: bool = False,
    dtype: str = "float32",
    batch: int = 0,
) -> list[te.Tensor]:
    """[A, B, A @ B], either operand transposed."""
    front = (batch,) if batch else ()
    A = te.placeholder((*front, k, m) if left else (*front, m, k), name="A", dtype=dtype)
    B = te.placeholder((*front, n, k) if right else (*front, k, n), name="B", dtype=dtype)
    r = te.reduce_axis((0, k), name="k")

    def body(*at: te.Var) -> te.Expr:
        *b, i, j = at
        return te.sum(
            (A[(*b, r, i)] if left else A[(*b, i, r)]) * (B[(*b, j, r)] if right else B[(*b, r, j)]), axis=r
        )

    return [A, B, te.compute((*front, m, n), body, name="C")]


def agree(
    tensors: list[te.Tensor], m: int, n: int, k: int, left: bool = False, right: bool = False, batch: int = 0
) -> None:
    """Bit for bit: small whole numbers have one sum in whatever order."""
    rng = np.random.default_rng(m * 10007 + n * 101 + k)
    front = (batch,) if batch else ()
    kind = tensors[0].dtype.to_numpy()
    a = rng.integers(-4, 5, (*front, *((k, m) if left else (m, k)))).astype(kind)
    b = rng.integers(-4, 5, (*front, *((n, k) if right else (k, n)))).astype(kind)
    c = np.full((*front, m, n), 77, kind)
    tl.compile(tensors)(a, b, c)
    assert np.array_equal(c, (a.swapaxes(-1, -2) if left else a) @ (b.swapaxes(-1, -2) if right else b))


@pytest.mark.each_value
@pytest.mark.parametrize(("left", "right"), [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (1, 1, 1),
        (1, 50, 64),
        (3, 17, 40),
        (16, 23, 16),
        (37, 130, 65),
        (97, 89, 101),
        *(
            pytest.param(*size, marks=LONG)
            for size in [(12, 33, 48), (13, 100, 7), (16, 24, 16), (17, 40, 33), (130, 200, 9), (64, 531, 61)]
        ),
    ],
)
def test_exact_in_every_orientation(m: int, n: int, k: int, left: bool, right: bool) -> None:
    agree(product(m, n, k, left, right), m, n, k, left, right)


@pytest.mark.parametrize(("m", "n", "k", "batch"), [(1, 37, 100, 0), (5, 40, 136, 0), (3, 7, 24, 4)])
def test_few_rows_of_a_transposed_operand_are_summed_along_memory(m: int, n: int, k: int, batch: int) -> None:
    """Several sums side by side, each in the lanes of one register, and no copy that is transposed."""
    tensors = product(m, n, k, right=True, batch=batch)
    s = default_schedule(tensors[-1], AVX512)
    assert "B.global" not in s.tree() and "C.local.rf" in s.tree()
    asm = tl.build(s, tensors, AVX512).get_source("asm")
    assert "gather" not in asm and not re.search(r"vfmadd\w+ss", asm)
    agree(tensors, m, n, k, right=True, batch=batch)


def test_many_rows_of_a_transposed_operand_are_worth_a_copy() -> None:
    """Lanes are added up for each element of the result, so the depth decides too."""
    for m, n, k, copied in [
        (7, 500, 2000, False),
        (12, 512, 64, True),
        (10, 200, 300, False),
        (12, 512, 512, False),
        (10, 53, 658, False),
        (100, 200, 300, True),
    ]:
        s = default_schedule(product(m, n, k, right=True)[-1], AVX512)
        assert ("B.global" in s.tree()) is copied, (m, n, k)


@pytest.mark.parametrize(("m", "n", "k"), [(100, 531, 6), (96, 1338, 14), (64, 1030, 3)])
@pytest.mark.parametrize("batch", [0, 3])
def test_a_result_many_times_its_operands_is_written_row_by_row(m: int, n: int, k: int, batch: int) -> None:
    """All columns for a tile of rows, which threads share out; parts of rows were written here and there."""
    tensors = product(m, n, k, batch=batch)
    s = default_schedule(tensors[-1], AVX512)
    assert "outer.outer" not in s.tree()
    agree(tensors, m, n, k, batch=batch)
    assert "outer.outer" in default_schedule(product(100, 531, 600)[-1], AVX512).tree()


@pytest.mark.parametrize(("m", "n", "k"), [(160, 3, 3000), (31, 6, 500), (50, 3, 1201)])
def test_the_longer_operand_of_sums_along_memory_is_read_once(m: int, n: int, k: int) -> None:
    tensors = product(m, n, k, right=True)
    tree = default_schedule(tensors[-1], AVX512).tree()
    assert "C.local.rf" in tree and tree.index("loop C.i0.outer") < tree.index("loop C.i1.outer")
    agree(tensors, m, n, k, right=True)


def test_constant_panels_are_asked_for_ahead_where_a_tile_leaves_time() -> None:
    for m, ahead in [(1, False), (12, True), (te.var("m"), True)]:
        A, B, C = product(m, 96, 64)
        s = default_schedule(C, AVX512, constants=[B])
        assert ("prefetch" in str(tl.lower(s, [A, B, C], constants=[B]))) is ahead, m
        assert "prefetch" not in str(tl.lower(default_schedule(C, AVX512), [A, B, C]))


@pytest.mark.parametrize(("m", "n", "k"), [(50, 700, 300), (197, 768, 768), (40, 1000, 1500), (31, 97, 5000)])
def test_the_next_panels_of_a_constant_are_asked_for_in_shares(m: int, n: int, k: int) -> None:
    """Each tile of rows asks for a part of the next block of panels, and all of them for all of it."""
    A, B, C = product(m, n, k)
    s = default_schedule(C, AVX512, constants=[B])
    panel = [int(x) for x in re.findall(r"storage B.global +float32\[\d+, (\d+), (\d+)\]", s.tree())[0]]
    high = int(re.findall(r"storage C.local +float32\[(\d+), \d+\]", s.tree())[0])
    text = str(tl.lower(s, [A, B, C], constants=[B]))
    asked = re.search(r"prefetch\(B.global\[i1.outer.outer(?:\*(\d+))? \+ (\d+), 0, (.*)\]\)", text)
    assert asked is not None and (asked[1] or "1") == asked[2]
    block = int(asked[2])
    i, r, j = np.ogrid[: -(-m // high), :block, :k]
    at = asked[3].replace("i0.outer", "i").replace("i1.outer.inner", "r").replace("k", "j")
    lines = np.unique(eval(at) * 4 // 64)
    assert np.isin(np.arange(block * panel[0] * panel[1] * 4 // 64), lines).all()
    b = np.arange(k * n, dtype=np.float32).reshape(k, n) % 7
    a, c = np.arange(m * k, dtype=np.float32).reshape(m, k) % 5, np.empty((m, n), np.float32)
    tl.compile([A, B, C], constants={B: b})(a, c)
    assert np.array_equal(c, a @ b)


@pytest.mark.parametrize("m", [1, 2, 5, 12, 16, 40])
def test_parts_of_k_and_blocks_of_columns_on_two_threads(m: int) -> None:
    tl.set_num_threads(2)
    try:
        agree(product(m, 772, 768), m, 772, 768)
    finally:
        tl.set_num_threads(None)


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64"])
def test_other_dtypes(dtype: str) -> None:
    agree(product(33, 45, 29, dtype=dtype), 33, 45, 29)


@pytest.mark.parametrize("right", [False, True])
def test_batches(right: bool) -> None:
    agree(product(19, 37, 23, right=right, batch=5), 19, 37, 23, right=right, batch=5)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 5, 3), (1, 1, 1), (7, 40, 30), (100, 61, 77)])
def test_symbolic_sizes(m: int, n: int, k: int) -> None:
    some = product(te.var("m"), 61, 77)
    if (n, k) == (61, 77):
        agree(some, m, n, k)
    agree(product(te.var("m"), te.var("n"), te.var("k")), m, n, k)


def test_what_follows_is_computed_in_the_tile() -> None:
    A, B, C = product(70, 50, 40)
    bias = te.placeholder((50,), name="bias")
    D = te.compute((70, 50), lambda i, j: te.max(C[i, j] + bias[j], 0.0), name="D")
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(-4, 5, s).astype("float32") for s in ((70, 40), (40, 50), (50,)))
    assert np.array_equal(tl.compile([A, B, bias, D])(a, b, c), np.maximum(a @ b + c, 0))
    assert "storage C " in default_schedule(D).tree()


def test_rows_of_two_axes_share_one_packed_operand() -> None:
    A, B = te.placeholder((6, 20, 30), name="A"), te.placeholder((30, 48), name="B")
    r = te.reduce_axis((0, 30), name="k")
    C = te.compute((6, 20, 48), lambda b, i, j: te.sum(A[b, i, r] * B[r, j], axis=r), name="C")
    tree = default_schedule(C, "llvm -num-cores=1").tree()
    assert tree.index("compute B.global") < tree.index("loop C.b")
    rng = np.random.default_rng(2)
    a, b = rng.integers(-4, 5, (6, 20, 30)).astype("float32"), rng.integers(-4, 5, (30, 48)).astype("float32")
    assert np.array_equal(tl.compile([A, B, C])(a, b), a @ b)


@pytest.mark.parametrize(
    ("m", "n", "k", "fixed"),
    [
        (28, 28, 28, False),
        (44, 44, 44, False),
        (7, 129, 65, False),
        (13, 100, 100, False),
        (44, 44, 44, True),
    ],
)
def test_the_last_columns_of_a_small_product_are_a_tile_that_overlaps(
    m: int, n: int, k: int, fixed: bool
) -> None:
    """No masks and no copy of the loops for a rest; a weight known ahead is packed all the same."""
    A, B, C = product(m, n, k)
    s = default_schedule(C, AVX2, constants=[B] if fixed else [])
    assert ("storage B.global" in s.tree()) is fixed
    if not fixed:
        asm = tl.build(s, [A, B, C], AVX2).get_source("asm")
        assert "vmaskmov" not in asm
    rng = np.random.default_rng(4)
    a, b = rng.integers(-4, 5, (m, k)).astype("float32"), rng.integers(-4, 5, (k, n)).astype("float32")
    f = tl.compile([A, C], constants={B: b}) if fixed else tl.compile([A, B, C])
    assert np.array_equal(f(a) if fixed else f(a, b), a @ b)


def test_a_constant_right_operand_is_packed_whole() -> None:
    A, B, C = product(64, 512, 64)
    tree = default_schedule(C, AVX2, constants=[B]).tree()
    assert tree.splitlines()[1].startswith("├─ storage B.global")
    rng = np.random.default_rng(3)
    a, b = rng.integers(-4, 5, (64, 64)).astype("float32"), rng.integers(-4, 5, (64, 512)).astype("float32")
    assert np.array_equal(tl.compile([A, B, C], constants={B: b})(a), a @ b)


@pytest.mark.parametrize(
    ("m", "n", "tile"),
    [(512, 512, (6, 2)), (4, 512, (4, 3)), (1, 512, (1, 8)), (64, 64, (4, 2)), (None, None, (6, 2))],
)
def test_tiles_by_shape(m: int | None, n: int | None, tile: tuple[int, int]) -> None:
    rows, vectors = register_tile.tile_for(m, n, 8, 16)
    assert rows * vectors >= 8, "too few chains to keep the multipliers busy"
    assert (rows, vectors) == tile or (m, n) != (512, 512)


@pytest.mark.parametrize(("m", "n", "k"), [(512, 512, 512), (128, 768, 768), (16, 3072, 768)])
def test_no_accumulator_leaves_its_register(m: int, n: int, k: int) -> None:
    A, B, C = product(m, n, k)
    asm = tl.build(default_schedule(C, AVX2), [A, B, C], AVX2).get_source("asm")
    fma = [line for line in asm.splitlines() if "vfmadd" in line]
    rows, vectors = register_tile.tile_for(m, n, as_target(AVX2).vector_lanes("float32"), 16)
    assert len(fma) >= rows * vectors
    assert not [line for line in fma if re.search(r"\(%r[sb]p", line)], "the register tile spills"


def narrow(m: int, n: int, k: int, left: bool, right: bool, kinds: tuple[str, str]) -> list[te.Tensor]:
    A = te.placeholder((k, m) if left else (m, k), kinds[0], name="A")
    B = te.placeholder((n, k) if right else (k, n), kinds[1], name="B")
    return [A, B, ops.matmul(A, B, left, right, out_dtype="int32")]


@pytest.mark.parametrize(
    ("kinds", "left", "right", "m", "n", "k"),
    [
        *[
            (("int8", "int8"), left, right, *size)
            for left in (False, True)
            for right in (False, True)
            for size in ((19, 50, 33), (1, 33, 8))
        ],
        (("int8", "int8"), False, True, 33, 19, 1),
        *[
            (kinds, left, right, *size)
            for kinds in (("uint8", "int8"), ("int8", "uint8"))
            for left in (False, True)
            for right in (False, True)
            for size in ((17, 24, 9), (33, 70, 64))
        ],
        (("int16", "int16"), False, True, 17, 24, 9),
        (("int16", "uint8"), True, False, 17, 24, 9),
    ],
)
def test_narrow_integers_are_exact_to_the_last_bit(
    kinds: tuple[str, str], left: bool, right: bool, m: int, n: int, k: int
) -> None:
    A, B, C = narrow(m, n, k, left, right, kinds)
    rng = np.random.default_rng(m + n + k)
    limits = [np.iinfo(kind) for kind in kinds]
    a = rng.integers(limits[0].min, limits[0].max + 1, (k, m) if left else (m, k)).astype(kinds[0])
    b = rng.integers(limits[1].min, limits[1].max + 1, (n, k) if right else (k, n)).astype(kinds[1])
    a[:1], b[:, :1] = limits[0].min, limits[1].min
    wanted = (a.T if left else a).astype("int32") @ (b.T if right else b).astype("int32")
    assert np.array_equal(tl.compile([A, B, C])(a, b), wanted)
    if m > 1:
        assert np.array_equal(tl.compile([A, C], constants={B: b})(a), wanted), "the constant operand"


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(
    ("kinds", "target", "instruction", "lanes", "registers"),
    [
        (("int8", "int8"), AVX2, "vpmaddwd", 8, 15),
        (("uint8", "int8"), "llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu", "vpdpbusd", 16, 32),
    ],
    ids=["pairs", "fours"],
)
def test_a_tile_of_narrow_integers_is_products_together_without_stack_traffic(
    kinds: tuple[str, str], target: str, instruction: str, lanes: int, registers: int, right: bool
) -> None:
    A, B, C = narrow(96, 256, 128, False, right, kinds)
    lines = tl.build(default_schedule(C, target), [A, B, C], target).get_source("asm").splitlines()
    together = [line for line in lines if instruction in line]
    rows, vectors = register_tile.tile_for(96, 256, lanes, registers)
    assert len(together) >= rows * vectors and not [line for line in lines if "vpmulld" in line]
    assert not [line for line in together if re.search(r"\(%r[sb]p", line)], "the register tile spills"


VNNI = "llvm -mcpu=cascadelake -mtriple=x86_64-linux-gnu"


@pytest.mark.parametrize("n", [3, 4, 7, 9, 14, 17, 23, 31, 33, 70])
def test_columns_of_narrow_integers_that_are_no_whole_vectors_are_products_together(n: int) -> None:
    """They were multiplied one by one where a rest was no vector of 8 or 16."""
    A, B, C = narrow(31, n, 90, False, False, ("uint8", "int8"))
    asm = tl.build(default_schedule(C, VNNI), [A, B, C], VNNI).get_source("asm")
    assert "vpdpbusd" in asm and "vpmulld" not in asm and "imull" not in asm
    rng = np.random.default_rng(n)
    a, b = rng.integers(0, 256, (31, 90)).astype("uint8"), rng.integers(-128, 128, (90, n)).astype("int8")
    wanted = a.astype("int32") @ b.astype("int32")
    assert np.array_equal(tl.compile([A, B, C])(a, b), wanted)
    assert np.array_equal(tl.compile([A, C], constants={B: b})(a), wanted), "the constant operand"


@pytest.mark.parametrize("n", [200, 250, 1001])
def test_one_row_of_narrow_integers_by_a_constant(n: int) -> None:
    """A tile of 256 columns was refused where a rest of it is one masked vector: nothing was built."""
    A, B, C = narrow(1, n, 512, False, False, ("uint8", "int8"))
    b = np.random.default_rng(n).integers(-128, 128, (512, n)).astype("int8")
    assert "vpmulld" not in tl.compile([A, C], constants={B: b}, target=VNNI).get_source("asm")
    a = (np.arange(512) % 251).astype("uint8")[None]
    assert np.array_equal(tl.compile([A, C], constants={B: b})(a), a.astype("int32") @ b.astype("int32"))


def test_narrow_integers_on_other_processors_stay_plain() -> None:
    A, B, C = narrow(32, 48, 20, False, False, ("int8", "int8"))
    text = "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=neoverse-n1"
    assert "int16" not in default_schedule(C, text).tree()
    assert tl.build(default_schedule(C, text), [A, B, C], text).get_source("asm")


@pytest.mark.parametrize("n", [48, te.var("n")])
@pytest.mark.parametrize("t", ["float32", "int8"])
def test_a_left_operand_that_is_the_same_in_every_row(n: object, t: str) -> None:
    A, B = te.placeholder((32,), t, name="A"), te.placeholder((32, n), t, name="B")
    T = te.compute((64, 32), lambda i, k: A[k], name="T")
    k, sums = te.reduce_axis((0, 32), "k"), "float32" if t == "float32" else "int32"
    C = te.compute(
        (64, n), lambda i, j: te.sum(T[i, k].astype(sums) * B[k, j].astype(sums), axis=k), name="C"
    )
    a, b = np.arange(32).astype(t) % 5, (np.arange(32 * 48) % 7).reshape(32, 48).astype(t)
    assert (tl.compile([A, B, C])(a, b) == a.astype(int) @ b.astype(int)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("left", "right", "fixed"), [(False, False, False), (True, False, False), (False, True, True)]
)
def test_products_of_16_bit_floats_convert_their_operands_once(
    dtype: str, left: bool, right: bool, fixed: bool
) -> None:
    """In copies of float32, by whole vectors: no iteration of the sum converts anything but the vectors of
    a constant, which stays narrow."""
    m, n, k = 37, 64, 29
    A, B = (
        te.placeholder((k, m) if left else (m, k), dtype, name="A"),
        te.placeholder((n, k) if right else (k, n), dtype, name="B"),
    )
    C = ops.matmul(A, B, transpose_a=left, transpose_b=right)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, [int(x) for x in t.shape]).astype(t.dtype.to_numpy()) for t in (A, B))
    want = (a.T if left else a).astype(np.float32) @ (b.T if right else b).astype(np.float32)
    f = tl.compile([A, C], constants={B: b}) if fixed else tl.compile([A, B, C])
    got = f(a) if fixed else f(a, b)
    if as_target(None).sums_bfloat16 and dtype == "bfloat16":  # pairs are multiplied as they are
        old = as_target("llvm -mcpu=znver3 -num-cores=1")
        f = tl.compile([A, C], old, constants={B: b}) if fixed else tl.compile([A, B, C], old)
    assert got.dtype == a.dtype and (got.astype(np.float32) == want.astype(a.dtype).astype(np.float32)).all()
    sums = [
        line
        for line in f.get_source("ir").splitlines()
        if line.strip().startswith("matmul[") and "*" in line.split("=")[1]
    ]
    assert sums
    for line in sums:
        assert re.findall(r"float32\w*\((\w+)", line) == (["B"] if fixed else []), line


def test_few_rows_read_fixed_weights_of_16_bits() -> None:
    """What they cost is memory: their copy stays half as large."""
    A, B = te.placeholder((2, 64), "float16", name="A"), te.placeholder((64, 96), "float16", name="B")
    f = tl.compile([A, ops.matmul(A, B)], constants={B: np.ones((64, 96), np.float16)})
    assert [c.dtype for c in f.signature.constants] == ["float16"] and (
        f(np.ones((2, 64), np.float16)) == 64
    ).all()


@pytest.mark.each_value
@pytest.mark.parametrize("form", ["A A", "A Aᵀ", "Aᵀ A"])
@pytest.mark.parametrize(
    "n, t", [(200, "float32"), (16, "float16"), (40, "bfloat16"), (64, "int8"), (200, "int16")]
)
def test_a_product_of_a_tensor_with_itself_shares_one_copy(n: int, t: str, form: str) -> None:
    """Both operands would have copies of their own, and the first is read by all reads of the tensor."""
    A, k = te.placeholder((n, n), t, name="A"), te.reduce_axis((0, n), name="k")
    total = "int32" if t.startswith("int") else "float32"

    def element(i: te.Var, j: te.Var) -> te.Expr:
        left = A[k, i] if form == "Aᵀ A" else A[i, k]
        right = A[j, k] if form == "A Aᵀ" else A[k, j]
        return te.sum(left.astype(total) * right.astype(total), axis=k)

    C = te.compute((n, n), element, name="C")
    a = np.random.default_rng(n).integers(-3, 4, (n, n)).astype(A.dtype.to_numpy())
    x = a.astype("float64")
    want = {"A A": x @ x, "A Aᵀ": x @ x.T, "Aᵀ A": x.T @ x}[form]
    np.testing.assert_array_equal(tl.compile([A, C])(a), want)
    np.testing.assert_array_equal(tl.compile([A, C], constants={A: a})(), want)


def test_a_batch_of_products_of_open_sizes_reads_its_panel_without_masks():
    """The fused index of batch and columns is counted in 64 bits; that its parts are not negative is known."""
    b, m, k, n = (te.var(x) for x in "bmkn")
    x, y = te.placeholder((b, m, k), name="x"), te.placeholder((b, k, n), name="y")
    text = tl.compile([x, y, ops.matmul(x, y)]).get_source("ir")
    sums = [line for line in text.splitlines() if "matmul.local" in line and " + x" in line]
    assert sums
    assert not any("if_then_else(0 <=" in line or " if mask" in line for line in sums)
    assert "if 0 <=" not in text


def test_a_wide_panel_is_packed_in_strips():
    """A row by 1000 columns has panels of 256; written out for 8 lines, with masks, such packing took LLVM
    a quarter of a second. Lines that lie 2 KiB apart share sets of the first cache: 64 of them at once, and
    not 16 to their ends, came from the second one for every eight elements."""
    A, B = te.placeholder((1, 512), name="A"), te.placeholder((1000, 512), name="B")
    C = ops.matmul(A, B, transpose_b=True)
    tree = str(default_schedule(C, AVX512, constants=[B]).tree())
    order = re.findall(r"loop B\.global\.(\S+) +0\.\.(\d+)", tree)
    wide = [("ax0.outer", "4"), ("ax0.inner.outer", "16"), ("ax1.outer", "64"), ("ax1.inner", "8")]
    assert order == [*wide, ("ax0.inner.inner", "16")], tree
    a, b = (
        np.arange(512, dtype="float32")[None] % 5,
        np.arange(512000, dtype="float32").reshape(1000, 512) % 7,
    )
    assert np.array_equal(tl.compile([A, C], constants={B: b})(a), a @ b.T)


@pytest.mark.parametrize(
    ("rows", "depth", "first"),
    [((7, 7), 768, "j"), ((7, 40), 768, "j"), ((7, 40), 32, "b0"), ((28, 32), 96, "b0")],
)
def test_a_large_right_operand_is_read_a_block_at_a_time(
    rows: tuple[int, int], depth: int, first: str
) -> None:
    """Of pixels along two axes, the right operand came from the third cache for each line of the image."""
    A, B = te.placeholder((*rows, depth), name="A"), te.placeholder((depth, 3072), name="B")
    s = default_schedule(ops.matmul(A, B), as_target("llvm -mcpu=znver5 -num-cores=1"), constants=[B])
    loops = [loop.split(".", 1)[1] for loop in re.findall(r"loop (matmul\.\S+)", s.tree())]
    assert loops[0].startswith(first), s.tree()


def windows(dtype: str = "float32", size: int | te.Var = 14) -> list[te.Tensor]:
    """[x, w, x's windows of 7 × 7 pixels @ w]: rows in another order than they lie."""
    x = te.placeholder((2, size, 14, 20), name="x", dtype=dtype)
    w = te.placeholder((20, 40), name="w", dtype=dtype)
    parts = ops.transpose(ops.reshape(x, (2, size // 7, 7, 2, 7, 20)), (0, 1, 3, 2, 4, 5))
    return [x, w, ops.matmul(ops.reshape(parts, (2 * (size // 7) * 2, 49, 20)), w)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int8"])
@pytest.mark.parametrize("fixed", [False, True])
def test_rows_of_windows_are_those_of_a_product(dtype: str, fixed: bool) -> None:
    rng = np.random.default_rng(4)
    x, w, y = windows(dtype)
    kind = x.dtype.to_numpy()
    a, b = rng.integers(-4, 5, (2, 14, 14, 20)).astype(kind), rng.integers(-4, 5, (20, 40)).astype(kind)
    rows = a.reshape(2, 2, 7, 2, 7, 20).transpose(0, 1, 3, 2, 4, 5).reshape(8, 49, 20)
    wanted = rows.astype("int64") @ b.astype("int64")
    made = tl.compile([x, w, y], constants={w: b})(a) if fixed else tl.compile([x, w, y])(a, b)
    assert np.array_equal(made, wanted.astype(made.dtype))


def test_a_constant_beside_rows_of_windows_is_in_panels() -> None:
    x, w, y = windows()
    tree = str(default_schedule(y, AVX512, constants=[w]).tree())
    assert "w.global" in tree


def test_columns_in_another_order_are_no_product() -> None:
    """Nor rows that depend on what is summed."""
    rng = np.random.default_rng(5)
    x, w = te.placeholder((6, 8), name="x"), te.placeholder((8, 12), name="w")
    k = te.reduce_axis((0, 8), name="k")
    turned = te.compute((6, 12), lambda i, j: te.sum(x[i, k] * w[k, j // 4 + j % 4 * 3], axis=k), name="t")
    skewed = te.compute((6, 12), lambda i, j: te.sum(x[(i + k) % 6, k] * w[k, j], axis=k), name="s")
    a, b = rng.integers(-4, 5, (6, 8)).astype("float32"), rng.integers(-4, 5, (8, 12)).astype("float32")
    j, ks = np.arange(12), np.arange(8)
    assert np.array_equal(tl.compile([x, w, turned])(a, b), a @ b[:, j // 4 + j % 4 * 3])
    each = np.stack([a[(i + ks) % 6, ks] for i in range(6)])
    assert np.array_equal(tl.compile([x, w, skewed])(a, b), each @ b)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(13, 50, 100), (17, 33, 1024), (2, 30, 600), (16, 1000, 64), (5, 50, 64), (14, 90, 300)]
)
def test_few_rows_near_are_a_tile_that_reads_where_columns_lie(m: int, n: int, k: int) -> None:
    """No sums that are written and read again for each of a few lines, and no copy."""
    tensors = product(m, n, k)
    tree = default_schedule(tensors[-1], AVX512).tree()
    assert "B.global" not in tree and "C.local.k.outer" not in tree and "C.k.outer" not in tree
    agree(tensors, m, n, k)


def test_a_large_operand_of_few_rows_is_read_line_by_line() -> None:
    """In lines that are long, from behind the caches."""
    tree = default_schedule(product(4, 3072, 1000)[-1], AVX512).tree()
    assert "B.global" not in tree and "k.outer" in tree
    assert "k.outer" not in default_schedule(product(4, 30, 90000)[-1], AVX512).tree()


def test_a_rest_of_columns_is_one_masked_vector_where_masks_are_free() -> None:
    """9 columns are one vector of AVX-512, where they would be 8 and 1; 43 are three, a row of tiles each."""
    assert register_tile.tile_for(254, 9, 16, 32, masks=True)[0] > register_tile.tile_for(254, 9, 16, 32)[0]
    args = product(254, 9, 64)
    text = str(tl.lower(default_schedule(args[2], AVX512), args))
    assert "0 : 16] = C.local[0, 0 : 16] +" in text and "0 : 8]" not in text
    assert "0 : 8]" in str(tl.lower(default_schedule(args[2], AVX2), args))


def test_threads_share_rows_where_columns_would_leave_one_with_more() -> None:
    """43 columns are two panels, one of them nearly empty: a thread would wait for the other."""
    target = as_target(f"{AVX512} -num-cores=2")
    for sizes, shared in (
        ((127, 43, 349), "i0.outer in parallel"),
        ((200, 512, 512), "i1.outer.outer in parallel"),
    ):
        args = product(*sizes)
        assert shared in str(tl.lower(default_schedule(args[2], target), args))


def test_a_transposed_left_operand_that_is_read_once_is_read_where_it_lies() -> None:
    target = as_target("llvm -mcpu=sapphirerapids -num-cores=1")
    assert "A.global" not in default_schedule(product(1000, 16, 300, left=True)[2], target).tree()
    assert "A.global" in default_schedule(product(512, 768, 640, left=True)[2], target).tree()


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    ("m", "n", "k", "left", "batch", "dtype"),
    [
        (33, 192, 131, False, 0, "float32"),
        (61, 192, 200, True, 0, "float32"),
        (61, 96, 257, False, 3, "float32"),
        (33, 192, 128, False, 0, "float64"),
        (41, 192, 140, False, 0, "int32"),
    ],
)
def test_rows_that_read_blocks_of_lines_are_right(
    m: int, n: int, k: int, left: bool, batch: int, dtype: str, cores: int
) -> None:
    """A copy in panels would take as long as so few rows do: all read a block of lines, then the next."""
    A, B, C = product(m, n, k, left, batch=batch, dtype=dtype)
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-3, 4, [int(str(x)) for x in t.shape]).astype(dtype) for t in (A, B))
    out = ops.relu(C)
    want = np.maximum((a.swapaxes(-1, -2) if left else a) @ b, 0)
    s = default_schedule(out, f"llvm -mcpu=sapphirerapids -num-cores={cores}")
    assert "B.global" not in s.tree() and "k.outer" in s.tree()
    assert (tl.build(s, [A, B, out])(a, b) == want).all()


def _blocks_of(target: str, rows: int, depth: int, columns: int, fixed: bool) -> int:
    """Bytes of a block of the right operand that all rows read before the next."""
    a = te.placeholder((rows, depth), name="A")
    b = te.placeholder((depth, columns), name="B")
    constants = {b: np.zeros((depth, columns), np.float32)} if fixed else {}
    given = [a] if fixed else [a, b]
    text = tl.compile([*given, ops.matmul(a, b)], target, constants=constants).get_source("ir")
    blocks = re.findall(r"for j.outer.outer in parallel\(0, (\d+)\)", text)
    return 4 * depth * columns // int(blocks[0]) if blocks else 4 * depth * columns


@pytest.mark.parametrize("fixed", [False, True])
def test_blocks_stay_in_the_second_cache_of_a_zen_3(fixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENSORLANG_COST", raising=False)
    target = "llvm -mcpu=znver3 -num-cores=2"
    assert (_blocks_of(target, 128, 768, 768, fixed) <= 192 << 10) is fixed
    assert _blocks_of("llvm -mcpu=znver4 -num-cores=2", 128, 768, 768, fixed) > 192 << 10
