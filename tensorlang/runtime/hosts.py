"""Functions of arrays that run between kernels, as plain data: by a name that files know, with attributes in
which sizes are rows of a table, and with the engines of the graphs they run. Knows programs; nothing of what
a graph is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.dtype import dtype
from ..errors import CallError, TensorLangError, counted
from . import choices, engine_loops
from .program import Host, Program, Row, Stored
from .size_table import SizeTable

MOST = 64  # of small numbers, such as axes, and of sizes that attributes are kept for

# what a file may name, with how many inputs it takes at least and at most
FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int | None]] = {
    "looped": (engine_loops.looped, 2, None),
    "scanned": (engine_loops.scanned, 1, None),
    "scanned_rows": (engine_loops.scanned_rows, 1, None),
    "first_rows": (choices.first_rows, 2, 2),
    "first_columns": (choices.first_columns, 2, 2),
    "compressed": (choices.compressed, 2, 2),
    "unique": (choices.unique, 1, 1),
    "counted_up": (choices.counted_up, 3, 3),
    "as_many": (choices.as_many, 1, 1),
    "repeated": (choices.repeated, 1, 1),
    "counts": (choices.counts, 1, 2),
    "runs": (choices.runs, 1, 1),
    "determinant": (choices.determinant, 1, 1),
    "inverse": (choices.inverse, 1, 1),
}
_NAMES = {f: name for name, (f, *_) in FUNCTIONS.items()}
_COUNTS = ("int64", "float32", "float64")
_LOOPS = ("looped", "scanned", "scanned_rows")


def name_of(function: Callable[..., Any]) -> str:
    """The name by which files know a function, or nothing."""
    return _NAMES.get(function, "")


def caller(
    function: Callable[..., Any], stored: Stored, sizes: SizeTable
) -> Callable[[Sequence[Any], dict[str, int]], tuple[Any, ...]]:
    """``call(arrays, dims)``, with numbers for the sizes in attributes."""
    rows = list(dict.fromkeys(_rows(list(stored.attrs.values()))))
    names = sizes.dims(rows)
    numbers = sizes.function(rows, names) if rows else None

    @functools.lru_cache(MOST)
    def attributes(*sizes: int) -> Mapping[str, Any]:
        known = {} if numbers is None else dict(zip(rows, numbers(*sizes), strict=True))
        return {k: _with_numbers(x, known) for k, x in stored.attrs.items()}

    def call(arrays: Sequence[Any], dims: dict[str, int]) -> tuple[Any, ...]:
        attrs = attributes(*[dims[d] for d in names])
        made = function(*stored.bodies, *arrays, **attrs)
        return made if isinstance(made, tuple) else (made,)

    return call


def _rows(x: Any) -> Iterator[int]:
    if isinstance(x, Row):
        yield x.number
    elif isinstance(x, list | tuple):
        for y in x:
            yield from _rows(y)


def _with_numbers(x: Any, known: Mapping[int, int]) -> Any:
    if isinstance(x, Row):
        return known[x.number]
    return type(x)(_with_numbers(y, known) for y in x) if isinstance(x, list | tuple) else x


# -- in a call


def run(p: Program, step: Host, arrays: dict[int, Any], dims: dict[str, int]) -> None:
    """Run a function of arrays, and learn the sizes of what it gives. What it refuses it refuses by its name
    and that of what it makes."""
    try:
        made = step.call([None if v is None else arrays[v] for v in step.inputs], dims)
    except CallError as e:
        e.what = f"{_named(p, step)}: {str(e).splitlines()[0]}"
        raise
    for v, a in zip(step.outputs, made, strict=True):
        value = p.values[v]
        if value.dtype and isinstance(a, np.ndarray | np.generic):
            array = np.ascontiguousarray(a) if np.ndim(a) else np.asarray(a)
            if array.dtype != dtype(value.dtype).to_numpy() or array.ndim != len(value.shape):
                raise TensorLangError(
                    f"{_named(p, step)} gave {array.dtype} of {counted(array.ndim, 'dimension')}",
                    because=f"it was declared as {value.dtype} of {len(value.shape)}",
                )
            _learn(p, step, value.shape, array, dims)
            arrays[v] = array
        else:
            arrays[v] = a


def _named(p: Program, step: Host) -> str:
    return f"{step.name} {', '.join(p.values[v].name for v in step.outputs)}"


def _learn(p: Program, step: Host, shape: Sequence[int], a: np.ndarray, dims: dict[str, int]) -> None:
    """The dims that the shape of an array tells."""
    for axis, (n, have) in enumerate(zip(shape, a.shape, strict=True)):
        row = p.sizes.rows[n]
        if isinstance(row, tuple):
            continue
        wanted = row if isinstance(row, int) else dims.setdefault(row, have)
        if wanted != have:
            raise CallError(
                f"{_named(p, step)} gave {counted(have, 'element')} along dimension {axis}, {wanted} are "
                "needed",
                because=f"{row} is {wanted} already" if isinstance(row, str) else None,
            )


# -- in files


def to_json(x: Any) -> Any:
    """An attribute as a document of JSON has it."""
    if isinstance(x, Row):
        return {"row": x.number}
    return [to_json(y) for y in x] if isinstance(x, list | tuple) else x


def from_json(x: Any, rows: int) -> Any:
    """The attribute. Raises ValueError for what is none."""
    if isinstance(x, dict):
        number = x["row"]
        if list(x) != ["row"] or type(number) is not int or not 0 <= number < rows:
            raise ValueError("no size")
        return Row(number)
    if isinstance(x, list):
        return [from_json(y, rows) for y in x]
    if x is None or type(x) in (int, bool, str):
        return x
    raise ValueError(f"{type(x).__name__} is not an attribute")


def check(stored: Stored, inputs: Sequence[int | None]) -> None:
    """That a function read from a file can be called so. Raises ValueError."""
    name, attrs = stored.function, stored.attrs
    _, least, most = FUNCTIONS[name]
    wanted: dict[str, Callable[[Any], bool]] = {}
    if name in _LOOPS:
        wanted = {"sizes": _sizes, "carried": _small, "empty": _empty}
        own = 2 if name == "looped" else 0
        if name != "looped":
            axes = attrs["axes"]
            wanted |= dict.fromkeys(("axes", "back", "out_axes", "out_back"), _axes)
            own = len(axes) if _axes(axes) and axes else len(inputs) + 1
        least = max(least, own + (attrs["carried"] if _small(attrs["carried"]) else 0))
        most = None
    elif name in ("compressed", "runs", "unique"):
        wanted = {"axis": lambda x: x is None or _axis(x)}
        wanted |= {"in_order": _truth} if name == "unique" else {}
        # which files of older versions do not have
        newer = {"apart": _truth, "asked": _truths} if name == "unique" else {}
        wanted |= {k: fits for k, fits in newer.items() if k in attrs}
    elif name == "counts":
        wanted = {"least": lambda x: type(x) is int and x >= 0, "kind": lambda x: x in _COUNTS}
    wrong = set(attrs) != set(wanted) or not all(fits(attrs[k]) for k, fits in wanted.items())
    optional = 2 if name == "looped" else 0
    if (
        wrong
        or not least <= len(inputs) <= (len(inputs) if most is None else most)
        or None in inputs[optional:]
        or len(stored.bodies) != (name in _LOOPS)
    ):
        raise ValueError(f"{name} is not called so")


def _truth(x: Any) -> bool:
    return type(x) is bool


def _truths(x: Any) -> bool:
    return isinstance(x, list) and len(x) == 3 and all(map(_truth, x))


def _small(x: Any) -> bool:
    return type(x) is int and 0 <= x < MOST * MOST


def _axis(x: Any) -> bool:
    return type(x) is int and -MOST <= x < MOST


def _axes(x: Any) -> bool:
    return isinstance(x, list) and all(map(_axis, x))


def _sizes(x: Any) -> bool:
    return isinstance(x, list) and all(isinstance(n, Row) or (type(n) is int and n >= 0) for n in x)


def _empty(x: Any) -> bool:
    """Shapes and types."""
    return isinstance(x, list) and all(
        isinstance(e, list) and len(e) == 2 and _sizes(e[0]) and bool(dtype(e[1])) for e in x
    )
