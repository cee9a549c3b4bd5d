"""Fourier transforms against numpy's: lengths, directions, halves, frames, symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.ops.arrays import compiled, near, sample

ops = tl.ops
FUZZ = pytest.mark.fuzz  # seconds each, with others like them beside


def joined(y):
    return y[..., 0].astype("float64") + 1j * y[..., 1]


def close(got, want, t="float32"):
    near(got[..., 0], want.real, t, 16, 2e-5)
    near(got[..., 1], want.imag, t, 16, 2e-5)


@pytest.mark.each_value
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("length", [None, 7, 16])
def test_all_directions(length, axis):
    a = sample((5, 10, 2), "float32")
    x = te.placeholder(a.shape, name="x")
    on, back, half, real = compiled(
        [
            ops.dft(x, length, axis),
            ops.dft(x, length, axis, inverse=True),
            ops.dft(x, length, axis, onesided=True),
            ops.dft(x, length, axis, inverse=True, onesided=True),
        ],
        {x: a},
    )
    z = joined(a)
    n = length or z.shape[axis]
    close(on, np.fft.fft(z, n, axis))
    close(back, np.fft.ifft(z, n, axis))
    close(half, np.take(np.fft.fft(z, n, axis), range(n // 2 + 1), axis))
    assert real.shape[-1] == 1
    near(real[..., 0], np.fft.irfft(z, length, axis), "float32", 16, 2e-5)


def test_real_numbers_and_symbolic_lengths():
    n = te.dim("n", 1, 99)
    x, y = te.placeholder((2, n, 1), "float64", name="x"), te.placeholder((2, n, 1), "float16", name="y")
    f = tl.compile([x, y, ops.dft(x, onesided=True), ops.dft(y)])
    for size in (1, 2, 9, 32):
        a = sample((2, size, 1), "float64")
        half, small = f(a, a.astype("float16"))
        np.testing.assert_allclose(joined(half), np.fft.rfft(a[..., 0], axis=1), rtol=1e-12, atol=1e-11)
        want = np.fft.fft(a.astype("float16").astype("float64")[..., 0], axis=1)
        np.testing.assert_allclose(joined(small), want, rtol=2e-3, atol=4e-3)


@pytest.mark.each_value
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(("given", "length"), [(60, 60), (50, 64), (70, 64), (77, 77), (256, 256)])
def test_known_lengths_are_made_in_two_steps(given, length, parts):
    a = sample((2, given, 3, parts), "float64")
    x = te.placeholder(a.shape, "float64", name="x")
    on, back, half = compiled(
        [ops.dft(x, length, 1), ops.dft(x, length, 1, inverse=True), ops.dft(x, length, 1, onesided=True)],
        {x: a},
    )
    z = joined(a) if parts == 2 else a[..., 0]
    for got, want in (
        (on, np.fft.fft(z, length, 1)),
        (back, np.fft.ifft(z, length, 1)),
        (half, np.fft.fft(z, length, 1)[:, : length // 2 + 1]),
    ):
        np.testing.assert_allclose(joined(got), want, rtol=1e-12, atol=2e-12 * length)


def near_of_norm(got, want, bound):
    """Within so much of the norm."""
    assert np.linalg.norm(got - want) <= bound * np.linalg.norm(want)


@pytest.mark.parametrize(
    "length",
    [1, 2, 3, 13, 30, *(pytest.param(n, marks=FUZZ) for n in (4, 17, 64, 225, 272, 400, 480, 1024, 2048))],
)
def test_all_lengths_in_all_ways(length):
    """By matrices, in steps, of halves of real numbers; errors are a few roundings whatever the length."""
    n = te.dim("n", 1, 64)
    x, r = te.placeholder((n, length, 2), name="x"), te.placeholder((n, length, 1), name="r")
    h = te.placeholder((n, length // 2 + 1, 2), name="h")
    made = (
        ops.dft(x),
        ops.dft(x, inverse=True),
        ops.dft(r),
        ops.dft(r, onesided=True),
        ops.dft(h, length, inverse=True, onesided=True),
    )
    f = tl.compile([x, r, h, *made])
    for rows in (1, 3):
        a, b = sample((rows, length, 2), "float32"), sample((rows, length, 1), "float32")
        c = sample((rows, length // 2 + 1, 2), "float32")
        on, back, real, half, signal = f(a, b, c)
        bound = 1e-6 if length > 16 else 4e-7
        near_of_norm(joined(on), np.fft.fft(joined(a)), bound)
        near_of_norm(joined(back), np.fft.ifft(joined(a)), bound)
        near_of_norm(joined(real), np.fft.fft(b[..., 0].astype("float64")), bound)
        near_of_norm(joined(half), np.fft.rfft(b[..., 0].astype("float64")), bound)
        near_of_norm(signal[..., 0], np.fft.irfft(joined(c), length), bound)


@pytest.mark.parametrize("shape", [(96, 20), (3, 96, 2), (96, 3, 2), (96,)])
def test_steps_along_each_axis(shape):
    """Of what lies behind, vectors are made where it is long enough."""
    a = sample((*shape, 2), "float64")
    x = te.placeholder(a.shape, "float64", name="x")
    d = shape.index(96)
    on, half = compiled([ops.dft(x, axis=d), ops.dft(x, 100, axis=d, onesided=True)], {x: a})
    np.testing.assert_allclose(joined(on), np.fft.fft(joined(a), axis=d), rtol=1e-12, atol=1e-11)
    want = np.take(np.fft.fft(joined(a), 100, axis=d), range(51), axis=d)
    np.testing.assert_allclose(joined(half), want, rtol=1e-12, atol=1e-11)


def test_a_result_that_somebody_reads_stays_a_row():
    """Magnitudes are computed of each row while it is in the cache."""
    a = sample((5, 64, 1), "float32")
    x = te.placeholder(a.shape, name="x")
    y = ops.dft(x, onesided=True)
    size = te.compute(y.shape[:-1], lambda i, k: te.sqrt(y(i, k, 0) * y(i, k, 0) + y(i, k, 1) * y(i, k, 1)))
    (got,) = [compiled(size, {x: a})]
    near_of_norm(got, np.abs(np.fft.rfft(a[..., 0].astype("float64"))), 1e-6)


def test_the_work_is_not_the_square():
    """A factor of 17 is a sum, of 272 in two steps; small factors are no sums at all."""

    def sums(n):
        x = te.placeholder((3, n, 2), name="x")
        text = tl.compile([x, ops.dft(x)], "llvm -mcpu=skylake-avx512 -num-cores=1").get_source("ir")
        return [line for line in text.splitlines() if "for t" in line]

    assert not sums(256)
    loops = sums(272)
    assert loops and all("range(0, 16)" in line or "range(0, 17)" in line for line in loops), loops


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_frames(weighted, onesided):
    n = te.dim("n", 16, 99)
    a, w = sample((2, 50, 1), "float32"), np.hanning(16).astype("float32")
    x, v = te.placeholder((2, n, 1), name="x"), te.placeholder((16,), name="w")
    y = ops.stft(x, 5, v if weighted else None, None if weighted else 16, onesided)
    got = tl.compile([x, v, y])(a, w)
    frames = np.stack([a[:, 5 * f : 5 * f + 16, 0] * (w if weighted else 1) for f in range(7)], 1)
    want = np.fft.fft(frames.astype("float64"), axis=-1)
    close(got, want[..., :9] if onesided else want)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.dft(x), "its last dimension holds a number"),
        (lambda x: ops.dft(ops.expand_dims(x, -1), axis=-1), "the parts of a number"),
        (lambda x: ops.dft(ops.expand_dims(x, -1), 0), "a length of 0"),
        (lambda x: ops.stft(ops.expand_dims(x, -1), 4), "neither window nor frame_length"),
        (lambda x: ops.stft(ops.expand_dims(x, -1), 0, frame_length=4), "frame_step=0"),
        (lambda x: ops.stft(ops.expand_dims(x, -1), 4, te.placeholder((8,)), 9), "is 8, 9 is needed"),
    ],
)
def test_refusals(call, text):
    with pytest.raises(tl.DeclareError, match=text):
        call(te.placeholder((2, 16), name="x"))


def test_cosines_are_computed_for_one_period_and_looked_up():
    """For each pair of time and frequency one was computed, in float64, and integers of 64 bits divided: ten
    times as long as the sums."""
    x = te.placeholder((4, te.dim("n", 1, 5000), 2), name="x")
    lines = tl.compile([x, ops.dft(x, axis=1)], "llvm -num-cores=1").get_source("ir").splitlines()
    computed = [line for line in lines if " = " in line and ("cos(" in line or "sin(" in line)]
    assert computed and all(".period[" in line.split(" = ")[0] for line in computed)
    assert not any("int64" in line for line in lines)


@pytest.mark.parametrize("length", [96, 101])
def test_a_kernel_holds_the_angles_of_a_known_length(length):
    x = te.placeholder((4, length, 2), name="x")
    f = tl.compile([x, ops.dft(x, axis=1)], "llvm -num-cores=1")
    text = f.get_source("ir")
    assert "constant" in text and "cos(" not in text and "sin(" not in text


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("length", "shape", "axis"), [(61, (5, 61), 1), (134, (2, 134), 1), (211, (211, 3), 0)]
)
@pytest.mark.parametrize("inverse", [False, True])
def test_lengths_with_large_prime_factors_are_convolutions(length, shape, axis, inverse):
    x, r = te.placeholder((*shape, 2), name="x"), te.placeholder((*shape, 1), name="r")
    a, b = sample((*shape, 2), "float32"), sample((*shape, 1), "float32")
    if inverse:
        f = tl.compile([x, ops.dft(x, axis=axis, inverse=True)])
        near_of_norm(joined(f(a)), np.fft.ifft(joined(a), axis=axis), 1e-6)
        return
    f = tl.compile([x, r, ops.dft(x, axis=axis), ops.dft(r, axis=axis, onesided=True)])
    on, half = f(a, b)
    near_of_norm(joined(on), np.fft.fft(joined(a), axis=axis), 1e-6)
    near_of_norm(joined(half), np.fft.rfft(b[..., 0].astype("float64"), axis=axis), 1e-6)


def test_the_inverse_of_half_a_spectrum_of_a_prime_length():
    h = te.placeholder((3, 51, 2), name="h")
    f = tl.compile([h, ops.dft(h, 101, axis=1, inverse=True, onesided=True)])
    c = sample((3, 51, 2), "float32")
    near_of_norm(f(c)[..., 0], np.fft.irfft(joined(c), 101), 1e-6)
