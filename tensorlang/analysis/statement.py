"""What a tuner may read of one statement: its loops, the memory it touches from each loop inwards, the
arithmetic it does. Knows nests."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.renamed import deprecated
from ..expr.nodes import Expr, Var
from ..schedule.state import StageState
from ..te.tensor import Tensor
from .nest import Loop, Nest, Nests, reads_of
from .quantity import amount, ceil_quotient, plus, times
from .span import slope
from .work import Work, work_of

FAR = 1 << 20  # the stride, in elements, of an access whose place cannot be predicted


@dataclass(frozen=True, slots=True)
class Access:
    """All reads (or the write) of one tensor by a statement.

    ``extents[p]`` is the box touched while loops ``p`` and inwards run (``p`` from 0 to the number of loops:
    the last is one iteration); ``strides[p]`` by how many elements the place (of the first read) moves when
    loop ``p`` takes one iteration; 0 for loops of other stages.
    """

    tensor: str
    scope: str
    write: bool
    bytes: int
    extents: tuple[tuple[Expr, ...], ...]
    strides: tuple[Expr, ...]
    count: int

    def elements(self, level: int) -> Expr:
        """How many elements are touched while the loops from ``level`` inwards run."""
        return times(*self.extents[level])

    def touched(self, level: int) -> Expr:
        """The same in bytes."""
        return times(*self.extents[level], self.bytes)

    def lines(self, level: int, line: int) -> Expr:
        """The same in cache lines of ``line`` bytes: rows that are not whole lines cost whole lines."""
        box = self.extents[level]
        return times(*box[:-1], ceil_quotient(times(box[-1], self.bytes), line)) if box else amount(1)


@dataclass(frozen=True, slots=True)
class Statement:
    """One compute statement of the schedule tree. ``iterations`` counts how often its body runs, guarded
    iterations included; ``points`` how many elements (times reduction steps) the declared computation has;
    ``apart`` is the same with the loops that were fused one by one, None where none were."""

    name: str
    loops: tuple[Loop, ...]
    own: int
    accesses: tuple[Access, ...]
    work: Work
    iterations: Expr
    points: Expr
    reduction: bool
    apart: Statement | None = None

    @property
    def unfused(self) -> Statement:
        """The same with its fused loops one by one, where some are. What stays in a cache is told by these:
        one loop over all tiles of rows and columns does not say that the columns are read again for each
        row."""
        return self.apart or self

    @property
    def turns(self) -> Expr:
        """``iterations`` under its old name."""
        deprecated("Statement.turns", "Statement.iterations")
        return self.iterations

    @property
    def flops(self) -> Expr:
        """All operations of the statement, a fused multiply-add counting as two."""
        return times(self.iterations, self.work.flops)

    def extent(self, level: int, until: int | None = None) -> Expr:
        """The product of the extents of the loops from ``level`` inwards (up to ``until``)."""
        return times(*[p.extent for p in self.loops[level:until]])

    def of_kind(self, kind: str) -> Expr:
        """The product of the extents of the loops of that kind."""
        return times(*[p.extent for p in self.loops if p.kind == kind])

    def first(self, kind: str) -> int | None:
        """The number of the outermost loop of that kind; None where there is none."""
        return next((p for p, loop in enumerate(self.loops) if loop.kind == kind), None)

    def touched(self, level: int) -> Expr:
        """Bytes of all tensors touched while the loops from ``level`` inwards run."""
        return plus(*[a.touched(level) for a in self.accesses])


def statement_of(nests: Nests, nest: Nest, accesses: bool = True) -> Statement:
    """The statement of one nest, with or without what it touches."""
    op = nest.stage.compute
    found = _accesses(nests, nest) if accesses else ()
    points = times(*[amount(nests.sizes(a.extent)) for a in (*op.axis, *op.reduce_axis)])
    return Statement(
        nest.stage.name,
        nest.loops,
        nest.start,
        found,
        work_of(op),
        times(*[p.extent for p in nest.loops]),
        points,
        bool(op.reduce_axis),
    )


def _accesses(nests: Nests, nest: Nest) -> tuple[Access, ...]:
    op = nest.stage.compute
    grouped: dict[Tensor, list[tuple[Expr, ...]]] = {}
    for r in reads_of(nest.stage):
        grouped.setdefault(r.tensor, []).append(r.indices)
    own = tuple(a.var for a in op.axis)
    steps = [nests.steps(nest, p) for p in range(len(nest.loops))]
    written = [_access(nests, nest, steps, t, [own], True) for t in op.outputs]
    return (*written, *[_access(nests, nest, steps, t, reads, False) for t, reads in grouped.items()])


def _access(
    nests: Nests,
    nest: Nest,
    steps: list[dict[Var, Expr]],
    tensor: Tensor,
    reads: list[tuple[Expr, ...]],
    write: bool,
) -> Access:
    stage = nests.state.of(tensor)
    box = nests.box(tensor)
    # a buffer is used again at each iteration of the loops around it: its memory is the box, however much
    # passes through
    extents = tuple(nests.region(nest, level, reads, box) for level in range(len(nest.loops) + 1))
    around = (
        0
        if is_argument(stage) or write or stage.name not in nests.by_stage
        else nests.by_stage[stage.name].start
    )
    first = [nests.sizes(e) for e in reads[0]]
    strides = tuple(amount(0) if p < around else _stride(first, step, box) for p, step in enumerate(steps))
    return Access(
        tensor.name,
        "argument" if is_argument(stage) else stage.scope,
        write,
        tensor.dtype.bytes,
        extents,
        strides,
        len(reads),
    )


def is_argument(stage: StageState) -> bool:
    """Whether the caller owns the memory."""
    return stage.is_placeholder or stage.is_output


def _stride(indices: list[Expr], step: dict[Var, Expr], box: tuple[Expr, ...]) -> Expr:
    """By how many elements an access moves where each axis moves by ``step``."""
    total, row = [], [amount(1)]
    for e, width in zip(reversed(indices), reversed(box), strict=True):
        move = slope(e, step)
        if move is None:
            return amount(FAR)
        total.append(times(move, *row))
        row.append(width)
    return plus(*total)
