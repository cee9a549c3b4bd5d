"""The kernels every target is tried with, each with its inputs and what numpy says. Knows no targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import tensorlang as tl
from tensorlang import te

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Case:
    """``declare`` makes the arguments and a schedule (None: the default one); outputs come last. ``want``
    makes them in numpy from the ``inputs``; they are compared bit by bit unless ``ulps`` allows more."""

    name: str
    declare: Callable[[], tuple[list[Any], Any]]
    inputs: tuple[np.ndarray, ...]
    want: Callable[..., Any]
    ulps: int = 0
    bounds_check: bool = False

    def build(self, target: str) -> tl.Module:
        args, schedule = self.declare()
        if schedule is None:
            return tl.compile(args, target, self.name, bounds_check=self.bounds_check)
        return tl.build(schedule, args, target, self.name, bounds_check=self.bounds_check)

    def expected(self) -> list[np.ndarray]:
        out = self.want(*self.inputs)
        return [np.ascontiguousarray(x) for x in (out if isinstance(out, tuple) else (out,))]


CASES: list[Case] = []
_rng = np.random.default_rng(11)


def ints(*shape: int, dtype: str = "float32", lo: int = -4, hi: int = 5) -> np.ndarray:
    return _rng.integers(lo, hi, shape).astype(dtype)


def reals(*shape: int, dtype: str = "float32", lo: float = -4.0, hi: float = 4.0) -> np.ndarray:
    return _rng.uniform(lo, hi, shape).astype(dtype)


def case(
    *inputs: np.ndarray, want: Callable[..., Any], ulps: int = 0, bounds_check: bool = False
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def register(declare: Callable[[], Any]) -> Callable[[], Any]:
        def both() -> tuple[list[Any], Any]:
            made = declare()
            return made if isinstance(made, tuple) else (made, None)

        CASES.append(Case(declare.__name__, both, inputs, want, ulps, bounds_check))
        return declare

    return register


def unary(f: Callable[[Any], Any], n: int, dtype: str = "float32") -> list[Any]:
    X = te.placeholder((n,), dtype, name="X")
    return [X, te.compute((n,), lambda i: f(X[i]), name="Y")]


def as32(f: Callable[..., Any]) -> Callable[..., Any]:
    """What numpy says in float64, rounded once."""
    return lambda *a: np.asarray(f(*(x.astype("float64") for x in a))).astype("float32")


# -- elementwise ---------------------------------------------------------------------------------------------


@case(ints(37, 29), ints(29), want=lambda x, b: np.maximum(x + b, 0) * 2)
def bias_relu() -> Any:
    X, B = te.placeholder((37, 29), name="X"), te.placeholder((29,), name="B")
    return [X, B, te.compute((37, 29), lambda i, j: te.max(X[i, j] + B[j], 0.0) * 2.0, name="Y")]


def _group(*names: str) -> Callable[[], Any]:
    def declare() -> Any:
        X = te.placeholder((203,), name="X")
        return [
            X,
            *(te.compute((203,), lambda i, f=getattr(te, name): f(X[i]), name=f"Y_{name}") for name in names),
        ]

    return declare


_EXPONENTIAL = ("exp", "exp2", "tanh", "sigmoid", "erf", "sin", "cos", "atan")


@case(
    reals(203),
    ulps=2,
    want=lambda x: tuple(
        as32(f)(x)
        for f in (
            np.exp,
            np.exp2,
            np.tanh,
            lambda v: 1 / (1 + np.exp(-v)),
            np.vectorize(math.erf),
            np.sin,
            np.cos,
            np.arctan,
        )
    ),
)
def exponentials() -> Any:
    return _group(*_EXPONENTIAL)()


@case(
    reals(203, lo=0.01, hi=90.0),
    ulps=2,
    want=lambda x: tuple(as32(f)(x) for f in (np.log, np.log2, np.log1p, np.sqrt, lambda v: 1 / np.sqrt(v))),
)
def logarithms() -> Any:
    return _group("log", "log2", "log1p", "sqrt", "rsqrt")()


@case(
    reals(203),
    want=lambda x: (
        np.floor(x),
        np.ceil(x),
        np.rint(x),
        np.abs(x),
        np.trunc(x + np.copysign(np.float32(0.5), x)),
    ),
)
def roundings() -> Any:
    return _group("floor", "ceil", "nearbyint", "abs", "round")()


@case(reals(203), want=lambda x: np.trunc(x * 2))
def truncation() -> Any:
    return unary(lambda x: te.trunc(x * 2.0), 203)


@case(
    reals(203, lo=0.1),
    reals(203),
    ulps=2,
    want=lambda x, y: (as32(np.power)(x, y), np.fmod(x, y), as32(np.arctan2)(x, y)),
)
def powers() -> Any:
    X, Y = te.placeholder((203,), name="X"), te.placeholder((203,), name="Y")
    return [
        X,
        Y,
        *(
            te.compute((203,), lambda i, f=f: f(X[i], Y[i]), name=f"P{n}")
            for n, f in enumerate((te.pow, te.fmod, te.atan2))
        ),
    ]


@case(reals(61, dtype="float64"), ulps=2, want=lambda x: np.exp(x) / (1 + np.exp(x)))
def logistic64() -> Any:
    return unary(lambda x: te.exp(x) / (1.0 + te.exp(x)), 61, "float64")


@case(
    ints(101, dtype="int32", lo=-1000, hi=1000),
    ints(101, dtype="int32", lo=1, hi=40),
    want=lambda x, y: (x // y, x % y, x * y - (x ^ y), x >> 3),
)
def integer_arithmetic() -> Any:
    X, Y = te.placeholder((101,), "int32", name="X"), te.placeholder((101,), "int32", name="Y")
    made = (
        lambda a, b: te.floordiv(a, b),
        lambda a, b: te.floormod(a, b),
        lambda a, b: a * b - te.bitwise_xor(a, b),
        lambda a, b: a >> 3,
    )
    return [
        X,
        Y,
        *(te.compute((101,), lambda i, f=f: f(X[i], Y[i]), name=f"Z{n}") for n, f in enumerate(made)),
    ]


@case(
    ints(77, dtype="uint8", lo=0, hi=255), want=lambda x: (x.astype("int8"), x > 100, x.astype("float32") / 2)
)
def narrow_casts() -> Any:
    X = te.placeholder((77,), "uint8", name="X")
    return [
        X,
        te.compute((77,), lambda i: X[i].astype("int8"), name="A"),
        te.compute((77,), lambda i: X[i] > 100, name="B"),
        te.compute((77,), lambda i: X[i].astype("float32") * 0.5, name="C"),
    ]


@case(reals(77, lo=0, hi=250), want=lambda x: x.astype("uint8"))
def float_to_bytes() -> Any:
    return unary(lambda x: x.astype("uint8"), 77)


@case(
    np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1.9, -1.9, 0.0] * 3, "float32"),
    want=lambda x: np.where(
        np.isnan(x),
        0,
        np.clip(np.trunc(np.nan_to_num(x.astype("float64"), posinf=4e9, neginf=-4e9)), -(2**31), 2**31 - 1),
    ).astype("int32"),
)
def saturating_casts() -> Any:
    return unary(lambda x: x.astype("int32"), 24)


@case(ints(90, dtype="float16"), ints(90, dtype="float16"), want=lambda x, y: (x * y + x).astype("float16"))
def half() -> Any:
    X, Y = te.placeholder((90,), "float16", name="X"), te.placeholder((90,), "float16", name="Y")
    return [X, Y, te.compute((90,), lambda i: X[i] * Y[i] + X[i], name="Z")]


@case(ints(50).astype(ml_dtypes.bfloat16), want=lambda x: x.astype(np.float32) * 3)
def brain_float() -> Any:
    return unary(lambda x: x.astype("float32") * 3.0, 50, "bfloat16")


# -- reductions ----------------------------------------------------------------------------------------------


@case(ints(19, 133), want=lambda x: (x.sum(1), x.max(1), x.min(1)))
def rows() -> Any:
    X = te.placeholder((19, 133), name="X")

    def over(f: Any, name: str) -> Any:
        k = te.reduce_axis((0, 133), name="k")
        return te.compute((19,), lambda i: f(X[i, k], axis=k), name=name)

    return [X, over(te.sum, "S"), over(te.max, "M"), over(te.min, "N")]


@case(ints(133, 19), want=lambda x: x.sum(0))
def columns() -> Any:
    X = te.placeholder((133, 19), name="X")
    k = te.reduce_axis((0, 133), name="k")
    return [X, te.compute((19,), lambda j: te.sum(X[k, j], axis=k), name="S")]


@case(ints(64, 96), want=lambda x: x.sum(1))
def rfactor() -> Any:
    X = te.placeholder((64, 96), name="X")
    k = te.reduce_axis((0, 96), name="k")
    S = te.compute((64,), lambda i: te.sum(X[i, k], axis=k), name="S")
    s = te.create_schedule(S.op)
    _, ki = s[S].split(k, factor=8)
    F = s.rfactor(S, ki)
    s[F].vectorize(F.op.axis[-1] if F.op.axis[-1].dom.extent == 8 else F.op.axis[0])
    return [X, S], s


@case(
    ints(11, 40, dtype="int8", lo=-100, hi=100),
    want=lambda x: (x.astype("int32").sum(1, dtype="int32"), np.argmax(x, 1).astype("int32"), x.max(1)),
)
def sum_and_argmax() -> Any:
    X = te.placeholder((11, 40), "int8", name="X")
    k, r = te.reduce_axis((0, 40), name="k"), te.reduce_axis((0, 40), name="r")

    def join(x: Any, y: Any) -> Any:
        return te.select((x[1] > y[1]) | ((x[1] == y[1]) & (x[0] < y[0])), x[0], y[0]), te.max(x[1], y[1])

    largest = te.comm_reducer(join, lambda t0, t1: (te.const(-1, t0), te.min_value(t1)), name="argmax")
    S = te.compute((11,), lambda i: te.sum(X[i, k].astype("int32"), axis=k), name="S")
    at, most = te.compute((11,), lambda i: largest((r, X[i, r]), axis=r), name="at")
    return [X, S, at, most]


@case(
    ints(9, 70, dtype="float32"),
    ulps=4,
    want=as32(
        lambda x: (
            np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)
        )
    ),
)
def softmax() -> Any:
    X = te.placeholder((9, 70), name="X")
    k, r = te.reduce_axis((0, 70), name="k"), te.reduce_axis((0, 70), name="r")
    M = te.compute((9,), lambda i: te.max(X[i, k], axis=k), name="M")
    E = te.compute((9, 70), lambda i, j: te.exp(X[i, j] - M[i]), name="E")
    S = te.compute((9,), lambda i: te.sum(E[i, r], axis=r), name="S")
    return [X, te.compute((9, 70), lambda i, j: E[i, j] / S[i], name="Y")]


# -- products ------------------------------------------------------------------------------------------------


def product(
    m: Any, n: int, k_size: int, dtype: str = "float32", acc: str | None = None
) -> tuple[Any, Any, Any]:
    A, B = te.placeholder((m, k_size), dtype, name="A"), te.placeholder((k_size, n), dtype, name="B")
    k = te.reduce_axis((0, k_size), name="k")
    wide = acc or dtype
    return (
        A,
        B,
        te.compute(
            (m, n), lambda i, j: te.sum(A[i, k].astype(wide) * B[k, j].astype(wide), axis=k), name="C"
        ),
    )


def tiled(C: Any, rows: int, columns: int, parallel: bool = False) -> Any:
    s = te.create_schedule(C.op)
    acc = s.cache_write(C, "local")
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, x_factor=rows, y_factor=columns)
    s[acc].compute_at(s[C], jo)
    i, j = s[acc].op.axis
    (k,) = s[acc].op.reduce_axis
    s[acc].reorder(k, i, j)
    for stage, r, c in ((acc, i, j), (C, ii, ji)):
        s[stage].unroll(r)
        s[stage].vectorize(c)
    if parallel:
        s[C].parallel(io)
    return s


@case(ints(23, 31), ints(31, 45), want=lambda a, b: a @ b)
def matmul_tile_with_tails() -> Any:
    A, B, C = product(23, 45, 31)
    return [A, B, C], tiled(C, 4, 16)


@case(ints(48, 64), ints(64, 96), want=lambda a, b: a @ b)
def matmul_parallel() -> Any:
    A, B, C = product(48, 96, 64)
    return [A, B, C], tiled(C, 4, 8, parallel=True)


@case(ints(33, 40), ints(40, 33), want=lambda a, b: a @ b)
def matmul_default() -> Any:
    return list(product(33, 33, 40))


@case(ints(130, 64), ints(64, 130), want=lambda a, b: a @ b)
def matmul_packed() -> Any:
    return list(product(130, 130, 64))


@case(
    ints(13, 20, dtype="int8", lo=-128, hi=127),
    ints(20, 18, dtype="int8", lo=-128, hi=127),
    want=lambda a, b: a.astype("int32") @ b.astype("int32"),
)
def matmul_int8() -> Any:
    A, B, C = product(13, 18, 20, "int8", "int32")
    return [A, B, C], tiled(C, 2, 8)


@case(ints(12, 20, dtype="float64"), ints(20, 13, dtype="float64"), want=lambda a, b: a @ b)
def matmul_float64() -> Any:
    A, B, C = product(12, 13, 20, "float64")
    return [A, B, C], tiled(C, 4, 4)


@case(ints(17, 12), ints(12, 21), want=lambda a, b: a @ b)
def matmul_symbolic() -> Any:
    m = te.dim("m", 0, 300)
    A, B, C = product(m, 21, 12)
    return [A, B, C], tiled(C, 6, 8)


@case(
    ints(2, 3, 12, 11),
    ints(4, 3, 3, 3),
    want=lambda x, w: np.stack(
        [
            sum(
                w[:, :, r, q]
                @ np.pad(one, ((0, 0), (1, 1), (1, 1)))[:, r : r + 12, q : q + 11].reshape(3, -1)
                for r in range(3)
                for q in range(3)
            ).reshape(4, 12, 11)
            for one in x
        ]
    ),
)
def conv2d() -> Any:
    X, W = te.placeholder((2, 3, 12, 11), name="X"), te.placeholder((4, 3, 3, 3), name="W")
    P = te.compute(
        (2, 3, 14, 13),
        lambda n, c, y, x: te.if_then_else(
            te.all(y >= 1, y < 13, x >= 1, x < 12), X[n, c, y - 1, x - 1], 0.0
        ),
        name="P",
    )
    c, r, q = (
        te.reduce_axis((0, 3), name="c"),
        te.reduce_axis((0, 3), name="r"),
        te.reduce_axis((0, 3), name="q"),
    )
    return [
        X,
        W,
        te.compute(
            (2, 4, 12, 11),
            lambda n, o, y, x: te.sum(P[n, c, y + r, x + q] * W[o, c, r, q], axis=[c, r, q]),
            name="Y",
        ),
    ]


# -- the rest ------------------------------------------------------------------------------------------------


@case(ints(40, 7), np.array([3, 39, 0, 17, 17, 5, 8, 21, 2], "int32"), want=lambda t, i: t[i])
def gather() -> Any:
    T, I = te.placeholder((40, 7), name="T"), te.placeholder((9,), "int32", name="I")
    Y = te.compute((9, 7), lambda i, j: T[I[i], j], name="Y")
    s = te.create_schedule(Y.op)
    s[Y].vectorize(s[Y].op.axis[1])
    return [T, I, Y], s


@case(ints(100), np.arange(31, dtype="int32")[::-1].copy() * 3, want=lambda t, i: t[i])
def gather_lanes() -> Any:
    T, I = te.placeholder((100,), name="T"), te.placeholder((31,), "int32", name="I")
    Y = te.compute((31,), lambda i: T[I[i]], name="Y")
    s = te.create_schedule(Y.op)
    _, i = s[Y].split(s[Y].op.axis[0], factor=8)
    s[Y].vectorize(i)
    return [T, I, Y], s


@case(ints(21, 34), want=lambda x: x.T)
def transpose() -> Any:
    X = te.placeholder((21, 34), name="X")
    Y = te.compute((34, 21), lambda i, j: X[j, i], name="Y")
    s = te.create_schedule(Y.op)
    _, _, _, ji = s[Y].tile(*s[Y].op.axis, 4, 8)
    s[Y].vectorize(ji)
    return [X, Y], s


@case(ints(75), want=lambda x: (x[1::2], x[::-1], np.repeat(x, 2)))
def strides() -> Any:
    X = te.placeholder((75,), name="X")
    made = [
        te.compute((37,), lambda i: X[2 * i + 1], name="A"),
        te.compute((75,), lambda i: X[74 - i], name="B"),
        te.compute((150,), lambda i: X[i // 2], name="C"),
    ]
    s = te.create_schedule([t.op for t in made])
    for t in made:
        s[t].vectorize(s[t].split(s[t].op.axis[0], factor=8)[1])
    return [X, *made], s


@case(ints(17, 23), want=lambda x: np.cumsum(x, 0))
def scan() -> Any:
    X = te.placeholder((17, 23), name="X")
    state = te.placeholder((17, 23), name="state")
    first = te.compute((1, 23), lambda _, i: X[0, i], name="first")
    update = te.compute((17, 23), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    S = te.scan(first, update, state, inputs=[X], name="S")
    return [X, S], te.create_schedule(S.op)


@case(
    ints(53),
    want=lambda x: np.where(x > 0, x, 0) + np.where(np.arange(53) % 5 == 2, np.float32(7), np.float32(0)),
)
def masks() -> Any:
    X = te.placeholder((53,), name="X")
    Y = te.compute(
        (53,), lambda i: te.select(X[i] > 0.0, X[i], 0.0) + te.if_then_else(i % 5 == 2, 7.0, 0.0), name="Y"
    )
    s = te.create_schedule(Y.op)
    s[Y].vectorize(s[Y].split(s[Y].op.axis[0], factor=16, tail="mask")[1])
    return [X, Y], s


@case(ints(200, 90), want=lambda x: (x * 2 + 1).sum(1))
def temporary_on_the_heap() -> Any:
    X = te.placeholder((200, 90), name="X")
    T = te.compute((200, 90), lambda i, j: X[i, j] * 2.0 + 1.0, name="T")
    k = te.reduce_axis((0, 90), name="k")
    S = te.compute((200,), lambda i: te.sum(T[i, k], axis=k), name="S")
    return [X, S], te.create_schedule(S.op)


@case(ints(30), want=lambda x: x + 1, bounds_check=True)
def checked() -> Any:
    X = te.placeholder((30,), name="X")
    I = te.compute((30,), lambda i: (i * 7) % 30, name="I")
    J = te.compute((30,), lambda i: (i * 13) % 30, name="J")
    return [X, te.compute((30,), lambda i: X[J[I[i]]] * 0.0 + X[i] + 1.0, name="Y")]
