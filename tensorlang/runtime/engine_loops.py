"""Loops over a body that is an engine: functions of arrays. A body that was met is run natively, as long as
sizes stay. Knows engines, nothing of what a graph is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import repeat

Body = Callable[..., Any]
FEW = 4  # iterations that are called one by one as fast as a native loop of them begins


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
    form = repeat.Body(
        [(2 + k, 1 + k) for k in range(carried)], (), range(1 + carried, 1 + carried + len(empty)), 0, (1, 0)
    )
    rows: list[list[Any]] = [[] for _ in empty]
    count = None if most is None else int(most.item())
    go = True if condition is None else bool(condition.item())
    i = 0
    while go and (count is None or i < count):
        given = [np.array(i), np.array(go), *state, *outer, shape]
        left = min(i, repeat.MOST) if count is None else count - i
        more = repeat.repeated(body, given, form, left) if left >= FEW else None
        if more is not None and more.times:
            go, state, i = more.go, more.state, i + more.times
            _add(rows, more.rows)
            continue
        made = _results(body(*given))
        go, state, i = bool(made[0].item()), list(made[1 : 1 + carried]), i + 1
        _add(rows, [np.asarray(x)[None] for x in made[1 + carried :]])
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
    state, outer = list(arrays[:carried]), arrays[carried + len(axes) :]
    xs = [np.ascontiguousarray(np.moveaxis(x, a, 0)) for x, a in zip(arrays[carried:], axes, strict=False)]
    shape = np.empty((*sizes, 0), np.uint8)
    form = repeat.Body(
        [(k, k) for k in range(carried)],
        [
            (carried + k, (-1 if b else 1) * repeat.row_bytes(x))
            for k, (x, b) in enumerate(zip(xs, back, strict=True))
        ],
        range(carried, carried + len(empty)),
    )
    rows: list[list[Any]] = [[] for _ in empty]
    count, i = xs[0].shape[0], 0

    def given() -> list[Any]:
        rows = (x[count - 1 - i if b else i, ...] for x, b in zip(xs, back, strict=True))  # views, no numbers
        return [*state, *rows, *outer, shape]

    while i < count:
        inputs = given()
        more = repeat.repeated(body, inputs, form, count - i) if count - i >= FEW else None
        if more is not None and more.times:
            state, i = more.state, i + more.times
            _add(rows, more.rows)
            continue
        made = _results(body(*inputs))
        state, i = list(made[:carried]), i + 1
        _add(rows, [np.asarray(x)[None] for x in made[carried:]])
    stacked = [
        np.ascontiguousarray(np.moveaxis(x[::-1] if b else x, 0, a))
        for x, b, a in zip(
            (_stacked(row, *e) for row, e in zip(rows, empty, strict=True)), out_back, out_axes, strict=True
        )
    ]
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


def _add(rows: list[list[Any]], blocks: Sequence[Any]) -> None:
    for row, block in zip(rows, blocks, strict=True):
        row.append(block)


def _stacked(blocks: list[Any], shape: Sequence[int], kind: str) -> np.ndarray:
    if len(blocks) == 1:
        return np.asarray(blocks[0])
    return np.concatenate(blocks) if blocks else np.zeros((0, *shape), kind)
