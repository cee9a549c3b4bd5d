"""An engine as one native call where a kernel counts how many rows of its result there are: what follows
computes its sizes from that number when it runs. Knows engines, plans and the native entry; compiles nothing.

A plan is for the sizes of the inputs, and for any count: memory is that of the largest one, which is proved
from the sizes, since each of them grows with the count. Outputs are written into arrays of that many
elements, and what is returned is the part that was filled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.dtype import dtype
from ..errors import CallError
from ..native.engine import (
    ADD,
    ARENA,
    CONSTANT,
    DIV,
    GIVEN,
    LEARN,
    MAX,
    MIN,
    MUL,
    NUMBER,
    SAME,
    SUB,
    UNPLANNED,
)
from .arena import rounded
from .arrays import address_of, empty
from .one_call import Whole
from .program import Host, Kernel, Program
from .run import MAX_PLANS, Form, Lines, Place, Planned, Sizes
from .steps import Run

if TYPE_CHECKING:
    from ..interface.signature import Signature
    from .engine import Engine

ROWS, COLUMNS = "first_rows", "first_columns"
_OPS = {"+": ADD, "-": SUB, "*": MUL, "//": DIV, "min": MIN, "max": MAX}
MOST_BYTES = 1 << 26  # for the largest counts, of temporary values and outputs each
FEW_BYTES = 1 << 16  # of an output that is kept together with the memory behind it
Results = Sequence[tuple[int, tuple[int, ...]]]


class _Unproved(Exception):
    """A size may be smaller for a larger count, or has no native form, or takes too much memory."""


class _Known(NamedTuple):
    """For inputs of some shapes: the largest elements of the outputs, and the sizes they tell."""

    most: list[int]
    sizes: list[int]


def counts(p: Program) -> bool:
    """Whether all that stands between the kernels of a program is the cutting of rows that were counted."""
    hosts = [s for s in p.steps if isinstance(s, Host)]
    made = {v for s in p.steps if not isinstance(s, Host) for k in s for v in p.kernels[k].outputs}
    if not hosts or not all(
        h.stored.function in (ROWS, COLUMNS) and made.issuperset(h.inputs) for h in hosts
    ):
        return False
    learned = [_dim(p, h) for h in hosts]
    return (
        p.rest is None
        and len(set(p.outputs)) == len(p.outputs)
        and all(v.dtype for v in p.values)
        and all(isinstance(d, str) for d in learned)
        and len({*learned, *(d.name for d in p.dims)}) == len(learned) + len(p.dims)
    )


class Counted(Whole):
    """The native call of such an engine."""

    def __init__(self, engine: Engine, results: Sequence[np.ndarray], signature: Signature) -> None:
        p = engine.program
        self._learned = [_dim(p, s) for s in engine.steps if isinstance(s, Host)]
        flat = [*(np.empty(0, a.dtype) for a in results), np.empty(0, np.int64)]
        super().__init__(engine, flat, signature, [*engine.output_names, "counts"])
        self._known: dict[tuple[tuple[int, ...], ...], _Known] = {}
        rows = [n for v in p.outputs for n in p.values[v].shape]
        self._ranks = [len(p.values[v].shape) for v in p.outputs]
        self._shapes = p.sizes.function(rows, [*(d.name for d in p.dims), *self._learned])
        if self.call is not None:  # the native entry would take arrays for counts from a caller
            self.call = self._without_outputs

    def filled(self, args: Sequence[Any], outs: Mapping[int, Any]) -> list[Any] | None:
        """The outputs; None for what must go step by step."""
        try:
            known = self._known[tuple([a.shape for a in args])]
        except (AttributeError, KeyError, TypeError):
            return None
        if outs or self._try is None:
            return None
        made = self._room(known)
        return self._cut(made, known) if self._try(*args, *made) is None else None

    def served(self, inputs: Sequence[np.ndarray], dims: Sequence[int], outs: Mapping[int, Any]) -> Any:
        """The outputs for inputs that were checked; None for what must go step by step."""
        known = self._known.get(tuple([a.shape for a in inputs]))
        if known is None or outs:
            return None
        made = self._room(known)
        status = self.plans.once(
            self._pack(*map(address_of, (*inputs, *made))), self._key(*dims, *(a.size for a in made))
        )
        if status not in (0, UNPLANNED):
            self.fail(status)
        return self._cut(made, known) if status == 0 else None

    def forms(self, inputs: Sequence[np.ndarray]) -> list[Form] | None:
        """Nobody knows them before the call."""
        return None

    def _room(self, known: _Known) -> list[Any]:
        made = [empty((n,), kind) for n, (_, kind) in zip(known.most, self._forms, strict=False)]
        return [*made, np.empty(len(self._learned), np.int64)]

    def _cut(self, made: Sequence[Any], known: _Known) -> list[Any]:
        """The parts of the outputs that were filled, in their shapes."""
        sizes, at, results = self._shapes(*known.sizes, *made[-1].tolist()), 0, []
        for a, rank in zip(made, self._ranks, strict=False):
            shape = sizes[at : at + rank]
            n, at = math.prod(shape), at + rank
            part = a if n == a.size else a[:n]
            # else a view would keep the memory of the largest count alive
            if a.nbytes > FEW_BYTES and 2 * n < a.size:
                part = part.copy()
            results.append(part.reshape(shape))
        return results

    def learn(
        self, inputs: Sequence[np.ndarray], dims: Mapping[str, int], results: Sequence[np.ndarray]
    ) -> None:
        """Have a plan for calls of these sizes."""
        engine, shapes = self._engine(), tuple([a.shape for a in inputs])
        if engine is None or shapes in self._known or engine.apart(dims):
            return
        sizes = [dims[d.name] for d in engine.program.dims]
        try:
            plan = _Plan(self, engine, dims)
            made = plan.made()
        except (_Unproved, CallError):
            return
        key = (*sizes, *plan.most, len(self._learned))
        self.plans.renew(key, made)
        while len(self._known) >= MAX_PLANS:
            self._known.pop(next(iter(self._known)), None)
        self._known[shapes] = _Known(plan.most, sizes)


class _Plan:
    """What runs for some dims: steps, and sizes that are computed on the way in an area of the arena."""

    def __init__(self, whole: Counted, e: Engine, dims: Mapping[str, int]) -> None:
        p = self.p = e.program
        self.whole, self.engine = whole, e
        self.dims = {d.name: dims[d.name] for d in p.dims}
        self.low, self.high = dict(self.dims), dict(self.dims)
        self.cells: dict[int, int] = {}  # rows whose number lies in the area
        self.count = 0
        self.pending: list[tuple[int, int, int, int]] = []  # instructions that no step has yet
        self.learned = [self.cell() for _ in whole._learned]
        slots = sum(len(k.slots) for k in p.kernels)
        self.end = rounded(8 * (2 * len(p.sizes.rows) + slots + 8 * (len(p.steps) + len(p.outputs) + 1)))
        self.base = self.end
        self.steps: list[Any] = []
        self.work = 0.0
        first = GIVEN + len(p.inputs)
        self.target = {v: (first + i, 0) for i, v in enumerate(p.outputs)}
        self.where: dict[int, Place] = {v: (GIVEN + i, 0) for i, v in enumerate(p.inputs)}
        self.where |= {v: (CONSTANT, address_of(e.constants[c])) for v, c in p.constants.items()}
        self.last = first + len(p.outputs)
        self.most: list[int] = []

    def made(self) -> Planned:
        p = self.p
        for step in self.engine.steps:
            self._run(step) if isinstance(step, Run) else self._cut(step)
        self.most = [math.prod(self._shape(v)) for v in p.outputs]
        if (
            max(self.end, sum(n * self._unit(v) for n, v in zip(self.most, p.outputs, strict=True)))
            > MOST_BYTES
        ):
            raise _Unproved  # which the counts of a call hardly ever need
        for v in p.outputs:
            if self.where[v] != self.target[v]:
                self._copy(v, self._product(p.values[v].shape), self.target[v])
        one, number = self._one(), self._number(len(self.learned))
        self._flush()
        source = ARENA, 8 * self.learned[0]
        self.steps.append(Lines(0, one, number, number, 8, source, (self.last, 0)))
        return Planned(self.steps, self.end, self.work, self.engine.steps)

    # -- steps

    def _run(self, run: Run) -> None:
        p = self.p
        slots, shapes = run.sized([self.high[d] for d in run.dims])
        run.sized([self.low[d] for d in run.dims])  # the least sizes can be, too
        rows = [n for k in run.kernels for n in k.slots] + [n for v in run.made for n in p.values[v].shape]
        self._prove(rows)
        sizes, cut = run.bytes(shapes), self._cut_later(run)
        for v in run.kept:
            out = v if v in self.target else cut.get(v)
            if out in self.target and out is not None and self.target[out] not in self.where.values():
                self.where[v] = self.target[out]
            else:
                self.where[v] = ARENA, self.base
                self.base += rounded(sizes[v])
        inner = [v for v in run.made if v not in self.where]
        offsets, more = run.placed(inner, shapes)
        self.where |= {v: (ARENA, self.base + at) for v, at in zip(inner, offsets, strict=True)}
        self.end = max(self.end, self.base + more)
        self.work += run.work(slots)
        numbers = [self.whole._number(run.loaded, k.code) for k in run.kernels]
        for k, step in zip(run.kernels, run.laid(slots, self.where, numbers), strict=True):
            place = self._slots(k)
            self._flush()
            self.steps.append(step if place is None else step._replace(computed=place))

    def _cut_later(self, run: Run) -> dict[int, int]:
        """What becomes of the values of a run of which the first rows are cut out."""
        later = (s for s in self.engine.steps if isinstance(s, Host) and s.stored.function == ROWS)
        return {s.inputs[0]: s.outputs[0] for s in later if s.inputs[0] is not None}

    def _cut(self, step: Host) -> None:
        """The first rows, or the first columns of each row."""
        source, count = step.inputs
        (out,) = step.outputs
        assert source is not None and count is not None
        rows = step.stored.function == ROWS
        shape = self.p.values[source].shape
        axis = 0 if rows else 1
        name, most = _dim(self.p, step), self._shape(source)[axis]
        self.low[name], self.high[name] = 0, most
        cell = self.learned[self.whole._learned.index(name)]
        bound, none = self._cell(shape[axis]), self._number(0)
        # cut to what there is: the count comes from memory, and a wrong one must not lead outside
        self._do(LEARN, *self.where[count], cell)
        self._do(MIN, cell, bound, cell)
        self._do(MAX, cell, none, cell)
        self.cells[self.p.sizes.rows.index(name)] = cell
        if rows:
            self.where[out] = self.where[source]
            return
        if out in self.target and self.target[out] not in self.where.values():
            self.where[out] = self.target[out]
        else:
            self.where[out] = ARENA, self.base
            self.base += rounded(math.prod(self._shape(source)) * self._unit(source))
        self.end = max(self.end, self.base)
        lines = self._cell(shape[0])
        self._flush()
        unit = self._unit(source)
        self.steps.append(Lines(0, lines, bound, cell, unit, self.where[source], self.where[out]))

    def _copy(self, v: int, length: int, to: Place) -> None:
        one = self._one()
        self._flush()
        self.steps.append(Lines(0, one, length, length, self._unit(v), self.where[v], to))

    def _slots(self, k: Kernel) -> Place | None:
        """Where the sizes of a kernel lie, if some depend on counts."""
        if not any(map(self._counted, k.slots)):
            return None
        sources = [self._cell(n) for n in k.slots]
        own = [self.cell() for _ in sources]
        for a, b in zip(sources, own, strict=True):
            self._do(SAME, a, 0, b)
        return ARENA, 8 * own[0]

    def _flush(self) -> None:
        if self.pending:
            self.steps.append(Sizes(0, tuple(self.pending)))
            self.pending.clear()

    # -- sizes

    def cell(self) -> int:
        """A new one, behind the others."""
        self.count += 1
        return self.count - 1

    def _do(self, op: int, a: int, b: int, to: int) -> None:
        self.pending.append((op, to, a, b))

    def _number(self, n: int) -> int:
        made = self.cell()
        self._do(NUMBER, n, 0, made)
        return made

    def _one(self) -> int:
        return self._number(1)

    def _counted(self, row: int) -> bool:
        """Whether a size depends on a count."""
        return any(d not in self.dims for d in self.p.sizes.dims([row]))

    def _cell(self, row: int) -> int:
        """Where the number of a row lies."""
        if row not in self.cells:
            what = self.p.sizes.rows[row]
            if not self._counted(row):
                self.cells[row] = self._number(self._value(row, self.dims))
            elif not isinstance(what, tuple):
                raise _Unproved  # a dim that is learned later
            else:
                a, b = (self._cell(n) for n in what[1:])
                self.cells[row] = self.cell()
                self._do(_OPS[what[0]], a, b, self.cells[row])
        return self.cells[row]

    def _product(self, rows: Sequence[int]) -> int:
        total = self._one()
        for n in rows:
            a, b, total = total, self._cell(n), self.cell()
            self._do(MUL, a, b, total)
        return total

    def _value(self, row: int, dims: Mapping[str, int]) -> int:
        names = self.p.sizes.dims([row])
        return self.p.sizes.function([row], names)(*(dims[n] for n in names))[0]

    def _shape(self, v: int) -> tuple[int, ...]:
        """The largest of a value."""
        return tuple(self._value(n, self.high) for n in self.p.values[v].shape)

    def _unit(self, v: int) -> int:
        return dtype(self.p.values[v].dtype).bytes

    def _prove(self, rows: Sequence[int]) -> None:
        """That sizes grow with the counts, from nothing on. Raises ``_Unproved``."""
        for i in self.p.sizes.needed(rows):
            row = self.p.sizes.rows[i]
            if not isinstance(row, tuple) or not self._counted(i):
                continue
            op, *operands = row
            if (
                op not in _OPS
                or (op in ("-", "//") and self._counted(operands[1]))
                or (op == "//" and self._value(operands[1], self.dims) < 1)
                or (op == "*" and min(self._value(n, self.low) for n in operands) < 0)
            ):
                raise _Unproved


def _dim(p: Program, step: Host) -> Any:
    """The dim that a step learns."""
    shape = p.values[step.outputs[0]].shape
    return p.sizes.rows[shape[0 if step.stored.function == ROWS else 1]]
