"""A definition with that of another in place of what it reads: what is left of inlining when nobody looks.

To write a producer into its reader, its body is renamed to the reader's axes: all of it, and all that was
written into it before. For a chain of n stages that are inlined one by one this is n² / 2. So a reader that
is a chain's link (one value, computed of one element of the producer) keeps the two definitions apart until
its body is asked for; then each is renamed once. What it reads is known without that. Knows tensors and
expressions, no schedules.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..expr.nodes import Add, Call, Const, Div, Expr, Max, Min, Mul, Sub, Var
from ..expr.walk import preorder, rewrite, substitute
from .tensor import Composed, ComputeOp, Operation, TensorRead

# Of floats these keep every operand: no rule turns them into something that reads less.
_KEEP = (Add, Sub, Mul, Div, Min, Max, Call)


def inlined(reader: ComputeOp, producer: ComputeOp, known_as: Operation) -> ComputeOp:
    """The reader with the body of ``producer``, no reduction, in place of each read of its tensors, which are
    those of ``known_as``."""
    # put together when somebody asks for the body: a chain of a hundred stages inlined one by one would be
    # rewritten a hundred times
    read = _link(reader, producer, known_as)
    if read is not None:
        names = dict(zip([a.var for a in producer.axis], read.indices, strict=True))
        return reader.redefined(_Link(reader, producer, read, names))

    def written_out(e: Expr) -> Expr | None:
        if type(e) is not TensorRead or e.tensor.op is not known_as:
            return None
        names = dict(zip([a.var for a in producer.axis], e.indices, strict=True))
        return substitute(producer.body[e.tensor.value_index], names)

    return reader.redefined(tuple(rewrite(e, written_out) for e in reader.body))


def _link(reader: ComputeOp, producer: ComputeOp, known_as: Operation) -> TensorRead | None:
    """The read of the producer in its reader, if that is all that it reads, one element at axes of its own,
    and both compute one value by operations that keep what they are given."""
    if len(reader.reads) != 1 or len(reader.outputs) != 1 or len(producer.outputs) != 1:
        return None
    (read,) = reader.reads
    places = {i for i in read.indices if type(i) is Var}
    if read.tensor.op is not known_as or len(places) < len(read.indices) or not producer.reads:
        return None
    return read if _keeps(reader) and _keeps(producer) else None


def _keeps(op: ComputeOp) -> bool:
    if op.composed is not None:
        return True
    below = preorder(op.body[0], lambda e: () if type(e) is TensorRead else e.children())
    return all(
        e.dtype.is_float and e.dtype.lanes == 1 and type(e) in (*_KEEP, TensorRead, Const) for e in below
    )


class _Link(Composed):
    """``reader`` with ``producer`` in place of ``read``; ``names`` are the producer's axes in its words."""

    __slots__ = ("names", "producer", "read", "reader")

    def __init__(
        self, reader: ComputeOp, producer: ComputeOp, read: TensorRead, names: Mapping[Var, Expr]
    ) -> None:
        self.reader = reader
        self.producer = producer
        self.read = read
        self.names = names

    @property
    def parts(self) -> tuple[ComputeOp, ...]:
        return self.reader, self.producer

    def reads(self) -> tuple[TensorRead, ...]:
        """Those of the producer, renamed."""
        found = [substitute(r, self.names) for r in self.producer.reads]
        return tuple(dict.fromkeys([r for r in found if isinstance(r, TensorRead)]))

    def body(self) -> tuple[Expr, ...]:
        """The two as one expression. The producer may be such a link itself, a hundred times over."""
        links = [self]
        names = [self.names]
        while isinstance(link := links[-1].producer.composed, _Link):
            # a loop and no recursion: chains are longer than Python's stack
            names.append({v: substitute(e, names[-1]) for v, e in link.names.items()})
            links.append(link)
        value = substitute(links[-1].producer.body[0], names[-1])
        for link in reversed(links):
            value = rewrite(link.reader.body[0], lambda e: None, {link.read: value})
        return (value,)
