"""16-bit floats are float32 in registers: what rounds nothing converts nothing back."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret

KINDS = {"float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
TARGETS = [f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu}" for cpu in ("znver4", "haswell", "x86-64")]
ROUNDS = r"vcvtps2ph|vcvtneps2bf16"


def numbers(kind: str, *shape: int) -> np.ndarray:
    """Some of every kind: normal ones, subnormal ones, zeros of both signs, infinities."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 0x7C00 if kind == "float16" else 0x7F80, shape, dtype="uint16")
    return (x | rng.integers(0, 2, shape, dtype="uint16") << 15).view(KINDS[kind])


def run(tensors: list[te.Tensor], target: str, *arrays: np.ndarray) -> np.ndarray:
    f = tl.compile(tensors, target=target)
    if tl.Target.parse(target).why_not_here() is not None:
        pytest.skip("not a processor that runs this")
    return np.asarray(f(*arrays))


def same(got: np.ndarray, want: np.ndarray) -> None:
    """The same values; zeros may differ in their sign."""
    np.testing.assert_array_equal(got.astype("float32"), want.astype("float32"))


@pytest.mark.parametrize("target", TARGETS)
def test_float32_is_rounded_to_bfloat16_as_its_bits_say(target: str) -> None:
    high = np.concatenate([np.arange(0, 65536, 37), np.arange(0x180), np.arange(0x7F60, 0x8180)])
    low = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
    x = (high[:, None] << 16 | low).ravel().astype("uint32").view("float32")
    a = te.placeholder(x.shape, "float32", name="a")
    got = run([a, ops.cast(a, "bfloat16")], target, x)
    with np.errstate(all="ignore"):
        want = x.astype(ml_dtypes.bfloat16)
    nan = np.isnan(x)
    np.testing.assert_array_equal(got[~nan].view("uint16"), want[~nan].view("uint16"))
    assert np.isnan(got[nan].astype("float32")).all()


@pytest.mark.parametrize("lanes", [2, 3, 4, 7, 8, 9, 16, 24, 48, 64])
def test_vectors_of_every_length_are_rounded(lanes: int) -> None:
    x = np.linspace(-3, 3, 5 * lanes, dtype="float32").reshape(5, lanes) * np.float32(2.0**-126)
    a = te.placeholder(x.shape, "float32", name="a")
    s = tl.create_schedule(o := ops.cast(a, "bfloat16"))
    s[o].vectorize(s[o].op.axis[1])
    got = np.zeros(x.shape, ml_dtypes.bfloat16)
    tl.build(s, [a, o], target="llvm")(x, got)
    np.testing.assert_array_equal(got.view("uint16"), x.astype(ml_dtypes.bfloat16).view("uint16"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", [0, 1])
def test_maxima_are_those_of_numpy(kind: str, target: str, axis: int) -> None:
    x = numbers(kind, 70, 90)
    x[3, 5] = np.nan
    a = te.placeholder(x.shape, kind, name="a")
    with np.errstate(invalid="ignore"):
        want = x.astype("float32").max(axis)
    same(run([a, ops.max(a, axis)], target, x), want)


@pytest.mark.parametrize("kind", KINDS)
def test_the_interpreter_agrees(kind: str) -> None:
    x = numbers(kind, 6, 40)
    a = te.placeholder(x.shape, kind, name="a")
    k = te.reduce_axis((0, 40), name="k")
    small = te.const(0.001, kind)
    total = te.compute((6,), lambda i: te.sum(te.min(te.max(a[i, k], -small), small), axis=k), name="o")
    # the same order of additions on both sides
    s = te.create_schedule(total.op)
    got, seen = np.zeros(6, KINDS[kind]), np.zeros(6, KINDS[kind])
    tl.build(s, [a, total], target="llvm")(x, got)
    interpret(tl.lower(s, [a, total]), x, seen)
    same(got, seen)


def loops(tensors: list[Any], pattern: str) -> int:
    """How many lines of the code for Zen 4 match."""
    asm = tl.compile(tensors, target=TARGETS[0]).get_source("asm")
    return len(re.findall(pattern, asm))


@pytest.mark.parametrize("kind", KINDS)
def test_a_maximum_is_rounded_nowhere_in_its_loop(kind: str) -> None:
    a = te.placeholder((64, 1000), kind, name="a")
    assert loops([a, ops.max(a, 1)], ROUNDS) <= 1  # float16 is stored once
    b = te.placeholder((2, 32, 32), kind, name="b")
    assert loops([b, ops.max_pool1d(b, 2, 2)], r"vmaxps") > 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_chosen_is_copied_as_it_is(kind: str) -> None:
    a = te.placeholder((64, 1000), kind, name="a")
    zero = te.const(0, kind)
    positive = te.compute(a.shape, lambda i, j: te.if_then_else(a[i, j] > zero, a[i, j], zero), name="o")
    assert loops([a, positive], ROUNDS + "|vpmovdw") == 0
    x = numbers(kind, 64, 1000)
    got = np.asarray(tl.compile([a, positive])(x))
    np.testing.assert_array_equal(got.view("uint16"), np.where(x > 0, x.view("uint16"), 0))


EXACT = {
    "relu": (ops.relu, lambda x: np.where(x > 0, x, np.float32(0))),
    "abs": (ops.abs, np.abs),
    "negative": (ops.negative, np.negative),
    "clip": (lambda x: ops.clip(x, -1.5, 0.25), lambda x: np.clip(x, -1.5, 0.25)),
    "sign": (ops.sign, np.sign),
    "third": (lambda x: ops.clip(x, -1 / 3, 1 / 3), None),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("target", TARGETS)
def test_what_float32_does_to_halves_is_rounded_where_it_must_be(kind: str, name: str, target: str) -> None:
    op, numpy = EXACT[name]
    x = numbers(kind, 4, 99)
    x[1, 7], x[2, 3] = np.nan, -np.nan
    a = te.placeholder(x.shape, kind, name="a")
    got = run([a, op(a)], target, x)
    wide = x.astype("float32")
    want = numpy(wide) if numpy is not None else np.clip(wide, np.float32(-1 / 3), np.float32(1 / 3))
    if name == "relu":
        want = np.where(np.isnan(wide), wide, want)
    same(got, want.astype(x.dtype))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["relu", "abs", "negative"])
def test_another_sign_is_no_rounding(kind: str, name: str) -> None:
    a = te.placeholder((64, 1000), kind, name="a")
    assert loops([a, EXACT[name][0](a)], ROUNDS + "|vpmovdw") == 0


def test_processors_that_compute_halves_do() -> None:
    a = te.placeholder((64, 100), "float16", name="a")
    out = te.compute(a.shape, lambda i, j: a[i, j] * a[i, j], name="o")
    for target, instruction in (
        ("llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=neoverse-n1", r"fmul\s+v\d+\.8h"),
        ("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=sapphirerapids", "vmulph"),
    ):
        assert re.search(instruction, tl.compile([a, out], target=target).get_source("asm")), target
