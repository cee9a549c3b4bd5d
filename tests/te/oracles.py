"""One computation by the three oracles: numpy on the graph, the loop IR interpreter, compiled code; with
plain and with vector loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import te
from tensorlang.core.dtype import DType, dtype
from tensorlang.loopir.interpret import interpret
from tensorlang.te.reference import evaluate
from tensorlang.te.tensor import Tensor

POISON = 0xA5
Array = np.ndarray


def agree(
    outputs: Tensor | Sequence[Tensor],
    values: Mapping[Any, Array],
    *,
    ulp: float = 0,
    lanes: Sequence[int] = (0, 8),
    schedule: Callable[[tl.Schedule], None] | None = None,
) -> tuple[Array, ...]:
    """Asserts that all oracles give the reference's arrays, within ``ulp`` units of the last place; returns
    them.

    ``lanes``: 0 builds plain loops, n cuts the innermost loop by n and vectorises it; ``schedule`` does
    something else instead.
    """
    outs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    tensors = {t: v for t, v in values.items() if isinstance(t, Tensor)}
    numbers = {t: v for t, v in values.items() if not isinstance(t, Tensor)}
    want = evaluate(outs, tensors, numbers)
    args = [*values, *outs]
    for n in lanes:
        s = te.create_schedule([t.op for t in outs])
        if schedule is not None:
            schedule(s)
        elif n:
            vectorized(s, n)
        runs = (
            ("interpreter", lambda func: interpret(func, *given, *got)),
            ("compiled", lambda func: tl.build(s, args)(*given, *got)),
        )
        for name, run in runs:
            given = list(values.values())
            got = [poisoned(w) for w in want]
            run(tl.lower(s, args))
            for t, g, w in zip(outs, got, want, strict=True):
                same(
                    g,
                    w,
                    t.dtype,
                    ulp,
                    f"{name}, {n or 'no'} lanes, {t.name} = {t.op.body[t.value_index] if hasattr(t.op, 'body') else t}",
                )
    return want


def vectorized(s: tl.Schedule, lanes: int) -> None:
    """Cut the innermost data loop of every stage and vectorise it."""
    for stage in s.stages:
        axes = getattr(stage.op, "axis", ())
        if axes:
            _, inner = stage.split(axes[-1], factor=lanes)
            stage.reorder(*stage.op.reduce_axis, inner)
            stage.vectorize(inner)


def poisoned(like: Array) -> Array:
    """An array of the same shape and type full of a pattern that no oracle should leave there."""
    out = np.empty_like(like)
    out.reshape(-1).view(np.uint8)[...] = POISON if like.dtype != np.bool_ else 1
    return out


def same(got: Array, want: Array, t: DType, ulp: float, where: str) -> None:
    assert got.dtype == want.dtype and got.shape == want.shape, where
    if t.code == "bfloat":
        got, want = (widened(x) for x in (got, want))
        unit = 2.0**-7
    if not t.is_float:
        bad = got != want
    else:
        equal = (got == want) | (np.isnan(got) & np.isnan(want))
        with np.errstate(all="ignore"):
            step = np.abs(want) * unit if t.code == "bfloat" else np.spacing(np.abs(want))
            far = np.abs(got.astype(np.float64) - want.astype(np.float64)) / step.astype(np.float64)
        bad = ~equal & ~(far <= ulp)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(np.atleast_1d(bad))[0])
        raise AssertionError(
            f"{where}: {int(bad.sum())} of {bad.size} differ, first at {at}: {np.atleast_1d(got)[at]!r}, "
            f"should be {np.atleast_1d(want)[at]!r}"
        )


def widened(x: Array) -> Array:
    """The numbers of an array of bfloat16."""
    return (x.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def numbers(t: str | DType, n: int = 131, seed: int = 0) -> Array:
    """Numbers of a type: the special ones first, then random ones of all sizes."""
    t = dtype(t)
    rng = np.random.default_rng(seed + sum(map(ord, t.name)))
    if t.is_bool:
        return rng.random(n) < 0.5
    if t.is_int:
        lo, hi = t.limits()
        kind = t.to_numpy().type
        small = rng.integers(max(lo, -20), 20, n, kind)
        out = np.where(rng.random(n) < 0.5, rng.integers(lo, hi, n, kind, endpoint=True), small)
        special = [0, 1, hi, lo, hi - 1, lo + 1, hi // 2]
        out[: len(special)] = np.array(special, dtype=object).astype(kind)
        return out
    if t.code == "bfloat":
        with np.errstate(all="ignore"):
            return (
                (numbers("float32", n, seed).view(np.uint32) >> np.uint32(16))
                .astype(np.uint16)
                .view(t.to_numpy())
            )
    kind = t.to_numpy().type
    info = np.finfo(kind)
    with np.errstate(all="ignore"):
        top = float(np.log10(float(info.max)))
        out = np.select(
            [rng.random(n) < 0.4, rng.random(n) < 0.5],
            [rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(-top, top, n), rng.uniform(-300, 300, n)],
            rng.uniform(-3, 3, n),
        )
        out = out.astype(kind)
        special = [
            0.0,
            -0.0,
            1,
            -1,
            np.inf,
            -np.inf,
            np.nan,
            0.5,
            -0.5,
            1.5,
            2.5,
            -2.5,
            127.5,
            128,
            -128.5,
            -129,
            255.5,
            256,
            32767.5,
            32768,
            65535.5,
            65536,
            2.0**31,
            -(2.0**31),
            2.0**32,
            2.0**63,
            -(2.0**63),
            2.0**64,
            info.max,
            info.smallest_subnormal,
            info.tiny,
        ]
        out[: len(special)] = np.array(special).astype(kind)
    return out
