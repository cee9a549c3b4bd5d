"""``scan``: a recurrence over one axis. Knows tensors and computes.

The state tensors, the initial rows, the update and the result are one block of memory: ``init`` writes its
first rows, and iteration ``t`` of the scan axis runs the update, which writes row ``t`` and reads rows before
it. (TVM's te.scan has the same form.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from ..core.dtype import INT32
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, Var, const_int
from ..protocols import Row
from .axis import IterVar
from .compute import compute
from .extern import OpaqueOp
from .graph import operations
from .inside import outside, span_of
from .tensor import ComputeOp, Operation, PlaceholderOp, Tensor

SCAN = "scan"


class ScanOp(OpaqueOp):
    """``axis`` is the scan axis alone; ``body`` reads the whole rows of ``update`` and ``init`` that an
    iteration needs, over ``spatial`` axes, which stand for all elements of a row."""

    __slots__ = ("init", "state", "update")
    kind = "a scan: its rows are written by its update"

    def __init__(
        self,
        name: str,
        axis: IterVar,
        init: tuple[Tensor, ...],
        update: tuple[Tensor, ...],
        state: tuple[Tensor, ...],
        tag: str = "",
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.init = init
        self.update = update
        self.state = state
        spatial: list[IterVar] = []
        body = (*[self.whole(spatial, u, axis.var) for u in update], *[self.whole(spatial, i) for i in init])
        self.spatial = tuple(spatial)
        super().__init__(name, (axis,), (), body, tag, attrs, ())
        self.outputs = Row("op.outputs", [Tensor(self, i, s.shape, s.dtype) for i, s in enumerate(state)])

    def dependent(self) -> tuple[Operation, ...]:
        """The operations that run once per iteration: those between the state and the update, producers
        first."""
        touched: dict[Operation, None] = {s.op: None for s in self.state}
        for op in operations([u.op for u in self.update]):
            # producers come first in the order, so one pass finds all
            if op not in touched and any(t.op in touched for t in op.input_tensors):
                touched[op] = None
        for u in self.update:  # an update that does not read the state still runs at its iteration
            touched[u.op] = None
        return tuple(
            op for op in operations(list(touched)) if op in touched and not isinstance(op, PlaceholderOp)
        )

    def in_part(self) -> tuple[Operation, ...]:
        """The operations that the iterations read and that stand outside them, but do not exist as wholes:
        they, or what they read, read ``X[t - 1]`` of an iteration that is none. Of those only the rows of the
        iterations are meant."""
        found: dict[Operation, None] = {}
        repeated = set(self.dependent())
        for op in operations([u.op for u in self.update]):
            if (
                isinstance(op, ComputeOp)
                and not isinstance(op, OpaqueOp)
                and op not in repeated
                and (
                    any(t.op in found for t in op.input_tensors)
                    # it reads rows that exist only while the scan runs, such as the one before the first
                    or next(outside(op, span_of(op)), None) is not None
                )
            ):
                found[op] = None
        return tuple(found)


def _listed(x: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    return (x,) if isinstance(x, Tensor) else tuple(x)


@overload
def scan(
    init: Tensor,
    update: Tensor | Sequence[Tensor],
    state_placeholder: Tensor | Sequence[Tensor],
    inputs: Sequence[Tensor] | None = None,
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor: ...
@overload
def scan(
    init: Sequence[Tensor],
    update: Sequence[Tensor],
    state_placeholder: Sequence[Tensor],
    inputs: Sequence[Tensor] | None = None,
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> list[Tensor]: ...
def scan(
    init: Tensor | Sequence[Tensor],
    update: Tensor | Sequence[Tensor],
    state_placeholder: Tensor | Sequence[Tensor],
    inputs: Sequence[Tensor] | None = None,
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor | list[Tensor]:
    """The result of a recurrence: a tensor like ``state_placeholder``, or a list of them for several states.

    ``init`` gives the first rows (its first dimension says how many), ``update`` row ``t`` from rows of the
    state before ``t``; both and the state agree in dtype and in every other dimension. ``inputs`` is accepted
    for TVM's sake and not needed. Raises DeclareError for states that do not fit together.

    >>> X = te.placeholder((4, 2), name="X")
    >>> state = te.placeholder((4, 2), name="state")
    >>> init = te.compute((1, 2), lambda _, i: X[0, i])
    >>> update = te.compute((4, 2), lambda t, i: state[t - 1, i] + X[t, i])
    >>> tl.compile([X, te.scan(init, update, state)])(np.ones((4, 2), np.float32))[:, 0]
    array([1., 2., 3., 4.], dtype=float32)
    """
    inits, updates, states = _listed(init), _listed(update), _listed(state_placeholder)
    if not len(inits) == len(updates) == len(states) > 0:
        raise DeclareError(
            f"scan {name!r}: {len(inits)} init, {len(updates)} update and {len(states)} state tensor(s)",
            because="each state has one of each",
        )
    for i, u, s in zip(inits, updates, states, strict=True):
        _check_state(name, i, u, s)
    first, total = _rows(name, inits, states)
    inits = tuple(_own(i) for i in inits)
    begin, end = make.unify(make.as_expr(first, INT32), make.as_expr(total, INT32))
    axis = IterVar(Var("t", begin.dtype, "loop"), (begin, make.sub(end, begin)), SCAN)
    op = ScanOp(name, axis, inits, updates, states, tag, attrs)
    return op.outputs[0] if isinstance(init, Tensor) else list(op.outputs)


def _check_state(name: str, i: Tensor, u: Tensor, s: Tensor) -> None:
    """Raises DeclareError unless a state has rows that begin as ``i`` and go on as ``u``."""
    if not isinstance(s.op, PlaceholderOp):
        raise DeclareError(
            f"scan {name!r}: the state {s.name} is not a placeholder",
            try_="te.placeholder of the shape of the result",
        )
    for what, t in (("init", i), ("update", u)):
        if t.ndim != s.ndim or t.ndim == 0:
            raise DeclareError(
                f"scan {name!r}: {what} {t.name} has {t.ndim} dimension(s), the state {s.name} {s.ndim}"
            )
        if t.dtype is not s.dtype:
            raise DeclareError(f"scan {name!r}: {what} {t.name} is {t.dtype}, the state {s.name} {s.dtype}")
        for d in range(0 if what == "update" else 1, s.ndim):
            # expressions are interned: equal sizes are one object
            if t.shape[d] is not s.shape[d]:
                raise DeclareError(
                    f"scan {name!r}: dimension {d} of {what} {t.name} is {t.shape[d]}, of the state "
                    f"{s.name} {s.shape[d]}"
                )
    if not isinstance(u.op, ComputeOp) or isinstance(u.op, ScanOp):
        raise DeclareError(f"scan {name!r}: the update {u.name} is not a te.compute")


def _rows(name: str, inits: Sequence[Tensor], states: Sequence[Tensor]) -> tuple[Expr, Expr]:
    """How many rows are given and how many there are, the same for all states. Raises DeclareError."""
    first, total = inits[0].shape[0], states[0].shape[0]
    for i, s in zip(inits, states, strict=True):
        if i.shape[0] is not first or s.shape[0] is not total:
            raise DeclareError(
                f"scan {name!r}: the states do not run over the same rows",
                because=f"{i.name} begins with {i.shape[0]} rows of {s.shape[0]}, {inits[0].name} with "
                f"{first} of {total}",
            )
    n, m = const_int(first), const_int(total)
    # the first row has nothing before it to be made of
    if n is not None and (n < 1 or (m is not None and n > m)):
        raise DeclareError(
            f"scan {name!r}: init {inits[0].name} has {n} rows of {total}",
            because="at least one, and no more than the state",
        )
    return first, total


def _own(t: Tensor) -> Tensor:
    """``t`` itself when it can be written straight into the state, else a copy of it that can."""
    # an argument is the caller's memory, and the result of another scan is that one's
    if isinstance(t.op, ComputeOp) and not isinstance(t.op, ScanOp):
        return t
    return compute(t.shape, lambda *i: t[i], name=f"{t.name}.init")
