"""Loops over a body that is an engine: functions of arrays. Knows nothing of graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Body = Callable[..., Any]


def looped(
    body: Body,
    most: Any,
    condition: Any,
    *arrays: Any,
    sizes: Sequence[int],
    carried: int,
    empty: Sequence[Any],
) -> tuple[Any, ...]:
    """``go, *state, *scanned = body(i, go, *state, *outer, sizes)`` while it goes on, ``most`` times at
    most. The results of each iteration are stacked; ``empty`` has shape and type of those of none."""
    state, outer = list(arrays[:carried]), arrays[carried:]
    shape = np.empty((*sizes, 0), np.uint8)
    rows: list[list[Any]] = [[] for _ in empty]
    count = None if most is None else int(np.reshape(most, ()))
    go = True if condition is None else bool(np.reshape(condition, ()))
    i = 0
    while go and (count is None or i < count):
        made = _results(body(np.array(i), np.array(go), *state, *outer, shape))
        go, state = bool(np.reshape(made[0], ())), list(made[1 : 1 + carried])
        for row, x in zip(rows, made[1 + carried :], strict=True):
            row.append(x)
        i += 1
    return (*state, *(_stacked(row, *e) for row, e in zip(rows, empty, strict=True)))


def scanned(
    body: Body,
    *arrays: Any,
    sizes: Sequence[int],
    carried: int,
    axes: Sequence[int],
    back: Sequence[int],
    out_axes: Sequence[int],
    out_back: Sequence[int],
    empty: Sequence[Any],
) -> tuple[Any, ...]:
    """``*state, *scanned = body(*state, *slices, *outer, sizes)`` for each slice of arrays along their
    axes, from the end where ``back`` says so."""
    state, xs, outer = list(arrays[:carried]), arrays[carried:][: len(axes)], arrays[carried + len(axes) :]
    shape = np.empty((*sizes, 0), np.uint8)
    rows: list[list[Any]] = [[] for _ in empty]
    count = xs[0].shape[axes[0]]
    for i in range(count):
        slices = [np.take(x, count - 1 - i if b else i, a) for x, a, b in zip(xs, axes, back, strict=True)]
        made = _results(body(*state, *slices, *outer, shape))
        state = list(made[:carried])
        for row, x in zip(rows, made[carried:], strict=True):
            row.append(x)
    ordered = [row[::-1] if b else row for row, b in zip(rows, out_back, strict=True)]
    stacked = [_stacked(row, *e, axis=a) for row, e, a in zip(ordered, empty, out_axes, strict=True)]
    return (*state, *stacked)


def scanned_rows(body: Body, *arrays: Any, carried: int, axes: Sequence[int], **others: Any) -> Any:
    """The scan of opset 8: state and slices have a batch before all, and each of it is scanned alone."""
    own = carried + len(axes)
    rows = [
        scanned(
            body,
            *(a[b] for a in arrays[:own]),
            *arrays[own:],
            carried=carried,
            axes=[0] * len(axes),
            **others,
        )
        for b in range(arrays[0].shape[0])
    ]
    return tuple(np.stack(column) for column in zip(*rows, strict=True))


def _results(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


def _stacked(row: list[Any], shape: Sequence[int], kind: str, *, axis: int = 0) -> np.ndarray:
    return np.stack(row, axis) if row else np.expand_dims(np.zeros(shape, kind), axis).take([], axis)
