"""What the machine code must look like: read from the assembly, never from a clock."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tensorlang.expr.nodes import Expr
from tensorlang.loopir.stmt import Stmt

from .helper import Func, Kernel, Store, buffer, compiled, i32, load, loop, make, ramp, seq, var
from .test_control import matmul

AVX2 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell"
AVX512 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512"
NEON = "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=neoverse-n1"


def inner_loop(asm: str, marker: str) -> list[str]:
    """The instructions of the innermost loop with most of ``marker``; of several, the shortest: that of whole
    tiles, without masks."""
    blocks: list[list[str]] = [[]]
    for line in asm.splitlines():
        if re.match(r"\S+:", line):
            blocks.append([])
        elif line.startswith("\t") and not line.startswith("\t."):
            blocks[-1].append(line.strip())
            if re.match(r"\s*(j|b\.|b\s|ret)", line.strip()):
                blocks.append([])
    return max(blocks, key=lambda b: (sum(marker in x for x in b), -len(b)))


# targets, with how their vector registers, multiply-adds and places on the stack are written
IN_VECTORS = pytest.mark.parametrize(
    ("target", "register", "fma", "stack"),
    [
        (AVX2, "ymm", "vfmadd", r"\(%r[sb]p"),
        (AVX512, "zmm", "vfmadd", r"\(%r[sb]p"),
        (NEON, "v", "fmla", r"\[sp"),
    ],
    ids=["avx2", "avx512", "neon"],
)


@pytest.mark.parametrize(
    ("target", "mr", "nr", "lanes", "register", "fma", "stack"),
    [
        (AVX2, 6, 16, 8, "ymm", "vfmadd", r"\(%r[sb]p"),
        (AVX2, 6, 16, 16, "ymm", "vfmadd", r"\(%r[sb]p"),
        (AVX512, 6, 64, 16, "zmm", "vfmadd", r"\(%r[sb]p"),
        (AVX512, 14, 32, 32, "zmm", "vfmadd", r"\(%r[sb]p"),
        (NEON, 8, 12, 4, "v", "fmla", r"\[sp"),
    ],
)
def test_the_inner_loop_of_a_matmul_is_fused_multiply_adds_without_stack_traffic(
    target: str, mr: int, nr: int, lanes: int, register: str, fma: str, stack: str
) -> None:
    asm = compiled(matmul(4 * mr, 4 * nr, 64, mr, nr, lanes), target).asm
    body = inner_loop(asm, fma)
    width = {"ymm": 8, "zmm": 16, "v": 4}[register]
    wanted = mr * nr // width
    found = [x for x in body if fma in x and re.search(rf"\b{register}\d+|%{register}\d+", x)]
    assert len(found) == wanted
    assert not [x for x in body if re.search(stack, x)]
    assert len(body) <= wanted + mr + nr // width + 8  # broadcasts, loads of B, counting


def vector_kernel(name: str, lanes: int) -> Func:
    n = var("n", kind="dim")
    x, y = buffer("X", "float32", n), buffer("Y", "float32", n)
    return Func(
        "k",
        (x, y),
        loop(
            make.floordiv(n, lanes),
            lambda i: Store(
                y, make.call(name, load(x, (ramp(i * lanes, lanes),))), (ramp(i * lanes, lanes),)
            ),
        ),
        (n,),
        (y,),
    )


@pytest.mark.parametrize(
    ("target", "register", "lanes", "alignment"), [(AVX2, "ymm", 64, 32), (AVX512, "zmm", 256, 64)]
)
def test_spilled_vectors_do_not_cross_cache_lines(
    target: str, register: str, lanes: int, alignment: int
) -> None:
    """Callers align the stack to 16 bytes only: where the call came from once decided how fast a kernel ran,
    1.4 times slower in one of eight."""
    asm = compiled(vector_kernel("erf", lanes), target).asm
    assert re.search(rf"vmov\w+\t%{register}\d+, -?\d*\(%rsp\)", asm), (
        "this many lanes do not fit the registers"
    )
    assert f"andq\t$-{alignment}, %rsp" in asm


@pytest.mark.parametrize(
    "name",
    ["exp", "exp2", "log", "tanh", "sigmoid", "erf", "sin", "cos", "tan", "atan", "rsqrt", "floor", "abs"],
)
@pytest.mark.parametrize(
    ("target", "register", "lanes"), [(AVX2, "ymm", 8), (AVX512, "zmm", 16), (NEON, "v", 4)]
)
def test_vector_math_calls_no_library_and_fills_the_registers(
    name: str, target: str, register: str, lanes: int
) -> None:
    asm = compiled(vector_kernel(name, lanes), target).asm
    assert f"{register}0" in asm
    calls = re.findall(r"\n\t(?:callq|call|bl)\t(\S+)", asm)
    assert all(c.startswith(("k", "tensorlang.")) for c in calls), (
        calls
    )  # itself, and the functions for rare lanes, which are in the module


def test_masked_tails_are_masked_instructions() -> None:
    n = var("n", kind="dim")
    x, y = buffer("X", "float32", n), buffer("Y", "float32", n)

    def body(i: object) -> Store:
        at = ramp(make.mul(i, 16), 16)
        mask = make.lt(at, make.broadcast(n, 16))
        return Store(y, load(x, (at,), mask) + make.const(1.0), (at,), mask)

    func = Func("k", (x, y), loop(make.ceildiv(n, 16), body), (n,), (y,))
    asm = compiled(func, AVX512).asm
    assert re.search(r"%zmm\d+ \{%k\d\} \{z\}", asm) or re.search(r"\{%k\d\}", asm)
    assert "vmaskmov" in compiled(func, AVX2).asm
    for target in (AVX512, AVX2):  # no branch for each lane
        assert len(re.findall(r"\n\tj\w+", compiled(func, target).asm)) <= 4


def test_maximum_with_a_constant_is_one_instruction() -> None:
    x, y = buffer("X", "float32", 256), buffer("Y", "float32", 256)
    func = Func(
        "relu",
        (x, y),
        loop(
            32, lambda i: Store(y, make.max_(load(x, (ramp(i * 8, 8),)), make.const(0.0)), (ramp(i * 8, 8),))
        ),
        (),
        (y,),
    )
    body = inner_loop(compiled(func, AVX2).asm, "vmaxps")
    assert sum("max" in x for x in body) == 1 and not [
        x for x in body if ("cmp" in x and "ps" in x) or "blend" in x
    ]


def test_strided_loads_are_shuffles_of_contiguous_loads() -> None:
    x, y = buffer("X", "float32", 1000), buffer("Y", "float32", 400)
    func = Func(
        "k", (x, y), loop(50, lambda i: Store(y, load(x, (ramp(i * 16, 8, 2),)), (ramp(i * 8, 8),))), (), (y,)
    )
    body = inner_loop(compiled(func, AVX2).asm, "vmovups")
    assert len(body) <= 9 and not [x for x in body if "insert" in x or "gather" in x]


def test_masked_strided_loads_are_shuffles_of_masked_loads() -> None:
    n = var("n", kind="dim")
    x, y = buffer("X", "float32", n * 2), buffer("Y", "float32", n)

    def part(i: Expr) -> Stmt:
        at = ramp(i * 16, 16)
        mask = make.lt(at, make.broadcast(n, 16))
        return Store(y, load(x, (ramp(i * 32, 16, 2),), mask), (at,), mask)

    asm = compiled(Func("k", (x, y), loop(make.floordiv(n + 15, 16), part), (n,), (y,)), AVX512).asm
    assert "gather" not in asm and "vpermt2ps" in asm


def test_a_serial_accumulation_into_memory_keeps_the_invariant_side_in_a_register() -> None:
    a, b, c = buffer("A", "float32", 8, 64), buffer("B", "float32", 64, 64), buffer("C", "float32", 8, 64)
    at = lambda j: ramp(j * 8, 8)
    func = Func(
        "k",
        (a, b, c),
        loop(
            8,
            lambda i: loop(
                64,
                lambda k: loop(
                    8,
                    lambda j: Store(
                        c,
                        load(c, (i, at(j))) + make.broadcast(load(a, (i, k)), 8) * load(b, (k, at(j))),
                        (i, at(j)),
                    ),
                ),
            ),
        ),
        (),
        (c,),
    )
    body = inner_loop(compiled(func, AVX2).asm, "vfmadd")
    assert not [x for x in body if "broadcast" in x]


@pytest.mark.parametrize(
    "target",
    [
        "llvm -mtriple=riscv64-unknown-linux-gnu",
        "llvm -mtriple=riscv64-unknown-linux-gnu -mcpu=sifive-x280",
        NEON,
        "llvm -mcpu=x86-64 -mtriple=x86_64-unknown-linux-gnu",
        "llvm -mcpu=znver4 -mtriple=x86_64-unknown-linux-gnu",
    ],
)
def test_every_architecture_gets_an_object(target: str) -> None:
    code = compiled(matmul(12, 32, 8, 6, 16, 8), target)
    assert code.object[:4] == b"\x7fELF"
    assert i32(0) is i32(0)


def test_columns_of_a_block_are_turned_in_registers() -> None:
    x, y = buffer("X", "float32", 64, 200), buffer("Y", "float32", 200, 8)
    func = Func(
        "k",
        (x, y),
        loop(
            25,
            lambda i: seq(
                *[Store(y, load(x, (ramp(0, 8), i * 8 + u)), (i * 8 + u, ramp(0, 8))) for u in range(8)]
            ),
        ),
        (),
        (y,),
    )
    body = inner_loop(compiled(func, AVX2).asm, "unpck")
    assert (
        sum("unpck" in b or "shufp" in b or "permilp" in b or "blend" in b or "movlhps" in b for b in body)
        <= 40
    )
    assert sum(b.startswith("vinsertps") for b in body) == 0, "the columns are gathered lane by lane"
    assert (
        sum("ymm" in b and re.search(r", [-\d]*\(", b) is not None and b.startswith("vmovup") for b in body)
        == 8
    )


def test_turns_that_add_to_the_same_place_store_it_once() -> None:
    a, b, c = buffer("A", "float32", 8), buffer("B", "float32", 8, 64), buffer("C", "float32", 64)
    func = Func(
        "k",
        (a, b, c),
        loop(
            8,
            lambda j: seq(
                *[
                    Store(
                        c,
                        load(c, (ramp(j * 8, 8),))
                        + make.broadcast(load(a, (i32(u),)), 8) * load(b, (i32(u), ramp(j * 8, 8))),
                        (ramp(j * 8, 8),),
                    )
                    for u in range(8)
                ]
            ),
        ),
        (),
        (c,),
    )
    body = inner_loop(compiled(func, AVX2).asm, "vfmadd")
    assert sum(x.startswith("vmovups\t%ymm") for x in body) == 1


@pytest.mark.parametrize("word", ["max", "min"])
def test_extremes_that_hand_nan_on_take_two_instructions(word):
    """A compare and a masked extreme for each vector, also where registers are combined, and one compare for the
    lanes of the last one; LLVM's own take three, and the last four lanes one after the other."""
    import tensorlang as tl
    from tensorlang import ops, te

    x = te.placeholder((64, 512), name="x")
    asm = tl.compile([x, getattr(ops, word)(x, 1)], target=AVX512).get_source("asm")
    instructions = [line.split()[0] for line in asm.splitlines() if line.startswith("\t") and line.split()]
    wide = instructions.count(f"v{word}ps")
    assert instructions.count("vcmpordps") == 4 + 2 + 1 == wide - 3
    assert instructions.count("vcmpunordps") == 1
    assert not [i for i in instructions if i.startswith("vblendm")]


def test_the_largest_of_what_is_a_number_takes_one_instruction() -> None:
    """``max(a, select(x > -inf, x, -inf))`` asks nothing about NaN: what comes out where ``x`` is none is ``a``,
    a number or not."""
    n = 64
    a, b, c = buffer("A", "float32", n), buffer("B", "float32", n), buffer("C", "float32", n)

    def kept(at: Expr) -> Stmt:
        x, least = load(b, (ramp(at * 16, 16),)), make.broadcast(make.const(-np.inf, "float32"), 16)
        counted = make.select(make.lt(least, x), x, least)
        return Store(c, make.max_(load(a, (ramp(at * 16, 16),)), counted), (ramp(at * 16, 16),))

    func = Func("k", (a, b, c), loop(n // 16, kept), (), (c,))
    asm = compiled(func, AVX512).asm
    assert "vmaxps" in asm
    assert "vcmp" not in asm
    special = np.array([0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3e38, -3e38], "float32")
    x, y = (v.reshape(-1).copy() for v in np.meshgrid(special, special))
    got = np.zeros(n, "float32")
    assert Kernel(func)(x, y, got) == 0
    want = np.maximum(x, np.where(y > -np.inf, y, np.float32(-np.inf)))
    np.testing.assert_array_equal(got, want)


def test_extremes_of_many_sums_stay_in_their_registers() -> None:
    """Where the new element is asked whether it is NaN, its register is the result: a tile was moved around once
    in each step, partly by way of the stack."""
    import tensorlang as tl
    from tensorlang import te

    x, y, k = (
        te.placeholder((96, 40), name="x"),
        te.placeholder((96, 40), name="y"),
        te.reduce_axis((0, 40), "k"),
    )
    far = te.compute((96, 96), lambda i, j: te.max(te.abs(x[i, k] - y[j, k]), axis=k), name="far")
    body = inner_loop(tl.compile([x, y, far], target=AVX512).get_source("asm"), "vmaxps")
    assert (
        sum(line.startswith("vmaxps") for line in body)
        == sum(line.startswith("vcmpordps") for line in body)
        >= 16
    )
    assert not [line for line in body if line.startswith("vmovaps") or "(%rsp)" in line]
