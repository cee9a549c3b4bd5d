"""An engine called again and again without Python in between: the body of a loop. Knows engines and plans.

What is carried on lies in two buffers that take turns, what is collected is written row by row. Iterations
are made natively as long as the sizes are the same and a plan is there for what they do; the caller makes the
others.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..native.engine import REPEAT_HEAD, UNPLANNED
from .arrays import address_of, empty
from .run import functions

MOST = 4096  # iterations until Python has a look, which may be interrupted
MOST_BYTES = 16 << 20  # of what is collected meanwhile


class Repeated(NamedTuple):
    """After so many iterations: what is carried on, what was collected, and whether to go on."""

    times: int
    state: list[Any]
    rows: list[np.ndarray]
    go: bool


class Body(NamedTuple):
    """Which inputs and outputs of an engine are what: ``carried`` pairs of them, ``moved`` inputs with the
    bytes to the next row, ``collected`` outputs; ``counter`` is the input that counts, ``go`` input and
    output that say whether to go on."""

    carried: Sequence[tuple[int, int]]
    moved: Sequence[tuple[int, int]] = ()
    collected: Sequence[int] = ()
    counter: int | None = None
    go: tuple[int, int] | None = None


def repeated(engine: Any, inputs: Sequence[Any], body: Body, most: int) -> Repeated | None:
    """At most so many iterations from these inputs on. None where that cannot be."""
    plan_of = getattr(engine, "plan_of", None)  # a body may be any function
    plan = None if plan_of is None or most < 1 else plan_of(inputs)
    if plan is None:
        return None
    state, sizes, arrays, forms = plan
    given, n = list(arrays), len(arrays)
    alike = all(given[i].shape == forms[o][0] and given[i].dtype == forms[o][1] for i, o in body.carried)
    if not alike or any(given[i] is not inputs[i] for i, _ in body.moved):  # of a copy there is no next row
        return None
    bytes_ = {o: math.prod(forms[o][0]) * forms[o][1].itemsize for o in body.collected}
    most = min(most, MOST, max(1, MOST_BYTES // max(1, sum(bytes_.values()))))
    made = [empty((most, *shape) if o in bytes_ else shape, kind) for o, (shape, kind) in enumerate(forms)]
    spare = [empty(*forms[o]) for _, o in body.carried]
    for i in (*(() if body.counter is None else (body.counter,)), *(body.go or ())[:1]):
        given[i] = given[i].copy()  # it is written to
    at = [address_of(a) for a in (*given, *made)]
    go = (0, 0) if body.go is None else (at[body.go[0]], at[n + body.go[1]])
    counter = 0 if body.counter is None else at[body.counter]
    swaps = [w for (i, o), s in zip(body.carried, spare, strict=True) for w in (i, n + o, address_of(s))]
    moves = [w for pair in body.moved for w in pair]
    moves += [w for o, size in bytes_.items() for w in (n + o, size)]
    words = _words(0, most, counter, *go, len(body.carried), len(moves) // 2, *swaps, *moves)
    assert len(words) == REPEAT_HEAD + len(swaps) + len(moves)
    status = functions()["repeat"](_words(*at), sizes, state, words)
    if status not in (0, UNPLANNED):
        engine.fail(status)
    times = words[0]
    ends = [made[o] if times % 2 else s for (_, o), s in zip(body.carried, spare, strict=True)]
    return Repeated(
        times,
        ends if times else [given[i] for i, _ in body.carried],
        [made[o][:times] for o in body.collected],
        True if body.go is None or not times else bool(made[body.go[1]]),
    )


def _words(*values: int) -> Any:
    return (ctypes.c_int64 * len(values))(*values)


def row_bytes(x: np.ndarray) -> int:
    """From one row to the next, of an array in C order."""
    return math.prod(x.shape[1:]) * x.itemsize
