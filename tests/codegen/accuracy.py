"""Errors of float functions in units of the last place, against an oracle of higher precision; and the sets
of arguments to try.

Knows kernels and numpy, and of the functions only their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from tensorlang.expr.intrinsics import TABLE

from .helper import Func, Kernel, Store, buffer, load, loop, make, ramp

CHUNK = 1 << 17  # arguments a call: arrays of this size stay in the second-level cache
SPECIAL = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        0.5,
        -0.5,
        3.0,
        -3.0,
        np.inf,
        -np.inf,
        np.nan,
        1e30,
        -1e30,
        1e-30,
        16777215.0,
        -16777215.0,
        33554434.0,
        1e-45,
        -1e-45,
        1.1754944e-38,
        1.1754942e-38,
        3.4028235e38,
        -3.4028235e38,
        0.99999994,
        1.0000001,
        -0.99999994,
    ],
    np.float32,
)


def chunk_kernel(
    name: str, dtype: str, lanes: int, math: str = "default", target: object = None
) -> Callable[..., np.ndarray]:
    """The function on arrays of CHUNK elements, into an array that the next call overwrites."""
    args = [buffer(x, dtype, CHUNK) for x in ("A", "B")[: TABLE[name].arity]]
    out = buffer("C", dtype, CHUNK)
    func = Func(
        "k",
        (*args, out),
        loop(
            CHUNK // lanes,
            lambda i: Store(
                out,
                make.call(name, *[load(a, (ramp(i * lanes, lanes),)) for a in args]),
                (ramp(i * lanes, lanes),),
            ),
        ),
        (),
        (out,),
    )
    kernel, result = Kernel(func, math=math, target=target), np.zeros(CHUNK, dtype)  # type: ignore[arg-type]

    def call(*arrays: np.ndarray) -> np.ndarray:
        assert kernel(*arrays, result) == 0
        return result

    return call


def errors(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """How far float32 results are from float64 values, in units of the last place that float32 has there.

    NaN for NaN, and infinity for what rounds to infinity, is no error; NaN or infinity for anything else, or
    the wrong sign of a zero, is an infinite one.
    """
    with np.errstate(all="ignore"):
        exponent = np.maximum((want.view(np.int64) >> 52) & 0x7FF, 1023 - 126) - 23
        wide = got.astype(np.float64)
        exact = np.where(np.isinf(got) & (np.abs(want) > 3e38), np.copysign(2.0**128, wide), wide)
        far = np.abs(exact - np.clip(want, -(2.0**128), 2.0**128)) / (exponent << 52).view(np.float64)
        strange = ~(far < np.inf)
        if strange.any():
            far[strange] = np.where(np.isnan(got[strange]) & np.isnan(want[strange]), 0.0, np.inf)
        zeros = want == 0.0
        if zeros.any():
            far[zeros & (np.signbit(got) != np.signbit(want))] = np.inf
    return far


@dataclass
class Worst:
    """The largest error so far, and where."""

    error: float = 0.0
    arguments: tuple[float, ...] = field(default=())
    got: float = 0.0
    want: float = 0.0

    def add(
        self, arguments: tuple[np.ndarray, ...], got: np.ndarray, want: np.ndarray, far: np.ndarray
    ) -> None:
        i = int(np.argmax(far))
        if far[i] > self.error:
            self.error, self.arguments = float(far[i]), tuple(float(a[i]) for a in arguments)
            self.got, self.want = float(got[i]), float(want[i])

    def __str__(self) -> str:
        return f"{self.error:.4f} ulp at {', '.join(x.hex() + f' ({x!r})' for x in self.arguments)}: {self.got!r}, not {self.want!r}"


def bit_patterns(count: int, seed: int) -> Iterator[np.ndarray]:
    """Chunks of float32 numbers whose bits are random: every exponent, both signs, NaN and infinities among
    them."""
    rng = np.random.default_rng(seed)
    for _ in range(-(-count // CHUNK)):
        yield rng.integers(0, 2**32, CHUNK, np.uint32).view(np.float32)


def around(points: np.ndarray, reach: int) -> np.ndarray:
    """The neighbours of float32 numbers by up to ``reach`` steps, cut or filled up to a multiple of CHUNK."""
    bits = np.asarray(points, np.float32).view(np.int32)[:, None] + np.arange(
        -reach, reach + 1, dtype=np.int32
    )
    return np.resize(bits.reshape(-1), -(-bits.size // CHUNK) * CHUNK).view(np.float32)


def hard_points(name: str) -> np.ndarray:
    """Where the formulas of a function meet, or its results vanish, overflow or become subnormal."""
    both = [
        0.25,
        0.5,
        0.55,
        0.625,
        0.75,
        0.8,
        0.927734375,
        1.0,
        1.5,
        2.0,
        8 / 7,
        4.0,
        8.0,
        10.0,
        16.0,
        16.635532,
        20.0,
        44.0,
        87.0,
        87.33655,
        88.0,
        88.72284,
        89.0,
        89.41599,
        103.97208,
        104.0,
        126.0,
        127.0,
        128.0,
        129.0,
        149.0,
        150.0,
        151.0,
        37.929779,
        38.53184,
        44.85346,
        45.1545,
        np.sqrt(0.5),
        np.sqrt(2.0),
        1e-3,
        1e-5,
        1e-7,
        1e-20,
        1.1754944e-38,
        3e-42,
        131072.0,
        1e6,
        1e10,
        1e20,
        1e38,
    ]
    if name in ("sin", "cos", "tan"):
        k = np.arange(1, 600)
        both += [*(k * (np.pi / 4)), *(np.unique(np.geomspace(600, 5e37, 900).round()) * (np.pi / 2))]
        both += [
            float.fromhex(x)
            for x in ("0x1.67d7cap+100", "0x1.6ac5b2p+86", "0x1.3b5a1ep+12", "0x1.921fb6p+1", "0x1.2d97c8p+2")
        ]
    elif name in ("exp", "expm1", "sigmoid", "tanh", "sinh", "cosh", "exp2", "exp10"):
        unit = {"exp2": 1.0, "exp10": np.log10(2.0)}.get(name, np.log(2.0))
        both += [*((np.arange(310) + 0.5) * unit / 2)]
    elif name.startswith("log"):
        both += [*(2.0 ** np.arange(-126, 128)), *(np.sqrt(0.5) * 2.0 ** np.arange(-120, 120))]
        if name == "log1p":
            both += [*(2.0 ** np.arange(-30.0, 60.0) - 1.0), *(np.sqrt(0.5) * 2.0 ** np.arange(-3, 60) - 1.0)]
    points = np.array(both, np.float32)
    return np.concatenate([points, -points])
