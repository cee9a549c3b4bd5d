"""What a kernel needs of its symbolic sizes beyond their own facts: what ``te.assume`` and operations state,
that nothing is read from empty tensors, and that no sum of axes runs past the end of a tensor of another
size.

``x[max(min(I[i], n - 1), 0)]`` is in bounds for every ``n`` but 0, where there is nothing to read: a kernel
that computes an element of it needs ``n >= 1``. So it is with remainders (``I[i] % n``) and with places that
only sizes decide (``x[0]``, ``x[n - 1]``). Calls with other sizes are refused before anything is written.
Knows computes and proofs; no loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..arith.conditions import denied, disjuncts, holds_when_nonneg, never_negative
from ..arith.facts import Facts
from ..errors import LowerError
from ..expr import make
from ..expr.linear import reads_data
from ..expr.nodes import Const, Expr, IfThenElse, Var, const_int
from ..expr.walk import variables
from ..schedule.bounds import Bounds
from ..schedule.relations import Split
from ..schedule.state import ScheduleState
from ..te.extern import OpaqueOp
from ..te.graph import operations
from ..te.inside import required_inside
from ..te.reducers import Reduce
from ..te.scan import ScanOp
from ..te.tensor import ComputeOp, TensorRead

Need = tuple[Expr, str]


def needs_of(state: ScheduleState) -> tuple[Need, ...]:
    """The conditions on sizes, each once with its reason. Raises LowerError for one that no sizes meet."""
    found: dict[Expr, str] = {}
    outputs = [t.op for stage in state.stages if stage.is_output for t in stage.op.outputs]
    for op in operations(outputs):  # as they were declared: no primitive changes what is read
        if isinstance(op, ComputeOp):
            for cond, why in (*op.needs, *_sources(op)):
                known = Facts(sizes=frozenset(v for v in variables(cond) if v.kind == "dim"))
                if _proved(known, cond) is False:
                    raise LowerError(f"`{op.name}` cannot be computed", because=why, try_="other shapes")
                if _proved(known, cond) is None:
                    found.setdefault(cond, why)
    partial = {
        stage.key for stage in state.stages if stage.within is not None or stage.in_part
    }  # some of their iterations never run
    for cond, why in required_inside(
        op for op in operations(outputs) if op not in partial and not isinstance(op, OpaqueOp)
    ):
        if found.keys().isdisjoint(disjuncts(cond)):
            found.setdefault(cond, why)
    return tuple(found.items())


def cuts_of(bounds: Bounds) -> Iterator[Need]:
    """What sizes that cut loops must be: positive, and such that the iterations of all tiles, the last one
    whole, can be counted."""
    for stage in bounds.state.stages:
        for rel in stage.relations:
            size = (rel.factor if rel.nparts is None else rel.nparts) if isinstance(rel, Split) else None
            if not isinstance(rel, Split) or size is None or const_int(size) is not None:
                continue
            (size,) = variables(size)  # without its cast to the type of the loop
            whole, wide = bounds[stage.name].loops[rel.parent], make.cast("int64", size)
            room = (
                make.le(wide, 1 << 62)
                if whole.dtype.name == "int64"
                else make.le(make.add(make.cast("int64", whole), wide), 0x7FFFFFFF)
            )
            for cond in (make.ge(size, 1), room):
                if not isinstance(cond, Const):
                    yield cond, f"{stage.name}.{rel.parent.name} is split by {size}, which needs {cond}"


def stated(sizes: Iterable[Var]) -> tuple[Need, ...]:
    """What ``te.assume`` said of these sizes, which are all that a call gives. Raises LowerError where it
    speaks of others: proofs rely on it, and nobody could check it."""
    given = sorted(sizes, key=lambda v: v.serial)
    for cond in (needs := dict.fromkeys(c for v in given for c in v.assumed)):
        lost = sorted(v.name for v in variables(cond) if not any(v is x for x in given))
        if lost:
            raise LowerError(
                f"te.assume({cond}) cannot be checked when the kernel is called",
                because=f"no argument gives `{lost[0]}`",
                try_=f"pass `{lost[0]}` as an argument",
            )
    return tuple((cond, f"te.assume({cond})") for cond in needs)


def _plain(cond: Expr) -> Expr:
    """An inequality in the one form that all of its meaning have."""
    p = never_negative(cond)
    return cond if p is None else holds_when_nonneg(p, cond.a.dtype)  # type: ignore[attr-defined]


def _proved(facts: Facts, cond: Expr) -> bool | None:
    return bool(cond.value) if isinstance(cond, Const) else facts.prove(cond)


def _sources(op: ComputeOp) -> Iterator[Need]:
    """Sizes that must not be 0, or not too small, for the reads of an operation."""
    if isinstance(op, ScanOp):  # its parts are operations of their own
        first, total = op.init[0].shape[0], op.state[0].shape[0]
        yield (
            _plain(make.le(*make.unify(first, total))),
            f"the scan {op.name} over {total} rows begins with {first}",
        )
        return
    if isinstance(op, OpaqueOp) or all(const_int(n) for t in op.input_tensors for n in t.shape):
        return
    axes = (*op.axis, *op.reduce_axis)
    if any(const_int(a.extent) == 0 for a in axes):
        return
    facts = Facts(
        sizes=frozenset(
            v
            for t in (*op.input_tensors, *op.outputs)
            for n in t.shape
            for v in variables(n)
            if v.kind == "dim"
        )
    )
    facts = facts.bind_all(
        [(a.var, a.dom[0], make.sub(make.add(a.dom[0], a.extent), 1)) for a in axes if a.dom is not None]
    )
    nothing = [make.lt(a.extent, 1) for a in axes if not _proved(facts, make.ge(a.extent, 1))]
    for cond in (*(denied(c) for c in nothing), *(c for c, _ in op.needs)):
        facts = facts.assume(cond)
    nothing = [
        c for c in nothing if not any(v.kind == "loop" for v in variables(c))
    ]  # a range that depends on the element: some are not empty
    walk = _Walk()
    for e in op.body:
        walk.expr(e, facts)
    for cond, read, d in walk.found:
        yield _unless(cond, nothing), _why(op, nothing, cond, read, d)


def _unless(cond: Expr, nothing: list[Expr]) -> Expr:
    """``cond``, or that there is nothing to compute."""
    for empty in nothing:
        cond = make.or_(cond, empty)
    return cond


def _why(op: ComputeOp, nothing: list[Expr], cond: Expr, read: TensorRead, d: int) -> str:
    t = read.tensor
    unless = f", unless {' or '.join(map(str, nothing))}" if nothing else ""
    return (
        f"{op.name} reads {t.name} ({', '.join(map(str, t.shape))}) along dimension {d}, which needs "
        f"{cond}{unless}"
    )


class _Walk:
    """Looks at every read under what is known where it stands."""

    def __init__(self) -> None:
        self.seen: set[tuple[Expr, int, bool]] = set()
        self.under: dict[tuple[Expr, int], Facts] = {}
        self.found: list[tuple[Expr, TensorRead, int]] = []

    def assume(self, facts: Facts, cond: Expr) -> Facts:
        if reads_data(cond):
            return facts
        key = (cond, id(facts))
        if key not in self.under:
            self.under[key] = facts.assume(cond)
        return self.under[key]

    def expr(self, e: Expr, facts: Facts) -> None:
        stack = [(e, facts, True)]
        while stack:
            node, known, sure = stack.pop()
            if (node, id(known), sure) in self.seen:
                continue
            self.seen.add((node, id(known), sure))
            if isinstance(node, IfThenElse):
                stack += [
                    (node.cond, known, sure),
                    (node.a, self.assume(known, node.cond), False),
                    (node.b, self.assume(known, denied(node.cond)), False),
                ]
                continue
            if isinstance(node, Reduce) and node.condition is not None:
                inside = self.assume(known, node.condition)
                stack += [
                    (node.condition, known, sure),
                    *((s, inside, False) for s in node.sources),
                    *((s, known, sure) for s in node.init or ()),
                ]
                continue
            if type(node) is TensorRead:
                self.read(node, known, sure)
            stack += [(c, known, sure) for c in node.children()]

    def read(self, read: TensorRead, facts: Facts, sure: bool) -> None:
        """``sure``: it takes place at every point."""
        for d, (i, n) in enumerate(zip(read.indices, read.tensor.shape, strict=True)):
            if const_int(n) or not i.dtype.is_index:
                continue
            wanted = [make.le(0, i), make.lt(i, n)]
            if all(_proved(facts, c) for c in wanted):
                continue
            some = _plain(make.ge(n, 1))
            if sure and not reads_data(i) and not any(v.kind == "loop" for v in variables(i)):
                self.found += [(_plain(c), read, d) for c in wanted if not _proved(facts, c)]
            elif sure if const_int(n) == 0 else all(_proved(self.assume(facts, some), c) for c in wanted):
                self.found.append((some, read, d))
