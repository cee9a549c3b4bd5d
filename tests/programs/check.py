"""What a program's test asks: its own schedule, the default schedule and the interpreter all give what numpy
gives. Knows public names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.verify import verify

INTERPRET = 60_000  # points of the largest array product that the interpreter is asked for


def ints(
    rng: np.random.Generator, *shape: int, dtype: str = "float32", lo: int = -4, hi: int = 5
) -> np.ndarray[Any, Any]:
    """Small integers: sums of products of them are exact in every order."""
    return rng.integers(lo, hi, shape).astype(dtype)


def rng() -> np.random.Generator:
    """The same numbers every time."""
    return np.random.default_rng(20)


def outputs_like(want: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Rubbish to be overwritten."""
    return [np.full(w.shape, 77, w.dtype) for w in want]


def run(
    f: Any, inputs: Sequence[Any], want: Sequence[np.ndarray[Any, Any]], tolerance: float, how: str
) -> None:
    """Call a kernel with the inputs and new outputs, and compare; inputs stay as they were."""
    before = [np.array(a, copy=True) for a in inputs]
    got = outputs_like(want)
    f(*inputs, *got)
    for n, (g, w) in enumerate(zip(got, want, strict=True)):
        if tolerance == 0:
            assert np.array_equal(g, w), (
                f"{how}: output {n} differs at {np.argwhere(g != w)[:3].tolist()} ({int((g != w).sum())} of {w.size})"
            )
        else:
            np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance, err_msg=f"{how}: output {n}")
    for a, b in zip(inputs, before, strict=True):
        assert np.array_equal(a, b), f"{how}: an input was changed"


def agree(
    s: Any,
    args: Sequence[Any],
    inputs: Sequence[Any],
    *want: np.ndarray[Any, Any],
    tolerance: float = 0,
    interpreted: bool = True,
    default: bool = True,
) -> None:
    """The program's schedule, the plain schedule in the interpreter and ``tl.compile`` agree with numpy: bit
    for bit at tolerance 0."""
    run(tl.build(s, args, target="llvm", name="program"), inputs, want, tolerance, "the program's schedule")
    if interpreted:
        for how, simple in (("lowered", True), ("after all passes", False)):
            func = tl.lower(s, args, simple=simple)
            verify(func)
            run(lambda *a, func=func: interpret(func, *a), inputs, want, tolerance, f"interpreter, {how}")
    if default:
        run(tl.compile(args), inputs, want, tolerance, "the default schedule")
