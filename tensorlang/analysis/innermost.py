"""What the loops of a kernel do in which something is computed: how many elements an iteration makes, what
runs in parallel, and the cycles that the table of costs counts. Knows loop IR after its passes, targets and
the table; no schedules.

Cycles are those of vector operations and of loads, as in :mod:`.cost`: a roof that no run gets below by much,
not a forecast of a clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..core.recursion import Steps, run
from ..expr.nodes import (
    Access,
    Add,
    Broadcast,
    Call,
    Cast,
    Const,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Mul,
    Ramp,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    const_int,
)
from ..expr.walk import preorder as nodes_of
from ..loopir.printer import Names, lines_of
from ..loopir.stmt import PARALLEL, For, Func, If, Load, Reduction, Stmt, Store
from ..target import Target
from .cost import Cost
from .sizes import Sizes

_WHOLE = (FloorDiv, FloorMod, TruncDiv, TruncMod)
IN_TILES = 1024  # products of 8 bits that a matrix unit sums in a cycle
_FREE = (Access, Broadcast, Cast, Const, Ramp, Var)


@dataclass(frozen=True, slots=True)
class Innermost:
    """A loop with what it stores itself, not in a loop within.

    ``loops`` are its name and those around it, the outermost first; ``writes`` names what it stores to,
    ``lanes`` is the widest of these stores (1: scalar), or what it folds into one element; ``iterations`` are
    those of a call, open sizes taken at their hints; ``divides`` says whether an index is divided by what is
    no constant; ``cycles`` are those of all iterations, of one core; ``in_tiles``: a matrix unit does it.
    """

    loops: tuple[str, ...]
    writes: tuple[str, ...]
    lanes: int
    iterations: int
    divides: bool
    parallel: str
    cycles: float
    in_tiles: bool

    @property
    def is_scalar(self) -> bool:
        """Whether an iteration makes one element at a time."""
        return self.lanes == 1


def innermost(func: Func, target: Target, cost: Cost) -> list[Innermost]:
    """The loops in which something is computed, inner ones first. Of a branch on sizes the first part counts,
    which is that of full tiles."""
    names = Names()
    lines_of(func, names)  # the names of the printed loop IR
    found: list[Innermost] = []
    sizes = Sizes()

    def walk(s: Stmt, around: tuple[For, ...], times: int) -> Steps[None]:
        if isinstance(s, For):
            n = const_int(sizes(s.extent))
            around, times = (*around, s), times * (1 if n is None else max(n, 0))
            for p in s.parts():
                yield walk(p, around, times)
            add(s.body, around, times)
            return
        for p in _parts(s):
            yield walk(p, around, times)

    def add(body: Stmt, around: tuple[For, ...], times: int) -> None:
        stores = list(_stores(body))
        if stores:
            found.append(_of(around, stores, times, names, target, cost))

    run(walk(func.body, (), 1))
    add(func.body, (), 1)
    return found


def _of(
    around: Sequence[For], stores: Sequence[Store], times: int, names: Names, target: Target, cost: Cost
) -> Innermost:
    seen: dict[Expr, None] = {}
    for s in stores:
        for e in s.exprs():
            seen.update(dict.fromkeys(nodes_of(e)))
    lanes = [max([i.dtype.lanes for i in s.indices] + [s.value.dtype.lanes]) for s in stores]
    folds = [e.value.dtype.lanes for e in seen if isinstance(e, Reduction)]
    parallel = next((names(f.var) for f in around if f.kind == PARALLEL), "")
    work = sum(_operations(e, target, cost) for e in seen) / cost.per_cycle
    # the loop over the rows of a tile may be this one, or the one around it
    tiled = target.has_tiles and any(key == "matrix_tiles" for f in around[-2:] for key, _ in f.attrs)
    if tiled:
        work = sum(lanes) / IN_TILES
    return Innermost(
        tuple(names(f.var) for f in around),
        tuple(dict.fromkeys(s.of or names.buffer(s.buffer) for s in stores)),
        max(lanes + folds, default=1),
        times,
        any(isinstance(e, _WHOLE) and e.dtype.is_index and const_int(e.b) is None for e in seen),
        parallel,
        times * (work + (0 if tiled else cost.turn)),
        tiled,
    )


def _parts(s: Stmt) -> tuple[Stmt, ...]:
    return s.parts()[:1] if isinstance(s, If) else s.parts()


def _stores(s: Stmt) -> Iterator[Store]:
    """The stores that a loop around ``s`` runs itself."""
    stack = [s]
    while stack:
        node = stack.pop()
        if isinstance(node, Store):
            yield node
        elif not isinstance(node, For):
            stack += _parts(node)[::-1]


def _operations(e: Expr, target: Target, cost: Cost) -> float:
    """Vector operations of one node: none for what an instruction that uses it does besides."""
    if isinstance(e, Load):
        count = 0.0 if e.buffer.scope == "local" else 1.0
    elif isinstance(e, _FREE) or e.dtype.is_index:
        return 0.0
    elif isinstance(e, Add | Sub) and target.has_fma and (isinstance(e.a, Mul) or isinstance(e.b, Mul)):
        count = 0.0  # one instruction with the product
    elif isinstance(e, Div | FloorDiv | FloorMod | TruncDiv | TruncMod):
        count = cost.division
    elif isinstance(e, Call):
        count = cost.call
    else:
        count = 1.0
    return count * -(-e.dtype.lanes // target.vector_lanes(e.dtype.element))
