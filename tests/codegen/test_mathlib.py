"""Every intrinsic has a row, and equals numpy within its bound, in every lane count."""

from __future__ import annotations

import platform
import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.codegen.llvm.mathlib import ROWS
from tensorlang.core.dtype import dtype
from tensorlang.errors import LowerError
from tensorlang.expr.intrinsics import TABLE

from .helper import Func, Kernel, Store, buffer, compiled, i32, load, loop, make, ramp, seq

N = 3072  # a multiple of all lane counts used


def inputs(name: str, t: str, n: int = N) -> list[np.ndarray]:
    rng = np.random.default_rng(sum(map(ord, name)))
    kind = dtype(t).to_numpy()
    if kind.kind != "f":
        lo, hi = dtype(t).limits()
        a = rng.integers(lo, hi, n, kind, endpoint=True)
        b = (
            rng.integers(0, dtype(t).bits + 3, n).astype(kind)
            if name.startswith("shift")
            else rng.integers(lo, hi, n, kind, endpoint=True)
        )
        a[:4] = [0, 1, hi, lo]
        return [a, b]
    top = {2: 4.8, 4: 38.5, 8: 300}[kind.itemsize]
    with np.errstate(all="ignore"):
        wide = rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-top * 1.15, top, n)
        near = rng.uniform(-4, 4, n)
        mid = rng.uniform(-110, 110, n)
        a = np.select([rng.random(n) < 0.3, rng.random(n) < 0.5], [wide, near], mid).astype(kind)
        b = np.select([rng.random(n) < 0.3, rng.random(n) < 0.5], [wide, near], np.round(near)).astype(kind)
    special = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5, -2.5], kind)
    tiny = np.array(
        [
            np.finfo(kind).smallest_subnormal,
            -np.finfo(kind).smallest_subnormal,
            np.finfo(kind).tiny,
            np.finfo(kind).max,
        ],
        kind,
    )
    pool = np.concatenate([special, tiny])
    a[:256] = np.repeat(pool, 16)
    b[:256] = np.tile(pool, 16)
    return [a, b]


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of the wanted value; infinite where only one is NaN or infinite."""
    if got.dtype.kind != "f":
        return (got != want).astype(float) * np.inf if (got != want).any() else np.zeros(got.shape)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(all="ignore"):
        size = np.spacing(np.abs(want)).astype(np.float64)
        far = np.abs(got.astype(np.float64) - want.astype(np.float64)) / size
    # an overflow by rounding at the very top counts as one unit
    top = np.finfo(want.dtype).max
    far = np.where(
        np.isinf(got) != np.isinf(want),
        np.where((np.abs(got) >= top) & (np.abs(want) >= top), 1.0, np.inf),
        far,
    )
    return np.where(same, 0.0, np.where(np.isnan(far), np.inf, far))


def kernel(name: str, t: str, lanes: int, math: str = "default", target: object = None) -> Kernel:
    row = TABLE[name]
    result = row.result(dtype(t)).name
    args = [buffer(x, t, N) for x in ("A", "B")[: row.arity]]
    out = buffer("C", result, N)
    func = Func(
        "k",
        (*args, out),
        loop(
            N // lanes,
            lambda i: Store(
                out,
                make.call(name, *[load(a, (ramp(i * lanes, lanes),)) for a in args]),
                (ramp(i * lanes, lanes),),
            ),
        ),
        (),
        (out,),
    )
    return Kernel(func, math=math, target=target)  # type: ignore[arg-type]


def evaluate(
    name: str, t: str, lanes: int, arrays: list[np.ndarray], math: str = "default", target: object = None
) -> np.ndarray:
    row = TABLE[name]
    out = np.zeros(N, row.result(dtype(t)).to_numpy())
    assert kernel(name, t, lanes, math, target)(*arrays[: row.arity], out) == 0
    return out


def reference(name: str, arrays: list[np.ndarray]) -> np.ndarray:
    row = TABLE[name]
    if name == "nextafter":  # the neighbour in the arrays' own type, not that in float64
        with np.errstate(all="ignore"):
            return np.nextafter(*arrays)
    return row.evaluate(*arrays[: row.arity])


def test_every_intrinsic_has_a_row_and_no_row_is_left_over() -> None:
    missing = sorted(set(TABLE) - set(ROWS))
    assert not missing, (
        f"{', '.join(missing)}: no function of the C library that interface/c_header.py (LIBRARY) knows by that name, "
        "so that codegen/llvm/mathlib/table.py needs a row for it"
    )
    extra = sorted(set(ROWS) - set(TABLE))
    assert not extra, (
        f"{', '.join(extra)}: a row of code in codegen/llvm/mathlib/table.py without a meaning in expr/intrinsics.py"
    )


FLOATS = [n for n, r in TABLE.items() if r.accepts(dtype("float32"))]
INTS = [n for n, r in TABLE.items() if r.accepts(dtype("int32"))]


@pytest.mark.parametrize("name", FLOATS)
def test_float32_in_every_width(name: str) -> None:
    arrays = inputs(name, "float32")
    want = reference(name, arrays)
    first = evaluate(name, "float32", 8, arrays)
    far = ulps(first, want)
    worst = int(np.argmax(far))
    assert far[worst] <= ROWS[name].ulp, (name, [a[worst] for a in arrays], first[worst], want[worst])
    for lanes in (1, 6, 16, 48):
        np.testing.assert_array_equal(evaluate(name, "float32", lanes, arrays), first)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("t", ["float64", "float16"])
def test_other_floats(name: str, t: str) -> None:
    arrays = inputs(name, t)
    want = reference(name, arrays)
    for lanes in (1, 4):
        got = evaluate(name, t, lanes, arrays)
        far = ulps(got, want)
        worst = int(np.argmax(far))
        bound = 4 if t == "float64" and ROWS[name].ulp else ROWS[name].ulp and 1
        assert far[worst] <= bound, (name, [a[worst] for a in arrays], got[worst], want[worst], far[worst])


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "erf", "exp2"])
def test_precise_mode_is_libm(name: str) -> None:
    arrays = inputs(name, "float32")
    want = TABLE[name].evaluate(arrays[0])
    assert ulps(evaluate(name, "float32", 8, arrays, "precise"), want).max() <= 2
    assert f"@{'exp' if name == 'sigmoid' else name}f(" in kernel(name, "float32", 8, "precise").ll


@pytest.mark.parametrize("name", INTS)
@pytest.mark.parametrize("t", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers(name: str, t: str) -> None:
    if not TABLE[name].accepts(dtype(t)):
        pytest.skip("not of this type")
    arrays = inputs(name, t)
    with np.errstate(all="ignore"):
        want = TABLE[name].evaluate(*arrays[: TABLE[name].arity])
    for lanes in (1, 16):
        np.testing.assert_array_equal(evaluate(name, t, lanes, arrays), want)


def test_scalars_use_the_same_code_as_vectors_so_a_reduction_tail_cannot_differ() -> None:
    ll = kernel("exp", "float32", 1).ll
    assert "expf" not in ll and "llvm.exp" not in ll
    assert i32(0).dtype.name == "int32"


# worst distance to the exact value (that of numpy's float64) in units of the last place, found by every 61st
# float32, and some room
DENSE = {
    "log": 0.95,
    "log1p": 0.95,
    "log2": 1.4,
    "log10": 1.4,
    "asinh": 0.95,
    "acosh": 0.95,
    "atanh": 1.0,
    "tan": 1.45,
    "cbrt": 0.7,
}


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("cpu", ["", "x86-64"])
def test_float32_from_all_of_them_with_fma_and_without(name: str, cpu: str) -> None:
    if cpu and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("a processor of another kind")
    n = 1 << 18
    x = (np.arange(n, dtype=np.uint32) * np.uint32(16381)).view(np.float32)
    x[:2] = 1 - 2.0**-24, -48039.664  # next to poles
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: getattr(te, name)(A[i]), name="B")
    got = np.empty(n, np.float32)
    tl.compile([A, B], f"llvm -mcpu={cpu}" if cpu else None)(x, got)
    with np.errstate(all="ignore"):
        exact = TABLE[name].numpy(x.astype(np.float64))
        want = exact.astype(np.float32)
        size = np.spacing(np.abs(want)).astype(np.float64)
        far = np.abs(got.astype(np.float64) - exact) / size
    usual = np.isfinite(want)
    np.testing.assert_array_equal(got[~usual], want[~usual])
    np.testing.assert_array_equal(np.signbit(got[usual]), np.signbit(want[usual]))
    worst = int(np.argmax(np.where(usual, far, 0)))
    assert far[usual].max() <= DENSE[name], (x[worst], got[worst], exact[worst])


def test_neighbours_of_random_bits() -> None:
    rng = np.random.default_rng(4)
    for t, word in (("float32", np.uint32), ("float64", np.uint64)):
        special = inputs("nextafter", t)[0][:256:16]
        a, b = (rng.integers(0, np.iinfo(word).max, N, word, endpoint=True).view(t) for _ in "ab")
        a[:256], b[:256] = np.repeat(special, 16), np.tile(special, 16)
        with np.errstate(all="ignore"):
            want = np.nextafter(a, b)
        for lanes in (1, 16):
            got = evaluate("nextafter", t, lanes, [a, b])
            same = (got.view(word) == want.view(word)) | (np.isnan(got) & np.isnan(want))
            assert same.all(), (a[~same], b[~same])


TARGETS = [
    "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=neoverse-n1",
    "llvm -mtriple=riscv64-unknown-linux-gnu -mcpu=sifive-x280",
    "llvm -mtriple=riscv64-unknown-linux-gnu",
    "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64",
    "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512",
]


@pytest.mark.parametrize("target", TARGETS)
def test_every_function_compiles_for_other_machines(target: str) -> None:
    """All functions in one kernel each for float32 and float64, in the lanes of the machine; ours call libm
    in rare lanes only: of remainders, and of float64."""
    for t, lanes in (("float32", 8), ("float64", 4)):
        names = [n for n in FLOATS if ROWS[n].own is not None and (t == "float32" or ROWS[n].double)]
        a, b, out = buffer("A", t, 64), buffer("B", t, 64), buffer("C", t, len(names), 64)
        body = seq(
            *[
                Store(
                    out,
                    make.call(n, *[load(x, (ramp(0, lanes),)) for x in (a, b)][: TABLE[n].arity]),
                    (i32(k), ramp(0, lanes)),
                )
                for k, n in enumerate(names)
            ]
        )
        code = compiled(Func("k", (a, b, out), body, (), (out,)), target)
        assert len(code.object) > 1000
        called = {
            line.split("@")[1].split("(")[0]
            for line in code.optimised_ll.splitlines()
            if line.startswith("declare") and "@llvm" not in line
        }
        assert called <= ({"fmodf"} if t == "float32" else {"sin", "cos", "tan", "fmod"}), called


def test_a_call_in_front_of_a_loop_is_right_where_its_argument_is_rare() -> None:
    """It is placed ahead of the loop that does not change it, where no branch can be; also within a branch,
    and for one lane."""
    for lanes in (1, 8):
        a, s, out = buffer("A", "float32", 64), buffer("S", "float32", 8), buffer("C", "float32", 64)
        scale = make.call("exp", load(s, (ramp(0, lanes),)))
        func = Func(
            "k",
            (a, s, out),
            loop(
                64 // lanes,
                lambda i: Store(out, load(a, (ramp(i * lanes, lanes),)) * scale, (ramp(i * lanes, lanes),)),
            ),
            (),
            (out,),
        )
        for special in (-100.0, 1.0, np.inf, -np.inf, np.nan):
            x, given, got = np.ones(64, np.float32), np.full(8, special, np.float32), np.zeros(64, np.float32)
            assert Kernel(func)(x, given, got) == 0
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(got, np.exp(np.float64(special)).astype(np.float32), rtol=1e-6)


def test_two_rare_calls_that_depend_on_each_other_in_one_loop() -> None:
    """The branch of the second begins where that of the first ended."""
    a, out = buffer("A", "float32", 64), buffer("C", "float32", 64)
    func = Func(
        "k",
        (a, out),
        loop(
            8,
            lambda i: Store(
                out,
                make.call("log", make.call("exp", load(a, (ramp(i * 8, 8),))))
                + make.call("sin", load(a, (ramp(i * 8, 8),))),
                (ramp(i * 8, 8),),
            ),
        ),
        (),
        (out,),
    )
    x, got = np.linspace(-120, 90, 64).astype(np.float32), np.zeros(64, np.float32)
    assert Kernel(func)(x, got) == 0
    with np.errstate(all="ignore"):
        want = np.log(np.exp(x.astype(np.float64)).astype(np.float32).astype(np.float64)) + np.sin(
            x.astype(np.float64)
        )
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_zeros_keep_their_sign() -> None:
    zeros = np.resize(np.array([0.0, -0.0], np.float32), N)
    for name in ("sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf", "expm1", "log1p"):
        np.testing.assert_array_equal(
            np.signbit(evaluate(name, "float32", 8, [zeros])), np.signbit(zeros), err_msg=name
        )


def test_the_mode_is_chosen_where_a_kernel_is_built() -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: te.sin(A[i]), name="B")
    assert "sinf" in tl.compile([A, B], math="precise").get_source("ll")
    assert "sinf" not in tl.compile([A, B]).get_source("ll")
    with pytest.raises(LowerError, match=r"(?s)math='quick'.*default, precise"):
        tl.compile([A, B], math="quick")


@pytest.mark.parametrize("t", ["float32", "float64"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_remainders_are_exact(t: str, lanes: int) -> None:
    """Of quotients on both sides of integers, of all sizes, subnormal and infinite; zeros with their sign."""
    rng = np.random.default_rng(3)
    b = (rng.uniform(1, 2, N) * 2.0 ** rng.uniform(-140, 90, N)).astype(t)
    near = np.rint(2.0 ** rng.uniform(0, 7, N)).astype(t) * b
    near = np.where(rng.random(N) < 0.3, 2.0**20 * near, near).astype(t)
    for a in (near, np.nextafter(near, np.inf, dtype=t), -np.nextafter(near, 0, dtype=t), *inputs("fmod", t)):
        for y in (b, -b, inputs("fmod", t)[1]):
            with np.errstate(all="ignore"):
                want = np.fmod(a, y)
            got = evaluate("fmod", t, lanes, [a, y])
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


def test_remainders_of_vectors_call_the_library_in_rare_lanes_only() -> None:
    for t, name in (("float32", "fmodf"), ("float64", "fmod")):
        A, B = te.placeholder((256,), t, name="A"), te.placeholder((256,), t, name="B")
        text = tl.compile([A, B, tl.ops.mod(A, B)], "llvm -mcpu=skylake-avx512").get_source("ll")
        calls = [f for f in text.split("define ")[1:] if f"@{name}(" in f.split("declare ")[0]]
        assert len(calls) == 1 and "_fmod_far" in calls[0].split("{")[0]


HALVES = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "nearbyint": np.rint,
    "round": lambda x: np.copysign(np.trunc(np.abs(x) + 0.5), x),
}


@pytest.mark.parametrize("name", HALVES)
def test_every_float16_is_rounded_in_vectors(name: str) -> None:
    """LLVM took the conversions around ``llvm.floor`` away, and then had no instruction for it."""
    half = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = te.placeholder(half.shape, "float16", name="x")
    y = te.compute(half.shape, lambda i: getattr(te, name)(x[i]), name="y")
    got = tl.compile([x, y])(half)
    with np.errstate(invalid="ignore"):
        want = HALVES[name](half.astype(np.float32)).astype(np.float16)
    same = (got.view(np.uint16) == want.view(np.uint16)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), half[~same]
    asm = tl.compile([x, y], target="llvm -mcpu=haswell").get_source("asm")
    assert "vroundss" not in asm and "vcvtps2ph" in asm
    assert len(re.findall(r"vpunpck|vpinsrw|vpextrw", asm)) == 0


@pytest.mark.parametrize("name", ["erf", "sinh", "cosh", "asin", "acos", "atan", "atan2"])
def test_float64_calls_no_library(name: str) -> None:
    a = [te.placeholder((64,), "float64", name=n) for n in ("ab" if name == "atan2" else "a")]
    y = te.compute((64,), lambda i: getattr(te, name)(*[t[i] for t in a]), name="y")
    asm = tl.compile([*a, y], target="llvm -mcpu=haswell").get_source("asm")
    assert "ymm" in asm and not re.search(rf"call\w*\s+{name}\b", asm)


def test_erf_evaluates_one_polynomial_for_small_and_large():
    """Two of them kept the units that multiply busy for 25 cycles of 32 (Zen 4)."""
    x = te.placeholder((256,), name="x")
    for cpu in ("znver4", "haswell"):
        target = f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu} -num-cores=1"
        ll = tl.compile([x, ops.erf(x)], target).get_source("ll")
        assert len(re.findall(r"= call [^@]*@llvm.fma", ll)) + ll.count("= fmul") <= 13


@pytest.mark.parametrize(
    ("name", "t", "low"),
    [
        ("exp", "float32", -87.0),
        ("exp", "float64", -708.0),
        ("exp2", "float32", -126.0),
        ("exp2", "float64", -1022.0),
    ],
)
@pytest.mark.parametrize("lanes", [1, 16])
def test_exponentials_of_weights_take_no_bound_that_the_select_knows(
    name: str, t: str, low: float, lanes: int
) -> None:
    """``select(x < c, 0, exp(max(min(x, 0), c)))``: no maximum, and what it kept away is not seen."""
    rng = np.random.default_rng(5)
    tiny = np.finfo(t).tiny
    special = [
        0.0,
        -0.0,
        -np.inf,
        np.inf,
        np.nan,
        low,
        np.nextafter(low, -np.inf),
        np.nextafter(low, 0),
        1.0,
        -tiny,
        3e30,
        -3e30,
    ]
    x = np.concatenate([special, rng.uniform(1.2 * low, 0, N - len(special))]).astype(t)
    a, out = buffer("A", t, N), buffer("C", t, N)

    def weight(i: object) -> object:
        v = load(a, (ramp(i * lanes, lanes),))  # type: ignore[operator]
        grown = make.call(name, make.max_(make.min_(v, 0.0), low))
        return Store(out, make.select(make.lt(v, low), 0.0, grown), (ramp(i * lanes, lanes),))  # type: ignore[operator]

    code = Kernel(Func("k", (a, out), loop(N // lanes, weight), (), (out,)))  # type: ignore[arg-type]
    got = np.zeros(N, t)
    assert code(x, got) == 0
    wide = np.minimum(x.astype("float64"), 0.0)
    with np.errstate(all="ignore"):
        want = np.where(x < low, 0.0, (np.exp if name == "exp" else np.exp2)(wide)).astype(t)
    assert ulps(got, want).max() <= 2
    assert not re.search(r"vmaxp|vmaxs", code.code.asm)
    if (name, t) == ("exp2", "float32"):  # a product for each term, of which there are five
        assert len(re.findall("vfn?m|vmul", code.code.asm)) <= 5


@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_weights_are_scaled_by_one_instruction_where_that_is_quick(name: str) -> None:
    """Of a Zen 5, and to the same bits as elsewhere."""
    x = te.placeholder((5, 40), name="x")
    low = -126.0 if name == "exp2" else -87.0

    def of(i: object, j: object) -> object:
        v = x(i, j)
        return te.select(v < low, te.const(0.0), getattr(te, name)(te.max(te.min(v, 0.0), low)))

    args = [x, te.compute((5, 40), of, name="weights")]
    found = {}
    for cpu in ("znver4", "znver5"):
        asm = tl.compile(args, f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu}").get_source("asm")
        found[cpu] = len(re.findall("vscalefp", asm))
        assert bool(re.search("vpslld", asm)) is (cpu == "znver4")
    assert found["znver4"] == 0 < found["znver5"]
    if not tl.Target.parse("llvm").scales_floats:
        return
    rng = np.random.default_rng(3)
    a = np.concatenate([rng.uniform(1.1 * low, 0, 194), [0.0, -0.0, low, -np.inf, np.nan, 5.0]])
    a = rng.permutation(a).reshape(5, 40).astype("float32")
    outs = [tl.compile(args, f"llvm -mcpu={cpu}")(a) for cpu in ("znver4", "znver5")]
    np.testing.assert_array_equal(outs[0].view(np.int32), outs[1].view(np.int32))


def test_erf_looks_its_coefficients_up_where_that_is_quick() -> None:
    """In registers of 16, one polynomial and no exponential: of a Zen 5."""
    x = te.placeholder((4096,), name="x")
    for cpu, found in (("znver4", False), ("znver5", True)):
        asm = tl.compile([x, ops.erf(x)], f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu}").get_source(
            "asm"
        )
        assert ("vpermps" in asm or "vpermi2ps" in asm) is found
        assert ("vpslld" in asm) is not found


@pytest.mark.parametrize("lanes", [1, 2, 4, 7, 16, 48])
def test_erf_by_stretches_gives_every_width_the_same_bits(lanes: int) -> None:
    """Also of NaN, infinities, ends of stretches and the least numbers, with their signs."""
    if not tl.Target.parse("llvm").scales_floats:
        pytest.skip("runs on a Zen 5")
    rng = np.random.default_rng(9)
    ends = (np.arange(16) + 0.5) / 3.87
    ends = np.concatenate([ends, np.nextafter(ends, 9), np.nextafter(ends, -9)])
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 4.0, np.nextafter(4, 5), -3.99, 1e-45, -1e-40, 1e-30, 7.0]
    a = np.concatenate([special, ends, -ends, rng.uniform(-4.5, 4.5, 1000)]).astype("float32")
    a = np.resize(a, 336 * 4)
    outs = []
    for width in (lanes, 16):
        x = te.placeholder((len(a),), name="x")
        y = te.compute((len(a),), lambda i: te.erf(x[i]), name="y")
        s = te.create_schedule(y)
        if width > 1:
            s[y].vectorize(s[y].split(y.op.axis[0], width)[1])
        outs.append(tl.build(s, [x, y], target="llvm -mcpu=znver5")(a))
    np.testing.assert_array_equal(outs[0].view(np.int32), outs[1].view(np.int32))
    want = TABLE["erf"].numpy(a.astype("float64"))
    assert ulps(outs[0], want.astype("float32")).max() <= 2
    assert (np.signbit(outs[0]) == np.signbit(a))[~np.isnan(a)].all()
    assert outs[0][3] == 1.0
    assert np.isnan(outs[0][2])
