"""Loop IR executed on numpy arrays with every check a kernel can fail: the second oracle. Must not know the
language, schedules, passes or compiled code.

``interpret(func, *args)`` runs it; ``translate(func)`` gives the :class:`Program` to run often. Raised as
:class:`InterpretError`:

- an access out of bounds (also of workspace), with buffer, index, extent and loop position
- a read of workspace or of an output before it was written
- a race: two iterations of a parallel loop touch one element and one of them writes, whatever the values
- an output element that nobody wrote
- an integer division by zero; arrays that do not fit the parameters

The arithmetic is the machine's: each float operation rounded in its type (no contraction to fma), integers
wrap, casts of floats to integers truncate and saturate (NaN gives 0), ``min`` and ``max`` give NaN when a
side is NaN. ``if_then_else`` is lazy, lane by lane when its condition is a vector; ``and``, ``or`` and
``select`` evaluate both sides and so guard nothing. ``vectorized`` and ``unrolled`` loops run as plain ones.
The lanes of a vector store are read before any is written, and written in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.dtype import DType
from ..expr import linear, make
from ..expr.nodes import Expr, Var, const_int
from ..expr.printer import show
from ..expr.walk import substitute, variables
from .interpret_memory import FILE, Block, InterpretError
from .interpret_source import Translator
from .stmt import Buffer, Func

__all__ = ["InterpretError", "Program", "Report", "interpret", "translate"]


@dataclass(frozen=True)
class Report:
    """What a run did. ``unwritten``: the number of elements never written, for outputs that have some;
    ``dims``: the symbolic sizes by name."""

    unwritten: dict[str, int]
    dims: dict[str, int]


def interpret(
    func: Func, *args: Any, races: bool = True, coverage: bool = True, dims: Mapping[str, int] | None = None
) -> Report:
    """Execute ``func``: an array for each buffer, outputs included and written in place, a number for each
    scalar.

    Symbolic sizes are solved from the shapes; ``dims`` gives those that cannot be. ``races=False`` leaves out
    the watch on parallel loops (faster); ``coverage=False`` allows output elements that nobody writes. Raises
    InterpretError.
    """
    return translate(func, races).run(*args, coverage=coverage, dims=dims)


@lru_cache(maxsize=32)
def translate(func: Func, races: bool = True) -> Program:
    """The function as a program that can be run many times."""
    return Program(func, races)


class Program:
    """A translated function; ``source`` is its Python."""

    def __init__(
        self, func: Func, races: bool = True, translator: Callable[[Func, bool], Translator] = Translator
    ) -> None:
        made = translator(func, races)
        self.func = func
        self.source = made.function()
        self._globals = made.globals
        self._depth = made.depth
        exec(compile(self.source, FILE, "exec"), self._globals)

    def run(self, *args: Any, coverage: bool = True, dims: Mapping[str, int] | None = None) -> Report:
        """Execute on these arguments."""
        func = self.func
        if len(args) != len(func.params):
            raise InterpretError(
                "arguments", f"{func.name} takes {len(func.params)} argument(s), got {len(args)}"
            )
        arrays = {p: _array(p, a) for p, a in zip(func.params, args, strict=True) if isinstance(p, Buffer)}
        scalars = [_scalar(p, a) for p, a in zip(func.params, args, strict=True) if isinstance(p, Var)]
        sizes = solve(func, arrays, dims or {})
        given = {
            p: x
            for p, x in zip((p for p in func.params if isinstance(p, Var)), scalars, strict=True)
            if p.dtype.is_index
        }
        for cond, why in func.needs:
            if not value_of(cond, {**given, **sizes}):
                raise InterpretError("arguments", why)
        blocks, back = self._blocks(arrays, sizes)
        with np.errstate(all="ignore"):
            self._globals["kernel"](blocks, scalars, list(sizes.values()), [0])
        for array, inside in back:
            array[...] = inside
        unwritten = _unwritten(arrays, blocks, coverage)
        return Report(unwritten, {d.name: n for d, n in sizes.items()})

    def _blocks(
        self, arrays: Mapping[Buffer, np.ndarray[Any, Any]], sizes: Mapping[Var, int]
    ) -> tuple[list[Block], list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]]:
        """The memory of arguments, with marks for what is written, and the pairs (array, its copy) that are
        to be copied back afterwards: a block is contiguous, or a hull with the declared strides."""
        blocks: list[Block] = []
        back: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        for b, whole in arrays.items():
            # bits and not numbers: a NaN keeps its payload, bfloat16 needs no numpy type
            array = whole.view(b.dtype.bits_dtype())
            out = any(b is o for o in self.func.outputs)
            if b.strides is None:
                flat = np.ascontiguousarray(array).reshape(-1)
                block = Block(b.dtype, array.shape, None, self._depth.get(b, 0), flat, not out)
                inside = flat.reshape(array.shape)
            else:
                steps = tuple(value_of(s, sizes) for s in b.strides)
                block = Block(b.dtype, array.shape, steps, self._depth.get(b, 0), None, not out)
                inside = block.elements(block.data)
                inside[...] = array
            # the run had a compact copy: what it wrote goes back
            if self.func.writes(b) and array.size and not np.shares_memory(inside, array):
                back.append((array, inside))
            blocks.append(block)
        return blocks, back


def _unwritten(
    arrays: Mapping[Buffer, np.ndarray[Any, Any]], blocks: Sequence[Block], coverage: bool
) -> dict[str, int]:
    """How many elements of each output nothing wrote. Raises InterpretError for any if ``coverage``."""
    unwritten: dict[str, int] = {}
    for b, block in zip(arrays, blocks, strict=True):
        written = block.elements(block.init)
        missing = np.flatnonzero(written == 0)
        if missing.size:
            unwritten[b.name] = int(missing.size)
            if coverage:
                first = tuple(int(i) for i in np.unravel_index(int(missing[0]), block.shape))
                raise InterpretError(
                    "coverage",
                    f"{missing.size} of {written.size} elements of the output {b.name} are "
                    f"never written, the first is {b.name}[{', '.join(map(str, first))}]",
                    b.name,
                    first,
                )
    return unwritten


def _array(b: Buffer, a: Any) -> np.ndarray[Any, Any]:
    if not isinstance(a, np.ndarray):
        raise InterpretError("arguments", f"{b.name}: an array is needed, got {type(a).__name__}", b.name)
    if a.dtype != b.dtype.to_numpy():
        raise InterpretError("arguments", f"{b.name} is {b.dtype}, got an array of {a.dtype}", b.name)
    if a.ndim != len(b.shape):
        raise InterpretError(
            "arguments", f"{b.name} has {len(b.shape)} dimension(s), got an array of shape {a.shape}", b.name
        )
    return a


def _scalar(v: Var, a: Any) -> Any:
    t: DType = v.dtype
    if t.code == "float":
        return t.to_numpy().type(a)
    if t.is_bool:
        return bool(a)
    return t.wrap(int(a)) if t.is_int else np.float32(a)


def value_of(e: Expr, known: Mapping[Var, int]) -> int:
    n = const_int(substitute(e, {v: make.const(x, v.dtype) for v, x in known.items()}))
    assert n is not None
    return n


# a buffer, its dimension, what was declared and what the array has
_Measured = tuple[Buffer, int, Expr, int]


def solve(
    func: Func, arrays: Mapping[Buffer, np.ndarray[Any, Any]], given: Mapping[str, int]
) -> dict[Var, int]:
    """The values of the symbolic sizes, in the order of ``func.dims``, checked against every shape and what
    is known of them.

    Strides of an array are asked for where it has more than one element along an axis; those that nothing
    tells are 0."""
    known: dict[Var, int] = {d: int(given[d.name]) for d in func.dims if d.name in given}
    sizes = [(b, i, n, array.shape[i]) for b, array in arrays.items() for i, n in enumerate(b.shape)]
    sizes += [
        (b, i, n, array.strides[i] // array.itemsize)
        for b, array in arrays.items()
        for i, n in enumerate(b.strides or ())
        # numpy leaves strides of what has one element or none as they happen to be
        if array.size and array.shape[i] > 1
    ]

    _propagate(func, sizes, known)
    shaped = {v for b in arrays for n in b.shape for v in variables(n)}
    # strides that no array tells: of one element any will do
    known |= {d: max(0, d.lo or 0) for d in func.dims if d not in known and d not in shaped}
    lost = [d.name for d in func.dims if d not in known]
    if lost:
        raise InterpretError(
            "arguments",
            f"the size {lost[0]} cannot be solved from the shapes; give dims={{{lost[0]!r}: ...}}",
        )
    _check_sizes(func, sizes, known)
    return {d: known[d] for d in func.dims}


def _with(e: Expr, known: Mapping[Var, int]) -> Expr:
    return substitute(e, {v: make.const(n, v.dtype) for v, n in known.items()})


def _propagate(func: Func, sizes: Sequence[_Measured], known: dict[Var, int]) -> None:
    """Add the dims that the measured sizes tell: one may tell another, so until nothing is new."""
    progress = True
    while progress and len(known) < len(func.dims):
        progress = False
        for _, _, n, size in sizes:
            rest = _with(n, known)
            free = variables(rest)
            if len(free) != 1:
                continue
            (v,) = free
            p = linear.poly(rest)
            if set(p) <= {(), (v,)} and v not in known:  # c*v + k: the only form a shape can be solved for
                known[v] = (size - p.get((), 0)) // p[(v,)]
                progress = True


def _check_sizes(func: Func, sizes: Sequence[_Measured], known: Mapping[Var, int]) -> None:
    """Raises InterpretError where a size is not what the dims make it, or a dim not what was declared."""
    for b, i, n, size in sizes:
        want = _with(n, known)
        # as polynomials: what is left of a declared size must be the number, with nothing symbolic beside it
        if linear.poly(want) != ({(): size} if size else {}):
            raise InterpretError(
                "arguments",
                f"{b.name}: dimension {i} is {show(n)} = {show(want)}, the array has {size}",
                b.name,
            )
    for d in func.dims:
        x = known[d]
        if (d.lo is not None and x < d.lo) or (d.hi is not None and x > d.hi) or x % d.multiple_of:
            raise InterpretError("arguments", f"{d.name} = {x} is outside what {d.name} was declared to be")
